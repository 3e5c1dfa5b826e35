//! Derive macros for the `xdr` crate, which re-exports them; use that crate.

#![deny(missing_docs)]

mod decode;
mod encode;
mod shape;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

use crate::shape::Shape;

/// Derives `xdr::Encode`.
///
/// # Structures
///
/// Fields follow each other (RFC 4506 §4.14). `#[xdr(list)]` on a `Vec` field makes it a linked list instead of a
/// counted array.
///
/// ```
/// use bytes::Bytes;
/// use xdr::{Decode, Encode};
///
/// #[derive(Debug, PartialEq, Encode, Decode)]
/// struct Listing {
///     #[xdr(list)]
///     names: Vec<Bytes>,
///     end: bool,
/// }
///
/// let listing = Listing { names: vec![Bytes::from_static(b"a")], end: true };
/// let wire = xdr::to_bytes(&listing);
/// assert_eq!(wire[..], [0, 0, 0, 1, 0, 0, 0, 1, b'a', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
/// assert_eq!(xdr::from_bytes::<Listing>(wire), Ok(listing));
/// ```
///
/// # Enumerations
///
/// Variants without fields (RFC 4506 §4.3). Decoding an unknown value is an error, unless the variant
/// `#[xdr(other)]` takes it. `u32::from(value)` gives the number.
///
/// ```
/// use xdr::{Decode, Encode};
///
/// #[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
/// #[repr(u32)]
/// enum Status {
///     Ok = 0,
///     NotFound = 2,
///     #[xdr(other)]
///     Other(u32),
/// }
///
/// assert_eq!(u32::from(Status::NotFound), 2);
/// assert_eq!(xdr::from_bytes(xdr::to_bytes(&2u32)), Ok(Status::NotFound));
/// assert_eq!(xdr::from_bytes(xdr::to_bytes(&99u32)), Ok(Status::Other(99)));
/// assert_eq!(xdr::to_bytes(&Status::Other(99)), xdr::to_bytes(&99u32));
/// ```
///
/// # Unions
///
/// One variant per arm (RFC 4506 §4.15), with `#[xdr(discriminant = …)]`: a number, a constant, or the value of an
/// enumeration without `other`. `#[xdr(default)]` takes everything else; its first field is the discriminant
/// itself, of type `u32` or of any enumeration type. A default without fields can be decoded but not encoded.
///
/// ```
/// use xdr::{Decode, Encode};
/// # #[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
/// # #[repr(u32)]
/// # enum Status { Ok = 0, NotFound = 2, #[xdr(other)] Other(u32) }
///
/// #[derive(Debug, PartialEq, Encode, Decode)]
/// enum Outcome {
///     #[xdr(discriminant = 0)]
///     Ok { size: u64 },
///     #[xdr(default)]
///     Failed(Status),
/// }
///
/// assert_eq!(xdr::from_bytes(xdr::to_bytes(&(2u32))), Ok(Outcome::Failed(Status::NotFound)));
/// assert_eq!(xdr::to_bytes(&Outcome::Ok { size: 3 })[..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
/// ```
#[proc_macro_derive(Encode, attributes(xdr))]
pub fn derive_encode(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    Shape::parse(&input)
        .and_then(|shape| encode::expand(&input.ident, &shape))
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}

/// Derives `xdr::Decode`; shapes and attributes are those of [`macro@Encode`].
#[proc_macro_derive(Decode, attributes(xdr))]
pub fn derive_decode(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    Shape::parse(&input)
        .map(|shape| decode::expand(&input.ident, &shape))
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}
