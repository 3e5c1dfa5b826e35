use bytes::Bytes;
use ids::{BlockIndex, GatewayId, ObjectId, Version};

use super::{BadRow, KeyRow, RowReader, RowWriter};

const FORMAT: u8 = 1;

/// Block versions of one file that nobody refers to any more. Holds everything that is needed to find their fragments, so
/// that it outlives the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GarbageRow {
    pub object: ObjectId,
    pub policy: u32,
    pub key: KeyRow,
    pub versions: Vec<GarbageVersion>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GarbageVersion {
    pub block: BlockIndex,
    pub version: Version,
    pub creator: GatewayId,
}

impl GarbageRow {
    pub fn encode(&self) -> Bytes {
        let mut row = RowWriter::new(FORMAT);
        row.object(self.object).number(u64::from(self.policy));
        self.key.write(&mut row);
        let mut block = 0_u64;
        for entry in &self.versions {
            row.signed(entry.block.0.wrapping_sub(block) as i64);
            row.number(entry.version.0).number(u64::from(entry.creator.0));
            block = entry.block.0;
        }
        row.finish()
    }

    pub fn decode(row: &[u8]) -> Result<GarbageRow, BadRow> {
        let mut reader = RowReader::new(row, FORMAT)?;
        let (object, policy) = (reader.object()?, reader.number32()?);
        let key = KeyRow::read(&mut reader)?;
        let mut versions = Vec::new();
        let mut block = 0_u64;
        while !reader.is_empty() {
            block = block.wrapping_add(reader.signed()? as u64);
            versions.push(GarbageVersion {
                block: BlockIndex(block),
                version: Version(reader.number()?),
                creator: GatewayId(reader.number16()?),
            });
        }
        Ok(GarbageRow { object, policy, key, versions })
    }
}

#[cfg(test)]
mod tests {
    use ids::ObjectNumber;
    use seal::{AccessorSetId, KeyEpoch, WrappedFileKey};

    use super::*;

    #[test]
    fn garbage_comes_back() {
        let version = |block, version| GarbageVersion {
            block: BlockIndex(block),
            version: Version(version),
            creator: GatewayId(3),
        };
        let row = GarbageRow {
            object: ObjectId { creator: GatewayId(1), number: ObjectNumber(2) },
            policy: 4,
            key: KeyRow {
                accessors: AccessorSetId(1),
                epoch: KeyEpoch(2),
                wrapped: [7; WrappedFileKey::LEN],
            },
            versions: vec![version(9, 1), version(2, u64::MAX), version(1 << 44, 5)],
        };
        assert_eq!(GarbageRow::decode(&row.encode()), Ok(row));
    }
}
