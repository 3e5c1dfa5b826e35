//! Block versions that nobody refers to any more, and their deletion after a delay (`K47`).

use std::collections::BTreeMap;

use bytes::Bytes;
use cache::Sealing;
use ids::{ObjectId, Timestamp};
use meta::Scan;
use seal::BlockIdentity;
use upkeep::GarbageRow as Garbage;

use crate::VolumeError;
use crate::node::{millis, upkeep_transaction};
use crate::row::{GarbageRow, GarbageVersion, KeyRow, Origin};
use crate::volume::{Inner, Volume};

/// Versions in one row, so that a row stays small.
const VERSIONS: usize = 2048;

impl Volume {
    /// Up to `limit` rows of garbage that are due at `until`, oldest first, behind the row `after`. What made them garbage is
    /// durable.
    pub async fn garbage(
        &self,
        until: Timestamp,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Result<Vec<Garbage>, VolumeError> {
        self.garbage_until(Some(millis(until)), after, limit).await
    }

    /// As [`Volume::garbage`], also what is not yet due.
    pub async fn all_garbage(
        &self,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Result<Vec<Garbage>, VolumeError> {
        self.garbage_until(None, after, limit).await
    }

    async fn garbage_until(
        &self,
        until: Option<u64>,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Result<Vec<Garbage>, VolumeError> {
        let inner = &self.inner;
        let (start, end) = inner.keys.garbage_until(until);
        let start = start.max(behind(after));
        // The commit waits until what was read is durable: a crash must not bring a version back to life
        // whose fragments are gone.
        upkeep_transaction!(inner.node, |transaction| {
            let scan = Scan { start: &start, end: &end, guard: None, limit };
            let mut found = Vec::new();
            for (row, value) in transaction.scan(scan).await? {
                let damaged = |cause| VolumeError::Damaged { what: "an entry of the garbage".into(), cause };
                let garbage = GarbageRow::decode(&value).map_err(damaged)?;
                let mut versions = Vec::with_capacity(garbage.versions.len());
                for &GarbageVersion { block, version, creator, seal } in &garbage.versions {
                    let origin = Origin { object: garbage.object, block, version };
                    if inner.held_sealing(transaction, origin).await? == Some((creator, seal)) {
                        tracing::error!(object = %garbage.object, %block, %version, "a current block version is in the garbage; it stays");
                        continue;
                    }
                    let packed = inner.packed_row(transaction, origin).await?;
                    if packed.is_some_and(|packed| packed.is_of(creator, seal)) {
                        // It has no fragments of its own: it lets its pack go when the row is done with.
                        continue;
                    }
                    let (volume, object, epoch) = (inner.id, garbage.object, inner.epochs.of(seal));
                    versions.push((BlockIdentity { volume, object, block, version, creator, epoch }, seal));
                }
                let key = inner.open_names(garbage.object, &garbage.key)?;
                let placement = inner.policy(garbage.policy)?.placement.clone().into();
                found.push(Garbage { row, versions, key, placement });
            }
            Ok(found)
        })
    }

    /// Forgets rows whose fragments are deleted, and before them what these held.
    pub async fn garbage_collected(&self, rows: &[Bytes]) -> Result<(), VolumeError> {
        for row in rows {
            let mut transaction = self.inner.node.store.begin(meta::Mode::Optimistic).await?;
            let Some(garbage) = transaction.get(row).await? else { continue };
            let damaged = |cause| VolumeError::Damaged { what: "an entry of the garbage".into(), cause };
            let garbage = GarbageRow::decode(&garbage).map_err(damaged)?;
            self.inner.let_go_of_packs(&garbage).await?;
            self.inner.forget_moved(&garbage).await?;
            self.inner.forget_contents(garbage).await?;
        }
        upkeep_transaction!(self.inner.node, |transaction| {
            rows.iter().for_each(|row| transaction.delete(row.clone()));
            Ok(())
        })
    }
}

/// The first key that a listing behind the row `after` may begin with.
pub(crate) fn behind(after: Option<&Bytes>) -> Bytes {
    after.map(|after| [&after[..], &[0]].concat().into()).unwrap_or_default()
}

/// What nobody refers to any more of one file, by the policy that it is stored by.
#[derive(Default)]
pub(crate) struct Discarded {
    versions: BTreeMap<u32, Vec<GarbageVersion>>,
}

impl Discarded {
    pub fn push(&mut self, policy: u32, version: GarbageVersion) {
        self.versions.entry(policy).or_default().push(version);
    }

    pub fn extend(&mut self, policy: u32, versions: impl IntoIterator<Item = GarbageVersion>) {
        versions.into_iter().for_each(|version| self.push(policy, version));
    }

    pub fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }

    pub fn count(&self) -> usize {
        self.versions.values().map(Vec::len).sum()
    }
}

impl Inner {
    /// Queues what was discarded of one file for deletion.
    pub async fn put_discarded(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        key: &KeyRow,
        discarded: Discarded,
    ) -> Result<(), VolumeError> {
        for (policy, versions) in discarded.versions {
            self.put_garbage(transaction, object, policy, key, versions).await?;
        }
        Ok(())
    }

    /// Queues block versions of one file and one policy for deletion. The cache forgets them with the commit.
    pub async fn put_garbage(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        policy: u32,
        key: &KeyRow,
        versions: Vec<GarbageVersion>,
    ) -> Result<(), VolumeError> {
        let (cache, file) = (self.node.cache.clone(), self.file_key(object));
        let sealing = |&GarbageVersion { block, version, seal, .. }: &_| (block, Sealing { version, seal });
        let stale: Vec<_> = versions.iter().map(sealing).collect();
        transaction.afterwards(Box::new(move || cache.discard(file, &stale)));
        let mut due = self.node.due();
        for part in versions.chunks(VERSIONS) {
            // The same version may have become garbage just now under another seal.
            let place = loop {
                let place = self.keys.garbage(due, object, part[0].block, part[0].version);
                if transaction.get(&place).await?.is_none() {
                    break place;
                }
                due += 1;
            };
            let row = GarbageRow { object, policy, key: key.clone(), versions: part.to_vec() };
            transaction.put(place, row.encode());
        }
        Ok(())
    }
}
