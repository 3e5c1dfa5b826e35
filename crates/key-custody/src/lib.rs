//! Keys that people keep: as words on paper, and as shares of which some are enough.
//!
//! [`words`] writes a [`KeyFile`](seal::KeyFile) in words of the English list of BIP-39, whose words differ in their first four letters;
//! [`key_of_words`] reads them. [`split`] makes `n` [`Share`]s of it, any `k` of which [`combine`] makes the key from again, while fewer
//! tell nothing about it: Shamir's scheme over GF(256), of crate `vsss-rs`. A share is a text with a checksum, and can be written in words, too.
//!
//! What it is not: it reads and writes no files, and does not know what a key is for. Checksums find errors of typing and copying; they
//! do not tell who wrote something.
//!
//! ```
//! use environment::SystemEntropy;
//! use ids::GatewayId;
//! use key_custody::{Share, combine, key_of_words, split, words};
//! use seal::KeyFile;
//!
//! let entropy = SystemEntropy::new();
//! let key = KeyFile::generate(GatewayId(1), &entropy);
//! assert_eq!(key_of_words(&words(&key).join(" "))?, key);
//!
//! let shares = split(&key, 2, 3, &entropy)?;
//! let read: Vec<Share> = [&shares[2], &shares[0]].iter().map(|share| Share::parse(&share.to_text())).collect::<Result<_, _>>()?;
//! assert_eq!(combine(&read)?, key);
//! assert!(combine(&read[..1]).is_err());
//! # Ok::<(), key_custody::CustodyError>(())
//! ```
//!
//! # Formats
//!
//! **Words**: `kind 1 ‖ body ‖ checksum 4`, then zero bits up to a multiple of 11, each 11 bits one word by its number in the list. Checksum: first
//! bytes of `BLAKE3.derive_key("kurma 2026 words", kind ‖ body)`. Words may be cut to four letters; numbers between them mean nothing.
//!
//! | kind | body |
//! |---|---|
//! | 1 | a key: its bytes, below |
//! | 2 | a share: set 4, needed 1, total 1, number 1, gateway 2, key file id 16, value |
//!
//! **Bytes of a key**: version 1, gateway 2, secret 32; of version 2 also generation 4, opener 32 (crate `seal`).
//!
//! **Share**, lines of `name = value` in this order, with `#` comments and blank lines between them: `kurma-key-share = 1`, `gateway`, `id` (of the key file),
//! `set` (8 hexadecimal digits, random: which shares belong together), `share = NUMBER of TOTAL`, `needed`, `value` (hexadecimal) and `checksum`: the first 8 bytes of BLAKE3
//! over the lines before, each ended by one newline, in hexadecimal.
//!
//! **What is split**: the bytes of the key, then the first 8 bytes of `BLAKE3.derive_key("kurma 2026 key shares", set 4 ‖ bytes)`, by which shares are known that do not belong
//! together. Byte i of a value is a polynomial of degree `needed - 1` over GF(2^8) (polynomial 0x11b) at NUMBER, whose value at 0 is byte i of that.

#![deny(missing_docs)]

mod error;
mod share;
mod split;
mod wording;

pub use error::CustodyError;
pub use share::{Share, ShareSet};
pub use split::{MAX_SHARES, combine, split};
pub use wording::{key_of_words, words};
