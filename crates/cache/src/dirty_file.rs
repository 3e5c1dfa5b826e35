use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ids::{BlockIndex, BlockShift};
use journal::Lsn;

use crate::Hold;
use crate::extent_map::ExtentMap;
use crate::overlay::{Overlay, Piece};
use crate::payload::Payload;
use crate::queue::{Lane, Place};

/// The dirty data of one file, and what write-back has to know of each dirty block.
pub(crate) struct DirtyFile {
    pub shift: BlockShift,
    extents: ExtentMap,
    pub blocks: BTreeMap<BlockIndex, BlockState>,
    /// Dirty bytes of all blocks.
    pub bytes: u64,
    /// Those of them that lie in the journal; the others are zeros.
    pub payload_bytes: u64,
    /// The last record that dropped dirty data without storing it (truncation).
    pub cut: Lsn,
    /// Blocks being written back; the books stay while there are any, so that `cut` is not lost.
    pub claims: u32,
    /// Whether all of it is kept from write-back.
    pub hold: Option<Hold>,
    /// What records up to this one brought was let through.
    pub passes_up_to: Lsn,
}

/// A block with dirty bytes, or one that is claimed.
#[derive(Clone, Copy)]
pub(crate) struct BlockState {
    pub bytes: u64,
    /// The oldest record with dirty bytes of the block, or an older one: its place in the queue.
    pub oldest: Lsn,
    pub first_at: Duration,
    pub changed_at: Duration,
    /// Somebody is writing it back.
    pub claimed: bool,
    /// Somebody waits for its data up to this record.
    pub urgent: Lsn,
    /// Its place in the queue, as the queue knows it.
    pub queued: Option<Place>,
}

impl DirtyFile {
    pub fn new(shift: BlockShift) -> DirtyFile {
        DirtyFile {
            shift,
            extents: ExtentMap::default(),
            blocks: BTreeMap::new(),
            bytes: 0,
            payload_bytes: 0,
            cut: Lsn::ZERO,
            claims: 0,
            hold: None,
            passes_up_to: Lsn::ZERO,
        }
    }

    pub fn extents(&self) -> usize {
        self.extents.len()
    }

    /// Whether nothing is worth remembering.
    pub fn is_idle(&self) -> bool {
        self.extents.is_empty() && self.claims == 0
    }

    pub fn overlay(&self, range: Range<u64>) -> Overlay {
        self.extents.overlay(range)
    }

    /// Makes `range` dirty.
    pub fn put(&mut self, range: Range<u64>, payload: Arc<Payload>, now: Duration) {
        self.place_payload(range.clone(), payload, now);
        for state in self.states_of(range) {
            state.changed_at = now;
        }
    }

    /// Makes `range` the content of `payload`, which is as old as what it replaces.
    pub fn relocate(&mut self, range: Range<u64>, payload: Arc<Payload>, now: Duration) {
        let lsn = payload.lsn();
        self.place_payload(range.clone(), payload, now);
        for state in self.states_of(range) {
            state.oldest = state.oldest.min(lsn);
        }
    }

    fn states_of(&mut self, range: Range<u64>) -> impl Iterator<Item = &mut BlockState> {
        let blocks = self.shift.index_of(range.start)..=self.shift.index_of(range.end - 1);
        self.blocks.range_mut(blocks).map(|(_, state)| state)
    }

    fn place_payload(&mut self, range: Range<u64>, payload: Arc<Payload>, now: Duration) {
        let (lsn, zeros) = (payload.lsn(), payload.is_zeros());
        let (extents, mut tally) = self.tally();
        extents.put(range.clone(), payload, |removed, payload| tally.subtract(removed, payload));
        self.bytes += range.end - range.start;
        self.payload_bytes += if zeros { 0 } else { range.end - range.start };
        for (block, bytes) in by_block(self.shift, range) {
            let state = self.blocks.entry(block).or_insert(BlockState {
                bytes: 0,
                oldest: lsn,
                first_at: now,
                changed_at: now,
                claimed: false,
                urgent: Lsn::ZERO,
                queued: None,
            });
            if state.claimed && state.bytes == 0 {
                // Nothing of it was dirty any more, or yet.
                (state.oldest, state.first_at, state.changed_at) = (lsn, now, now);
            }
            state.bytes += bytes;
        }
    }

