use std::ops::Range;

use bytes::Bytes;

/// Extents of one block at most; who reads in smaller ones begins anew.
const MOST: usize = 64;

/// What an extent costs beside its bytes.
const EXTENT_BYTES: u64 = 64;

/// The parts of a block that are there.
#[derive(Clone, Debug, Default)]
pub(super) struct Extents {
    /// In order, none empty, none over another.
    list: Vec<Extent>,
}

#[derive(Clone, Debug)]
struct Extent {
    start: u64,
    data: Bytes,
    /// Bytes that it holds in memory.
    cost: u64,
}

impl Extent {
    fn end(&self) -> u64 {
        self.start + self.data.len() as u64
    }

    /// A part of it, that holds nothing else.
    fn part(&self, range: Range<u64>) -> Option<Extent> {
        (range.start < range.end).then(|| {
            let (from, to) = (range.start - self.start, range.end - self.start);
            let data = Bytes::copy_from_slice(&self.data[from as usize..to as usize]);
            Extent { start: range.start, cost: data.len() as u64, data }
        })
    }
}

impl Extents {
    /// The same with this, which holds so many bytes in memory.
    pub fn with(&self, start: u64, data: Bytes, cost: u64) -> Extents {
        let new = Extent { start, data, cost };
        let end = new.end();
        let mut list = Vec::with_capacity(self.list.len() + 2);
        for old in self.list.iter().take_while(|_| self.list.len() < MOST) {
            if old.end() <= start || old.start >= end {
                list.push(old.clone());
                continue;
            }
            list.extend(old.part(old.start..old.end().min(start)));
            list.extend(old.part(old.start.max(end)..old.end()));
        }
        let place = list.partition_point(|old| old.start < start);
        list.insert(place, new);
        Extents { list }
    }

    /// Adds the pieces that make up this range; whether all of it is there.
    pub fn collect(&self, range: Range<u64>, pieces: &mut Vec<Bytes>) -> bool {
        let mut at = range.start;
        let first = self.list.partition_point(|extent| extent.end() <= at);
        for extent in &self.list[first..] {
            if extent.start > at {
                break;
            }
            let until = extent.end().min(range.end);
            pieces.push(extent.data.slice((at - extent.start) as usize..(until - extent.start) as usize));
            at = until;
            if at == range.end {
                return true;
            }
        }
        at == range.end
    }

    /// Bytes that it holds in memory.
    pub fn cost(&self) -> u64 {
        self.list.iter().map(|extent| extent.cost + EXTENT_BYTES).sum()
    }
}
