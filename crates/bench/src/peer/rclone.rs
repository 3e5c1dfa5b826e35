use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::{Peer, Process, free_address, program_of_tests};
use crate::kernel::Version;

/// As `crates/bench/servers/rclone` installs it.
const VERSION: &str = "1.76.0";

/// `rclone serve nfs` with crypt over a directory, which stands for a cloud.
pub struct Rclone {
    program: PathBuf,
    nfs: SocketAddr,
    process: Process,
}

impl Rclone {
    pub fn new() -> Result<Rclone> {
        let program = program_of_tests(&format!("rclone-{VERSION}/server/rclone"));
        Ok(Rclone { program, nfs: free_address()?, process: Process::default() })
    }

    /// A password as rclone keeps it.
    fn obscured(&self) -> Result<String> {
        let output = Command::new(&self.program).args(["obscure", "benchmark"]).output()?;
        ensure!(output.status.success(), "rclone obscure ended with {}", output.status);
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

impl Peer for Rclone {
    fn name(&self) -> &'static str {
        "rclone"
    }

    fn durability(&self) -> &'static str {
        "stable data and names: in its memory and the page cache, though answered as stable; in the cloud, encrypted, 5 s after the file was \
         closed, where nothing is synced"
    }

    fn not_installed(&self) -> Option<String> {
        (!self.program.exists()).then(|| format!("rclone {VERSION} is not installed: scripts/setup bench"))
    }

    fn start(&mut self, data: &Path) -> Result<()> {
        std::fs::create_dir_all(data.join("cloud"))?;
        let data = std::fs::canonicalize(data)?;
        let log = std::fs::File::options().create(true).append(true).open(data.join("log"))?;
        let mut command = Command::new(&self.program);
        command
            .env("RCLONE_CONFIG", "/dev/null")
            .env("RCLONE_CONFIG_SEALED_TYPE", "crypt")
            .env("RCLONE_CONFIG_SEALED_REMOTE", data.join("cloud"))
            .env("RCLONE_CONFIG_SEALED_PASSWORD", self.obscured()?)
            .args(["serve", "nfs", "sealed:", "--addr", &self.nfs.to_string(), "--cache-dir"])
            .arg(data.join("cache"))
            // What its manual recommends for writing, and enough room for all that is measured.
            .args(["--vfs-cache-mode", "full", "--vfs-cache-max-size", "10G", "--log-level", "ERROR"])
            .stdout(log.try_clone()?)
            .stderr(log);
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
        Version::V3 { commits: false }
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
        let script = include_str!("../../servers/rclone");
        assert!(script.contains(&format!("\nVERSION={VERSION}\n")));
    }
}
