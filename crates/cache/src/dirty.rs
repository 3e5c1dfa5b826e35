use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use environment::Clock;
use ids::{BlockIndex, BlockShift, ObjectId, VolumeId};
use journal::{Lsn, PayloadRef};
use parking_lot::RwLock;
use smallvec::SmallVec;
use tokio::sync::watch;

use crate::dirty_file::DirtyFile;
use crate::overlay::{Overlay, Piece};
use crate::payload::{Ledger, Payload};
use crate::queue::{DirtyBlock, Lane, Queue, Selection, Ticket};
use crate::shares::Shares;
use crate::{DataOp, FileKey, Hold, MAX_ZERO};

const SHARDS: usize = 64;
/// Bytes of memory that one extent takes, with its payload's books and its share of the maps.
pub(crate) const EXTENT_BYTES: u64 = 320;
/// Bytes of the journal that one extent takes beside its content: descriptor, lengths and tags.
const EXTENT_JOURNAL_BYTES: u64 = 128;
/// Blocks looked at under one lock of the queue.
const SCAN: usize = 64;
/// A block that keeps changing is written back after this many times the usual rest.
const LONGEST_REST: u32 = 6;
/// A full block, which will hardly change any more, rests for this part of the usual time: a burst of writes has the
/// machine for itself.
const FULL_REST: u32 = 5;

/// The books of all dirty data of the node.
///
/// Lock order: a shard, then the queue or the ledger. No lock is held across an await.
pub(crate) struct Dirty {
    shards: Vec<RwLock<HashMap<FileKey, DirtyFile>>>,
    queue: Queue,
    ledger: Arc<Ledger>,
    /// Of the journal.
    pub shares: Shares,
    /// Of the memory of the books.
    pub books: Shares,
    clock: Arc<dyn Clock>,
    rest: Duration,
    bytes: AtomicU64,
    newest: AtomicU64,
    /// The last record of which all operations are applied.
    whole: AtomicU64,
    /// Ticks when dirty data has become clean or was dropped.
    cleaned: watch::Sender<u64>,
}

impl Dirty {
    pub fn new(clock: Arc<dyn Clock>, rest: Duration, memory: u64, bookkeeping: u64, journal: u64) -> Dirty {
        Dirty {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            queue: Queue::new(),
            ledger: Ledger::new(memory),
            shares: Shares::new(journal),
            books: Shares::new(bookkeeping),
            clock,
            rest,
            bytes: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            whole: AtomicU64::new(0),
            cleaned: watch::Sender::new(0),
        }
    }

    /// Applies one operation. Called in the order of `lsn`.
    pub fn apply(&self, lsn: Lsn, op: DataOp, place: PayloadRef, payload: Option<Bytes>) {
        self.newest.fetch_max(lsn.0, Ordering::AcqRel);
        match op {
            DataOp::Write { file, shift, offset } => {
                let range = offset..offset.saturating_add(u64::from(place.length));
                if !range.is_empty() {
                    self.put(file, shift, range, Payload::new(&self.ledger, lsn, place, payload));
                }
            }
            DataOp::Zero { file, shift, offset, length } => {
                let range = offset..offset.saturating_add(length);
                if !range.is_empty() {
                    let nothing = PayloadRef { length: 0, ..place };
                    self.put(file, shift, range, Payload::new(&self.ledger, lsn, nothing, None));
                }
            }
            DataOp::Discard { file, offset, length } => {
                self.discard(file, offset..offset.saturating_add(length), lsn);
            }
            DataOp::Cleaned { file, block, up_to, .. } => self.change(file, None, |dirty| {
                dirty.clean(block, up_to);
                Some(block..BlockIndex(block.0 + 1))
            }),
            DataOp::Forget { file } => self.discard(file, 0..u64::MAX, lsn),
            DataOp::Moved { file, shift, offset, length, of } => {
                let length = if place.length == 0 { length } else { u64::from(place.length) };
                let range = offset..offset.saturating_add(length);
                if !range.is_empty() {
                    self.relocate(file, shift, range, Payload::moved(&self.ledger, of, lsn, place));
                }
            }
        }
    }

