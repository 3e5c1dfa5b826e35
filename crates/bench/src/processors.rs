//! Which processors the servers have, and which the load.

use std::fs;

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Processors of two sorts, so that load and servers do not take time from each other.
#[derive(Clone, Copy)]
pub struct Processors {
    servers: CpuSet,
    load: CpuSet,
}

impl Processors {
    /// The first processor that this process may use for the servers, and the others for the load, which are all of its threads
    /// from now on.
    pub fn part() -> Result<Processors> {
        let all = sched_getaffinity(None).context("which processors there are")?;
        let parts = Processors::of(all).context("there is one processor only: --shared-processors")?;
        for thread in fs::read_dir("/proc/self/task")? {
            let id = thread?.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
            sched_setaffinity(id, &parts.load).context("to choose processors for the load")?;
        }
        Ok(parts)
    }

    fn of(all: CpuSet) -> Option<Processors> {
        let first = (0..CpuSet::MAX_CPU).find(|at| all.is_set(*at))?;
        let (mut servers, mut load) = (CpuSet::new(), all);
        servers.set(first);
        load.unset(first);
        (load.count() > 0).then_some(Processors { servers, load })
    }

    /// Does what starts a server: its process gets the processors that this thread has meanwhile.
    pub fn serving<T>(&self, start: impl FnOnce() -> Result<T>) -> Result<T> {
        sched_setaffinity(None, &self.servers).context("to choose a processor for a server")?;
        let started = start();
        sched_setaffinity(None, &self.load).context("to choose processors for the load")?;
        started
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_the_first_processor_and_the_load_all_others() {
        let mut all = CpuSet::new();
        [3, 5, 8].iter().for_each(|at| all.set(*at));
        let Processors { servers, load } = Processors::of(all).unwrap();
        let of = |set: CpuSet| (0..16).filter(|at| set.is_set(*at)).collect::<Vec<_>>();
        assert_eq!((of(servers), of(load)), (vec![3], vec![5, 8]));
    }

    #[test]
    fn one_processor_cannot_be_parted() {
        let mut all = CpuSet::new();
        all.set(2);
        assert!(Processors::of(all).is_none());
    }
}
