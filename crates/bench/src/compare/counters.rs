//! What a process does, counted by `perf stat`: instructions, where the machine can count them, and passes of the probes that
//! `scripts/profile` sets.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// How long `perf` may take to attach to all threads.
const ATTACHES: Duration = Duration::from_secs(10);

/// Where the kernel has the probes, one folder for each.
const PROBES: &str = "/sys/kernel/tracing/events/kurma";

/// Copies that count: shorter ones are those of names and numbers.
const LONG: &str = "size >= 4096";

/// Which events are counted. Many virtual machines have no counter of instructions.
pub struct Counters(Vec<String>);

/// A process that is being looked at.
pub struct Counting(Child);

/// How often each was seen.
pub type Counts = BTreeMap<String, u64>;

/// The event that is not a probe.
pub const INSTRUCTIONS: &str = "instructions";

impl Counters {
    /// Instructions; and the probes that there are, which cost the process time.
    pub fn available(probes: bool) -> Result<Counters> {
        let output = Command::new("perf").args(["stat", "-x,", "-e", INSTRUCTIONS, "true"]).output();
        let counts = output.map(|it| parsed(&String::from_utf8_lossy(&it.stderr))).unwrap_or_default();
        let mut events: Vec<String> = counts.into_keys().collect();
        if probes {
            let folders =
                std::fs::read_dir(PROBES).with_context(|| format!("{PROBES}: set by scripts/profile"))?;
            let names =
                folders.flatten().filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name());
            events.extend(names.map(|name| format!("kurma:{}", name.to_string_lossy())));
        }
        Ok(Counters(events))
    }

    /// Begins to count those of a process and its threads; none if there is nothing to count.
    pub fn count(&self, pid: u32) -> Result<Option<Counting>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let mut command = Command::new("perf");
        command.args(["stat", "-x,"]);
        for event in &self.0 {
            command.args(["-e", event]);
            if event.starts_with("kurma:copy") {
                command.args(["--filter", LONG]);
            }
        }
        let child =
            command.args(["-p", &pid.to_string()]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let counting = Counting(child);
        let limit = Instant::now() + ATTACHES;
        while counting.attached()? < self.0.len() * std::fs::read_dir(format!("/proc/{pid}/task"))?.count() {
            ensure!(Instant::now() < limit, "perf does not attach to process {pid}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Some(counting))
    }
}

impl Counting {
    /// Counters of threads.
    fn attached(&self) -> Result<usize> {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.0.id()))?;
        let targets = descriptors.flatten().filter_map(|it| std::fs::read_link(it.path()).ok());
        Ok(targets.filter(|target| target.to_string_lossy().contains("[perf_event]")).count())
    }

    /// How many there were.
    pub fn end(mut self) -> Result<Counts> {
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

/// The numbers in lines of `perf stat -x,`; without those that could not be counted.
fn parsed(text: &str) -> Counts {
    let count = |line: &str| {
        let mut fields = line.split(',');
        let count = fields.next()?.parse().ok()?;
        let event = fields.nth(1)?;
        Some((event.strip_prefix("kurma:").unwrap_or(event).to_owned(), count))
    };
    text.lines().filter_map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_counted_is_left_out() {
        let counted = "2087164,,instructions,1331543,100.00,,\n29,,kurma:alloc,1772318,100.00,,\n";
        assert_eq!(parsed(counted), Counts::from([("instructions".into(), 2_087_164), ("alloc".into(), 29)]));
        assert!(parsed("<not supported>,,instructions,0,100.00,,\n").is_empty());
        assert!(parsed("<not counted>,,instructions:u,0,100.00,,\n").is_empty());
        assert!(parsed("").is_empty());
    }
}