    /// All operations of the record are applied.
    pub fn applied(&self, lsn: Lsn) {
        self.whole.fetch_max(lsn.0, Ordering::AcqRel);
    }

    fn put(&self, file: FileKey, shift: BlockShift, range: Range<u64>, payload: Arc<Payload>) {
        let now = self.clock.monotonic();
        self.change(file, Some(shift), |dirty| {
            let last = dirty.shift.index_of(range.end - 1);
            let blocks = dirty.shift.index_of(range.start)..BlockIndex(last.0 + 1);
            dirty.put(range, payload, now);
            Some(blocks)
        });
    }

    fn relocate(&self, file: FileKey, shift: BlockShift, range: Range<u64>, payload: Arc<Payload>) {
        let now = self.clock.monotonic();
        self.change(file, Some(shift), |dirty| {
            let last = dirty.shift.index_of(range.end - 1);
            let blocks = dirty.shift.index_of(range.start)..BlockIndex(last.0 + 1);
            dirty.relocate(range, payload, now);
            Some(blocks)
        });
    }

    /// Dirty ranges whose bytes records before `end` have, cut so that a record of about `bytes` holds them.
    pub fn held_below(&self, end: Lsn, bytes: u64) -> Vec<(FileKey, BlockShift, Piece)> {
        let mut found = Vec::new();
        let mut left = bytes;
        for shard in &self.shards {
            for (file, dirty) in shard.read().iter() {
                for mut piece in dirty.pieces().filter(|piece| piece.payload.holder() < end) {
                    if left <= EXTENT_JOURNAL_BYTES {
                        return found;
                    }
                    left -= EXTENT_JOURNAL_BYTES;
                    let longest = if piece.payload.is_zeros() { MAX_ZERO } else { left };
                    piece.range.end = piece.range.end.min(piece.range.start.saturating_add(longest));
                    if !piece.payload.is_zeros() {
                        left -= piece.range.end - piece.range.start;
                    }
                    found.push((*file, dirty.shift, piece));
                }
            }
        }
        found
    }

    fn discard(&self, file: FileKey, range: Range<u64>, lsn: Lsn) {
        self.change(file, None, |dirty| {
            let blocks = dirty.shift.index_of(range.start)..BlockIndex(u64::MAX);
            dirty.discard(range, lsn);
            Some(blocks)
        });
    }

    /// Changes the books of a file and brings the queue and the totals up to date. `change` returns the blocks
    /// that it may have changed. Without `shift` a file that has no books is left alone.
    fn change(
        &self,
        file: FileKey,
        shift: Option<BlockShift>,
        change: impl FnOnce(&mut DirtyFile) -> Option<Range<BlockIndex>>,
    ) {
        let mut shard = self.shards[file.shard(SHARDS)].write();
        let dirty = match shift {
            Some(shift) => shard.entry(file).or_insert_with(|| DirtyFile::new(shift)),
            None => match shard.get_mut(&file) {
                Some(dirty) => dirty,
                None => return,
            },
        };
        let (books, bytes, cost) = (books_bytes(dirty), dirty.bytes, journal_bytes(dirty));
        if let Some(blocks) = change(dirty) {
            self.requeue(file, dirty, blocks);
        }
        // Wrapping: the difference may be negative.
        self.bytes.fetch_add(dirty.bytes.wrapping_sub(bytes), Ordering::Relaxed);
        let less = dirty.bytes < bytes || books_bytes(dirty) < books;
        self.books.change(file.volume, books, books_bytes(dirty));
        self.shares.change(file.volume, cost, journal_bytes(dirty));
        if dirty.is_idle() {
            shard.remove(&file);
        }
        drop(shard);
        if less {
            self.cleaned.send_modify(|tick| *tick += 1);
        }
    }

