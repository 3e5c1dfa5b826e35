use std::ops::Range;
use std::sync::Arc;

use ids::{BlockIndex, BlockShift};
use parking_lot::Mutex;
use quick_cache::sync::Cache;

use crate::FileKey;

/// Files whose readers are remembered.
const FILES: usize = 4096;
/// Concurrent sequential readers told apart in one file.
const STREAMS: usize = 4;
/// Clients send the requests of one sequential reader in parallel, so they arrive this much out of order.
const DISORDER: u64 = 4 << 20;
/// The first window, in blocks.
const FIRST_BLOCKS: u64 = 2;
/// Most blocks asked for at once.
const MOST_BLOCKS: u64 = 64;

/// Detects sequential readers and says which blocks they will want next. The window doubles with every
/// request that goes on where the last ones ended, up to the limit, and starts anew elsewhere.
pub(crate) struct Readahead {
    files: Cache<FileKey, Arc<Mutex<Vec<Stream>>>>,
    limit: u64,
}

struct Stream {
    /// Where the reader will go on.
    next: u64,
    window: u64,
    /// Up to where blocks have been asked for.
    asked: u64,
}

impl Readahead {
    pub fn new(limit: u64) -> Readahead {
        Readahead { files: Cache::new(FILES), limit }
    }

    /// Takes note of a read and returns the blocks to load ahead; `room` tells for how many bytes there is room.
    pub fn observe(
        &self,
        file: FileKey,
        shift: BlockShift,
        size: u64,
        read: &Range<u64>,
        room: impl FnOnce(u64) -> u64,
    ) -> Range<BlockIndex> {
        let nothing = BlockIndex(0)..BlockIndex(0);
        // A file that ends with this read has nothing ahead; most small files need no entry at all.
        if self.limit == 0 || size <= shift.bytes() || read.is_empty() {
            return nothing;
        }
        let streams = self.files.get_or_insert_with(&file, || Ok::<_, ()>(Arc::default()));
        let Ok(streams) = streams else { return nothing };
        let mut streams = streams.lock();
        let near = |stream: &Stream| {
            read.start <= stream.next.saturating_add(DISORDER)
                && read.start.saturating_add(DISORDER) >= stream.next
        };
        let stream = match streams.iter().position(near) {
            // The reader most recently seen is the first.
            Some(at) => {
                streams[..=at].rotate_right(1);
                let stream = &mut streams[0];
                if read.end > stream.next {
                    stream.next = read.end;
                    let first = FIRST_BLOCKS * shift.bytes();
                    stream.window = (2 * stream.window).max(first).min(self.limit.max(shift.bytes()));
                }
                stream
            }
            None => {
                streams.truncate(STREAMS - 1);
                // Whoever starts at the beginning will probably go on.
                let window = if read.start == 0 { shift.bytes() } else { 0 };
                streams.insert(0, Stream { next: read.end, window, asked: 0 });
                &mut streams[0]
            }
        };
        let goal = stream.next.saturating_add(stream.window).min(size);
        let from = stream.asked.max(stream.next);
        // Not for a few bytes, unless they are the last ones.
        if stream.window == 0 || from >= goal || (goal < size && goal - from < stream.window / 4) {
            return nothing;
        }
        let first = shift.blocks_in(from);
        let end = shift.blocks_in(goal).min(first + MOST_BLOCKS);
        // What there is no room for is asked for with a later read.
        let end = end.min(first + room((end - first) * shift.bytes()) / shift.bytes());
        if end <= first {
            return nothing;
        }
        stream.asked = shift.start_of(BlockIndex(end));
        BlockIndex(first)..BlockIndex(end)
    }
}

#[cfg(test)]
mod tests {
    use ids::{GatewayId, ObjectId, ObjectNumber, VolumeId};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn file() -> FileKey {
        FileKey { volume: VolumeId(1), object: ObjectId { creator: GatewayId(1), number: ObjectNumber(1) } }
    }

    fn observe(readahead: &Readahead, range: Range<u64>) -> Vec<u64> {
        let blocks = readahead.observe(file(), BlockShift::DEFAULT, 1 << 30, &range, |_| 1 << 40);
        (blocks.start.0..blocks.end.0).collect()
    }

    #[test]
    fn a_sequential_reader_gets_every_block_once_in_growing_windows() {
        let readahead = Readahead::new(16 * MIB);
        let (mut asked, mut largest) = (Vec::new(), 0);
        for step in 0..64 {
            let blocks = observe(&readahead, step * MIB..(step + 1) * MIB);
            largest = largest.max(blocks.len());
            asked.extend(blocks);
        }
        assert!(asked.windows(2).all(|pair| pair[1] == pair[0] + 1), "{asked:?}");
        assert_eq!(asked.first(), Some(&1));
        assert!(asked.last() >= Some(&(64 + 11)) && asked.last() <= Some(&(64 + 16)), "{asked:?}");
        assert!(largest >= 4);
    }

    #[test]
    fn a_random_reader_gets_nothing() {
        let readahead = Readahead::new(16 * MIB);
        for step in 1..200_u64 {
            let at = (step * 7_919 % 1000) * MIB;
            if at > 0 {
                // Every other position is new, and none follows on a former one by less than the disorder.
                let blocks = observe(&readahead, at..at + 4096);
                assert!(blocks.len() <= 2, "{step} {blocks:?}");
            }
        }
    }

    #[test]
    fn requests_of_one_reader_may_arrive_out_of_order() {
        let readahead = Readahead::new(16 * MIB);
        let mut asked = Vec::new();
        for pair in 0..8 {
            for step in [2 * pair + 1, 2 * pair] {
                asked.extend(observe(&readahead, step * MIB..(step + 1) * MIB));
            }
        }
        assert!(asked.len() >= 16, "{asked:?}");
    }

    #[test]
    fn two_readers_of_one_file_are_told_apart() {
        let readahead = Readahead::new(8 * MIB);
        let mut asked = Vec::new();
        for step in 0..8 {
            asked.extend(observe(&readahead, step * MIB..(step + 1) * MIB));
            asked.extend(observe(&readahead, (500 + step) * MIB..(501 + step) * MIB));
        }
        assert!(asked.contains(&10) && asked.contains(&510), "{asked:?}");
    }

    #[test]
    fn nothing_is_asked_for_beyond_the_end() {
        let readahead = Readahead::new(16 * MIB);
        let size = 3 * MIB + 5;
        let mut last = 0;
        for step in 0..3 {
            let read = step * MIB..(step + 1) * MIB;
            let blocks = readahead.observe(file(), BlockShift::DEFAULT, size, &read, |_| 1 << 40);
            last = last.max(blocks.end.0);
        }
        assert_eq!(last, 4);
    }

    #[test]
    fn what_there_is_no_room_for_is_asked_for_later() {
        let readahead = Readahead::new(16 * MIB);
        let mut asked = Vec::new();
        for step in 0..64 {
            let room = if step % 3 == 0 { 5 * MIB } else { MIB / 2 };
            let read = step * MIB..(step + 1) * MIB;
            let blocks = readahead.observe(file(), BlockShift::DEFAULT, 1 << 30, &read, |_| room);
            asked.extend(blocks.start.0..blocks.end.0);
        }
        // None twice; the first were read before there was room.
        assert!(asked.windows(2).all(|pair| pair[1] > pair[0]), "{asked:?}");
        assert!(asked.len() > 60);
    }
}
