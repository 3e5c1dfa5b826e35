//! The bare code: bodies of Reed-Solomon fragments without header and checksum, for those who bring their own.
//!
//! Shards at the end of a block may be short or empty; what is missing counts as zero and is neither stored nor computed
//! with.

use bytes::Bytes;

use crate::kernel::Kernel;
use crate::matrix::{coefficient, express};

/// The length of a full shard of a block of `block_len` bytes.
fn shard_len(data: usize, block_len: u64) -> u64 {
    block_len.div_ceil(data as u64)
}

/// The length of body `index`; `block_len` may be anything.
pub(crate) fn body_len(data: usize, index: usize, block_len: u64) -> u64 {
    let shard = shard_len(data, block_len);
    if index < data { block_len.saturating_sub(shard.saturating_mul(index as u64)).min(shard) } else { shard }
}

/// The bodies of all fragments: slices of `block`, then `parity` new ones in one allocation.
///
/// # Panics
///
/// Unless there is a [`Scheme::reed_solomon`](crate::Scheme::reed_solomon) of these numbers.
pub fn encode(data: usize, parity: usize, block: &Bytes) -> Vec<Bytes> {
    let shard = shard_len(data, block.len() as u64) as usize;
    let start = |index: usize| (index * shard).min(block.len());
    let mut bodies: Vec<Bytes> = (0..data).map(|i| block.slice(start(i)..start(i + 1))).collect();
    if parity == 0 || shard == 0 {
        bodies.resize(data + parity, Bytes::new());
        return bodies;
    }
    let rows: Vec<Vec<u8>> = (data..data + parity)
        .map(|row| (0..data).map(|column| coefficient(data, row, column)).collect())
        .collect();
    let sources: Vec<&[u8]> = bodies.iter().map(|body| &body[..]).collect();
    let sums = Bytes::from(Kernel::best().combine(&rows, &vec![shard; parity], &sources));
    bodies.extend((0..parity).map(|i| sums.slice(i * shard..(i + 1) * shard)));
    bodies
}

/// The block of `block_len` bytes that `data` different fragments determine. Costs one pass over it, which
/// copies what is there and computes what is missing.
///
/// # Panics
///
/// Unless exactly `data` bodies are given, each as [`encode`] made it of a block of this length, with its number.
pub fn decode(data: usize, given: &[(usize, Bytes)], block_len: usize) -> Bytes {
    if let Some((_, whole)) = given.iter().find(|(index, body)| *index == 0 && body.len() == block_len) {
        return whole.clone();
    }
    let len = |index| body_len(data, index, block_len as u64) as usize;
    let (shards, lens): (Vec<_>, Vec<_>) =
        (0..data).map(|index| (index, len(index))).filter(|(_, len)| *len > 0).unzip();
    reconstruct(data, given, &shards, &lens)
}

/// The body of fragment `index`, from `data` different others.
pub(crate) fn rebuild(data: usize, given: &[(usize, Bytes)], index: usize, block_len: usize) -> Bytes {
    rebuild_columns(data, given, index, body_len(data, index, block_len as u64) as usize)
}

/// `len` bytes of the body of fragment `index`, from the same columns of `data` different others.
pub(crate) fn rebuild_columns(data: usize, given: &[(usize, Bytes)], index: usize, len: usize) -> Bytes {
    reconstruct(data, given, &[index], &[len])
}

/// So many bytes of the bodies of each of some fragments, one behind the other.
fn reconstruct(data: usize, given: &[(usize, Bytes)], wanted: &[usize], lens: &[usize]) -> Bytes {
    let indices: Vec<usize> = given.iter().map(|(index, _)| *index).collect();
    let sources: Vec<&[u8]> = given.iter().map(|(_, body)| &body[..]).collect();
    Bytes::from(Kernel::best().combine(&express(data, &indices, wanted), lens, &sources))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gf256::multiply;

    #[test]
    fn bodies_are_slices_of_the_block_and_short_shards_are_not_padded() {
        let block = Bytes::from_static(b"0123456789");
        let bodies = encode(4, 2, &block);
        assert_eq!(bodies[..4], [&b"012"[..], b"345", b"678", b"9"]);
        assert_eq!(bodies[1].as_ptr(), block[3..].as_ptr());
        assert_eq!((bodies[4].len(), bodies[5].len()), (3, 3));
        let tiny = encode(4, 1, &Bytes::from_static(b"ab"));
        assert_eq!(tiny[..4], [&b"a"[..], b"b", b"", b""]);
    }

    #[test]
    fn body_lengths_of_absurd_blocks_do_not_overflow() {
        for data in 1..=32 {
            for index in 0..=32 {
                assert!(body_len(data, index, u64::MAX) <= u64::MAX.div_ceil(data as u64));
            }
        }
    }

    #[test]
    fn an_empty_block_comes_back_from_any_of_its_empty_fragments() {
        let bodies = encode(2, 1, &Bytes::new());
        let given: Vec<_> = bodies.into_iter().enumerate().skip(1).collect();
        assert_eq!(decode(2, &given, 0), Bytes::new());
    }

    proptest! {
        #[test]
        fn bodies_have_the_announced_length_and_parity_is_as_defined(
            block in prop::collection::vec(any::<u8>(), 0..400),
            data in 1usize..12,
            parity in 0usize..6,
        ) {
            let block = Bytes::from(block);
            let bodies = encode(data, parity, &block);
            prop_assert_eq!(bodies.len(), data + parity);
            for (index, body) in bodies.iter().enumerate() {
                prop_assert_eq!(body.len() as u64, body_len(data, index, block.len() as u64));
            }
            prop_assert_eq!(bodies[..data].concat(), &block[..]);
            let byte = |shard: usize, i: usize| bodies[shard].get(i).copied().unwrap_or(0);
            for (row, body) in bodies.iter().enumerate().skip(data) {
                for (i, &sum) in body.iter().enumerate() {
                    let term = |c| multiply(coefficient(data, row, c), byte(c, i));
                    prop_assert_eq!(sum, (0..data).fold(0, |sum, c| sum ^ term(c)));
                }
            }
        }
    }
}
