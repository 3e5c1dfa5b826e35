use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Result, bail, ensure};
use environment::SystemEntropy;
use ids::GatewayId;
use seal::{KeyFile, create_key_file};
use serde_json::Value;

use super::{CloudUse, Peer, drop_page_cache, free_address, kill};
use crate::PURGE_DELAY;

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

    /// Starts a gateway of its own configuration on a new data folder.
    pub fn configured(binary: &Path, data: &Path, configuration: &str) -> Result<Kurma> {
        std::fs::create_dir_all(data.join("keys"))?;
        let key = KeyFile::generate(GatewayId(1), &SystemEntropy::new());
        create_key_file(&data.join("keys/gateway.key"), &key)?;
        std::fs::write(data.join("kurma.toml"), configuration)?;
        let mut kurma = Kurma::new(binary)?;
        kurma.start(data)?;
        Ok(kurma)
    }

    /// A configuration with these clouds, which are directories; no backups. What is removed leaves the clouds when it is asked for, not while
    /// something is measured.
    pub fn on_directories(folder: &Path, clouds: &[&str]) -> Result<String> {
        let mut text =
            String::from("[gateway]\nid = 1\n[backup]\ninterval = \"0s\"\n[upkeep]\ngc_delay = \"0s\"\n");
        for name in clouds {
            let cloud = folder.join("clouds").join(name);
            std::fs::create_dir_all(&cloud)?;
            write!(text, "[[cloud]]\nname = \"{name}\"\nurl = \"dir:{}\"\n", cloud.display())?;
        }
        Ok(text)
    }

    /// Runs a command of the gateway's administrator.
    pub fn command(&self, args: &[&str]) -> Result<()> {
        self.ask(args, &[0]).map(drop)
    }

    /// The same for what it prints; its exit status must be one of `expected`.
    pub fn ask(&self, args: &[&str], expected: &[i32]) -> Result<String> {
        let url = format!("http://{}", self.admin);
        let output = Command::new(&self.binary).args(args).args(["--admin", &url]).output()?;
        let status = output.status.code().unwrap_or(-1);
        ensure!(
            expected.contains(&status),
            "kurma {args:?} ended with {status}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns when everything is in the clouds.
    pub fn flush(&self) -> Result<()> {
        self.command(&["flush", "--timeout", "5m"])
    }

    /// Forgets what could answer reads without the clouds.
    pub fn drop_cache(&self) -> Result<()> {
        self.command(&["cache", "drop"])
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
            .envs([("AWS_ACCESS_KEY_ID", "somebody"), ("AWS_SECRET_ACCESS_KEY", "secret")])
            .envs([PURGE_DELAY])
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

    fn clouds(&self) -> Result<Vec<CloudUse>> {
        let bill: Value = serde_json::from_str(&self.ask(&["cost", "--json"], &[0])?)?;
        let line = |line: &Value| {
            let number = |place| line.pointer(place).and_then(Value::as_u64).unwrap_or(0);
            CloudUse {
                cloud: line["cloud"].as_str().unwrap_or_default().to_owned(),
                put: number("/requests/put"),
                get: number("/requests/get"),
                list: number("/requests/list"),
                delete: number("/requests/delete"),
                uploaded_bytes: number("/uploaded_bytes"),
                downloaded_bytes: number("/downloaded_bytes"),
                money: line.pointer("/money/total").and_then(Value::as_f64),
            }
        };
        Ok(bill["clouds"].as_array().into_iter().flatten().map(line).collect())
    }

    fn make_cold(&mut self) -> Result<()> {
        self.settle()?;
        self.drop_cache()?;
        drop_page_cache()
    }

    fn settle(&mut self) -> Result<()> {
        self.flush()
    }
}

impl Drop for Kurma {
    fn drop(&mut self) {
        self.kill();
    }
}
