//! Steps to compounds, and results back to steps.

mod results;
mod run;

use std::time::Duration;

use futures::future::join_all;
use nfs4::{NfsResOp, NfsStatus, Outcome};
use nfs4_client::operations::close;
use nfs4_client::{ClientError, Reply};

use super::plan::{Bounds, Context, Opening, Plan, Work};
use super::position::Place;
use super::{Lane, Nfs};
use crate::step::{APPEND, Done, Read, Step};
use crate::{AttributeSet, Error, Failure, VectorResult};

pub(super) use run::Run;

/// Compounds of one call under way at once.
const PARALLEL: usize = 16;

/// Symbolic links that are followed for one step, as on Linux.
pub(super) const LINKS: u32 = 40;

/// How long a step is tried again that the server has no time for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The first pause before that, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(2));

/// How often a call lets a server find its compounds too large.
const REFUSALS: u32 = 16;

/// A step that was not done.
enum Obstacle {
    /// It is to be tried again, changed perhaps.
    Again,
    /// After a pause.
    Later,
    Failed(Error),
}

impl Nfs {
    /// Does the steps in order, up to the first that fails, in as few compounds as their number and size allows.
    pub async fn execute(&self, steps: Vec<Step>) -> VectorResult<Done> {
        let queue =
            steps.into_iter().enumerate().flat_map(|(index, step)| self.pieces(index, step)).collect();
        let mut run = Run::new(queue);
        while let Some((_, front)) = run.queue.front() {
            let round = match &front.step {
                Step::Write(write) if write.data.len() > self.transfer() => self.large(&mut run).await,
                Step::Write(write)
                    if write.offset == APPEND && front.size.is_none() && !self.extension.appends =>
                {
                    self.find_end(&mut run).await
                }
                _ => self.round(&mut run).await,
            };
            if let Err((error, unknown)) = round {
                return Err(Failure { done: run.complete(), error, unknown });
            }
        }
        Ok(run.done)
    }

    /// A READ of more than one operation can carry is several.
    pub(super) fn pieces(&self, index: usize, step: Step) -> Vec<(usize, Work)> {
        let work = |step| (index, Work { step, links: 0, size: None });
        let transfer = self.transfer() as u64;
        match step {
            Step::Read(read) if read.length > transfer => {
                let end = read.offset.saturating_add(read.length);
                let starts = (0..read.length.div_ceil(transfer)).map(|n| read.offset + n * transfer);
                let piece = |offset| Read { offset, length: transfer.min(end - offset), ..read.clone() };
                starts.take_while(|start| *start < end).map(|start| work(Step::Read(piece(start)))).collect()
            }
            step => vec![work(step)],
        }
    }

    /// One WRITE after the other would wait for each: a file of many pieces is opened, and they go side by side.
    async fn large(&self, run: &mut Run) -> Result<(), (Error, usize)> {
        let Some((index, work)) = run.queue.pop_front() else { return Ok(()) };
        if let Step::Write(write) = work.step {
            let written = self.write_large(&write).await.map_err(|error| (error, 0))?;
            run.finish(index, Done::Written(written));
        }
        Ok(())
    }

    /// Asks for the size of a file that the next step appends to.
    async fn find_end(&self, run: &mut Run) -> Result<(), (Error, usize)> {
        let Some((_, work)) = run.queue.front_mut() else { return Ok(()) };
        let target = work.step.target();
        let (follow, wanted) = (true, AttributeSet::SIZE);
        let ask = Step::GetAttributes { target, wanted, follow };
        match Box::pin(self.execute(vec![ask])).await.map(|mut done| done.pop()) {
            Ok(Some(Done::Attributes(attributes))) => work.size = Some(attributes.size.unwrap_or(0)),
            Ok(_) => return Err((Error::Unsupported("appending"), 0)),
            Err(failure) if failure.error.is_not_found() && creates(&work.step) => work.size = Some(0),
            Err(failure) => return Err((failure.error, 0)),
        }
        Ok(())
    }

