//! External Data Representation (RFC 4506) with zero-copy payloads and hard limits.
//!
//! XDR is the byte format of ONC RPC and NFS: big-endian words of 4 bytes, everything padded to 4. This crate
//! turns Rust types into it and back:
//!
//! * [`Encode`] never fails. An [`Encoder`] keeps large payloads by reference, so a megabyte of file data is
//!   never copied on its way to `writev`; it can be rolled back and patched, so a reply can be built while it is
//!   not yet known to fit.
//! * [`Decode`] never panics and never believes a length: what comes from outside is checked against what is
//!   left of the input before anything is allocated. Opaque data is a slice of the input, not a copy.
//! * `#[derive(Encode, Decode)]` covers structures, enumerations and discriminated unions; see [`macro@Encode`].
//!
//! It is not a compiler for `.x` files: types are written in Rust. Floating point is left out, as nothing in NFS
//! uses it.
//!
//! ```
//! use bytes::Bytes;
//! use xdr::{Decode, Encode};
//!
//! #[derive(Debug, PartialEq, Encode, Decode)]
//! #[repr(u32)]
//! enum Kind {
//!     Regular = 1,
//!     Directory = 2,
//! }
//!
//! #[derive(Debug, PartialEq, Encode, Decode)]
//! struct Entry {
//!     cookie: u64,
//!     name: Bytes,
//!     kind: Option<Kind>,
//! }
//!
//! let entry = Entry { cookie: 7, name: Bytes::from_static(b"kurma"), kind: Some(Kind::Directory) };
//! let wire = xdr::to_bytes(&entry);
//! assert_eq!(wire.len(), 8 + 4 + 8 + 4 + 4);
//! assert_eq!(xdr::from_bytes::<Entry>(wire)?, entry);
//! # Ok::<(), xdr::DecodeError>(())
//! ```

#![deny(missing_docs)]

// The derive macros write `::xdr::…`, also in this crate's own tests.
extern crate self as xdr;

mod array;
mod bounded;
mod decoder;
mod encoder;
mod error;
pub mod list;
mod payload;
mod primitive;

use bytes::Bytes;
pub use xdr_derive::{Decode, Encode};

pub use bounded::{BoundedOpaque, BoundedVec, TooLong};
pub use decoder::{Decoder, MAX_DEPTH};
pub use encoder::{Encoder, Mark, SPLICE_THRESHOLD};
pub use error::DecodeError;
pub use payload::Payload;

/// A type with an XDR form.
pub trait Encode {
    /// Appends the XDR form of `self`, always a multiple of 4 bytes.
    fn encode(&self, out: &mut Encoder);
}

/// A type that can be read from its XDR form.
pub trait Decode: Sized {
    /// Reads one value from where `input` stands. After an error the position of `input` is unspecified.
    fn decode(input: &mut Decoder) -> Result<Self, DecodeError>;
}

/// The XDR form of `value` in one piece. Copies the large payloads; use [`Encoder::into_segments`] for those.
pub fn to_bytes<T: Encode + ?Sized>(value: &T) -> Bytes {
    let mut out = Encoder::new();
    value.encode(&mut out);
    out.into_bytes()
}

/// Reads one value that must fill `input` exactly.
pub fn from_bytes<T: Decode>(input: Bytes) -> Result<T, DecodeError> {
    let mut decoder = Decoder::new(input);
    let value = T::decode(&mut decoder)?;
    decoder.finish()?;
    Ok(value)
}
