use std::ops::Deref;

use bytes::Bytes;

use crate::array::decode_at_most;
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

/// More bytes or elements than the type may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("length {length} is above the limit of {limit}")]
pub struct TooLong {
    /// Bytes or elements given.
    pub length: usize,
    /// Bytes or elements allowed.
    pub limit: usize,
}

/// A variable-length opaque of at most `MAX` bytes, `opaque<MAX>` in XDR's own notation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BoundedOpaque<const MAX: usize>(Bytes);

impl<const MAX: usize> BoundedOpaque<MAX> {
    /// Takes `data` if it is short enough.
    pub fn new(data: impl Into<Bytes>) -> Result<BoundedOpaque<MAX>, TooLong> {
        let data = data.into();
        check(data.len(), MAX)?;
        Ok(BoundedOpaque(data))
    }

    /// The content.
    pub fn into_inner(self) -> Bytes {
        self.0
    }
}

impl<const MAX: usize> Deref for BoundedOpaque<MAX> {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.0
    }
}

impl<const MAX: usize> TryFrom<Bytes> for BoundedOpaque<MAX> {
    type Error = TooLong;

    fn try_from(data: Bytes) -> Result<BoundedOpaque<MAX>, TooLong> {
        BoundedOpaque::new(data)
    }
}

impl<const MAX: usize> From<BoundedOpaque<MAX>> for Bytes {
    fn from(bounded: BoundedOpaque<MAX>) -> Bytes {
        bounded.0
    }
}

impl<const MAX: usize> Encode for BoundedOpaque<MAX> {
    fn encode(&self, out: &mut Encoder) {
        self.0.encode(out);
    }
}

impl<const MAX: usize> Decode for BoundedOpaque<MAX> {
    fn decode(input: &mut Decoder) -> Result<BoundedOpaque<MAX>, DecodeError> {
        Ok(BoundedOpaque(input.opaque(MAX)?))
    }
}

/// A variable-length array of at most `MAX` elements, `T<MAX>` in XDR's own notation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BoundedVec<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> BoundedVec<T, MAX> {
    /// Takes `elements` if they are few enough.
    pub fn new(elements: Vec<T>) -> Result<BoundedVec<T, MAX>, TooLong> {
        check(elements.len(), MAX)?;
        Ok(BoundedVec(elements))
    }

    /// The elements.
    pub fn into_inner(self) -> Vec<T> {
        self.0
    }
}

impl<T, const MAX: usize> Default for BoundedVec<T, MAX> {
    fn default() -> BoundedVec<T, MAX> {
        BoundedVec(Vec::new())
    }
}

impl<T, const MAX: usize> Deref for BoundedVec<T, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const MAX: usize> TryFrom<Vec<T>> for BoundedVec<T, MAX> {
    type Error = TooLong;

    fn try_from(elements: Vec<T>) -> Result<BoundedVec<T, MAX>, TooLong> {
        BoundedVec::new(elements)
    }
}

impl<T, const MAX: usize> From<BoundedVec<T, MAX>> for Vec<T> {
    fn from(bounded: BoundedVec<T, MAX>) -> Vec<T> {
        bounded.0
    }
}

impl<T, const MAX: usize> IntoIterator for BoundedVec<T, MAX> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> std::vec::IntoIter<T> {
        self.0.into_iter()
    }
}

impl<'a, T, const MAX: usize> IntoIterator for &'a BoundedVec<T, MAX> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> std::slice::Iter<'a, T> {
        self.0.iter()
    }
}

impl<T: Encode, const MAX: usize> Encode for BoundedVec<T, MAX> {
    fn encode(&self, out: &mut Encoder) {
        self.0.encode(out);
    }
}

impl<T: Decode, const MAX: usize> Decode for BoundedVec<T, MAX> {
    fn decode(input: &mut Decoder) -> Result<BoundedVec<T, MAX>, DecodeError> {
        Ok(BoundedVec(decode_at_most(MAX, input)?))
    }
}

fn check(length: usize, limit: usize) -> Result<(), TooLong> {
    if length > limit { Err(TooLong { length, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{from_bytes, to_bytes};

    #[test]
    fn the_bound_holds_for_what_is_built_and_for_what_is_decoded() {
        let three = BoundedOpaque::<3>::new("abc").unwrap();
        assert_eq!(from_bytes::<BoundedOpaque<3>>(to_bytes(&three)).unwrap(), three);
        assert_eq!(BoundedOpaque::<2>::new("abc"), Err(TooLong { length: 3, limit: 2 }));
        assert_eq!(
            from_bytes::<BoundedOpaque<2>>(to_bytes(&three)),
            Err(DecodeError::TooLong { position: 0, length: 3, limit: 2 })
        );

        let two = BoundedVec::<u32, 2>::new(vec![1, 2]).unwrap();
        assert_eq!(from_bytes::<BoundedVec<u32, 2>>(to_bytes(&two)).unwrap(), two);
        assert_eq!(BoundedVec::<u32, 1>::new(vec![1, 2]), Err(TooLong { length: 2, limit: 1 }));
        assert_eq!(
            from_bytes::<BoundedVec<u32, 1>>(to_bytes(&two)),
            Err(DecodeError::TooLong { position: 0, length: 2, limit: 1 })
        );
    }
}
