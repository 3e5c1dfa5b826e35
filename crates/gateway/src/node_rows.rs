//! The gateway's own rows in the metadata store: key table `0xF0`, beside the volumes'.
//!
//! | key | value |
//! |---|---|
//! | `0xF0 0x01` name of a cloud | its number, 2 bytes |
//! | `0xF0 0x02` owner id of an NFS client | empty: it may reclaim after a restart |
//! | `0xF0 0x03` number of a cloud 2 | where its fragments are: format 1, length 1 and name of the cloud they are moving out of, name of the cloud they are in or moving to |
//! | `0xF0 0x04` | empty: the store is being loaded from a dump |
//! | `0xF0 0x06` | what a writer of backups has to know after a restart (crate `backup`) |
//! | `0xF0 0x07` | what is being shredded, as JSON of module `shred`; gone when that is done |
//! | `0xF0 0x08` | generation of the opener that epoch keys are wrapped to 4, since when: seconds 8 |
//! | `0xF0 0x05` volume 16, object 18 | empty: this file is kept in the cache |
//! | `0xF0 0x09` volume 16 | JSON: how far the present scrub of the volume is |
//! | `0xF0 0x0A` volume 16 | JSON: what its last whole scrub found |
//! | `0xF0 0x0B` | JSON: for each cloud, when the scrub began that last proved the backup in it, in seconds since 1970 |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use blocks::CloudId;
use bytes::Bytes;
use file_system::FileId;
use ids::{ObjectId, Timestamp, VolumeId};
use meta::{KeyBuilder, MetaError, MetaStore, Mode, Priority, Scan};
use nfs4_server::{ClientRecords, RecordsError};

const TABLE: u8 = 0xF0;
const CLOUD: u8 = 0x01;
const CLIENT: u8 = 0x02;
const PLACE: u8 = 0x03;
const LOADING: u8 = 0x04;
const PIN: u8 = 0x05;
const BACKUPS: u8 = 0x06;
const SHREDDING: u8 = 0x07;
const OPENERS: u8 = 0x08;
const SCRUB: u8 = 0x09;
const SCRUBBED: u8 = 0x0A;
const PROVED: u8 = 0x0B;
/// Rows read at once.
const PAGE: usize = 1024;

/// Sets rows, or removes those without a value; returns when that is durable. It reads nothing and so meets no
/// conflict.
async fn change(store: &dyn MetaStore, rows: Vec<(Bytes, Option<Bytes>)>) -> Result<(), MetaError> {
    let mut transaction = store.begin(Mode::Optimistic).await?;
    for (key, value) in rows {
        match value {
            Some(value) => transaction.put(key, value),
            None => transaction.delete(key),
        }
    }
    transaction.commit(Priority::Client).await?.durable().await
}

/// Which opener epoch keys are wrapped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Openers {
    pub generation: u32,
    pub since: Timestamp,
}

impl Openers {
    /// Key and value of its row.
    pub fn row(&self) -> (Bytes, Bytes) {
        let value = [&self.generation.to_be_bytes()[..], &self.since.seconds.to_be_bytes()].concat();
        (KeyBuilder::new(TABLE).tag(OPENERS).build(), value.into())
    }

    /// `None`: it has never been replaced.
    pub async fn load(store: &dyn MetaStore) -> Result<Option<Openers>, MetaError> {
        let key = KeyBuilder::new(TABLE).tag(OPENERS).build();
        let row = store.begin(Mode::Optimistic).await?.get(&key).await?;
        Ok(row.and_then(|row| {
            let (generation, seconds) = row.split_first_chunk()?;
            let seconds = i64::from_be_bytes(seconds.try_into().ok()?);
            Some(Openers {
                generation: u32::from_be_bytes(*generation),
                since: Timestamp { seconds, nanos: 0 },
            })
        }))
    }
}

/// What is being shredded.
pub(crate) async fn shredding(store: &dyn MetaStore) -> Result<Option<Bytes>, MetaError> {
    store.begin(Mode::Optimistic).await?.get(&KeyBuilder::new(TABLE).tag(SHREDDING).build()).await
}

/// Notes what is being shredded, durably.
pub(crate) async fn set_shredding(store: &dyn MetaStore, row: Option<Bytes>) -> Result<(), MetaError> {
    change(store, vec![(KeyBuilder::new(TABLE).tag(SHREDDING).build(), row)]).await
}

/// The last parts of all keys of one kind.
async fn names(store: &dyn MetaStore, kind: u8) -> Result<Vec<(Bytes, Bytes)>, MetaError> {
    let (mut start, end) = KeyBuilder::new(TABLE).tag(kind).prefix_range();
    let mut transaction = store.begin(Mode::Optimistic).await?;
    let mut rows = Vec::new();
    loop {
        let page = transaction.scan(Scan { start: &start, end: &end, guard: None, limit: PAGE }).await?;
        let full = page.len() == PAGE;
        if let Some((key, _)) = page.last() {
            start = [&key[..], &[0]].concat().into();
        }
        rows.extend(page.into_iter().map(|(key, value)| (key.slice(2..), value)));
        if !full {
            return Ok(rows);
        }
    }
}

