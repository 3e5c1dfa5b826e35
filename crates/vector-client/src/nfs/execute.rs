//! Steps to compounds, and results back to steps.

mod kept;
mod results;
mod run;
mod whole;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use nfs4::{NfsArgOp, NfsResOp, NfsStatus, OpCode, Outcome};
use nfs4_client::operations::{close, only_reads};
use nfs4_client::{ClientError, Reply};

use super::links::keep_in_root;
use super::plan::{Bounds, Context, Opening, Plan, Promise, Work, asks_for_more, place};
use super::position::Place;
use super::{Lane, Nfs};
use crate::step::{APPEND, Done, Read, Step};
use crate::{AttributeSet, Error, Failure, VectorResult};

use kept::{is_done_without, message_bytes};
pub(super) use run::Run;

/// Compounds of one call under way at once.
const PARALLEL: usize = 16;

/// Pieces of a long READ that are waiting at once.
const AHEAD: u64 = 256;

/// Symbolic links that are followed for one step, as on Linux.
pub(super) const LINKS: u32 = 40;

/// How long a step is tried again that the server has no time for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The first pause before that, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(2));

/// How often a call lets a server find its compounds too large.
pub(super) const REFUSALS: u32 = 16;

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
    pub async fn do_all(&self, steps: Vec<Step>) -> VectorResult<Done> {
        // What is asked again later must not have been changed meanwhile by the same vector.
        let keeps = self.cache.is_some() && steps.iter().all(only_asks);
        let pieces = |(index, step)| match keeps.then(|| self.kept(&step)).flatten() {
            Some(kept) => vec![(index, Work { kept: Some(kept), ..Work::new(step) })],
            None => self.pieces(index, step),
        };
        let mut run = Run::new(steps.into_iter().enumerate().flat_map(pieces).collect());
        run.keeps = keeps;
        self.find_kept(&mut run);
        while let Some((index, front)) = run.queue.front() {
            if let Some(done) = self.promised(&front.step) {
                let index = *index;
                run.queue.pop_front();
                run.finish(index, done);
                run.leave_out_beyond_ends();
                continue;
            }
            let round = match &front.step {
                Step::Read(read) if read.length > self.transfer() as u64 && front.kept.is_none() => {
                    self.split(&mut run);
                    Ok(())
                }
                Step::Write(write) if write.data.len() > self.written_together(write) => {
                    self.large(&mut run).await
                }
                Step::Write(write)
                    if write.offset == APPEND && front.size.is_none() && !self.extension.appends =>
                {
                    self.find_end(&mut run).await
                }
                _ => self.round(&mut run).await,
            };
            if let Err((error, unknown)) = round {
                if let Some((_, Work { step: Step::Read(read), .. })) = run.queue.front() {
                    self.leads_nowhere(&read.target);
                }
                return Err(Failure { done: run.complete(), error, unknown });
            }
        }
        Ok(run.done)
    }

    /// Takes the rest of a long READ apart, if there is any.
    fn split(&self, run: &mut Run) {
        if let Some((index, work)) = run.queue.pop_front() {
            for (_, piece) in self.pieces(index, work.step).into_iter().rev() {
                run.queue.push_front((index, Work { links: work.links, ..piece }));
            }
            self.find_kept(run);
        }
    }

    /// A READ of more than one operation can carry is several; of those beyond [`AHEAD`], one that is taken apart when it is
    /// its turn.
    pub(super) fn pieces(&self, index: usize, step: Step) -> Vec<(usize, Work)> {
        let work = |step| (index, Work::new(step));
        let transfer = self.transfer() as u64;
        match step {
            Step::Read(read) if read.length > transfer => {
                let end = read.offset.saturating_add(read.length);
                let piece = |offset, length: u64| {
                    work(Step::Read(Read { offset, length: length.min(end - offset), ..read.clone() }))
                };
                let start = |n: u64| read.offset.saturating_add(n.saturating_mul(transfer));
                let starts = (0..AHEAD).map(start).take_while(|start| *start < end);
                let rest = Some(start(AHEAD)).filter(|start| *start < end);
                starts
                    .map(|start| piece(start, transfer))
                    .chain(rest.map(|start| piece(start, u64::MAX)))
                    .collect()
            }
            step => vec![work(step)],
        }
    }

    /// One WRITE after the other would wait for each: a file of many pieces is opened, and they go side by side.
    async fn large(&self, run: &mut Run) -> Result<(), (Error, usize)> {
        let Some((index, work)) = run.queue.pop_front() else { return Ok(()) };
        if let Step::Write(write) = work.step {
            let written = self.write_large(&write).await;
            let written = written.map_err(|error| {
                let unknown = usize::from(error.is_unknown());
                (error, unknown)
            })?;
            run.finish(index, Done::Written(written));
        }
        Ok(())
    }

    /// Asks for the size of a file that the next step appends to.
    async fn find_end(&self, run: &mut Run) -> Result<(), (Error, usize)> {
        let Some((_, work)) = run.queue.front_mut() else { return Ok(()) };
        let target = work.step.target();
        let follow = matches!(&work.step, Step::Write(write) if write.follow);
        let wanted = AttributeSet::SIZE;
        let ask = Step::GetAttributes { target, wanted, follow };
        match Box::pin(self.do_all(vec![ask])).await.map(|mut done| done.pop()) {
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
        run.doubts = self.client.doubts();
        run.walk = self.walk();
        let mut plans: Vec<(Arc<Plan>, Lane)> = Vec::new();
        let ready = self.ready(run);
        let mut planned = 0;
        while planned < ready.len() && plans.len() < PARALLEL {
            let (promise, rest) = self.promise_of(&ready[planned..]);
            let rest = &rest[..rest.len().min(run.most)];
            let lane = self.lanes.take();
            let context = self.context(&lane, bounds, promise);
            // One OPEN is enough.
            let context = Context { holds: context.holds && plans.is_empty(), ..context };
            let (plan, error) = Plan::of(rest, &context);
            if plan.pieces.is_empty() {
                match error {
                    Some(error) if plans.is_empty() => {
                        self.close_lost(&error, rest.first());
                        return Err((error, 0));
                    }
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
            plans.push((Arc::new(plan), lane));
            if !only_asks {
                break;
            }
        }
        plans.iter_mut().for_each(|(_, lane)| lane.in_flight = true);
        let (doubts, walk) = (run.doubts, run.walk);
        let replies = join_all(plans.iter().map(|(plan, _)| self.send_and_hold(plan, doubts, walk))).await;
        for ((_, lane), reply) in plans.iter_mut().zip(&replies) {
            lane.in_flight = reply.is_err();
        }
        self.find_changed(
            run,
            plans.iter().map(|(plan, _)| &**plan).zip(replies.iter().map(|it| it.as_ref().ok())),
        );
        for ((plan, _), reply) in plans.iter().zip(replies) {
            if !self.settle(run, plan, reply).await? {
                break;
            }
        }
        run.leave_out_beyond_ends();
        Ok(())
    }

    /// What the server has open no longer need not be closed there.
    fn close_lost(&self, error: &Error, work: Option<&Work>) {
        if let (Error::Connection(ClientError::OpenLost { .. }), Some(Step::Close(number))) =
            (error, work.map(|work| &work.step))
            && let Some(file) = self.files.remove(*number)
        {
            self.client.closed(&file.open);
            self.promises.closing(&file.open);
        }
    }

    /// The steps that go into compounds as they are.
    fn ready(&self, run: &Run) -> Vec<Work> {
        let transfer = self.transfer();
        let is_ready = |work: &&Work| match &work.step {
            Step::Write(write) => {
                let known = write.offset != APPEND || work.size.is_some() || self.extension.appends;
                write.data.len() <= self.written_together(write) && known
            }
            Step::Read(read) => read.length <= transfer as u64 || work.kept.is_some(),
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
            Err(error) => {
                let unknown = if is_doubtful(&error, plan) { plan.pieces.len() } else { 0 };
                return Err((error.into(), unknown));
            }
        };
        if plan.atomic && !reply.status.is_ok() {
            return self.undone(run, plan, &reply).await.map(|()| false);
        }
        run.most = usize::MAX;
        let executed = reply.results.len().saturating_sub(usize::from(!reply.status.is_ok()));
        let message = message_bytes(plan, &reply.results);
        let mut left = Vec::new();
        for (number, piece) in plan.pieces.iter().enumerate() {
            let front = run.queue.front();
            let ended = piece.unless == Some(executed)
                && front.is_some_and(|(_, work)| is_done_without(&work.step, reply.status));
            // All of it was done, and only what it opened is open still: not a reason to do it again.
            let unclosed = piece.operations.end == executed + 1
                && plan.openings.iter().any(|opening| opening.close == Some(executed));
            if unclosed {
                self.clean_up(plan, &reply, executed).await;
            }
            if piece.operations.end > executed && !ended && !unclosed {
                self.clean_up(plan, &reply, executed).await;
                if reply.status.is_ok() && (number == 0 || plan.atomic) {
                    // Again would be the same again, or once more what was done.
                    let unknown = if plan.only_reads { 0 } else { plan.pieces.len() };
                    return Err((cut_off(plan, &reply), unknown));
                }
                if !left.is_empty() {
                    // Comes to it again after what is left of those before.
                    if let Some((_, work)) = run.queue.front_mut() {
                        self.tried(work, &reply, piece.operations.start);
                    }
                    break;
                }
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
            if left.last().is_some_and(|(before, _)| *before == index) {
                // What it has read comes after what is left to be read.
                left.push((index, work));
                continue;
            }
            if let (true, Step::Read(read), Some(kept)) = (ended, &work.step, &work.kept) {
                self.believe(piece, &kept.handle, kept.change);
                self.seen_again(&read.target, &kept.handle, run.walk);
                run.finish(index, Done::Read(kept.data.clone()));
                continue;
            }
            let results = &reply.results[piece.operations.start..piece.operations.end.min(executed)];
            if let Step::Read(read) = &work.step
                && read.target.descriptor().is_none()
            {
                self.came_to(&read.target, results, run.walk);
            }
            self.learn(&work, piece, results, message);
            let more = self.take(run, index, work, plan, piece, &reply.results);
            match more.await {
                Ok(None) => {}
                Ok(Some(rest)) => left.push((index, rest)),
                Err(error) => {
                    self.forget_closed(run, plan, number + 1, &reply.results[..executed]).await;
                    // A part of it may be done.
                    run.done.truncate(index);
                    let begun =
                        plan.pieces[number..].iter().filter(|piece| piece.operations.start < executed);
                    let unknown = if error.is_unknown() { begun.count() } else { 0 };
                    return Err((error, unknown));
                }
            }
            // Nothing that comes after it was begun.
            if ended || unclosed {
                break;
            }
            if run.done.len() <= index {
                // It begins anew; what follows it only asks, and is asked again.
                break;
            }
        }
        let all = left.is_empty() && reply.status.is_ok();
        // What followed is done already, and must not be done twice.
        for part in left.into_iter().rev() {
            run.queue.push_front(part);
        }
        Ok(all)
    }

    /// What a compound has closed, from this piece on, behind a step that turned out not to be done.
    async fn forget_closed(&self, run: &mut Run, plan: &Plan, first: usize, results: &[NfsResOp]) {
        let mut apart = Run::new(VecDeque::new());
        for piece in plan.pieces[first..].iter().take_while(|piece| piece.operations.end <= results.len()) {
            if let Some((_, work)) = run.queue.pop_front()
                && matches!(work.step, Step::Close(_))
            {
                // It fails for the same reason, if it does.
                let _ = self.take(&mut apart, 0, work, plan, piece, results).await;
            }
        }
    }

    pub(super) fn context<'a>(&'a self, lane: &'a Lane, bounds: Bounds, promise: Promise) -> Context<'a> {
        Context {
            root: &self.root,
            files: &self.files,
            owner: &lane.owner,
            bounds,
            transfer: self.transfer(),
            promise,
            keeps: self.cache.is_some() && promise == Promise::Plain,
            holds: self.held.has_room() && promise == Promise::Plain,
            promises: &self.promises,
        }
    }

    /// Why the first step in the queue was not done, and what is to be done about it.
    async fn obstacle(&self, run: &mut Run, reply: &Reply, first: usize) -> Obstacle {
        let asked_for_more = match (run.queue.front(), run.queue.get(1)) {
            (Some((_, work)), Some((_, next))) => !work.alone && asks_for_more(&work.step, next),
            _ => false,
        };
        let Some((_, work)) = run.queue.front_mut() else { return Obstacle::Again };
        let status = reply.status;
        if work.kept.take().is_some() {
            // Whatever it is, READ says it.
            return Obstacle::Again;
        }
        match status {
            NfsStatus::Access | NfsStatus::Perm | NfsStatus::Rofs | NfsStatus::ShareDenied
                if asked_for_more =>
            {
                work.alone = true;
                Obstacle::Again
            }
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
            NfsStatus::Symlink | NfsStatus::NotDir | NfsStatus::Same | NfsStatus::NotSame => {
                self.tried(work, reply, first);
                let refusal = refusal(&work.step, status);
                match self.follow(work).await {
                    Ok(true) => {
                        work.kept = run.keeps.then(|| self.kept(&work.step)).flatten();
                        Obstacle::Again
                    }
                    Ok(false) => Obstacle::Failed(refusal),
                    Err(error) => Obstacle::Failed(error),
                }
            }
            NfsStatus::NoEnt if has_met_root(reply) && keep_in_root(&mut work.step) => Obstacle::Again,
            status => Obstacle::Failed(refusal(&work.step, status)),
        }
    }

    /// A step that is tried again must not fail because it got half-way: a file that it had to create is there now, and cut.
    fn tried(&self, work: &mut Work, reply: &Reply, first: usize) {
        let results = reply.results.get(first..).unwrap_or_default();
        let opened = results.iter().any(|result| matches!(result, NfsResOp::Open(Outcome::Ok(_))));
        // OPEN cuts what it creates; what has no name it cannot create.
        let set = |result: &NfsResOp| matches!(result, NfsResOp::SetAttr(set) if set.status.is_ok());
        let cut = results.iter().any(set);
        let (target, create, truncate) = match &mut work.step {
            Step::Write(write) => (&write.target, &mut write.create, &mut write.truncate),
            Step::Copy(copy) => (&copy.destination, &mut copy.create, &mut copy.truncate),
            _ => return,
        };
        if opened {
            let has_name = place(target, &self.root, &self.files).is_ok_and(|place| place.split().is_some());
            *truncate &= !(cut || create.is_some() && has_name);
            *create = None;
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

/// The server says that all was done, but not what came of all of it.
pub(super) fn cut_off(plan: &Plan, reply: &Reply) -> Error {
    let expected = plan.operations.get(reply.results.len()).map_or(OpCode::Sequence, NfsArgOp::op_code);
    ClientError::UnexpectedResult { expected }.into()
}

/// The way to an object, from the start.
pub(super) fn walk(place: &Place) -> Vec<nfs4::NfsArgOp> {
    let mut operations = vec![place.start.operation()];
    operations.extend(place.parts.iter().map(super::position::down));
    operations
}

/// Whether it went up from the root: for LOOKUPP, that has no parent (RFC 8881 §18.14.3).
pub(super) fn has_met_root(reply: &Reply) -> bool {
    matches!(reply.results.last(), Some(NfsResOp::LookupParent(NfsStatus::NoEnt)))
}

/// What it means for a step that an operation of it failed. What is copied was found to be no regular file.
pub(super) fn refusal(step: &Step, status: NfsStatus) -> Error {
    match (step, status) {
        (Step::Copy(copy), NfsStatus::NotSame) => {
            Error::Refused { target: copy.source.clone(), status: NfsStatus::WrongType }
        }
        _ => Error::Refused { target: step.target(), status },
    }
}

/// Whether the compound may have been done, and may have changed something: a file, or whether one is open.
pub(super) fn is_doubtful(error: &ClientError, plan: &Plan) -> bool {
    crate::error::is_unknown(error) && !plan.operations.iter().all(only_reads)
}

/// Whether it has no effect at all, so that it may be under way beside others and be forgotten.
pub(super) fn only_asks(step: &Step) -> bool {
    matches!(step, Step::Read(_) | Step::GetAttributes { .. } | Step::ReadLink(_))
}

fn creates(step: &Step) -> bool {
    matches!(step, Step::Write(write) if write.create.is_some())
}