    fn tally(&mut self) -> (&mut ExtentMap, Tally<'_>) {
        let tally = Tally {
            shift: self.shift,
            blocks: &mut self.blocks,
            bytes: &mut self.bytes,
            payload_bytes: &mut self.payload_bytes,
        };
        (&mut self.extents, tally)
    }

    /// All dirty ranges, ascending.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.extents.pieces()
    }

    /// Claims a block of which nothing is dirty; `false` when somebody has it, or it is dirty.
    pub fn claim_clean(&mut self, block: BlockIndex, now: Duration) -> bool {
        if self.blocks.contains_key(&block) {
            return false;
        }
        let state = BlockState {
            bytes: 0,
            oldest: Lsn(u64::MAX),
            first_at: now,
            changed_at: now,
            claimed: true,
            urgent: Lsn::ZERO,
            queued: None,
        };
        self.blocks.insert(block, state);
        self.claims += 1;
        true
    }

    /// Drops dirty data; the blocks it leaves without any keep a state of zero bytes for the caller to remove.
    pub fn discard(&mut self, range: Range<u64>, lsn: Lsn) {
        let (extents, mut tally) = self.tally();
        extents.remove(range, Lsn(u64::MAX), |removed, payload| tally.subtract(removed, payload));
        self.cut = lsn;
    }

    /// Drops what records up to `up_to` brought to `block`; it is stored. As [`DirtyFile::discard`] otherwise.
    pub fn clean(&mut self, block: BlockIndex, up_to: Lsn) {
        let range = self.range_of(block);
        let (extents, mut tally) = self.tally();
        extents.remove(range.clone(), up_to, |removed, payload| tally.subtract(removed, payload));
        if let Some(state) = self.blocks.get_mut(&block)
            && let Some(oldest) = self.extents.oldest_in(range)
        {
            state.oldest = oldest;
            state.first_at = state.changed_at;
        }
    }

    pub fn range_of(&self, block: BlockIndex) -> Range<u64> {
        let start = self.shift.start_of(block);
        start..start.saturating_add(self.shift.bytes())
    }

    /// Where in the queue a block of this file belongs; nowhere without dirty bytes.
    pub fn place(&self, state: &BlockState) -> Option<Place> {
        let lane = match (state, self.hold) {
            (BlockState { bytes: 0, .. }, _) => return None,
            (BlockState { claimed: true, .. }, _) => Lane::Claimed,
            (_, Some(hold)) => hold.lane(),
            _ if state.urgent >= state.oldest => Lane::Urgent,
            _ if state.bytes == self.shift.bytes() => Lane::Full,
            _ => Lane::Resting,
        };
        Some(Place { oldest: state.oldest, lane })
    }
}

/// The counts that follow the extents.
struct Tally<'a> {
    shift: BlockShift,
    blocks: &'a mut BTreeMap<BlockIndex, BlockState>,
    bytes: &'a mut u64,
    payload_bytes: &'a mut u64,
}

impl Tally<'_> {
    fn subtract(&mut self, range: Range<u64>, payload: &Payload) {
        *self.bytes -= range.end - range.start;
        if !payload.is_zeros() {
            *self.payload_bytes -= range.end - range.start;
        }
        for (block, bytes) in by_block(self.shift, range) {
            if let Some(state) = self.blocks.get_mut(&block) {
                state.bytes -= bytes;
            }
        }
    }
}

/// The blocks that `range` touches, and how many bytes of each.
fn by_block(shift: BlockShift, range: Range<u64>) -> impl Iterator<Item = (BlockIndex, u64)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let block = shift.index_of(at);
        let end = shift.start_of(block).saturating_add(shift.bytes()).min(range.end);
        let bytes = end - at;
        at = end;
        Some((block, bytes))
    })
}
