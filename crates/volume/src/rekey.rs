//! A new epoch, and what follows it: every file key comes under the new epoch key, and the old one goes (decision 27).

use std::sync::Arc;
use std::time::Duration;

use blocks::SealId;
use bytes::Bytes;
use environment::failpoint;
use ids::ObjectId;
use meta::Scan;
use parking_lot::Mutex;
use seal::{EpochIdentity, EpochKey, GatewayKeyPair, KeyEpoch, open_epoch_key, wrap_epoch_key};

use crate::VolumeError;
use crate::epochs::{SealingEpoch, sealing_row};
use crate::keys::{KeyRange, Keys, ObjectRow};
use crate::node::upkeep_transaction;
use crate::row::{BadRow, GarbageRow, KeyRow, PackNote, ShareRow, VolumeRecord};
use crate::volume::{Inner, Volume};
use crate::volumes::Volumes;

/// Rows that one step looks at, at most.
const ROWS: usize = 512;
/// The key of an epoch stays in memory for so long after the last row under it is gone: for reads that were under way.
const LINGERS: Duration = Duration::from_secs(60);

/// How far the keys of a volume are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyProgress {
    /// The present epoch.
    pub epoch: KeyEpoch,
    /// Epochs whose keys are still needed to open some file key.
    pub old_epochs: usize,
    /// Rows that the present pass has looked at.
    pub rows: u64,
    /// Keys that it has put under the present epoch key.
    pub rewrapped: u64,
}

/// The pass over all rows with keys.
#[derive(Default)]
pub(crate) struct Rekeying {
    pass: Mutex<Pass>,
    /// Held by whoever takes a step.
    stepping: tokio::sync::Mutex<()>,
}

#[derive(Clone, Default)]
struct Pass {
    /// Which epoch it is for.
    epoch: KeyEpoch,
    table: usize,
    start: Bytes,
    rows: u64,
    rewrapped: u64,
    /// Epochs that nothing refers to any more, and since when.
    retired: Option<(Vec<KeyEpoch>, Duration)>,
}

impl Volumes {
    /// Begins a new epoch of a volume's keys: what is sealed and what is made from now on belongs to it. Durable when it returns. What
    /// was sealed before stays as it is, and can be read.
    ///
    /// # Errors
    /// No such volume.
    pub async fn rotate_keys(&self, name: &str) -> Result<KeyEpoch, VolumeError> {
        let _alone = self.changing.lock().await;
        let volume = self.get(name).ok_or_else(|| VolumeError::NoVolume(name.to_owned()))?;
        volume.inner.begin_epoch().await
    }
}

impl Volumes {
    /// Keeps all others from changing keys and volumes.
    pub async fn keys_alone(&self) -> impl Drop + Send + '_ {
        self.changing.lock().await
    }

    /// Wraps the epoch keys of all volumes to `keys`, which open what is there, and keeps a row of the caller's, in one transaction. From then on
    /// they are the gateway's keys.
    ///
    /// # Errors
    /// The metadata store failed, or a key does not open; nothing is changed.
    pub async fn rewrap_epoch_keys(
        &self,
        keys: Arc<GatewayKeyPair>,
        (key, row): (Bytes, Bytes),
    ) -> Result<(), VolumeError> {
        let _alone = self.changing.lock().await;
        let (node, all) = (self.node(), self.all());
        let done: Result<(), VolumeError> = upkeep_transaction!(node, |transaction| {
            for volume in &all {
                let inner = &volume.inner;
                for (place, identity, wrapped) in inner.wrapped_epoch_keys(transaction).await? {
                    let opened = open_epoch_key(&keys, identity, &wrapped);
                    let opened = opened.map_err(|cause| inner.bad_epoch_key(identity, cause))?;
                    let wrapped = wrap_epoch_key(&opened, keys.public(), &*node.environment.entropy);
                    let wrapped = wrapped.map_err(|cause| inner.bad_epoch_key(identity, cause))?;
                    transaction.put(place, Bytes::copy_from_slice(wrapped.as_bytes()));
                }
            }
            transaction.put(key.clone(), row.clone());
            Ok(())
        });
        done?;
        self.use_keys(keys);
        Ok(())
    }

    /// From now on these are the gateway's keys; to be called when they open all that is there.
    pub fn use_keys(&self, keys: Arc<GatewayKeyPair>) {
        *self.node().keys.write() = keys;
    }

    /// Makes sure that `keys` open every epoch key there is.
    ///
    /// # Errors
    /// Which one they do not open.
    pub async fn prove_epoch_keys(&self, keys: &GatewayKeyPair) -> Result<(), VolumeError> {
        let _alone = self.changing.lock().await;
        let mut transaction = self.node().store.begin(meta::Mode::Optimistic).await?;
        for volume in self.all() {
            for (_, identity, wrapped) in volume.inner.wrapped_epoch_keys(&mut *transaction).await? {
                let opened = open_epoch_key(keys, identity, &wrapped);
                opened.map_err(|cause| volume.inner.bad_epoch_key(identity, cause))?;
            }
        }
        Ok(())
    }
}

