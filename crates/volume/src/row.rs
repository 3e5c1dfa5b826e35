//! Values of metadata rows: compact, strict, and safe to decode from any bytes.
//!
//! Numbers are variable-length (7 bits a byte, least significant first, at most 10 bytes); texts are preceded by their
//! length. Every row begins with the byte of its format.

mod acl;
mod attempt;
mod block_map;
mod content;
mod inode;
mod migrating;
mod packed;
mod policy;
mod queue;
mod scan_mark;
mod shares;
mod volume_record;

use bytes::{BufMut, Bytes, BytesMut};
use ids::{ObjectId, Timestamp};

pub(crate) use attempt::{AttemptRow, MAX_ATTEMPTS};
pub(crate) use block_map::{BlockEntry, CHUNK_BLOCKS, Chunk, ChunkView, Origin, Sealed};
pub(crate) use content::{Content, decode_stored_as, encode_stored_as};
pub(crate) use inode::{Inode, KeyRow, Special};
pub(crate) use migrating::MigratingRow;
pub(crate) use packed::{PACK_VERSION, PackNote, PackUse, PackedRow};
pub use policy::Policy;
pub(crate) use policy::{decode_policy, encode_policy};
pub(crate) use queue::{GarbageRow, GarbageVersion};
pub use scan_mark::{ScanMark, ScanState};
pub(crate) use shares::{MAX_SHARES, Share, ShareRow};
pub use volume_record::Tier;
pub(crate) use volume_record::{StoreHeader, VolumeRecord};

/// Bytes that are no row of the expected kind; says what was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRow(pub &'static str);

/// Appends fields to a row.
pub(crate) struct RowWriter {
    out: BytesMut,
}

impl RowWriter {
    pub fn new(format: u8) -> RowWriter {
        let mut out = BytesMut::with_capacity(128);
        out.put_u8(format);
        RowWriter { out }
    }

    pub fn byte(&mut self, byte: u8) -> &mut RowWriter {
        self.out.put_u8(byte);
        self
    }

    pub fn number(&mut self, mut number: u64) -> &mut RowWriter {
        while number >= 0x80 {
            self.out.put_u8(number as u8 | 0x80);
            number >>= 7;
        }
        self.out.put_u8(number as u8);
        self
    }

    /// A number that is small in both directions.
    pub fn signed(&mut self, number: i64) -> &mut RowWriter {
        self.number(((number << 1) ^ (number >> 63)) as u64)
    }

    pub fn time(&mut self, time: Timestamp) -> &mut RowWriter {
        self.signed(time.seconds).number(u64::from(time.nanos))
    }

    pub fn fixed(&mut self, bytes: &[u8]) -> &mut RowWriter {
        self.out.put_slice(bytes);
        self
    }

    pub fn text(&mut self, bytes: &[u8]) -> &mut RowWriter {
        self.number(bytes.len() as u64).fixed(bytes)
    }

    pub fn object(&mut self, object: ObjectId) -> &mut RowWriter {
        self.fixed(&object.to_bytes())
    }

    pub fn finish(self) -> Bytes {
        self.out.freeze()
    }
}

/// Takes fields off a row.
#[derive(Clone)]
pub(crate) struct RowReader<'a> {
    rest: &'a [u8],
}

impl<'a> RowReader<'a> {
    /// Reads behind the format byte, which has to be `format`.
    pub fn new(row: &'a [u8], format: u8) -> Result<RowReader<'a>, BadRow> {
        match row.split_first() {
            Some((&found, rest)) if found == format => Ok(RowReader { rest }),
            Some(_) => Err(BadRow("a format that this version does not know")),
            None => Err(BadRow("an empty row")),
        }
    }

    pub fn byte(&mut self) -> Result<u8, BadRow> {
        Ok(self.fixed::<1>()?[0])
    }

    pub fn number(&mut self) -> Result<u64, BadRow> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(BadRow("a number over 64 bits"));
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(BadRow("a number over 64 bits"))
    }

    pub fn number32(&mut self) -> Result<u32, BadRow> {
        u32::try_from(self.number()?).map_err(|_| BadRow("a number over 32 bits"))
    }

    pub fn number16(&mut self) -> Result<u16, BadRow> {
        u16::try_from(self.number()?).map_err(|_| BadRow("a number over 16 bits"))
    }

    pub fn signed(&mut self) -> Result<i64, BadRow> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub fn time(&mut self) -> Result<Timestamp, BadRow> {
        let time = Timestamp { seconds: self.signed()?, nanos: self.number32()? };
        if time.nanos >= 1_000_000_000 {
            return Err(BadRow("a time with too many nanoseconds"));
        }
        Ok(time)
    }

    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], BadRow> {
        let (part, rest) = self.rest.split_first_chunk::<N>().ok_or(BadRow("a row that is cut off"))?;
        self.rest = rest;
        Ok(*part)
    }

    pub fn text(&mut self) -> Result<&'a [u8], BadRow> {
        let length = usize::try_from(self.number()?).map_err(|_| BadRow("a text that is too long"))?;
        let (part, rest) = self.rest.split_at_checked(length).ok_or(BadRow("a row that is cut off"))?;
        self.rest = rest;
        Ok(part)
    }

    pub fn object(&mut self) -> Result<ObjectId, BadRow> {
        Ok(ObjectId::from_bytes(self.fixed()?))
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn end(self) -> Result<(), BadRow> {
        if self.rest.is_empty() { Ok(()) } else { Err(BadRow("bytes behind the end of a row")) }
    }
}

