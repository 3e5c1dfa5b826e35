//! Dispersal: what each of several clouds stores of a sealed block (decision D5).
//!
//! A [`Scheme`] says how many fragments a block becomes and how many of them bring it back: `replicas:n` (any one
//! of n), `rs:k+m` (any k of k + m, Reed-Solomon), `aont-rs:k+m` (as that, and fewer than k say nothing) or `caont-rs:k+m` (as
//! that, and equal blocks have equal fragments). [`split`] makes the [`Fragment`]s, [`join`] brings the block
//! back, [`rebuild`] makes one lost fragment anew. Every fragment carries a keyed checksum, so a cloud that lies
//! is found by [`Fragment::verify`], before decoding, by name; only a [`VerifiedFragment`] can be joined. A part of a block
//! can be had without the rest ([`locate`], [`join_columns`]); whoever reads it like that proves it himself.
//!
//! What it is not: it does not encrypt (crate `seal` did that before), does not talk to clouds, and does not choose
//! them. A fragment of Reed-Solomon coding shows a part of what was split, and k of any scheme show all of it, so split only
//! sealed blocks.
//!
//! ```
//! use bytes::Bytes;
//! use disperse::{Fragment, Scheme, SplitKeys, join, rebuild, split};
//!
//! let scheme: Scheme = "rs:3+1".parse()?;
//! let block = Bytes::from(vec![7; 1000]);
//! let (key, context) = ([1; 32], b"which block this is");
//! let keys = SplitKeys { checksum: &key, convergence: &[2; 32] };
//!
//! let stored = split(scheme, &block, keys, context, &environment::SystemEntropy::new());
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
//! | 0 | 1 | format: `0xF1` of kinds 1 and 2, `0xF2` of kinds 3 and 4 |
//! | 1 | 1 | kind: 1 = replicas, 2 = Reed-Solomon, 3 = AONT-RS, 4 = CAONT-RS |
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
//! context ‖ what stands for the body. In format `0xF1` that is BLAKE3 keyed with the fragment key over the body. (Two steps,
//! so that the body of all replicas is hashed once.) In `0xF2` it is D ‖ E, the *share digest* of the body:
//!
//! - D = `BLAKE3.derive_key("kurma 2026 share digest", the body without its last 32 bytes)`,
//! - E = the last 32 bytes of the body.
//!
//! For blocks of files, the context begins with the 56-byte block identity of crate `seal`, which thereby
//! also rejects fragments of older versions.
//!
//! **Body**: for replicas the whole block. For `rs:k+m` and a block of L bytes, shards of S = ceil(L / k) bytes:
//! body i < k holds bytes i * S to (i + 1) * S of the block, cut off at L (missing bytes count as zero and are not
//! stored); body k + j holds parity shard j in full: the sum over i of a(k + j, i) * shard(i) in GF(2^8) with the
//! polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d), where a(r, i) = 1 / (r xor i). That is the matrix of ISA-L's
//! `gf_gen_cauchy1_matrix`; every k rows of it can be inverted.
//!
//! **Package** (`aont-rs:k+m`, `caont-rs:k+m`): a block of L bytes becomes one of k * S bytes, S = max(ceil((L + 48) / k), 32),
//! and that is divided and coded as above.
//!
//! | offset | length | content |
//! |---|---|---|
//! | 0 | k * S - 48 | C: block and zeros, encrypted by AES-256-GCM under the package key, nonce zero, no associated data |
//! | k * S - 48 | 16 | T: the tag of that |
//! | k * S - 32 | 32 | package key xor `BLAKE3.derive_key("kurma 2026 package digest", P)` |
//!
//! P is the share digests of the k data shards, one after the other, without the E of the last, which is the masked key
//! itself: 64 * k - 32 bytes. All of C ‖ T is in it, either hashed or as it is, and the checksums need the same digests.
//!
//! The package key of `aont-rs` is random, drawn for each split. That of `caont-rs` is BLAKE3 keyed with
//! `BLAKE3.derive_key("kurma 2026 convergent package key", convergence secret)` over the block: the same key never encrypts
//! two blocks.
//!
//! # What fewer than k fragments say
//!
//! Any k - 1 fragments (r = k - 1 of the secret-sharing literature, `K31`) are k - 1 linear combinations of k parts; one part, of
//! at least 32 bytes, is missing. The package key is the masked key xor the digest of P, and each part holds 32 bytes that are
//! one or the other without being hashed first: the E of the last part is the masked key, those of the others are in P. A part
//! that is little longer than 32 bytes has a D that can be guessed, but its E is 256 bits of the output of a cipher under an
//! unknown key, or of a key behind a mask. Without it the package key is not known, and without that C is noise. To get
//! further takes a guess of 256 bits, each checked with one digest or one decryption. So, as far as AES-256 and BLAKE3 are what
//! they are taken for (it is computational security, not that of Shamir's scheme):
//!
//! - `aont-rs`: k - 1 fragments say nothing of the block but its length, not even to one who has all keys of the
//!   gateway and can name a few blocks of which it is one. With k fragments and no keys there is still the sealed block.
//! - `caont-rs`: the same for everybody without the convergence secret, though he sees which blocks are equal. One who has the
//!   secret *and* can name the block can tell that it is that one, from a single fragment.
//! - `rs`, `replicas`: fragments are parts of the sealed block; what protects them is the seal alone, and whoever has the
//!   file's key reads the part that he has.
//!
//! # What a checksum proves
//!
//! That whoever has the fragment key made it for this header, context and body. Who does not have the key guesses 128 bits, online.
//! In format `0xF2` he could also look for another body with the same share digest, offline, as D has no key: that is a second
//! preimage of BLAKE3, 2^256 digests; or, if he could choose what is split and foresee the shares, a collision, 2^128.

#![deny(missing_docs)]

mod code;
mod columns;
mod fragment;
mod gf256;
mod kernel;
mod matrix;
mod package;
pub mod reed_solomon;
mod scheme;
#[cfg(test)]
mod secrecy;
mod share_digest;

pub use code::{JoinError, SplitKeys, join, rebuild, split};
pub use columns::{Part, join_columns, locate, stored_range};
pub use fragment::{BadFragment, Fragment, HEADER_LEN, VerifiedFragment};
pub use scheme::{Scheme, SchemeError};
