use bytes::{BufMut, Bytes, BytesMut};
use ids::{BlockIndex, BlockShift};
use journal::Lsn;

use crate::FileKey;

const FORMAT: u8 = 1;

/// The longest range of [`DataOp::Zero`]: the rest of a block of the largest size.
pub const MAX_ZERO: u64 = 1 << 24;

/// What a journal attachment does to the dirty data of a file: the attachment's descriptor.
///
/// # Encoding
///
/// Format 1, kind 1, volume 16, object 18 (creator 2, number 16), then by kind, all big-endian:
///
/// | kind | | fields | payload |
/// |---|---|---|---|
/// | 1 | write | shift 1, offset 8 | the bytes |
/// | 2 | zero | shift 1, offset 8, length 8 | none |
/// | 3 | discard | offset 8, length 8 | none |
/// | 4 | cleaned | shift 1, block 8, up-to LSN 8 | none |
/// | 5 | forget | | none |
/// | 6 | moved | shift 1, offset 8, length 8, LSN 8 | the bytes, or none: zeros |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataOp {
    /// The payload is the new content from `offset`.
    Write {
        /// Of which file.
        file: FileKey,
        /// The file's block size.
        shift: BlockShift,
        /// Where the payload goes.
        offset: u64,
    },
    /// The range reads as zeros from now on and is dirty, like a write of zeros. Meant for parts of blocks that have
    /// stored content: the tail of the last block after a truncation, the edges of a punched hole.
    Zero {
        /// Of which file.
        file: FileKey,
        /// The file's block size.
        shift: BlockShift,
        /// First byte.
        offset: u64,
        /// At most [`MAX_ZERO`].
        length: u64,
    },
    /// Dirty data of the range is dropped; what the block map says shows through. For truncation (to `u64::MAX`)
    /// and for the whole blocks of a punched hole, whose map entries become holes in the same transaction.
    Discard {
        /// Of which file.
        file: FileKey,
        /// First byte.
        offset: u64,
        /// Bytes; a range beyond the largest offset ends there.
        length: u64,
    },
    /// The content of the block up to and including `up_to` is stored in the clouds under a version that this
    /// very transaction commits. Newer writes stay dirty.
    Cleaned {
        /// Of which file.
        file: FileKey,
        /// The file's block size.
        shift: BlockShift,
        /// Which block.
        block: BlockIndex,
        /// [`BlockSnapshot::up_to`](crate::BlockSnapshot::up_to).
        up_to: Lsn,
    },
    /// The file is gone with all its data.
    Forget {
        /// Which file.
        file: FileKey,
    },
    /// What is still dirty of an older record, appended again so that the older one can be released. The content
    /// of the range is, at this place in the order of records, the payload (zeros if there is none), and keeps its
    /// age: it is as old as `of`.
    Moved {
        /// Of which file.
        file: FileKey,
        /// The file's block size.
        shift: BlockShift,
        /// Where the payload goes.
        offset: u64,
        /// Bytes, at most [`MAX_ZERO`].
        length: u64,
        /// The record that brought the bytes first.
        of: Lsn,
    },
}

/// Bytes that are no [`DataOp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DataOpError {
    /// Written by a newer version.
    #[error("format {0} is not known")]
    Format(u8),
    /// No such kind.
    #[error("kind {0} is not known")]
    Kind(u8),
    /// Too short or too long for its kind.
    #[error("{0} bytes are not the length of its kind")]
    Length(usize),
    /// A number out of its range.
    #[error("{0} is out of range")]
    Range(&'static str),
}

impl DataOp {
    /// Drops dirty data from `size` on. A cut inside a block that has stored content needs [`DataOp::Zero`] from
    /// `size` to the end of the block as well, in the same transaction and after this one.
    pub fn truncate(file: FileKey, size: u64) -> DataOp {
        DataOp::Discard { file, offset: size, length: u64::MAX }
    }

    /// The file concerned.
    pub fn file(&self) -> FileKey {
        match *self {
            DataOp::Write { file, .. }
            | DataOp::Zero { file, .. }
            | DataOp::Discard { file, .. }
            | DataOp::Cleaned { file, .. }
            | DataOp::Forget { file }
            | DataOp::Moved { file, .. } => file,
        }
    }

