//! Keys of the rows; the table of them is on the front page of the crate.

use std::ops::Range;

use blocks::SealId;
use bytes::Bytes;
use ids::{BlockIndex, GatewayId, ObjectId, Version};
use meta::{KeyBuilder, KeyReader};
use seal::{AccessorSetId, ContentId, KeyEpoch};

use crate::row::{CHUNK_BLOCKS, Content, Origin};

const STORE: u8 = 0x01;
const NEXT_OBJECT: u8 = 0x02;
const VOLUME: u8 = 0x03;
const NEXT_SLOT: u8 = 0x04;
const POLICY: u8 = 0x05;
const EPOCH: u8 = 0x06;
const USAGE: u8 = 0x07;
const ORPHAN: u8 = 0x08;
const GARBAGE: u8 = 0x09;
const REPAIR: u8 = 0x0A;
const SHARES: u8 = 0x0B;
const ATTEMPTS: u8 = 0x0C;
const CONTENT: u8 = 0x0D;
const CONTENT_OF: u8 = 0x0E;
const DIRECTORY_POLICY: u8 = 0x0F;
const OBJECT: u8 = 0x10;
const PACK_NOTE: u8 = 0x11;
const PACKED: u8 = 0x12;
const PACK_USE: u8 = 0x13;
const SEALING: u8 = 0x18;
const KEPT_CONTENT: u8 = 0x19;
const MIGRATION: u8 = 0x1A;
const MIGRATING: u8 = 0x1B;
const MOVED: u8 = 0x1C;
const SPREAD: u8 = 0x1D;
const SCAN_MARK: u8 = 0x14;

const INODE: u8 = 0x01;
const KEY: u8 = 0x02;
const TARGET: u8 = 0x03;
const CUT: u8 = 0x04;
const NAME: u8 = 0x10;
const COOKIE: u8 = 0x11;
const XATTR: u8 = 0x20;
const CHUNK: u8 = 0x30;

pub(crate) type KeyRange = (Bytes, Bytes);

pub(crate) fn store() -> Bytes {
    KeyBuilder::new(STORE).build()
}

pub(crate) fn next_object() -> Bytes {
    KeyBuilder::new(NEXT_OBJECT).build()
}

pub(crate) fn next_slot() -> Bytes {
    KeyBuilder::new(NEXT_SLOT).build()
}

pub(crate) fn volumes() -> KeyRange {
    KeyBuilder::new(VOLUME).prefix_range()
}

/// The attempts to store blocks, of all volumes.
pub(crate) fn attempts_of_all() -> KeyRange {
    KeyBuilder::new(ATTEMPTS).prefix_range()
}

/// Whether a row notes attempts to store blocks.
pub fn is_attempt(key: &[u8]) -> bool {
    key.first() == Some(&ATTEMPTS)
}

/// The notes of packs, of all volumes.
pub(crate) fn pack_notes_of_all() -> KeyRange {
    KeyBuilder::new(PACK_NOTE).prefix_range()
}

/// Slot of a volume's row.
pub(crate) fn slot_of_volume(key: &[u8]) -> Option<u32> {
    let mut reader = KeyReader::new(key);
    (reader.tag()? == VOLUME).then_some(())?;
    Some(u32::from_be_bytes(reader.fixed(4)?.try_into().ok()?))
}

/// Keys of one volume's rows. A volume is named by a small number in them, its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub slot: u32,
}

/// What a row under an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectRow {
    Inode,
    Key,
    Target,
    Name(Bytes),
    Cookie(u64),
    Xattr(Bytes),
    Chunk(u64),
}

impl Keys {
    fn table(self, table: u8) -> KeyBuilder {
        KeyBuilder::new(table).fixed(&self.slot.to_be_bytes())
    }

    fn object(self, object: ObjectId, tag: u8) -> KeyBuilder {
        self.table(OBJECT).fixed(&object.to_bytes()).tag(tag)
    }

    pub fn volume(self) -> Bytes {
        self.table(VOLUME).build()
    }

