use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use serde_json::json;

use super::{Peer, Process, drop_page_cache, free_address, program_of_tests};

/// As `crates/bench/servers/dittofs` installs it.
const VERSION: &str = "0.29.0";
/// Whoever sets it up here, over loopback, is the one who has just made it.
const PASSWORD: &str = "benchmark";
const TOKEN_KEY: &str = "a key of thirty-two or more letters";

/// DittoFS: names in BadgerDB, content in its journal, both on the same disk, and no S3 server behind them.
pub struct DittoFs {
    /// Where `dfs` and `dfsctl` are.
    programs: PathBuf,
    nfs: SocketAddr,
    control: SocketAddr,
    /// Configuration, state and data.
    data: PathBuf,
    process: Process,
}

impl DittoFs {
    pub fn new() -> Result<DittoFs> {
        Ok(DittoFs {
            programs: program_of_tests(&format!("dittofs-{VERSION}/server")),
            nfs: free_address()?,
            control: free_address()?,
            data: PathBuf::new(),
            process: Process::default(),
        })
    }

    fn database(&self) -> PathBuf {
        self.data.join("control.db")
    }

    /// Of the process; everything else is kept in its database, and set by `dfsctl`. JSON is YAML.
    fn configuration(&self) -> serde_json::Value {
        json!({
            "logging": { "level": "WARN", "output": "stderr" },
            "database": { "type": "sqlite", "sqlite": { "path": self.database() } },
            "controlplane": { "host": "127.0.0.1", "port": self.control.port(), "jwt": { "secret": TOKEN_KEY } },
        })
    }

    /// One of its programs, which keeps everything in the folder of this server.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command
            .env("XDG_CONFIG_HOME", self.data.join("config"))
            .env("XDG_STATE_HOME", self.data.join("state"))
            .env("DITTOFS_ADMIN_INITIAL_PASSWORD", PASSWORD)
            .stdin(Stdio::null());
        command
    }

    /// Asks the running server for something: `dfsctl` with the words of `line`, and `values` behind them.
    fn control(&self, line: &str, values: &[&str]) -> Result<()> {
        let output = self.program("dfsctl").args(line.split(' ')).args(values).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "dfsctl {line} ended with {}: {said}", output.status);
        Ok(())
    }

    /// Makes stores and the share.
    fn set_up(&self) -> Result<()> {
        // By default names are on the disk up to 100 ms after the answer.
        let names = json!({ "path": self.data.join("names"), "relaxed_durability": false }).to_string();
        self.control("store metadata add --name=names --type=badger --config", &[&names])?;
        // COMMIT syncs the journal. Beyond `local` there is only `remote`, which is the same when the local store is a disk.
        let content = json!({ "path": self.data.join("content"), "durability": "local" }).to_string();
        self.control("store block local add --name=content --type=fs --config", &[&content])?;
        // Requests come by AUTH_SYS from root, who is to stay root, and is none of the users that the server knows.
        let share = "share create --name=/export --metadata=names --local=content";
        self.control(share, &["--squash=none", "--default-permission=read-write"])?;
        // The shortest there is: nobody comes back after SIGKILL to reclaim anything.
        self.control("adapter settings nfs update --grace-period=10", &[])?;
        self.control("adapter disable smb", &[])?;
        // A new server listens at a port of its own choice.
        self.control("adapter edit nfs --port", &[&self.nfs.port().to_string()])
    }
}

impl Peer for DittoFs {
    fn name(&self) -> &'static str {
        "dittofs"
    }

    fn durability(&self) -> &'static str {
        "stable data: only what COMMIT was sent for, which syncs the journal (a WRITE that is to be stable is answered as unstable); names: \
         BadgerDB syncs them before the answer (relaxed_durability: false)"
    }

    fn not_installed(&self) -> Option<String> {
        let is_there = ["dfs", "dfsctl"].iter().all(|name| self.programs.join(name).exists());
        (!is_there).then(|| format!("DittoFS {VERSION} is not installed: scripts/setup bench"))
    }

    fn start(&mut self, data: &Path) -> Result<()> {
        std::fs::create_dir_all(data)?;
        self.data = std::fs::canonicalize(data)?;
        let config = self.data.join("config.yaml");
        std::fs::write(&config, self.configuration().to_string())?;
        let is_new = !self.database().exists();
        let log = std::fs::File::options().create(true).append(true).open(self.data.join("log"))?;
        let mut command = self.program("dfs");
        command.args(["start", "--foreground", "--config"]).arg(&config).stdout(log.try_clone()?).stderr(log);
        self.process = Process::start(&mut command, self.control)?;
        let server = format!("http://{}", self.control);
        self.control("login --username=admin --password", &[PASSWORD, "--server", &server])?;
        if is_new {
            self.set_up()?;
        }
        self.process.wait_for(self.nfs)
    }

    fn kill(&mut self) {
        self.process.kill();
    }

    fn address(&self) -> SocketAddr {
        self.nfs
    }

    fn export(&self) -> &'static [&'static str] {
        &["export"]
    }

    fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Without a remote there is nothing to evict content to, but what is in memory goes.
    fn make_cold(&mut self) -> Result<()> {
        self.control("store block evict --read-buffer-only", &[])?;
        drop_page_cache()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_that_is_started_is_the_one_that_is_installed() {
        let script = include_str!("../../servers/dittofs");
        assert!(script.contains(&format!("\nVERSION={VERSION}\n")));
    }
}