impl Inner {
    /// Makes sure that no key of an epoch but this one is in the store.
    pub(crate) async fn prove_old_keys_gone(&self, epoch: KeyEpoch) -> Result<(), VolumeError> {
        let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
        let keys = self.wrapped_epoch_keys(&mut *transaction).await?;
        match keys.iter().find(|(_, identity, _)| identity.epoch != epoch) {
            Some((_, identity, _)) => Err(VolumeError::OldKey { epoch: identity.epoch.0 }),
            None => Ok(()),
        }
    }

    async fn wrapped_epoch_keys(
        &self,
        transaction: &mut dyn meta::Transaction,
    ) -> Result<Vec<(Bytes, EpochIdentity, Bytes)>, VolumeError> {
        let (start, end) = self.keys.epochs();
        let scan = Scan { start: &start, end: &end, guard: None, limit: usize::MAX };
        let rows = transaction.scan(scan).await?.into_iter();
        let own = rows.filter_map(|(key, row)| {
            let (accessors, epoch, gateway) = Keys::epoch_of(&key)?;
            let identity = EpochIdentity { volume: self.id, accessors, epoch };
            (gateway == self.node.gateway).then_some((key, identity, row))
        });
        Ok(own.collect())
    }

    fn bad_epoch_key(&self, identity: EpochIdentity, cause: seal::OpenError) -> VolumeError {
        VolumeError::Key { what: format!("epoch key {} of volume {}", identity.epoch, self.id), cause }
    }
}

impl Inner {
    /// To be called by whoever alone changes the volume's row.
    pub(crate) async fn begin_epoch(&self) -> Result<KeyEpoch, VolumeError> {
        let entropy = &*self.node.environment.entropy;
        let (accessors, epoch) = {
            let record = self.record.read();
            (record.accessors, KeyEpoch(record.epoch.0 + 1))
        };
        let key = EpochKey::generate(EpochIdentity { volume: self.id, accessors, epoch }, entropy);
        let wrapped = wrap_epoch_key(&key, self.node.keys.read().public(), entropy);
        let wrapped =
            wrapped.map_err(|cause| VolumeError::Key { what: "gateway's public key".into(), cause })?;
        let sealing = SealingEpoch { epoch, seal: SealId::random(entropy) };
        // Before anybody can read of it.
        self.epochs.add(key);
        // Packs that are begun belong to the epoch before; the next ones to this one.
        let mut packs = self.packs.lock().await;
        let record: Result<VolumeRecord, VolumeError> = upkeep_transaction!(self.node, |transaction| {
            let record = VolumeRecord { epoch, ..self.record.read().clone() };
            transaction.put(self.keys.volume(), record.encode());
            let row = Bytes::copy_from_slice(wrapped.as_bytes());
            transaction.put(self.keys.epoch(accessors, epoch, self.node.gateway), row);
            transaction.put(self.keys.sealing(sealing.seal), sealing_row(epoch));
            failpoint!("keys.before-epoch");
            Ok(record)
        });
        *self.record.write() = record?;
        self.epochs.begin(sealing);
        packs.clear();
        failpoint!("keys.after-epoch");
        tracing::info!(volume = %self.id, %epoch, "a new epoch of keys has begun");
        Ok(epoch)
    }

