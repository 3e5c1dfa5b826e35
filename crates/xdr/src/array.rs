//! Variable-length arrays (RFC 4506 §4.13).

use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

impl<T: Encode> Encode for [T] {
    fn encode(&self, out: &mut Encoder) {
        out.put_length(self.len());
        for element in self {
            element.encode(out);
        }
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Encoder) {
        self.as_slice().encode(out);
    }
}

/// Bounded by the input only; see [`BoundedVec`](crate::BoundedVec).
impl<T: Decode> Decode for Vec<T> {
    fn decode(input: &mut Decoder) -> Result<Vec<T>, DecodeError> {
        decode_at_most(usize::MAX, input)
    }
}

/// An array of at most `limit` elements. Memory is reserved for no more than the input has bytes left; beyond that
/// it grows with the elements that are really there.
pub(crate) fn decode_at_most<T: Decode>(limit: usize, input: &mut Decoder) -> Result<Vec<T>, DecodeError> {
    let length = input.array_length(limit)?;
    let reserve = length.min(input.remaining() / size_of::<T>().max(1));
    input.nested(|input| {
        let mut elements = Vec::with_capacity(reserve);
        for _ in 0..length {
            let position = input.position();
            elements.push(T::decode(input)?);
            if input.position() == position {
                return Err(DecodeError::EmptyElement { position });
            }
        }
        Ok(elements)
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use crate::{DecodeError, from_bytes, to_bytes};

    #[test]
    fn an_array_longer_than_the_input_is_refused_before_memory_is_reserved() {
        let wire = to_bytes(&vec![1u32, 2, 3]);
        assert_eq!(from_bytes::<Vec<u32>>(wire.clone()).unwrap(), [1, 2, 3]);
        assert_eq!(
            from_bytes::<Vec<u64>>(wire),
            Err(DecodeError::UnexpectedEnd { position: 12, needed: 8, remaining: 4 })
        );
        let wire = Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        assert_eq!(
            from_bytes::<Vec<u64>>(wire),
            Err(DecodeError::TooLong { position: 0, length: 0x7fff_ffff, limit: 1 })
        );
    }

    #[test]
    fn elements_without_bytes_are_refused() {
        let wire = Bytes::from_static(&[0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(from_bytes::<Vec<()>>(wire), Err(DecodeError::EmptyElement { position: 4 }));
    }
}
