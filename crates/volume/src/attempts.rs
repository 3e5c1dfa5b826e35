//! What write-backs may leave in the clouds without anybody referring to it.
//!
//! Before the first fragment of a block version is stored, its number is noted durably under the block. The commit that
//! makes it current takes the note away, and so does whoever takes the file apart; what else was noted goes into the
//! garbage then. Notes that a start finds belong to a process that is gone, and become garbage (decision 14).

use std::collections::BTreeMap;
use std::sync::Arc;

use blocks::SealId;
use bytes::Bytes;
use ids::{BlockIndex, ObjectId, Version};
use meta::{MetaError, Scan};
use seal::BlockIdentity;
use upkeep::GarbageRow;

use crate::VolumeError;
use crate::garbage::{Discarded, behind};
use crate::keys::Keys;
use crate::node::upkeep_transaction;
use crate::row::{AttemptRow, BadRow, GarbageVersion, MAX_ATTEMPTS};
use crate::volume::{FileRows, Inner, Volume};

/// Rows that one transaction looks at, at most.
const ROWS: usize = 256;

/// Attempts of one block that have ended.
#[derive(Default)]
pub(crate) struct Ended {
    pub policy: u32,
    pub versions: Vec<GarbageVersion>,
}

/// A block that is to be stored.
pub(crate) struct Candidate {
    pub object: ObjectId,
    pub block: BlockIndex,
    pub file: Arc<FileRows>,
    /// The number behind all that the block map knows of.
    pub next: Version,
}

impl Volume {
    /// Up to `limit` blocks behind the row `after` with versions that are on their way to the clouds, or were and are not
    /// settled: what a [`GarbageRow`] says of garbage.
    pub async fn unsettled(
        &self,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Result<Vec<GarbageRow>, VolumeError> {
        let inner = &self.inner;
        let (start, end) = inner.keys.all_attempts();
        let start = start.max(behind(after));
        upkeep_transaction!(inner.node, |transaction| {
            let mut found = Vec::new();
            let scan = Scan { start: &start, end: &end, guard: None, limit };
            for (row, value) in transaction.scan(scan).await? {
                let damaged = |cause| VolumeError::Damaged { what: "a note of attempts".into(), cause };
                let place = Keys::attempts_at(&row).ok_or(BadRow("a key of the wrong length"));
                let (object, block) = place.map_err(damaged)?;
                let attempts = AttemptRow::decode(&value).map_err(damaged)?;
                let Some(file) = inner.file_rows(transaction, object).await? else { continue };
                let identity = |version: GarbageVersion| {
                    let GarbageVersion { block, version, creator, seal } = version;
                    let (volume, epoch) = (inner.id, inner.epochs.of(seal));
                    (BlockIdentity { volume, object, block, version, creator, epoch }, seal)
                };
                let versions = attempts.versions(block).map(identity).collect();
                let key = inner.open_names(object, &file.key)?;
                let policy = attempts.policy.unwrap_or(file.base);
                let placement = inner.policy(policy)?.placement.clone().into();
                found.push(GarbageRow { row, versions, key, placement });
            }
            Ok(found)
        })
    }
}

impl Inner {
    /// Gives every block a number that no attempt before had, and notes it durably. `None` for a file that was removed
    /// meanwhile, or will be as nobody can reach it. A damaged row is the error of its block alone.
    pub async fn begin_attempts(
        &self,
        blocks: &[Candidate],
        seal: SealId,
    ) -> Result<Vec<Result<Option<Version>, VolumeError>>, VolumeError> {
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        upkeep_transaction!(self.node, |transaction| {
            let mut begun = Vec::with_capacity(blocks.len());
            for candidate in blocks {
                let version = self.begin_attempt(transaction, candidate, seal).await;
                if let Err(error @ VolumeError::Meta(_)) = version {
                    return Err(error);
                }
                begun.push(version);
            }
            Ok(begun)
        })
    }

    async fn begin_attempt(
        &self,
        transaction: &mut dyn meta::Transaction,
        &Candidate { object, block, ref file, next }: &Candidate,
        seal: SealId,
    ) -> Result<Option<Version>, VolumeError> {
        // Whoever takes a file apart may have removed its block map already, and with it what tells which numbers were given.
        if self.record.read().doomed || self.references.is_lost(object) {
            return Ok(None);
        }
        // He removes its key, and must not miss what is noted here.
        let Some(key) = self.key_row(transaction, object).await? else { return Ok(None) };
        transaction.touch(&self.keys.attempts_guard(object));
        let creator = self.node.gateway;
        let before = self.attempts_at(transaction, object, block).await?;
        let version = before.map_or(next, |before| next.max(before.last.next()));
        let policy = Some(file.policy_id);
        let first = match before {
            Some(before)
                if (before.seal, before.policy) == (seal, policy)
                    && version.0 - before.first.0 < MAX_ATTEMPTS =>
            {
                before.first
            }
            Some(before) => {
                let (versions, policy) = (before.versions(block).collect(), before.policy);
                let policy = policy.unwrap_or(file.base);
                self.put_garbage(transaction, object, policy, &key, versions).await?;
                version
            }
            None => version,
        };
        let row = AttemptRow { creator, seal, first, last: version, policy };
        transaction.put(self.keys.attempts(object, block), row.encode());
        Ok(Some(version))
    }

