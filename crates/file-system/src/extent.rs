use std::ops::Range;

/// A part of a file that holds data, or that does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte, and the byte behind the last.
    pub range: Range<u64>,
    /// Whether nothing is stored there: it reads as zeros.
    pub is_hole: bool,
}

/// Collects [`Extent`]s in order, neighbours of one kind together.
#[derive(Debug)]
pub struct Extents {
    found: Vec<Extent>,
    at: u64,
    limit: usize,
}

impl Extents {
    /// Starts at `start`; ends with `limit` extents, at least 1.
    pub fn new(start: u64, limit: usize) -> Extents {
        Extents { found: Vec::new(), at: start, limit: limit.max(1) }
    }

    /// Where the next extent begins.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// What lies up to `end`. Whether more is wanted.
    pub fn push(&mut self, end: u64, is_hole: bool) -> bool {
        if end <= self.at {
            return true;
        }
        let full = self.found.len() == self.limit;
        match self.found.last_mut() {
            Some(last) if last.is_hole == is_hole => last.range.end = end,
            _ if full => return false,
            _ => self.found.push(Extent { range: self.at..end, is_hole }),
        }
        self.at = end;
        true
    }

    /// Data in `data`, and a hole before it. Whether more is wanted.
    pub fn push_data(&mut self, data: Range<u64>) -> bool {
        self.push(data.start, true) && self.push(data.end, false)
    }

    /// All extents.
    pub fn finish(self) -> Vec<Extent> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_kind_are_one_extent() {
        let mut extents = Extents::new(10, 3);
        assert!(extents.push_data(10..20) && extents.push_data(20..30) && extents.push_data(15..25));
        assert!(extents.push_data(40..50));
        assert!(!extents.push(60, true), "the limit is reached");
        let hole = Extent { range: 30..40, is_hole: true };
        let data = |range| Extent { range, is_hole: false };
        assert_eq!(extents.finish(), [data(10..30), hole, data(40..50)]);
    }
}
