use ids::ObjectNumber;
use parking_lot::Mutex;
use proptest::prelude::*;
use seal::SigningKey;

use super::*;

/// Bytes that count up: the same in every run.
struct Counting(Mutex<u8>);

impl Entropy for Counting {
    fn fill(&self, out: &mut [u8]) {
        let mut next = self.0.lock();
        for byte in out {
            *next = next.wrapping_add(1);
            *byte = *next;
        }
    }
}

const KEY: [u8; 32] = [7; 32];

fn signer(seed: u8) -> Signer {
    Signer { gateway: GatewayId(1), key: SigningKey::of_seed(&[seed; 32]).into() }
}

fn identity(object: u128, block: u64) -> BlockIdentity {
    BlockIdentity {
        volume: VolumeId(1),
        object: ObjectId { creator: GatewayId(1), number: ObjectNumber(object) },
        block: BlockIndex(block),
        version: Version(3),
        creator: GatewayId(1),
        epoch: KeyEpoch(1),
    }
}

fn placement() -> Placement {
    let clouds = (0..3).map(crate::CloudId).collect();
    Placement::new("rs:2+1".parse().unwrap(), clouds, ids::BlockShift::MIN).unwrap()
}

fn sealed(id: &BlockIdentity, plaintext: &[u8]) -> SealedBlock {
    let options = SealOptions { suite: Suite::Aes256Gcm, padding: Padding::None, time: Timestamp::default() };
    seal::seal(&file_key(id), id, &[plaintext], &options, &Counting(Mutex::new(id.block.0 as u8)))
}

fn file_key(id: &BlockIdentity) -> FileKey {
    FileKey::from_bytes([id.object.number.0 as u8; 32])
}

/// The content of a pack of these plaintexts, of one file each.
fn packed(plaintexts: &[Vec<u8>]) -> (Bytes, Vec<(BlockIdentity, PlaceInPack)>) {
    let mut builder = PackBuilder::new(VolumeId(1), 1 << 20);
    let ids: Vec<_> = (0..plaintexts.len()).map(|at| identity(100 + at as u128, at as u64)).collect();
    for (id, plaintext) in ids.iter().zip(plaintexts) {
        builder.push(*id, sealed(id, plaintext)).unwrap();
    }
    let (key, id, placement) = (FileKey::from_bytes(KEY), identity(5, 0), placement());
    let pack = PackVersion { key: &key, id: &id, seal: SealId(1), placement: &placement };
    let expected = builder.bytes();
    let (parts, places) = builder.finish(&pack, &signer(9), Timestamp::default(), &Counting(Mutex::new(0)));
    let content = Bytes::from(parts.concat());
    assert_eq!(content.len() as u64, expected);
    (content, ids.into_iter().zip(places).collect())
}

fn open(content: &Bytes) -> Result<Pack, OpenError> {
    Pack::open(&FileKey::from_bytes(KEY), &identity(5, 0), &signer(9).owner(), content.clone())
}

#[test]
fn format_2_never_changes() {
    let (content, _) = packed(&[b"one".to_vec(), b"the second".to_vec()]);
    assert_eq!(
        (content.len(), content[content.len() - 8..].to_vec()),
        (557, vec![0, 0, 1, 88, 0, 0, 0, 0xA2])
    );
    assert_eq!(format!("{:?}", BlockName::of(&content)), "55c94876...");
}

#[test]
fn a_block_opens_at_its_own_place_only() {
    let (content, blocks) = packed(&[b"one".to_vec(), b"two".to_vec()]);
    let pack = open(&content).unwrap();
    let placement = placement();
    let open = |id: &BlockIdentity, place: &PlaceInPack| {
        pack.open_block(&PackedBlock { key: &file_key(id), id, place }, &placement)
    };
    let ((one, first), (two, second)) = (blocks[0], blocks[1]);
    assert_eq!(&open(&one, &first).unwrap().plaintext[..], b"one");
    assert!(open(&one, &second).is_err());
    for wrong in [
        PlaceInPack { name: second.name, ..first },
        PlaceInPack { offset: first.offset + 1, ..first },
        PlaceInPack { offset: u32::MAX, ..first },
        PlaceInPack { len: u32::MAX, ..first },
        PlaceInPack { pack_len: first.pack_len + 1, ..first },
    ] {
        assert!(pack.sealed(&wrong).is_none(), "{wrong:?}");
        assert!(open(&one, &wrong).is_err());
    }
    assert_eq!(&open(&two, &second).unwrap().plaintext[..], b"two");
}

#[test]
fn what_does_not_fit_is_given_back() {
    let id = identity(100, 0);
    let block = sealed(&id, &[1; 100]);
    let room = (FRAME + ENTRY + block.as_bytes().len()) as u64;
    let mut builder = PackBuilder::new(VolumeId(1), room);
    assert_eq!(builder.push(id, block.clone()), Ok(()));
    assert_eq!(builder.push(id, block.clone()), Err(block.clone()));
    assert_eq!((builder.blocks(), builder.bytes()), (1, room));
    let mut builder = PackBuilder::new(VolumeId(1), room - 1);
    assert_eq!(builder.push(id, block.clone()), Err(block));
}

