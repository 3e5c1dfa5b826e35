use bytes::Bytes;
use ids::{GatewayId, ObjectId, Timestamp, VolumeId};
use seal::{AccessorSetId, KeyEpoch};

use super::{BadRow, RowReader, RowWriter};

const FORMAT: u8 = 1;

/// What must hold before a stable write is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// Nothing; for tests only: a crash loses what was acknowledged.
    Memory,
    /// Durable in the local journal.
    #[default]
    Local,
    /// Enough fragments in the clouds, and their versions durable.
    Cloud,
}

/// The row of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeRecord {
    pub id: VolumeId,
    pub name: String,
    pub root: ObjectId,
    pub tier: Tier,
    /// Policy of new files.
    pub policy: u32,
    /// Under whose epoch key new files' keys are wrapped.
    pub accessors: AccessorSetId,
    pub epoch: KeyEpoch,
    pub created: Timestamp,
    /// Being deleted: not opened any more, its rows are on their way out.
    pub doomed: bool,
}

impl VolumeRecord {
    pub fn encode(&self) -> Bytes {
        let mut row = RowWriter::new(FORMAT);
        row.fixed(&self.id.0.to_be_bytes()).text(self.name.as_bytes()).object(self.root);
        row.byte(match self.tier {
            Tier::Memory => 0,
            Tier::Local => 1,
            Tier::Cloud => 3,
        });
        row.number(u64::from(self.policy))
            .number(u64::from(self.accessors.0))
            .number(u64::from(self.epoch.0));
        row.time(self.created).byte(u8::from(self.doomed));
        row.finish()
    }

    pub fn decode(row: &[u8]) -> Result<VolumeRecord, BadRow> {
        let mut reader = RowReader::new(row, FORMAT)?;
        let id = VolumeId(u128::from_be_bytes(reader.fixed()?));
        let name =
            std::str::from_utf8(reader.text()?).map_err(|_| BadRow("a text that is not UTF-8"))?.to_owned();
        let root = reader.object()?;
        let tier = match reader.byte()? {
            0 => Tier::Memory,
            1 => Tier::Local,
            3 => Tier::Cloud,
            _ => return Err(BadRow("an unknown acknowledgement tier")),
        };
        let record = VolumeRecord {
            id,
            name,
            root,
            tier,
            policy: reader.number32()?,
            accessors: AccessorSetId(reader.number32()?),
            epoch: KeyEpoch(reader.number32()?),
            created: reader.time()?,
            doomed: match reader.byte()? {
                0 => false,
                1 => true,
                _ => return Err(BadRow("a volume with unknown flags")),
            },
        };
        reader.end()?;
        Ok(record)
    }
}

/// The first row of a store: whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreHeader {
    /// Format of the whole schema.
    pub schema: u32,
    /// Whose objects are made here.
    pub gateway: GatewayId,
}

impl StoreHeader {
    pub fn encode(&self) -> Bytes {
        let mut row = RowWriter::new(FORMAT);
        row.number(u64::from(self.schema)).number(u64::from(self.gateway.0));
        row.finish()
    }

    pub fn decode(row: &[u8]) -> Result<StoreHeader, BadRow> {
        let mut reader = RowReader::new(row, FORMAT)?;
        // What follows the schema's number is up to the schema: a newer one must be recognized without it.
        let schema = reader.number32()?;
        Ok(StoreHeader { schema, gateway: GatewayId(reader.number16()?) })
    }
}

#[cfg(test)]
mod tests {
    use ids::ObjectNumber;

    use super::*;

    #[test]
    fn volume_records_come_back() {
        let record = VolumeRecord {
            id: VolumeId(u128::MAX - 1),
            name: "home".into(),
            root: ObjectId { creator: GatewayId(1), number: ObjectNumber(1) },
            tier: Tier::Cloud,
            policy: 2,
            accessors: AccessorSetId(1),
            epoch: KeyEpoch(1),
            created: Timestamp { seconds: 5, nanos: 6 },
            doomed: true,
        };
        assert_eq!(VolumeRecord::decode(&record.encode()), Ok(record));
        let header = StoreHeader { schema: 1, gateway: GatewayId(7) };
        assert_eq!(StoreHeader::decode(&header.encode()), Ok(header));
    }
}