    pub fn policy(self, policy: u32) -> Bytes {
        self.table(POLICY).fixed(&policy.to_be_bytes()).build()
    }

    pub fn policies(self) -> KeyRange {
        self.table(POLICY).prefix_range()
    }

    /// The number in a policy's key.
    pub fn policy_of(key: &[u8]) -> Option<u32> {
        Some(u32::from_be_bytes(key.get(5..9)?.try_into().ok()?))
    }

    pub fn epoch(self, accessors: AccessorSetId, epoch: KeyEpoch, gateway: GatewayId) -> Bytes {
        let key = self.table(EPOCH).fixed(&accessors.0.to_be_bytes()).fixed(&epoch.0.to_be_bytes());
        key.fixed(&gateway.0.to_be_bytes()).build()
    }

    pub fn epochs(self) -> KeyRange {
        self.table(EPOCH).prefix_range()
    }

    /// Accessor set, epoch and gateway in an epoch's key.
    pub fn epoch_of(key: &[u8]) -> Option<(AccessorSetId, KeyEpoch, GatewayId)> {
        let number = |at: usize| Some(u32::from_be_bytes(key.get(at..at + 4)?.try_into().ok()?));
        let gateway = u16::from_be_bytes(key.get(13..15)?.try_into().ok()?);
        Some((AccessorSetId(number(5)?), KeyEpoch(number(9)?), GatewayId(gateway)))
    }

    /// The epoch of a seal id, unless it is the first.
    pub fn sealing(self, seal: SealId) -> Bytes {
        self.table(SEALING).fixed(&seal.0.to_be_bytes()).build()
    }

    pub fn sealings(self) -> KeyRange {
        self.table(SEALING).prefix_range()
    }

    pub fn sealing_of(key: &[u8]) -> Option<SealId> {
        Some(SealId(u64::from_be_bytes(key.get(5..)?.try_into().ok()?)))
    }

    /// The content key of an epoch whose epoch key is gone.
    pub fn kept_content(self, accessors: AccessorSetId, epoch: KeyEpoch) -> Bytes {
        self.table(KEPT_CONTENT).fixed(&accessors.0.to_be_bytes()).fixed(&epoch.0.to_be_bytes()).build()
    }

    pub fn kept_contents(self) -> KeyRange {
        self.table(KEPT_CONTENT).prefix_range()
    }

    pub fn kept_content_of(key: &[u8]) -> Option<KeyEpoch> {
        Some(KeyEpoch(u32::from_be_bytes(key.get(9..)?.try_into().ok()?)))
    }

    pub fn usage(self) -> Bytes {
        self.table(USAGE).build()
    }

    pub fn orphan(self, object: ObjectId) -> Bytes {
        self.table(ORPHAN).fixed(&object.to_bytes()).build()
    }

    pub fn orphans(self) -> KeyRange {
        self.table(ORPHAN).prefix_range()
    }

    pub fn directory_policy(self, directory: ObjectId) -> Bytes {
        self.table(DIRECTORY_POLICY).fixed(&directory.to_bytes()).build()
    }

    pub fn directory_policies(self) -> KeyRange {
        self.table(DIRECTORY_POLICY).prefix_range()
    }

    /// What files get instead of a policy.
    pub fn spread(self, policy: u32) -> Bytes {
        self.table(SPREAD).fixed(&policy.to_be_bytes()).build()
    }

    pub fn spreads(self) -> KeyRange {
        self.table(SPREAD).prefix_range()
    }

    /// A directory whose files are to be found that have another policy than they would get there.
    pub fn migration(self, directory: ObjectId) -> Bytes {
        self.table(MIGRATION).fixed(&directory.to_bytes()).build()
    }

    pub fn migrations(self) -> KeyRange {
        self.table(MIGRATION).prefix_range()
    }

    /// A file that may be stored by other policies than its own.
    pub fn migrating(self, file: ObjectId) -> Bytes {
        self.table(MIGRATING).fixed(&file.to_bytes()).build()
    }

