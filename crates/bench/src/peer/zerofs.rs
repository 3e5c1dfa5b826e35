use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use super::{Peer, drop_page_cache, free_address, kill, program_of_tests, wait_for, write_out};
use crate::kernel::Version;

/// As `crates/bench/servers/zerofs` installs it.
const VERSION: &str = "0.19.1";

/// ZeroFS: everything in a log-structured store, whose objects are files on the same disk.
pub struct ZeroFs {
    program: PathBuf,
    nfs: SocketAddr,
    /// Whether those who write send COMMIT, for which it does not ask.
    commits: bool,
    child: Option<Child>,
}

impl ZeroFs {
    pub fn new(commits: bool) -> Result<ZeroFs> {
        let program = program_of_tests(&format!("zerofs-{VERSION}/bin/zerofs"));
        Ok(ZeroFs { program, nfs: free_address()?, commits, child: None })
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
        let mut child = Command::new(&self.program)
            .args(["run", "-c"])
            .arg(&configuration)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("starting zerofs")?;
        let begun = wait_for(self.nfs, &mut child);
        self.child = Some(child);
        begun
    }

    fn kill(&mut self) {
        kill(&mut self.child);
    }

    fn address(&self) -> SocketAddr {
        self.nfs
    }

    fn version(&self) -> Version {
        Version::V3 { commits: self.commits }
    }

    fn delegates(&self) -> bool {
        false
    }

    fn export(&self) -> &'static [&'static str] {
        &[]
    }

    fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// What it has in its own memory stays there.
    fn make_cold(&mut self) -> Result<()> {
        drop_page_cache()
    }

    fn settle(&mut self) -> Result<()> {
        write_out();
        Ok(())
    }
}

impl Drop for ZeroFs {
    fn drop(&mut self) {
        self.kill();
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