/// Where the fragments of a number are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The cloud that they are moving out of.
    pub from: Option<String>,
    /// The cloud that they are in, or moving to.
    pub to: String,
}

/// The rows of clouds.
pub(crate) struct CloudRows {
    /// For which cloud a number was made. A number stays with its fragments, wherever they go.
    own: BTreeMap<String, CloudId>,
    moved: BTreeMap<CloudId, Place>,
}

impl CloudRows {
    pub async fn load(store: &dyn MetaStore) -> Result<CloudRows, MetaError> {
        let number = |bytes: &[u8]| Some(CloudId(u16::from_be_bytes(bytes.try_into().ok()?)));
        let own = names(store, CLOUD)
            .await?
            .into_iter()
            .filter_map(|(name, value)| Some((String::from_utf8(name.to_vec()).ok()?, number(&value)?)));
        let own = own.collect();
        let moved = names(store, PLACE).await?.into_iter();
        let moved = moved.filter_map(|(key, value)| Some((number(&key)?, Place::decode(&value)?))).collect();
        Ok(CloudRows { own, moved })
    }

    /// Whether a cloud has been used before.
    pub fn is_known(&self, name: &str) -> bool {
        self.own.contains_key(name)
    }

    /// Gives numbers to those of these clouds that have none of their own, or whose own has been moved away.
    pub async fn number(
        &mut self,
        store: &dyn MetaStore,
        clouds: impl IntoIterator<Item = String>,
    ) -> Result<(), MetaError> {
        let last = self.own.values().chain(self.moved.keys()).max().map_or(0, |last| last.0);
        let mut fresh = Vec::new();
        for cloud in clouds {
            let in_place = self.own.get(&cloud).is_some_and(|number| !self.moved.contains_key(number));
            if !in_place {
                let number = CloudId(last + 1 + fresh.len() as u16);
                let key = KeyBuilder::new(TABLE).tag(CLOUD).last_text(cloud.as_bytes()).build();
                fresh.push((key, Some(Bytes::copy_from_slice(&number.0.to_be_bytes()))));
                self.own.insert(cloud, number);
            }
        }
        match fresh.is_empty() {
            true => Ok(()),
            false => change(store, fresh).await,
        }
    }

    /// The cloud that has taken over what was stored in this one first.
    pub fn heir(&self, name: &str) -> Option<&str> {
        let place = self.moved.get(self.own.get(name)?)?;
        (place.from.is_none() && place.to != name).then_some(&*place.to)
    }

    /// Where every number is.
    pub fn places(&self) -> BTreeMap<CloudId, Place> {
        let own = self.own.iter().map(|(name, id)| (*id, Place { from: None, to: name.clone() }));
        let mut places: BTreeMap<_, _> = own.collect();
        places.extend(self.moved.iter().map(|(id, place)| (*id, place.clone())));
        places
    }

    /// Notes where these numbers are.
    pub async fn place(
        store: &dyn MetaStore,
        numbers: &BTreeSet<CloudId>,
        place: &Place,
    ) -> Result<(), MetaError> {
        let row = |id: &CloudId| {
            let key = KeyBuilder::new(TABLE).tag(PLACE).fixed(&id.0.to_be_bytes()).build();
            (key, Some(place.encode()))
        };
        change(store, numbers.iter().map(row).collect()).await
    }
}

impl Place {
    /// Format 1, length of the first name, the names. Names have at most 64 bytes.
    fn encode(&self) -> Bytes {
        let from = self.from.as_deref().unwrap_or("");
        [&[1, from.len() as u8], from.as_bytes(), self.to.as_bytes()].concat().into()
    }

    fn decode(row: &[u8]) -> Option<Place> {
        let [1, length, names @ ..] = row else { return None };
        let (from, to) = names.split_at_checked(usize::from(*length))?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        Some(Place { from: text(from).filter(|from| !from.is_empty()), to: text(to)? })
    }
}

/// Marks a store that is being loaded and not whole yet.
pub(crate) async fn set_loading(store: &dyn MetaStore, loading: bool) -> Result<(), MetaError> {
    let key = KeyBuilder::new(TABLE).tag(LOADING).build();
    change(store, vec![(key, loading.then(Bytes::new))]).await
}

/// Whether a load of the store was interrupted.
pub(crate) async fn is_loading(store: &dyn MetaStore) -> Result<bool, MetaError> {
    Ok(!names(store, LOADING).await?.is_empty())
}

/// Whether a row of a dump is of this process alone: an NFS client that may reclaim, a mark, how far something is, or a job that needs the key file beside it.
pub(crate) fn is_passing(key: &[u8]) -> bool {
    matches!(key, [TABLE, CLIENT | LOADING | BACKUPS | SCRUB | SHREDDING | PROVED, ..])
}

/// What is noted of the scrubs of a volume.
#[derive(Clone, Copy)]
pub(crate) enum Scrubbed {
    /// How far the present one is.
    Present,
    /// What the last whole one found.
    Whole,
}

