//! The slots of one session: exactly-once semantics (RFC 8881 §2.10.6.1, `N14`).

use bytes::Bytes;
use nfs4::NfsStatus;

/// Recognizes a retry: a hash over everything that must be equal in one.
pub(crate) type RequestDigest = u64;

/// Bytes of a reply for which there is room in every slot, enough for any single change. For what is larger room is given request by request.
pub(crate) const SMALL_REPLY: u32 = 2048;

/// What SEQUENCE does with a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// [`SlotTable::start`] it and run it; [`SlotTable::finish`] must follow, whatever happens.
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
    Running {
        digest: RequestDigest,
        /// Bytes that its reply is expected to have beyond [`SMALL_REPLY`] at most, if it is to be kept.
        room: u64,
    },
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

impl Slot {
    fn fresh() -> Slot {
        Slot { sequence: 0, progress: Progress::Fresh }
    }
}

/// The slot table of a fore channel.
#[derive(Debug)]
pub(crate) struct SlotTable {
    count: u32,
    /// Up to the last one that was used: most clients need few of them.
    slots: Vec<Slot>,
    /// Requests that are being run.
    busy: usize,
    /// Bytes beyond [`SMALL_REPLY`] of the replies that are kept, and of those that are expected.
    large: u64,
    /// Of those that are expected.
    expected: u64,
}

impl SlotTable {
    /// `count` fresh slots.
    pub fn new(count: u32) -> SlotTable {
        SlotTable { count, slots: Vec::new(), busy: 0, large: 0, expected: 0 }
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Bytes beyond [`SMALL_REPLY`] of the replies that are kept, and of those that are expected.
    pub fn large(&self) -> u64 {
        self.large
    }

    /// Whether there will be more room when running requests are done.
    pub fn expects_large(&self) -> bool {
        self.expected > 0
    }

    /// What the running request of this slot is expected to keep beyond [`SMALL_REPLY`].
    pub fn room(&self, slot: u32) -> u64 {
        match self.slots.get(slot as usize) {
            Some(Slot { progress: Progress::Running { room, .. }, .. }) => *room,
            _ => 0,
        }
    }

    /// Slots with a request that is being run.
    pub fn busy(&self) -> usize {
        self.busy
    }

    /// Whether the request of this slot is being run.
    pub fn is_running(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|slot| matches!(slot.progress, Progress::Running { .. }))
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
    pub fn judge(&self, slot: u32, sequence: u32, digest: RequestDigest) -> Result<Admission, NfsStatus> {
        if slot >= self.count {
            return Err(NfsStatus::BadSlot);
        }
        let fresh = Slot::fresh();
        let slot = self.slots.get(slot as usize).unwrap_or(&fresh);
        if sequence == slot.sequence.wrapping_add(1) {
            return match slot.progress {
                // The next one while the last one runs: the client cannot have its reply yet (§2.10.6.1.2).
                Progress::Running { .. } => Err(NfsStatus::SeqMisordered),
                Progress::Done { .. } | Progress::Fresh => Ok(Admission::New),
            };
        }
        if sequence != slot.sequence {
            return Err(NfsStatus::SeqMisordered);
        }
        match &slot.progress {
            Progress::Fresh => Err(NfsStatus::SeqMisordered),
            // §2.10.6.2: a retry of what is not done yet.
            Progress::Running { .. } => Err(NfsStatus::Delay),
            Progress::Done { digest: original, .. } if *original != digest => Err(NfsStatus::SeqFalseRetry),
            Progress::Done { reply: Some(reply), .. } => Ok(Admission::Replay(reply.clone())),
            Progress::Done { reply: None, .. } => Ok(Admission::ReplayUncached),
        }
    }

    /// Drops the reply of this slot: a new request on it shows that the client has it.
    pub fn release(&mut self, slot: u32) {
        if let Some(Slot { progress: Progress::Done { reply, .. }, .. }) = self.slots.get_mut(slot as usize) {
            self.large -= reply.take().map_or(0, |reply| beyond_small(reply.len()));
        }
    }

    /// A request that was judged to be new is run, with so much room for its reply.
    pub fn start(&mut self, slot: u32, sequence: u32, digest: RequestDigest, room: u64) {
        self.release(slot);
        if slot as usize >= self.slots.len() {
            self.slots.resize_with(slot as usize + 1, Slot::fresh);
        }
        self.slots[slot as usize] = Slot { sequence, progress: Progress::Running { digest, room } };
        self.busy += 1;
        self.large += room;
        self.expected += room;
    }

    /// The request is done; `reply` is kept for retries.
    pub fn finish(&mut self, slot: u32, reply: Option<Bytes>) {
        let Some(slot) = self.slots.get_mut(slot as usize) else { return };
        if let Progress::Running { digest, room } = slot.progress {
            self.expected -= room;
            self.large = self.large - room + reply.as_ref().map_or(0, |reply| beyond_small(reply.len()));
            slot.progress = Progress::Done { digest, reply };
            self.busy -= 1;
        }
    }
}

/// How many bytes of these are beyond [`SMALL_REPLY`].
pub(crate) fn beyond_small(bytes: usize) -> u64 {
    (bytes as u64).saturating_sub(SMALL_REPLY.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: RequestDigest = 1;
    const TWO: RequestDigest = 2;

    impl SlotTable {
        fn admit(&mut self, slot: u32, sequence: u32, digest: u64) -> Result<Admission, NfsStatus> {
            let admission = self.judge(slot, sequence, digest)?;
            if admission == Admission::New {
                self.start(slot, sequence, digest, 0);
            }
            Ok(admission)
        }
    }

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
    fn what_is_large_is_counted_while_it_runs_and_until_the_client_has_it() {
        let large = |bytes: usize| Some(Bytes::from(vec![0; SMALL_REPLY as usize + bytes]));
        let mut table = SlotTable::new(128);
        table.start(100, 1, ONE, 5000);
        assert_eq!((table.large(), table.room(100), table.room(0), table.slots.len()), (5000, 5000, 0, 101));
        table.finish(100, large(7));
        assert_eq!((table.large(), table.room(100)), (7, 0));
        table.start(0, 1, ONE, 20);
        table.finish(0, None);
        table.start(1, 1, ONE, 0);
        table.finish(1, Some(Bytes::from(vec![0; SMALL_REPLY as usize])));
        assert_eq!(table.large(), 7);
        table.release(1);
        table.release(100);
        table.release(101);
        assert_eq!((table.large(), table.judge(100, 1, ONE)), (0, Ok(Admission::ReplayUncached)));
        assert!(!table.expects_large());
        table.start(100, 2, TWO, 9);
        assert!(table.expects_large());
        table.finish(100, large(50));
        assert_eq!((table.large(), table.expects_large()), (50, false), "more than was expected");
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut table = SlotTable::new(1);
        table.slots.push(Slot { sequence: u32::MAX, ..Slot::fresh() });
        assert_eq!(table.admit(0, 0, ONE), Ok(Admission::New));
        table.finish(0, None);
        assert_eq!(table.admit(0, 1, ONE), Ok(Admission::New));
    }
}