    /// Sends what comes next: one compound, or several side by side if all of them only ask.
    async fn round(&self, run: &mut Run) -> Result<(), (Error, usize)> {
        let bounds = self.bounds();
        let mut plans: Vec<(Plan, Lane)> = Vec::new();
        let ready = self.ready(run);
        let mut planned = 0;
        while planned < ready.len() && plans.len() < PARALLEL {
            let rest = &ready[planned..];
            let lane = self.lanes.take();
            let context = self.context(&lane, bounds, false);
            let (plan, error) = Plan::of(rest, &context);
            if plan.pieces.is_empty() {
                match error {
                    Some(error) if plans.is_empty() => return Err((error, 0)),
                    _ => break,
                }
            }
            let too_long = plan.operations.len() > bounds.operations;
            let only_asks = rest[..plan.pieces.len()].iter().all(|work| only_asks(&work.step));
            if too_long && plans.is_empty() {
                return self.shorten(run, bounds).await;
            }
            if !plans.is_empty() && (too_long || !only_asks) {
                break;
            }
            planned += plan.pieces.len();
            plans.push((plan, lane));
            if !only_asks {
                break;
            }
        }
        let replies = join_all(plans.iter().map(|(plan, _)| self.send(plan))).await;
        for ((plan, _), reply) in plans.iter().zip(replies) {
            if !self.settle(run, plan, reply).await? {
                break;
            }
        }
        Ok(())
    }

    /// The steps that go into compounds as they are.
    fn ready(&self, run: &Run) -> Vec<Work> {
        let transfer = self.transfer();
        let is_ready = |work: &&Work| match &work.step {
            Step::Write(write) => {
                let known = write.offset != APPEND || work.size.is_some() || self.extension.appends;
                write.data.len() <= transfer && known
            }
            _ => true,
        };
        run.queue.iter().map(|(_, work)| work).take_while(is_ready).take(256 * PARALLEL).cloned().collect()
    }