#[test]
fn a_pack_of_another_place_or_version_is_refused() {
    let (content, _) = packed(&[b"one".to_vec()]);
    let owner = signer(9).owner();
    let open = |key: u8, id| Pack::open(&FileKey::from_bytes([key; 32]), &id, &owner, content.clone());
    assert!(open(7, identity(5, 0)).is_ok());
    assert!(open(7, identity(5, 1)).is_err());
    assert!(open(7, BlockIdentity { version: Version(4), ..identity(5, 0) }).is_err());
    assert!(open(8, identity(5, 0)).is_err());
}

#[test]
fn every_changed_byte_and_every_other_length_is_refused() {
    let (content, _) = packed(&[b"one".to_vec(), vec![]]);
    for at in 0..content.len() {
        let mut changed = content.to_vec();
        changed[at] ^= 0x40;
        assert!(open(&changed.into()).is_err(), "byte {at}");
        assert!(open(&content.slice(..at)).is_err(), "length {at}");
    }
    assert!(open(&[&content[..], &[0]].concat().into()).is_err());
}

/// What a faulty owner could seal: the certificate proves itself, but not these blocks.
#[test]
fn a_footer_that_does_not_describe_its_pack_is_refused() {
    let (content, blocks) = packed(&[b"one".to_vec(), b"two".to_vec()]);
    let (key, id) = (FileKey::from_bytes(KEY), identity(5, 0));
    let with = |footer: &[u8]| {
        let options = SealOptions { padding: Padding::None, ..SealOptions::at(Timestamp::default()) };
        let footer = seal::seal(&key.footer_key(), &id, &[footer], &options, &Counting(Mutex::new(9)));
        let footer = footer.into_bytes();
        let blocks = blocks.iter().map(|(_, place)| place.len as usize).sum();
        let tail = [&(footer.len() as u32).to_be_bytes()[..], &[0, 0, 0, FORMAT]].concat();
        open(&Bytes::from([&content[..blocks], &footer, &tail].concat())).map(|pack| pack.blocks.len())
    };
    let mut entries = BytesMut::new();
    blocks.iter().for_each(|(id, place)| put_entry(&mut entries, id, place.len));
    let certificate = open(&content).unwrap().certificate;
    let proven = certificate.sign(&signer(9).key);
    assert_eq!(with(&[&entries[..], &proven].concat()), Ok(2));
    let swapped = [&entries[ENTRY..], &entries[..ENTRY]].concat();
    let mut long = entries.to_vec();
    long[ENTRY - 4..ENTRY].copy_from_slice(&u32::MAX.to_be_bytes());
    let other = Certificate::of_nothing(signer(9).owner(), Timestamp::default()).sign(&signer(9).key);
    let of = |signer: Signer| {
        let mut certificate = Certificate::of_nothing(signer.owner(), Timestamp::default());
        blocks.iter().for_each(|(_, place)| certificate.append(&place.name, u64::from(place.len)));
        certificate.sign(&signer.key)
    };
    assert_eq!(with(&[&entries[..], &of(signer(9))].concat()), Ok(2));
    let stranger = of(Signer { gateway: GatewayId(2), ..signer(9) });
    let another = of(signer(8));
    let mut forged = of(signer(9));
    forged[64..96].copy_from_slice(&signer(8).owner().key.0);
    for (entries, proven) in [
        (&entries[..ENTRY], &proven),
        (&entries[1..], &proven),
        (&long[..], &proven),
        (&entries[..], &other),
        (&entries[..], &stranger),
        (&entries[..], &another),
        (&entries[..], &forged),
        (&[][..], &proven),
    ] {
        assert!(with(&[entries, proven].concat()).is_err());
    }
    // Lengths and bytes are as certified; whose they are is for the metadata to know.
    assert_eq!(with(&[&swapped[..], &proven].concat()), Ok(2));
    assert!(with(&proven[1..]).is_err());
}

#[test]
fn an_empty_pack_is_a_pack() {
    let (content, _) = packed(&[]);
    assert!(open(&content).unwrap().blocks().is_empty());
}

proptest! {
    #[test]
    fn what_was_packed_comes_back_in_order_with_a_certificate_of_all_of_it(
        plaintexts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
    ) {
        let (content, blocks) = packed(&plaintexts);
        let (pack, placement) = (open(&content).unwrap(), placement());
        prop_assert_eq!(pack.blocks(), &blocks[..]);
        for ((id, place), plaintext) in blocks.iter().zip(&plaintexts) {
            let opened = pack.open_block(&PackedBlock { key: &file_key(id), id, place }, &placement).unwrap();
            prop_assert_eq!(&opened.plaintext[..], &plaintext[..]);
        }
        let certificate = pack.certificate();
        let size: u64 = blocks.iter().map(|(_, place)| u64::from(place.len)).sum();
        prop_assert_eq!((certificate.blocks as usize, certificate.size), (blocks.len(), size));
        prop_assert_eq!(certificate.owner, signer(9).owner());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(open(&bytes.into()).is_err());
    }
}
