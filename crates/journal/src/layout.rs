//! The bytes of a segment; the crate's front page has the tables.
use seal::{NodeKey, SegmentKey};

use crate::sealing::{TAG, open_in_place};
use crate::{JournalError, Lsn};

/// Batches and run headers begin at multiples of this, so that no write ever touches a block that holds durable
/// data: a torn write damages only what nobody was promised.
pub(crate) const BLOCK: u64 = 4096;
/// Both copies of a run header.
pub(crate) const RUN_HEADER: u64 = 2 * BLOCK;
/// A sealed batch head.
pub(crate) const BATCH_HEAD: u64 = 48 + TAG as u64;
/// Bytes at the end of a segment that are kept for one copy of the header that says that the next one has been begun.
pub(crate) const MARK: u64 = BLOCK;
/// Clear lengths in front of a record's sealed body.
pub(crate) const RECORD_LENGTHS: u64 = 8;
/// Plaintext of one payload chunk.
pub(crate) const CHUNK: u64 = 64 << 10;
/// The format that this version writes, and the newest that it reads.
pub(crate) const FORMAT: u32 = 1;

const MAGIC: &[u8; 8] = b"KURMAJNL";
const CLEAR: usize = 72;
const SEALED: usize = 24;
const CHECKED: usize = CLEAR + SEALED + TAG;
const HEADER: usize = CHECKED + 8;

/// Associated data of a batch head.
const HEAD_AAD: &[u8] = b"batch";
/// Associated data of a payload chunk.
pub(crate) const CHUNK_AAD: &[u8] = b"payload";

/// Bytes on disk of a payload of `length` bytes.
pub(crate) fn sealed_payload(length: u64) -> u64 {
    length + length.div_ceil(CHUNK) * TAG as u64
}

/// Bytes of segment space that a record of `length` bytes may take: it may have to open a batch of its own.
pub(crate) fn record_space(length: u64) -> u64 {
    (BATCH_HEAD + length).next_multiple_of(BLOCK)
}

/// The start of a run: a stretch of a segment written by one process under one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunHeader {
    /// Size of the segment file.
    pub segment_bytes: u64,
    /// Sequence number of the segment. That of one whose first write was torn is given again.
    pub segment: u64,
    /// Number of the run, counted through the whole life of the journal.
    pub run: u64,
    /// Random; makes the run's key.
    pub salt: [u8; 32],
    /// Number of the first record of the run.
    pub first_lsn: Lsn,
    /// Where the run before this one ends: in this segment, or in the segment before when this run opens it.
    pub previous_end: u64,
    /// Oldest segment that is still needed.
    pub oldest_segment: u64,
}

/// What stands where a run header may stand.
pub(crate) enum Found {
    Header(RunHeader, SegmentKey),
    /// Intact, under another key.
    OtherKey,
    /// Of a newer version.
    Newer(u32),
    Nothing,
}

impl RunHeader {
    /// Both copies, for the offset `at` of the first.
    pub(crate) fn encode(&self, key: &SegmentKey, at: u64) -> Vec<u8> {
        let mut out = vec![0; RUN_HEADER as usize];
        for copy in [0, BLOCK] {
            let block = &mut out[copy as usize..];
            block[..8].copy_from_slice(MAGIC);
            block[8..12].copy_from_slice(&FORMAT.to_be_bytes());
            block[16..24].copy_from_slice(&self.segment_bytes.to_be_bytes());
            block[24..32].copy_from_slice(&self.segment.to_be_bytes());
            block[32..40].copy_from_slice(&self.run.to_be_bytes());
            block[40..72].copy_from_slice(&self.salt);
            let (clear, rest) = block.split_at_mut(CLEAR);
            rest[..8].copy_from_slice(&self.first_lsn.0.to_be_bytes());
            rest[8..16].copy_from_slice(&self.previous_end.to_be_bytes());
            rest[16..24].copy_from_slice(&self.oldest_segment.to_be_bytes());
            let tag = key.seal_at(at + copy, clear, &mut rest[..SEALED]);
            rest[SEALED..SEALED + TAG].copy_from_slice(&tag);
            let check = checksum(&block[..CHECKED]);
            block[CHECKED..HEADER].copy_from_slice(&check);
        }
        out
    }

