//! Files on their way from one policy to another (decision 28).
//!
//! A file that is to be moved gets its new policy at once: what is stored of it from then on follows that, and its entries in the map
//! say so. What was stored before is found here, and stored once more by write-back, which lets go of the old version as always. When no
//! entry of the old policy is left, the row of the file says the same of all entries again.

mod shared;
mod walk;

pub(crate) use walk::asked;

use std::collections::BTreeSet;
use std::time::Duration;

use ids::{BlockIndex, ObjectId};
use meta::{MetaError, Scan};
use seal::WrappedFileKey;
use tokio::sync::Notify;
use upkeep::{Rewrite, Rewrites};

use crate::VolumeError;
use crate::keys::{Keys, ObjectRow};
use crate::node::upkeep_transaction;
use crate::row::{BlockEntry, CHUNK_BLOCKS, Chunk, MigratingRow, Origin, Special};
use crate::shares::ShareBook;
use crate::volume::{FileRows, Inner, Volume};

/// Rows of a map that are looked at in one transaction.
const CHUNKS: usize = 16;
/// Files that are done with in one transaction.
const FILES: usize = 64;
/// Rows of files that are counted at a time.
const ROWS: usize = 4096;
/// Rest for each file that was counted, before they are counted again for whoever wants to know about: some twenty times what it takes.
const REST: Duration = Duration::from_micros(50);

/// Where the search for blocks to move is, and who waits for it.
#[derive(Default)]
pub(crate) struct Migration {
    pub begun: Notify,
    cursor: tokio::sync::Mutex<Cursor>,
    /// How much there was to be moved, and until when that is good enough.
    counted: tokio::sync::Mutex<Option<(Migrating, Duration)>>,
}

#[derive(Default)]
struct Cursor {
    /// The last file that was begun in this pass.
    after: Option<ObjectId>,
    file: Option<Pass>,
    /// Whether something is left to be moved, as far as this pass has got.
    found: bool,
}

/// A look at all blocks of a file.
struct Pass {
    object: ObjectId,
    round: u64,
    next: BlockIndex,
    found: bool,
}

/// How much of a volume is still to be moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrating {
    /// Directories whose files are still being looked for.
    pub directories: u64,
    /// Files that are known to be on their way.
    pub files: u64,
    /// What these used when they were sent.
    pub bytes: u64,
}

/// What is found in one go.
struct Batch {
    blocks: Vec<Rewrite>,
    origins: BTreeSet<Origin>,
    blocks_left: usize,
    bytes_left: u64,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.blocks_left == 0 || self.bytes_left == 0
    }

    fn take(&mut self, rewrite: Rewrite) {
        self.blocks_left -= 1;
        self.bytes_left = self.bytes_left.saturating_sub(rewrite.length);
        self.blocks.push(rewrite);
    }
}

impl Volume {
    /// How much is still to be moved to another policy.
    pub async fn migrating(&self) -> Result<Migrating, VolumeError> {
        let inner = &self.inner;
        let mut found = Migrating::default();
        let mut transaction = inner.node.store.begin(meta::Mode::Optimistic).await?;
        let (start, end) = inner.keys.migrations();
        let scan = Scan { start: &start, end: &end, guard: None, limit: ROWS };
        found.directories = transaction.scan(scan).await?.len() as u64;
        let (mut start, end) = inner.keys.all_migrating();
        loop {
            let mut transaction = inner.node.store.begin(meta::Mode::Optimistic).await?;
            let rows = transaction.scan(Scan { start: &start, end: &end, guard: None, limit: ROWS }).await?;
            for (_, row) in &rows {
                found.files += 1;
                found.bytes += MigratingRow::decode(row).map_or(0, |row| row.bytes);
            }
            match rows.last() {
                Some((last, _)) if rows.len() == ROWS => start = [&last[..], &[0]].concat().into(),
                _ => return Ok(found),
            }
        }
    }

