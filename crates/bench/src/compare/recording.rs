//! Where a server spends its time while clients work: by `perf record`, which `scripts/profile` makes flame graphs of.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// How long `perf` may take to begin.
const BEGINS: Duration = Duration::from_secs(5);

/// Samples a second of each thread that runs; no divisor of what else is periodic.
const SAMPLES: &str = "997";

/// A process that is being looked at.
pub struct Recording(Child);

impl Recording {
    /// Samples the stacks of the process and its threads into this file.
    pub fn begin(pid: u32, to: &Path) -> Result<Recording> {
        let _ = std::fs::remove_file(to); // of a run before
        let child = Command::new("perf")
            .args(["record", "-q", "-g", "-e", "cpu-clock", "-F", SAMPLES, "-p", &pid.to_string(), "-o"])
            .arg(to)
            .stdout(Stdio::null())
            .spawn()
            .context("starting perf")?;
        let mut recording = Recording(child);
        let limit = Instant::now() + BEGINS;
        // Its file is there once it is attached to all threads.
        while !to.exists() {
            let ended = recording.0.try_wait()?;
            ensure!(ended.is_none() && Instant::now() < limit, "perf does not attach to process {pid}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(recording)
    }

    /// The file is complete when this returns.
    pub fn end(mut self) -> Result<()> {
        let pid = Pid::from_raw(self.0.id() as i32).context("perf has no number")?;
        kill_process(pid, Signal::INT)?;
        self.0.wait()?;
        Ok(())
    }
}

/// Of a run that failed.
impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
