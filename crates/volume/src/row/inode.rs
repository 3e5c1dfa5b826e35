use std::sync::Arc;

use bytes::Bytes;
use file_system::limits::FIRST_COOKIE;
use file_system::{Attributes, Device, FileId, FileKind};
use ids::{BlockShift, ObjectId, VolumeId};
use seal::{AccessorSetId, KeyEpoch, WrappedFileKey};

use super::{BadRow, RowReader, RowWriter, acl};

const FORMAT: u8 = 1;
/// With an access control list at the end.
const FORMAT_ACL: u8 = 2;
const HAS_VERIFIER: u8 = 1;
const HAS_BASE: u8 = 2;

/// The row of an object. Its key, its target, its blocks and its entries have rows of their own, so that a change of
/// attributes rewrites a hundred bytes (`K17`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    /// Without [`Attributes::space_used`] for anything but regular files.
    pub attributes: Attributes,
    pub xattrs: u32,
    pub special: Special,
}

/// What only objects of one kind have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    File {
        /// What is stored of the file from now on follows this policy: that which it was made with, or is migrated to (`K33`).
        policy: u32,
        /// The policy of all blocks whose entries in the map name none. The same one, unless the file is being migrated.
        base: u32,
        shift: BlockShift,
        /// Verifier of the exclusive creation, until the times are set.
        verifier: Option<[u8; 8]>,
    },
    Directory {
        /// The directory above; the root's is the root.
        parent: ObjectId,
        next_cookie: u64,
        entries: u64,
    },
    Other,
}

impl Inode {
    pub fn new(attributes: Attributes, special: Special) -> Inode {
        Inode { attributes, xattrs: 0, special }
    }

    pub fn encode(&self) -> Bytes {
        let a = &self.attributes;
        let mut row = RowWriter::new(if a.acl.is_some() { FORMAT_ACL } else { FORMAT });
        row.byte(kind_byte(a.kind)).number(u64::from(a.mode)).number(u64::from(a.links));
        row.number(u64::from(a.uid)).number(u64::from(a.gid)).number(a.size).number(a.change);
        row.time(a.accessed).time(a.modified).time(a.changed).time(a.created);
        row.number(u64::from(self.xattrs));
        match &self.special {
            Special::File { policy, base, shift, verifier } => {
                row.number(a.space_used).number(u64::from(*policy)).byte(shift.get());
                let verified = if verifier.is_some() { HAS_VERIFIER } else { 0 };
                row.byte(verified | if base == policy { 0 } else { HAS_BASE });
                if let Some(verifier) = verifier {
                    row.fixed(verifier);
                }
                if base != policy {
                    row.number(u64::from(*base));
                }
            }
            Special::Directory { parent, next_cookie, entries } => {
                row.object(*parent).number(*next_cookie).number(*entries);
            }
            Special::Other => {
                row.number(u64::from(a.device.major)).number(u64::from(a.device.minor));
            }
        }
        if let Some(list) = &a.acl {
            acl::write(list, &mut row);
        }
        row.finish()
    }

    /// Decodes the row; which object it belongs to is in the key alone, so `file` has to be set by the caller.
    pub fn decode(row: &[u8]) -> Result<Inode, BadRow> {
        let nowhere = FileId { volume: VolumeId(0), object: ObjectId::from_bytes([0; ObjectId::LEN]) };
        let has_acl = row.first() == Some(&FORMAT_ACL);
        let mut reader = RowReader::new(row, if has_acl { FORMAT_ACL } else { FORMAT })?;
        let kind = kind_of(reader.byte()?)?;
        let mut attributes = Attributes {
            file: nowhere,
            kind,
            mode: reader.number32()?,
            links: reader.number32()?,
            uid: reader.number32()?,
            gid: reader.number32()?,
            acl: None,
            size: reader.number()?,
            change: reader.number()?,
            accessed: reader.time()?,
            modified: reader.time()?,
            changed: reader.time()?,
            created: reader.time()?,
            space_used: 0,
            device: Device::default(),
            // Whoever has the books of that says so.
            quarantined: false,
        };
        let xattrs = reader.number32()?;
        let special = match kind {
            FileKind::Regular => {
                attributes.space_used = reader.number()?;
                let policy = reader.number32()?;
                let shift = BlockShift::new(reader.byte()?).ok_or(BadRow("a block size out of range"))?;
                let flags = reader.byte()?;
                if flags & !(HAS_VERIFIER | HAS_BASE) != 0 {
                    return Err(BadRow("an inode with unknown flags"));
                }
                let verifier = if flags & HAS_VERIFIER != 0 { Some(reader.fixed()?) } else { None };
                let base = if flags & HAS_BASE != 0 { reader.number32()? } else { policy };
                Special::File { policy, base, shift, verifier }
            }
            FileKind::Directory => {
                let (parent, next_cookie, entries) = (reader.object()?, reader.number()?, reader.number()?);
                if next_cookie < FIRST_COOKIE {
                    return Err(BadRow("a directory cookie out of range"));
                }
                Special::Directory { parent, next_cookie, entries }
            }
            _ => {
                attributes.device = Device { major: reader.number32()?, minor: reader.number32()? };
                Special::Other
            }
        };
        if has_acl {
            attributes.acl = Some(Arc::new(acl::read(&mut reader)?));
        }
        reader.end()?;
        Ok(Inode { attributes, xattrs, special })
    }
}

