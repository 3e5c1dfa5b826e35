//! Taking apart what has neither a name nor a reference.

use bytes::Bytes;
use cache::DataOp;
use ids::{BlockIndex, ObjectId};
use meta::{Attachment, MetaError, Scan};

use crate::VolumeError;
use crate::garbage::Discarded;
use crate::keys::{Keys, ObjectRow};
use crate::node::upkeep_transaction;
use crate::row::{CHUNK_BLOCKS, Chunk, Special};
use crate::shares::{Released, ShareBook};
use crate::usage::Amount;
use crate::volume::{Inner, Volume};

/// Rows of objects that one transaction takes apart, at most.
const ROWS: usize = 512;
/// And at least: those that lead to the rest, and some that go.
const FEWEST_ROWS: usize = 8;
/// Orphans that are looked at in one transaction.
const ORPHANS: usize = 256;

impl Volume {
    /// Returns when there may be something to reap. For the loop of upkeep.
    pub async fn orphans_waiting(&self) {
        self.inner.references.released.notified().await;
    }

    /// Takes objects apart that nobody can reach any more, in transactions of bounded size, up to about `limit` objects;
    /// returns how many are gone. What they had stored goes into the garbage. Zero: nothing is left to do. One that is damaged is in nobody's
    /// way; the error tells of the first.
    pub async fn reap_orphans(&self, limit: usize) -> Result<usize, VolumeError> {
        let inner = &self.inner;
        let (mut start, end) = inner.keys.orphans();
        let (mut reaped, mut failed) = (0, None);
        while reaped < limit {
            let batch = ORPHANS.min(limit - reaped);
            let mut transaction = inner.node.store.begin(meta::Mode::Optimistic).await?;
            let scan = Scan { start: &start, end: &end, guard: None, limit: batch };
            let rows = transaction.scan(scan).await?;
            drop(transaction);
            let Some((last, _)) = rows.last() else { break };
            start = [&last[..], &[0]].concat().into();
            let orphans = rows.iter().filter_map(|(key, _)| Keys::orphan_of(key));
            let lost: Vec<ObjectId> = orphans.filter(|object| inner.references.is_lost(*object)).collect();
            let gone = inner.take_apart_what_can_be(&lost, false, &mut failed).await?;
            reaped += gone.len();
            gone.iter().for_each(|object| {
                inner.references.forget(*object);
                inner.quarantine.remove(*object);
            });
        }
        failed.map_or(Ok(reaped), Err)
    }
}

/// The row of an orphan. Whether somebody `held` it says whether a restart waits for him.
pub(crate) fn orphan_row(held: bool) -> Bytes {
    Bytes::from_static(if held { &[1, 1] } else { &[1, 0] })
}

/// What [`orphan_row`] was told; without knowing better somebody is waited for.
pub(crate) fn orphan_was_held(row: &[u8]) -> bool {
    row != [1, 0]
}

impl Inner {
    /// Records that somebody holds an orphan: he came between the removal and its commit.
    pub async fn keep_orphan(&self, object: ObjectId) -> Result<(), VolumeError> {
        let key = self.keys.orphan(object);
        upkeep_transaction!(self.node, |transaction| {
            if transaction.get(&key).await?.is_some() && !self.references.is_lost(object) {
                transaction.put(key.clone(), orphan_row(true));
            }
            Ok(())
        })
    }

