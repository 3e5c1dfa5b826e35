//! Packs: sealed blocks of many files that are stored as one block version (decision 25).
//!
//! A pack has no file. It is kept in the books of shares, as a version that others have taken over: held by as many as there are
//! blocks in it that some file holds. So everything that works on versions works on packs, also when the last block goes.

use std::sync::Arc;

use blocks::{Placement, Protection};
use bytes::Bytes;
use environment::failpoint;
use ids::{BlockIndex, BlockShift, ObjectId};
use meta::Scan;
use seal::{BlockIdentity, FileKey, Padding, Suite};
use upkeep::{BlockVersion, GarbageRow as Garbage, InPack, NewPack, Packed};

use crate::VolumeError;
use crate::garbage::behind;
use crate::keys::Keys;
use crate::node::upkeep_transaction;
use crate::row::{
    BadRow, GarbageRow, GarbageVersion, KeyRow, Origin, PACK_VERSION, PackNote, PackUse, PackedRow, Policy,
    Sealed, encode_policy,
};
use crate::shares::{Owner, ShareBook};
use crate::volume::{Inner, Volume};

/// Rows that one transaction looks at, at most.
const ROWS: usize = 256;

/// What holds the packs of one placement; made anew at every start, so that no number of a pack has to be remembered.
pub(crate) struct PackFile {
    placement: Placement,
    policy: u32,
    object: ObjectId,
    key: FileKey,
    row: KeyRow,
    next: BlockIndex,
}

impl Volume {
    /// A new pack of up to `size` bytes for blocks of files with this placement, noted durably.
    pub async fn plan_pack(&self, placement: &Placement, size: u64) -> Result<NewPack, VolumeError> {
        let inner = &self.inner;
        if inner.record.read().doomed {
            return Err(VolumeError::NoVolume(self.name()));
        }
        let shift = BlockShift::from_bytes(size.next_power_of_two()).unwrap_or(BlockShift::MAX);
        let wanted = Placement::new(placement.scheme(), placement.clouds().to_vec(), shift);
        let wanted = wanted.map_err(|cause| VolumeError::Missing { what: cause.to_string() })?;
        let mut files = inner.packs.lock().await;
        let at = match files.iter().position(|file| file.placement == wanted) {
            Some(at) => at,
            None => {
                files.push(inner.new_pack_file(wanted).await?);
                files.len() - 1
            }
        };
        let file = &mut files[at];
        let (creator, sealing, number) = (inner.node.gateway, inner.epochs.sealing(), file.next);
        let seal = sealing.seal;
        file.next = BlockIndex(number.0 + 1);
        let note = PackNote { policy: file.policy, key: file.row.clone(), creator, seal, in_use: false };
        let noted: Result<(), VolumeError> = upkeep_transaction!(inner.node, |transaction| {
            transaction.put(inner.keys.pack_note(file.object, number), note.encode());
            Ok(())
        });
        noted?;
        let (volume, epoch) = (inner.id, sealing.epoch);
        let identity = BlockIdentity {
            volume,
            object: file.object,
            block: number,
            version: PACK_VERSION,
            creator,
            epoch,
        };
        let (key, placement) = (file.key.clone(), Arc::new(file.placement.clone()));
        Ok(NewPack { identity, key, placement, seal, owner: inner.node.keys.read().signer().clone() })
    }

    /// No more blocks of this pack will be committed. If none was, it becomes garbage.
    pub async fn settle_pack(&self, pack: &BlockIdentity) -> Result<(), VolumeError> {
        let inner = &self.inner;
        upkeep_transaction!(inner.node, |transaction| {
            inner.settle_noted_pack(transaction, pack.object, pack.block).await
        })
    }

