//! What was read before, instead of being read again.

use std::sync::Arc;

use nfs4::{NfsResOp, Outcome};
use nfs4_client::Reply;

use super::Run;
use crate::nfs::Nfs;
use crate::nfs::cache::Kept;
use crate::nfs::plan::Plan;
use crate::step::Step;

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

    /// Keeps what a step has read.
    pub(super) fn learn(&self, step: &Step, results: &[NfsResOp], message: usize) {
        let (Step::Read(read), Some(cache)) = (step, &self.cache) else { return };
        let label = results.iter().find_map(|result| match result {
            NfsResOp::GetAttr(Outcome::Ok(label)) => label.values().ok(),
            _ => None,
        });
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

/// Bytes of data in a result.
pub(super) fn payload(result: &NfsResOp) -> usize {
    match result {
        NfsResOp::Read(Outcome::Ok(read)) => read.data.len(),
        _ => 0,
    }
}
