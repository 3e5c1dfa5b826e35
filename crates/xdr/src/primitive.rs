//! Integers, booleans, opaques, strings, optionals and boxes.

use bytes::Bytes;

use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

macro_rules! word {
    ($($type:ident $put:ident;)*) => {$(
        impl Encode for $type {
            #[inline]
            fn encode(&self, out: &mut Encoder) {
                out.$put(*self);
            }
        }

        impl Decode for $type {
            #[inline]
            fn decode(input: &mut Decoder) -> Result<$type, DecodeError> {
                input.$type()
            }
        }
    )*};
}

word! {
    u32 put_u32;
    i32 put_i32;
    u64 put_u64;
    i64 put_i64;
    bool put_bool;
}

/// `void` (RFC 4506 §4.16): no bytes.
impl Encode for () {
    fn encode(&self, _out: &mut Encoder) {}
}

impl Decode for () {
    fn decode(_input: &mut Decoder) -> Result<(), DecodeError> {
        Ok(())
    }
}

/// Variable-length opaque (RFC 4506 §4.10).
impl Encode for Bytes {
    fn encode(&self, out: &mut Encoder) {
        out.put_opaque(self.clone());
    }
}

/// Bounded by the input only; see [`BoundedOpaque`](crate::BoundedOpaque).
impl Decode for Bytes {
    fn decode(input: &mut Decoder) -> Result<Bytes, DecodeError> {
        input.opaque(usize::MAX)
    }
}

/// Fixed-length opaque (RFC 4506 §4.9).
impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, out: &mut Encoder) {
        out.put_fixed(self);
    }
}

impl<const N: usize> Decode for [u8; N] {
    fn decode(input: &mut Decoder) -> Result<[u8; N], DecodeError> {
        input.fixed()
    }
}

/// String (RFC 4506 §4.11).
impl Encode for String {
    fn encode(&self, out: &mut Encoder) {
        out.put_opaque_slice(self.as_bytes());
    }
}

/// Must be UTF-8. File names need not be: those are `Bytes`.
impl Decode for String {
    fn decode(input: &mut Decoder) -> Result<String, DecodeError> {
        let position = input.position();
        let data = input.opaque(usize::MAX)?;
        match std::str::from_utf8(&data) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(DecodeError::InvalidUtf8 { position }),
        }
    }
}

/// Optional data (RFC 4506 §4.19).
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Encoder) {
        out.put_bool(self.is_some());
        if let Some(value) = self {
            value.encode(out);
        }
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(input: &mut Decoder) -> Result<Option<T>, DecodeError> {
        if input.bool()? { Ok(Some(T::decode(input)?)) } else { Ok(None) }
    }
}

/// As the value itself; what lets a type contain itself.
impl<T: Encode + ?Sized> Encode for Box<T> {
    fn encode(&self, out: &mut Encoder) {
        (**self).encode(out);
    }
}

impl<T: Decode> Decode for Box<T> {
    fn decode(input: &mut Decoder) -> Result<Box<T>, DecodeError> {
        Ok(Box::new(input.nested(T::decode)?))
    }
}

/// As the value itself.
impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, out: &mut Encoder) {
        (**self).encode(out);
    }
}