    /// As [`Volume::unsettled`]: packs that are on their way to the clouds, or were and are of no use.
    pub async fn unsettled_packs(
        &self,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Result<Vec<Garbage>, VolumeError> {
        let inner = &self.inner;
        let (start, end) = inner.keys.pack_notes();
        let start = start.max(behind(after));
        upkeep_transaction!(inner.node, |transaction| {
            let mut found = Vec::new();
            for (row, value) in
                transaction.scan(Scan { start: &start, end: &end, guard: None, limit }).await?
            {
                let (object, block, note) = pack_note(&row, &value)?;
                let (volume, version, creator, epoch) =
                    (inner.id, PACK_VERSION, note.creator, inner.epochs.of(note.seal));
                let identity = BlockIdentity { volume, object, block, version, creator, epoch };
                let key = inner.open_names(object, &note.key)?;
                let placement = inner.policy(note.policy)?.placement.clone().into();
                found.push(Garbage { row, versions: vec![(identity, note.seal)], key, placement });
            }
            Ok(found)
        })
    }
}

fn pack_note(key: &[u8], row: &[u8]) -> Result<(ObjectId, BlockIndex, PackNote), VolumeError> {
    let damaged = |cause| VolumeError::Damaged { what: "a note of a pack".into(), cause };
    let place = Keys::pack_note_at(key).ok_or(BadRow("a key of the wrong length"));
    let (object, number) = place.map_err(damaged)?;
    Ok((object, number, PackNote::decode(row).map_err(damaged)?))
}

impl Inner {
    async fn new_pack_file(&self, placement: Placement) -> Result<PackFile, VolumeError> {
        let protection = Protection { suite: Suite::IntegrityOnly, padding: Padding::None };
        let policy = Policy { placement: placement.clone(), protection };
        let policy = self.policy_number(&policy).await?;
        let object = self.node.new_object().await?;
        // No epoch begins before these files are done with.
        let epoch = self.epochs.sealing().epoch;
        let row = self.wrap(object, &FileKey::generate(&*self.node.environment.entropy), epoch)?;
        let key = self.open_key(object, &row, epoch)?;
        Ok(PackFile { placement, policy, object, key, row, next: BlockIndex(0) })
    }

    /// The number of a policy, which is recorded if it was not.
    pub async fn policy_number(&self, policy: &Policy) -> Result<u32, VolumeError> {
        let number: Result<u32, VolumeError> = upkeep_transaction!(self.node, |transaction| {
            let known = crate::volume::read_policies(self.keys, transaction).await?;
            if let Some((&number, _)) = known.iter().find(|(_, known)| ***known == *policy) {
                return Ok(number);
            }
            let number = known.keys().next_back().map_or(1, |last| last + 1);
            // Whoever records another one at the same time meets this one here.
            transaction.get(&self.keys.policy(number)).await?;
            transaction.put(self.keys.policy(number), encode_policy(policy));
            Ok(number)
        });
        let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
        self.load_policies(&mut *transaction).await?;
        number
    }

    /// Where a version lies, if it has no fragments of its own.
    pub async fn packed_row(
        &self,
        transaction: &mut dyn meta::Transaction,
        origin: Origin,
    ) -> Result<Option<PackedRow>, VolumeError> {
        let row = transaction.get(&self.keys.packed(origin)).await?;
        let row = row.map(|row| PackedRow::decode(&row)).transpose();
        row.map_err(self.damaged("a packed block of object", origin.object))
    }

    /// The same version, with its place.
    pub async fn placed(
        &self,
        transaction: &mut dyn meta::Transaction,
        version: BlockVersion,
    ) -> Result<BlockVersion, VolumeError> {
        let BlockIdentity { object, block, version: number, creator, .. } = version.identity;
        let row = self.packed_row(transaction, Origin { object, block, version: number }).await?;
        let Some(row) = row.filter(|row| row.is_of(creator, version.seal)) else { return Ok(version) };
        let missing = || VolumeError::Missing {
            what: format!(
                "pack {} of object {}, with block {block} of object {object}",
                row.number, row.object
            ),
        };
        let pack = self.shared_version(transaction, row.pack()).await?.ok_or_else(missing)?;
        Ok(BlockVersion { packed: Some(Arc::new(Packed { pack, place: row.place })), ..version })
    }

    /// Whether blocks of the pack can still be committed.
    pub async fn is_noted_pack(
        &self,
        transaction: &mut dyn meta::Transaction,
        pack: &BlockIdentity,
    ) -> Result<bool, VolumeError> {
        Ok(transaction.get(&self.keys.pack_note(pack.object, pack.block)).await?.is_some())
    }

    /// How much of a pack is in use.
    pub async fn pack_use(
        &self,
        transaction: &mut dyn meta::Transaction,
        pack: Origin,
    ) -> Result<Option<PackUse>, VolumeError> {
        let row = transaction.get(&self.keys.pack_use(pack.object, pack.block)).await?;
        let row = row.map(|row| PackUse::decode(&row)).transpose();
        row.map_err(self.damaged("how much is in use of a pack of", pack.object))
    }

