//! The inner loop of the coder, in the best instructions that the processor has. All `unsafe` code of the crate
//! is here.
#![allow(unsafe_code)]

use std::mem::{MaybeUninit, take};
use std::ops::Range;

use crate::gf256::MULTIPLIERS;

/// How many outputs one pass over the sources computes; their sums stay in registers.
const GROUP: usize = 4;
/// How much of each source is gone through before the next part of it, so that what is both copied and computed with comes
/// from memory once.
const STRIP: usize = 4 << 10;

/// Bytes to be computed; none of them has a value yet.
type Output<'a> = &'a mut [MaybeUninit<u8>];

/// One set of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// 64 bytes at a time: affine transformations of 512-bit vectors.
    #[cfg(target_arch = "x86_64")]
    Gfni512,
    /// 32 bytes at a time: affine transformations of 256-bit vectors.
    #[cfg(target_arch = "x86_64")]
    Gfni256,
    /// 32 bytes at a time: table look-ups by shuffling.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// One byte at a time, on any processor.
    Scalar,
}

impl Kernel {
    /// All kernels that this processor can run, the fastest first.
    pub(crate) fn available() -> impl Iterator<Item = Kernel> {
        #[cfg(target_arch = "x86_64")]
        let vector = {
            let avx2 = is_x86_feature_detected!("avx2");
            let gfni256 = avx2 && is_x86_feature_detected!("gfni");
            let gfni512 =
                gfni256 && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
            [(gfni512, Kernel::Gfni512), (gfni256, Kernel::Gfni256), (avx2, Kernel::Avx2)]
        };
        #[cfg(not(target_arch = "x86_64"))]
        let vector: [(bool, Kernel); 0] = [];
        vector.into_iter().filter_map(|(can, kernel)| can.then_some(kernel)).chain([Kernel::Scalar])
    }

    /// The fastest kernel of this processor; a few cached look-ups.
    pub(crate) fn best() -> Kernel {
        Kernel::available().next().unwrap_or(Kernel::Scalar)
    }

    /// One output behind the other: as many bytes as `lens` has for its row, of the sum over all sources s of
    /// `row[s] * sources[s]`. Short sources count as if zeros followed; short outputs are computed as far as they go. Where the
    /// sum is one source as it is, that is copied.
    ///
    /// # Panics
    ///
    /// Unless there is a length for every row, and in every row a coefficient for every source.
    pub(crate) fn combine(self, rows: &[Vec<u8>], lens: &[usize], sources: &[&[u8]]) -> Vec<u8> {
        let total = lens.iter().sum();
        let mut bytes = Vec::with_capacity(total);
        let mut rest = &mut bytes.spare_capacity_mut()[..total];
        let mut outputs = Vec::with_capacity(lens.len());
        for len in lens {
            let (output, others) = take(&mut rest).split_at_mut(*len);
            outputs.push(output);
            rest = others;
        }
        self.write(rows, sources, &mut outputs);
        // SAFETY: the outputs are all of these bytes, and `write` has written every byte of them or panicked.
        unsafe { bytes.set_len(total) };
        bytes
    }

