use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

/// What a transaction has done to the content of one file and not yet committed: laid over what others see.
#[derive(Default)]
pub(crate) struct Unsaved {
    /// By first byte: the byte behind the last, and the data; without data the range reads as zeros.
    extents: BTreeMap<u64, (u64, Option<Bytes>)>,
}

impl Unsaved {
    pub fn write(&mut self, offset: u64, data: Bytes) {
        let end = offset + data.len() as u64;
        self.clear(offset, end);
        self.extents.insert(offset, (end, Some(data)));
    }

    /// `range` reads as zeros.
    pub fn blank(&mut self, range: Range<u64>) {
        self.clear(range.start, range.end);
        self.extents.insert(range.start, (range.end, None));
    }

    /// The parts of `range`, which is not empty, that were changed, ascending, and whether they are data.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, bool)> {
        let first = self.at(range.start).map_or(range.start, |(first, ..)| first);
        self.extents
            .range(first..range.end)
            .map(move |(&start, (end, data))| (start.max(range.start)..(*end).min(range.end), data.is_some()))
    }

    /// Everything from `size` on reads as zeros.
    pub fn cut(&mut self, size: u64) {
        self.clear(size, u64::MAX);
        self.extents.insert(size, (u64::MAX, None));
    }

    /// Whether nothing of `start..end` shows through.
    pub fn covers(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        while at < end {
            match self.at(at) {
                Some((_, end, _)) => at = end,
                None => return false,
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
                Some((first, stop, data)) => {
                    let stop = stop.min(end);
                    match data {
                        Some(data) => out.push(data.slice((at - first) as usize..(stop - first) as usize)),
                        None => cache::zeros(stop - at, &mut out),
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
    fn at(&self, at: u64) -> Option<(u64, u64, &Option<Bytes>)> {
        let (&start, (end, data)) = self.extents.range(..=at).next_back()?;
        (*end > at).then_some((start, *end, data))
    }

    fn clear(&mut self, start: u64, end: u64) {
        if let Some((&first, (stop, data))) = self.extents.range(..start).next_back()
            && *stop > start
        {
            let (stop, data) = (*stop, data.clone());
            let cut = |from: u64, to: u64| {
                data.as_ref().map(|d| d.slice((from - first) as usize..(to - first) as usize))
            };
            self.extents.insert(first, (start, cut(first, start)));
            if stop > end {
                self.extents.insert(end, (stop, cut(end, stop)));
            }
        }
        let inside: Vec<u64> = self.extents.range(start..end).map(|(&first, _)| first).collect();
        for first in inside {
            if let Some((stop, data)) = self.extents.remove(&first)
                && stop > end
            {
                let rest = data.map(|data| data.slice((end - first) as usize..));
                self.extents.insert(end, (stop, rest));
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
            ops in prop::collection::vec((0..3, 0_u64..50, 1_usize..20), 0..20),
            (start, length) in (0_u64..60, 0_u64..40),
            part in 1_usize..30,
        ) {
            let base: Vec<u8> = (0..100).map(|n| 100 + n).collect();
            let (mut model, mut unsaved) = (base.clone(), Unsaved::default());
            for (n, (kind, offset, length)) in ops.into_iter().enumerate() {
                if kind == 0 {
                    model[offset as usize..].fill(0);
                    unsaved.cut(offset);
                } else if kind == 1 {
                    model[offset as usize..offset as usize + length].fill(0);
                    unsaved.blank(offset..offset + length as u64);
                } else {
                    let data = vec![n as u8 + 1; length];
                    model[offset as usize..offset as usize + length].copy_from_slice(&data);
                    unsaved.write(offset, data.into());
                }
            }
            let end = start + length;
            let range = start as usize..end as usize;
            let parts = base[range.clone()].chunks(part).map(Bytes::copy_from_slice).collect();
            prop_assert_eq!(unsaved.over(start, end, parts).concat(), model[range.clone()].to_vec());
            for (part, is_data) in unsaved.pieces(start..end.max(start + 1)) {
                prop_assert!(start <= part.start && part.start < part.end && part.end <= end.max(start + 1));
                let bytes = &model[part.start as usize..part.end as usize];
                prop_assert!(bytes.iter().all(|&byte| (1..100).contains(&byte) == is_data), "{part:?}");
            }
            if unsaved.covers(start, end) {
                prop_assert_eq!(unsaved.over(start, end, Vec::new()).concat(), model[range].to_vec());
            }
        }
    }
}
