use bytes::Bytes;
use ids::Timestamp;

use super::{BadRow, RowReader, RowWriter};

const FORMAT: u8 = 1;
/// Bytes of what was found; longer texts are cut.
const LONGEST: usize = 255;

/// What is known of a file whose content a scanner did not find clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanState {
    /// It could not be scanned, went to the clouds all the same, and is scanned later.
    Unscanned,
    /// Malware was found and only told of.
    Reported,
    /// Malware was found; nobody may read or change the content.
    Quarantined,
    /// An administrator has said that this version is to be used whatever was found in it.
    Released,
}

impl ScanState {
    const ALL: [ScanState; 4] =
        [ScanState::Unscanned, ScanState::Reported, ScanState::Quarantined, ScanState::Released];
}

impl std::fmt::Display for ScanState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ScanState::Unscanned => "unscanned",
            ScanState::Reported => "reported",
            ScanState::Quarantined => "quarantined",
            ScanState::Released => "released",
        })
    }
}

/// The row of such a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanMark {
    /// What is known.
    pub state: ScanState,
    /// The version of the file: its change attribute.
    pub change: u64,
    /// When that was.
    pub time: Timestamp,
    /// What was found, or why it was not scanned.
    pub found: String,
}

impl ScanMark {
    pub(crate) fn encode(&self) -> Bytes {
        let mut row = RowWriter::new(FORMAT);
        let mut end = self.found.len().min(LONGEST);
        while !self.found.is_char_boundary(end) {
            end -= 1;
        }
        row.byte(self.state as u8).number(self.change).time(self.time).text(&self.found.as_bytes()[..end]);
        row.finish()
    }

    pub(crate) fn decode(row: &[u8]) -> Result<ScanMark, BadRow> {
        let mut reader = RowReader::new(row, FORMAT)?;
        let state = ScanState::ALL.get(usize::from(reader.byte()?)).copied();
        let mark = ScanMark {
            state: state.ok_or(BadRow("an unknown state of a scan"))?,
            change: reader.number()?,
            time: reader.time()?,
            found: String::from_utf8_lossy(reader.text()?).into_owned(),
        };
        reader.end()?;
        Ok(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_and_long_texts_are_cut_between_characters() {
        let time = Timestamp { seconds: 5, nanos: 6 };
        for state in ScanState::ALL {
            let mark = ScanMark { state, change: u64::MAX, time, found: "Eicar".into() };
            assert_eq!(ScanMark::decode(&mark.encode()), Ok(mark));
        }
        let long = ScanMark { state: ScanState::Reported, change: 0, time, found: "\u{e9}".repeat(200) };
        assert_eq!(ScanMark::decode(&long.encode()).unwrap().found, "\u{e9}".repeat(127));
        assert!(ScanMark::decode(&[1, 4, 0, 0, 0, 0]).is_err());
    }
}