    /// As [`Volume::migrating`], for whoever asks again and again: when there is much to count, as it was counted some time ago.
    pub async fn migrating_lately(&self) -> Result<Migrating, VolumeError> {
        let clock = &self.inner.node.environment.clock;
        let mut counted = self.inner.migration.counted.lock().await;
        if let Some((migrating, until)) = &*counted
            && clock.monotonic() < *until
        {
            return Ok(*migrating);
        }
        let migrating = self.migrating().await?;
        let rest = REST * u32::try_from(migrating.files).unwrap_or(u32::MAX);
        *counted = Some((migrating, clock.monotonic() + rest));
        Ok(migrating)
    }

    /// Some of the blocks that are stored by another policy than their file's, from where the last call ended. Files without such blocks
    /// are done with.
    pub async fn to_rewrite(&self, most: usize, bytes: u64) -> Result<Rewrites, VolumeError> {
        let inner = &self.inner;
        let mut cursor = inner.migration.cursor.lock().await;
        let (blocks_left, bytes_left) = (most, bytes);
        let mut batch = Batch { blocks: Vec::new(), origins: BTreeSet::new(), blocks_left, bytes_left };
        let mut done = Vec::new();
        let (mut is_last, mut is_done) = (false, false);
        while !batch.is_full() && !is_last {
            let Cursor { file: Some(pass), found, .. } = &mut *cursor else {
                let next = inner.next_migrating(cursor.after).await?;
                is_last = next.is_none();
                cursor.after = next.as_ref().map(|pass| pass.object);
                cursor.file = next;
                continue;
            };
            let looked = inner.look_at(pass, &mut batch).await;
            if let Err(VolumeError::Meta(MetaError::Conflict)) = looked {
                // It was changed meanwhile. The next pass finds the rest, and the others do not wait for it.
                *found = true;
                cursor.file = None;
                continue;
            }
            *found |= looked.is_err();
            if looked? {
                match pass.found {
                    true => *found = true,
                    false => done.push((pass.object, pass.round)),
                }
                cursor.file = None;
            }
            if done.len() == FILES {
                let finished = inner.finish_migrations(&std::mem::take(&mut done)).await;
                cursor.found |= !matches!(finished, Ok(true));
                finished?;
            }
        }
        let finished = inner.finish_migrations(&done).await;
        cursor.found |= !matches!(finished, Ok(true));
        finished?;
        if is_last {
            is_done = !std::mem::take(&mut cursor.found);
        }
        Ok(Rewrites { blocks: batch.blocks, is_last, is_done })
    }
}

impl Inner {
    async fn next_migrating(&self, after: Option<ObjectId>) -> Result<Option<Pass>, VolumeError> {
        let (mut start, end) = self.keys.all_migrating();
        if let Some(after) = after {
            start = [&self.keys.migrating(after)[..], &[0]].concat().into();
        }
        let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
        let rows = transaction.scan(Scan { start: &start, end: &end, guard: None, limit: 1 }).await?;
        let Some((key, row)) = rows.first() else { return Ok(None) };
        let Some(object) = Keys::orphan_of(key) else { return Ok(None) };
        let row = MigratingRow::decode(row).map_err(self.damaged("the migration of object", object))?;
        Ok(Some(Pass { object, round: row.round, next: BlockIndex(0), found: false }))
    }

    /// Looks for blocks to move until the batch is full, and moves those of which another holder was moved already; whether the end of the file was reached.
    async fn look_at(&self, pass: &mut Pass, batch: &mut Batch) -> Result<bool, VolumeError> {
        let object = pass.object;
        loop {
            let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
            let Some(file) = self.file_rows(&mut *transaction, object).await? else { return Ok(true) };
            if WrappedFileKey::is_of_shredded(&file.key.wrapped) {
                // Nothing of it can be loaded; it stays where it is until it is closed.
                pass.found = true;
                return Ok(true);
            }
            let (start, end) = self.keys.chunks(object, pass.next..BlockIndex(u64::MAX));
            let scan = Scan { start: &start, end: &end, guard: None, limit: CHUNKS };
            let rows = transaction.scan(scan).await?;
            let mut book = ShareBook::new(self);
            for (key, row) in &rows {
                let Some((_, ObjectRow::Chunk(number))) = Keys::object_row(key) else { continue };
                let chunk = self.chunk(object, Some(row))?;
                let place = (number, &chunk);
                let moved =
                    self.look_at_chunk(&mut *transaction, &mut book, &file, place, pass, batch).await?;
                pass.found |= self.share_moved(object, number, &moved).await? < moved.len();
                if batch.is_full() {
                    return Ok(false);
                }
                pass.next = BlockIndex((number + 1) * CHUNK_BLOCKS);
            }
            if rows.len() < CHUNKS {
                return Ok(true);
            }
        }
    }

