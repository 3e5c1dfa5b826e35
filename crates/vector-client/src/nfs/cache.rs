//! What was read, kept in memory (V35).
//!
//! Nothing here is believed by itself. Data is filed under the file's handle and `change` attribute, and handed out again
//! when the server has said that the file has that `change` still ([`Kept`]).
//! The `change` is asked for before the data is read, in the same compound: data that is newer than its label is found out by the next
//! question, and data that is older does not exist.

mod extents;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use environment::mutant::{Mutant, is_broken};
use nfs4::{Attribute, AttributeValues, Bitmap, FileHandle};
use onc_rpc::record_memory;
use quick_cache::sync::{Cache as Table, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::Target;
use crate::step::{Data, Read};

use extents::Extents;

/// Bytes of a file under one key. As much as one READ brings, so that a long read is kept as it came.
const BLOCK: u64 = 1 << 20;

/// What an entry costs beside its bytes.
const ENTRY_BYTES: u64 = 192;

/// Data from this size on is in a message with a buffer of its own; smaller messages may share one.
const OWN: usize = 64 << 10;

/// A shard below this could not hold a few blocks.
const SHARD_BYTES: u64 = 8 << 20;

/// Most entries that a table is made for; it may become larger.
const ITEMS: u64 = 1 << 18;

/// Most shards: as many threads as a machine has seldom want the same one.
const SHARDS: u64 = 32;

/// The part of the memory that names get, and that versions get.
const BOOKS: u64 = 16;

/// What a READ has to be told with, so that its data may be kept.
pub(super) fn label() -> Bitmap {
    Attribute::set(&[Attribute::Change, Attribute::Size, Attribute::Filehandle])
}

/// What says whether data is still that of the file.
pub(super) fn proof() -> Bitmap {
    Attribute::set(&[Attribute::Change, Attribute::Filehandle])
}

/// Data, names and versions of files, within a number of bytes.
pub(super) struct Cache {
    names: Table<Target, FileHandle, Weight>,
    versions: Table<FileHandle, Version, Weight>,
    blocks: Table<(u64, u64), Arc<Extents>, Weight>,
    next: AtomicU64,
}

/// A file as it was once.
#[derive(Clone, Copy, Debug)]
struct Version {
    /// Under which its blocks are.
    number: u64,
    change: u64,
    size: u64,
}

/// What a READ would bring if the file is still as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub handle: FileHandle,
    pub change: u64,
    pub data: Data,
}

impl Kept {
    /// Whether the server has just said that this is what the file has.
    pub fn is_proved_by(&self, values: &AttributeValues) -> bool {
        let is_as_old = values.change == Some(self.change) || is_broken(Mutant::StaleContent);
        is_as_old && values.filehandle.as_ref() == Some(&self.handle)
    }

