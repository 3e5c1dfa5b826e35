use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use environment::Environment;
use journal::WriterKind;
use parking_lot::{Mutex, RwLock};
use seal::NodeKey;
use tokio::sync::Notify;

use crate::block_key::BlockKey;
use crate::memory::pieces_of;
use crate::region::{Location, MOST_BLOCKS, OpenRegion, Region, number_of, sealed_length};
use crate::stats::Stats;
use crate::{CacheConfig, CacheError};

const SHARDS: usize = 16;
/// Regions that the tier is divided into.
const REGIONS: u64 = 64;
/// No region is smaller, so that a block of the largest size fits.
const SMALLEST_REGION: u64 = 32 << 20;
/// No region has more than this part of the tier, in bytes or entries.
const LEAST_REGIONS: u64 = 4;
/// Memory for the index may take this part of the cache's memory ...
const INDEX_SHARE: u64 = 8;
/// ... at this many bytes an entry.
const ENTRY_BYTES: u64 = 280;
/// Most pieces that are worth a place in memory after one read.
const FEW_PIECES: usize = 8;
/// What to read at once of the pieces of a block: a few each by itself, so that each has memory of its own.
fn runs(wanted: Range<u32>) -> impl Iterator<Item = Range<u32>> + Send {
    let step = if enters_memory(wanted.len()) { 1 } else { wanted.len() };
    wanted.clone().step_by(step).map(move |first| first..wanted.end.min(first + step as u32))
}

/// Whether so many pieces that were read at once come into memory, too. Who reads more reads on, and does not come back;
/// and the kernel has it in memory, so that it costs one copy and the opening.
pub(crate) fn enters_memory(pieces: usize) -> bool {
    pieces <= FEW_PIECES
}

/// After a failed write the tier takes nothing new for this many blocks.
const PAUSE: u64 = 4096;

/// Clean blocks on the local disk: a log of sealed regions. A full region gets its index and is kept over
/// restarts; for a new one the oldest is given up, except for its blocks that were read since they were
/// written, which move to the new one (up to half of it). A block that does not verify is a miss.
pub(crate) struct DiskTier {
    environment: Environment,
    node_key: NodeKey,
    directory: PathBuf,
    writer_kind: WriterKind,
    capacity: u64,
    region_bytes: u64,
    most_entries: u64,
    index: Vec<RwLock<HashMap<BlockKey, Entry>>>,
    entries: AtomicU64,
    writer: Mutex<Writer>,
    queue: Mutex<WriteQueue>,
    queue_limit: u64,
    /// Tells that the queue has run empty.
    idle: Notify,
    /// Tells that the queue has become shorter.
    shorter: Notify,
    paused: AtomicU64,
    /// Moves on before something is forgotten: what was on its way is not to come back.
    forgotten: AtomicU64,
    bytes: AtomicU64,
    stats: Arc<Stats>,
}

struct Entry {
    place: Location,
    /// Read since it was written.
    hot: AtomicBool,
}

struct Writer {
    current: Option<OpenRegion>,
    /// Finished ones, oldest first, with their sizes.
    finished: VecDeque<(Arc<Region>, u64)>,
    next: u64,
}

#[derive(Default)]
struct WriteQueue {
    blocks: VecDeque<(BlockKey, Bytes)>,
    bytes: u64,
    running: bool,
}

impl WriteQueue {
    /// A block larger than the limit has to wait until all others are gone, and no longer.
    fn has_room(&self, length: u64, limit: u64) -> bool {
        self.bytes + length <= limit || self.blocks.is_empty()
    }
}

impl DiskTier {
    pub fn open(
        config: &CacheConfig,
        environment: &Environment,
        node_key: NodeKey,
        stats: Arc<Stats>,
    ) -> Result<Option<Arc<DiskTier>>, CacheError> {
        let region_bytes = (config.disk / REGIONS).max(SMALLEST_REGION).min(config.disk / LEAST_REGIONS);
        let tier = DiskTier {
            environment: environment.clone(),
            node_key,
            directory: config.directory.clone(),
            writer_kind: config.disk_writer,
            capacity: config.disk,
            region_bytes,
            most_entries: (config.memory / INDEX_SHARE / ENTRY_BYTES).max(1024),
            index: (0..SHARDS).map(|_| RwLock::default()).collect(),
            entries: AtomicU64::new(0),
            writer: Mutex::new(Writer { current: None, finished: VecDeque::new(), next: 1 }),
            queue: Mutex::default(),
            queue_limit: config.disk_queue_memory(),
            idle: Notify::new(),
            shorter: Notify::new(),
            paused: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            stats,
        };
        tier.load()?;
        Ok((config.disk > 0).then(|| Arc::new(tier)))
    }

