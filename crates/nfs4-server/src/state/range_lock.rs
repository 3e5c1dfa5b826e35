//! The byte-range locks of one file.

use nfs4::NfsStatus;

/// Bytes of a file, first and last included. The last is [`u64::MAX`] for "to the end, wherever that will be".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    first: u64,
    last: u64,
}

impl ByteRange {
    /// From the wire: a length of all ones reaches to the end; an empty range, or one that reaches beyond
    /// 2^64-1, is `NFS4ERR_INVAL` (RFC 8881 §18.10.3).
    pub fn new(offset: u64, length: u64) -> Result<ByteRange, NfsStatus> {
        match length {
            0 => Err(NfsStatus::Inval),
            u64::MAX => Ok(ByteRange { first: offset, last: u64::MAX }),
            _ => match offset.checked_add(length) {
                Some(end) => Ok(ByteRange { first: offset, last: end - 1 }),
                None => Err(NfsStatus::Inval),
            },
        }
    }

    /// Offset as on the wire.
    pub fn offset(self) -> u64 {
        self.first
    }

    /// Length as on the wire.
    pub fn length(self) -> u64 {
        if self.last == u64::MAX { u64::MAX } else { self.last - self.first + 1 }
    }

    pub(super) fn overlaps(self, other: ByteRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// A lock that somebody holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held<O> {
    pub range: ByteRange,
    /// A write lock; otherwise a read lock.
    pub exclusive: bool,
    pub owner: O,
}

/// All locks of one file. The locks of one owner never overlap, and those that touch are joined when they are
/// of one kind (POSIX semantics, RFC 8881 §9.1 and §18.10.4).
#[derive(Debug)]
pub(crate) struct RangeLocks<O> {
    /// In order of the first byte.
    held: Vec<Held<O>>,
}

impl<O> Default for RangeLocks<O> {
    fn default() -> RangeLocks<O> {
        RangeLocks { held: Vec::new() }
    }
}

impl<O: Clone + PartialEq> RangeLocks<O> {
    /// Whether nobody holds anything.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Number of separate ranges.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// A lock of somebody else that forbids `owner` this one.
    pub fn conflict(&self, owner: &O, range: ByteRange, exclusive: bool) -> Option<&Held<O>> {
        self.held
            .iter()
            .take_while(|held| held.range.first <= range.last)
            .find(|held| held.range.overlaps(range) && held.owner != *owner && (exclusive || held.exclusive))
    }

    /// Whether `holder` holds a lock that forbids others this one.
    pub fn is_blocked_by(&self, holder: &O, range: ByteRange, exclusive: bool) -> bool {
        self.held
            .iter()
            .any(|held| held.owner == *holder && held.range.overlaps(range) && (exclusive || held.exclusive))
    }

    /// Gives `owner` the lock, in place of what it held there. Nobody else may hold a conflicting one.
    pub fn set(&mut self, owner: &O, range: ByteRange, exclusive: bool) {
        debug_assert!(
            self.conflict(owner, range, exclusive).is_none(),
            "lock granted in spite of a conflict"
        );
        self.clear(owner, range);
        let mut joined = range;
        self.held.retain(|held| {
            let touches = held.owner == *owner
                && held.exclusive == exclusive
                && (held.range.last.checked_add(1) == Some(range.first)
                    || range.last.checked_add(1) == Some(held.range.first));
            if touches {
                joined.first = joined.first.min(held.range.first);
                joined.last = joined.last.max(held.range.last);
            }
            !touches
        });
        self.insert(Held { range: joined, exclusive, owner: owner.clone() });
    }

    /// Takes away what `owner` holds of `range`; parts outside stay.
    pub fn clear(&mut self, owner: &O, range: ByteRange) {
        let mut remains: Vec<Held<O>> = Vec::new();
        self.held.retain(|held| {
            if held.owner != *owner || !held.range.overlaps(range) {
                return true;
            }
            if held.range.first < range.first {
                let left = ByteRange { first: held.range.first, last: range.first - 1 };
                remains.push(Held { range: left, ..held.clone() });
            }
            if held.range.last > range.last {
                let right = ByteRange { first: range.last + 1, last: held.range.last };
                remains.push(Held { range: right, ..held.clone() });
            }
            false
        });
        remains.into_iter().for_each(|held| self.insert(held));
    }

    /// Whether clearing `range` would leave `owner` with a part on either side of it.
    pub fn splits(&self, owner: &O, range: ByteRange) -> bool {
        self.held.iter().any(|held| {
            held.owner == *owner && held.range.first < range.first && held.range.last > range.last
        })
    }

    /// Whether `owner` holds anything.
    pub fn holds(&self, owner: &O) -> bool {
        self.held.iter().any(|held| held.owner == *owner)
    }

    /// Everything that `owner` holds.
    pub fn of(&self, owner: &O) -> Vec<Held<O>> {
        self.held.iter().filter(|held| held.owner == *owner).cloned().collect()
    }

