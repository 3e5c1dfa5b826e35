use blocks::SealId;
use bytes::Bytes;
use ids::{BlockIndex, GatewayId, ObjectId, Version};

use super::{BadRow, KeyRow, RowReader, RowWriter};

const FORMAT: u8 = 2;

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
    pub seal: SealId,
}

impl GarbageRow {
    pub fn encode(&self) -> Bytes {
        let mut row = RowWriter::new(FORMAT);
        row.object(self.object).number(u64::from(self.policy));
        self.key.write(&mut row);
        let (mut block, mut seal) = (0_u64, SealId(0));
        for entry in &self.versions {
            row.signed(entry.block.0.wrapping_sub(block) as i64).number(entry.version.0);
            let other = entry.seal != seal;
            row.number(u64::from(entry.creator.0) << 1 | u64::from(other));
            if other {
                row.fixed(&entry.seal.0.to_be_bytes());
            }
            (block, seal) = (entry.block.0, entry.seal);
        }
        row.finish()
    }

    pub fn decode(row: &[u8]) -> Result<GarbageRow, BadRow> {
        let mut reader = RowReader::new(row, FORMAT)?;
        let (object, policy) = (reader.object()?, reader.number32()?);
        let key = KeyRow::read(&mut reader)?;
        let mut versions = Vec::new();
        let (mut block, mut seal) = (0_u64, SealId(0));
        while !reader.is_empty() {
            block = block.wrapping_add(reader.signed()? as u64);
            let version = Version(reader.number()?);
            let creator = reader.number()?;
            if creator & 1 == 1 {
                seal = SealId(u64::from_be_bytes(reader.fixed()?));
            }
            let creator =
                GatewayId(u16::try_from(creator >> 1).map_err(|_| BadRow("a number over 16 bits"))?);
            versions.push(GarbageVersion { block: BlockIndex(block), version, creator, seal });
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
        let version = |block, version, seal| GarbageVersion {
            block: BlockIndex(block),
            version: Version(version),
            creator: GatewayId(3),
            seal: SealId(seal),
        };
        let row = GarbageRow {
            object: ObjectId { creator: GatewayId(1), number: ObjectNumber(2) },
            policy: 4,
            key: KeyRow {
                accessors: AccessorSetId(1),
                epoch: KeyEpoch(2),
                wrapped: [7; WrappedFileKey::LEN],
            },
            versions: vec![version(9, 1, 8), version(2, u64::MAX, 8), version(1 << 44, 5, u64::MAX)],
        };
        assert_eq!(GarbageRow::decode(&row.encode()), Ok(row));
    }
}
