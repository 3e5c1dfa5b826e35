//! What it runs on.

use std::fmt;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// A machine, as a reader of a report wants to know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub cores: usize,
    pub processor: String,
    pub memory_bytes: u64,
    pub kernel: String,
}

/// This one.
pub fn machine() -> Machine {
    let value = |file: &str, name: &str| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let line =
            text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':').map(|(_, rest)| rest));
        line.unwrap_or(" unknown").trim().to_owned()
    };
    let kernel = Command::new("uname").arg("-r").output();
    let kilobytes = value("/proc/meminfo", "MemTotal");
    Machine {
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        processor: value("/proc/cpuinfo", "model name"),
        memory_bytes: kilobytes.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0u64) << 10,
        kernel: kernel.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned()).unwrap_or_default(),
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cores, processor, kernel, .. } = self;
        write!(out, "Machine: {cores} cores, {processor}, Linux {kernel}.")
    }
}
