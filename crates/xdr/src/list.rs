//! Linked lists (RFC 4506 §4.19): each element follows a `true`, a `false` ends the list.
//!
//! A vector here, so that a long list needs no deep stack. `#[xdr(list)]` on a `Vec` field uses this module; it can
//! also be called directly, for instance to add directory entries to a reply until it is full:
//! `put_bool(true)` and the entry for each, `put_bool(false)` at the end.

use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Writes `elements` as a linked list.
pub fn encode<T: Encode>(elements: &[T], out: &mut Encoder) {
    for element in elements {
        out.put_bool(true);
        element.encode(out);
    }
    out.put_bool(false);
}

/// Reads a linked list; its length is bounded by the input, as every element takes at least 4 bytes.
pub fn decode<T: Decode>(input: &mut Decoder) -> Result<Vec<T>, DecodeError> {
    input.nested(|input| {
        let mut elements = Vec::new();
        while input.bool()? {
            elements.push(T::decode(input)?);
        }
        Ok(elements)
    })
}
