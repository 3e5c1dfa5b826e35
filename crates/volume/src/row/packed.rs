use blocks::{PlaceInPack, SealId};
use bytes::Bytes;
use ids::{BlockIndex, GatewayId, ObjectId, Version};
use seal::BlockName;

use super::{BadRow, KeyRow, Origin, RowReader, RowWriter};

const FORMAT: u8 = 1;

/// Packs are written once: each has one version.
pub(crate) const PACK_VERSION: Version = Version(1);

/// Where a block version lies that has no fragments of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedRow {
    /// The file of packs, and which of them.
    pub object: ObjectId,
    pub number: BlockIndex,
    pub place: PlaceInPack,
}

impl PackedRow {
    /// The pack, as the block version that it is.
    pub fn pack(&self) -> Origin {
        Origin { object: self.object, block: self.number, version: PACK_VERSION }
    }

    pub fn encode(&self) -> Bytes {
        let PlaceInPack { pack_len, offset, len, name } = self.place;
        let mut row = RowWriter::new(FORMAT);
        row.object(self.object).number(self.number.0).number(u64::from(pack_len));
        row.number(u64::from(offset)).number(u64::from(len)).fixed(name.as_bytes());
        row.finish()
    }

    pub fn decode(row: &[u8]) -> Result<PackedRow, BadRow> {
        let mut reader = RowReader::new(row, FORMAT)?;
        let (object, number) = (reader.object()?, BlockIndex(reader.number()?));
        let (pack_len, offset, len) = (reader.number32()?, reader.number32()?, reader.number32()?);
        if offset.checked_add(len).is_none_or(|end| end > pack_len) {
            return Err(BadRow("a place beyond the end of its pack"));
        }
        let name = BlockName::from_bytes(reader.fixed()?);
        reader.end()?;
        Ok(PackedRow { object, number, place: PlaceInPack { pack_len, offset, len, name } })
    }
}

/// A pack whose blocks are not all committed. Holds everything that is needed to find its fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackNote {
    pub policy: u32,
    pub key: KeyRow,
    pub creator: GatewayId,
    pub seal: SealId,
    /// Whether blocks of it are current; then this note is one more that holds it.
    pub in_use: bool,
}

impl PackNote {
    pub fn encode(&self) -> Bytes {
        let mut row = RowWriter::new(FORMAT);
        row.number(u64::from(self.policy));
        self.key.write(&mut row);
        row.number(u64::from(self.creator.0)).fixed(&self.seal.0.to_be_bytes()).byte(u8::from(self.in_use));
        row.finish()
    }

    pub fn decode(row: &[u8]) -> Result<PackNote, BadRow> {
        let mut reader = RowReader::new(row, FORMAT)?;
        let (policy, key) = (reader.number32()?, KeyRow::read(&mut reader)?);
        let creator = GatewayId(reader.number16()?);
        let seal = SealId(u64::from_be_bytes(reader.fixed()?));
        let in_use = match reader.byte()? {
            0 => false,
            1 => true,
            _ => return Err(BadRow("a pack that is neither used nor unused")),
        };
        reader.end()?;
        Ok(PackNote { policy, key, creator, seal, in_use })
    }
}
