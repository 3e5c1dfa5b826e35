//! The gateway's own rows in the metadata store: key table `0xF0`, beside the volumes'.
//!
//! | key | value |
//! |---|---|
//! | `0xF0 0x01` name of a cloud | its number, 2 bytes |
//! | `0xF0 0x02` owner id of an NFS client | empty: it may reclaim after a restart |

use std::sync::Arc;

use async_trait::async_trait;
use blocks::CloudId;
use bytes::Bytes;
use meta::{KeyBuilder, MetaError, MetaStore, Mode, Priority, Scan};
use nfs4_server::{ClientRecords, RecordsError};

const TABLE: u8 = 0xF0;
const CLOUD: u8 = 0x01;
const CLIENT: u8 = 0x02;
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

/// The numbers of these clouds, in their order; new names get the next free number. A number stays with its name.
pub(crate) async fn cloud_numbers(
    store: &dyn MetaStore,
    clouds: &[String],
) -> Result<Vec<CloudId>, MetaError> {
    let known = names(store, CLOUD).await?;
    let number_of = |value: &Bytes| u16::from_be_bytes([value[0], value[1]]);
    let mut next =
        known.iter().filter(|(_, v)| v.len() == 2).map(|(_, v)| number_of(v)).max().map_or(1, |n| n + 1);
    let mut numbers = Vec::new();
    let mut fresh = Vec::new();
    for cloud in clouds {
        match known.iter().find(|(name, value)| name == cloud.as_bytes() && value.len() == 2) {
            Some((_, value)) => numbers.push(CloudId(number_of(value))),
            None => {
                fresh.push((cloud.clone(), next));
                numbers.push(CloudId(next));
                next += 1;
            }
        }
    }
    if !fresh.is_empty() {
        let row = |(name, number): (String, u16)| {
            let key = KeyBuilder::new(TABLE).tag(CLOUD).last_text(name.as_bytes()).build();
            (key, Some(Bytes::copy_from_slice(&number.to_be_bytes())))
        };
        change(store, fresh.into_iter().map(row).collect()).await?;
    }
    Ok(numbers)
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
