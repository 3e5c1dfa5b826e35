//! The disk tier of the cache, and the cache's descriptors in the journal.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use cache::{BlockLoader, Cache, CacheConfig, DataOp, FileKey, LoadError, Sealing};
use ids::{BlockIndex, BlockShift, GatewayId, ObjectId, ObjectNumber, Version, VolumeId};
use journal::Lsn;
use seal::{NodeKey, SealId};

use crate::image_disk::{Image, ImageDisk, damage};
use crate::machine::{HandClock, block_on, environment};
use crate::tape::Tape;

const FILES: u128 = 6;
const SEALING: Sealing = Sealing { version: Version(1), seal: SealId(1) };
const BLOCK: BlockIndex = BlockIndex(0);

fn file(number: u128) -> FileKey {
    let object = ObjectId { creator: GatewayId(1), number: ObjectNumber(number) };
    FileKey { volume: VolumeId(1), object }
}

fn shift() -> BlockShift {
    BlockShift::new(16).unwrap()
}

fn content(file: FileKey) -> Bytes {
    let number = file.object.number.0;
    vec![number as u8 + 1; 700 * (number as usize + 1)].into()
}

/// The clouds hold what was cached.
struct Clouds;

#[async_trait]
impl BlockLoader for Clouds {
    async fn load(&self, file: FileKey, _: BlockIndex, _: Sealing) -> Result<Bytes, LoadError> {
        Ok(content(file))
    }
}

fn open(disk: &ImageDisk, process: u32) -> Result<Cache, cache::CacheError> {
    let config = CacheConfig { memory: 16 << 20, disk: 4 << 20, ..CacheConfig::new(PathBuf::from("/cache")) };
    let environment = environment(&HandClock::new(), Arc::new(disk.clone()), process);
    Cache::open(&config, &environment, NodeKey::from_bytes([7; 32]))
}

fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        block_on(async {
            let disk = ImageDisk::default();
            for (process, half) in [(1, 0..FILES / 2), (2, FILES / 2..FILES)] {
                let cache = open(&disk, process).unwrap();
                for number in half {
                    cache.insert(file(number), BLOCK, SEALING, content(file(number)));
                }
                cache.close().await;
            }
            disk.image()
        })
    })
}

/// What happens to the files of the disk tier. Whatever it is, reading gives the right bytes.
pub(crate) fn regions(data: &[u8]) {
    let mut tape = Tape::new(data);
    let mut image = image().clone();
    while damage(&mut image, &mut tape) {}
    let disk = ImageDisk::new(image);
    block_on(async {
        let Ok(cache) = open(&disk, 3) else { return };
        let clouds: Arc<dyn BlockLoader> = Arc::new(Clouds);
        for file in (0..FILES).map(file) {
            let read = cache.stored_block(file, shift(), BLOCK, SEALING, &clouds).await.unwrap();
            assert_eq!(read, content(file));
        }
        cache.close().await;
    });
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new()];
    for kind in 0..9 {
        seeds.push(vec![kind, 0, 1, 0, 3, 5, 7]);
        seeds.push(vec![kind, 1, 0, 1, 30, 4, kind, 1, 1, 9, 9, 1]);
    }
    // The numbers of the trailer: tag and magic behind offset and length.
    seeds.extend((0..32).map(|at| vec![1, 0, 0, at, 1]));
    seeds
}

/// A descriptor. What is accepted is encoded the same.
pub(crate) fn data_op(data: &[u8]) {
    if let Ok(op) = DataOp::decode(data) {
        assert_eq!(&op.encode()[..], data);
    }
}

pub(crate) fn data_op_seeds() -> Vec<Vec<u8>> {
    let (file, shift) = (file(9), shift());
    let ops = [
        DataOp::Write { file, shift, offset: 77 },
        DataOp::Zero { file, shift, offset: 77, length: 1000 },
        DataOp::truncate(file, 5),
        DataOp::Cleaned { file, shift, block: BlockIndex(4), up_to: Lsn(6) },
        DataOp::Forget { file },
    ];
    ops.iter().map(|op| op.encode().to_vec()).collect()
}
