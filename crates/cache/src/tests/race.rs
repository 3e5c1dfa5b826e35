use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use ids::BlockIndex;
use parking_lot::RwLock;

use super::world::{BLOCK, SHIFT, World, file, sealing, stored};
use crate::{DataOp, ReadRequest, Selection};

const BLOCKS: u64 = 4;
const SLOTS: u64 = 16;
const SIZE: u64 = BLOCKS * BLOCK;
/// At least so many writes and write-backs.
const WRITES: u64 = 6000;
const STORED: u64 = 50;

/// A file of counters that only grow, one writer, one write-back, and readers beside them.
struct Counters {
    world: World,
    /// The block map. The store publishes under a lock that its readers take; this is that lock.
    map: RwLock<Vec<u64>>,
    /// What has certainly been published.
    published: Vec<AtomicU64>,
    stored: AtomicU64,
    stop: AtomicBool,
}

impl Counters {
    fn place(slot: u64) -> u64 {
        slot * (SIZE / SLOTS) + 40
    }

    async fn write(&self) {
        let mut count = 0;
        while count < WRITES || self.stored.load(Ordering::Relaxed) < STORED {
            count += 1;
            let slot = (count * 7) % SLOTS;
            {
                let _map = self.map.write();
                self.world.write(file(1), Self::place(slot), &count.to_be_bytes());
            }
            self.published[slot as usize].store(count, Ordering::Release);
            tokio::task::yield_now().await;
        }
        self.stop.store(true, Ordering::Release);
    }

    async fn write_back(&self) {
        while !self.stop.load(Ordering::Acquire) {
            let selection = Selection { bytes: u64::MAX, blocks: 2, hurry: true };
            for dirty in self.world.cache.claim_dirty(file(1).volume, &selection) {
                let Some(snapshot) = self.world.cache.snapshot(&dirty) else { continue };
                let version = self.map.read()[dirty.block.0 as usize];
                let base = match version {
                    0 => Bytes::new(),
                    version => {
                        let (cache, loader) = (&self.world.cache, self.world.loader());
                        cache
                            .stored_block(file(1), SHIFT, dirty.block, sealing(version), &loader)
                            .await
                            .unwrap()
                    }
                };
                let content: Bytes = snapshot.assemble(BLOCK, Some(&base)).await.unwrap().concat().into();
                tokio::task::yield_now().await;
                self.world.store(file(1), dirty.block.0, version + 1, content.clone());
                let staged = self.world.cache.stage(file(1), dirty.block, sealing(version + 1), content);
                {
                    let mut map = self.map.write();
                    let (block, up_to) = (dirty.block, snapshot.up_to());
                    self.world.commit(DataOp::Cleaned { file: file(1), shift: SHIFT, block, up_to }, b"");
                    map[dirty.block.0 as usize] = version + 1;
                }
                staged.keep().await;
                if self.stored.fetch_add(1, Ordering::Relaxed) % 8 == 7 {
                    self.world.cache.drop_memory();
                }
            }
            tokio::task::yield_now().await;
        }
    }

    async fn read(&self, seed: u64) {
        let mut slot = seed;
        while !self.stop.load(Ordering::Acquire) {
            slot = (slot * 5 + 1) % SLOTS;
            let least = self.published[slot as usize].load(Ordering::Acquire);
            let (offset, length) = (Self::place(slot), 8);
            let request =
                ReadRequest { file: file(1), shift: SHIFT, size: SIZE, offset, length, readahead: false };
            let plan = self.world.cache.plan_read(&request);
            let versions: Vec<_> = {
                let map = self.map.read();
                plan.blocks().iter().map(|block: &BlockIndex| stored(&map, block.0)).collect()
            };
            let parts = self.world.cache.read(plan, &versions, &self.world.loader()).await.unwrap();
            let count = u64::from_be_bytes(parts.concat().try_into().unwrap());
            assert!(count >= least, "slot {slot} went back from {least} to {count}");
            assert!(count == 0 || (count * 7) % SLOTS == slot, "slot {slot} shows {count} of another");
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_read_goes_back_behind_what_was_published_before_it_began() {
    let counters = Arc::new(Counters {
        world: World::new(2 << 20, 8 << 20),
        map: RwLock::new(vec![0; BLOCKS as usize]),
        published: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        stored: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    let spawn = |seed| {
        let counters = Arc::clone(&counters);
        tokio::spawn(async move { counters.read(seed).await })
    };
    let readers = [spawn(1), spawn(6), spawn(11)];
    let (writer, back) = (Arc::clone(&counters), Arc::clone(&counters));
    let writer = tokio::spawn(async move { writer.write().await });
    let back = tokio::spawn(async move { back.write_back().await });
    writer.await.unwrap();
    back.await.unwrap();
    for reader in readers {
        reader.await.unwrap();
    }
}