    /// A version lies in a pack, which it holds from now on: it becomes current, or has moved there.
    pub async fn put_packed(
        &self,
        transaction: &mut dyn meta::Transaction,
        book: &mut ShareBook<'_>,
        Sealed { origin, creator, seal }: Sealed,
        InPack { pack, place, missing }: &InPack,
    ) -> Result<(), VolumeError> {
        let key = self.keys.pack_note(pack.object, pack.block);
        let unknown = || VolumeError::Missing { what: format!("the note of pack {pack}") };
        let row = transaction.get(&key).await?.ok_or_else(unknown)?;
        let (object, number, mut note) = pack_note(&key, &row)?;
        let packed = PackedRow { object, number, place: *place, sealing: Some((creator, seal)) };
        if note.in_use {
            book.hold(transaction, packed.pack(), 1).await?;
        } else {
            note.in_use = true;
            let owner = Owner { policy: note.policy, key: &note.key };
            // One for the block, one for the note.
            book.begin(transaction, packed.pack(), note.creator, note.seal, owner, 2).await?;
            transaction.put(key, note.encode());
            if !missing.is_empty() {
                let repair = self.keys.repair(object, number, PACK_VERSION);
                transaction.put(repair, crate::repair::repair_row(crate::repair::fragment_mask(missing)));
            }
        }
        let before = self.pack_use(transaction, packed.pack()).await?.map_or(0, |before| before.live);
        let live = before.saturating_add(place.len).min(place.pack_len);
        transaction.put(self.keys.pack_use(object, number), PackUse { len: place.pack_len, live }.encode());
        transaction.put(self.keys.packed(origin), packed.encode());
        Ok(())
    }

    /// Takes the note of a pack away.
    async fn settle_noted_pack(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        number: BlockIndex,
    ) -> Result<(), VolumeError> {
        let key = self.keys.pack_note(object, number);
        let Some(row) = transaction.get(&key).await? else { return Ok(()) };
        let (_, block, note) = pack_note(&key, &row)?;
        transaction.delete(key);
        if note.in_use {
            let mut book = ShareBook::new(self);
            let pack = Origin { object, block, version: PACK_VERSION };
            self.let_go_of_pack(transaction, &mut book, pack, 0).await?;
            return book.finish(transaction).await;
        }
        let PackNote { policy, key, creator, seal, .. } = note;
        let version = GarbageVersion { block, version: PACK_VERSION, creator, seal };
        self.put_garbage(transaction, object, policy, &key, vec![version]).await
    }

    /// One that holds a pack lets it go, and with it so many bytes of it.
    pub async fn let_go_of_pack(
        &self,
        transaction: &mut dyn meta::Transaction,
        book: &mut ShareBook<'_>,
        pack: Origin,
        bytes: u32,
    ) -> Result<(), VolumeError> {
        let key = self.keys.pack_use(pack.object, pack.block);
        if book.let_go(transaction, pack).await? {
            transaction.delete(self.keys.repair(pack.object, pack.block, pack.version));
            transaction.delete(key);
        } else if bytes > 0
            && let Some(PackUse { len, live }) = self.pack_use(transaction, pack).await?
        {
            transaction.put(key, PackUse { len, live: live.saturating_sub(bytes) }.encode());
        }
        Ok(())
    }

    /// Versions of a row of garbage that lie in packs do not hold these any more.
    pub async fn let_go_of_packs(
        &self,
        GarbageRow { object, versions, .. }: &GarbageRow,
    ) -> Result<(), VolumeError> {
        for part in versions.chunks(ROWS) {
            let done: Result<(), VolumeError> = upkeep_transaction!(self.node, |transaction| {
                let mut book = ShareBook::new(self);
                for &GarbageVersion { block, version, creator, seal } in part {
                    let origin = Origin { object: *object, block, version };
                    let row = self.packed_row(transaction, origin).await?;
                    // After a crash the same number may have been given to another sealing, which is not garbage.
                    let Some(row) = row.filter(|row| row.is_of(creator, seal)) else { continue };
                    if self.held_sealing(transaction, origin).await? == Some((creator, seal)) {
                        continue; // as it stays where it has an object of its own
                    }
                    transaction.delete(self.keys.packed(origin));
                    self.let_go_of_pack(transaction, &mut book, row.pack(), row.place.len).await?;
                }
                book.finish(transaction).await
            });
            done?;
            failpoint!("gc.between-packs");
        }
        Ok(())
    }

    /// At a start: no more blocks of the packs that are noted will be committed.
    pub async fn settle_packs(&self) -> Result<(), VolumeError> {
        let (start, end) = self.keys.pack_notes();
        loop {
            let left: Result<usize, VolumeError> = upkeep_transaction!(self.node, |transaction| {
                let scan = Scan { start: &start, end: &end, guard: None, limit: ROWS };
                let rows = transaction.scan(scan).await?;
                for (key, _) in &rows {
                    match Keys::pack_note_at(key) {
                        Some((object, number)) => self.settle_noted_pack(transaction, object, number).await?,
                        None => transaction.delete(key.clone()),
                    }
                }
                Ok(rows.len())
            });
            if left? < ROWS {
                return Ok(());
            }
        }
    }
}
