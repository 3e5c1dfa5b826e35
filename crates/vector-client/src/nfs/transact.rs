//! All steps in one compound, done whole or not at all (T1 to T10).

use std::collections::VecDeque;

use nfs4::NfsStatus;
use nfs4_client::ClientError;

use super::Nfs;
use super::execute::{Run, cut_off, has_met_root, is_doubtful, refusal};
use super::links::keep_in_root;
use super::plan::{Bounds, Plan, Promise, Work};
use crate::step::{Done, Step};
use crate::transaction::Aborted;
use crate::{Error, Target};

impl Nfs {
    /// Does all the steps at one instant, or none of them.
    pub(super) async fn transact(&self, steps: Vec<Step>) -> Result<Vec<Done>, Aborted> {
        let whole = |error| Aborted { step: None, error, unknown: false };
        if self.extension.transactions.is_none() {
            return Err(whole(Error::Unsupported("a transaction")));
        }
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let queue: VecDeque<_> =
            steps.into_iter().enumerate().flat_map(|(index, step)| self.pieces(index, step)).collect();
        let mut run = Run::new(queue);
        loop {
            let work: Vec<Work> = run.queue.iter().map(|(_, work)| work.clone()).collect();
            let place = |piece: usize| run.queue.get(piece).map(|(index, _)| *index);
            let mut lane = self.lanes.take();
            let everything = Bounds {
                operations: usize::MAX,
                request: usize::MAX,
                reply: usize::MAX,
                kept_reply: usize::MAX,
            };
            let (plan, error) = Plan::of(&work, &self.context(&lane, everything, Promise::Whole));
            if let Some(error) = error {
                return Err(Aborted { step: place(plan.pieces.len()), error, unknown: false });
            }
            self.check_size(&plan).map_err(whole)?;
            run.doubts = self.client.doubts();
            lane.in_flight = true;
            let reply = match self.send(&plan).await {
                Ok(reply) => {
                    lane.in_flight = false;
                    reply
                }
                Err(error) => {
                    let unknown = is_doubtful(&error, &plan);
                    return Err(Aborted { step: None, error: error.into(), unknown });
                }
            };
            if reply.status.is_ok() && reply.results.len() < plan.operations.len() {
                let error = cut_off(&plan, &reply);
                return Err(Aborted { step: None, error, unknown: !plan.only_reads });
            }
            if reply.status.is_ok() {
                let taken = self.take_all(run, &plan, &reply.results).await;
                // It is done, whatever it says of what was before it.
                return taken.map_err(|error| Aborted { step: None, error, unknown: true });
            }
            let failed = reply.results.len().saturating_sub(1);
            let piece = plan.pieces.iter().position(|piece| piece.operations.contains(&failed));
            let step = piece.and_then(place);
            let status = reply.status;
            match (status, piece) {
                (NfsStatus::Delay | NfsStatus::Grace, _) => {
                    let paused = self.pause(&mut run, ClientError::Refused { status }).await;
                    paused.map_err(|(error, _)| Aborted { step, error, unknown: false })?;
                }
                (
                    NfsStatus::Symlink | NfsStatus::NotDir | NfsStatus::Same | NfsStatus::NotSame,
                    Some(piece),
                ) => {
                    let Some((_, work)) = run.queue.get_mut(piece) else { continue };
                    let error = refusal(&work.step, status);
                    let followed = self.follow(work).await;
                    let followed = followed.map_err(|error| Aborted { step, error, unknown: false })?;
                    if !followed {
                        return Err(Aborted { step, error, unknown: false });
                    }
                }
                (NfsStatus::NoEnt, Some(piece))
                    if has_met_root(&reply)
                        && run.queue.get_mut(piece).is_some_and(|(_, work)| keep_in_root(&mut work.step)) => {
                }
                (NfsStatus::Io, None) => {
                    // The commit failed: it may be there, and may be gone after a crash.
                    let error = Error::Refused { target: Target::from(""), status };
                    return Err(Aborted { step: None, error, unknown: true });
                }
                (status, piece) => {
                    let target = piece.and_then(|piece| run.queue.get(piece));
                    let target = target.map_or_else(|| Target::from(""), |(_, work)| work.step.target());
                    return Err(Aborted { step, error: Error::Refused { target, status }, unknown: false });
                }
            }
        }
    }

    fn check_size(&self, plan: &Plan) -> Result<(), Error> {
        let Some(limits) = self.transaction_limits_now() else { return Ok(()) };
        // COMPOUND_MODE is not counted.
        let operations = plan.operations.len() as u64 - 1;
        if operations > u64::from(limits.operations) {
            let (unit, needed, limit) = ("operations", operations, u64::from(limits.operations));
            return Err(Error::TooBig { unit, needed, limit });
        }
        if plan.request_bytes() as u64 > limits.bytes {
            let (unit, needed, limit) = ("bytes", plan.request_bytes() as u64, limits.bytes);
            return Err(Error::TooBig { unit, needed, limit });
        }
        let kept = self.most().kept_reply as u64;
        if plan.reply_bytes() as u64 > kept && !plan.only_reads {
            let (unit, needed) = ("bytes of results", plan.reply_bytes() as u64);
            return Err(Error::TooBig { unit, needed, limit: kept });
        }
        Ok(())
    }

    async fn take_all(
        &self,
        mut run: Run,
        plan: &Plan,
        results: &[nfs4::NfsResOp],
    ) -> Result<Vec<Done>, Error> {
        for piece in &plan.pieces {
            let Some((index, work)) = run.queue.pop_front() else { break };
            // A part that is left over would be a defect of the server: it does all or nothing.
            if self.take(&mut run, index, work, plan, piece, results).await?.is_some() {
                return Err(Error::Unsupported("a part of a step in a transaction"));
            }
        }
        Ok(run.done)
    }
}
