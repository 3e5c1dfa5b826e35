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
    /// returns how many are gone. What they had stored goes into the garbage. Zero: nothing is left to do.
    pub async fn reap_orphans(&self, limit: usize) -> Result<usize, VolumeError> {
        let inner = &self.inner;
        let (mut start, end) = inner.keys.orphans();
        let mut reaped = 0;
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
            reaped += inner.take_all_apart(&lost, false).await?;
            lost.iter().for_each(|object| {
                inner.references.forget(*object);
                inner.quarantine.remove(*object);
            });
        }
        Ok(reaped)
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
            if transaction.get(&key).await?.is_some() {
                transaction.put(key.clone(), orphan_row(true));
            }
            Ok(())
        })
    }

    /// Takes objects apart completely, in several transactions if need be; those with names only if `named`.
    pub async fn take_all_apart(&self, orphans: &[ObjectId], named: bool) -> Result<usize, VolumeError> {
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
        Ok(orphans.len())
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
            self.usage.add_with(transaction, freed);
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