#[cfg(test)]
mod tests {
    use file_system::acl::{Ace, Acl, Who};
    use file_system::{Attributes, Device, FileId, FileKind};
    use ids::{BlockIndex, BlockShift, GatewayId, ObjectNumber, Version, VolumeId};
    use proptest::prelude::*;
    use seal::{AccessorSetId, KeyEpoch, Padding, Suite, WrappedFileKey};

    use super::*;

    proptest! {
        #[test]
        fn fields_come_back(a in any::<u64>(), b in any::<i64>(), text in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut writer = RowWriter::new(7);
            writer.number(a).signed(b).text(&text).byte(3);
            let row = writer.finish();
            let mut reader = RowReader::new(&row, 7).unwrap();
            prop_assert_eq!(reader.number(), Ok(a));
            prop_assert_eq!(reader.signed(), Ok(b));
            prop_assert_eq!(reader.text(), Ok(&text[..]));
            prop_assert_eq!(reader.byte(), Ok(3));
            prop_assert!(reader.end().is_ok());
        }

        #[test]
        fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), format in 1_u8..4) {
            let mut row = vec![format];
            row.extend(bytes);
            decode_as_everything(&row);
        }

        #[test]
        fn a_changed_row_is_refused_or_is_another_row(
            sample in any::<prop::sample::Index>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(0xff_u8), any::<u8>()]), 1..4),
            cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
        ) {
            let samples = samples();
            let mut row = samples[sample.index(samples.len())].to_vec();
            for (at, byte) in changes {
                let at = at.index(row.len());
                row[at] = byte;
            }
            if let Some(cut) = cut {
                row.truncate(cut.index(row.len()));
            }
            decode_as_everything(&row);
        }
    }

    /// What one of the decoders accepts, it accepts again in its own encoding.
    fn decode_as_everything(row: &[u8]) {
        fn again<T: PartialEq + std::fmt::Debug>(
            row: &[u8],
            decode: impl Fn(&[u8]) -> Result<T, BadRow>,
            encode: impl Fn(&T) -> Bytes,
        ) {
            if let Ok(value) = decode(row) {
                assert_eq!(decode(&encode(&value)), Ok(value));
            }
        }
        again(row, Inode::decode, Inode::encode);
        again(row, KeyRow::decode, KeyRow::encode);
        again(row, GarbageRow::decode, GarbageRow::encode);
        again(row, AttemptRow::decode, AttemptRow::encode);
        again(row, ShareRow::decode, ShareRow::encode);
        again(row, Content::decode, Content::encode);
        again(row, PackedRow::decode, PackedRow::encode);
        again(row, PackNote::decode, PackNote::encode);
        again(row, PackUse::decode, PackUse::encode);
        again(row, decode_stored_as, |sealed| encode_stored_as(*sealed));
        again(row, decode_policy, encode_policy);
        again(row, VolumeRecord::decode, VolumeRecord::encode);
        again(row, StoreHeader::decode, StoreHeader::encode);
        if let Ok(chunk) = Chunk::decode(row) {
            // Entries that were never stored need not come back at the end.
            let again = Chunk::decode(&chunk.encode()).expect("its own encoding");
            assert!((0..CHUNK_BLOCKS).all(|index| again.get(index) == chunk.get(index)));
        }
        if let Ok(view) = ChunkView::new(row) {
            let whole = Chunk::decode(row);
            for index in [0, 1, 63, 64, 700, CHUNK_BLOCKS - 1] {
                if let (Ok(whole), Ok(entry)) = (&whole, view.entry(index)) {
                    assert_eq!(whole.get(index), entry);
                }
            }
        }
    }

    /// A row of every kind.
    fn samples() -> Vec<Bytes> {
        let object = ObjectId { creator: GatewayId(1), number: ObjectNumber(77) };
        let time = Timestamp { seconds: -5, nanos: 6 };
        let attributes = |kind| Attributes {
            file: FileId { volume: VolumeId(0), object },
            kind,
            mode: 0o644,
            links: 1,
            uid: 1000,
            gid: 1000,
            acl: None,
            size: 1 << 40,
            space_used: 4096,
            device: Device::default(),
            accessed: time,
            modified: time,
            changed: time,
            created: time,
            change: 9,
            quarantined: false,
        };
        let file = Special::File { policy: 3, base: 4, shift: BlockShift::MIN, verifier: Some([9; 8]) };
        let directory = Special::Directory { parent: object, next_cookie: 8, entries: 5 };
        let key =
            KeyRow { accessors: AccessorSetId(1), epoch: KeyEpoch(2), wrapped: [7; WrappedFileKey::LEN] };
        let versions = (0..3).map(|n| GarbageVersion {
            block: BlockIndex(n * 1000),
            version: Version(n + 1),
            creator: GatewayId(3),
            seal: blocks::SealId((n / 2) << 40),
        });
        let mut chunk = Chunk::default();
        for index in [0, 1, 2, 64, 65, 700] {
            let creator = GatewayId(index as u16 % 3);
            let version = Version(index * index);
            let (hole, seal) = (index == 2, blocks::SealId((index / 3) << 50));
            chunk.set(index, BlockEntry { version, hole, creator, seal, ..BlockEntry::NONE });
        }
        let mut shared = Chunk::default();
        let mut shares = ShareRow::new(4, key.clone());
        for index in [0, 1, 2, 64, 65, 700] {
            let version = Version(1 + index / 64);
            let origin = (index != 2).then_some(Origin { object, block: BlockIndex(index + 5), version });
            let seal = blocks::SealId((index / 3) << 50);
            shared.set(index, BlockEntry { hole: false, seal, origin, ..BlockEntry::NONE });
            let share =
                Share { creator: GatewayId(3), seal, own: index == 64, clones: 1 + index / 65, policy: 4 };
            shares.shares.insert((index, version), share);
        }
        let mut marked = shared.clone();
        for index in [2, 64, 800] {
            let entry = marked.get(index);
            marked.set(index, BlockEntry { hole: false, origin: None, policy: Some(300), ..entry });
        }
        let mut mixed = shares.clone();
        mixed.shares.values_mut().step_by(2).for_each(|share| share.policy = 300);
        let mut listed = Inode::new(attributes(FileKind::Fifo), Special::Other);
        let user = Ace { allows: true, flags: 0x83, rights: 0x1f_07ff, who: Who::User(70_000) };
        let group = Ace { allows: false, who: Who::GroupNumber(3), ..user };
        let entries = vec![user, group, Ace { who: Who::Everyone, ..user }];
        listed.attributes.acl = Some(std::sync::Arc::new(Acl { flags: 3, entries }));
        let clouds = (0..3).map(blocks::CloudId).collect();
        let placement = blocks::Placement::new("rs:2+1".parse().unwrap(), clouds, BlockShift::MAX).unwrap();
        let protection = blocks::Protection { suite: Suite::Aes256Gcm, padding: Padding::Bucket(4096) };
        let volume = VolumeRecord {
            id: VolumeId(7),
            name: "home".into(),
            root: object,
            tier: Tier::Cloud,
            policy: 2,
            accessors: AccessorSetId(1),
            epoch: KeyEpoch(1),
            created: time,
            doomed: true,
        };
        vec![
            Inode::new(attributes(FileKind::Regular), file).encode(),
            Inode::new(attributes(FileKind::Directory), directory).encode(),
            Inode::new(attributes(FileKind::CharacterDevice), Special::Other).encode(),
            listed.encode(),
            key.encode(),
            chunk.encode(),
            shared.encode(),
            marked.encode(),
            shares.encode(),
            mixed.encode(),
            GarbageRow { object, policy: 4, key: key.clone(), versions: versions.collect() }.encode(),
            encode_policy(&Policy { placement, protection }),
            Content { policy: 300, id: seal::ContentId::from_bytes([5; 24]) }.encode(),
            encode_stored_as(Sealed {
                origin: Origin { object, block: BlockIndex(9), version: Version(1 << 40) },
                creator: GatewayId(3),
                seal: blocks::SealId(1 << 50),
            }),
            volume.encode(),
            PackedRow {
                object,
                number: BlockIndex(300),
                place: blocks::PlaceInPack {
                    pack_len: 4 << 20,
                    offset: 70_000,
                    len: 4192,
                    name: seal::BlockName::from_bytes([3; 32]),
                },
                sealing: Some((GatewayId(3), blocks::SealId(9))),
            }
            .encode(),
            PackUse { len: 4 << 20, live: 70_000 }.encode(),
            PackNote {
                policy: 300,
                key: key.clone(),
                creator: GatewayId(3),
                seal: blocks::SealId(9),
                in_use: true,
            }
            .encode(),
            MigratingRow { round: 3, bytes: 1 << 40 }.encode(),
            StoreHeader { schema: 2, gateway: GatewayId(7) }.encode(),
            AttemptRow {
                creator: GatewayId(3),
                seal: blocks::SealId(9),
                first: Version(5),
                last: Version(8),
                policy: Some(300),
            }
            .encode(),
        ]
    }

    #[test]
    fn a_number_of_eleven_bytes_is_refused() {
        let mut row = vec![1];
        row.extend([0xff; 10]);
        row.push(1);
        assert!(RowReader::new(&row, 1).unwrap().number().is_err());
    }
}
