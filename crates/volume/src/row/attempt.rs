use blocks::SealId;
use bytes::Bytes;
use ids::{BlockIndex, GatewayId, Version};

use super::{BadRow, GarbageVersion, RowReader, RowWriter};

/// Without a policy: that of the file.
const FORMAT_OLD: u8 = 1;
const FORMAT: u8 = 2;

/// Versions in one row.
pub(crate) const MAX_ATTEMPTS: u64 = 1024;

/// Versions of a block that were given to write-backs of one start of the node and are not settled: fragments of
/// them may be in the clouds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptRow {
    pub creator: GatewayId,
    pub seal: SealId,
    pub first: Version,
    /// At least `first`, and less than [`MAX_ATTEMPTS`] above it.
    pub last: Version,
    /// By which policy they are stored; `None` in rows that are older than migrations, of files that have one.
    pub policy: Option<u32>,
}

impl AttemptRow {
    pub fn encode(&self) -> Bytes {
        let mut row = RowWriter::new(if self.policy.is_some() { FORMAT } else { FORMAT_OLD });
        row.number(u64::from(self.creator.0)).fixed(&self.seal.0.to_be_bytes());
        row.number(self.first.0).number(self.last.0 - self.first.0);
        if let Some(policy) = self.policy {
            row.number(u64::from(policy));
        }
        row.finish()
    }

    pub fn decode(row: &[u8]) -> Result<AttemptRow, BadRow> {
        let is_old = row.first() == Some(&FORMAT_OLD);
        let mut reader = RowReader::new(row, if is_old { FORMAT_OLD } else { FORMAT })?;
        let creator = GatewayId(reader.number16()?);
        let seal = SealId(u64::from_be_bytes(reader.fixed()?));
        let (first, more) = (reader.number()?, reader.number()?);
        let policy = if is_old { None } else { Some(reader.number32()?) };
        reader.end()?;
        if first == 0 || more >= MAX_ATTEMPTS {
            return Err(BadRow("attempts without a first or with too many"));
        }
        match first.checked_add(more) {
            // There is always a next one.
            Some(last) if last < u64::MAX => {
                Ok(AttemptRow { creator, seal, first: Version(first), last: Version(last), policy })
            }
            _ => Err(BadRow("a version over 64 bits")),
        }
    }

    /// As versions of `block`.
    pub fn versions(self, block: BlockIndex) -> impl Iterator<Item = GarbageVersion> {
        let AttemptRow { creator, seal, first, last, .. } = self;
        (first.0..=last.0).map(move |version| GarbageVersion {
            block,
            version: Version(version),
            creator,
            seal,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_come_back() {
        for (first, last) in [(1, 1), (7, 7 + MAX_ATTEMPTS - 1), (u64::MAX - 3, u64::MAX - 1)] {
            let (first, last) = (Version(first), Version(last));
            let (creator, seal) = (GatewayId(3), SealId(u64::MAX - 9));
            let row = AttemptRow { creator, seal, first, last, policy: Some(7) };
            let old = AttemptRow { policy: None, ..row };
            assert_eq!(AttemptRow::decode(&old.encode()), Ok(old));
            assert_eq!(AttemptRow::decode(&row.encode()), Ok(row));
            let versions = row.versions(BlockIndex(5)).map(|version| version.version);
            assert_eq!(versions.collect::<Vec<_>>(), (first.0..=last.0).map(Version).collect::<Vec<_>>());
        }
    }

    #[test]
    fn more_attempts_than_a_row_may_have_are_refused() {
        let (first, last) = (Version(1), Version(1 + MAX_ATTEMPTS));
        let row = AttemptRow { creator: GatewayId(3), seal: SealId(1), first, last, policy: None };
        assert!(AttemptRow::decode(&row.encode()).is_err());
        let row = AttemptRow { first: Version(0), last: Version(0), ..row };
        assert!(AttemptRow::decode(&row.encode()).is_err());
    }
}
