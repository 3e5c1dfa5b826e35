//! Sets of small numbers.

use std::ops::{BitAnd, BitOr, Not, Sub};

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// More words than this in a bitmap is no bitmap that any version of the protocol could want.
const MAX_WORDS: usize = 64;

/// A set of numbers below 128: attributes, operations, notifications (`bitmap4`, RFC 8881 §3.3.7).
///
/// `bitmap4` is an array of words of any length. Every number that the protocol has given out so far is below 128, so
/// longer bitmaps are *sanitised* when decoded: if any bit from 127 on is set, the set contains
/// [`Bitmap::BEYOND`], a number that stands for nothing. So "ignore what is unknown" (intersect) and "refuse what is
/// unknown" (subtract and test) both come out right. Encodes without trailing zero words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bitmap(u128);

impl Bitmap {
    /// The set without elements.
    pub const EMPTY: Bitmap = Bitmap(0);
    /// Stands for every number from 127 on.
    pub const BEYOND: u32 = 127;

    /// The set of these numbers; those from 127 on become [`Bitmap::BEYOND`].
    pub const fn of(numbers: &[u32]) -> Bitmap {
        let mut bits = 0;
        let mut index = 0;
        while index < numbers.len() {
            bits |= bit(numbers[index]);
            index += 1;
        }
        Bitmap(bits)
    }

    /// Whether there is no element.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of elements.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether `number` is an element.
    pub fn contains(self, number: impl Into<u32>) -> bool {
        self.0 & bit(number.into()) != 0
    }

    /// Whether every element of `other` is an element.
    pub const fn contains_all(self, other: Bitmap) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether the sets share an element.
    pub const fn intersects(self, other: Bitmap) -> bool {
        self.0 & other.0 != 0
    }

    /// Adds `number`.
    pub fn insert(&mut self, number: impl Into<u32>) {
        self.0 |= bit(number.into());
    }

    /// Removes `number`.
    pub fn remove(&mut self, number: impl Into<u32>) {
        self.0 &= !bit(number.into());
    }

    /// With `number` added.
    #[must_use]
    pub fn with(mut self, number: impl Into<u32>) -> Bitmap {
        self.insert(number);
        self
    }

    /// With `number` removed.
    #[must_use]
    pub fn without(mut self, number: impl Into<u32>) -> Bitmap {
        self.remove(number);
        self
    }

    /// Elements of either set, usable in constants.
    #[must_use]
    pub const fn union(self, other: Bitmap) -> Bitmap {
        Bitmap(self.0 | other.0)
    }

    /// Elements of this set that are not in `other`, usable in constants.
    #[must_use]
    pub const fn difference(self, other: Bitmap) -> Bitmap {
        Bitmap(self.0 & !other.0)
    }

    /// The elements, ascending.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let number = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(number)
        })
    }

    /// Words on the wire.
    const fn words(self) -> usize {
        (128 - self.0.leading_zeros() as usize).div_ceil(32)
    }
}

const fn bit(number: u32) -> u128 {
    1 << if number < Bitmap::BEYOND { number } else { Bitmap::BEYOND }
}

impl<N: Into<u32>> FromIterator<N> for Bitmap {
    fn from_iter<I: IntoIterator<Item = N>>(numbers: I) -> Bitmap {
        numbers.into_iter().fold(Bitmap::EMPTY, Bitmap::with)
    }
}

impl BitOr for Bitmap {
    type Output = Bitmap;

    fn bitor(self, other: Bitmap) -> Bitmap {
        self.union(other)
    }
}

impl BitAnd for Bitmap {
    type Output = Bitmap;

    fn bitand(self, other: Bitmap) -> Bitmap {
        Bitmap(self.0 & other.0)
    }
}

impl Sub for Bitmap {
    type Output = Bitmap;

    fn sub(self, other: Bitmap) -> Bitmap {
        self.difference(other)
    }
}

impl Not for Bitmap {
    type Output = Bitmap;

    fn not(self) -> Bitmap {
        Bitmap(!self.0)
    }
}

impl std::fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Encode for Bitmap {
    fn encode(&self, out: &mut Encoder) {
        out.put_length(self.words());
        for word in 0..self.words() {
            out.put_u32((self.0 >> (32 * word)) as u32);
        }
    }
}

impl Decode for Bitmap {
    fn decode(input: &mut Decoder) -> Result<Bitmap, DecodeError> {
        let mut bits = 0;
        for word in 0..input.array_length(MAX_WORDS)? {
            let value = input.u32()?;
            if word < 4 {
                bits |= u128::from(value) << (32 * word);
            } else if value != 0 {
                bits |= bit(Bitmap::BEYOND);
            }
        }
        Ok(Bitmap(bits))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bitmap_is_a_set_of_numbers(
            left in prop::collection::btree_set(0u32..127, 0..20),
            right in prop::collection::btree_set(0u32..127, 0..20),
        ) {
            let bitmap = |set: &BTreeSet<u32>| set.iter().copied().collect::<Bitmap>();
            let (a, b) = (bitmap(&left), bitmap(&right));
            prop_assert!(a.iter().eq(left.iter().copied()));
            prop_assert_eq!(a.len() as usize, left.len());
            prop_assert_eq!(a | b, bitmap(&(&left | &right)));
            prop_assert_eq!(a & b, bitmap(&(&left & &right)));
            prop_assert_eq!(a - b, bitmap(&(&left - &right)));
            prop_assert_eq!(a.contains_all(b), left.is_superset(&right));
            prop_assert_eq!(a.intersects(b), !left.is_disjoint(&right));
            prop_assert_eq!(xdr::from_bytes::<Bitmap>(xdr::to_bytes(&a)).unwrap(), a);
        }
    }

    #[test]
    fn the_wire_form_has_no_trailing_zero_words() {
        assert_eq!(&xdr::to_bytes(&Bitmap::EMPTY)[..], [0, 0, 0, 0]);
        assert_eq!(&xdr::to_bytes(&Bitmap::of(&[1, 33]))[..], [0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2]);
    }

    #[test]
    fn numbers_nobody_knows_are_kept_as_one() {
        let words: Vec<u32> = vec![1, 0, 0, 0, 0, 8];
        let bitmap: Bitmap = xdr::from_bytes(xdr::to_bytes(&words)).unwrap();
        assert_eq!(bitmap, Bitmap::of(&[0, Bitmap::BEYOND]));
        assert_eq!(bitmap, Bitmap::of(&[0, 163]));
    }

    #[test]
    fn a_bitmap_of_absurd_length_is_refused() {
        assert!(xdr::from_bytes::<Bitmap>(xdr::to_bytes(&vec![0u32; 65])).is_err());
    }
}