    /// Takes over the regions of the last run and removes what is of no use.
    fn load(&self) -> Result<(), CacheError> {
        let disk = &*self.environment.disk;
        let fail = |what| {
            let path = self.directory.clone();
            move |cause| CacheError::Directory { what, path, cause: Arc::new(cause) }
        };
        if self.capacity > 0 {
            disk.make_directory(&self.directory).map_err(fail("creating"))?;
        }
        let mut files: Vec<_> = match disk.list(&self.directory) {
            Ok(files) => files.into_iter().filter_map(|path| Some((number_of(&path)?, path))).collect(),
            Err(_) if self.capacity == 0 => return Ok(()),
            Err(error) => return Err(fail("listing")(error)),
        };
        files.sort_unstable();
        let mut writer = self.writer.lock();
        // The newest first, as far as they fit.
        for (number, path) in files.into_iter().rev() {
            writer.next = writer.next.max(number.saturating_add(1));
            match Region::open(disk, &path, &self.node_key) {
                Ok((region, entries)) => {
                    let bytes = region.length().map_err(fail("reading a file in"))?;
                    if self.has_room_for(bytes, entries.len() as u64) {
                        for (block, place) in entries.into_iter().filter(|(block, _)| !self.contains(*block))
                        {
                            self.put(block, place);
                        }
                        self.bytes.fetch_add(bytes, Ordering::Relaxed);
                        writer.finished.push_front((region, bytes));
                        continue;
                    }
                }
                Err(error) => {
                    tracing::debug!(path = %path.display(), %error, "removing an unfinished file of the disk cache");
                }
            }
            disk.remove(&path).map_err(fail("removing a file in"))?;
        }
        Ok(())
    }

