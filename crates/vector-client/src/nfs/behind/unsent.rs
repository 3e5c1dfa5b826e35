use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

/// Writes that follow each other are put together up to this many bytes; longer ones stay as they are.
const TOGETHER: usize = 256 << 10;

/// Bytes of a file, none twice.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    pieces: BTreeMap<u64, Bytes>,
    /// The last writes, as long as each goes on where the one before ended.
    start: u64,
    last: BytesMut,
}

impl Unsent {
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.last.is_empty()
    }

    /// Over what is there.
    pub fn write(&mut self, offset: u64, data: Bytes) {
        let goes_on = offset == self.start + self.last.len() as u64 && !self.last.is_empty();
        if data.len() >= TOGETHER {
            self.settle();
            self.insert(offset, data);
            return;
        }
        if !goes_on || self.last.len() + data.len() > TOGETHER {
            self.settle();
            self.start = offset;
        }
        self.last.extend_from_slice(&data);
    }

    /// All of it, in order.
    pub fn take(&mut self) -> Vec<(u64, Bytes)> {
        self.settle();
        std::mem::take(&mut self.pieces).into_iter().collect()
    }

    /// Under what has come since.
    pub fn put_back(&mut self, former: Vec<(u64, Bytes)>) {
        let newer = self.take();
        for (offset, data) in former.into_iter().chain(newer) {
            self.insert(offset, data);
        }
    }

    fn settle(&mut self) {
        if !self.last.is_empty() {
            let data = self.last.split().freeze();
            self.insert(self.start, data);
        }
    }

    fn insert(&mut self, offset: u64, data: Bytes) {
        let end = offset + data.len() as u64;
        // The one that begins before, and those that begin within.
        let before = self.pieces.range(..offset).next_back().map(|(start, _)| *start);
        let within = self.pieces.range(offset..end).map(|(start, _)| *start);
        for start in before.into_iter().chain(within).collect::<Vec<_>>() {
            let Some(old) = self.pieces.remove(&start) else { continue };
            let old_end = start + old.len() as u64;
            if start < offset {
                let keep = old.len().min((offset - start) as usize);
                self.pieces.insert(start, old.slice(..keep));
            }
            if old_end > end {
                self.pieces.insert(end, old.slice((end - start) as usize..));
            }
        }
        self.pieces.insert(offset, data);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Held against an array of bytes, of which some are sent, and of those some come back.
        #[test]
        fn what_was_written_last_is_what_is_sent(
            steps in vec((0u64..60, vec(any::<u8>(), 1..20), 0u8..6), 1..60)
        ) {
            let (mut unsent, mut sent) = (Unsent::default(), Vec::new());
            let (mut model, mut file) = (vec![None; 100], vec![None; 100]);
            let arrive = |file: &mut Vec<Option<u8>>, pieces: &[(u64, Bytes)]| {
                for (offset, data) in pieces {
                    for (at, byte) in data.iter().enumerate() {
                        file[*offset as usize + at] = Some(*byte);
                    }
                }
            };
            for (offset, data, act) in steps {
                match act {
                    4 if sent.is_empty() => sent = unsent.take(),
                    4 => arrive(&mut file, &std::mem::take(&mut sent)),
                    5 => unsent.put_back(std::mem::take(&mut sent)),
                    _ => {
                        for (at, byte) in data.iter().enumerate() {
                            model[offset as usize + at] = Some(*byte);
                        }
                        unsent.write(offset, data.into());
                    }
                }
            }
            arrive(&mut file, &sent);
            let rest = unsent.take();
            prop_assert!(rest.windows(2).all(|two| two[0].0 + two[0].1.len() as u64 <= two[1].0));
            arrive(&mut file, &rest);
            prop_assert_eq!(file, model);
            prop_assert!(unsent.is_empty());
        }
    }
}