    /// Takes what came of a compound; whether all of it was done and the next may be looked at.
    async fn settle(
        &self,
        run: &mut Run,
        plan: &Plan,
        reply: Result<Reply, ClientError>,
    ) -> Result<bool, (Error, usize)> {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) if error.asks_to_retry() => return self.pause(run, error).await.map(|()| false),
            // The limits are known better now.
            Err(ClientError::TooLarge { .. }) if run.refused < REFUSALS => {
                run.refused += 1;
                return Ok(false);
            }
            Err(ClientError::Unknown) => return Err((ClientError::Unknown.into(), plan.pieces.len())),
            Err(error) => return Err((error.into(), 0)),
        };
        let executed = reply.results.len() - usize::from(!reply.status.is_ok());
        for piece in &plan.pieces {
            if piece.operations.end > executed {
                self.clean_up(plan, &reply, executed).await;
                return match self.obstacle(run, &reply, piece.operations.start).await {
                    Obstacle::Again => Ok(false),
                    Obstacle::Later => {
                        let status = reply.status;
                        self.pause(run, ClientError::Refused { status }).await.map(|()| false)
                    }
                    Obstacle::Failed(error) => Err((error, 0)),
                };
            }
            run.delayed = None;
            let Some((index, work)) = run.queue.pop_front() else { break };
            let results = &reply.results[piece.operations.clone()];
            let key = &reply.results[piece.key];
            let more = self.take(run, index, work, results, key, piece.descriptor);
            match more.await.map_err(|error| (error, 0))? {
                None => {}
                Some(rest) => {
                    run.queue.push_front((index, rest));
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    pub(super) fn context<'a>(&'a self, lane: &'a Lane, bounds: Bounds, atomic: bool) -> Context<'a> {
        Context {
            root: &self.root,
            files: &self.files,
            owner: &lane.owner,
            bounds,
            transfer: self.transfer(),
            atomic,
        }
    }

    /// Why the first step in the queue was not done, and what is to be done about it.
    async fn obstacle(&self, run: &mut Run, reply: &Reply, first: usize) -> Obstacle {
        let Some((_, work)) = run.queue.front_mut() else { return Obstacle::Again };
        let status = reply.status;
        match status {
            // It was not its turn: a compound is cut off after an operation that filled it.
            NfsStatus::Ok => Obstacle::Again,
            NfsStatus::Delay | NfsStatus::Grace => {
                self.tried(work, reply, first);
                Obstacle::Later
            }
            NfsStatus::NotSame if work.size.is_some() => {
                work.size = None;
                Obstacle::Again
            }
            NfsStatus::RepTooBig
            | NfsStatus::RepTooBigToCache
            | NfsStatus::Resource
            | NfsStatus::TooManyOps
                if first > 0 =>
            {
                Obstacle::Again
            }
            NfsStatus::Symlink | NfsStatus::NotDir | NfsStatus::Same => {
                self.tried(work, reply, first);
                let target = work.step.target();
                match self.follow(work).await {
                    Ok(true) => Obstacle::Again,
                    Ok(false) => Obstacle::Failed(Error::Refused { target, status }),
                    Err(error) => Obstacle::Failed(error),
                }
            }
            status => Obstacle::Failed(Error::Refused { target: work.step.target(), status }),
        }
    }

    /// A step that is tried again must not fail because it got half-way: a file that it had to create is there now.
    fn tried(&self, work: &mut Work, reply: &Reply, first: usize) {
        let opened = reply.results.get(first..).unwrap_or_default().iter();
        let opened = opened.filter(|result| matches!(result, NfsResOp::Open(Outcome::Ok(_)))).count() > 0;
        if opened && let Step::Write(write) = &mut work.step {
            (write.create, write.truncate) = (None, false);
        }
    }

    /// Follows the first symbolic link on the way of a step; whether there was one.
    pub(super) async fn follow(&self, work: &mut Work) -> Result<bool, Error> {
        work.links += 1;
        if work.links > LINKS {
            return Err(Error::TooManyLinks(work.step.target()));
        }
        Box::pin(self.follow_link(&mut work.step)).await
    }

    /// Waits until the server may have time; fails if it has had none for too long.
    pub(super) async fn pause(&self, run: &mut Run, error: ClientError) -> Result<(), (Error, usize)> {
        let now = self.clock.monotonic();
        let (since, pause) = run.delayed.unwrap_or((now, PAUSE.0));
        if now - since > PATIENCE {
            return Err((error.into(), 0));
        }
        run.delayed = Some((since, (pause * 2).min(PAUSE.1)));
        self.clock.sleep(pause).await;
        Ok(())
    }

    /// Closes what a compound opened and did not get to close.
    async fn clean_up(&self, plan: &Plan, reply: &Reply, executed: usize) {
        for Opening { open, close: closing, file } in &plan.openings {
            let left = *open < executed && closing.is_none_or(|closing| closing >= executed);
            let kept = plan.pieces.iter().any(|piece| {
                piece.descriptor.is_some()
                    && piece.operations.contains(open)
                    && piece.operations.end <= executed
            });
            if let (true, false, Some(NfsResOp::Open(Outcome::Ok(opened)))) =
                (left, kept, reply.results.get(*open))
            {
                let mut operations = walk(file);
                operations.push(close(opened.state_id));
                // If it fails, the lease is what ends the open.
                let _ = self.compound(&operations).await;
            }
        }
    }

    /// A step that alone is more than a compound may be: gets at its directories first, and then opens and closes
    /// in compounds of their own.
    async fn shorten(&self, run: &mut Run, bounds: Bounds) -> Result<(), (Error, usize)> {
        let Some((index, work)) = run.queue.front_mut() else { return Ok(()) };
        let index = *index;
        let failed = |error| (error, 0);
        if self.shorten_paths(&mut work.step, bounds.operations).await.map_err(failed)? {
            return Ok(());
        }
        let step = work.step.clone();
        let done = self.in_three(step).await.map_err(failed)?;
        run.queue.pop_front();
        run.finish(index, done);
        Ok(())
    }
}

/// The way to an object, from the start.
pub(super) fn walk(place: &Place) -> Vec<nfs4::NfsArgOp> {
    let mut operations = vec![place.start.operation()];
    operations.extend(place.parts.iter().map(super::position::down));
    operations
}

/// Whether it has no effect at all, so that it may be under way beside others and be forgotten.
fn only_asks(step: &Step) -> bool {
    matches!(step, Step::Read(_) | Step::GetAttributes { .. } | Step::ReadLink(_))
}

fn creates(step: &Step) -> bool {
    matches!(step, Step::Write(write) if write.create.is_some())
}