    fn shard(&self, block: BlockKey) -> &RwLock<HashMap<BlockKey, Entry>> {
        let mixed = (block.file.shard(1 << 16) as u64 ^ block.block.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.index[(mixed >> 32) as usize % SHARDS]
    }

    fn put(&self, block: BlockKey, place: Location) {
        let entry = Entry { place, hot: AtomicBool::new(false) };
        if self.shard(block).write().insert(block, entry).is_none() {
            self.entries.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn contains(&self, block: BlockKey) -> bool {
        self.shard(block).read().contains_key(&block)
    }

    fn place(&self, block: BlockKey) -> Option<Location> {
        let shard = self.shard(block).read();
        let entry = shard.get(&block)?;
        entry.hot.store(true, Ordering::Relaxed);
        Some(entry.place.clone())
    }

    /// The pieces that `range` of a block touches; `None` when the block is not here or does not verify.
    pub async fn read(self: &Arc<Self>, block: BlockKey, range: Range<u64>) -> Option<Vec<(u32, Bytes)>> {
        let place = self.place(block)?;
        let last = u64::from(place.length).min(range.end).max(range.start);
        let wanted = pieces_of(&(range.start..last.max(range.start + 1)));
        let mut runs = runs(wanted).peekable();
        let mut pieces = Vec::with_capacity(pieces_of(&range).len());
        // What the page cache has is here sooner than another thread could begin.
        let mut result = Ok(());
        while let Some(run) = runs.peek() {
            match place.read_run_now(block, run.clone()) {
                Ok(Some(found)) => pieces.extend(found),
                Ok(None) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            runs.next();
        }
        if result.is_ok() && runs.peek().is_some() {
            let read = move || {
                let rest = runs.map(|run| place.read_run(block, run));
                rest.collect::<std::io::Result<Vec<_>>>()
            };
            let rest = self.blocking(read).await?;
            result = rest.map(|rest| pieces.extend(rest.into_iter().flatten()));
        }
        match result {
            Ok(()) => Some(pieces),
            Err(error) => {
                self.stats.bad_disk_blocks.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(file = %block.file, block = %block.block, %error, "a block of the disk cache is damaged and was dropped");
                self.drop_block(block);
                None
            }
        }
    }

    /// Blocks of one region at most.
    fn most_of_region(&self) -> u64 {
        (self.most_entries / LEAST_REGIONS).min(MOST_BLOCKS)
    }

    /// Whether a region of the last run fits, beside the one that will be written.
    fn has_room_for(&self, bytes: u64, entries: u64) -> bool {
        self.bytes.load(Ordering::Relaxed) + bytes + self.region_bytes <= self.capacity
            && self.entries.load(Ordering::Relaxed) + entries <= self.most_entries
    }

    /// Whether nothing can be added to the index.
    fn has_all_entries(&self) -> bool {
        self.entries.load(Ordering::Relaxed) >= self.most_entries
    }

    /// Waits for work that may block; `None` if it panics on its thread.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        match self.writer_kind {
            WriterKind::Thread => tokio::task::spawn_blocking(work).await.ok(),
            WriterKind::Task => Some(work()),
        }
    }

    fn drop_block(&self, block: BlockKey) {
        if self.shard(block).write().remove(&block).is_some() {
            self.entries.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// As [`DiskTier::insert`], when there is room in the queue.
    pub async fn insert_in_turn(self: &Arc<Self>, block: BlockKey, bytes: Bytes) {
        let length = bytes.len() as u64;
        loop {
            let shorter = self.shorter.notified();
            if self.queue.lock().has_room(length, self.queue_limit) {
                break;
            }
            shorter.await;
        }
        self.insert(block, bytes);
    }

    /// Takes a block to be written soon; without room in the queue it is not cached on disk.
    pub fn insert(self: &Arc<Self>, block: BlockKey, bytes: Bytes) {
        let length = bytes.len() as u64;
        if length == 0 || sealed_length(length) > self.region_bytes / 2 || self.contains(block) {
            return;
        }
        let one_less = |left: u64| left.checked_sub(1);
        if self.paused.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            return;
        }
        let mut queue = self.queue.lock();
        if !queue.has_room(length, self.queue_limit) {
            self.stats.disk_inserts_skipped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.bytes += length;
        queue.blocks.push_back((block, bytes));
        if !std::mem::replace(&mut queue.running, true) {
            let tier = Arc::clone(self);
            match self.writer_kind {
                WriterKind::Thread => drop(tokio::task::spawn_blocking(move || tier.drain())),
                WriterKind::Task => drop(tokio::spawn(async move { tier.drain() })),
            }
        }
    }

    /// Writes what is queued, on a thread that may block.
    fn drain(&self) {
        loop {
            let (block, bytes, forgotten) = {
                let mut queue = self.queue.lock();
                match queue.blocks.pop_front() {
                    Some((block, bytes)) => (block, bytes, self.forgotten.load(Ordering::Relaxed)),
                    None => {
                        queue.running = false;
                        drop(queue);
                        self.idle.notify_waiters();
                        return;
                    }
                }
            };
            if !self.contains(block) {
                let mut writer = self.writer.lock();
                if let Err(error) = self.append(&mut writer, block, &bytes) {
                    tracing::warn!(%error, "the disk cache cannot be written; it pauses");
                    self.give_up_current(&mut writer);
                    self.paused.store(PAUSE, Ordering::Relaxed);
                    self.drop_queued(|_| true);
                }
                self.drop_if_forgotten_since(forgotten, block);
            }
            self.queue.lock().bytes -= bytes.len() as u64;
            self.shorter.notify_waiters();
        }
    }

    fn append(&self, writer: &mut Writer, block: BlockKey, bytes: &Bytes) -> std::io::Result<()> {
        let needed = sealed_length(bytes.len() as u64);
        let is_full = |region: &OpenRegion| {
            region.end + needed > self.region_bytes || region.blocks() >= self.most_of_region()
        };
        if writer.current.as_ref().is_none_or(is_full) {
            self.next_region(writer)?;
        }
        while self.has_all_entries() && self.retire_oldest(writer).is_some() {}
        self.append_to_current(writer, block, bytes)
    }

    fn append_to_current(&self, writer: &mut Writer, block: BlockKey, bytes: &Bytes) -> std::io::Result<()> {
        let Some(current) = &mut writer.current else { return Ok(()) };
        self.bytes.fetch_add(sealed_length(bytes.len() as u64), Ordering::Relaxed);
        let place = current.append(block, bytes)?;
        self.put(block, place);
        Ok(())
    }

    /// Whoever forgot something meanwhile may have missed a block that was on its way.
    fn drop_if_forgotten_since(&self, forgotten: u64, block: BlockKey) {
        if self.forgotten.load(Ordering::SeqCst) != forgotten {
            self.drop_block(block);
        }
    }

    /// Finishes the current region and begins another, for which old ones make room.
    fn next_region(&self, writer: &mut Writer) -> std::io::Result<()> {
        self.finish_current(writer)?;
        let forgotten = self.forgotten.load(Ordering::SeqCst);
        let mut hot = Vec::new();
        while self.bytes.load(Ordering::Relaxed) + self.region_bytes > self.capacity {
            match self.retire_oldest(writer) {
                Some(found) => hot = found,
                None => break,
            }
        }
        let (disk, entropy) = (&*self.environment.disk, &*self.environment.entropy);
        let number = writer.next;
        writer.next += 1;
        let current = OpenRegion::create(disk, entropy, &self.directory, number, &self.node_key)?;
        self.bytes.fetch_add(current.end, Ordering::Relaxed);
        writer.current = Some(current);
        let mut moved = 0;
        for (block, place) in hot.into_iter().take(self.most_of_region() as usize / 2) {
            moved += sealed_length(u64::from(place.length));
            if moved > self.region_bytes / 2 {
                break;
            }
            if let Ok(bytes) = place.read_whole(block) {
                self.append_to_current(writer, block, &bytes)?;
                self.drop_if_forgotten_since(forgotten, block);
            }
        }
        Ok(())
    }

    fn finish_current(&self, writer: &mut Writer) -> std::io::Result<()> {
        if let Some(current) = writer.current.take() {
            let (region, written) = (Arc::clone(&current.region), current.end);
            let finished = current.finish();
            // Without an index it is as good as another until a restart.
            let bytes = *finished.as_ref().unwrap_or(&written);
            self.bytes.fetch_add(bytes - written, Ordering::Relaxed);
            writer.finished.push_back((region, bytes));
            finished?;
        }
        Ok(())
    }

    /// After a failed write the current region ends without an index.
    fn give_up_current(&self, writer: &mut Writer) {
        if let Some(current) = writer.current.take() {
            writer.finished.push_back((current.region, current.end));
        }
    }

    /// Gives up the oldest finished region and returns its blocks that were read.
    fn retire_oldest(&self, writer: &mut Writer) -> Option<Vec<(BlockKey, Location)>> {
        let (region, bytes) = writer.finished.pop_front()?;
        let mut hot = Vec::new();
        for shard in &self.index {
            shard.write().retain(|block, entry| {
                let stays = !Arc::ptr_eq(&entry.place.region, &region);
                if !stays {
                    self.entries.fetch_sub(1, Ordering::Relaxed);
                    if entry.hot.load(Ordering::Relaxed) {
                        hot.push((*block, entry.place.clone()));
                    }
                }
                stays
            });
        }
        region.retire(&*self.environment.disk);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Some(hot)
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes waiting to be written.
    pub fn queued(&self) -> u64 {
        self.queue.lock().bytes
    }

    /// Drops blocks, also those that are on their way here.
    pub fn forget(&self, is_gone: impl Fn(&BlockKey) -> bool) {
        self.drop_queued(&is_gone);
        for shard in &self.index {
            shard.write().retain(|block, _| {
                let stays = !is_gone(block);
                if !stays {
                    self.entries.fetch_sub(1, Ordering::Relaxed);
                }
                stays
            });
        }
    }

    /// How long a block is, if it is here.
    pub fn length_of(&self, block: BlockKey) -> Option<u64> {
        self.shard(block).read().get(&block).map(|entry| u64::from(entry.place.length))
    }

    /// Takes blocks out of the queue; the one that is just being written is none any more either.
    fn drop_queued(&self, is_gone: impl Fn(&BlockKey) -> bool) {
        let mut queue = self.queue.lock();
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        let mut dropped = 0;
        queue.blocks.retain(|(block, bytes)| {
            let gone = is_gone(block);
            dropped += if gone { bytes.len() as u64 } else { 0 };
            !gone
        });
        queue.bytes -= dropped;
        drop(queue);
        self.shorter.notify_waiters();
    }

    /// Empties the tier.
    pub async fn clear(self: &Arc<Self>) {
        self.drop_queued(|_| true);
        let tier = Arc::clone(self);
        let clear = move || {
            let mut writer = tier.writer.lock();
            tier.give_up_current(&mut writer);
            while tier.retire_oldest(&mut writer).is_some() {}
        };
        // A panic in there would have dropped what was to be dropped.
        let _ = self.blocking(clear).await;
    }

    /// Keeps the tier from being written.
    #[cfg(test)]
    pub fn hold_writer(&self) -> impl Drop + '_ {
        self.writer.lock()
    }

    /// Waits until the queue is written.
    pub async fn written(&self) {
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            if !self.queue.lock().running {
                return;
            }
            idle.await;
        }
    }

    /// Gives the current region its index once the queue is written, so that its blocks survive a restart.
    pub async fn finish(self: &Arc<Self>) {
        self.written().await;
        let tier = Arc::clone(self);
        let finish = move || {
            if let Err(error) = tier.finish_current(&mut tier.writer.lock()) {
                tracing::warn!(%error, "the last blocks of the disk cache are lost at restart");
            }
        };
        // A panic in there costs cached blocks only.
        let _ = self.blocking(finish).await;
    }
}
