//! A part of a block from parts of its fragments, without the rest.
//!
//! A checksum covers a fragment as a whole. What comes of parts is proved by nothing here: whoever reads them has to know by
//! other means whether it is right.

use std::ops::Range;

use bytes::Bytes;

use crate::fragment::body_len;
use crate::scheme::Kind;
use crate::{HEADER_LEN, JoinError, Scheme, reed_solomon};

/// Bytes of the body of one fragment, which are bytes of the block as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which fragment. With replicas any other does as well.
    pub fragment: u8,
    /// Which bytes of its body.
    pub columns: Range<u64>,
}

/// Where bytes `range` of a block of `block_len` bytes lie, in their order. `None` when no fragment shows any byte of the
/// block, as with `aont-rs` and `caont-rs`, or when the block is shorter.
pub fn locate(scheme: Scheme, block_len: u64, range: Range<u64>) -> Option<Vec<Part>> {
    if range.start > range.end || range.end > block_len {
        return None;
    }
    let width = match scheme.kind() {
        Kind::Replicas => block_len,
        Kind::ReedSolomon => block_len.div_ceil(scheme.needed() as u64),
        Kind::AontRs | Kind::CaontRs => return None,
    };
    let mut parts = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let fragment = at / width;
        let (first, end) = (fragment * width, range.end.min((fragment + 1) * width));
        parts.push(Part { fragment: fragment as u8, columns: at - first..end - first });
        at = end;
    }
    Some(parts)
}

/// The bytes of a fragment as it is stored, header and all, that are `columns` of its body. Columns that it does not have
/// count as zero.
pub fn stored_range(scheme: Scheme, fragment: u8, block_len: u64, columns: &Range<u64>) -> Range<u64> {
    let len = body_len(scheme, fragment, block_len);
    let stored = |column: u64| HEADER_LEN as u64 + column.min(len);
    stored(columns.start)..stored(columns.end)
}

/// The `len` bytes that fragment `wanted` has where others have those `given`: all of the same columns, of exactly
/// `scheme.needed()` different fragments. Bytes missing at the end of one count as zero, as they do in short shards.
pub fn join_columns(
    scheme: Scheme,
    wanted: u8,
    len: usize,
    given: &[(u8, Bytes)],
) -> Result<Bytes, JoinError> {
    let different =
        given.iter().fold(0_u64, |seen, (index, _)| seen | 1 << (index % 64)).count_ones() as usize;
    if different != scheme.needed() || given.len() != different {
        return Err(JoinError::TooFew { have: different, needed: scheme.needed() });
    }
    let strange = |index: &u8| usize::from(*index) >= scheme.total();
    if let Some(&index) = given.iter().map(|(index, _)| index).chain([&wanted]).find(|index| strange(index)) {
        return Err(JoinError::NoSuchFragment { index, scheme });
    }
    Ok(match scheme.kind() {
        Kind::Replicas => given[0].1.clone(),
        _ => {
            let given: Vec<_> =
                given.iter().map(|(index, bytes)| (usize::from(*index), bytes.clone())).collect();
            reed_solomon::rebuild_columns(scheme.needed(), &given, usize::from(wanted), len)
        }
    })
}

#[cfg(test)]
mod tests {
    use environment::SystemEntropy;
    use proptest::prelude::*;

    use super::*;
    use crate::{Fragment, SplitKeys, split};

    fn stored(scheme: Scheme, block: &Bytes) -> Vec<Bytes> {
        let keys = SplitKeys { checksum: &[3; 32], convergence: &[4; 32] };
        split(scheme, block, keys, b"context", &SystemEntropy::new()).iter().map(Fragment::to_bytes).collect()
    }

    fn slice(fragment: &Bytes, range: Range<u64>) -> Bytes {
        fragment.slice(range.start as usize..range.end as usize)
    }

    #[test]
    fn a_range_over_the_border_of_two_shards_has_a_part_in_each() {
        let scheme: Scheme = "rs:3+1".parse().unwrap();
        let parts = locate(scheme, 10, 3..6).unwrap();
        assert_eq!(parts, [Part { fragment: 0, columns: 3..4 }, Part { fragment: 1, columns: 0..2 }]);
        assert_eq!(locate(scheme, 10, 4..4), Some(vec![]));
        let whole = locate("replicas:2".parse().unwrap(), 10, 3..6);
        assert_eq!(whole, Some(vec![Part { fragment: 0, columns: 3..6 }]));
    }

    #[test]
    fn what_cannot_be_read_in_parts_has_no_place() {
        for scheme in ["aont-rs:2+1", "caont-rs:2+1"] {
            assert_eq!(locate(scheme.parse().unwrap(), 100, 3..6), None);
        }
        let scheme: Scheme = "rs:2+1".parse().unwrap();
        assert_eq!(locate(scheme, 10, 3..11), None);
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = 3..2;
        assert_eq!(locate(scheme, 10, reversed), None);
    }

    #[test]
    fn too_few_repeated_and_strange_fragments_are_refused() {
        let scheme: Scheme = "rs:2+1".parse().unwrap();
        let column = |index| (index, Bytes::from_static(b"ab"));
        for given in [vec![column(0)], vec![column(0), column(0)], vec![column(0), column(1), column(2)]] {
            assert!(matches!(join_columns(scheme, 1, 2, &given), Err(JoinError::TooFew { .. })));
        }
        let strange = JoinError::NoSuchFragment { index: 3, scheme };
        assert_eq!(join_columns(scheme, 1, 2, &[column(0), column(3)]), Err(strange.clone()));
        assert_eq!(join_columns(scheme, 3, 2, &[column(0), column(1)]), Err(strange));
    }

    proptest! {
        #[test]
        fn any_range_comes_from_its_parts_and_each_part_from_any_needed_fragments(
            data in 1u8..8,
            parity in 0u8..4,
            is_coded in any::<bool>(),
            block in prop::collection::vec(any::<u8>(), 1..600),
            ends in any::<(prop::sample::Index, prop::sample::Index)>(),
            order in Just((0..12u8).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let scheme = match is_coded {
                true => Scheme::reed_solomon(data, parity).unwrap(),
                false => Scheme::replicas(parity + 1).unwrap(),
            };
            let (block, len) = (Bytes::from(block.clone()), block.len() as u64);
            let fragments = stored(scheme, &block);
            let (one, two) = (ends.0.index(block.len() + 1) as u64, ends.1.index(block.len() + 1) as u64);
            let range = one.min(two)..one.max(two);
            let mut direct = Vec::new();
            let mut decoded = Vec::new();
            for Part { fragment, columns } in locate(scheme, len, range.clone()).unwrap() {
                let of = |index: u8| {
                    slice(&fragments[usize::from(index)], stored_range(scheme, index, len, &columns))
                };
                direct.extend_from_slice(&of(fragment));
                let some = order.iter().copied().filter(|index| usize::from(*index) < scheme.total());
                let given: Vec<_> = some.take(scheme.needed()).map(|index| (index, of(index))).collect();
                let width = (columns.end - columns.start) as usize;
                decoded.extend_from_slice(&join_columns(scheme, fragment, width, &given).unwrap());
            }
            prop_assert_eq!(&direct[..], &slice(&block, range)[..]);
            prop_assert_eq!(direct, decoded);
        }
    }
}