    /// At a start: this process seals in the present epoch.
    pub(crate) async fn note_sealing(&self) -> Result<(), VolumeError> {
        let SealingEpoch { epoch, seal } = self.epochs.sealing();
        if epoch.0 <= 1 {
            return Ok(());
        }
        upkeep_transaction!(self.node, |transaction| {
            transaction.put(self.keys.sealing(seal), sealing_row(epoch));
            Ok(())
        })
    }

    /// The key of a file that is being written to, under the present epoch key from now on.
    pub(crate) fn rewrap_touched(
        &self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        key: KeyRow,
    ) -> Result<KeyRow, VolumeError> {
        let SealingEpoch { epoch, .. } = self.epochs.sealing();
        if key.epoch >= epoch {
            return Ok(key);
        }
        let key = self.rewrap(object, &key, epoch)?;
        transaction.put(self.keys.key(object), key.encode());
        Ok(key)
    }

    /// Tables with keys of files. Keys are copied from a table to later ones only, so what was looked through in this order has no
    /// old one any more.
    fn tables(&self) -> [KeyRange; 4] {
        let keys = self.keys;
        [keys.objects(), keys.pack_notes(), keys.all_shares(), keys.garbage_until(None)]
    }

    /// A row with a key of a file, with that under the key of `epoch`; `None` if nothing is to be done.
    fn rekeyed(
        &self,
        table: usize,
        key: &[u8],
        row: &[u8],
        epoch: KeyEpoch,
    ) -> Result<Option<Bytes>, VolumeError> {
        let damaged = |what: &str| {
            let what = format!("{what} of volume {}", self.id);
            move |cause: BadRow| VolumeError::Damaged { what, cause }
        };
        let place = |object: Option<ObjectId>| object.ok_or(BadRow("a key of the wrong length"));
        match table {
            0 => {
                let Some((object, ObjectRow::Key)) = Keys::object_row(key) else { return Ok(None) };
                let old = KeyRow::decode(row).map_err(damaged("a file's key"))?;
                let is_old = old.epoch < epoch;
                is_old.then(|| Ok(self.rewrap(object, &old, epoch)?.encode())).transpose()
            }
            1 => {
                let what = "a note of a pack";
                let object =
                    place(Keys::pack_note_at(key).map(|(object, _)| object)).map_err(damaged(what))?;
                let old = PackNote::decode(row).map_err(damaged(what))?;
                let is_old = old.key.epoch < epoch;
                let new =
                    || Ok(PackNote { key: self.rewrap(object, &old.key, epoch)?, ..old.clone() }.encode());
                is_old.then(new).transpose()
            }
            2 => {
                let what = "a row of shared blocks";
                let object = place(Keys::shares_of(key).map(|(object, _)| object)).map_err(damaged(what))?;
                let old = ShareRow::decode(row).map_err(damaged(what))?;
                let is_old = old.key.epoch < epoch;
                let new =
                    || Ok(ShareRow { key: self.rewrap(object, &old.key, epoch)?, ..old.clone() }.encode());
                is_old.then(new).transpose()
            }
            _ => {
                let old = GarbageRow::decode(row).map_err(damaged("an entry of the garbage"))?;
                let is_old = old.key.epoch < epoch;
                let new = || {
                    Ok(GarbageRow { key: self.rewrap(old.object, &old.key, epoch)?, ..old.clone() }.encode())
                };
                is_old.then(new).transpose()
            }
        }
    }
}

impl Volume {
    /// How far the keys are.
    pub fn key_progress(&self) -> KeyProgress {
        let inner = &self.inner;
        let pass = inner.rekeying.pass.lock();
        let epoch = inner.epochs.sealing().epoch;
        let old_epochs = match &pass.retired {
            // Those that linger are not needed any more, unless the pass was for another epoch.
            Some(_) if pass.epoch == epoch => 0,
            _ => inner.epochs.old().len(),
        };
        KeyProgress { epoch, old_epochs, rows: pass.rows, rewrapped: pass.rewrapped }
    }

    /// Ids of the keys of epochs that are there.
    pub fn epoch_key_ids(&self) -> Vec<(KeyEpoch, [u8; 16])> {
        let epochs = &self.inner.epochs;
        let old = epochs.old().into_iter().chain([epochs.sealing().epoch]);
        old.filter_map(|epoch| Some((epoch, epochs.key(epoch)?.id()))).collect()
    }