    /// What the server compares.
    pub fn claim(&self) -> AttributeValues {
        AttributeValues {
            change: (!is_broken(Mutant::StaleContent)).then_some(self.change),
            filehandle: Some(self.handle.clone()),
            ..AttributeValues::default()
        }
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<Target, FileHandle> for Weight {
    fn weight(&self, target: &Target, handle: &FileHandle) -> u64 {
        ENTRY_BYTES + (target.path().len() + handle.as_bytes().len()) as u64
    }
}

impl Weighter<FileHandle, Version> for Weight {
    fn weight(&self, handle: &FileHandle, _: &Version) -> u64 {
        ENTRY_BYTES + handle.as_bytes().len() as u64
    }
}

impl Weighter<(u64, u64), Arc<Extents>> for Weight {
    fn weight(&self, _: &(u64, u64), extents: &Arc<Extents>) -> u64 {
        ENTRY_BYTES + extents.cost()
    }
}

impl Cache {
    /// `None` for no bytes.
    pub fn new(bytes: u64) -> Option<Cache> {
        (bytes > 0).then(|| Cache {
            names: table(bytes / BOOKS, ENTRY_BYTES),
            versions: table(bytes / BOOKS, ENTRY_BYTES),
            blocks: table(bytes - 2 * (bytes / BOOKS), BLOCK / 4),
            next: AtomicU64::new(0),
        })
    }

    /// Bytes of data that it may have.
    pub fn capacity(&self) -> u64 {
        self.blocks.capacity()
    }

    /// The file that this led to when it was read last.
    pub fn handle_of(&self, target: &Target) -> Option<FileHandle> {
        self.names.get(target)
    }

    /// How long the file was when it was read last.
    pub fn size_of(&self, handle: &FileHandle) -> Option<u64> {
        self.versions.get(handle).map(|version| version.size)
    }

    /// All that a READ of this file would bring.
    pub fn find(&self, handle: &FileHandle, read: &Read) -> Option<Kept> {
        let Version { number, change, size } = self.versions.get(handle)?;
        // Without a byte wanted, the end of the file is where a server says it is.
        let end = read.offset.saturating_add(read.length);
        if read.length == 0 {
            return None;
        }
        let (mut pieces, mut at) = (Vec::new(), read.offset);
        let last = end.min(size);
        while at < last {
            let block = self.blocks.get(&(number, at / BLOCK))?;
            let until = last.min((at / BLOCK + 1) * BLOCK);
            if !block.collect(at..until, &mut pieces) {
                return None;
            }
            at = until;
        }
        let data = Data { pieces, end_of_file: end >= size };
        Some(Kept { handle: handle.clone(), change, data })
    }

    /// Data that came after these attributes, in the same compound. `message`: how many bytes that was, all of which
    /// stay in memory as long as a slice of them does.
    pub fn learn(
        &self,
        target: &Target,
        values: AttributeValues,
        offset: u64,
        data: &Bytes,
        end_of_file: bool,
        message: usize,
    ) {
        let (Some(handle), Some(change), Some(size)) = (values.filehandle, values.change, values.size) else {
            return;
        };
        let end = offset.saturating_add(data.len() as u64);
        // It changed in between.
        if end_of_file != (end >= size) || (!data.is_empty() && end > size) {
            return;
        }
        if target.descriptor().is_none() && self.names.get(target).as_ref() != Some(&handle) {
            self.names.insert(target.detached(), detached(&handle));
        }
        let number = self.number(&handle, change, size);
        let mut at = offset;
        while at < end {
            let until = end.min((at / BLOCK + 1) * BLOCK);
            let (from, to) = ((at - offset) as usize, (until - offset) as usize);
            let part = data.slice(from..to);
            // What is a small part of a message would hold all of it.
            let (part, cost) = match part.len() >= OWN && part.len() * 2 >= message {
                true => (part, record_memory(message)),
                false => (Bytes::copy_from_slice(&part), to - from),
            };
            let key = (number, at / BLOCK);
            let extents = match self.blocks.peek(&key) {
                Some(extents) => extents.with(at, part, cost as u64),
                None => Extents::default().with(at, part, cost as u64),
            };
            self.blocks.insert(key, Arc::new(extents));
            at = until;
        }
    }

    fn number(&self, handle: &FileHandle, change: u64, size: u64) -> u64 {
        match self.versions.get(handle) {
            Some(version) if (version.change, version.size) == (change, size) => version.number,
            _ => {
                let number = self.next.fetch_add(1, Relaxed);
                self.versions.insert(detached(handle), Version { number, change, size });
                number
            }
        }
    }

    /// It is another one now.
    pub fn forget(&self, handle: &FileHandle) {
        if let Some((_, Version { number, size, .. })) = self.versions.remove(handle) {
            // What is left of a longer one goes when there is no room.
            for block in (0..size.div_ceil(BLOCK)).take(SWEEP) {
                self.blocks.remove(&(number, block));
            }
        }
    }

    /// Bytes that all of it takes.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.names.weight() + self.versions.weight() + self.blocks.weight()
    }
}

/// The same, in memory of its own instead of a message's.
pub(super) fn detached(handle: &FileHandle) -> FileHandle {
    FileHandle::new(Bytes::copy_from_slice(handle.as_bytes())).unwrap_or_else(|_| handle.clone())
}

/// Blocks of a former version that are looked for.
const SWEEP: usize = 1024;

fn table<K, V>(bytes: u64, usual: u64) -> Table<K, V, Weight>
where
    K: Eq + std::hash::Hash + Clone,
    V: Clone,
    Weight: Weighter<K, V>,
{
    let shards = (bytes / SHARD_BYTES).clamp(1, SHARDS) as usize;
    // Room is made for so many beforehand, however much memory there may be one day.
    let items = (bytes / usual).clamp(16, ITEMS) as usize;
    let options =
        OptionsBuilder::new().estimated_items_capacity(items).weight_capacity(bytes).shards(shards).build();
    match options {
        Ok(options) => {
            Table::with_options(options, Weight, DefaultHashBuilder::default(), DefaultLifecycle::default())
        }
        Err(_) => Table::with_weighter(items, bytes, Weight),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn memory_without_end_is_not_taken_beforehand() {
        for bytes in [u64::MAX, 1 << 50] {
            let cache = Cache::new(bytes).unwrap();
            assert!(cache.capacity() > bytes / 2);
        }
        assert!(Cache::new(0).is_none() && Cache::new(1).is_some());
    }

    fn handle(number: u8) -> FileHandle {
        FileHandle::new(vec![number; 16]).unwrap()
    }

    fn values(number: u8, change: u64, size: u64) -> AttributeValues {
        AttributeValues {
            filehandle: Some(handle(number)),
            change: Some(change),
            size: Some(size),
            ..AttributeValues::default()
        }
    }

    /// What a server would answer.
    fn read(file: &[u8], offset: u64, length: u64) -> (Bytes, bool) {
        let start = (offset as usize).min(file.len());
        let end = (offset.saturating_add(length)).min(file.len() as u64) as usize;
        (
            Bytes::copy_from_slice(&file[start..end.max(start)]),
            offset.saturating_add(length) >= file.len() as u64,
        )
    }

    #[test]
    fn it_never_has_more_bytes_than_it_may() {
        let cache = Cache::new(1 << 20).unwrap();
        for number in 0..2000_u64 {
            let target = Target::from(format!("/some/name/{number}"));
            let data = Bytes::from(vec![7; 3000]);
            cache.learn(&target, values((number % 256) as u8, number, 3000), 0, &data, true, 3000);
            assert!(cache.bytes() <= 1 << 20, "{}", cache.bytes());
        }
        assert!(cache.bytes() > 1 << 19, "it keeps as much as it may: {}", cache.bytes());
    }

    #[test]
    fn a_small_part_of_a_message_does_not_hold_all_of_it() {
        let message = Bytes::from(vec![1; 1 << 20]);
        let cache = Cache::new(16 << 20).unwrap();
        let part = message.slice(..100);
        cache.learn(&"/a".into(), values(1, 1, 100), 0, &part, true, message.len());
        let kept = cache.find(&handle(1), &Read::new("/a", 0, 100)).unwrap();
        assert_ne!(kept.data.pieces[0].as_ptr(), part.as_ptr(), "copied");
        cache.learn(&"/b".into(), values(2, 1, 1 << 20), 0, &message, true, message.len());
        let kept = cache.find(&handle(2), &Read::new("/b", 0, 1 << 20)).unwrap();
        assert_eq!(kept.data.pieces[0].as_ptr(), message.as_ptr(), "not copied");
        assert!(
            cache.bytes() > record_memory(1 << 20) as u64 && cache.bytes() < 2 << 20,
            "{}",
            cache.bytes()
        );
    }

    #[test]
    fn a_small_message_does_not_hold_what_it_shares_a_buffer_with() {
        let cache = Cache::new(16 << 20).unwrap();
        for (number, length) in [(1, 1), (2, 1000), (3, OWN - 1)] {
            let data = Bytes::from(vec![1; length]);
            cache.learn(&"/a".into(), values(number, 1, length as u64), 0, &data, true, length);
            let kept = cache.find(&handle(number), &Read::new("/a", 0, length as u64)).unwrap();
            assert_ne!(kept.data.pieces[0].as_ptr(), data.as_ptr(), "{length}");
        }
    }

    #[test]
    fn nothing_is_left_of_what_is_forgotten() {
        let cache = Cache::new(16 << 20).unwrap();
        let data = Bytes::from(vec![1; 3 << 20]);
        cache.learn(&"/a".into(), values(1, 1, 3 << 20), 0, &data, true, 3 << 20);
        let with = cache.bytes();
        assert!(with > 3 << 20);
        cache.forget(&handle(1));
        assert!(cache.bytes() < ENTRY_BYTES + 100);
        assert_eq!(cache.find(&handle(1), &Read::new("/a", 0, 1)), None);
    }

    proptest! {
        /// Two files that change now and then; what is found is what a server would answer at that `change`.
        #[test]
        fn what_is_found_is_what_was_there_at_that_change(
            steps in vec((0u8..2, 0u8..6, 0u64..60, 0u64..80, any::<u8>()), 1..60),
            small in any::<bool>(),
        ) {
            let cache = Cache::new(if small { 4 << 10 } else { 1 << 20 }).unwrap();
            // Across the border between two blocks.
            let base = BLOCK - 30;
            let mut files = [vec![0_u8; base as usize + 50], vec![0_u8; base as usize + 50]];
            let mut history = [vec![files[0].clone()], vec![files[1].clone()]];
            for (which, act, offset, length, byte) in steps {
                let file = &mut files[which as usize];
                let offset = base + offset;
                let change = history[which as usize].len() as u64 - 1;
                match act {
                    0 => {
                        let end = (offset + length % 7) as usize;
                        file.resize(file.len().max(end), 0);
                        file[offset as usize..end].fill(byte);
                        history[which as usize].push(file.clone());
                    }
                    1 => {
                        file.truncate(offset as usize);
                        history[which as usize].push(file.clone());
                    }
                    2 | 3 => {
                        let (data, end) = read(file, offset, length);
                        let size = file.len() as u64;
                        cache.learn(&"x".into(), values(which, change, size), offset, &data, end, data.len() * 3);
                    }
                    _ => {
                        let wanted = Read::new("x", offset, length);
                        if let Some(kept) = cache.find(&handle(which), &wanted) {
                            let then = &history[which as usize][kept.change as usize];
                            let (data, end) = read(then, offset, length);
                            prop_assert_eq!(kept.data.end_of_file, end);
                            prop_assert_eq!(kept.data.into_bytes(), data);
                        }
                    }
                }
            }
        }
    }
}
