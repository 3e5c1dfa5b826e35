use bytes::Bytes;
use file_system::Name;
use ids::ObjectId;

use crate::row::{BadRow, RowReader, RowWriter};

const FORMAT: u8 = 1;

/// An entry as found by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub object: ObjectId,
    pub cookie: u64,
}

impl Entry {
    pub fn encode(self) -> Bytes {
        let mut row = RowWriter::new(FORMAT);
        row.object(self.object).number(self.cookie);
        row.finish()
    }

    pub fn decode(row: &[u8]) -> Result<Entry, BadRow> {
        let mut reader = RowReader::new(row, FORMAT)?;
        let entry = Entry { object: reader.object()?, cookie: reader.number()? };
        reader.end()?;
        Ok(entry)
    }

    /// The row by cookie: object and name.
    pub fn encode_listed(object: ObjectId, name: &Name) -> Bytes {
        let mut row = RowWriter::new(FORMAT);
        row.object(object).text(name.as_bytes());
        row.finish()
    }

    /// The inverse of [`Entry::encode_listed`].
    pub fn decode_listed(row: &[u8]) -> Result<(ObjectId, Name), BadRow> {
        let mut reader = RowReader::new(row, FORMAT)?;
        let object = reader.object()?;
        let name =
            Name::new(Bytes::copy_from_slice(reader.text()?)).map_err(|_| BadRow("an impossible name"))?;
        reader.end()?;
        Ok((object, name))
    }
}
