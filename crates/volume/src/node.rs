use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use blocks::{BlockStore, SealId};
use bytes::Bytes;
use cache::Cache;
use environment::Environment;
use ids::{GatewayId, ObjectId, ObjectNumber, Timestamp};
use meta::{MetaError, MetaStore, Priority};
use parking_lot::{Mutex, RwLock};
use seal::GatewayKeyPair;

use crate::VolumeError;
use crate::keys;

/// Object numbers reserved at once (`K10`).
pub(crate) const ID_BATCH: u128 = 1024;

/// Times that an upkeep transaction is run; the last time with all other commits kept waiting.
pub(crate) const RETRIES: usize = 64;

/// Runs a transaction of upkeep, again after conflicts; returns when it is durable. A macro, because the futures
/// of a function that takes asynchronous closures cannot be shown to be `Send`.
macro_rules! upkeep_transaction {
    ($node:expr, |$transaction:ident| $body:expr) => {{
        let mut attempts = crate::node::RETRIES;
        loop {
            let mode = match attempts {
                1 => meta::Mode::ExclusiveUpkeep,
                _ => meta::Mode::Optimistic,
            };
            let mut begun = $node.store.begin(mode).await?;
            let done: Result<_, crate::VolumeError> = {
                let $transaction: &mut dyn meta::Transaction = &mut *begun;
                async { $body }.await
            };
            match done {
                Ok(done) => {
                    if $node.commit_upkeep(begun).await? {
                        break Ok(done);
                    }
                }
                Err(crate::VolumeError::Meta(meta::MetaError::Conflict)) => {}
                Err(error) => break Err(error),
            }
            attempts -= 1;
            if attempts == 0 {
                break Err(crate::VolumeError::Meta(meta::MetaError::Conflict));
            }
        }
    }};
}

pub(crate) use upkeep_transaction;

/// Times that something is read again after a conflict, before nobody else may commit meanwhile.
pub(crate) const REREADS: usize = 4;

/// Reads what belongs together, again when somebody changed part of it meanwhile; at last with all commits kept waiting, so
/// that it ends however much is going on. To be kept short therefore: a page of a listing, and nothing but the store.
macro_rules! consistent_read {
    ($node:expr, |$transaction:ident| $body:expr) => {{
        let mut attempts = 0;
        loop {
            let last = attempts == $crate::node::REREADS;
            let mode = if last { meta::Mode::ExclusiveUpkeep } else { meta::Mode::Optimistic };
            let mut begun = $node.store.begin(mode).await?;
            let done: Result<_, crate::VolumeError> = {
                let $transaction: &mut dyn meta::Transaction = &mut *begun;
                async { $body }.await
            };
            match done {
                Err(crate::VolumeError::Meta(meta::MetaError::Conflict)) if !last => attempts += 1,
                done => break done,
            }
        }
    }};
}

pub(crate) use consistent_read;

/// Tells of a row of the garbage whether its fragments may be deleted.
type MayDelete = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// What all volumes of a node share.
pub(crate) struct Node {
    pub gateway: GatewayId,
    /// The keys of this gateway; while they are replaced, both.
    pub keys: RwLock<Arc<GatewayKeyPair>>,
    pub store: Arc<dyn MetaStore>,
    pub cache: Cache,
    pub environment: Environment,
    pub blocks: Arc<BlockStore>,
    /// Of this start of the node: tells its sealings, and the names of their fragments, from those of all others.
    pub seal: SealId,
    pub gc_delay: Duration,
    pub capacity: u64,
    /// Unset: they all may.
    pub may_delete: OnceLock<MayDelete>,
    pub write_verifier: [u8; 8],
    pub ids: ObjectIds,
}

impl Node {
    /// When what becomes garbage now is due for deletion (`K47`).
    pub fn due(&self) -> u64 {
        millis(self.environment.clock.wall())
            .saturating_add(u64::try_from(self.gc_delay.as_millis()).unwrap_or(u64::MAX))
    }

    /// An object number that was never used before, anywhere (`K9`).
    pub async fn new_object(&self) -> Result<ObjectId, VolumeError> {
        let number = loop {
            if let Some(number) = self.ids.take() {
                break number;
            }
            let _alone = self.ids.refill.lock().await;
            if self.ids.is_empty() {
                let batch = self.reserve_numbers().await?;
                *self.ids.free.lock() = batch;
            }
        };
        Ok(ObjectId { creator: self.gateway, number: ObjectNumber(number) })
    }

    /// Raises the counter, durably: a number must not come back after a crash, because somebody may have seen it.
    async fn reserve_numbers(&self) -> Result<Range<u128>, VolumeError> {
        upkeep_transaction!(self, |transaction| advance_counter(transaction).await)
    }

    /// Commits a transaction of upkeep and waits until it is durable; false after a conflict.
    pub async fn commit_upkeep(&self, transaction: Box<dyn meta::Transaction>) -> Result<bool, VolumeError> {
        match transaction.commit(Priority::Upkeep).await {
            Ok(committed) => {
                committed.durable().await?;
                Ok(true)
            }
            Err(MetaError::Conflict) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn millis(time: Timestamp) -> u64 {
    u64::try_from(time.seconds).unwrap_or(0).saturating_mul(1000) + u64::from(time.nanos / 1_000_000)
}

/// Takes a batch of numbers off the store's counter.
pub(crate) async fn advance_counter(
    transaction: &mut dyn meta::Transaction,
) -> Result<Range<u128>, VolumeError> {
    let first = match transaction.get(&keys::next_object()).await? {
        Some(row) => u128::from_be_bytes(row[..].try_into().map_err(|_| VolumeError::Damaged {
            what: "the object counter".into(),
            cause: crate::row::BadRow("a counter of the wrong length"),
        })?),
        None => 1,
    };
    let end = first + ID_BATCH;
    transaction.put(keys::next_object(), Bytes::copy_from_slice(&end.to_be_bytes()));
    Ok(first..end)
}

/// Numbers that are reserved and not yet used.
#[derive(Default)]
pub(crate) struct ObjectIds {
    free: Mutex<Range<u128>>,
    refill: tokio::sync::Mutex<()>,
}

impl ObjectIds {
    pub fn take(&self) -> Option<u128> {
        self.free.lock().next()
    }

    fn is_empty(&self) -> bool {
        self.free.lock().is_empty()
    }
}
