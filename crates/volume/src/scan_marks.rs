//! What a scanner for malware has said of files, and what follows from it (decision 30). The scanner itself is the crate `scan`.
//!
//! A file that was found clean has no row. Which files are quarantined is in memory, too, because every operation asks.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use cache::ReadRequest;
use file_system::{FileKind, FsResult, attribute_rules};
use ids::{BlockShift, ObjectId};
use meta::Scan;
use parking_lot::RwLock;

use crate::VolumeError;
use crate::keys::Keys;
use crate::node::upkeep_transaction;
use crate::row::{ScanMark, ScanState, Special};
use crate::transaction::read_committed;
use crate::volume::{Inner, Volume};

/// The quarantined files of a volume.
#[derive(Default)]
pub(crate) struct Quarantine {
    /// Without any, nobody waits for the lock.
    any: AtomicBool,
    files: RwLock<HashSet<ObjectId>>,
}

impl Quarantine {
    pub fn has(&self, object: ObjectId) -> bool {
        self.any.load(Ordering::Relaxed) && self.files.read().contains(&object)
    }

    pub fn count(&self) -> usize {
        self.files.read().len()
    }

    pub fn insert(&self, object: ObjectId) {
        self.files.write().insert(object);
        self.any.store(true, Ordering::Relaxed);
    }

    pub fn remove(&self, object: ObjectId) {
        self.files.write().remove(&object);
    }
}

/// A file as it was looked at before a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanTarget {
    /// Its version: the change attribute.
    pub change: u64,
    /// Bytes.
    pub size: u64,
    shift: BlockShift,
}

/// What became of a mark that was to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// It is durable.
    Done,
    /// The file has changed since that version.
    Changed,
    /// The file is gone.
    Gone,
    /// An administrator has released this version.
    Released,
}

impl Volume {
    /// Whether somebody has the file open or delegated.
    pub fn is_open(&self, object: ObjectId) -> bool {
        self.inner.references.is_held(object)
    }

    /// Whether nobody may read or change its content.
    pub fn is_quarantined(&self, object: ObjectId) -> bool {
        self.inner.quarantine.has(object)
    }

    /// Files that nobody may read or change.
    pub fn quarantined(&self) -> usize {
        self.inner.quarantine.count()
    }

    /// The file as it is now; `None` when it is gone, or no regular file.
    pub async fn scan_target(&self, object: ObjectId) -> Result<Option<ScanTarget>, VolumeError> {
        let inner = &self.inner;
        let mut transaction = inner.node.store.begin(meta::Mode::Optimistic).await?;
        let Some(row) = transaction.get(&inner.keys.inode(object)).await? else { return Ok(None) };
        let inode = inner.inode(object, &row)?;
        let Special::File { shift, .. } = inode.special else { return Ok(None) };
        let (change, size) = (inode.attributes.change, inode.attributes.size);
        Ok(Some(ScanTarget { change, size, shift }))
    }

    /// Content of a file, whoever may read it: up to `length` bytes from `offset` on, as they are now.
    pub async fn read_for_scan(
        &self,
        object: ObjectId,
        target: &ScanTarget,
        offset: u64,
        length: u64,
    ) -> FsResult<Vec<Bytes>> {
        let (file, size, shift) = (self.inner.file_key(object), target.size, target.shift);
        let length = length.min(size.saturating_sub(offset));
        let request = ReadRequest { file, shift, size, offset, length, readahead: true };
        match length {
            0 => Ok(Vec::new()),
            _ => read_committed(&self.inner, object, request).await,
        }
    }

    /// Notes what a scan has shown of version `change` of a file, durably. What is found in another version than the present one is not noted;
    /// nor what is found in one that was released.
    pub async fn mark_scanned(
        &self,
        object: ObjectId,
        change: u64,
        state: ScanState,
        found: &str,
    ) -> Result<Marked, VolumeError> {
        let inner = &self.inner;
        let marked: Result<Marked, VolumeError> = upkeep_transaction!(inner.node, |transaction| {
            let now = inner.node.environment.clock.wall();
            let row = transaction.get(&inner.keys.inode(object)).await?;
            let Some(row) = row else { return Ok(Marked::Gone) };
            let mut inode = inner.inode(object, &row)?;
            let before = inner.scan_mark(transaction, object).await?;
            if inode.attributes.kind != FileKind::Regular {
                return Ok(Marked::Gone);
            }
            if inode.attributes.change != change {
                return Ok(Marked::Changed);
            }
            if before.is_some_and(|before| before.state == ScanState::Released && before.change == change) {
                return Ok(Marked::Released);
            }
            if state == ScanState::Quarantined {
                // Those who keep the content see that something has changed.
                attribute_rules::touch(&mut inode.attributes, now);
                transaction.put(inner.keys.inode(object), inode.encode());
            }
            let change = inode.attributes.change;
            let mark = ScanMark { state, change, time: now, found: found.to_owned() };
            transaction.put(inner.keys.scan_mark(object), mark.encode());
            Ok(Marked::Done)
        });
        if matches!(marked, Ok(Marked::Done)) && state == ScanState::Quarantined {
            inner.quarantine.insert(object);
        }
        marked
    }

