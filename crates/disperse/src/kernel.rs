//! The inner loop of the coder, in the best instructions that the processor has. All `unsafe` code of the crate
//! is here.
#![allow(unsafe_code)]

use crate::gf256::MULTIPLIERS;

/// How many outputs one pass over the sources computes; their sums stay in registers.
const GROUP: usize = 4;

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

    /// Sets every output to the sum over all sources s of `rows[output][s] * sources[s]`.
    ///
    /// # Panics
    ///
    /// Unless sources and outputs all have the same length, and there is a row for every output and a coefficient
    /// in it for every source.
    pub(crate) fn combine(self, rows: &[&[u8]], sources: &[&[u8]], outputs: &mut [&mut [u8]]) {
        assert_eq!(rows.len(), outputs.len());
        for (rows, outputs) in rows.chunks(GROUP).zip(outputs.chunks_mut(GROUP)) {
            match outputs {
                [a] => self.combine_group([rows[0]], sources, [a]),
                [a, b] => self.combine_group([rows[0], rows[1]], sources, [a, b]),
                [a, b, c] => self.combine_group([rows[0], rows[1], rows[2]], sources, [a, b, c]),
                [a, b, c, d] => {
                    self.combine_group([rows[0], rows[1], rows[2], rows[3]], sources, [a, b, c, d]);
                }
                _ => unreachable!("a chunk of at most four outputs, and never an empty one"),
            }
        }
    }

    fn combine_group<const N: usize>(self, rows: [&[u8]; N], sources: &[&[u8]], mut outputs: [&mut [u8]; N]) {
        // What the unsafe code below relies on.
        let len = outputs[0].len();
        assert!(sources.iter().all(|source| source.len() == len));
        assert!(outputs.iter().all(|output| output.len() == len));
        assert!(rows.iter().all(|row| row.len() == sources.len()));
        let done = match self {
            // SAFETY: these variants come from `available`, which saw the processor's features; lengths are
            // asserted above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Gfni512 => unsafe { gfni512(rows, sources, &mut outputs) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Gfni256 => unsafe { gfni256(rows, sources, &mut outputs) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { avx2(rows, sources, &mut outputs) },
            Kernel::Scalar => 0,
        };
        for (row, output) in rows.iter().zip(outputs) {
            scalar(row, sources, done, output);
        }
    }
}

/// Computes `output` from byte `from` on.
fn scalar(row: &[u8], sources: &[&[u8]], from: usize, output: &mut [u8]) {
    let output = &mut output[from..];
    output.fill(0);
    for (&coefficient, source) in row.iter().zip(sources) {
        let multiplier = &MULTIPLIERS[usize::from(coefficient)];
        for (out, byte) in output.iter_mut().zip(&source[from..]) {
            *out ^= multiplier.apply(*byte);
        }
    }
}

/// Computes all bytes and returns their number.
///
/// # Safety
///
/// The processor has the features; all sources and outputs have the same length; every row is as long as
/// `sources`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn gfni512<const N: usize>(
    rows: [&[u8]; N],
    sources: &[&[u8]],
    outputs: &mut [&mut [u8]; N],
) -> usize {
    use std::arch::x86_64::*;
    let len = outputs[0].len();
    let mut at = 0;
    while at + 64 <= len {
        let mut sums = [_mm512_setzero_si512(); N];
        for (s, source) in sources.iter().enumerate() {
            // SAFETY: at + 64 <= len, the length of every source.
            let bytes = unsafe { _mm512_loadu_si512(source.as_ptr().add(at).cast()) };
            for n in 0..N {
                let matrix = _mm512_set1_epi64(MULTIPLIERS[usize::from(rows[n][s])].affine as i64);
                sums[n] = _mm512_xor_si512(sums[n], _mm512_gf2p8affine_epi64_epi8::<0>(bytes, matrix));
            }
        }
        for n in 0..N {
            // SAFETY: at + 64 <= len, the length of every output.
            unsafe { _mm512_storeu_si512(outputs[n].as_mut_ptr().add(at).cast(), sums[n]) };
        }
        at += 64;
    }
    if at < len {
        let mask: __mmask64 = (1 << (len - at)) - 1;
        let mut sums = [_mm512_setzero_si512(); N];
        for (s, source) in sources.iter().enumerate() {
            // SAFETY: the mask has len - at bits, so that nothing beyond the end of the source is read.
            let bytes = unsafe { _mm512_maskz_loadu_epi8(mask, source.as_ptr().add(at).cast()) };
            for n in 0..N {
                let matrix = _mm512_set1_epi64(MULTIPLIERS[usize::from(rows[n][s])].affine as i64);
                sums[n] = _mm512_xor_si512(sums[n], _mm512_gf2p8affine_epi64_epi8::<0>(bytes, matrix));
            }
        }
        for n in 0..N {
            // SAFETY: the mask has len - at bits, so that nothing beyond the end of the output is written.
            unsafe { _mm512_mask_storeu_epi8(outputs[n].as_mut_ptr().add(at).cast(), mask, sums[n]) };
        }
    }
    len
}

/// Computes all whole vectors and returns the number of bytes in them.
///
/// # Safety
///
/// As [`gfni512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,avx2,gfni")]
unsafe fn gfni256<const N: usize>(
    rows: [&[u8]; N],
    sources: &[&[u8]],
    outputs: &mut [&mut [u8]; N],
) -> usize {
    use std::arch::x86_64::*;
    let len = outputs[0].len();
    let mut at = 0;
    while at + 32 <= len {
        let mut sums = [_mm256_setzero_si256(); N];
        for (s, source) in sources.iter().enumerate() {
            // SAFETY: at + 32 <= len, the length of every source.
            let bytes = unsafe { _mm256_loadu_si256(source.as_ptr().add(at).cast()) };
            for n in 0..N {
                let matrix = _mm256_set1_epi64x(MULTIPLIERS[usize::from(rows[n][s])].affine as i64);
                sums[n] = _mm256_xor_si256(sums[n], _mm256_gf2p8affine_epi64_epi8::<0>(bytes, matrix));
            }
        }
        for n in 0..N {
            // SAFETY: at + 32 <= len, the length of every output.
            unsafe { _mm256_storeu_si256(outputs[n].as_mut_ptr().add(at).cast(), sums[n]) };
        }
        at += 32;
    }
    at
}

/// Computes all whole vectors and returns the number of bytes in them.
///
/// # Safety
///
/// As [`gfni512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<const N: usize>(rows: [&[u8]; N], sources: &[&[u8]], outputs: &mut [&mut [u8]; N]) -> usize {
    use std::arch::x86_64::*;
    // SAFETY: a table is 16 bytes long.
    let table =
        |bytes: &[u8; 16]| unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast())) };
    let nibble = _mm256_set1_epi8(15);
    let len = outputs[0].len();
    let mut at = 0;
    while at + 32 <= len {
        let mut sums = [_mm256_setzero_si256(); N];
        for (s, source) in sources.iter().enumerate() {
            // SAFETY: at + 32 <= len, the length of every source.
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
            // SAFETY: at + 32 <= len, the length of every output.
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

    fn combine(kernel: Kernel, rows: &[Vec<u8>], sources: &[&[u8]], len: usize) -> Vec<Vec<u8>> {
        let mut outputs = vec![vec![0xee; len]; rows.len()];
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let mut places: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        kernel.combine(&rows, sources, &mut places);
        outputs
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
