use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{Peer, drop_page_cache, free_address, kill, program_of_tests, wait_for, write_out};
use crate::kernel::Version;

/// As `crates/bench/servers/rclone` installs it.
const VERSION: &str = "1.76.0";

/// `rclone serve nfs` with crypt over a directory, which stands for a cloud.
pub struct Rclone {
    program: PathBuf,
    nfs: SocketAddr,
    child: Option<Child>,
}

impl Rclone {
    pub fn new() -> Result<Rclone> {
        let program = program_of_tests(&format!("rclone-{VERSION}/server/rclone"));
        Ok(Rclone { program, nfs: free_address()?, child: None })
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
        let mut child = Command::new(&self.program)
            .env("RCLONE_CONFIG", "/dev/null")
            .env("RCLONE_CONFIG_SEALED_TYPE", "crypt")
            .env("RCLONE_CONFIG_SEALED_REMOTE", data.join("cloud"))
            .env("RCLONE_CONFIG_SEALED_PASSWORD", self.obscured()?)
            .args(["serve", "nfs", "sealed:", "--addr", &self.nfs.to_string(), "--cache-dir"])
            .arg(data.join("cache"))
            // What its manual recommends for writing, and enough room for all that is measured.
            .args(["--vfs-cache-mode", "full", "--vfs-cache-max-size", "10G", "--log-level", "ERROR"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("starting rclone")?;
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
        Version::V3 { commits: false }
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

    /// Its own cache on the disk is not the cloud, but cannot be emptied while it runs.
    fn make_cold(&mut self) -> Result<()> {
        drop_page_cache()
    }

    fn settle(&mut self) -> Result<()> {
        write_out();
        Ok(())
    }
}

impl Drop for Rclone {
    fn drop(&mut self) {
        self.kill();
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
