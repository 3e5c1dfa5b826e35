use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use ids::ObjectId;

/// What a transaction has done to the content of one file and not yet committed: laid over what others see.
#[derive(Default)]
pub(crate) struct Unsaved {
    /// By first byte: the byte behind the last, and what the range reads as.
    extents: BTreeMap<u64, (u64, Content)>,
}

#[derive(Clone, Debug)]
enum Content {
    Data(Bytes),
    Zeros,
    /// What others see of this object from this offset on.
    Taken(ObjectId, u64),
}

impl Content {
    fn slice(&self, from: u64, to: u64) -> Content {
        match self {
            Content::Data(data) => Content::Data(data.slice(from as usize..to as usize)),
            Content::Zeros => Content::Zeros,
            Content::Taken(object, offset) => Content::Taken(*object, offset + from),
        }
    }
}

/// A range whose content was taken over from `offset` on of `object`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub range: Range<u64>,
    pub object: ObjectId,
    pub offset: u64,
}

impl Unsaved {
    pub fn write(&mut self, offset: u64, data: Bytes) {
        let end = offset + data.len() as u64;
        self.clear(offset, end);
        self.extents.insert(offset, (end, Content::Data(data)));
    }

    /// `range` reads as zeros.
    pub fn blank(&mut self, range: Range<u64>) {
        self.clear(range.start, range.end);
        self.extents.insert(range.start, (range.end, Content::Zeros));
    }

    /// `range` reads as what others see of `object` from `offset` on.
    pub fn take(&mut self, Taken { range, object, offset }: Taken) {
        self.clear(range.start, range.end);
        self.extents.insert(range.start, (range.end, Content::Taken(object, offset)));
    }

    /// The parts of `range`, which is not empty, that were taken over: they show through in [`Unsaved::over`].
    pub fn taken(&self, range: Range<u64>) -> Vec<Taken> {
        let first = self.at(range.start).map_or(range.start, |(first, ..)| first);
        let parts = self.extents.range(first..range.end).filter_map(|(&start, (end, content))| {
            let Content::Taken(object, offset) = *content else { return None };
            let from = start.max(range.start);
            Some(Taken { range: from..(*end).min(range.end), object, offset: offset + (from - start) })
        });
        parts.collect()
    }

    /// The parts of `range`, which is not empty, that were changed, ascending, and whether they may be data.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, bool)> {
        let first = self.at(range.start).map_or(range.start, |(first, ..)| first);
        self.extents.range(first..range.end).map(move |(&start, (end, content))| {
            let is_data = !matches!(content, Content::Zeros);
            (start.max(range.start)..(*end).min(range.end), is_data)
        })
    }

    /// Everything from `size` on reads as zeros.
    pub fn cut(&mut self, size: u64) {
        self.clear(size, u64::MAX);
        self.extents.insert(size, (u64::MAX, Content::Zeros));
    }

    /// Whether nothing of `start..end` shows through.
    pub fn covers(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        while at < end {
            match self.at(at) {
                Some((_, end, Content::Data(_) | Content::Zeros)) => at = end,
                Some((.., Content::Taken(..))) | None => return false,
            }
        }
        true
    }

    /// `start..end`, with `base` (the same range, or nothing where [`Unsaved::covers`]) where nothing is unsaved.
    pub fn over(&self, start: u64, end: u64, base: Vec<Bytes>) -> Vec<Bytes> {
        if self.extents.is_empty() {
            return base;
        }
        let mut base = Base { parts: base.into(), at: start };
        let mut out = Vec::new();
        let mut at = start;
        while at < end {
            let stop = match self.at(at) {
                Some((first, stop, content)) => {
                    let stop = stop.min(end);
                    match content {
                        Content::Data(data) => {
                            out.push(data.slice((at - first) as usize..(stop - first) as usize));
                        }
                        Content::Zeros => cache::zeros(stop - at, &mut out),
                        Content::Taken(..) => base.give(at, stop, &mut out),
                    }
                    stop
                }
                None => {
                    let stop = self.extents.range(at..).next().map_or(end, |(&next, _)| next.min(end));
                    base.give(at, stop, &mut out);
                    stop
                }
            };
            at = stop;
        }
        out
    }

    /// The extent that holds the byte at `at`.
    fn at(&self, at: u64) -> Option<(u64, u64, &Content)> {
        let (&start, (end, content)) = self.extents.range(..=at).next_back()?;
        (*end > at).then_some((start, *end, content))
    }

    fn clear(&mut self, start: u64, end: u64) {
        if let Some((&first, (stop, content))) = self.extents.range(..start).next_back()
            && *stop > start
        {
            let (stop, content) = (*stop, content.clone());
            self.extents.insert(first, (start, content.slice(0, start - first)));
            if stop > end {
                self.extents.insert(end, (stop, content.slice(end - first, stop - first)));
            }
        }
        let inside: Vec<u64> = self.extents.range(start..end).map(|(&first, _)| first).collect();
        for first in inside {
            if let Some((stop, content)) = self.extents.remove(&first)
                && stop > end
            {
                self.extents.insert(end, (stop, content.slice(end - first, stop - first)));
            }
        }
    }
}

