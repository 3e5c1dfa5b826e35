use blocks::{PlaceInPack, SealId};
use bytes::Bytes;
use ids::{BlockIndex, GatewayId, ObjectId, Version};
use seal::BlockName;

use super::{BadRow, KeyRow, Origin, RowReader, RowWriter};

const FORMAT: u8 = 1;
/// With the sealing; what was written before schema 6 has none.
const SEALED: u8 = 2;

/// Packs are written once: each has one version.
pub(crate) const PACK_VERSION: Version = Version(1);

/// Where a block version lies that has no fragments of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedRow {
    /// The file of packs, and which of them.
    pub object: ObjectId,
    pub number: BlockIndex,
    pub place: PlaceInPack,
    /// Which sealing of the version lies there: a start that follows a crash gives the same number to another one. `None` in
    /// rows that were written before schema 6.
    pub sealing: Option<(GatewayId, SealId)>,
}

impl PackedRow {
    /// The pack, as the block version that it is.
    pub fn pack(&self) -> Origin {
        Origin { object: self.object, block: self.number, version: PACK_VERSION }
    }

    /// Whether this sealing of the version lies there.
    pub fn is_of(&self, creator: GatewayId, seal: SealId) -> bool {
        self.sealing.is_none_or(|sealing| sealing == (creator, seal))
    }

    pub fn encode(&self) -> Bytes {
        let PlaceInPack { pack_len, offset, len, name } = self.place;
        let mut row = RowWriter::new(if self.sealing.is_some() { SEALED } else { FORMAT });
        row.object(self.object).number(self.number.0).number(u64::from(pack_len));
        row.number(u64::from(offset)).number(u64::from(len)).fixed(name.as_bytes());
        if let Some((creator, seal)) = self.sealing {
            row.number(u64::from(creator.0)).fixed(&seal.0.to_be_bytes());
        }
        row.finish()
    }

    pub fn decode(row: &[u8]) -> Result<PackedRow, BadRow> {
        let format = if row.first() == Some(&SEALED) { SEALED } else { FORMAT };
        let mut reader = RowReader::new(row, format)?;
        let (object, number) = (reader.object()?, BlockIndex(reader.number()?));
        let (pack_len, offset, len) = (reader.number32()?, reader.number32()?, reader.number32()?);
        if offset.checked_add(len).is_none_or(|end| end > pack_len) {
            return Err(BadRow("a place beyond the end of its pack"));
        }
        let name = BlockName::from_bytes(reader.fixed()?);
        let sealing = match format {
            SEALED => Some((GatewayId(reader.number16()?), SealId(u64::from_be_bytes(reader.fixed()?)))),
            _ => None,
        };
        reader.end()?;
        Ok(PackedRow { object, number, place: PlaceInPack { pack_len, offset, len, name }, sealing })
    }
}

/// How much of a pack is in use: what tells which packs are worth cleaning, without a look at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackUse {
    /// Bytes of the pack.
    pub len: u32,
    /// Bytes of the blocks that lie in it and have not let it go.
    pub live: u32,
}

impl PackUse {
    pub fn encode(&self) -> Bytes {
        let mut row = RowWriter::new(FORMAT);
        row.number(u64::from(self.len)).number(u64::from(self.live));
        row.finish()
    }

    pub fn decode(row: &[u8]) -> Result<PackUse, BadRow> {
        let mut reader = RowReader::new(row, FORMAT)?;
        let (len, live) = (reader.number32()?, reader.number32()?);
        reader.end()?;
        match live <= len {
            true => Ok(PackUse { len, live }),
            false => Err(BadRow("a pack that holds more than it has bytes")),
        }
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
