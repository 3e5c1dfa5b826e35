use std::ops::Range;

use bytes::Bytes;
use ids::{ObjectId, Timestamp, VolumeId};

use crate::reader::Reader;
use crate::{BackupError, Mark};

const ROW: u8 = 0;
const GONE: u8 = 1;
const UNSAVED: u8 = 2;
const CONFIGURATION: u8 = 3;
const END: u8 = 4;

/// Data of a file that existed only on the machine at the instant of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaved {
    /// The volume of the file.
    pub volume: VolumeId,
    /// The file.
    pub object: ObjectId,
    /// Ranges in bytes, ascending and disjoint.
    pub ranges: Vec<Range<u64>>,
}

/// What objects consist of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A row, with its value; without one it is gone.
    Row {
        /// At most 65,535 bytes.
        key: Bytes,
        /// Its value.
        value: Option<Bytes>,
    },
    /// Data that is not in the clouds.
    Unsaved(Unsaved),
    /// The configuration of the gateway.
    Configuration(String),
    /// All before makes a state; [`Mark::objects`] is not part of it.
    End(Mark),
}

impl Item {
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Item::Row { key, value: Some(value) } => {
                out.push(ROW);
                out.extend_from_slice(&(key.len() as u16).to_be_bytes());
                out.extend_from_slice(&(value.len() as u32).to_be_bytes());
                out.extend_from_slice(key);
                out.extend_from_slice(value);
            }
            Item::Row { key, value: None } => {
                out.push(GONE);
                out.extend_from_slice(&(key.len() as u16).to_be_bytes());
                out.extend_from_slice(key);
            }
            Item::Unsaved(Unsaved { volume, object, ranges }) => {
                out.push(UNSAVED);
                out.extend_from_slice(&volume.0.to_be_bytes());
                out.extend_from_slice(&object.to_bytes());
                out.extend_from_slice(&(ranges.len() as u32).to_be_bytes());
                for range in ranges {
                    out.extend_from_slice(&range.start.to_be_bytes());
                    out.extend_from_slice(&range.end.to_be_bytes());
                }
            }
            Item::Configuration(text) => {
                out.push(CONFIGURATION);
                out.extend_from_slice(&(text.len() as u32).to_be_bytes());
                out.extend_from_slice(text.as_bytes());
            }
            Item::End(mark) => {
                out.push(END);
                mark.write(out);
            }
        }
    }
}

/// The items of an object.
pub struct Items {
    rest: Bytes,
}

impl Items {
    /// Of the content of an object, as [`BackupKeys::open_object`](crate::BackupKeys::open_object) gives it.
    pub fn of(content: Bytes) -> Items {
        Items { rest: content }
    }

    fn read(&mut self) -> Option<Item> {
        let all = self.rest.clone();
        let mut reader = Reader(&all);
        let part = |bytes: &[u8]| all.slice_ref(bytes);
        let item = match reader.byte()? {
            ROW => {
                let key = u16::from_be_bytes(reader.array()?) as usize;
                let value = reader.u32()? as usize;
                Item::Row { key: part(reader.take(key)?), value: Some(part(reader.take(value)?)) }
            }
            GONE => {
                let key = u16::from_be_bytes(reader.array()?) as usize;
                Item::Row { key: part(reader.take(key)?), value: None }
            }
            UNSAVED => {
                let volume = VolumeId(u128::from_be_bytes(reader.array()?));
                let object = ObjectId::from_bytes(reader.array()?);
                let count = reader.count(16)?;
                let mut ranges = Vec::with_capacity(count);
                let mut last = 0;
                for _ in 0..count {
                    let range = reader.u64()?..reader.u64()?;
                    if range.start < last || range.end <= range.start {
                        return None;
                    }
                    last = range.end;
                    ranges.push(range);
                }
                Item::Unsaved(Unsaved { volume, object, ranges })
            }
            CONFIGURATION => {
                let length = reader.u32()? as usize;
                Item::Configuration(String::from_utf8(reader.take(length)?.to_vec()).ok()?)
            }
            END => Item::End(Mark::read(&mut reader)?),
            _ => return None,
        };
        self.rest = part(reader.0);
        Some(item)
    }
}

impl Iterator for Items {
    type Item = Result<Item, BackupError>;

    fn next(&mut self) -> Option<Result<Item, BackupError>> {
        if self.rest.is_empty() {
            return None;
        }
        let item = self.read();
        if item.is_none() {
            self.rest = Bytes::new();
        }
        Some(item.ok_or(BackupError::Damaged("an item of a backup that is none")))
    }
}

impl Mark {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.backup.to_be_bytes());
        out.extend_from_slice(&self.transaction.to_be_bytes());
        out.extend_from_slice(&self.time.seconds.to_be_bytes());
        out.extend_from_slice(&self.time.nanos.to_be_bytes());
    }

    fn read(reader: &mut Reader<'_>) -> Option<Mark> {
        let (backup, transaction) = (reader.u64()?, reader.u64()?);
        let time = Timestamp { seconds: i64::from_be_bytes(reader.array()?), nanos: reader.u32()? };
        (time.nanos < 1_000_000_000).then_some(Mark { backup, transaction, time, objects: 0 })
    }

    pub(crate) fn write_whole(&self, out: &mut Vec<u8>) {
        self.write(out);
        out.extend_from_slice(&self.objects.to_be_bytes());
    }

    pub(crate) fn read_whole(reader: &mut Reader<'_>) -> Option<Mark> {
        let mark = Mark::read(reader)?;
        Some(Mark { objects: reader.u32()?, ..mark })
    }
}