    /// The descriptor of a journal attachment.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(2 + FileKey::LEN + 25);
        out.put_u8(FORMAT);
        out.put_u8(match self {
            DataOp::Write { .. } => 1,
            DataOp::Zero { .. } => 2,
            DataOp::Discard { .. } => 3,
            DataOp::Cleaned { .. } => 4,
            DataOp::Forget { .. } => 5,
            DataOp::Moved { .. } => 6,
        });
        out.put_slice(&self.file().to_bytes());
        match *self {
            DataOp::Write { shift, offset, .. } => {
                out.put_u8(shift.get());
                out.put_u64(offset);
            }
            DataOp::Zero { shift, offset, length, .. } => {
                out.put_u8(shift.get());
                out.put_u64(offset);
                out.put_u64(length);
            }
            DataOp::Discard { offset, length, .. } => {
                out.put_u64(offset);
                out.put_u64(length);
            }
            DataOp::Cleaned { shift, block, up_to, .. } => {
                out.put_u8(shift.get());
                out.put_u64(block.0);
                out.put_u64(up_to.0);
            }
            DataOp::Forget { .. } => {}
            DataOp::Moved { shift, offset, length, of, .. } => {
                out.put_u8(shift.get());
                out.put_u64(offset);
                out.put_u64(length);
                out.put_u64(of.0);
            }
        }
        out.freeze()
    }

    /// The inverse of [`DataOp::encode`]; strict, and safe on any bytes.
    pub fn decode(bytes: &[u8]) -> Result<DataOp, DataOpError> {
        let wrong = DataOpError::Length(bytes.len());
        let (&[format, kind], rest) = bytes.split_first_chunk().ok_or(wrong)?;
        if format != FORMAT {
            return Err(DataOpError::Format(format));
        }
        let (file, rest) = rest.split_first_chunk::<{ FileKey::LEN }>().ok_or(wrong)?;
        let file = FileKey::from_bytes(file);
        let mut fields = Fields { rest, wrong };
        let op = match kind {
            1 => DataOp::Write { file, shift: fields.shift()?, offset: fields.number()? },
            2 => {
                let op = (fields.shift()?, fields.number()?, fields.number()?);
                if op.2 > MAX_ZERO {
                    return Err(DataOpError::Range("the length of a zeroed range"));
                }
                DataOp::Zero { file, shift: op.0, offset: op.1, length: op.2 }
            }
            3 => DataOp::Discard { file, offset: fields.number()?, length: fields.number()? },
            4 => {
                let (shift, block) = (fields.shift()?, BlockIndex(fields.number()?));
                if block.0 > u64::MAX >> shift.get() {
                    return Err(DataOpError::Range("the block index"));
                }
                DataOp::Cleaned { file, shift, block, up_to: Lsn(fields.number()?) }
            }
            5 => DataOp::Forget { file },
            6 => {
                let (shift, offset) = (fields.shift()?, fields.number()?);
                let (length, of) = (fields.number()?, Lsn(fields.number()?));
                if length > MAX_ZERO {
                    return Err(DataOpError::Range("the length of moved data"));
                }
                DataOp::Moved { file, shift, offset, length, of }
            }
            other => return Err(DataOpError::Kind(other)),
        };
        if fields.rest.is_empty() { Ok(op) } else { Err(wrong) }
    }
}

struct Fields<'a> {
    rest: &'a [u8],
    wrong: DataOpError,
}

impl Fields<'_> {
    fn number(&mut self) -> Result<u64, DataOpError> {
        let (number, rest) = self.rest.split_first_chunk().ok_or(self.wrong)?;
        self.rest = rest;
        Ok(u64::from_be_bytes(*number))
    }

    fn shift(&mut self) -> Result<BlockShift, DataOpError> {
        let (&shift, rest) = self.rest.split_first().ok_or(self.wrong)?;
        self.rest = rest;
        BlockShift::new(shift).ok_or(DataOpError::Range("the block shift"))
    }
}

#[cfg(test)]
mod tests {
    use ids::{GatewayId, ObjectId, ObjectNumber, VolumeId};
    use proptest::prelude::*;

    use super::*;

    fn any_op() -> impl Strategy<Value = DataOp> {
        let file = any::<(u128, u16, u128)>().prop_map(|(volume, creator, number)| FileKey {
            volume: VolumeId(volume),
            object: ObjectId { creator: GatewayId(creator), number: ObjectNumber(number) },
        });
        let shift = (16_u8..=24).prop_map(|s| BlockShift::new(s).unwrap());
        (file, shift, any::<u64>(), any::<u64>(), 0..6).prop_map(|(file, shift, a, b, kind)| match kind {
            0 => DataOp::Write { file, shift, offset: a },
            1 => DataOp::Zero { file, shift, offset: a, length: b % (MAX_ZERO + 1) },
            2 => DataOp::Discard { file, offset: a, length: b },
            3 => DataOp::Cleaned { file, shift, block: BlockIndex(a >> 24), up_to: Lsn(b) },
            4 => DataOp::Forget { file },
            _ => DataOp::Moved { file, shift, offset: a, length: b % (MAX_ZERO + 1), of: Lsn(a ^ b) },
        })
    }

    proptest! {
        #[test]
        fn operations_round_trip(op in any_op()) {
            prop_assert_eq!(DataOp::decode(&op.encode()), Ok(op));
        }

        #[test]
        fn no_bytes_panic_and_what_decodes_encodes_the_same(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(op) = DataOp::decode(&bytes) {
                prop_assert_eq!(&op.encode()[..], &bytes[..]);
            }
        }

        #[test]
        fn a_cut_or_extended_encoding_is_refused(op in any_op(), cut in 0_usize..50) {
            let bytes = op.encode();
            prop_assume!(cut < bytes.len());
            prop_assert!(DataOp::decode(&bytes[..cut]).is_err());
            prop_assert!(DataOp::decode(&[&bytes[..], b"x"].concat()).is_err());
        }
    }
}
