use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use journal::Lsn;

use crate::overlay::{Overlay, Piece};
use crate::payload::Payload;

/// Which bytes of a file are dirty, and where they lie: disjoint extents, newer ones replace older ones.
#[derive(Default)]
pub(crate) struct ExtentMap {
    /// By first byte.
    extents: BTreeMap<u64, Extent>,
}

struct Extent {
    end: u64,
    payload: Arc<Payload>,
    /// Position in the payload of the extent's first byte.
    from: u64,
}

impl ExtentMap {
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Makes `range` the content of `payload`; `removed` hears of what was dirty there before.
    pub fn put(
        &mut self,
        range: Range<u64>,
        payload: Arc<Payload>,
        removed: impl FnMut(Range<u64>, &Payload),
    ) {
        self.remove(range.clone(), Lsn(u64::MAX), removed);
        self.extents.insert(range.start, Extent { end: range.end, payload, from: 0 });
    }

    /// Forgets the parts of `range` that came from records up to `up_to`.
    pub fn remove(&mut self, range: Range<u64>, up_to: Lsn, mut removed: impl FnMut(Range<u64>, &Payload)) {
        if range.is_empty() {
            return;
        }
        let mut at = self.first_start(&range);
        while at < range.end
            && let Some((start, extent)) = self.extents.range_mut(at..range.end).next()
        {
            let start = *start;
            let end = extent.end;
            at = end;
            if extent.payload.lsn() > up_to || end <= range.start {
                continue;
            }
            removed(start.max(range.start)..end.min(range.end), &extent.payload);
            let tail = (end > range.end).then(|| Extent {
                end,
                payload: Arc::clone(&extent.payload),
                from: extent.from + (range.end - start),
            });
            if start < range.start {
                extent.end = range.start;
            } else {
                self.extents.remove(&start);
            }
            if let Some(tail) = tail {
                self.extents.insert(range.end, tail);
                break;
            }
        }
    }

    /// All extents, ascending.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.extents.iter().map(|(start, extent)| Piece {
            range: *start..extent.end,
            payload: Arc::clone(&extent.payload),
            from: extent.from,
        })
    }

    /// The dirty parts of `range`.
    pub fn overlay(&self, range: Range<u64>) -> Overlay {
        let mut pieces = Overlay::default();
        if range.is_empty() {
            return pieces;
        }
        for (start, extent) in self.extents.range(self.first_start(&range)..range.end) {
            let (from, to) = ((*start).max(range.start), extent.end.min(range.end));
            if from < to {
                pieces.push(Piece {
                    range: from..to,
                    payload: Arc::clone(&extent.payload),
                    from: extent.from + (from - start),
                });
            }
        }
        pieces
    }

    /// The oldest record that the dirty parts of `range` come from.
    pub fn oldest_in(&self, range: Range<u64>) -> Option<Lsn> {
        let extents = self.extents.range(self.first_start(&range)..range.end);
        extents.filter(|(_, extent)| extent.end > range.start).map(|(_, extent)| extent.payload.lsn()).min()
    }

    /// Where the first extent that may reach into `range` starts.
    fn first_start(&self, range: &Range<u64>) -> u64 {
        match self.extents.range(..=range.start).next_back() {
            Some((start, extent)) if extent.end > range.start => *start,
            _ => range.start,
        }
    }
}