    /// Takes everything away from `owner`.
    pub fn clear_all(&mut self, owner: &O) {
        self.held.retain(|held| held.owner != *owner);
    }

    /// Gives `owner` exactly `before`, an earlier result of [`RangeLocks::of`], without what somebody else has
    /// been given in between.
    pub fn restore(&mut self, owner: &O, before: Vec<Held<O>>) {
        self.clear_all(owner);
        for held in before {
            if self.conflict(owner, held.range, held.exclusive).is_none() {
                self.insert(held);
            }
        }
    }

    fn insert(&mut self, held: Held<O>) {
        let at = self.held.partition_point(|other| other.range.first <= held.range.first);
        self.held.insert(at, held);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES: usize = 24;

    /// The model: what each of three owners holds of each byte.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Byte {
        Free,
        Read,
        Write,
    }

    type Model = [[Byte; BYTES]; 3];

    fn range() -> impl Strategy<Value = (usize, usize)> {
        (0..BYTES).prop_flat_map(|first| (Just(first), first..BYTES))
    }

    fn model_of(locks: &RangeLocks<usize>) -> Model {
        let mut model = [[Byte::Free; BYTES]; 3];
        for held in &locks.held {
            for byte in held.range.first..=held.range.last {
                let byte = &mut model[held.owner][byte as usize];
                assert_eq!(*byte, Byte::Free, "locks of one owner overlap");
                *byte = if held.exclusive { Byte::Write } else { Byte::Read };
            }
        }
        model
    }

    proptest! {
        /// Against one cell per byte and owner.
        #[test]
        fn locks_behave_like_a_map_of_bytes(
            steps in prop::collection::vec((0..3usize, range(), 0..3u8), 0..60)
        ) {
            let mut locks = RangeLocks::default();
            let mut model = [[Byte::Free; BYTES]; 3];
            for (owner, (first, last), action) in steps {
                let range = ByteRange { first: first as u64, last: last as u64 };
                if action == 0 {
                    let (before, splits) = (locks.len(), locks.splits(&owner, range));
                    locks.clear(&owner, range);
                    prop_assert_eq!(locks.len() > before, splits);
                    model[owner][first..=last].fill(Byte::Free);
                } else {
                    let exclusive = action == 2;
                    let blocked = (0..3).filter(|other| *other != owner).any(|other| {
                        model[other][first..=last].iter().any(|byte| match byte {
                            Byte::Free => false,
                            Byte::Read => exclusive,
                            Byte::Write => true,
                        })
                    });
                    prop_assert_eq!(locks.conflict(&owner, range, exclusive).is_some(), blocked);
                    if !blocked {
                        locks.set(&owner, range, exclusive);
                        model[owner][first..=last].fill(if exclusive { Byte::Write } else { Byte::Read });
                    }
                }
                prop_assert_eq!(model_of(&locks), model);
                prop_assert!(locks.held.windows(2).all(|pair| pair[0].range.first <= pair[1].range.first));
                for owner in 0..3 {
                    let mine = locks.of(&owner);
                    prop_assert_eq!(locks.holds(&owner), !mine.is_empty());
                    prop_assert!(mine.windows(2).all(|pair| {
                        pair[0].range.last + 1 < pair[1].range.first || pair[0].exclusive != pair[1].exclusive
                    }), "locks that touch are joined");
                    let before = locks.held.len();
                    locks.restore(&owner, mine);
                    prop_assert_eq!(locks.len(), before);
                }
            }
        }
    }

    #[test]
    fn ranges_come_from_the_wire_as_the_rfc_says() {
        let whole = ByteRange::new(0, u64::MAX).unwrap();
        assert_eq!((whole.offset(), whole.length()), (0, u64::MAX));
        let tail = ByteRange::new(u64::MAX, u64::MAX).unwrap();
        assert_eq!((tail.offset(), tail.length()), (u64::MAX, u64::MAX));
        let one = ByteRange::new(7, 1).unwrap();
        assert_eq!((one.offset(), one.length()), (7, 1));
        assert_eq!(ByteRange::new(5, 0), Err(NfsStatus::Inval));
        assert_eq!(ByteRange::new(2, u64::MAX - 1), Err(NfsStatus::Inval));
    }

    #[test]
    fn what_others_took_meanwhile_is_not_restored() {
        let mut locks = RangeLocks::default();
        let (low, high) = (ByteRange::new(0, 4).unwrap(), ByteRange::new(8, 4).unwrap());
        locks.set(&1, low, true);
        locks.set(&1, high, true);
        let before = locks.of(&1);
        locks.clear_all(&1);
        locks.set(&2, low, false);
        locks.restore(&1, before);
        assert_eq!(locks.of(&1), [Held { range: high, exclusive: true, owner: 1 }]);
        assert!(!locks.is_empty());
    }
}
