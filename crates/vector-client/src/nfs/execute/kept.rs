//! What was read before, instead of being read again.

use std::sync::Arc;

use nfs4::{NfsResOp, NfsStatus, Outcome};
use nfs4_client::Reply;

use super::Run;
use crate::AttributeSet;
use crate::nfs::Nfs;
use crate::nfs::attributes;
use crate::nfs::cache::Kept;
use crate::nfs::plan::{Piece, Plan, Work};
use crate::step::{Done, Step};

impl Nfs {
    /// What the step would read, if the file is as it was.
    pub(super) fn kept(&self, step: &Step) -> Option<Arc<Kept>> {
        let (Step::Read(read), Some(cache)) = (step, &self.cache) else { return None };
        let kept = match read.target.descriptor() {
            Some(descriptor) => {
                let file = self.files.get(descriptor).ok()?;
                let may_read = file.open.access() & nfs4::bits::share_access::READ != 0;
                let is_open = may_read && file.open.state_id().is_ok();
                is_open.then(|| cache.find(file.open.handle(), read)).flatten()
            }
            None => cache.find(&cache.handle_of(&read.target)?, read),
        };
        kept.map(Arc::new)
    }

    /// Looks for what the READs that are waiting would bring.
    pub(super) fn find_kept(&self, run: &mut Run) {
        if run.keeps {
            for (_, work) in run.queue.iter_mut().filter(|(_, work)| work.kept.is_none()) {
                work.kept = self.kept(&work.step);
            }
        }
    }

    /// All of a compound that is not as it was will be read, so that this takes one more compound and not one for each.
    pub(super) fn find_changed(&self, run: &mut Run, plan: &Plan, reply: &Reply) {
        for (piece, (_, work)) in plan.pieces.iter().zip(&mut run.queue) {
            let (Some(kept), Some(NfsResOp::GetAttr(Outcome::Ok(got)))) =
                (&work.kept, reply.results.get(piece.key))
            else {
                continue;
            };
            if !got.values().is_ok_and(|values| kept.is_proved_by(&values)) {
                if let Some(cache) = &self.cache {
                    cache.forget(&kept.handle);
                }
                work.kept = None;
            }
        }
    }

    /// What came of the step, if that is certain without asking: the file is delegated, and what is wanted is known.
    pub(super) fn promised(&self, step: &Step) -> Option<Done> {
        let cache = self.cache.as_ref()?;
        match step {
            Step::Read(read) => {
                let file = self.files.get(read.target.descriptor()?).ok()?;
                let change = self.promises.change_of(file.open.handle())?;
                let may_read = file.open.access() & nfs4::bits::share_access::READ != 0;
                let is_good = may_read && file.open.state_id().is_ok() && self.client.holds_lease();
                let kept = cache.find(file.open.handle(), read).filter(|_| is_good)?;
                (kept.change == change).then_some(Done::Read(kept.data))
            }
            Step::GetAttributes { target, wanted, .. } => {
                let file = self.files.get(target.descriptor()?).ok()?;
                let known = self.promises.attributes_of(file.open.handle(), *wanted)?;
                let is_good = file.open.state_id().is_ok() && self.client.holds_lease();
                is_good.then(|| Done::Attributes(Box::new(known)))
            }
            _ => None,
        }
    }

    /// The server has said that the file has this `change`.
    pub(super) fn believe(&self, piece: &Piece, change: u64) {
        if let Some(stamp) = &piece.stamp {
            stamp.know_change(change);
        }
    }

    /// Keeps what a step has brought.
    pub(super) fn learn(&self, work: &Work, piece: &Piece, results: &[NfsResOp], message: usize) {
        let Some(cache) = &self.cache else { return };
        let read = match &work.step {
            Step::Read(read) => read,
            Step::GetAttributes { wanted, follow, .. } => {
                let asked = wanted.with(if *follow { AttributeSet::KIND } else { AttributeSet::NONE });
                if let (Some(stamp), Some(NfsResOp::GetAttr(Outcome::Ok(got)))) =
                    (&piece.stamp, results.last())
                    && let Ok(values) = got.values()
                {
                    stamp.know_attributes(asked, attributes::received(values, asked));
                }
                return;
            }
            _ => return,
        };
        let label = results.iter().find_map(|result| match result {
            NfsResOp::GetAttr(Outcome::Ok(label)) => label.values().ok(),
            _ => None,
        });
        if let Some(change) = label.as_ref().and_then(|label| label.change) {
            self.believe(piece, change);
        }
        let got = results.iter().find_map(|result| match result {
            NfsResOp::Read(Outcome::Ok(got)) => Some(got),
            _ => None,
        });
        if let (Some(label), Some(got)) = (label, got) {
            let data = got.data.clone().into_bytes();
            cache.learn(&read.target, label, read.offset, &data, got.eof, message);
        }
    }
}

/// Whether an operation failed because there was no need for it: an NVERIFY of what is so, or the return of a delegation
/// that is over.
pub(super) fn says_not_needed(status: NfsStatus) -> bool {
    matches!(
        status,
        NfsStatus::Same
            | NfsStatus::BadStateId
            | NfsStatus::StaleStateId
            | NfsStatus::Expired
            | NfsStatus::AdminRevoked
            | NfsStatus::DelegRevoked
    )
}

/// Bytes of data in a result.
pub(super) fn payload(result: &NfsResOp) -> usize {
    match result {
        NfsResOp::Read(Outcome::Ok(read)) => read.data.len(),
        _ => 0,
    }
}