    /// What a scanner for malware has said of a file.
    pub fn scan_mark(self, file: ObjectId) -> Bytes {
        self.table(SCAN_MARK).fixed(&file.to_bytes()).build()
    }

    pub fn scan_marks(self) -> KeyRange {
        self.table(SCAN_MARK).prefix_range()
    }

    /// What a version that several blocks hold was stored as by another policy.
    pub fn moved(self, origin: Origin, policy: u32) -> Bytes {
        self.moved_of(origin).fixed(&policy.to_be_bytes()).build()
    }

    /// By any policy.
    pub fn all_moved_of(self, origin: Origin) -> KeyRange {
        self.moved_of(origin).prefix_range()
    }

    fn moved_of(self, Origin { object, block, version }: Origin) -> KeyBuilder {
        self.table(MOVED).fixed(&object.to_bytes()).number(block.0).number(version.0)
    }

    pub fn all_moved(self) -> KeyRange {
        self.table(MOVED).prefix_range()
    }

    pub fn all_migrating(self) -> KeyRange {
        self.table(MIGRATING).prefix_range()
    }

    /// The object in the key of an orphan's row, of that of a directory's policy, of a migration, or of a mark of a scan.
    pub fn orphan_of(key: &[u8]) -> Option<ObjectId> {
        Some(ObjectId::from_bytes(key.get(5..)?.try_into().ok()?))
    }

    /// `due` in milliseconds since 1970.
    pub fn garbage(self, due: u64, object: ObjectId, block: BlockIndex, version: Version) -> Bytes {
        let key = self.table(GARBAGE).number(due).fixed(&object.to_bytes());
        key.number(block.0).number(version.0).build()
    }

    /// Garbage that is due at `now`, or all of it.
    pub fn garbage_until(self, now: Option<u64>) -> KeyRange {
        let (start, end) = self.table(GARBAGE).prefix_range();
        match now.and_then(|now| now.checked_add(1)) {
            Some(after) => (start, self.table(GARBAGE).number(after).build()),
            None => (start, end),
        }
    }

    pub fn repair(self, object: ObjectId, block: BlockIndex, version: Version) -> Bytes {
        self.table(REPAIR).fixed(&object.to_bytes()).number(block.0).number(version.0).build()
    }

    pub fn repairs(self) -> KeyRange {
        self.table(REPAIR).prefix_range()
    }

    /// Object, block and version in a key of [`Keys::repair`], [`Keys::content_of`] or [`Keys::packed`].
    pub fn repair_of(key: &[u8]) -> Option<(ObjectId, BlockIndex, Version)> {
        let mut reader = KeyReader::new(key.get(5..)?);
        let object = ObjectId::from_bytes(reader.fixed(ObjectId::LEN)?.try_into().ok()?);
        Some((object, BlockIndex(reader.number()?), Version(reader.number()?)))
    }

    /// The shares of the chunk that holds `block`.
    pub fn shares(self, object: ObjectId, block: BlockIndex) -> Bytes {
        self.table(SHARES).fixed(&object.to_bytes()).number(block.0 / CHUNK_BLOCKS).build()
    }

    pub fn shares_of_object(self, object: ObjectId) -> KeyRange {
        self.table(SHARES).fixed(&object.to_bytes()).prefix_range()
    }

    /// The object of a row of shares, if it is one.
    pub fn shares_row(key: &[u8]) -> Option<ObjectId> {
        (key.first() == Some(&SHARES)).then(|| Keys::shares_of(key)).flatten().map(|(object, _)| object)
    }

    /// The shares of all files.
    pub fn all_shares(self) -> KeyRange {
        self.table(SHARES).prefix_range()
    }

    /// The shares of what was stored for one file.
    pub fn shares_with(self, object: ObjectId) -> KeyRange {
        self.table(SHARES).fixed(&object.to_bytes()).prefix_range()
    }

