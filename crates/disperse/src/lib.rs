//! Dispersal: what each of several clouds stores of a sealed block (decision D5).
//!
//! A [`Scheme`] says how many fragments a block becomes and how many of them bring it back: `replicas:n` (any one
//! of n) or `rs:k+m` (any k of k + m, Reed-Solomon). [`split`] makes the [`Fragment`]s, [`join`] brings the block
//! back, [`rebuild`] makes one lost fragment anew. Every fragment carries a keyed checksum, so a cloud that lies
//! is found by [`Fragment::verify`], before decoding, by name; only a [`VerifiedFragment`] can be joined.
//!
//! What it is not: it does not encrypt (crate `seal` did that before), does not talk to clouds, and does not choose
//! them. A fragment of Reed-Solomon coding shows a part of what was split, so split only sealed blocks.
//!
//! ```
//! use bytes::Bytes;
//! use disperse::{Fragment, Scheme, join, rebuild, split};
//!
//! let scheme: Scheme = "rs:3+1".parse()?;
//! let block = Bytes::from(vec![7; 1000]);
//! let (key, context) = ([1; 32], b"which block this is");
//!
//! let stored = split(scheme, &block, &key, context);
//! assert_eq!(stored.len(), 4);
//! // The cloud with fragment 0 is down; the others give back what they have.
//! let fetched = stored[1..].iter().enumerate().map(|(i, fragment)| {
//!     Fragment::from_bytes(fragment.to_bytes())?.verify(&key, scheme, i as u8 + 1, context)
//! });
//! let fetched: Vec<_> = fetched.collect::<Result<_, _>>()?;
//! assert_eq!(rebuild(&fetched, 0, &key, context)?, stored[0]);
//! assert_eq!(join(fetched)?, block);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Formats
//!
//! All numbers are big-endian. **Fragment**: a header of 32 bytes, then the body.
//!
//! | offset | length | content |
//! |---|---|---|
//! | 0 | 1 | `0xF1`: fragment, format 1 |
//! | 1 | 1 | kind: 1 = replicas, 2 = Reed-Solomon |
//! | 2 | 1 | how many fragments are needed: k, or 1 |
//! | 3 | 1 | how many there are: k + m, or n |
//! | 4 | 1 | which of them this is, from 0 |
//! | 5 | 3 | zero |
//! | 8 | 8 | length of the block that was split |
//! | 16 | 16 | checksum |
//! | 32 | - | body |
//!
//! The checksum is the first 16 bytes of BLAKE3 keyed with
//! `BLAKE3.derive_key("kurma 2026 fragment checksum", fragment key)` over the first 16 bytes of the header ‖ the
//! context ‖ BLAKE3 keyed with the fragment key over the body. (Two steps, so that the body of all replicas is
//! hashed once.) For blocks of files, the context is the 56-byte block identity of crate `seal`, which thereby
//! also rejects fragments of older versions.
//!
//! **Body**: for replicas the whole block. For `rs:k+m` and a block of L bytes, shards of S = ceil(L / k) bytes:
//! body i < k holds bytes i * S to (i + 1) * S of the block, cut off at L (missing bytes count as zero and are not
//! stored); body k + j holds parity shard j in full: the sum over i of a(k + j, i) * shard(i) in GF(2^8) with the
//! polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d), where a(r, i) = 1 / (r xor i). That is the matrix of ISA-L's
//! `gf_gen_cauchy1_matrix`; every k rows of it can be inverted.

#![deny(missing_docs)]

mod code;
mod fragment;
mod gf256;
mod kernel;
mod matrix;
mod reed_solomon;
mod scheme;

pub use code::{JoinError, join, rebuild, split};
pub use fragment::{BadFragment, Fragment, HEADER_LEN, VerifiedFragment};
pub use scheme::{Scheme, SchemeError};