    /// The file was found clean: what was noted before does not hold any more, unless it is in quarantine.
    pub async fn mark_clean(&self, object: ObjectId) -> Result<(), VolumeError> {
        let inner = &self.inner;
        if self.scan_mark(object).await?.is_none() {
            return Ok(());
        }
        upkeep_transaction!(inner.node, |transaction| {
            let mark = inner.scan_mark(transaction, object).await?;
            if mark.is_some_and(|mark| mark.state != ScanState::Quarantined) {
                transaction.delete(inner.keys.scan_mark(object));
            }
            Ok(())
        })
    }

    /// Ends the quarantine of a file, whatever was found in this version of it; durable. Whether there was one.
    pub async fn release_from_quarantine(&self, object: ObjectId) -> Result<bool, VolumeError> {
        let inner = &self.inner;
        let released: Result<bool, VolumeError> = upkeep_transaction!(inner.node, |transaction| {
            let Some(mark) = inner.scan_mark(transaction, object).await? else { return Ok(false) };
            let Some(row) = transaction.get(&inner.keys.inode(object)).await? else { return Ok(false) };
            if mark.state != ScanState::Quarantined {
                return Ok(false);
            }
            let mut inode = inner.inode(object, &row)?;
            let now = inner.node.environment.clock.wall();
            attribute_rules::touch(&mut inode.attributes, now);
            transaction.put(inner.keys.inode(object), inode.encode());
            let change = inode.attributes.change;
            let mark = ScanMark { state: ScanState::Released, change, time: now, ..mark };
            transaction.put(inner.keys.scan_mark(object), mark.encode());
            Ok(true)
        });
        if matches!(released, Ok(true)) {
            inner.quarantine.remove(object);
        }
        released
    }

    /// What is known of a file that was not found clean.
    pub async fn scan_mark(&self, object: ObjectId) -> Result<Option<ScanMark>, VolumeError> {
        let mut transaction = self.inner.node.store.begin(meta::Mode::Optimistic).await?;
        self.inner.scan_mark(&mut *transaction, object).await
    }

    /// The object at a path from the root of the volume, with the eyes of the superuser.
    pub async fn object_at(&self, path: &str) -> Result<Option<ObjectId>, VolumeError> {
        let mut transaction = self.inner.node.store.begin(meta::Mode::Optimistic).await?;
        Ok(self.inner.resolve(&mut *transaction, path).await?.map(|(object, _)| object))
    }

    /// Up to `limit` marks behind `after`, by object.
    pub async fn scan_marks(
        &self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Result<Vec<(ObjectId, ScanMark)>, VolumeError> {
        let inner = &self.inner;
        let (mut start, end) = inner.keys.scan_marks();
        if let Some(after) = after {
            start = [&inner.keys.scan_mark(after)[..], &[0]].concat().into();
        }
        let mut transaction = inner.node.store.begin(meta::Mode::Optimistic).await?;
        let rows = transaction.scan(Scan { start: &start, end: &end, guard: None, limit }).await?;
        let decoded = rows.iter().filter_map(|(key, row)| {
            let object = Keys::orphan_of(key)?;
            Some(
                ScanMark::decode(row)
                    .map_err(inner.damaged("the scan of object", object))
                    .map(|m| (object, m)),
            )
        });
        decoded.collect()
    }
}

impl Inner {
    async fn scan_mark(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
    ) -> Result<Option<ScanMark>, VolumeError> {
        let row = transaction.get(&self.keys.scan_mark(object)).await?;
        row.map(|row| ScanMark::decode(&row).map_err(self.damaged("the scan of object", object))).transpose()
    }
}

/// The quarantined files, at a start.
pub(crate) async fn read_quarantine(
    keys: Keys,
    transaction: &mut dyn meta::Transaction,
) -> Result<Quarantine, VolumeError> {
    let (start, end) = keys.scan_marks();
    let quarantine = Quarantine::default();
    for (key, row) in
        transaction.scan(Scan { start: &start, end: &end, guard: None, limit: usize::MAX }).await?
    {
        // One that cannot be read had better be taken for the worst.
        let is_quarantined = ScanMark::decode(&row).map_or(true, |mark| mark.state == ScanState::Quarantined);
        if let Some(object) = Keys::orphan_of(&key).filter(|_| is_quarantined) {
            quarantine.insert(object);
        }
    }
    Ok(quarantine)
}
