use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use blocks::{BlockStore, SealId};
use bytes::Bytes;
use cache::Cache;
use environment::Environment;
use file_system::{Attributes, Device, FileId, FileKind, attribute_rules};
use ids::{ObjectId, VolumeId};
use meta::{MetaStore, Scan};
use parking_lot::{Mutex, RwLock};
use seal::{AccessorSetId, EpochIdentity, EpochKey, GatewayKeyPair, KeyEpoch, wrap_epoch_key};
use tokio::sync::Notify;

use crate::VolumeError;
use crate::directories::{MAX_DIRECTORIES, encode_directory_policy, read_directories};
use crate::epochs::Epochs;
use crate::keys::{self, Keys};
use crate::node::{Node, ObjectIds, upkeep_transaction};
use crate::orphans::orphan_was_held;
use crate::references::References;
use crate::rekey::Rekeying;
use crate::row::{BadRow, Inode, Policy, Special, StoreHeader, Tier, VolumeRecord, encode_policy};
use crate::scan_marks::read_quarantine;
use crate::spread::{MAX_VARIANTS, encode_spread, read_spreads};
use crate::usage::Amount;
use crate::volume::{Inner, Volume, read_policies};

/// Format of the schema; see the front page of the crate.
const SCHEMA: u32 = 6;
/// The oldest one that is understood. Its stores have no shared blocks, those of the next one no attempts to store blocks,
/// and both are of today's from now on: their makers would take what is shared for garbage, and leave attempts alone.
const OLDEST: u32 = 2;
/// Rows looked at in one transaction.
const ROWS: usize = 4096;

/// What volumes are built on.
pub struct VolumesOptions {
    /// Clock, randomness.
    pub environment: Environment,
    /// This gateway's keys; the gateway's id is part of every object made here.
    pub keys: Arc<GatewayKeyPair>,
    /// The metadata, with `cache` as its observer.
    pub store: Arc<dyn MetaStore>,
    /// The data.
    pub cache: Cache,
    /// The clouds.
    pub blocks: Arc<BlockStore>,
    /// How long superseded and deleted block versions stay in the clouds (`K47`).
    pub gc_delay: Duration,
    /// The size in bytes that every volume shows; clouds have no limit of their own.
    pub capacity: u64,
}

/// A volume to make.
#[derive(Clone, Debug)]
pub struct NewVolume {
    /// 1 to 64 letters, digits, `-`, `_` or `.`, not beginning with `.`.
    pub name: String,
    /// Of new files.
    pub policy: Policy,
    /// What must hold before a stable write is answered.
    pub tier: Tier,
    /// Owner of the root directory.
    pub uid: u32,
    /// Group of the root directory.
    pub gid: u32,
    /// Mode of the root directory.
    pub mode: u32,
}

impl NewVolume {
    /// A volume whose root belongs to the superuser, at the tier `local`.
    pub fn new(name: &str, policy: Policy) -> NewVolume {
        NewVolume { name: name.to_owned(), policy, tier: Tier::Local, uid: 0, gid: 0, mode: 0o755 }
    }
}

/// All volumes of a metadata store.
pub struct Volumes {
    node: Arc<Node>,
    /// Open volumes by name.
    open: RwLock<BTreeMap<String, Volume>>,
    /// Deleted volumes whose blocks are still on their way out of the clouds.
    doomed: Mutex<Vec<Volume>>,
    /// Makes changes of the registry wait for each other.
    pub(crate) changing: tokio::sync::Mutex<()>,
}

impl Volumes {
    /// Opens the volumes of a store; makes the store's first rows when it is new.
    pub async fn open(options: VolumesOptions) -> Result<Volumes, VolumeError> {
        let VolumesOptions { environment, keys, store, cache, blocks, gc_delay, capacity } = options;
        let mut write_verifier = [0; 8];
        environment.entropy.fill(&mut write_verifier);
        let seal = SealId::random(&*environment.entropy);
        let node = Node {
            gateway: keys.public().gateway,
            keys: RwLock::new(keys),
            store,
            cache,
            environment,
            blocks,
            seal,
            gc_delay,
            capacity,
            may_delete: OnceLock::new(),
            write_verifier,
            ids: ObjectIds::default(),
        };
        let started: Result<(), VolumeError> =
            upkeep_transaction!(node, |transaction| check_store(&node, transaction).await);
        started?;
        let node = Arc::new(node);
        let (start, end) = keys::volumes();
        let mut transaction = node.store.begin(meta::Mode::Optimistic).await?;
        let rows =
            transaction.scan(Scan { start: &start, end: &end, guard: None, limit: usize::MAX }).await?;
        drop(transaction);
        let (mut open, mut doomed) = (BTreeMap::new(), Vec::new());
        for (key, row) in rows {
            let damaged = |cause| VolumeError::Damaged { what: "a volume".into(), cause };
            let slot =
                keys::slot_of_volume(&key).ok_or_else(|| damaged(BadRow("a key of the wrong length")))?;
            let record = VolumeRecord::decode(&row).map_err(damaged)?;
            let volume = open_volume(&node, Keys { slot }, record.clone()).await?;
            match record.doomed {
                true => doomed.push(volume),
                false => drop(open.insert(record.name, volume)),
            }
        }
        let (open, doomed, changing) = (RwLock::new(open), Mutex::new(doomed), Default::default());
        Ok(Volumes { node, open, doomed, changing })
    }