    /// Writes every byte of every output, range by range: within one, sources and outputs either go on or have come to their end.
    fn write(self, rows: &[Vec<u8>], sources: &[&[u8]], outputs: &mut [Output<'_>]) {
        assert_eq!(rows.len(), outputs.len());
        assert!(rows.iter().all(|row| row.len() == sources.len()));
        let source_ends = sources.iter().map(|source| source.len());
        let mut ends: Vec<usize> = source_ends.chain(outputs.iter().map(|output| output.len())).collect();
        ends.sort_unstable();
        ends.dedup();
        let mut start = 0;
        for end in ends.into_iter().filter(|end| *end > 0) {
            let here: Vec<usize> = (0..sources.len()).filter(|&s| sources[s].len() >= end).collect();
            let here_sources: Vec<&[u8]> = here.iter().map(|&s| &sources[s][start..end]).collect();
            let (mut copies, mut sums, mut sum_rows) = (Vec::new(), Vec::new(), Vec::new());
            for (row, output) in rows.iter().zip(outputs.iter_mut()) {
                let Some(output) = output.get_mut(start..end) else { continue };
                let row: Vec<u8> = here.iter().map(|&s| row[s]).collect();
                match only(&row) {
                    Some(s) => copies.push((here_sources[s], output)),
                    None => {
                        sums.push(output);
                        sum_rows.push(row);
                    }
                }
            }
            let len = end - start;
            let step = if sums.is_empty() { len } else { STRIP };
            for from in (0..len).step_by(step) {
                let strip = from..(from + step).min(len);
                for (source, output) in &mut copies {
                    output[strip.clone()].write_copy_of_slice(&source[strip.clone()]);
                }
                self.write_sums(&sum_rows, &here_sources, &mut sums, strip);
            }
            start = end;
        }
    }

    /// Writes bytes `strip` of every output.
    fn write_sums(
        self,
        rows: &[Vec<u8>],
        sources: &[&[u8]],
        outputs: &mut [Output<'_>],
        strip: Range<usize>,
    ) {
        for (rows, outputs) in rows.chunks(GROUP).zip(outputs.chunks_mut(GROUP)) {
            match outputs {
                [a] => self.write_group([&rows[0]], sources, [a], strip.clone()),
                [a, b] => self.write_group([&rows[0], &rows[1]], sources, [a, b], strip.clone()),
                [a, b, c] => {
                    self.write_group([&rows[0], &rows[1], &rows[2]], sources, [a, b, c], strip.clone());
                }
                [a, b, c, d] => {
                    let rows = [&rows[0][..], &rows[1], &rows[2], &rows[3]];
                    self.write_group(rows, sources, [a, b, c, d], strip.clone());
                }
                _ => unreachable!("a chunk of at most four outputs, and never an empty one"),
            }
        }
    }

    fn write_group<const N: usize>(
        self,
        rows: [&[u8]; N],
        sources: &[&[u8]],
        mut outputs: [Output<'_>; N],
        strip: Range<usize>,
    ) {
        // What the unsafe code below relies on.
        assert!(sources.iter().all(|source| source.len() >= strip.end));
        assert!(outputs.iter().all(|output| output.len() >= strip.end));
        assert!(rows.iter().all(|row| row.len() == sources.len()));
        let done = match self {
            // SAFETY: these variants come from `available`, which saw the processor's features; lengths are
            // asserted above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Gfni512 => unsafe { gfni512(rows, sources, &mut outputs, strip.clone()) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Gfni256 => unsafe { gfni256(rows, sources, &mut outputs, strip.clone()) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { avx2(rows, sources, &mut outputs, strip.clone()) },
            Kernel::Scalar => strip.start,
        };
        for (row, output) in rows.iter().zip(outputs) {
            scalar(row, sources, output, done..strip.end);
        }
    }
}

/// The source that a row is, if it is just one.
fn only(row: &[u8]) -> Option<usize> {
    let mut terms = row.iter().enumerate().filter(|(_, coefficient)| **coefficient != 0);
    match (terms.next(), terms.next()) {
        (Some((source, 1)), None) => Some(source),
        _ => None,
    }
}

/// Writes bytes `strip` of `output`.
fn scalar(row: &[u8], sources: &[&[u8]], output: Output<'_>, strip: Range<usize>) {
    let mut sums = [0; 256];
    for from in strip.clone().step_by(sums.len()) {
        let part = from..(from + sums.len()).min(strip.end);
        let sums = &mut sums[..part.len()];
        sums.fill(0);
        for (&coefficient, source) in row.iter().zip(sources) {
            let multiplier = &MULTIPLIERS[usize::from(coefficient)];
            for (sum, byte) in sums.iter_mut().zip(&source[part.clone()]) {
                *sum ^= multiplier.apply(*byte);
            }
        }
        output[part].write_copy_of_slice(sums);
    }
}

/// Writes all bytes of the strip and returns where it ends.
///
/// # Safety
///
/// The processor has the features; the strip ends within all sources and outputs; every row is as long as `sources`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn gfni512<const N: usize>(
    rows: [&[u8]; N],
    sources: &[&[u8]],
    outputs: &mut [Output<'_>; N],
    strip: Range<usize>,
) -> usize {
    use std::arch::x86_64::*;
    let Range { start: mut at, end } = strip;
    while at + 64 <= end {
        let mut sums = [_mm512_setzero_si512(); N];
        for (s, source) in sources.iter().enumerate() {
            // SAFETY: at + 64 <= end, which is within every source.
            let bytes = unsafe { _mm512_loadu_si512(source.as_ptr().add(at).cast()) };
            for n in 0..N {
                let matrix = _mm512_set1_epi64(MULTIPLIERS[usize::from(rows[n][s])].affine as i64);
                sums[n] = _mm512_xor_si512(sums[n], _mm512_gf2p8affine_epi64_epi8::<0>(bytes, matrix));
            }
        }
        for n in 0..N {
            // SAFETY: at + 64 <= end, which is within every output.
            unsafe { _mm512_storeu_si512(outputs[n].as_mut_ptr().add(at).cast(), sums[n]) };
        }
        at += 64;
    }
    if at < end {
        let mask: __mmask64 = (1 << (end - at)) - 1;
        let mut sums = [_mm512_setzero_si512(); N];
        for (s, source) in sources.iter().enumerate() {
            // SAFETY: the mask has end - at bits, so that nothing beyond the end of the source is read.
            let bytes = unsafe { _mm512_maskz_loadu_epi8(mask, source.as_ptr().add(at).cast()) };
            for n in 0..N {
                let matrix = _mm512_set1_epi64(MULTIPLIERS[usize::from(rows[n][s])].affine as i64);
                sums[n] = _mm512_xor_si512(sums[n], _mm512_gf2p8affine_epi64_epi8::<0>(bytes, matrix));
            }
        }
        for n in 0..N {
            // SAFETY: the mask has end - at bits, so that nothing beyond the end of the output is written.
            unsafe { _mm512_mask_storeu_epi8(outputs[n].as_mut_ptr().add(at).cast(), mask, sums[n]) };
        }
    }
    end
}

/// Writes all whole vectors of the strip and returns where they end.
///
/// # Safety
///
/// As [`gfni512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,avx2,gfni")]
unsafe fn gfni256<const N: usize>(
    rows: [&[u8]; N],
    sources: &[&[u8]],
    outputs: &mut [Output<'_>; N],
    strip: Range<usize>,
) -> usize {
    use std::arch::x86_64::*;
    let Range { start: mut at, end } = strip;
    while at + 32 <= end {
        let mut sums = [_mm256_setzero_si256(); N];
        for (s, source) in sources.iter().enumerate() {
            // SAFETY: at + 32 <= end, which is within every source.
            let bytes = unsafe { _mm256_loadu_si256(source.as_ptr().add(at).cast()) };
            for n in 0..N {
                let matrix = _mm256_set1_epi64x(MULTIPLIERS[usize::from(rows[n][s])].affine as i64);
                sums[n] = _mm256_xor_si256(sums[n], _mm256_gf2p8affine_epi64_epi8::<0>(bytes, matrix));
            }
        }
        for n in 0..N {
            // SAFETY: at + 32 <= end, which is within every output.
            unsafe { _mm256_storeu_si256(outputs[n].as_mut_ptr().add(at).cast(), sums[n]) };
        }
        at += 32;
    }
    at
}

/// Writes all whole vectors of the strip and returns where they end.
///
/// # Safety
///
/// As [`gfni512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<const N: usize>(
    rows: [&[u8]; N],
    sources: &[&[u8]],
    outputs: &mut [Output<'_>; N],
    strip: Range<usize>,
) -> usize {
    use std::arch::x86_64::*;
    // SAFETY: a table is 16 bytes long.
    let table =
        |bytes: &[u8; 16]| unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast())) };
    let nibble = _mm256_set1_epi8(15);
    let Range { start: mut at, end } = strip;
    while at + 32 <= end {
        let mut sums = [_mm256_setzero_si256(); N];
        for (s, source) in sources.iter().enumerate() {
            // SAFETY: at + 32 <= end, which is within every source.
            let bytes = unsafe { _mm256_loadu_si256(source.as_ptr().add(at).cast()) };
            let low = _mm256_and_si256(bytes, nibble);
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble);
            for n in 0..N {
                let multiplier = &MULTIPLIERS[usize::from(rows[n][s])];
                let product = _mm256_xor_si256(
                    _mm256_shuffle_epi8(table(&multiplier.low), low),
                    _mm256_shuffle_epi8(table(&multiplier.high), high),
                );
                sums[n] = _mm256_xor_si256(sums[n], product);
            }
        }
        for n in 0..N {
            // SAFETY: at + 32 <= end, which is within every output.
            unsafe { _mm256_storeu_si256(outputs[n].as_mut_ptr().add(at).cast(), sums[n]) };
        }
        at += 32;
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gf256::multiply;

    /// Sums of so many bytes; what was not written is 0xee.
    fn sums(kernel: Kernel, rows: &[Vec<u8>], lens: &[usize], sources: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut outputs: Vec<Vec<_>> = lens.iter().map(|len| vec![MaybeUninit::new(0xee); *len]).collect();
        kernel.write(rows, sources, &mut outputs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
        // SAFETY: all were initialized above.
        let value = |byte: &MaybeUninit<u8>| unsafe { byte.assume_init() };
        outputs.iter().map(|output| output.iter().map(value).collect()).collect()
    }

    fn combine(kernel: Kernel, rows: &[Vec<u8>], sources: &[&[u8]], len: usize) -> Vec<Vec<u8>> {
        sums(kernel, rows, &vec![len; rows.len()], sources)
    }

    #[test]
    fn every_kernel_multiplies_every_byte_by_every_constant() {
        let bytes: Vec<u8> = (0..=255).collect();
        for kernel in Kernel::available() {
            for constant in 0..=255 {
                let products: Vec<u8> = bytes.iter().map(|&byte| multiply(constant, byte)).collect();
                assert_eq!(combine(kernel, &[vec![constant]], &[&bytes], 256), [products], "{kernel:?}");
            }
        }
    }

    #[test]
    fn without_sources_the_sum_is_zero() {
        for kernel in Kernel::available() {
            assert_eq!(combine(kernel, &[vec![], vec![]], &[], 100), [[0; 100]; 2], "{kernel:?}");
        }
    }

    /// Lengths on both sides of the borders of vectors and strips.
    fn len() -> impl Strategy<Value = usize> {
        let border = prop::sample::select(vec![0, 32, 64, 256, STRIP, 2 * STRIP]);
        (border, 0usize..70, any::<bool>()).prop_map(|(border, by, is_above)| match is_above {
            true => border + by,
            false => border.saturating_sub(by),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Short sources count as if zeros followed, short outputs end early, and rows that are one source are copied.
        #[test]
        fn sources_and_outputs_of_different_lengths_agree_with_the_definition(
            sources in prop::collection::vec((len(), any::<u8>()), 0..5),
            rows in prop::collection::vec(
                (len(), prop::array::uniform5(prop::sample::select(vec![0, 1, 2, 0x8e, 0xff])), 0usize..10), 0..7),
        ) {
            let bytes = |&(len, first): &(usize, u8)| (0..len).map(|at| first.wrapping_add((at * at / 7) as u8)).collect();
            let sources: Vec<Vec<u8>> = sources.iter().map(bytes).collect();
            let all: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
            let lens: Vec<usize> = rows.iter().map(|(len, ..)| *len).collect();
            let row = |(_, row, one): &(usize, [u8; 5], usize)| match one {
                0..5 => (0..all.len()).map(|s| u8::from(s == *one)).collect(),
                _ => row[..all.len()].to_vec(),
            };
            let rows: Vec<Vec<u8>> = rows.iter().map(row).collect();
            let term = |row: &[u8], s: usize, at: usize| multiply(row[s], all[s].get(at).copied().unwrap_or(0));
            let sum = |row: &[u8], at: usize| (0..all.len()).fold(0, |sum, s| sum ^ term(row, s, at));
            let of = |(row, len): (&Vec<u8>, &usize)| (0..*len).map(|at| sum(row, at)).collect();
            let expected: Vec<Vec<u8>> = rows.iter().zip(&lens).map(of).collect();
            for kernel in Kernel::available() {
                prop_assert!(sums(kernel, &rows, &lens, &all) == expected, "{:?}", kernel);
            }
            prop_assert!(Kernel::best().combine(&rows, &lens, &all) == expected.concat());
        }
    }

    proptest! {
        /// Lengths and alignments of all kinds, checked against the definition.
        #[test]
        fn all_kernels_agree_with_the_definition(
            bytes in prop::collection::vec(any::<u8>(), 1..2000),
            sources in 1usize..7,
            rows in prop::collection::vec(prop::array::uniform7(any::<u8>()), 1..10),
            shift in 0usize..70,
        ) {
            let len = (bytes.len() / sources).saturating_sub(shift);
            let source = |s: usize| &bytes[s * len + shift.min(bytes.len() - sources * len)..][..len];
            let all: Vec<&[u8]> = (0..sources).map(source).collect();
            let rows: Vec<Vec<u8>> = rows.iter().map(|row| row[..sources].to_vec()).collect();
            let expected: Vec<Vec<u8>> = rows.iter().map(|row| {
                (0..len).map(|i| (0..sources).fold(0, |sum, s| sum ^ multiply(row[s], all[s][i]))).collect()
            }).collect();
            for kernel in Kernel::available() {
                prop_assert_eq!(&combine(kernel, &rows, &all, len), &expected, "{:?}", kernel);
            }
        }
    }
}
