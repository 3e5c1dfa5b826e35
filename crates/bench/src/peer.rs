//! Servers under load: how each is started, killed and told to forget what it has cached.

mod dittofs;
mod ganesha;
mod kurma;
mod rclone;
mod zerofs;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::kernel::Version;

pub use dittofs::DittoFs;
pub use ganesha::{Ganesha, Names};
pub use kurma::Kurma;
pub use rclone::Rclone;
pub use zerofs::ZeroFs;

/// One server.
pub trait Peer {
    /// Short name for tables.
    fn name(&self) -> &'static str;

    /// What an acknowledged stable write or name means here.
    fn durability(&self) -> &'static str;

    /// What is missing on this machine, if it is not installed.
    fn not_installed(&self) -> Option<String> {
        None
    }

    /// Starts the process on `data`; a restart finds what was there.
    fn start(&mut self, data: &Path) -> Result<()>;

    /// SIGKILL.
    fn kill(&mut self);

    /// Where it listens.
    fn address(&self) -> SocketAddr;

    /// What it speaks.
    fn version(&self) -> Version {
        Version::V41
    }

    /// Whether it delegates files to clients that ask for it.
    fn delegates(&self) -> bool {
        false
    }

    /// Path of the tree to work in, from the root of the server.
    fn export(&self) -> &'static [&'static str] {
        &[]
    }

    /// Process id.
    fn pid(&self) -> u32;

    /// What its clouds have been asked for so far, if it has any.
    fn clouds(&self) -> Result<Vec<CloudUse>> {
        Ok(Vec::new())
    }

    /// Moves everything out of the caches that can be had again from behind, so that the next read is cold.
    fn make_cold(&mut self) -> Result<()> {
        drop_page_cache()
    }

    /// Waits for work behind the scenes to end, so that it does not count against the next workload.
    fn settle(&mut self) -> Result<()> {
        write_out();
        Ok(())
    }
}

/// The process of a server, which ends with this.
#[derive(Default)]
struct Process(Option<Child>);

impl Process {
    /// Has it started when it listens at `address`.
    fn start(command: &mut Command, address: SocketAddr) -> Result<Process> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).spawn().with_context(|| format!("starting {program}"))?;
        let mut process = Process(Some(child));
        process.wait_for(address)?;
        Ok(process)
    }

    /// Returns when it listens at `address`, too.
    fn wait_for(&mut self, address: SocketAddr) -> Result<()> {
        self.0.as_mut().map_or(Ok(()), |child| wait_for(address, child))
    }

    fn id(&self) -> u32 {
        self.0.as_ref().map_or(0, Child::id)
    }

    /// SIGKILL.
    fn kill(&mut self) {
        kill(&mut self.0);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What was asked of one cloud, of the kinds that providers charge for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CloudUse {
    pub cloud: String,
    pub put: u64,
    pub get: u64,
    pub list: u64,
    pub delete: u64,
    pub uploaded_bytes: u64,
    pub downloaded_bytes: u64,
    /// In the unit of the prices that the gateway was given, if it was.
    pub money: Option<f64>,
}

impl CloudUse {
    /// Adds what was asked of the same cloud at another time.
    pub fn add(&mut self, other: &CloudUse) {
        self.put += other.put;
        self.get += other.get;
        self.list += other.list;
        self.delete += other.delete;
        self.uploaded_bytes += other.uploaded_bytes;
        self.downloaded_bytes += other.downloaded_bytes;
        self.money = match (self.money, other.money) {
            (Some(own), Some(other)) => Some(own + other),
            (own, other) => own.or(other),
        };
    }

    /// What came after `before`.
    pub fn since(&self, before: &[CloudUse]) -> CloudUse {
        let none = CloudUse::default();
        let before = before.iter().find(|other| other.cloud == self.cloud).unwrap_or(&none);
        CloudUse {
            cloud: self.cloud.clone(),
            put: self.put - before.put,
            get: self.get - before.get,
            list: self.list - before.list,
            delete: self.delete - before.delete,
            uploaded_bytes: self.uploaded_bytes - before.uploaded_bytes,
            downloaded_bytes: self.downloaded_bytes - before.downloaded_bytes,
            money: self.money.map(|money| money - before.money.unwrap_or(0.0)),
        }
    }
}

/// Where `tests/servers/server.bash` has what the scripts in `crates/bench/servers` install.
fn program_of_tests(path: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| std::env::home_dir().unwrap_or_default().join(".cache"));
    cache.join("kurma-test").join(path)
}

/// Whether there is a program of this name in `PATH`.
fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// A port of loopback that is free now.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Waits until somebody listens at `address`.
pub fn wait_for(address: SocketAddr, child: &mut Child) -> Result<()> {
    let limit = Instant::now() + Duration::from_secs(30);
    while Instant::now() < limit {
        if std::net::TcpStream::connect(address).is_ok() {
            return Ok(());
        }
        if let Some(status) = child.try_wait()? {
            bail!("the server ended with {status}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("nobody listens at {address} after 30 s")
}

/// Ends a child with SIGKILL.
pub fn kill(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Drops the page cache of the machine.
pub fn drop_page_cache() -> Result<()> {
    write_out();
    std::fs::write("/proc/sys/vm/drop_caches", "3").context("dropping the page cache needs root")
}

/// Has the machine write its dirty pages to the disks.
pub fn write_out() {
    let _ = std::process::Command::new("sync").status();
}

/// Memory of a process that is not shared with the page cache, in bytes.
pub fn memory_bytes(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no RssAnon")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? << 10)
}

/// Processor time of a process so far, user and system, in microseconds.
pub fn cpu_micros(pid: u32) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(ticks * 10_000) // Linux counts in hundredths of a second
}