    /// One step of putting all file keys under the present epoch key; the last one destroys the keys of the epochs before. Whether there
    /// is more to do. Bounded; to be called again and again in the background.
    pub async fn rekey(&self) -> Result<bool, VolumeError> {
        let inner = &self.inner;
        let _alone = inner.rekeying.stepping.lock().await;
        let now = inner.node.environment.clock.monotonic();
        let mut pass = inner.rekeying.pass.lock().clone();
        let epoch = inner.epochs.sealing().epoch;
        if let Some((epochs, since)) = pass.retired.take() {
            if pass.epoch == epoch {
                if now.saturating_sub(since) < LINGERS {
                    return Ok(false);
                }
                inner.epochs.forget(&epochs, false);
            }
            // Otherwise another epoch has begun: they go when its pass is through.
            *inner.rekeying.pass.lock() = pass.clone();
        }
        if inner.epochs.old().is_empty() {
            return Ok(false);
        }
        if pass.epoch != epoch {
            pass = Pass { epoch, ..Pass::default() };
        }
        let tables = inner.tables();
        if let Some(range) = tables.get(pass.table) {
            inner.rekey_some(range, &mut pass).await?;
        } else {
            pass.retired = inner.retire(epoch).await?.map(|retired| (retired, now));
        }
        *inner.rekeying.pass.lock() = pass;
        Ok(true)
    }
}

impl Inner {
    /// Looks at some rows of a table.
    async fn rekey_some(&self, (first, end): &KeyRange, pass: &mut Pass) -> Result<(), VolumeError> {
        let start = pass.start.clone().max(first.clone());
        let (table, epoch) = (pass.table, pass.epoch);
        let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
        let rows = transaction.scan(Scan { start: &start, end, guard: None, limit: ROWS }).await?;
        drop(transaction);
        let mut old = Vec::new();
        for (key, row) in &rows {
            if self.rekeyed(table, key, row, epoch)?.is_some() {
                old.push(key);
            }
        }
        // A page with many large rows may be more than a transaction can hold.
        for part in old.chunks(ROWS / 8) {
            let done: Result<usize, VolumeError> = upkeep_transaction!(self.node, |transaction| {
                let mut done = 0;
                for key in part {
                    let Some(row) = transaction.get(key).await? else { continue };
                    if let Some(new) = self.rekeyed(table, key, &row, epoch)? {
                        transaction.put((*key).clone(), new);
                        done += 1;
                    }
                }
                failpoint!("keys.before-rewrap");
                Ok(done)
            });
            pass.rewrapped += done? as u64;
        }
        pass.rows += rows.len() as u64;
        match rows.last() {
            Some((last, _)) if rows.len() == ROWS => pass.start = [&last[..], &[0]].concat().into(),
            _ => (pass.table, pass.start) = (table + 1, Bytes::new()),
        }
        Ok(())
    }

    /// No file key is under a key before that of `epoch`: these are destroyed. What opens the blocks that were sealed in their epochs stays,
    /// under the present key.
    /// `None`: another epoch has begun meanwhile.
    async fn retire(&self, epoch: KeyEpoch) -> Result<Option<Vec<KeyEpoch>>, VolumeError> {
        let old: Vec<KeyEpoch> = self.epochs.old().into_iter().filter(|old| *old < epoch).collect();
        let accessors = self.record.read().accessors;
        let keeps = self.keeps_contents.load(std::sync::atomic::Ordering::Relaxed);
        let retired: Result<bool, VolumeError> = upkeep_transaction!(self.node, |transaction| {
            if self.wrapping_epoch(transaction).await? != epoch {
                return Ok(false);
            }
            for of in self.epochs.sealed_in().into_iter().filter(|of| *of < epoch) {
                let key = self.keys.kept_content(accessors, of);
                match keeps {
                    true => transaction.put(key, self.keep_content(of, epoch)?),
                    false => transaction.delete(key),
                }
            }
            for epoch in &old {
                transaction.delete(self.keys.epoch(accessors, *epoch, self.node.gateway));
            }
            failpoint!("keys.before-retire");
            Ok(true)
        });
        if !retired? {
            return Ok(None);
        }
        failpoint!("keys.after-retire");
        tracing::info!(volume = %self.id, %epoch, "all keys of files are under the present epoch key; the earlier ones are destroyed");
        Ok(Some(old))
    }
}
