//! Reads of blocks that lie in one pack, gathered: a compound that reads a hundred small files asks the clouds for a few runs of
//! blocks, or once for the whole pack (decision 25 §14).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use blocks::{Fault, LoadedTogether, PackVersion, PackedBlock};
use bytes::Bytes;
use parking_lot::Mutex;
use seal::BlockIdentity;
use tokio::sync::oneshot;
use upkeep::{BlockVersion, Packed};

use crate::row::{Origin, PACK_VERSION};
use crate::volume::Volume;

/// Blocks that are asked for together.
const MOST: usize = 1024;
/// How often the first one steps back for others that are about to ask. It waits for no time: whoever comes later goes with the next
/// round, when this one is back.
const STEPS_BACK: usize = 8;

/// The packs that are being read, with those who wait for the next round.
#[derive(Default)]
pub(crate) struct PackReads(Mutex<HashMap<Origin, Vec<Waiting>>>);

struct Waiting {
    version: BlockVersion,
    packed: Arc<Packed>,
    done: oneshot::Sender<Result<Bytes, cache::LoadError>>,
}

/// The rounds of one pack. However they end, the next reader begins anew.
struct Rounds {
    volume: Volume,
    pack: Origin,
    is_over: bool,
}

impl Drop for Rounds {
    fn drop(&mut self) {
        if !self.is_over {
            self.volume.inner.pack_reads.0.lock().remove(&self.pack);
        }
    }
}

impl Rounds {
    /// Those who are waiting; none ends the rounds.
    fn next(&mut self) -> Vec<Waiting> {
        let mut packs = self.volume.inner.pack_reads.0.lock();
        let Some(waiting) = packs.get_mut(&self.pack) else { return Vec::new() };
        if waiting.is_empty() {
            packs.remove(&self.pack);
            self.is_over = true;
            return Vec::new();
        }
        let count = waiting.len().min(MOST);
        waiting.drain(..count).collect()
    }

    async fn run(mut self) {
        loop {
            for _ in 0..STEPS_BACK {
                tokio::task::yield_now().await;
            }
            let round = self.next();
            let Some(first) = round.first() else { return };
            let pack = first.packed.pack.clone();
            let loaded = {
                let BlockVersion { identity, key, placement, seal, .. } = &pack;
                let version = PackVersion { key, id: identity, seal: *seal, placement };
                let blocks: Vec<_> = round.iter().map(Waiting::block).collect();
                let store = &self.volume.inner.node.blocks;
                store.load_packed_together(version, &blocks, &self.volume).await
            };
            match loaded {
                Ok(LoadedTogether { blocks, bad }) => {
                    self.volume.repair_later(&pack.identity, &bad);
                    for (waiting, block) in round.into_iter().zip(blocks) {
                        let block = block.map(|block| block.plaintext);
                        // Whoever has gone does not mind.
                        let _ = waiting.done.send(block.map_err(|error| Arc::new(error) as cache::LoadError));
                    }
                }
                Err(error) => {
                    let error: cache::LoadError = Arc::new(error);
                    round.into_iter().for_each(|waiting| drop(waiting.done.send(Err(error.clone()))));
                }
            }
        }
    }
}

impl Waiting {
    fn block(&self) -> PackedBlock<'_> {
        PackedBlock { key: &self.version.key, id: &self.version.identity, place: &self.packed.place }
    }
}

impl Volume {
    /// Reads a block from its pack, together with others that are wanted now.
    pub(crate) async fn read_packed(
        &self,
        version: BlockVersion,
        packed: Arc<Packed>,
    ) -> Result<Bytes, cache::LoadError> {
        let BlockIdentity { object, block, .. } = packed.pack.identity;
        let pack = Origin { object, block, version: PACK_VERSION };
        let (done, loaded) = oneshot::channel();
        let waiting = Waiting { version, packed, done };
        let is_first = match self.inner.pack_reads.0.lock().entry(pack) {
            Entry::Occupied(mut read) => {
                read.get_mut().push(waiting);
                false
            }
            Entry::Vacant(vacant) => {
                vacant.insert(vec![waiting]);
                true
            }
        };
        if is_first {
            tokio::spawn(Rounds { volume: self.clone(), pack, is_over: false }.run());
        }
        loaded.await.unwrap_or_else(|_| Err(Arc::new(Interrupted)))
    }

    /// Queues what a read has found missing or bad. Beside the read: it may be part of an exclusive transaction, while which
    /// nobody else commits.
    pub(crate) fn repair_later(&self, identity: &BlockIdentity, bad: &[Fault]) {
        if bad.is_empty() {
            return;
        }
        let fragments: Vec<u8> = bad.iter().map(|fault| fault.fragment).collect();
        let (volume, identity) = (self.clone(), *identity);
        tokio::spawn(async move {
            let BlockIdentity { object, block, version, .. } = identity;
            if let Err(error) = volume.queue_repair(object, block, version, &fragments).await {
                // The data is good; the next read or scrub finds the fragments again.
                tracing::warn!(block = %identity, %error, "a repair could not be queued");
            }
        });
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the read of a pack was interrupted")]
struct Interrupted;
