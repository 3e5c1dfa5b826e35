use std::collections::BTreeMap;
use std::ops::Range;

/// A set of bytes, as disjoint ranges that do not touch each other.
#[derive(Debug, Default)]
pub(crate) struct ByteRanges {
    /// By first byte: the byte behind the last.
    ranges: BTreeMap<u64, u64>,
}

impl ByteRanges {
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        if let Some((&first, &stop)) = self.ranges.range(..start).next_back()
            && stop >= start
        {
            start = first;
            end = end.max(stop);
        }
        while let Some((&first, &stop)) = self.ranges.range(start..=end).next() {
            end = end.max(stop);
            self.ranges.remove(&first);
        }
        self.ranges.insert(start, end);
    }

    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        if let Some((&first, &stop)) = self.ranges.range(..range.start).next_back()
            && stop > range.start
        {
            self.ranges.insert(first, range.start);
            if stop > range.end {
                self.ranges.insert(range.end, stop);
            }
        }
        while let Some((&first, &stop)) = self.ranges.range(range.clone()).next() {
            self.ranges.remove(&first);
            if stop > range.end {
                self.ranges.insert(range.end, stop);
            }
        }
    }

    /// Ascending.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set_of_bytes(
            ops in prop::collection::vec((any::<bool>(), 0_u64..60, 0_u64..20), 0..30),
        ) {
            let (mut model, mut ranges) = ([false; 100], ByteRanges::default());
            for (insert, start, length) in ops {
                model[start as usize..(start + length) as usize].fill(insert);
                match insert {
                    true => ranges.insert(start..start + length),
                    false => ranges.remove(start..start + length),
                }
                let mut found = [false; 100];
                let mut before = None;
                for range in ranges.iter() {
                    prop_assert!(!range.is_empty() && before.is_none_or(|before| before < range.start));
                    found[range.start as usize..range.end as usize].fill(true);
                    before = Some(range.end);
                }
                prop_assert_eq!(found, model);
            }
        }
    }
}