    /// Looks at the books of a file, if it has any.
    pub(crate) fn look_at<T>(&self, file: FileKey, look: impl FnOnce(&DirtyFile) -> T) -> Option<T> {
        self.shards[file.shard(SHARDS)].read().get(&file).map(look)
    }

    /// Looks at the books of all files.
    pub(crate) fn for_each_file(&self, mut look: impl FnMut(FileKey, &DirtyFile)) {
        for shard in &self.shards {
            shard.read().iter().for_each(|(file, dirty)| look(*file, dirty));
        }
    }

    /// For `hold_back` and `let_through`.
    pub(crate) fn change_hold(&self, file: FileKey, hold: Option<Hold>, passes_up_to: Lsn) {
        let is_so = |dirty: &DirtyFile| dirty.hold == hold && dirty.passes_up_to >= passes_up_to;
        if self.look_at(file, is_so) == Some(true) {
            return;
        }
        self.change(file, None, |dirty| {
            dirty.hold = hold;
            dirty.passes_up_to = dirty.passes_up_to.max(passes_up_to);
            Some(BlockIndex(0)..BlockIndex(u64::MAX))
        });
        // Those who wait for a flush need not wait for what is kept.
        self.tick();
    }

    /// The last record of which everything is in the books.
    pub fn applied_up_to(&self) -> Lsn {
        Lsn(self.whole.load(Ordering::Acquire))
    }

    /// Tells the queue about changed blocks and forgets those that have become clean.
    fn requeue(&self, file: FileKey, dirty: &mut DirtyFile, blocks: Range<BlockIndex>) {
        let places: SmallVec<[_; 4]> = dirty
            .blocks
            .range(blocks)
            .map(|(block, state)| (*block, state.queued, dirty.place(state), state.claimed))
            .collect();
        for (block, from, to, claimed) in places {
            self.queue.move_block(file, block, from, to);
            match to {
                // Nobody else gets it while it is claimed, whatever becomes dirty meanwhile.
                None if !claimed => drop(dirty.blocks.remove(&block)),
                _ => {
                    if let Some(state) = dirty.blocks.get_mut(&block) {
                        state.queued = to;
                    }
                }
            }
        }
    }

    pub fn overlay(&self, file: FileKey, range: Range<u64>) -> Overlay {
        let shard = self.shards[file.shard(SHARDS)].read();
        shard.get(&file).map(|dirty| dirty.overlay(range)).unwrap_or_default()
    }

    /// The dirty parts of a block, the newest record among them, and the last record that cut the file short. `None` when the block
    /// is clean, or holds a part of a record whose other parts are just being applied: what those bring
    /// would be taken for stored.
    pub fn block_overlay(&self, file: FileKey, block: BlockIndex) -> Option<(Overlay, Lsn, Lsn)> {
        // Before the look at the extents: a record that is whole now shows all of its own.
        let whole = Lsn(self.whole.load(Ordering::Acquire));
        let shard = self.shards[file.shard(SHARDS)].read();
        let dirty = shard.get(&file)?;
        let overlay = dirty.overlay(dirty.range_of(block));
        let newest = overlay.newest()?;
        (newest <= whole).then_some((overlay, newest, dirty.cut))
    }

    /// The last record that cut the file short, while one of its blocks is claimed.
    pub fn cut(&self, file: FileKey) -> Lsn {
        self.shards[file.shard(SHARDS)].read().get(&file).map_or(Lsn::ZERO, |dirty| dirty.cut)
    }

    pub fn claim(self: &Arc<Self>, volume: VolumeId, selection: &Selection) -> Vec<DirtyBlock> {
        let mut claimed = Claimed { blocks: Vec::new(), bytes: 0, selection };
        self.claim_lane(volume, Lane::Urgent, &mut claimed);
        self.claim_lane(volume, Lane::Full, &mut claimed);
        self.claim_lane(volume, Lane::Resting, &mut claimed);
        claimed.blocks
    }