    /// Object and chunk in a key of [`Keys::shares`].
    pub fn shares_of(key: &[u8]) -> Option<(ObjectId, u64)> {
        let mut reader = KeyReader::new(key.get(5..)?);
        let object = ObjectId::from_bytes(reader.fixed(ObjectId::LEN)?.try_into().ok()?);
        Some((object, reader.number()?))
    }

    /// Where a content is stored.
    pub fn content(self, content: Content) -> Bytes {
        self.table(CONTENT).fixed(&content.policy.to_be_bytes()).fixed(content.id.as_bytes()).build()
    }

    /// Where all contents are stored.
    pub fn all_contents(self) -> KeyRange {
        self.table(CONTENT).prefix_range()
    }

    /// The inverse of [`Keys::content`].
    pub fn content_at(key: &[u8]) -> Option<Content> {
        let mut reader = KeyReader::new(key.get(5..)?);
        let policy = u32::from_be_bytes(reader.fixed(4)?.try_into().ok()?);
        let id = ContentId::from_bytes(reader.fixed(ContentId::LEN)?.try_into().ok()?);
        Some(Content { policy, id })
    }

    /// What a version holds.
    pub fn content_of(self, Origin { object, block, version }: Origin) -> Bytes {
        let key = self.table(CONTENT_OF).fixed(&object.to_bytes());
        key.number(block.0).number(version.0).build()
    }

    /// What all versions hold.
    pub fn contents_of_all(self) -> KeyRange {
        self.table(CONTENT_OF).prefix_range()
    }

    /// Where a version lies that has no fragments of its own.
    pub fn packed(self, Origin { object, block, version }: Origin) -> Bytes {
        let key = self.table(PACKED).fixed(&object.to_bytes());
        key.number(block.0).number(version.0).build()
    }

    /// Where all such versions lie.
    pub fn all_packed(self) -> KeyRange {
        self.table(PACKED).prefix_range()
    }

    /// A pack whose blocks are not all committed.
    pub fn pack_note(self, object: ObjectId, number: BlockIndex) -> Bytes {
        self.table(PACK_NOTE).fixed(&object.to_bytes()).number(number.0).build()
    }

    /// All such packs.
    pub fn pack_notes(self) -> KeyRange {
        self.table(PACK_NOTE).prefix_range()
    }

    /// How much of a pack is in use.
    pub fn pack_use(self, object: ObjectId, number: BlockIndex) -> Bytes {
        self.table(PACK_USE).fixed(&object.to_bytes()).number(number.0).build()
    }

    /// The same of all packs.
    pub fn pack_uses(self) -> KeyRange {
        self.table(PACK_USE).prefix_range()
    }

    /// The object that a pack is of, if it is the row of a note.
    pub fn pack_note_row(key: &[u8]) -> Option<ObjectId> {
        (key.first() == Some(&PACK_NOTE)).then(|| Keys::pack_note_at(key)).flatten().map(|(object, _)| object)
    }

    /// File of packs and number in a key of [`Keys::pack_note`] or [`Keys::pack_use`].
    pub fn pack_note_at(key: &[u8]) -> Option<(ObjectId, BlockIndex)> {
        Keys::attempts_at(key)
    }

    pub fn attempts(self, object: ObjectId, block: BlockIndex) -> Bytes {
        self.table(ATTEMPTS).fixed(&object.to_bytes()).number(block.0).build()
    }

    /// Never stored: touched by whoever notes an attempt, read by whoever takes the file apart.
    pub fn attempts_guard(self, object: ObjectId) -> Bytes {
        self.table(ATTEMPTS).fixed(&object.to_bytes()).build()
    }

    pub fn attempts_of(self, object: ObjectId) -> KeyRange {
        self.table(ATTEMPTS).fixed(&object.to_bytes()).prefix_range()
    }

    /// The attempts to store blocks of all files.
    pub fn all_attempts(self) -> KeyRange {
        self.table(ATTEMPTS).prefix_range()
    }

