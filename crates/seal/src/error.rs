use std::io;
use std::path::PathBuf;

use ids::GatewayId;

use crate::KeyFileId;

/// Why sealed bytes did not open. None of these yields any plaintext.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Shorter (or, for fixed-size formats, longer) than any valid encoding.
    #[error("{len} bytes cannot be {what}, which needs {needed}")]
    WrongLength {
        /// What was expected, in words.
        what: &'static str,
        /// The length found.
        len: usize,
        /// The length needed, or the least one.
        needed: usize,
    },
    /// The first bytes are not those of a format that this version knows: garbage, or written by a newer version.
    #[error("byte {byte:#04x} does not start {what}: damaged, or written by a newer version")]
    UnknownFormat {
        /// What was expected, in words.
        what: &'static str,
        /// The format byte found.
        byte: u8,
    },
    /// The format is known but not the suite: damaged, or written by a newer version.
    #[error("unknown cipher suite {suite}: damaged, or written by a newer version")]
    UnknownSuite {
        /// The suite byte found.
        suite: u8,
    },
    /// The key commitment does not match: sealed under another key, or the clear header is damaged.
    #[error("sealed under another key, or its header is damaged")]
    WrongKey,
    /// The tag does not match: damaged, or sealed as something else than was asked for (an older version, another
    /// block, another file, another epoch).
    #[error("authentication failed: damaged, or sealed for another purpose, place or version")]
    Forged,
    /// Authentic, but the content makes no sense: the writer was faulty.
    #[error("authentic but malformed: {what}; the writer was faulty")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// A public key that is none, for example the neutral element.
    #[error("not a usable X25519 public key")]
    BadPublicKey,
}

/// Why a key file cannot be used or made.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Not a key file, or damaged: which line, and what was expected.
    #[error("not a key file: {reason}")]
    Malformed {
        /// What is wrong.
        reason: String,
    },
    /// Written by a newer version.
    #[error("key file version {found} is not supported; this program knows versions 1 and 2")]
    UnknownVersion {
        /// The version found.
        found: String,
    },
    /// All lines are there but do not fit together: a typing or copying error.
    #[error("the key file is damaged: its {field} does not match; use another copy of it")]
    Damaged {
        /// `checksum`, `id` or `opener`.
        field: &'static str,
    },
    /// The key file of another gateway.
    #[error(
        "this key file belongs to gateway {file_gateway} (key {file_id}), but the data says gateway {data_gateway} \
         (key {data_id}); use the key file of that gateway"
    )]
    WrongGateway {
        /// The gateway named by the file.
        file_gateway: GatewayId,
        /// The key id in the file.
        file_id: KeyFileId,
        /// The gateway that the data belongs to.
        data_gateway: GatewayId,
        /// The key id that the data was made with.
        data_id: KeyFileId,
    },
    /// There is one already; key files are never overwritten.
    #[error("{} exists already and is never overwritten; move it away if it is really not needed", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// Others than the owner can read it.
    #[error("{} can be read by others (mode {mode:03o}); run: chmod 600 {}", path.display(), path.display())]
    TooOpen {
        /// The path.
        path: PathBuf,
        /// The permission bits found.
        mode: u32,
    },
    /// The file system refused.
    #[error("cannot {action} key file {}: {source}", path.display())]
    Io {
        /// `read`, `create` or `replace`.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
