use blocks::SealId;
use bytes::Bytes;
use ids::{BlockIndex, GatewayId, Version};
use seal::ContentId;

use super::{BadRow, Origin, RowReader, RowWriter, Sealed};

const FORMAT: u8 = 1;

/// Where a content is stored.
pub(crate) fn encode_stored_as(Sealed { origin, creator, seal }: Sealed) -> Bytes {
    let mut row = RowWriter::new(FORMAT);
    row.object(origin.object).number(origin.block.0).number(origin.version.0);
    row.number(u64::from(creator.0)).fixed(&seal.0.to_be_bytes());
    row.finish()
}

pub(crate) fn decode_stored_as(row: &[u8]) -> Result<Sealed, BadRow> {
    let mut reader = RowReader::new(row, FORMAT)?;
    let (object, block) = (reader.object()?, BlockIndex(reader.number()?));
    let origin = Origin { object, block, version: Version(reader.number()?) };
    let creator = GatewayId(reader.number16()?);
    let seal = SealId(u64::from_be_bytes(reader.fixed()?));
    reader.end()?;
    Ok(Sealed { origin, creator, seal })
}

/// What a version holds, and the policy under whose contents it is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub policy: u32,
    pub id: ContentId,
}

impl Content {
    pub fn encode(&self) -> Bytes {
        let mut row = RowWriter::new(FORMAT);
        row.number(u64::from(self.policy)).fixed(self.id.as_bytes());
        row.finish()
    }

    pub fn decode(row: &[u8]) -> Result<Content, BadRow> {
        let mut reader = RowReader::new(row, FORMAT)?;
        let content = Content { policy: reader.number32()?, id: ContentId::from_bytes(reader.fixed()?) };
        reader.end()?;
        Ok(content)
    }
}
