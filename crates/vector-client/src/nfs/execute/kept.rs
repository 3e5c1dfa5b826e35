//! What was read before, instead of being read again.

use std::sync::Arc;

use nfs4::{FileHandle, NfsArgOp, NfsResOp, NfsStatus, Outcome};
use nfs4_client::Reply;

use super::Run;
use crate::AttributeSet;
use crate::nfs::Nfs;
use crate::nfs::attributes;
use crate::nfs::cache::Kept;
use crate::nfs::held::Walk;
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

    /// All that is not as it was will be read, so that this takes one more round and not one for each: to be called with the
    /// results of each of the first pieces in the queue, before any of them is taken. What has come behind one that is read anew is
    /// kept meanwhile, as it is its turn only then.
    pub(super) fn find_changed<'a>(
        &self,
        run: &mut Run,
        replies: impl Iterator<Item = (&'a Plan, Option<&'a Reply>)>,
    ) {
        let pieces =
            replies.flat_map(|(plan, reply)| plan.pieces.iter().map(move |piece| (plan, piece, reply)));
        let mut is_changed = false;
        for ((plan, piece, reply), (_, work)) in pieces.zip(&mut run.queue) {
            let results = reply.map_or(&[][..], |reply| &reply.results[..]);
            match (&work.kept, results.get(piece.key)) {
                (Some(kept), Some(NfsResOp::GetAttr(Outcome::Ok(got))))
                    if !got.values().is_ok_and(|values| kept.is_proved_by(&values)) =>
                {
                    if let Some(cache) = &self.cache {
                        cache.forget(&kept.handle);
                    }
                    work.kept = None;
                    is_changed = true;
                }
                (Some(_), Some(NfsResOp::Read(Outcome::Ok(_)))) if is_changed => {
                    let own = &results[piece.operations.start..piece.operations.end.min(results.len())];
                    self.learn(work, piece, own, message_bytes(plan, results));
                    work.kept = self.kept(&work.step);
                }
                _ => {}
            }
        }
    }

    /// What came of the step, if that is certain without asking: the file is delegated, and what is wanted is known. Of a path, if it
    /// is believed that it leads there.
    pub(super) fn promised(&self, step: &Step) -> Option<Done> {
        let cache = self.cache.as_ref()?;
        match step {
            Step::Read(read) => {
                let (kept, change) = match read.target.descriptor() {
                    Some(descriptor) => {
                        let file = self.files.get(descriptor).ok()?;
                        let change = self.promises.change_of(file.open.handle(), self.standing()?)?;
                        let may_read = file.open.access() & nfs4::bits::share_access::READ != 0;
                        let is_good = may_read && file.open.state_id().is_ok();
                        (cache.find(file.open.handle(), read).filter(|_| is_good)?, change)
                    }
                    None if self.held.is_on() => {
                        let Walk { at, changes, .. } = self.walk();
                        let open = self.held.find(&read.target, at, changes)?;
                        let change = self.promises.change_under(&open, self.standing()?)?;
                        (cache.find(open.handle(), read)?, change)
                    }
                    None => return None,
                };
                (kept.change == change).then_some(Done::Read(kept.data))
            }
            Step::GetAttributes { target, wanted, .. } => {
                let file = self.files.get(target.descriptor()?).ok()?;
                let known = self.promises.attributes_of(file.open.handle(), *wanted, self.standing()?)?;
                file.open.state_id().is_ok().then(|| Done::Attributes(Box::new(known)))
            }
            _ => None,
        }
    }

    /// The doubts so far, if promises count now.
    fn standing(&self) -> Option<u64> {
        // In this order: doubts are counted before anything counts again.
        self.client.is_in_good_standing().then(|| self.client.doubts())
    }

    /// The server has said that the file has this `change`.
    pub(super) fn believe(&self, piece: &Piece, handle: &FileHandle, change: u64) {
        if let Some(stamp) = &piece.stamp {
            stamp.know_change(handle, change);
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
        let said = label.as_ref().and_then(|label| label.filehandle.as_ref().zip(label.change));
        if let Some((handle, change)) = said {
            self.believe(piece, handle, change);
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

/// Whether a step is done though the operation of it that may be [left out](Piece::unless) was not done: it is what an NVERIFY said that
/// is so, or it has closed a file, whose delegation goes back in another way if it could not in the same compound.
pub(super) fn is_done_without(step: &Step, status: NfsStatus) -> bool {
    matches!((step, status), (Step::Close(_), _) | (_, NfsStatus::Same))
}

/// Bytes of a reply beside its results.
const ENVELOPE: usize = 512;

/// Bytes of the message that these results came in, at most.
pub(super) fn message_bytes(plan: &Plan, results: &[NfsResOp]) -> usize {
    let wanted = |operation: &NfsArgOp| match operation {
        NfsArgOp::Read(read) => read.count as usize,
        _ => 0,
    };
    let came = |result: &NfsResOp| match result {
        NfsResOp::Read(Outcome::Ok(read)) => read.data.len(),
        _ => 0,
    };
    let beside = plan.reply_bytes().saturating_sub(plan.operations.iter().map(wanted).sum());
    ENVELOPE + beside + results.iter().map(came).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Descriptor;
    use crate::step::Read;

    #[test]
    fn a_file_is_closed_whatever_becomes_of_its_delegation() {
        let (close, read) = (Step::Close(Descriptor(1)), Step::Read(Read::new("/a", 0, 1)));
        for status in [NfsStatus::Delay, NfsStatus::BadStateId, NfsStatus::RepTooBig, NfsStatus::Ok] {
            assert!(is_done_without(&close, status), "{status}: a second CLOSE would fail");
            assert!(!is_done_without(&read, status), "{status}: nothing is read");
        }
        assert!(is_done_without(&read, NfsStatus::Same));
    }
}
