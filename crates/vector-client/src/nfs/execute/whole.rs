//! Compounds that are done whole or not at all, one after the other.

use nfs4::NfsStatus;
use nfs4_client::{ClientError, Reply};

use super::{Obstacle, Run, only_asks};
use crate::nfs::Nfs;
use crate::nfs::plan::{Plan, Promise, Work};
use crate::step::Step;
use crate::{Error, Target};

impl Nfs {
    /// What a compound that begins with the first step promises, and the steps that may be in it.
    pub(super) fn promise_of<'a>(&self, work: &'a [Work]) -> (Promise, &'a [Work]) {
        let Some(first) = work.first().filter(|_| self.atomic) else { return (Promise::Plain, work) };
        let alike = work.iter().take_while(|work| is_whole(work) == is_whole(first)).count();
        let promise = if is_whole(first) { Promise::Atomic } else { Promise::Plain };
        (promise, &work[..alike])
    }

    /// Nothing of a compound was done. The steps before the one that failed come next, and then that one by itself.
    pub(super) async fn undone(
        &self,
        run: &mut Run,
        plan: &Plan,
        reply: &Reply,
    ) -> Result<(), (Error, usize)> {
        let status = reply.status;
        let failed = reply.results.len().saturating_sub(1);
        let about_size = matches!(
            status,
            NfsStatus::RepTooBig | NfsStatus::RepTooBigToCache | NfsStatus::Resource | NfsStatus::TooManyOps
        );
        match plan.pieces.iter().position(|piece| piece.operations.contains(&failed)) {
            _ if about_size && plan.pieces.len() > 1 => run.most = plan.pieces.len() / 2,
            Some(0) if is_copy_for_no_transaction(run, status) => {
                run.queue.iter_mut().take(1).for_each(|(_, work)| work.growing = true);
            }
            Some(0) => {
                // It got nowhere, wherever it got.
                let obstacle = self.obstacle(run, reply, reply.results.len()).await;
                match obstacle {
                    Obstacle::Again if !about_size => {}
                    Obstacle::Later => self.pause(run, ClientError::Refused { status }).await?,
                    Obstacle::Failed(error) => return Err((error, 0)),
                    Obstacle::Again => return Err((refused(run, status), 0)),
                }
            }
            Some(before) => run.most = before,
            None if matches!(status, NfsStatus::Delay | NfsStatus::Grace) => {
                self.pause(run, ClientError::Refused { status }).await?;
            }
            // The commit failed: it may be there, and may be gone after a crash.
            None if status == NfsStatus::Io => return Err((refused(run, status), plan.pieces.len())),
            None => return Err((refused(run, status), 0)),
        }
        Ok(())
    }
}

/// Whether it is to be done whole: others could see half of it.
fn is_whole(work: &Work) -> bool {
    match &work.step {
        Step::Open(open) => open.create.is_some() || open.truncate,
        Step::Close(_) | Step::Commit(_) => false,
        step => !only_asks(step) && !work.growing,
    }
}

/// Large ones, and those from one volume to another, are left to the server without a transaction.
fn is_copy_for_no_transaction(run: &Run, status: NfsStatus) -> bool {
    let is_copy = run.queue.front().is_some_and(|(_, work)| matches!(work.step, Step::Copy(_)));
    is_copy && matches!(status, NfsStatus::ReqTooBig | NfsStatus::Xdev)
}

fn refused(run: &Run, status: NfsStatus) -> Error {
    let target = run.queue.front().map_or_else(|| Target::from(""), |(_, work)| work.step.target());
    Error::Refused { target, status }
}