    async fn attempts_at(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        block: BlockIndex,
    ) -> Result<Option<AttemptRow>, VolumeError> {
        let row = transaction.get(&self.keys.attempts(object, block)).await?;
        let row = row.map(|row| AttemptRow::decode(&row)).transpose();
        row.map_err(self.damaged("the attempts to store blocks of object", object))
    }

    /// Attempts up to `last` have ended, and are not noted any more. Returns them; those that do not become current are
    /// garbage. Later ones may be under way. `base` is the policy of a file that has only one.
    pub async fn settle_attempts(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        block: BlockIndex,
        last: Version,
        base: u32,
    ) -> Result<Ended, VolumeError> {
        let row = self.attempts_at(transaction, object, block).await?;
        let Some(row) = row.filter(|row| row.first <= last) else { return Ok(Ended::default()) };
        let key = self.keys.attempts(object, block);
        match row.last > last {
            true => transaction.put(key, AttemptRow { first: last.next(), ..row }.encode()),
            false => transaction.delete(key),
        }
        let ended = AttemptRow { last: row.last.min(last), ..row };
        Ok(Ended { policy: row.policy.unwrap_or(base), versions: ended.versions(block).collect() })
    }

    /// Takes up to `rows` notes of a file that is taken apart, as garbage; whether that was all. Whoever notes another one
    /// before the commit makes it a conflict.
    pub async fn take_attempts(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        rows: &mut usize,
        base: u32,
        garbage: &mut Discarded,
    ) -> Result<bool, VolumeError> {
        let (start, end) = self.keys.attempts_of(object);
        let (guard, limit) = (self.keys.attempts_guard(object), *rows + 1);
        let found = transaction.scan(Scan { start: &start, end: &end, guard: Some(&guard), limit }).await?;
        for (key, row) in found.iter().take(*rows) {
            let row = AttemptRow::decode(row);
            let row = row.map_err(self.damaged("the attempts to store blocks of object", object))?;
            if let Some((_, block)) = Keys::attempts_at(key) {
                garbage.extend(row.policy.unwrap_or(base), row.versions(block));
            }
            transaction.delete(key.clone());
        }
        *rows -= found.len().min(*rows);
        Ok(found.len() < limit)
    }

    /// At a start, before anything is written back: what is noted was left by a process that is gone, and becomes garbage.
    pub async fn abandon_attempts(&self) -> Result<(), VolumeError> {
        let (mut start, end) = self.keys.all_attempts();
        let (mut limit, mut total) = (ROWS, 0);
        loop {
            let abandoned = self.abandon_some(&start, &end, limit).await;
            let (versions, last) = match abandoned {
                Err(VolumeError::Meta(MetaError::TooLarge { .. })) if limit > 1 => {
                    limit /= 2;
                    continue;
                }
                done => done?,
            };
            total += versions;
            match last {
                Some(last) => start = [&last[..], &[0]].concat().into(),
                None => break,
            }
        }
        if total > 0 {
            let volume = self.id;
            tracing::info!(%volume, versions = total, "what was on its way to the clouds when the gateway ended is garbage");
        }
        Ok(())
    }

    /// In one transaction; how many versions, and the last key, if there may be more behind it.
    async fn abandon_some(
        &self,
        start: &Bytes,
        end: &Bytes,
        limit: usize,
    ) -> Result<(usize, Option<Bytes>), VolumeError> {
        upkeep_transaction!(self.node, |transaction| {
            let rows = transaction.scan(Scan { start, end, guard: None, limit }).await?;
            let mut files: BTreeMap<ObjectId, Vec<(Option<u32>, GarbageVersion)>> = BTreeMap::new();
            for (key, row) in &rows {
                match (Keys::attempts_at(key), AttemptRow::decode(row)) {
                    (Some((object, block)), Ok(row)) => {
                        let versions = row.versions(block).map(|version| (row.policy, version));
                        files.entry(object).or_default().extend(versions);
                    }
                    // Of use to nobody: numbers of this start are told from all others by their seal.
                    _ => {
                        tracing::error!(volume = %self.id, "a damaged note of what was on its way to the clouds is dropped");
                    }
                }
                transaction.delete(key.clone());
            }
            let mut total = 0;
            for (object, versions) in files {
                match self.file_rows(transaction, object).await {
                    Ok(Some(file)) => {
                        let mut garbage = Discarded::default();
                        for (policy, version) in versions {
                            garbage.push(policy.unwrap_or(file.base), version);
                        }
                        total += garbage.count();
                        self.put_discarded(transaction, object, &file.key, garbage).await?;
                    }
                    Err(error @ VolumeError::Meta(_)) => return Err(error),
                    // A start must not fail for it; without the key nothing tells what it is called in the clouds.
                    lost => {
                        let cause = lost.err().map(|error| error.to_string()).unwrap_or_default();
                        tracing::error!(%object, cause, "what a removed or damaged file has left in the clouds stays there");
                    }
                }
            }
            let last = rows.last().filter(|_| rows.len() == limit);
            Ok((total, last.map(|(key, _)| key.clone())))
        })
    }
}
