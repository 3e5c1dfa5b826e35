//! A gateway process on emulated clouds.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Result, bail, ensure};
use environment::SystemEntropy;
use ids::GatewayId;
use seal::{KeyFile, create_key_file};

use super::emulator::Emulator;
use crate::peer::free_address;

/// What is not the same for all parts.
pub struct Shape {
    pub policy: &'static str,
    pub block_size: &'static str,
    /// Memory of the cache; there is no clean data on the disk.
    pub memory: &'static str,
    pub journal: &'static str,
    /// Of each cloud, in bytes a second.
    pub upload_rate: Option<u64>,
}

/// The process.
pub struct RunGateway {
    binary: PathBuf,
    pub nfs: SocketAddr,
    admin: SocketAddr,
    child: Child,
}

impl RunGateway {
    /// Starts it on a new data folder.
    pub fn start(binary: &Path, data: &Path, clouds: &[Emulator], shape: &Shape) -> Result<RunGateway> {
        std::fs::create_dir_all(data.join("keys"))?;
        let key = KeyFile::generate(GatewayId(1), &SystemEntropy::new());
        create_key_file(&data.join("keys/gateway.key"), &key)?;
        std::fs::write(data.join("kurma.toml"), configuration(clouds, shape)?)?;
        let (nfs, admin) = (free_address()?, free_address()?);
        let log = std::fs::File::create(data.with_extension("log"))?;
        let mut child = Command::new(binary)
            .args(["up", "--data"])
            .arg(data)
            .args(["--nfs", &nfs.to_string(), "--admin", &admin.to_string()])
            .envs([("AWS_ACCESS_KEY_ID", "somebody"), ("AWS_SECRET_ACCESS_KEY", "secret")])
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        if !line.starts_with("ready") {
            let _ = child.wait();
            bail!("kurma did not start: {}", std::fs::read_to_string(data.with_extension("log"))?);
        }
        Ok(RunGateway { binary: binary.to_owned(), nfs, admin, child })
    }

    /// Runs `kurma ARGS`; its exit status must be one of `expected`.
    pub fn kurma(&self, args: &[&str], expected: &[i32]) -> Result<String> {
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
        self.kurma(&["flush", "--timeout", "5m"], &[0]).map(drop)
    }

    /// Forgets what could answer reads without the clouds.
    pub fn drop_cache(&self) -> Result<()> {
        self.kurma(&["cache", "drop"], &[0]).map(drop)
    }
}

impl Drop for RunGateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(clouds: &[Emulator], shape: &Shape) -> Result<String> {
    let Shape { policy, block_size, memory, journal, upload_rate } = shape;
    let mut text = format!(
        "[gateway]\nid = 1\ndata = \".\"\nkey_file = \"keys/gateway.key\"\n\
         [cache]\nmemory = \"{memory}\"\ndisk = \"0\"\njournal = \"{journal}\"\nwrite_back_wait = \"500ms\"\n\
         [backup]\ninterval = \"0s\"\n[upkeep]\ngc_delay = \"5m\"\n"
    );
    for cloud in clouds {
        write!(text, "[[cloud]]\nname = \"{}\"\nurl = \"{}\"\n", cloud.name, cloud.url())?;
        if let Some(rate) = upload_rate {
            writeln!(text, "upload_rate = \"{rate}\"")?;
        }
    }
    let names: Vec<&str> = clouds.iter().map(|cloud| cloud.name).collect();
    write!(
        text,
        "[[volume]]\nname = \"home\"\npolicy = \"{policy}\"\nclouds = {names:?}\nblock_size = \"{block_size}\"\n"
    )?;
    Ok(text)
}