fn scrub_key(volume: VolumeId, which: Scrubbed) -> Bytes {
    let kind = match which {
        Scrubbed::Present => SCRUB,
        Scrubbed::Whole => SCRUBBED,
    };
    KeyBuilder::new(TABLE).tag(kind).fixed(&volume.0.to_be_bytes()).build()
}

/// What was noted.
pub(crate) async fn scrub_period(
    store: &dyn MetaStore,
    volume: VolumeId,
    which: Scrubbed,
) -> Result<Option<Bytes>, MetaError> {
    store.begin(Mode::Optimistic).await?.get(&scrub_key(volume, which)).await
}

/// Notes it, or forgets it.
pub(crate) async fn set_scrub_period(
    store: &dyn MetaStore,
    volume: VolumeId,
    rows: &[(Scrubbed, Option<Bytes>)],
) -> Result<(), MetaError> {
    let rows = rows.iter().map(|(which, row)| (scrub_key(volume, *which), row.clone()));
    change(store, rows.collect()).await
}

/// What the writer of backups has noted.
pub(crate) async fn backup_state(store: &dyn MetaStore) -> Result<Option<Bytes>, MetaError> {
    Ok(names(store, BACKUPS).await?.into_iter().next().map(|(_, value)| value))
}

/// Notes it.
pub(crate) async fn set_backup_state(store: &dyn MetaStore, state: Bytes) -> Result<(), MetaError> {
    change(store, vec![(KeyBuilder::new(TABLE).tag(BACKUPS).build(), Some(state))]).await
}

/// When the backup was last proved in each cloud, in seconds since 1970. A row of another version is none.
pub(crate) async fn backup_proved(store: &dyn MetaStore) -> Result<BTreeMap<String, i64>, MetaError> {
    let row = store.begin(Mode::Optimistic).await?.get(&KeyBuilder::new(TABLE).tag(PROVED).build()).await?;
    Ok(row.and_then(|row| serde_json::from_slice(&row).ok()).unwrap_or_default())
}

/// Notes it.
pub(crate) async fn set_backup_proved(
    store: &dyn MetaStore,
    clouds: &BTreeMap<String, i64>,
) -> Result<(), MetaError> {
    let row = serde_json::to_vec(clouds).unwrap_or_default();
    change(store, vec![(KeyBuilder::new(TABLE).tag(PROVED).build(), Some(row.into()))]).await
}

fn pin_key(file: FileId) -> Bytes {
    let volume = file.volume.0.to_be_bytes();
    KeyBuilder::new(TABLE).tag(PIN).fixed(&volume).fixed(&file.object.to_bytes()).build()
}

/// Notes files that are kept in the cache, or are no more.
pub(crate) async fn set_pinned(
    store: &dyn MetaStore,
    files: &[FileId],
    pinned: bool,
) -> Result<(), MetaError> {
    let row = |file: &FileId| (pin_key(*file), pinned.then(Bytes::new));
    change(store, files.iter().map(row).collect()).await
}

/// All files that are kept in the cache.
pub(crate) async fn pinned(store: &dyn MetaStore) -> Result<Vec<FileId>, MetaError> {
    let file = |(key, _): (Bytes, Bytes)| {
        let (volume, object) = key.split_at_checked(16)?;
        let volume = VolumeId(u128::from_be_bytes(volume.try_into().ok()?));
        Some(FileId { volume, object: ObjectId::from_bytes(object.try_into().ok()?) })
    };
    Ok(names(store, PIN).await?.into_iter().filter_map(file).collect())
}

/// NFS clients that may reclaim, kept in the metadata store.
pub(crate) struct StoredClients {
    store: Arc<dyn MetaStore>,
}

impl StoredClients {
    pub fn new(store: Arc<dyn MetaStore>) -> StoredClients {
        StoredClients { store }
    }

    fn key(owner_id: &[u8]) -> Bytes {
        KeyBuilder::new(TABLE).tag(CLIENT).last_text(owner_id).build()
    }
}

fn failed(error: MetaError) -> RecordsError {
    RecordsError(error.to_string())
}

#[async_trait]
impl ClientRecords for StoredClients {
    async fn load(&self) -> Result<Vec<Vec<u8>>, RecordsError> {
        let rows = names(&*self.store, CLIENT).await.map_err(failed)?;
        Ok(rows.into_iter().map(|(name, _)| name.to_vec()).collect())
    }

    async fn put(&self, owner_id: &[u8]) -> Result<(), RecordsError> {
        change(&*self.store, vec![(Self::key(owner_id), Some(Bytes::new()))]).await.map_err(failed)
    }

    async fn remove(&self, owner_id: &[u8]) -> Result<(), RecordsError> {
        change(&*self.store, vec![(Self::key(owner_id), None)]).await.map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        for from in [None, Some("a".to_owned())] {
            let place = Place { from, to: "cellar-2".into() };
            assert_eq!(Place::decode(&place.encode()), Some(place));
        }
        for bad in [&[][..], &[1], &[2, 0, b'a'], &[1, 9, b'a']] {
            assert_eq!(Place::decode(bad), None);
        }
    }
}