    /// Object and block in a key of [`Keys::attempts`].
    pub fn attempts_at(key: &[u8]) -> Option<(ObjectId, BlockIndex)> {
        let mut reader = KeyReader::new(key.get(5..)?);
        let object = ObjectId::from_bytes(reader.fixed(ObjectId::LEN)?.try_into().ok()?);
        Some((object, BlockIndex(reader.number()?)))
    }

    pub fn inode(self, object: ObjectId) -> Bytes {
        self.object(object, INODE).build()
    }

    pub fn key(self, object: ObjectId) -> Bytes {
        self.object(object, KEY).build()
    }

    pub fn target(self, object: ObjectId) -> Bytes {
        self.object(object, TARGET).build()
    }

    /// Never stored: touched by whatever cuts a file, read by whoever commits blocks of it.
    pub fn cut(self, object: ObjectId) -> Bytes {
        self.object(object, CUT).build()
    }

    pub fn name(self, directory: ObjectId, name: &[u8]) -> Bytes {
        self.object(directory, NAME).last_text(name).build()
    }

    pub fn names(self, directory: ObjectId) -> KeyRange {
        self.object(directory, NAME).prefix_range()
    }

    pub fn cookie(self, directory: ObjectId, cookie: u64) -> Bytes {
        self.object(directory, COOKIE).number(cookie).build()
    }

    /// The entries of a directory behind `cookie`.
    pub fn cookies_behind(self, directory: ObjectId, cookie: u64) -> KeyRange {
        let (start, end) = self.object(directory, COOKIE).prefix_range();
        match cookie.checked_add(1) {
            Some(next) => (self.cookie(directory, next).max(start), end),
            None => (end.clone(), end),
        }
    }

    pub fn xattr(self, object: ObjectId, name: &[u8]) -> Bytes {
        self.object(object, XATTR).last_text(name).build()
    }

    pub fn xattrs(self, object: ObjectId) -> KeyRange {
        self.object(object, XATTR).prefix_range()
    }

    /// The chunk of the block map that holds `block`.
    pub fn chunk(self, object: ObjectId, block: BlockIndex) -> Bytes {
        self.object(object, CHUNK).number(block.0 / CHUNK_BLOCKS).build()
    }

    /// The chunks that hold `blocks`, of which there is at least one.
    pub fn chunks(self, object: ObjectId, blocks: Range<BlockIndex>) -> KeyRange {
        let last = self.chunk(object, BlockIndex(blocks.end.0.saturating_sub(1)));
        (self.chunk(object, blocks.start), [&last[..], &[0]].concat().into())
    }

    pub fn rows_of(self, object: ObjectId) -> KeyRange {
        self.table(OBJECT).fixed(&object.to_bytes()).prefix_range()
    }

    /// All rows of all objects.
    pub fn objects(self) -> KeyRange {
        self.table(OBJECT).prefix_range()
    }

    /// Everything of the volume, table by table; its own row last.
    pub fn everything(self) -> [KeyRange; 23] {
        let of_blocks = [GARBAGE, REPAIR, SHARES, ATTEMPTS, CONTENT, CONTENT_OF, PACKED, PACK_NOTE, PACK_USE];
        let [a, b, c, d, e, f, g, h, i] = of_blocks;
        let of_files = [OBJECT, ORPHAN, MIGRATION, MIGRATING, MOVED, DIRECTORY_POLICY, SCAN_MARK];
        let [j, k, l, m, n, o, p] = of_files;
        let of_keys = [SEALING, KEPT_CONTENT, EPOCH];
        let [q, r, s] = of_keys;
        [j, k, a, b, c, d, e, f, g, h, i, l, m, n, o, p, SPREAD, USAGE, q, r, s, POLICY, VOLUME]
            .map(|t| self.table(t).prefix_range())
    }

