use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{Peer, Process, free_address, program_of_tests};
use crate::PURGE_DELAY;
use crate::kernel::Version;

/// As `crates/bench/servers/zerofs` installs it.
const VERSION: &str = "0.19.1";

/// ZeroFS: everything in a log-structured store, whose objects are files on the same disk.
pub struct ZeroFs {
    program: PathBuf,
    nfs: SocketAddr,
    /// Whether those who write send COMMIT, for which it does not ask.
    commits: bool,
    process: Process,
}

impl ZeroFs {
    pub fn new(commits: bool) -> Result<ZeroFs> {
        let program = program_of_tests(&format!("zerofs-{VERSION}/bin/zerofs"));
        Ok(ZeroFs { program, nfs: free_address()?, commits, process: Process::default() })
    }

    /// As its manual has it, with NFS only, and room for all that is measured in its cache.
    fn configuration(&self, data: &Path) -> String {
        let (cache, store) = (data.join("cache"), data.join("store"));
        format!(
            "[cache]\ndir = {cache:?}\ndisk_size_gb = 10.0\nmemory_size_gb = 1.0\n\
             [storage]\nurl = \"file://{}\"\nencryption_password = \"benchmark\"\n\
             [servers.nfs]\naddresses = [\"{}\"]\n",
            store.display(),
            self.nfs
        )
    }
}

impl Peer for ZeroFs {
    fn name(&self) -> &'static str {
        if self.commits { "zerofs +C" } else { "zerofs" }
    }

    fn durability(&self) -> &'static str {
        match self.commits {
            false => {
                "stable data and names: in its memory, though answered as stable; in its store, encrypted and compressed, one copy, with the next \
                 COMMIT of anything, or after up to 30 s"
            }
            true => {
                "stable data: COMMIT is sent after each write, though it is answered as stable, and waits until all that is new is in its store, \
                 where nothing is synced; names: with the next COMMIT, or after up to 30 s"
            }
        }
    }

    fn not_installed(&self) -> Option<String> {
        (!self.program.exists()).then(|| format!("ZeroFS {VERSION} is not installed: scripts/setup bench"))
    }

    fn start(&mut self, data: &Path) -> Result<()> {
        std::fs::create_dir_all(data.join("store"))?;
        let data = std::fs::canonicalize(data)?;
        let configuration = data.join("zerofs.toml");
        std::fs::write(&configuration, self.configuration(&data))?;
        let log = std::fs::File::options().create(true).append(true).open(data.join("log"))?;
        let mut command = Command::new(&self.program);
        command.args(["run", "-c"]).arg(&configuration).stdout(log.try_clone()?).stderr(log);
        command.env_remove(PURGE_DELAY.0); // as it is built
        self.process = Process::start(&mut command, self.nfs)?;
        Ok(())
    }

    fn kill(&mut self) {
        self.process.kill();
    }

    fn address(&self) -> SocketAddr {
        self.nfs
    }

    fn version(&self) -> Version {
        Version::V3 { commits: self.commits }
    }

    fn pid(&self) -> u32 {
        self.process.id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_that_is_started_is_the_one_that_is_installed() {
        let script = include_str!("../../servers/zerofs");
        assert!(script.contains(&format!("\nVERSION={VERSION}\n")));
    }
}
