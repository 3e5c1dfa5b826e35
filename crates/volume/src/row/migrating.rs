use bytes::Bytes;

use super::{BadRow, RowReader, RowWriter};

const FORMAT: u8 = 1;

/// A file that may be stored by other policies than its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MigratingRow {
    /// How often it was sent to another policy, or took over blocks from a file that was: who has found nothing left to be moved
    /// knows whether that is still so.
    pub round: u64,
    /// What it used when it was sent.
    pub bytes: u64,
}

impl MigratingRow {
    pub fn encode(&self) -> Bytes {
        let mut row = RowWriter::new(FORMAT);
        row.number(self.round).number(self.bytes);
        row.finish()
    }

    pub fn decode(row: &[u8]) -> Result<MigratingRow, BadRow> {
        let mut reader = RowReader::new(row, FORMAT)?;
        let found = MigratingRow { round: reader.number()?, bytes: reader.number()? };
        reader.end()?;
        Ok(found)
    }
}