    fn claim_lane(self: &Arc<Self>, volume: VolumeId, lane: Lane, claimed: &mut Claimed<'_>) {
        let now = self.clock.monotonic();
        let mut after = None;
        while !claimed.is_full() {
            let entries = self.queue.entries(volume, lane, after, SCAN);
            let Some(last) = entries.last() else { return };
            after = Some(*last);
            let mut ripe = false;
            for (_, object, block) in entries {
                if claimed.is_full() {
                    return;
                }
                ripe |= self.claim_block(FileKey { volume, object }, block, lane, now, claimed);
            }
            // The queue is in the order of age: behind many young blocks there are only younger ones.
            if !ripe {
                return;
            }
        }
    }

    fn claim_block(
        self: &Arc<Self>,
        file: FileKey,
        block: BlockIndex,
        lane: Lane,
        now: Duration,
        claimed: &mut Claimed<'_>,
    ) -> bool {
        let mut shard = self.shards[file.shard(SHARDS)].write();
        let Some(dirty) = shard.get_mut(&file) else { return false };
        let Some(state) = dirty.blocks.get_mut(&block) else { return false };
        let rest = if lane == Lane::Full { self.rest / FULL_REST } else { self.rest };
        let ripe = lane == Lane::Urgent
            || claimed.selection.hurry
            || now.saturating_sub(state.changed_at) >= rest
            || now.saturating_sub(state.first_at) >= self.rest * LONGEST_REST;
        if !ripe || state.claimed {
            return false;
        }
        state.claimed = true;
        claimed.bytes += state.bytes;
        dirty.claims += 1;
        self.requeue(file, dirty, block..BlockIndex(block.0 + 1));
        let (shift, dirty) = (dirty.shift, Arc::clone(self));
        claimed.blocks.push(DirtyBlock { file, shift, block, dirty, ticket: None });
        true
    }

    /// Claims a block of which nothing is dirty, and tells the last record that cut the file short.
    pub fn claim_clean(
        self: &Arc<Self>,
        file: FileKey,
        shift: BlockShift,
        block: BlockIndex,
        ticket: Ticket,
    ) -> Option<(DirtyBlock, Lsn)> {
        let now = self.clock.monotonic();
        let mut shard = self.shards[file.shard(SHARDS)].write();
        let books = shard.entry(file).or_insert_with(|| DirtyFile::new(shift));
        if !books.claim_clean(block, now) {
            return None;
        }
        let (cut, dirty) = (books.cut, Arc::clone(self));
        Some((DirtyBlock { file, shift, block, dirty, ticket: Some(ticket) }, cut))
    }

    pub fn release(&self, file: FileKey, block: BlockIndex) {
        self.change(file, None, |dirty| {
            dirty.claims -= 1;
            dirty.blocks.get_mut(&block)?.claimed = false;
            Some(block..BlockIndex(block.0 + 1))
        });
    }

    /// Makes all dirty blocks of a file urgent.
    pub fn hurry_file(&self, file: FileKey, up_to: Lsn) {
        self.change(file, None, |dirty| {
            for state in dirty.blocks.values_mut() {
                state.urgent = state.urgent.max(up_to);
            }
            Some(BlockIndex(0)..BlockIndex(u64::MAX))
        });
    }

    /// Makes all dirty blocks of a volume urgent.
    pub fn hurry_volume(&self, volume: VolumeId, up_to: Lsn) {
        for lane in [Lane::Full, Lane::Resting, Lane::Claimed, Lane::Waiting] {
            let mut after = None;
            loop {
                let entries = self.queue.entries(volume, lane, after, 1024);
                let Some(last) = entries.last() else { break };
                after = Some(*last);
                for (_, object, block) in entries {
                    self.hurry_block(volume, object, block, up_to);
                }
            }
        }
    }