/// Parts of a range, of which some are given and others skipped.
struct Base {
    parts: std::collections::VecDeque<Bytes>,
    at: u64,
}

impl Base {
    fn give(&mut self, start: u64, end: u64, out: &mut Vec<Bytes>) {
        while let Some(part) = self.parts.front_mut() {
            let stop = self.at + part.len() as u64;
            if stop <= start {
                self.at = stop;
                self.parts.pop_front();
                continue;
            }
            if self.at >= end {
                return;
            }
            let from = start.max(self.at) - self.at;
            let to = end.min(stop) - self.at;
            out.push(part.slice(from as usize..to as usize));
            if stop > end {
                return;
            }
            self.at = stop;
            self.parts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_reads_like_an_array(
            ops in prop::collection::vec((0..4, 0_u64..50, 1_usize..20), 0..20),
            (start, length) in (0_u64..60, 0_u64..40),
            part in 1_usize..30,
        ) {
            let other = ObjectId { creator: ids::GatewayId(1), number: ids::ObjectNumber(2) };
            let base: Vec<u8> = (0..100).map(|n| 100 + n).collect();
            let (mut model, mut unsaved) = (base.clone(), Unsaved::default());
            for (n, (kind, offset, length)) in ops.into_iter().enumerate() {
                if kind == 0 {
                    model[offset as usize..].fill(0);
                    unsaved.cut(offset);
                } else if kind == 1 {
                    model[offset as usize..offset as usize + length].fill(0);
                    unsaved.blank(offset..offset + length as u64);
                } else if kind == 3 {
                    // Byte `n` of the other object is 200 + n.
                    let bytes: Vec<u8> = (0..length).map(|at| 200 + n as u8 + at as u8).collect();
                    model[offset as usize..offset as usize + length].copy_from_slice(&bytes);
                    let range = offset..offset + length as u64;
                    unsaved.take(Taken { range, object: other, offset: n as u64 });
                } else {
                    let data = vec![n as u8 + 1; length];
                    model[offset as usize..offset as usize + length].copy_from_slice(&data);
                    unsaved.write(offset, data.into());
                }
            }
            let end = start + length;
            let range = start as usize..end as usize;
            let mut base = base;
            for taken in unsaved.taken(start..end.max(start + 1)) {
                prop_assert_eq!(taken.object, other);
                for (at, place) in taken.range.enumerate() {
                    base[place as usize] = 200 + (taken.offset as usize + at) as u8;
                }
            }
            let parts = base[range.clone()].chunks(part).map(Bytes::copy_from_slice).collect();
            prop_assert_eq!(unsaved.over(start, end, parts).concat(), model[range.clone()].to_vec());
            for (part, is_data) in unsaved.pieces(start..end.max(start + 1)) {
                prop_assert!(start <= part.start && part.start < part.end && part.end <= end.max(start + 1));
                let bytes = &model[part.start as usize..part.end as usize];
                let is_new = |byte: u8| (1..100).contains(&byte) || byte >= 200;
                prop_assert!(bytes.iter().all(|&byte| is_new(byte) == is_data), "{part:?}");
            }
            if unsaved.covers(start, end) {
                prop_assert_eq!(unsaved.over(start, end, Vec::new()).concat(), model[range].to_vec());
            }
        }
    }
}
