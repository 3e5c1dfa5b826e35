use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Result, bail};

use super::{Peer, drop_page_cache, free_address, kill};

/// The gateway with its defaults: `rs:2+1` over three directory clouds on the same disk, tier `local`.
pub struct Kurma {
    binary: PathBuf,
    nfs: SocketAddr,
    admin: SocketAddr,
    child: Option<Child>,
}

impl Kurma {
    pub fn new(binary: &Path) -> Result<Kurma> {
        Ok(Kurma { binary: binary.to_owned(), nfs: free_address()?, admin: free_address()?, child: None })
    }

    /// Runs a command of the gateway's administrator.
    pub fn command(&self, args: &[&str]) -> Result<()> {
        let url = format!("http://{}", self.admin);
        let output = Command::new(&self.binary).args(args).args(["--admin", &url]).output()?;
        if !output.status.success() {
            bail!("kurma {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

impl Peer for Kurma {
    fn name(&self) -> &'static str {
        "kurma"
    }

    fn durability(&self) -> &'static str {
        "stable data and names: flushed to the journal before the answer (tier local); sealed and dispersed rs:2+1 behind"
    }

    fn start(&mut self, data: &Path) -> Result<()> {
        let log = std::fs::File::options().create(true).append(true).open(data.with_extension("log"))?;
        let mut child = Command::new(&self.binary)
            .args(["up", "--data"])
            .arg(data)
            .args(["--nfs", &self.nfs.to_string(), "--admin", &self.admin.to_string()])
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        if !line.starts_with("ready") {
            let _ = child.wait();
            bail!("kurma did not start; see {}", data.with_extension("log").display());
        }
        self.child = Some(child);
        Ok(())
    }

    fn kill(&mut self) {
        kill(&mut self.child);
    }

    fn address(&self) -> SocketAddr {
        self.nfs
    }

    fn delegates(&self) -> bool {
        true
    }

    fn export(&self) -> &'static [&'static str] {
        &["home"]
    }

    fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    fn make_cold(&mut self) -> Result<()> {
        self.settle()?;
        self.command(&["cache", "drop"])?;
        drop_page_cache()
    }

    fn settle(&mut self) -> Result<()> {
        self.command(&["flush", "--timeout", "5m"])
    }
}

impl Drop for Kurma {
    fn drop(&mut self) {
        self.kill();
    }
}
