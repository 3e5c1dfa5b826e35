//! The slots of one session: exactly-once semantics (RFC 8881 §2.10.6.1, `N14`).

use bytes::Bytes;
use nfs4::NfsStatus;

/// Recognizes a retry: a hash over everything that must be equal in one.
pub(crate) type RequestDigest = u64;

/// What SEQUENCE does with a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Run it; [`SlotTable::finish`] must follow, whatever happens.
    New,
    /// Send this reply again.
    Replay(Bytes),
    /// It was run before, and its reply was not kept (RFC 8881 §2.10.6.1.3).
    ReplayUncached,
}

#[derive(Debug)]
enum Progress {
    /// Never used.
    Fresh,
    Running(RequestDigest),
    Done {
        digest: RequestDigest,
        reply: Option<Bytes>,
    },
}

#[derive(Debug)]
struct Slot {
    /// Of the newest request that was admitted; 0 before the first (RFC 8881 §2.10.6.1).
    sequence: u32,
    progress: Progress,
}

/// The slot table of a fore channel.
#[derive(Debug)]
pub(crate) struct SlotTable {
    count: u32,
    /// Up to the last one that was used: most clients need few of them.
    slots: Vec<Slot>,
    /// Requests that are being run.
    busy: usize,
    /// Bytes of the replies that are kept.
    kept: u64,
}

impl SlotTable {
    /// `count` fresh slots.
    pub fn new(count: u32) -> SlotTable {
        SlotTable { count, slots: Vec::new(), busy: 0, kept: 0 }
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Bytes of the replies that are kept for retries.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Whether the next reply of this slot takes the place of another one.
    pub fn keeps_reply(&self, slot: u32) -> bool {
        let slot = self.slots.get(slot as usize);
        slot.is_some_and(|slot| matches!(slot.progress, Progress::Done { reply: Some(_), .. }))
    }

    /// Slots with a request that is being run.
    pub fn busy(&self) -> usize {
        self.busy
    }

    /// Whether the request of this slot is being run.
    pub fn is_running(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|slot| matches!(slot.progress, Progress::Running(_)))
    }

    /// The highest slot id.
    pub fn highest(&self) -> u32 {
        self.count - 1
    }

    /// Whether a request is being run.
    pub fn is_busy(&self) -> bool {
        self.busy > 0
    }

    /// Whether no later request than this one came on its slot.
    pub fn is_newest(&self, slot: u32, sequence: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|slot| slot.sequence == sequence)
    }

    /// Decides on the request `sequence` on `slot` (RFC 8881 §2.10.6.1.1, §18.46.3).
    pub fn admit(&mut self, slot: u32, sequence: u32, digest: RequestDigest) -> Result<Admission, NfsStatus> {
        if slot >= self.count {
            return Err(NfsStatus::BadSlot);
        }
        if slot as usize >= self.slots.len() {
            self.slots.resize_with(slot as usize + 1, || Slot { sequence: 0, progress: Progress::Fresh });
        }
        let slot = &mut self.slots[slot as usize];
        if sequence == slot.sequence.wrapping_add(1) {
            // The next one while the last one runs: the client cannot have its reply yet (§2.10.6.1.2).
            match &slot.progress {
                Progress::Running(_) => return Err(NfsStatus::SeqMisordered),
                Progress::Done { reply: Some(reply), .. } => self.kept -= reply.len() as u64,
                Progress::Done { reply: None, .. } | Progress::Fresh => {}
            }
            slot.sequence = sequence;
            slot.progress = Progress::Running(digest);
            self.busy += 1;
            return Ok(Admission::New);
        }
        if sequence != slot.sequence {
            return Err(NfsStatus::SeqMisordered);
        }
        match &slot.progress {
            Progress::Fresh => Err(NfsStatus::SeqMisordered),
            // §2.10.6.2: a retry of what is not done yet.
            Progress::Running(_) => Err(NfsStatus::Delay),
            Progress::Done { digest: original, .. } if *original != digest => Err(NfsStatus::SeqFalseRetry),
            Progress::Done { reply: Some(reply), .. } => Ok(Admission::Replay(reply.clone())),
            Progress::Done { reply: None, .. } => Ok(Admission::ReplayUncached),
        }
    }

    /// The admitted request is done; `reply` is kept for retries.
    pub fn finish(&mut self, slot: u32, reply: Option<Bytes>) {
        let Some(slot) = self.slots.get_mut(slot as usize) else { return };
        if let Progress::Running(digest) = slot.progress {
            self.kept += reply.as_ref().map_or(0, Bytes::len) as u64;
            slot.progress = Progress::Done { digest, reply };
            self.busy -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: RequestDigest = 1;
    const TWO: RequestDigest = 2;

    #[test]
    fn a_retry_gets_the_reply_of_the_original() {
        let mut table = SlotTable::new(2);
        assert_eq!(table.admit(1, 1, ONE), Ok(Admission::New));
        assert_eq!(table.admit(1, 1, ONE), Err(NfsStatus::Delay), "still running");
        table.finish(1, Some(Bytes::from_static(b"reply")));
        assert_eq!(table.admit(1, 1, ONE), Ok(Admission::Replay(Bytes::from_static(b"reply"))));
        assert_eq!(table.admit(1, 1, TWO), Err(NfsStatus::SeqFalseRetry));
        assert_eq!(table.admit(1, 2, TWO), Ok(Admission::New));
        table.finish(1, None);
        assert_eq!(table.admit(1, 2, TWO), Ok(Admission::ReplayUncached));
        assert_eq!(table.admit(1, 1, ONE), Err(NfsStatus::SeqMisordered), "a late retry");
    }

    #[test]
    fn a_slot_takes_only_the_next_number() {
        let mut table = SlotTable::new(1);
        assert_eq!(table.highest(), 0);
        for wrong in [0, 2, u32::MAX] {
            assert_eq!(table.admit(0, wrong, ONE), Err(NfsStatus::SeqMisordered), "{wrong}");
        }
        assert_eq!(table.admit(1, 1, ONE), Err(NfsStatus::BadSlot));
        assert_eq!(table.admit(0, 1, ONE), Ok(Admission::New));
        assert!(table.is_busy());
        assert_eq!(table.admit(0, 2, TWO), Err(NfsStatus::SeqMisordered), "the first one is not answered");
        table.finish(0, None);
        assert!(!table.is_busy());
    }

    #[test]
    fn what_is_kept_is_counted_until_the_slot_is_used_again() {
        let mut table = SlotTable::new(128);
        assert!(!table.keeps_reply(100) && table.slots.is_empty());
        for slot in [0, 100] {
            table.admit(slot, 1, ONE).unwrap();
            table.finish(slot, Some(Bytes::from_static(b"reply")));
        }
        assert_eq!((table.kept(), table.slots.len()), (10, 101));
        assert!(table.keeps_reply(100) && !table.keeps_reply(50));
        table.admit(0, 1, ONE).unwrap();
        assert_eq!(table.kept(), 10, "a retry");
        table.admit(0, 2, TWO).unwrap();
        assert_eq!(table.kept(), 5);
        table.finish(0, None);
        assert_eq!(table.kept(), 5);
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut table = SlotTable::new(1);
        table.slots.push(Slot { sequence: u32::MAX, progress: Progress::Fresh });
        assert_eq!(table.admit(0, 0, ONE), Ok(Admission::New));
        table.finish(0, None);
        assert_eq!(table.admit(0, 1, ONE), Ok(Admission::New));
    }
}