    fn hurry_block(&self, volume: VolumeId, object: ObjectId, block: BlockIndex, up_to: Lsn) {
        self.change(FileKey { volume, object }, None, |dirty| {
            let state = dirty.blocks.get_mut(&block)?;
            state.urgent = state.urgent.max(up_to);
            Some(block..BlockIndex(block.0 + 1))
        });
    }

    pub fn oldest_of_file(&self, file: FileKey) -> Option<Lsn> {
        let shard = self.shards[file.shard(SHARDS)].read();
        let dirty = shard.get(&file).filter(|dirty| dirty.hold != Some(Hold::Kept))?;
        let blocks = dirty.blocks.values();
        blocks.filter(|state| state.bytes > 0).map(|state| state.oldest).min()
    }

    pub fn oldest_of_volume(&self, volume: VolumeId) -> Option<Lsn> {
        self.queue.oldest(volume)
    }

    pub fn volumes(&self) -> Vec<VolumeId> {
        self.queue.volumes()
    }

    pub fn oldest_needed(&self) -> Option<Lsn> {
        self.ledger.oldest()
    }

    /// All dirty ranges, by file; adjacent ones are one.
    pub fn all(&self) -> Vec<(FileKey, Vec<Range<u64>>)> {
        let mut found = Vec::new();
        for shard in &self.shards {
            for (file, dirty) in shard.read().iter() {
                let mut ranges: Vec<Range<u64>> = Vec::new();
                for Piece { range, .. } in dirty.pieces() {
                    match ranges.last_mut() {
                        Some(last) if last.end == range.start => last.end = range.end,
                        _ => ranges.push(range),
                    }
                }
                if !ranges.is_empty() {
                    found.push((*file, ranges));
                }
            }
        }
        found
    }

    /// The last record applied.
    pub fn newest(&self) -> Lsn {
        Lsn(self.newest.load(Ordering::Acquire))
    }

    pub fn work(&self) -> watch::Receiver<u64> {
        self.queue.work()
    }

    pub fn cleaned(&self) -> watch::Receiver<u64> {
        self.cleaned.subscribe()
    }

    /// Dirty bytes, wherever they lie.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn bytes_of_file(&self, file: FileKey) -> u64 {
        self.shards[file.shard(SHARDS)].read().get(&file).map_or(0, |dirty| dirty.bytes)
    }

    pub fn bytes_of_volume(&self, volume: VolumeId) -> u64 {
        let of_shard = |shard: &RwLock<HashMap<FileKey, DirtyFile>>| {
            let shard = shard.read();
            shard.iter().filter(|(file, _)| file.volume == volume).map(|(_, dirty)| dirty.bytes).sum::<u64>()
        };
        self.shards.iter().map(of_shard).sum()
    }

    /// Dirty bytes in memory.
    pub fn memory(&self) -> u64 {
        self.ledger.memory()
    }

    /// Lets those look again who wait for less dirty data.
    pub fn tick(&self) {
        if self.cleaned.receiver_count() > 0 {
            self.cleaned.send_modify(|tick| *tick += 1);
        }
    }
}

/// What the books of the dirty data of a file take in memory.
fn books_bytes(dirty: &DirtyFile) -> u64 {
    dirty.extents() as u64 * EXTENT_BYTES
}

/// What the dirty data of a file takes in the journal, if it is moved.
fn journal_bytes(dirty: &DirtyFile) -> u64 {
    dirty.payload_bytes + dirty.extents() as u64 * EXTENT_JOURNAL_BYTES
}

struct Claimed<'a> {
    blocks: Vec<DirtyBlock>,
    bytes: u64,
    selection: &'a Selection,
}

impl Claimed<'_> {
    fn is_full(&self) -> bool {
        self.blocks.len() >= self.selection.blocks || self.bytes >= self.selection.bytes
    }
}
