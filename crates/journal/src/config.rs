use crate::layout::{BLOCK, MARK, RUN_HEADER, record_space};
use crate::{JournalError, Lsn};

/// Sizes and limits of a journal, in bytes.
#[derive(Debug, Clone)]
pub struct JournalConfig {
    /// All segments together. Rounded down to whole segments; at least three.
    pub capacity: u64,
    /// One segment file; a multiple of 4 KiB, at most 1 GiB.
    pub segment: u64,
    /// The largest record, with its payloads; must fit a segment.
    pub max_record: u64,
    /// Kept free from [`Priority::Client`](crate::Priority::Client), so that write-back can always commit and thereby
    /// free space. One half of it is kept free from [`Priority::Upkeep`](crate::Priority::Upkeep), too: whatever
    /// pins the oldest segment, there is space to move it ([`Priority::Move`](crate::Priority::Move)). That half must
    /// hold a segment and a record.
    pub headroom: u64,
    /// Records reserved or appended and not yet written; bounds the memory of the queue.
    pub queue: u64,
    /// Records beyond this many bytes start a batch of their own, so that one sync never waits for much more
    /// than this.
    pub batch: u64,
    /// Number of the first record of a journal that is made new; later ones follow.
    pub first: Lsn,
    /// Write on a thread of its own (the real machine), or on a tokio task of the runtime that opens the journal
    /// (one deterministic simulated process).
    pub writer: WriterKind,
}

/// Where the writer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterKind {
    /// A named thread.
    Thread,
    /// A tokio task; disk calls block the runtime, which a simulated disk never does.
    Task,
}

impl Default for JournalConfig {
    fn default() -> JournalConfig {
        const MIB: u64 = 1 << 20;
        JournalConfig {
            capacity: 4096 * MIB,
            segment: 64 * MIB,
            max_record: 17 * MIB,
            headroom: 192 * MIB,
            queue: 64 * MIB,
            batch: 8 * MIB,
            first: Lsn(1),
            writer: WriterKind::Thread,
        }
    }
}

impl JournalConfig {
    /// Small sizes for tests: the given capacity in 16 segments, everything else in proportion.
    pub fn small(capacity: u64) -> JournalConfig {
        let segment = (capacity / 16).next_multiple_of(BLOCK).max(16 * BLOCK);
        JournalConfig {
            capacity,
            segment,
            max_record: segment / 4,
            headroom: 3 * segment,
            queue: 4 * segment,
            batch: segment / 4,
            first: Lsn(1),
            writer: WriterKind::Thread,
        }
    }

    pub(crate) fn segments(&self) -> u64 {
        self.capacity / self.segment
    }

    /// Bytes of records, each rounded to its blocks, that so many free segments hold whatever their order. A
    /// segment is left when the next record does not fit, so up to one record's worth of each may stay empty.
    pub(crate) fn holds(&self, segments: u64) -> u64 {
        segments.saturating_mul(self.segment - MARK - self.lost())
    }

    /// Free segments that hold the head-room.
    pub(crate) fn headroom_segments(&self) -> u64 {
        self.headroom.div_ceil(self.holds(1))
    }

    /// What may stay empty in a segment.
    pub(crate) fn lost(&self) -> u64 {
        RUN_HEADER + record_space(self.max_record)
    }

    /// Bytes of payloads that the owner of the journal may need at one time. Up to there the segments can be
    /// emptied one by one into the head-room, wherever in the journal the payloads lie, and clients find
    /// space afterwards. At most half of the capacity, so that moving them costs little for what it frees.
    pub fn most_kept(&self) -> u64 {
        let kept = self.holds(self.segments()).saturating_sub(self.headroom + self.segment);
        kept.min(self.capacity / 2)
    }

    pub(crate) fn check(&self) -> Result<(), JournalError> {
        let fail = |what| Err(JournalError::Config(what));
        if !self.segment.is_multiple_of(BLOCK) || self.segment > 1 << 30 || self.segment < 8 * BLOCK {
            return fail("the segment size must be a multiple of 4 KiB between 32 KiB and 1 GiB");
        }
        if self.segments() < 3 {
            return fail("the capacity must hold at least three segments");
        }
        if record_space(self.max_record) > self.segment - RUN_HEADER - MARK {
            return fail(
                "the largest record does not fit a segment; enlarge segments or lower the record limit",
            );
        }
        if self.queue < record_space(self.max_record) {
            return fail("the queue must hold at least one record of the largest size");
        }
        if self.headroom + self.segment > self.capacity - 2 * self.segment {
            return fail("the head-room leaves no space for clients; enlarge the capacity");
        }
        if self.headroom / 2 < self.segment + record_space(self.max_record) {
            return fail("half of the head-room must hold a segment and a record; enlarge it");
        }
        if self.most_kept() < self.max_record {
            return fail("the head-room leaves no space for payloads; enlarge the capacity");
        }
        Ok(())
    }
}