    /// Takes objects apart completely, and returns which; the first error of one that cannot be goes to `failed`.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn take_apart_what_can_be(
        &self,
        objects: &[ObjectId],
        named: bool,
        failed: &mut Option<VolumeError>,
    ) -> Result<Vec<ObjectId>, VolumeError> {
        let is_of_the_store = |error: &VolumeError| matches!(error, VolumeError::Meta(cause) if !matches!(cause, MetaError::TooLarge { .. }));
        match self.take_all_apart(objects, named).await {
            Ok(()) => return Ok(objects.to_vec()),
            Err(error) if is_of_the_store(&error) => return Err(error),
            Err(_) => {}
        }
        let mut gone = Vec::new();
        for &object in objects {
            match self.take_all_apart(&[object], named).await {
                Ok(()) => gone.push(object),
                Err(error) if is_of_the_store(&error) => return Err(error),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        Ok(gone)
    }

    /// Takes objects apart completely, in several transactions if need be; those with names only if `named`.
    async fn take_all_apart(&self, orphans: &[ObjectId], named: bool) -> Result<(), VolumeError> {
        let (mut at, mut rows) = (0, ROWS);
        while at < orphans.len() {
            at += match self.take_some_apart(&orphans[at..], named, rows).await {
                // Maps without two neighbours alike, and the books of what they share.
                Err(VolumeError::Meta(MetaError::TooLarge { .. })) if rows > FEWEST_ROWS => {
                    rows /= 2;
                    continue;
                }
                done => done?,
            };
        }
        Ok(())
    }

    /// In one transaction; how many are gone.
    async fn take_some_apart(
        &self,
        orphans: &[ObjectId],
        named: bool,
        rows: usize,
    ) -> Result<usize, VolumeError> {
        upkeep_transaction!(self.node, |transaction| {
            let (mut rows, mut freed, mut finished) = (rows, Amount::default(), 0);
            for &object in orphans {
                if rows == 0 || !self.take_apart(transaction, object, named, &mut rows, &mut freed).await? {
                    break;
                }
                finished += 1;
            }
            self.usage.add_with(transaction, self.keys.usage(), freed);
            environment::failpoint!("reap.before-commit");
            Ok(finished)
        })
    }

    /// Deletes up to `rows` rows of an orphan. Whether nothing of it is left.
    pub(crate) async fn take_apart(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        named: bool,
        rows: &mut usize,
        freed: &mut Amount,
    ) -> Result<bool, VolumeError> {
        let Some(row) = transaction.get(&self.keys.inode(object)).await? else {
            transaction.delete(self.keys.orphan(object));
            return Ok(true);
        };
        let inode = self.inode(object, &row)?;
        if inode.attributes.links > 0 && !named {
            tracing::error!(%object, "an object with a name is marked as an orphan");
            transaction.delete(self.keys.orphan(object));
            return Ok(true);
        }
        let base = match inode.special {
            Special::File { base, .. } => base,
            _ => 0,
        };
        let mut garbage = Discarded::default();
        let (start, end) = self.keys.rows_of(object);
        let limit = *rows + 1;
        // A write-back that commits between here and this commit may bring a chunk that was not found.
        let guard = self.keys.cut(object);
        let found = transaction.scan(Scan { start: &start, end: &end, guard: Some(&guard), limit }).await?;
        let mut whole = found.len() < limit;
        let mut book = ShareBook::new(self);
        for (key, row) in found.iter().take(*rows) {
            match Keys::object_row(key) {
                // These two go last: they lead to the rest.
                Some((_, ObjectRow::Inode | ObjectRow::Key)) => continue,
                Some((_, ObjectRow::Chunk(number))) => {
                    let chunk =
                        Chunk::decode(row).map_err(self.damaged("the block map of object", object))?;
                    for (index, entry) in chunk.iter().filter(|(_, entry)| entry.is_stored()) {
                        let block = BlockIndex(number * CHUNK_BLOCKS + index);
                        if let Released::Own(version) =
                            book.release(transaction, object, block, entry).await?
                        {
                            garbage.push(entry.policy.unwrap_or(base), version);
                        }
                    }
                }
                _ => {}
            }
            transaction.delete(key.clone());
        }
        *rows -= found.len().min(*rows);
        transaction.touch(&guard);
        if whole {
            // Also what was stored and not committed, or is just being stored: garbage is not deleted before uploads that
            // were under way have ended.
            whole = self.take_attempts(transaction, object, rows, base, &mut garbage).await?;
        }
        book.finish(transaction).await?;
        if !garbage.is_empty() {
            let missing = || VolumeError::Missing { what: format!("the key of object {object}") };
            let key = self.key_row(transaction, object).await?.ok_or_else(missing)?;
            self.put_discarded(transaction, object, &key, garbage).await?;
        }
        if !whole {
            // Nobody has it back from here on: not who has just looked at it, and not after a restart.
            transaction.touch(&self.keys.inode(object));
            if !named {
                transaction.put(self.keys.orphan(object), orphan_row(false));
            }
            return Ok(false);
        }
        // Its repairs stay in their queue: there may be more than a transaction can hold, and the next pass over the
        // queue drops them.
        transaction.delete(self.keys.inode(object));
        transaction.delete(self.keys.key(object));
        transaction.delete(self.keys.orphan(object));
        transaction.delete(self.keys.migrating(object));
        transaction.delete(self.keys.scan_mark(object));
        let op = DataOp::Forget { file: self.file_key(object) };
        transaction.attach(Attachment { descriptor: op.encode(), payload: Bytes::new() });
        *freed += Amount { objects: -1, bytes: -(inode.attributes.space_used as i64) };
        Ok(true)
    }
}
