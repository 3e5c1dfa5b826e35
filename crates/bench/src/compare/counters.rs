//! Instructions of a process, where the machine can count them: by `perf stat`.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// How long `perf` may take to attach to all threads.
const ATTACHES: Duration = Duration::from_secs(5);

/// Whether they can be counted: many virtual machines have no counters.
#[derive(Clone, Copy)]
pub struct Instructions(bool);

/// A process whose instructions are being counted.
pub struct Counting(Child);

impl Instructions {
    pub fn available() -> Instructions {
        let output = Command::new("perf").args(["stat", "-x,", "-e", "instructions", "true"]).output();
        let count = output.ok().and_then(|it| parsed(&String::from_utf8_lossy(&it.stderr)));
        Instructions(count.is_some())
    }

    /// Begins to count those of a process and its threads.
    pub fn count(self, pid: u32) -> Result<Option<Counting>> {
        if !self.0 {
            return Ok(None);
        }
        let child = Command::new("perf")
            .args(["stat", "-x,", "-e", "instructions", "-p", &pid.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let counting = Counting(child);
        let limit = Instant::now() + ATTACHES;
        while counting.attached()? < std::fs::read_dir(format!("/proc/{pid}/task"))?.count() {
            ensure!(Instant::now() < limit, "perf does not attach to process {pid}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Some(counting))
    }
}

impl Counting {
    /// Threads that have a counter.
    fn attached(&self) -> Result<usize> {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.0.id()))?;
        let targets = descriptors.flatten().filter_map(|it| std::fs::read_link(it.path()).ok());
        Ok(targets.filter(|target| target.to_string_lossy().contains("[perf_event]")).count())
    }

    /// How many there were.
    pub fn end(mut self) -> Result<Option<u64>> {
        let pid = Pid::from_raw(self.0.id() as i32).context("perf has no number")?;
        kill_process(pid, Signal::INT)?;
        let mut text = String::new();
        if let Some(mut output) = self.0.stderr.take() {
            output.read_to_string(&mut text)?;
        }
        self.0.wait()?;
        Ok(parsed(&text))
    }
}

/// The number in a line of `perf stat -x,`.
fn parsed(text: &str) -> Option<u64> {
    let line =
        text.lines().find(|line| line.split(',').nth(2).is_some_and(|it| it.starts_with("instructions")))?;
    line.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_counters_has_no_instructions() {
        let counted = "2087164,,instructions,1331543,100.00,,\n";
        assert_eq!(parsed(counted), Some(2_087_164));
        assert_eq!(parsed("<not supported>,,instructions,0,100.00,,\n"), None);
        assert_eq!(parsed("<not counted>,,instructions:u,0,100.00,,\n"), None);
        assert_eq!(parsed(""), None);
    }
}