    /// What the row with a key of [`Keys::objects`] is.
    pub fn object_row(key: &[u8]) -> Option<(ObjectId, ObjectRow)> {
        let mut reader = KeyReader::new(key.get(5..)?);
        let object = ObjectId::from_bytes(reader.fixed(ObjectId::LEN)?.try_into().ok()?);
        let row = match reader.tag()? {
            INODE => ObjectRow::Inode,
            KEY => ObjectRow::Key,
            TARGET => ObjectRow::Target,
            NAME => ObjectRow::Name(Bytes::copy_from_slice(reader.last_text())),
            COOKIE => ObjectRow::Cookie(reader.number()?),
            XATTR => ObjectRow::Xattr(Bytes::copy_from_slice(reader.last_text())),
            CHUNK => ObjectRow::Chunk(reader.number()?),
            _ => return None,
        };
        Some((object, row))
    }
}

#[cfg(test)]
mod tests {
    use ids::ObjectNumber;

    use super::*;

    #[test]
    fn rows_of_objects_are_recognized_by_their_keys() {
        let keys = Keys { slot: 7 };
        let object = ObjectId { creator: GatewayId(2), number: ObjectNumber(9) };
        let name = Bytes::from_static(b"a\0b");
        for (key, row) in [
            (keys.inode(object), ObjectRow::Inode),
            (keys.key(object), ObjectRow::Key),
            (keys.target(object), ObjectRow::Target),
            (keys.name(object, &name), ObjectRow::Name(name.clone())),
            (keys.cookie(object, 5), ObjectRow::Cookie(5)),
            (keys.xattr(object, &name), ObjectRow::Xattr(name.clone())),
            (keys.chunk(object, BlockIndex(2048)), ObjectRow::Chunk(2)),
        ] {
            let (start, end) = keys.rows_of(object);
            assert!(start <= key && key < end);
            assert_eq!(Keys::object_row(&key), Some((object, row)));
        }
        let key = keys.repair(object, BlockIndex(3), Version(4));
        assert_eq!(Keys::repair_of(&key), Some((object, BlockIndex(3), Version(4))));
        assert_eq!(Keys::shares_of(&keys.shares(object, BlockIndex(2048))), Some((object, 2)));
        assert_eq!(Keys::orphan_of(&keys.orphan(object)), Some(object));
        let key = keys.attempts(object, BlockIndex(3));
        assert_eq!(Keys::attempts_at(&key), Some((object, BlockIndex(3))));
        for (start, end) in [keys.attempts_of(object), keys.all_attempts(), attempts_of_all()] {
            assert!(start <= key && key < end);
        }
        let content = Content { policy: 9, id: ContentId::from_bytes([0xff; 24]) };
        assert_eq!(Keys::content_at(&keys.content(content)), Some(content));
        let origin = Origin { object, block: BlockIndex(3), version: Version(4) };
        assert_eq!(Keys::repair_of(&keys.content_of(origin)), Some((object, BlockIndex(3), Version(4))));
        assert_eq!(Keys::policy_of(&keys.policy(6)), Some(6));
        let epoch = (AccessorSetId(1), KeyEpoch(2), GatewayId(3));
        assert_eq!(Keys::epoch_of(&keys.epoch(epoch.0, epoch.1, epoch.2)), Some(epoch));
        assert_eq!(slot_of_volume(&keys.volume()), Some(7));
        assert_eq!(Keys::sealing_of(&keys.sealing(SealId(9))), Some(SealId(9)));
        let kept = keys.kept_content(AccessorSetId(1), KeyEpoch(2));
        assert_eq!(Keys::kept_content_of(&kept), Some(KeyEpoch(2)));
    }

    #[test]
    fn due_garbage_is_exactly_what_is_not_later_than_now() {
        let keys = Keys { slot: 1 };
        let object = ObjectId { creator: GatewayId(2), number: ObjectNumber(9) };
        let (start, end) = keys.garbage_until(Some(100));
        for (due, inside) in [(0, true), (100, true), (101, false)] {
            let key = keys.garbage(due, object, BlockIndex(u64::MAX), Version(u64::MAX));
            assert_eq!(start <= key && key < end, inside, "{due}");
        }
    }
}
