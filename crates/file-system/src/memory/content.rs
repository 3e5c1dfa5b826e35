use std::ops::Range;

use bytes::Bytes;
use rpds::RedBlackTreeMapSync;

use crate::{Extent, Extents};

/// Bytes of a page.
pub(super) const PAGE: u64 = 64 << 10;

/// Content of a regular file: pages that share memory between versions of the file. Missing pages, and what a
/// page is short of [`PAGE`] bytes, are holes.
#[derive(Clone, Default)]
pub(super) struct Content {
    pages: RedBlackTreeMapSync<u64, Bytes>,
    /// Bytes in pages.
    pub stored: u64,
}

impl Content {
    /// The bytes from `start` up to `end`, holes as zeros.
    pub fn read(&self, start: u64, end: u64) -> Vec<Bytes> {
        let mut segments = Vec::new();
        let mut at = start;
        while at < end {
            let (page, inside) = (at / PAGE, at % PAGE);
            let stop = end.min((page + 1) * PAGE) - page * PAGE;
            let stored = self.pages.get(&page).cloned().unwrap_or_default();
            let known = stop.min(stored.len() as u64);
            if inside < known {
                segments.push(stored.slice(inside as usize..known as usize));
            }
            let zeros = stop - inside.max(known).min(stop);
            if zeros > 0 {
                segments.push(Bytes::from(vec![0; zeros as usize]));
            }
            at = page * PAGE + stop;
        }
        segments
    }

    /// Puts `data` at `offset`.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (page, inside) = (at / PAGE, (at % PAGE) as usize);
            let part = &data[done..data.len().min(done + PAGE as usize - inside)];
            let mut bytes = self.pages.get(&page).map(|b| b.to_vec()).unwrap_or_default();
            if bytes.len() < inside + part.len() {
                bytes.resize(inside + part.len(), 0);
            }
            bytes[inside..inside + part.len()].copy_from_slice(part);
            self.put(page, bytes.into());
            done += part.len();
        }
    }

    /// Forgets everything from `size` on.
    pub fn cut(&mut self, size: u64) {
        let (page, inside) = (size / PAGE, (size % PAGE) as usize);
        let behind: Vec<u64> = self.pages.range(page..).map(|(&index, _)| index).collect();
        for index in behind {
            let keep = if index == page { inside } else { 0 };
            let bytes = self.pages.get(&index).cloned().unwrap_or_default();
            self.put(index, bytes.slice(..keep.min(bytes.len())));
        }
    }

    /// Makes zeros of `range`, and holes of the pages in it.
    pub fn punch(&mut self, range: Range<u64>) {
        let pages = self.pages.range(range.start / PAGE..range.end.div_ceil(PAGE));
        let touched: Vec<(u64, Bytes)> = pages.map(|(&page, bytes)| (page, bytes.clone())).collect();
        for (page, bytes) in touched {
            let inside = |at: u64| (at.saturating_sub(page * PAGE) as usize).min(bytes.len());
            let (start, end) = (inside(range.start), inside(range.end));
            if end == bytes.len() {
                self.put(page, bytes.slice(..start));
            } else {
                let mut rest = bytes.to_vec();
                rest[start..end].fill(0);
                self.put(page, rest.into());
            }
        }
    }

    /// The pages that `length` bytes from `from` on are in, at the place of those from `to` on; all begin with a page.
    pub fn take(&mut self, source: &Content, from: u64, to: u64, length: u64) {
        let (from, to, count) = (from / PAGE, to / PAGE, length.div_ceil(PAGE));
        let old: Vec<u64> = self.pages.range(to..to + count).map(|(&page, _)| page).collect();
        old.into_iter().for_each(|page| self.put(page, Bytes::new()));
        for (page, bytes) in source.pages.range(from..from + count) {
            self.put(page - from + to, bytes.clone());
        }
    }

    /// Data and holes of `range`.
    pub fn extents(&self, range: Range<u64>, limit: usize) -> Vec<Extent> {
        let mut extents = Extents::new(range.start, limit);
        for (page, bytes) in self.pages.range(range.start / PAGE..range.end.div_ceil(PAGE)) {
            let (start, end) = (page * PAGE, page * PAGE + bytes.len() as u64);
            if start.max(range.start) < end && !extents.push_data(start..end.min(range.end)) {
                return extents.finish();
            }
        }
        extents.push(range.end, true);
        extents.finish()
    }

    fn put(&mut self, page: u64, bytes: Bytes) {
        self.stored += bytes.len() as u64;
        self.stored -= self.pages.get(&page).map_or(0, |old| old.len() as u64);
        if bytes.is_empty() {
            self.pages.remove_mut(&page);
        } else {
            self.pages.insert_mut(page, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(content: &Content, start: u64, end: u64) -> Vec<u8> {
        content.read(start, end).concat()
    }

    #[test]
    fn what_was_cut_reads_as_zeros_after_growing_again() {
        let mut content = Content::default();
        content.write(PAGE - 2, b"abcd");
        assert_eq!(text(&content, PAGE - 3, PAGE + 3), b"\0abcd\0");
        content.cut(PAGE - 1);
        assert_eq!(text(&content, PAGE - 3, PAGE + 3), b"\0a\0\0\0\0");
        assert_eq!(content.stored, PAGE - 1);
    }

    #[test]
    fn a_punched_page_is_a_hole_and_the_rest_of_a_page_zeros() {
        let mut content = Content::default();
        content.write(0, &vec![1; 3 * PAGE as usize]);
        content.punch(PAGE - 1..2 * PAGE + 1);
        assert_eq!(text(&content, PAGE - 2, PAGE + 1), [1, 0, 0]);
        assert_eq!(text(&content, 2 * PAGE - 1, 2 * PAGE + 2), [0, 0, 1]);
        let extents = content.extents(5..4 * PAGE, 9);
        let ranges: Vec<_> = extents.iter().map(|extent| (extent.range.clone(), extent.is_hole)).collect();
        let expected = [
            (5..PAGE - 1, false),
            (PAGE - 1..2 * PAGE, true),
            (2 * PAGE..3 * PAGE, false),
            (3 * PAGE..4 * PAGE, true),
        ];
        assert_eq!(ranges, expected);
        assert_eq!(content.extents(5..4 * PAGE, 2), extents[..2]);
    }
}