fn kind_byte(kind: FileKind) -> u8 {
    match kind {
        FileKind::Regular => 1,
        FileKind::Directory => 2,
        FileKind::Symlink => 3,
        FileKind::BlockDevice => 4,
        FileKind::CharacterDevice => 5,
        FileKind::Fifo => 6,
        FileKind::Socket => 7,
    }
}

fn kind_of(byte: u8) -> Result<FileKind, BadRow> {
    Ok(match byte {
        1 => FileKind::Regular,
        2 => FileKind::Directory,
        3 => FileKind::Symlink,
        4 => FileKind::BlockDevice,
        5 => FileKind::CharacterDevice,
        6 => FileKind::Fifo,
        7 => FileKind::Socket,
        _ => return Err(BadRow("an unknown kind of object")),
    })
}

/// The key of a regular file, wrapped under an epoch key: that of the volume when it was made, or of a later epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRow {
    pub accessors: AccessorSetId,
    pub epoch: KeyEpoch,
    pub wrapped: [u8; WrappedFileKey::LEN],
}

impl KeyRow {
    pub fn encode(&self) -> Bytes {
        let mut row = RowWriter::new(FORMAT);
        self.write(&mut row);
        row.finish()
    }

    pub fn decode(row: &[u8]) -> Result<KeyRow, BadRow> {
        let mut reader = RowReader::new(row, FORMAT)?;
        let key = KeyRow::read(&mut reader)?;
        reader.end()?;
        Ok(key)
    }

    pub fn write(&self, row: &mut RowWriter) {
        row.number(u64::from(self.accessors.0)).number(u64::from(self.epoch.0)).fixed(&self.wrapped);
    }

    pub fn read(reader: &mut RowReader<'_>) -> Result<KeyRow, BadRow> {
        Ok(KeyRow {
            accessors: AccessorSetId(reader.number32()?),
            epoch: KeyEpoch(reader.number32()?),
            wrapped: reader.fixed()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use file_system::acl::{Ace, Acl, MAX_KEPT_ENTRIES, Who, flag, right};
    use ids::{GatewayId, ObjectNumber, Timestamp};

    use super::*;

    #[test]
    fn inodes_of_every_kind_come_back() {
        let object = ObjectId { creator: GatewayId(1), number: ObjectNumber(77) };
        let time = |n: i64| Timestamp { seconds: -n, nanos: n as u32 };
        let attributes = |kind| Attributes {
            file: FileId { volume: VolumeId(0), object: ObjectId::from_bytes([0; ObjectId::LEN]) },
            kind,
            mode: 0o7777,
            links: 3,
            uid: u32::MAX,
            gid: 5,
            acl: None,
            size: 1 << 60,
            space_used: 0,
            device: Device::default(),
            accessed: time(1),
            modified: time(2),
            changed: time(3),
            created: time(4),
            change: u64::MAX,
            quarantined: false,
        };
        let file = Special::File { policy: 3, base: 3, shift: BlockShift::MIN, verifier: Some([9; 8]) };
        let moving = Special::File { policy: 3, base: 2, shift: BlockShift::MIN, verifier: None };
        let directory = Special::Directory { parent: object, next_cookie: 8, entries: 5 };
        let cases = [
            (FileKind::Regular, file),
            (FileKind::Regular, moving),
            (FileKind::Directory, directory),
            (FileKind::Socket, Special::Other),
        ];
        for (kind, special) in cases {
            let inode = Inode { xattrs: 4, ..Inode::new(attributes(kind), special) };
            assert_eq!(Inode::decode(&inode.encode()), Ok(inode.clone()));
            assert!(inode.encode().len() < 128);
            let row = inode.encode();
            assert!(Inode::decode(&row[..row.len() - 1]).is_err());
            let ace = |n: u32| Ace {
                allows: n.is_multiple_of(2),
                flags: flag::ALL,
                rights: right::ALL,
                who: Who::User(!n),
            };
            let mut listed = inode.clone();
            let entries = (0..MAX_KEPT_ENTRIES as u32).map(ace).collect();
            listed.attributes.acl = Some(Arc::new(Acl { flags: 7, entries }));
            let row = listed.encode();
            assert!(row.len() < 128 + 11 * MAX_KEPT_ENTRIES, "{} bytes", row.len());
            assert_eq!(Inode::decode(&row), Ok(listed));
            assert!(Inode::decode(&row[..row.len() - 1]).is_err());
        }
    }
}