    /// Has garbage wait for more than its time: `may_delete` is asked with the key of each row. Once.
    pub fn hold_garbage(&self, may_delete: impl Fn(&[u8]) -> bool + Send + Sync + 'static) {
        let set = self.node.may_delete.set(Box::new(may_delete));
        debug_assert!(set.is_ok(), "somebody else holds it already");
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Also those that are being deleted.
    pub(crate) fn all(&self) -> Vec<Volume> {
        self.list().into_iter().chain(self.doomed()).collect()
    }

    /// All volumes, by name.
    pub fn list(&self) -> Vec<Volume> {
        self.open.read().values().cloned().collect()
    }

    /// The volume of this name.
    pub fn get(&self, name: &str) -> Option<Volume> {
        self.open.read().get(name).cloned()
    }

    /// The volume with this id.
    pub fn by_id(&self, id: VolumeId) -> Option<Volume> {
        self.open.read().values().find(|volume| volume.inner.id == id).cloned()
    }

    /// Makes a volume.
    pub async fn create(&self, new: NewVolume) -> Result<Volume, VolumeError> {
        check_name(&new.name)?;
        let _alone = self.changing.lock().await;
        if self.open.read().contains_key(&new.name) {
            return Err(VolumeError::VolumeExists(new.name));
        }
        let node = &self.node;
        let mut id = [0; 16];
        node.environment.entropy.fill(&mut id);
        let record = VolumeRecord {
            id: VolumeId(u128::from_be_bytes(id)),
            name: new.name.clone(),
            root: node.new_object().await?,
            tier: new.tier,
            policy: 1,
            accessors: AccessorSetId(1),
            epoch: KeyEpoch(1),
            created: node.environment.clock.wall(),
            doomed: false,
        };
        let identity = EpochIdentity { volume: record.id, accessors: record.accessors, epoch: record.epoch };
        let entropy = &*node.environment.entropy;
        let epoch_key = EpochKey::generate(identity, entropy);
        let wrapped = wrap_epoch_key(&epoch_key, node.keys.read().public(), entropy);
        let wrapped =
            wrapped.map_err(|cause| VolumeError::Key { what: "gateway's public key".into(), cause })?;
        let root = root_inode(&record, &new);
        let keys: Result<Keys, VolumeError> = upkeep_transaction!(node, |transaction| {
            let keys = Keys { slot: next_slot(transaction).await? };
            transaction.put(keys.volume(), record.encode());
            transaction.put(keys.policy(record.policy), encode_policy(&new.policy));
            let epoch = keys.epoch(record.accessors, record.epoch, node.gateway);
            transaction.put(epoch, Bytes::copy_from_slice(wrapped.as_bytes()));
            transaction.put(keys.inode(record.root), root.encode());
            transaction.put(keys.usage(), Amount { objects: 1, bytes: 0 }.encode(true));
            Ok(keys)
        });
        let volume = open_volume(node, keys?, record).await?;
        self.open.write().insert(new.name, volume.clone());
        Ok(volume)
    }

    /// Sets the policy of files that are made from now on; those that exist keep theirs (`K33`).
    pub async fn set_policy(&self, name: &str, policy: Policy) -> Result<(), VolumeError> {
        self.change(name, &Change::Policy(policy)).await
    }

    /// Sets the policy of files that are made from now on in the directory at `path` (from the root, parts separated by `/`), and below it;
    /// `None`: that of the directory above.
    pub async fn set_directory_policy(
        &self,
        name: &str,
        path: &str,
        policy: Option<Policy>,
    ) -> Result<(), VolumeError> {
        self.change(name, &Change::Directory(path.to_owned(), policy)).await
    }

    /// Has files that would get a policy get one of its variants instead, which differ from it by their clouds alone, from now on. Those that
    /// exist move by [`Volume::rebalance`]. A policy that is set again is not spread any more.
    pub async fn spread(&self, name: &str, spreads: Vec<(Policy, Vec<Policy>)>) -> Result<(), VolumeError> {
        self.change(name, &Change::Spread(spreads)).await
    }

    /// Sets what must hold before a stable write is answered.
    pub async fn set_tier(&self, name: &str, tier: Tier) -> Result<(), VolumeError> {
        self.change(name, &Change::Tier(tier)).await
    }

    /// Deletes a volume; one that has files only by `force`. It is gone at once; what it had stored leaves the
    /// clouds through the garbage of [`Volumes::doomed`], and the rest with [`Volumes::bury`].
    pub async fn delete(&self, name: &str, force: bool) -> Result<(), VolumeError> {
        self.change(name, &Change::Delete { force }).await?;
        let volume = self.open.write().remove(name);
        self.doomed.lock().extend(volume);
        Ok(())
    }

    /// Deleted volumes whose blocks are still in the clouds: their garbage has to be collected like that of the others.
    pub fn doomed(&self) -> Vec<Volume> {
        self.doomed.lock().clone()
    }

    /// Does away with deleted volumes: first turns their blocks into garbage, and removes the rest when that has
    /// been collected. Returns how many are left; to be called again then.
    pub async fn bury(&self) -> Result<usize, VolumeError> {
        let _alone = self.changing.lock().await;
        let mut failed = None;
        for volume in self.doomed() {
            match volume.bury().await {
                Ok(true) => self.doomed.lock().retain(|other| other.inner.id != volume.inner.id),
                Ok(false) => {}
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        let left = self.doomed.lock().len();
        failed.map_or(Ok(left), Err)
    }

    /// Saves what is kept in memory, when nothing follows.
    pub async fn close(&self) -> Result<(), VolumeError> {
        for volume in self.list() {
            volume.save_usage(true).await?;
        }
        Ok(())
    }

    /// Changes the row of a volume, and what is open of it.
    async fn change(&self, name: &str, change: &Change) -> Result<(), VolumeError> {
        let _alone = self.changing.lock().await;
        let volume = self.get(name).ok_or_else(|| VolumeError::NoVolume(name.to_owned()))?;
        let inner = &volume.inner;
        let record: Result<VolumeRecord, VolumeError> = upkeep_transaction!(self.node, |transaction| {
            let mut record = inner.record.read().clone();
            inner.change_record(transaction, change, &mut record).await?;
            transaction.put(inner.keys.volume(), record.encode());
            Ok(record)
        });
        let record = record?;
        let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
        inner.load_policies(&mut *transaction).await?;
        *inner.record.write() = record;
        Ok(())
    }
}

impl Volume {
    /// A deleted one: whether nothing of it is left.
    async fn bury(&self) -> Result<bool, VolumeError> {
        let inner = &self.inner;
        inner.raze().await?;
        // Packs that were on their way when it was deleted.
        inner.settle_packs().await?;
        if !self.all_garbage(None, 1).await?.is_empty() || !self.unsettled_packs(None, 1).await?.is_empty() {
            return Ok(false);
        }
        for (start, end) in inner.keys.everything() {
            while inner.delete_rows(&start, &end).await? {}
        }
        Ok(true)
    }
}

/// A change of a volume's row.
enum Change {
    Policy(Policy),
    Spread(Vec<(Policy, Vec<Policy>)>),
    Directory(String, Option<Policy>),
    Tier(Tier),
    Delete { force: bool },
}

impl Inner {
    async fn change_record(
        &self,
        transaction: &mut dyn meta::Transaction,
        change: &Change,
        record: &mut VolumeRecord,
    ) -> Result<(), VolumeError> {
        match change {
            Change::Policy(policy) => {
                record.policy = self.number_of_policy(transaction, policy).await?;
                transaction.delete(self.keys.spread(record.policy));
            }
            Change::Spread(spreads) => {
                for (policy, variants) in spreads {
                    let number = self.number_of_policy(transaction, policy).await?;
                    let mut numbers = Vec::new();
                    for variant in variants.iter().take(MAX_VARIANTS) {
                        numbers.push(self.number_of_policy(transaction, variant).await?);
                    }
                    match numbers.iter().all(|variant| *variant == number) {
                        true => transaction.delete(self.keys.spread(number)),
                        false => transaction.put(self.keys.spread(number), encode_spread(&numbers)),
                    }
                }
            }
            Change::Directory(path, policy) => {
                let directory = self.directory_at(transaction, path).await?;
                let key = self.keys.directory_policy(directory);
                let Some(policy) = policy else {
                    transaction.delete(key);
                    return Ok(());
                };
                let others = read_directories(self.keys, transaction).await?;
                if others.len() >= MAX_DIRECTORIES && !others.contains_key(&directory) {
                    return Err(VolumeError::TooManyDirectories(others.len()));
                }
                let number = self.number_of_policy(transaction, policy).await?;
                transaction.put(key, encode_directory_policy(number));
                transaction.delete(self.keys.spread(number));
            }
            Change::Tier(tier) => record.tier = *tier,
            Change::Delete { force } => {
                let row = transaction.get(&self.keys.inode(self.root)).await?;
                let missing = || VolumeError::Missing { what: format!("the root of volume {}", self.id) };
                let root = self.inode(self.root, &row.ok_or_else(missing)?)?;
                if !force && matches!(root.special, Special::Directory { entries: 1.., .. }) {
                    return Err(VolumeError::VolumeNotEmpty(record.name.clone()));
                }
                record.doomed = true;
                // For those who have read it: their transactions end in a conflict, and the next ones are refused.
                transaction.put(self.keys.inode(self.root), root.encode());
            }
        }
        Ok(())
    }

    /// The number of a policy, which it gets if it is new.
    async fn number_of_policy(
        &self,
        transaction: &mut dyn meta::Transaction,
        policy: &Policy,
    ) -> Result<u32, VolumeError> {
        let known = read_policies(self.keys, transaction).await?;
        let number = match known.iter().find(|(_, known)| ***known == *policy) {
            Some((&id, _)) => id,
            None => {
                let number = known.keys().next_back().map_or(1, |last| last + 1);
                // Whoever records another one at the same time meets this one here.
                transaction.get(&self.keys.policy(number)).await?;
                number
            }
        };
        transaction.put(self.keys.policy(number), encode_policy(policy));
        Ok(number)
    }

    /// Takes all objects apart that can be; the error tells of the first that cannot.
    async fn raze(&self) -> Result<(), VolumeError> {
        let (mut start, end) = self.keys.objects();
        let mut failed = None;
        loop {
            let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
            let rows = transaction.scan(Scan { start: &start, end: &end, guard: None, limit: ROWS }).await?;
            drop(transaction);
            let mut objects: Vec<ObjectId> =
                rows.iter().filter_map(|(key, _)| Keys::object_row(key)).map(|(object, _)| object).collect();
            objects.dedup();
            let Some(&last) = objects.last() else { return failed.map_or(Ok(()), Err) };
            start = self.keys.rows_of(last).1;
            for object in self.take_apart_what_can_be(&objects, true, &mut failed).await? {
                // Rows that a damaged store has left without an inode.
                let (start, end) = self.keys.rows_of(object);
                while self.delete_rows(&start, &end).await? {}
            }
        }
    }

    /// Deletes some rows of a range; whether there may be more.
    async fn delete_rows(&self, start: &[u8], end: &[u8]) -> Result<bool, VolumeError> {
        upkeep_transaction!(self.node, |transaction| {
            let rows = transaction.scan(Scan { start, end, guard: None, limit: ROWS }).await?;
            let more = rows.len() == ROWS;
            rows.into_iter().for_each(|(key, _)| transaction.delete(key));
            Ok(more)
        })
    }

    /// Counts what the volume holds.
    async fn count(&self) -> Result<Amount, VolumeError> {
        let (mut start, end) = self.keys.objects();
        let mut amount = Amount::default();
        loop {
            let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
            let rows = transaction.scan(Scan { start: &start, end: &end, guard: None, limit: ROWS }).await?;
            for (key, row) in &rows {
                if let Some((object, crate::keys::ObjectRow::Inode)) = Keys::object_row(key) {
                    let bytes = self.inode(object, row)?.attributes.space_used as i64;
                    amount += Amount { objects: 1, bytes };
                }
            }
            match rows.last() {
                Some((last, _)) if rows.len() == ROWS => start = [&last[..], &[0]].concat().into(),
                _ => return Ok(amount),
            }
        }
    }
}

/// Checks the store's first row or writes it.
async fn check_store(node: &Node, transaction: &mut dyn meta::Transaction) -> Result<(), VolumeError> {
    let damaged = |cause| VolumeError::Damaged { what: "the store itself".into(), cause };
    match transaction.get(&keys::store()).await? {
        Some(row) => {
            let header = StoreHeader::decode(&row).map_err(damaged)?;
            if header.schema > SCHEMA {
                return Err(VolumeError::NewerSchema { found: header.schema, known: SCHEMA });
            }
            if header.schema < OLDEST {
                return Err(VolumeError::OlderSchema { found: header.schema, known: OLDEST });
            }
            if header.gateway != node.gateway {
                return Err(VolumeError::OtherGateway { found: header.gateway, own: node.gateway });
            }
            if header.schema < SCHEMA {
                let header = StoreHeader { schema: SCHEMA, ..header };
                transaction.put(keys::store(), header.encode());
            }
        }
        None => {
            let header = StoreHeader { schema: SCHEMA, gateway: node.gateway };
            transaction.put(keys::store(), header.encode());
        }
    }
    Ok(())
}

async fn next_slot(transaction: &mut dyn meta::Transaction) -> Result<u32, VolumeError> {
    let damaged = |_| VolumeError::Damaged {
        what: "the counter of volumes".into(),
        cause: BadRow("a counter of the wrong length"),
    };
    let slot = match transaction.get(&keys::next_slot()).await? {
        Some(row) => u32::from_be_bytes(row[..].try_into().map_err(damaged)?),
        None => 1,
    };
    transaction.put(keys::next_slot(), Bytes::copy_from_slice(&(slot + 1).to_be_bytes()));
    Ok(slot)
}

fn root_inode(record: &VolumeRecord, new: &NewVolume) -> Inode {
    let (now, root) = (record.created, record.root);
    let attributes = Attributes {
        file: FileId { volume: record.id, object: root },
        kind: FileKind::Directory,
        mode: new.mode & 0o7777,
        links: 2,
        uid: new.uid,
        gid: new.gid,
        acl: None,
        size: attribute_rules::directory_size(0),
        space_used: 0,
        device: Device::default(),
        accessed: now,
        modified: now,
        changed: now,
        created: now,
        change: attribute_rules::next_change(0, now),
        quarantined: false,
    };
    let next_cookie = file_system::limits::FIRST_COOKIE;
    Inode::new(attributes, Special::Directory { parent: root, next_cookie, entries: 0 })
}

async fn open_volume(node: &Arc<Node>, keys: Keys, record: VolumeRecord) -> Result<Volume, VolumeError> {
    let mut transaction = node.store.begin(meta::Mode::Optimistic).await?;
    let policies = read_policies(keys, &mut *transaction).await?;
    let directories = read_directories(keys, &mut *transaction).await?;
    let spreads = read_spreads(keys, &mut *transaction).await?;
    if !policies.contains_key(&record.policy) {
        return Err(VolumeError::Missing {
            what: format!("policy {} of volume {}", record.policy, record.id),
        });
    }
    let epochs = Epochs::load(node, keys, &record, &mut *transaction).await?;
    let usage = transaction.get(&keys.usage()).await?;
    let quarantine = read_quarantine(keys, &mut *transaction).await?;
    let references = Arc::new(References::default());
    let (start, end) = keys.orphans();
    let orphans = transaction.scan(Scan { start: &start, end: &end, guard: None, limit: usize::MAX }).await?;
    let (held, lost): (Vec<_>, Vec<_>) = orphans.iter().partition(|(_, row)| orphan_was_held(row));
    let object = |(key, _): &(Bytes, Bytes)| Keys::orphan_of(key);
    references.inherited(held.into_iter().filter_map(object));
    references.orphaned(lost.into_iter().filter_map(object));
    drop(transaction);
    let inner = Inner {
        node: node.clone(),
        id: record.id,
        keys,
        root: record.root,
        record: RwLock::new(record),
        policies: RwLock::new(policies),
        directories: RwLock::new(Arc::new(directories)),
        spreads: RwLock::new(spreads),
        epochs,
        references,
        usage: Arc::default(),
        repair_queued: Notify::new(),
        packs: Default::default(),
        rekeying: Rekeying::default(),
        keeps_contents: AtomicBool::new(true),
        migration: Default::default(),
        pack_reads: Default::default(),
        quarantine,
    };
    let saved = usage.map(|row| Amount::decode(&row)).transpose();
    let saved = saved.map_err(|cause| VolumeError::Damaged { what: "a volume's usage".into(), cause })?;
    inner.usage.add(match saved {
        Some((amount, true)) => amount,
        _ => inner.count().await?,
    });
    inner.note_sealing().await?;
    inner.abandon_attempts().await?;
    inner.settle_packs().await?;
    let volume = Volume { inner: Arc::new(inner) };
    // From now on the row is out of date until the volume is closed.
    volume.save_usage(false).await?;
    Ok(volume)
}

fn check_name(name: &str) -> Result<(), VolumeError> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(fine) {
        return Err(VolumeError::BadVolumeName(name.to_owned()));
    }
    Ok(())
}