    async fn look_at_chunk(
        &self,
        transaction: &mut dyn meta::Transaction,
        book: &mut ShareBook<'_>,
        file: &FileRows,
        (number, chunk): (u64, &Chunk),
        pass: &mut Pass,
        batch: &mut Batch,
    ) -> Result<Vec<(u64, BlockEntry)>, VolumeError> {
        let mut moved = Vec::new();
        let Special::File { shift, .. } = file.inode.special else { return Ok(moved) };
        for (index, entry) in chunk.iter().filter(|(_, entry)| entry.is_stored()) {
            let block = BlockIndex(number * CHUNK_BLOCKS + index);
            if block < pass.next {
                continue;
            }
            let policy = match entry.origin {
                None => Some(file.policy_of(entry)),
                // Damage is not for us to find.
                Some(origin) => book.share(transaction, origin).await?.map(|share| share.policy),
            };
            if policy.is_none_or(|policy| policy == file.policy_id) {
                continue;
            }
            // Of those that share something one is enough at a time: the others share what becomes of it.
            let origin = entry.sealed(pass.object, block).origin;
            if self.has_moved(transaction, book, origin, file.policy_id).await?.is_some() {
                moved.push((index, entry));
                continue;
            }
            pass.found = true;
            if !batch.origins.insert(origin) {
                continue;
            }
            let (file_key, length) = (self.file_key(pass.object), file.length_of(block));
            batch.take(Rewrite { file: file_key, shift, block, length });
            if batch.is_full() {
                pass.next = BlockIndex(block.0 + 1);
                break;
            }
        }
        Ok(moved)
    }

    /// Nothing is left to be moved of these files, as of these rounds. Whether that is still so.
    async fn finish_migrations(&self, files: &[(ObjectId, u64)]) -> Result<bool, VolumeError> {
        if files.is_empty() {
            return Ok(true);
        }
        let finished: Result<bool, VolumeError> = upkeep_transaction!(self.node, |transaction| {
            let mut all = true;
            for &(object, round) in files {
                let key = self.keys.migrating(object);
                let row = transaction.get(&key).await?;
                let row = row.map(|row| MigratingRow::decode(&row)).transpose();
                let row = row.map_err(self.damaged("the migration of object", object))?;
                let Some(row) = row else { continue };
                if row.round != round {
                    all = false;
                    continue;
                }
                transaction.delete(key);
                let Some(row) = transaction.get(&self.keys.inode(object)).await? else { continue };
                let mut inode = self.inode(object, &row)?;
                if let Special::File { policy, base, .. } = &mut inode.special
                    && policy != base
                {
                    *base = *policy;
                    transaction.put(self.keys.inode(object), inode.encode());
                    transaction.touch(&self.keys.cut(object));
                }
            }
            environment::failpoint!("migration.before-finish");
            Ok(all)
        });
        environment::failpoint!("migration.finished");
        finished
    }

    /// A file has taken over blocks of another one, which may be stored by several policies: then so may it.
    pub async fn migrate_clone(
        &self,
        transaction: &mut dyn meta::Transaction,
        source: ObjectId,
        target: ObjectId,
        bytes: u64,
    ) -> Result<(), VolumeError> {
        if transaction.get(&self.keys.migrating(source)).await?.is_none() {
            return Ok(());
        }
        self.note_migrating(transaction, target, bytes).await
    }

    async fn note_migrating(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        bytes: u64,
    ) -> Result<(), VolumeError> {
        let key = self.keys.migrating(object);
        let known = transaction.get(&key).await?.map(|row| MigratingRow::decode(&row)).transpose();
        let known = known.map_err(self.damaged("the migration of object", object))?;
        let round = known.map_or(1, |known| known.round.wrapping_add(1));
        transaction.put(key, MigratingRow { round, bytes }.encode());
        Ok(())
    }
}
