use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use ids::BlockIndex;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

use crate::block_key::BlockKey;
use crate::clean::Clean;
use crate::stats::Stats;
use crate::{CacheError, FileKey, LoadError, Sealing};

/// Bytes of one permit.
const UNIT: u64 = 64 << 10;

/// Loads blocks from the clouds.
#[async_trait]
pub trait BlockLoader: Send + Sync + 'static {
    /// The verified plaintext of one block version; bytes beyond its end read as zeros. Called once at a time for
    /// a version, however many readers wait for it; the call goes on when they give up.
    async fn load(&self, file: FileKey, block: BlockIndex, sealing: Sealing) -> Result<Bytes, LoadError>;
}

/// A load that has begun.
struct UnderWay {
    flight: Flight,
    /// A reader waits for it.
    wanted: Arc<AtomicBool>,
}

type Flight = Shared<BoxFuture<'static, Result<Bytes, CacheError>>>;

/// Blocks on their way from the clouds: one load for all readers of a block, and a bound on what is under way.
pub(crate) struct Fetches {
    flights: Mutex<HashMap<BlockKey, UnderWay>>,
    /// All loads.
    under_way: Arc<Semaphore>,
    units: u32,
    /// Loads ahead of readers: at most half, so that readers always find room.
    ahead: Arc<Semaphore>,
    clean: Arc<Clean>,
    stats: Arc<Stats>,
}

impl Fetches {
    pub fn new(bytes: u64, clean: Arc<Clean>, stats: Arc<Stats>) -> Arc<Fetches> {
        let units = (bytes / UNIT).clamp(2, u64::from(u32::MAX)) as u32;
        Arc::new(Fetches {
            flights: Mutex::default(),
            under_way: Arc::new(Semaphore::new(units as usize)),
            units,
            ahead: Arc::new(Semaphore::new(units as usize / 2)),
            clean,
            stats,
        })
    }

    /// Loads a block of about `bytes` bytes, or joins whoever loads it already.
    pub async fn get(
        self: &Arc<Self>,
        block: BlockKey,
        bytes: u64,
        loader: &Arc<dyn BlockLoader>,
    ) -> Result<Bytes, CacheError> {
        let flight = {
            let mut flights = self.flights.lock();
            match flights.get(&block) {
                Some(under_way) => {
                    under_way.wanted.store(true, Ordering::Relaxed);
                    under_way.flight.clone()
                }
                None => self.start(&mut flights, block, bytes, loader, None),
            }
        };
        flight.await
    }

    /// Bytes that may be loaded ahead now, on the way and waiting for their readers; `wanted` says how many there might be.
    pub fn room_ahead(&self, wanted: u64) -> u64 {
        let free = self.ahead.available_permits() as u64 * UNIT;
        let under_way = (u64::from(self.units / 2) * UNIT).saturating_sub(free);
        self.clean.room_ahead(wanted + under_way).saturating_sub(under_way).min(free)
    }

    /// Starts to load a block that somebody will want soon, unless enough of those are under way.
    pub fn ahead(self: &Arc<Self>, block: BlockKey, bytes: u64, loader: &Arc<dyn BlockLoader>) {
        if self.clean.has(block) {
            return;
        }
        let units = self.units_of(bytes).min(self.units / 2);
        let Ok(permit) = Arc::clone(&self.ahead).try_acquire_many_owned(units) else { return };
        let mut flights = self.flights.lock();
        if !flights.contains_key(&block) {
            Stats::add(&self.stats.readahead);
            drop(self.start(&mut flights, block, bytes, loader, Some(permit)));
        }
    }

    fn units_of(&self, bytes: u64) -> u32 {
        bytes.div_ceil(UNIT).clamp(1, u64::from(self.units)) as u32
    }

    fn start(
        self: &Arc<Self>,
        flights: &mut HashMap<BlockKey, UnderWay>,
        block: BlockKey,
        bytes: u64,
        loader: &Arc<dyn BlockLoader>,
        ahead: Option<tokio::sync::OwnedSemaphorePermit>,
    ) -> Flight {
        Stats::add(&self.stats.fetches);
        let (done, landed) = oneshot::channel();
        let (fetches, loader, units) = (Arc::clone(self), Arc::clone(loader), self.units_of(bytes));
        let wanted = Arc::new(AtomicBool::new(ahead.is_none()));
        let is_wanted = Arc::clone(&wanted);
        tokio::spawn(async move {
            let landing = Landing { fetches, block };
            // Never closed; without a permit the bound would be missed by this one load.
            let under_way = Arc::clone(&landing.fetches.under_way);
            let _permit = under_way.acquire_many(units).await;
            let BlockKey { file, block: index, sealing } = block;
            let clean = &landing.fetches.clean;
            let forgotten = clean.forgotten();
            let result = loader.load(file, index, sealing).await;
            if let Ok(bytes) = &result {
                match is_wanted.load(Ordering::Relaxed) {
                    true => clean.insert(block, bytes.clone()),
                    false => clean.insert_ahead(block, bytes.clone()),
                }
                clean.forget_if_since(forgotten, block);
            }
            drop((ahead, landing));
            // Nobody may be waiting any more.
            let _ = done.send(result.map_err(|cause| load_error(block, cause)));
        });
        let flight = landed
            .map(move |result| result.unwrap_or_else(|_| Err(load_error(block, Arc::new(Interrupted)))))
            .boxed()
            .shared();
        flights.insert(block, UnderWay { flight: flight.clone(), wanted });
        flight
    }
}

fn load_error(block: BlockKey, cause: LoadError) -> CacheError {
    CacheError::Load { file: block.file, block: block.block, version: block.sealing.version, cause }
}

/// Takes the flight off the list however its task ends.
struct Landing {
    fetches: Arc<Fetches>,
    block: BlockKey,
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.fetches.flights.lock().remove(&self.block);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the load was interrupted")]
struct Interrupted;
