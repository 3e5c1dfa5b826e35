use std::ops::Range;

use rangemap::RangeSet;

/// A set of bytes, as disjoint ranges that do not touch each other.
#[derive(Debug, Default)]
pub(crate) struct ByteRanges(RangeSet<u64>);

// The library panics at empty ranges.
impl ByteRanges {
    pub fn insert(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.0.insert(range);
        }
    }

    pub fn remove(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.0.remove(range);
        }
    }

    /// Ascending.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().cloned()
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