    /// Reads one copy, which stands at offset `at`.
    pub(crate) fn decode(block: &[u8], node: &NodeKey, at: u64) -> Found {
        let Some(header) = block.get(..HEADER) else { return Found::Nothing };
        if &header[..8] != MAGIC || checksum(&header[..CHECKED]) != header[CHECKED..] {
            return Found::Nothing;
        }
        let format = u32::from_be_bytes(array(&header[8..]));
        if format > FORMAT {
            return Found::Newer(format);
        }
        let salt: [u8; 32] = array(&header[40..]);
        let key = SegmentKey::derive(node, "journal", &salt);
        let mut sealed = [0; SEALED + TAG];
        sealed.copy_from_slice(&header[CLEAR..CHECKED]);
        let Some(plain) = open_in_place(&key, at, &header[..CLEAR], &mut sealed) else {
            return Found::OtherKey;
        };
        let header = RunHeader {
            segment_bytes: number(&header[16..]),
            segment: number(&header[24..]),
            run: number(&header[32..]),
            salt,
            first_lsn: Lsn(number(plain)),
            previous_end: number(&plain[8..]),
            oldest_segment: number(&plain[16..]),
        };
        Found::Header(header, key)
    }
}

/// The start of a batch: what one sync made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchHead {
    /// Position in the run, from 0.
    pub number: u64,
    /// Number of the first record.
    pub first_lsn: Lsn,
    /// Bytes of the batch, its head included.
    pub length: u64,
    /// Records in it; none when it only tells that segments are no longer needed.
    pub records: u32,
    /// Oldest segment that is still needed.
    pub oldest_segment: u64,
}

impl BatchHead {
    pub(crate) fn encode(&self, key: &SegmentKey, at: u64) -> [u8; BATCH_HEAD as usize] {
        let mut out = [0; BATCH_HEAD as usize];
        out[..8].copy_from_slice(&self.number.to_be_bytes());
        out[8..16].copy_from_slice(&self.first_lsn.0.to_be_bytes());
        out[16..24].copy_from_slice(&self.length.to_be_bytes());
        out[24..32].copy_from_slice(&u64::from(self.records).to_be_bytes());
        out[32..40].copy_from_slice(&self.oldest_segment.to_be_bytes());
        let tag = key.seal_at(at, HEAD_AAD, &mut out[..48]);
        out[48..].copy_from_slice(&tag);
        out
    }

    pub(crate) fn decode(bytes: &[u8], key: &SegmentKey, at: u64) -> Option<BatchHead> {
        let mut sealed = [0; BATCH_HEAD as usize];
        sealed.copy_from_slice(bytes.get(..BATCH_HEAD as usize)?);
        let plain = open_in_place(key, at, HEAD_AAD, &mut sealed)?;
        Some(BatchHead {
            number: number(plain),
            first_lsn: Lsn(number(&plain[8..])),
            length: number(&plain[16..]),
            records: u32::try_from(number(&plain[24..])).ok()?,
            oldest_segment: number(&plain[32..]),
        })
    }
}

/// Associated data of a record's sealed body: its clear lengths and its number.
pub(crate) fn record_aad(body: u32, payloads: u32, lsn: Lsn) -> [u8; 16] {
    let mut aad = [0; 16];
    aad[..4].copy_from_slice(&body.to_be_bytes());
    aad[4..8].copy_from_slice(&payloads.to_be_bytes());
    aad[8..].copy_from_slice(&lsn.0.to_be_bytes());
    aad
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    array(blake3::hash(bytes).as_bytes())
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[..N]);
    out
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(array(bytes))
}

impl Found {
    /// The header, if there is one; an error when a newer version wrote it.
    pub(crate) fn header(
        self,
        path: &std::path::Path,
    ) -> Result<Option<(RunHeader, SegmentKey)>, JournalError> {
        match self {
            Found::Header(header, key) => Ok(Some((header, key))),
            Found::Newer(found) => {
                Err(JournalError::NewerFormat { path: path.to_owned(), found, known: FORMAT })
            }
            Found::OtherKey | Found::Nothing => Ok(None),
        }
    }
}
