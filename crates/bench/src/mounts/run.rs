//! One repetition: what it needs before, all clients at once, what it leaves.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::folder::Folder;
use super::peer::Mounted;
use super::program::Step;
use crate::compare::Sample;
use crate::kernel::Totals;
use crate::latency::{Latencies, Recorder};
use crate::personality::Act;
use crate::workload::{self, Done, PASSES, RANDOM_FILE, Workload};

pub fn measure(
    peer: &mut Mounted,
    workload: Workload,
    count: usize,
    shrink: u64,
    (first, last): (bool, bool),
) -> Result<Sample> {
    let share = (workload.amount(shrink) / count as u64).max(PASSES);
    let base = peer.directory().join(format!("bench-{count}"));
    let folders: Vec<Folder> = (0..count).map(|number| Folder::make(&base, number)).collect::<Result<_>>()?;
    let contents: Vec<_> =
        (0..count).map(|number| workload::content(number as u64, workload.content_bytes())).collect();
    each(&folders, |folder| prepare(folder, workload, share, first, &contents[folder.number]))?;
    peer.settle()?;
    let (clouds, cpu) = (peer.clouds()?, peer.cpu_micros()?);
    let done = run(workload, &folders, share, &contents)?;
    let cpu_in_run = peer.cpu_micros()? - cpu;
    peer.settle()?;
    let cpu_until_settled = peer.cpu_micros()? - cpu;
    let clouds = peer.clouds()?.iter().map(|it| it.since(&clouds)).collect();
    each(&folders, |folder| match workload {
        Workload::Program(program) => {
            program.check(folder.path())?;
            folder.remove_all()
        }
        Workload::Load(personality) if !last => folder.turn_back(personality),
        Workload::Create | Workload::SmallWrite(_) => folder.remove_all(),
        _ if last => folder.remove_all(),
        _ => Ok(()),
    })?;
    peer.settle()?;
    Ok(Sample::new(done, cpu_in_run, cpu_until_settled, Default::default(), clouds))
}

/// Makes what `workload` needs and does not measure. What lasts is made `first` only.
fn prepare(folder: &Folder, workload: Workload, share: u64, first: bool, content: &[u8]) -> Result<()> {
    match workload {
        Workload::Program(program) => program.prepare(folder.path()),
        Workload::SequentialReadWarm if first => folder.fill(share / PASSES, content),
        Workload::RandomRead(_) | Workload::RandomWrite(_) if first => folder.fill(RANDOM_FILE, content),
        Workload::Stat if first => (0..share / PASSES).try_for_each(|at| folder.create(at)),
        Workload::Unlink => (0..share).try_for_each(|at| folder.create(at)),
        Workload::SmallRead(_) if first => (0..share).try_for_each(|at| folder.write_small(at, content)),
        Workload::Load(personality) if first => folder.make_set(personality, content),
        _ => Ok(()),
    }
}

/// Runs it over all folders at once: a thread for each operation that is on the way.
fn run(workload: Workload, folders: &[Folder], share: u64, contents: &[bytes::Bytes]) -> Result<Done> {
    let lanes = workload.lanes(false);
    let barrier = Barrier::new(folders.len() * lanes);
    let recorder = Recorder::default();
    let mut begun = Vec::new();
    let mut ended = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let mut threads = Vec::new();
        for (folder, content) in folders.iter().zip(contents) {
            let next = Arc::<AtomicU64>::default();
            for number in 0..lanes {
                let (next, barrier, recorder) = (next.clone(), &barrier, &recorder);
                threads.push(scope.spawn(move || {
                    let lane = Lane::new(workload, folder, number, next, share, content);
                    barrier.wait();
                    let begun = Instant::now();
                    lane?.work(recorder)?;
                    anyhow::Ok((begun, Instant::now()))
                }));
            }
        }
        let mut failure = None;
        for thread in threads {
            match thread.join().map_err(|_| anyhow!("a client has panicked"))? {
                Ok((start, end)) => {
                    begun.push(start);
                    ended = ended.max(end);
                }
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(()), Err)
    })?;
    let (Some(first), Some(last)) = (begun.iter().min(), begun.iter().max()) else { bail!("nobody worked") };
    let latencies: Latencies = recorder.take();
    Ok(Done {
        seconds: (ended - *first).as_secs_f64(),
        units: share * folders.len() as u64,
        traffic: Totals::default(),
        latencies,
        skew: *last - *first,
        recalls: 0,
    })
}

/// One thread of a client.
struct Lane<'a> {
    workload: Workload,
    folder: &'a Folder,
    /// Of all lanes of the client: the next unit.
    next: Arc<AtomicU64>,
    share: u64,
    random: SmallRng,
    /// What it reads and writes in pieces.
    big: Option<File>,
    content: &'a [u8],
    acts: VecDeque<Act>,
    steps: VecDeque<Step>,
}

impl<'a> Lane<'a> {
    fn new(
        workload: Workload,
        folder: &'a Folder,
        number: usize,
        next: Arc<AtomicU64>,
        share: u64,
        content: &'a [u8],
    ) -> Result<Lane<'a>> {
        let acts = match workload {
            Workload::Load(personality) => personality.rounds(number).into_iter().flatten().collect(),
            _ => VecDeque::new(),
        };
        let steps = match workload {
            Workload::Program(program) => program.steps().into(),
            _ => VecDeque::new(),
        };
        let big = match workload {
            Workload::SequentialWrite
            | Workload::SequentialReadWarm
            | Workload::RandomRead(_)
            | Workload::RandomWrite(_) => Some(folder.big()?),
            _ => None,
        };
        let random = SmallRng::seed_from_u64((folder.number as u64) << 32 | number as u64);
        Ok(Lane { workload, folder, next, share, random, big, content, acts, steps })
    }

    /// All that is left, and what belongs to it at its end.
    fn work(mut self, recorder: &Recorder) -> Result<()> {
        loop {
            let asked = Instant::now();
            let Some(kind) = self.operation()? else { break };
            recorder.operation(kind, asked.elapsed(), Duration::ZERO);
        }
        if let (Workload::SequentialWrite, Some(file)) = (self.workload, &self.big) {
            let asked = Instant::now();
            file.sync_all()?;
            recorder.beside("commit", asked.elapsed());
        }
        Ok(())
    }

    /// The next operation, and its kind; none if there is no more.
    fn operation(&mut self) -> Result<Option<&'static str>> {
        if let Workload::Load(personality) = self.workload {
            let Some(act) = self.acts.pop_front() else { return Ok(None) };
            self.folder.act(personality, &act, self.content)?;
            return Ok(Some(act.kind()));
        }
        if let Workload::Program(_) = self.workload {
            let Some(step) = self.steps.pop_front() else { return Ok(None) };
            step.run(self.folder.path())?;
            return Ok(Some(step.kind));
        }
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        if n >= self.share {
            return Ok(None);
        }
        let place = self.random.random::<u64>();
        let folder = self.folder;
        Ok(Some(match (self.workload, &self.big) {
            (Workload::SequentialWrite, Some(file)) => {
                Folder::write_piece(file, n, self.content).map(|()| "write")?
            }
            (Workload::SequentialReadWarm, Some(file)) => {
                Folder::read_piece(file, n % (self.share / PASSES)).map(|()| "read")?
            }
            (Workload::RandomRead(_), Some(file)) => Folder::random_read(file, place).map(|()| "read")?,
            (Workload::RandomWrite(_), Some(file)) => {
                Folder::random_write(file, place, self.content).map(|()| "write")?
            }
            (Workload::Create, _) => folder.create(n).map(|()| "create")?,
            (Workload::Stat, _) => folder.stat(n % (self.share / PASSES)).map(|()| "stat")?,
            (Workload::Unlink, _) => folder.unlink(n).map(|()| "unlink")?,
            (Workload::SmallWrite(_), _) => folder.write_small(n, self.content).map(|()| "write")?,
            (Workload::SmallRead(_), _) => folder.read_small(place % self.share).map(|_| "read")?,
            (other, _) => bail!("{} is not for mount points", other.name()),
        }))
    }
}

/// All folders at the same time.
fn each(folders: &[Folder], work: impl Fn(&Folder) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = folders.iter().map(|folder| scope.spawn(move || work(folder))).collect();
        let mut results =
            threads.into_iter().map(|it| it.join().map_err(|_| anyhow!("a client has panicked"))?);
        results.find(Result::is_err).unwrap_or(Ok(()))
    })
}
