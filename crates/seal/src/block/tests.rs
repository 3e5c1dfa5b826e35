use std::collections::HashSet;

use environment::SystemEntropy;
use ids::{BlockIndex, GatewayId, ObjectId, ObjectNumber, Version, VolumeId};
use proptest::prelude::*;

use super::*;
use crate::KeyEpoch;

const IDENTITY: BlockIdentity = BlockIdentity {
    volume: VolumeId(1),
    object: ObjectId { creator: GatewayId(2), number: ObjectNumber(3) },
    block: BlockIndex(4),
    version: Version(5),
    creator: GatewayId(6),
    epoch: KeyEpoch(7),
};
const TIME: Timestamp = Timestamp { seconds: 1_700_000_000, nanos: 999_999_999 };
const SUITES: [Suite; 2] = [Suite::Aes256Gcm, Suite::IntegrityOnly];

fn key() -> FileKey {
    FileKey::from_bytes([42; 32])
}

fn options(suite: Suite, padding: Padding) -> SealOptions {
    SealOptions { suite, padding, time: TIME }
}

fn seal_one(suite: Suite, padding: Padding, data: &[u8]) -> SealedBlock {
    seal(&key(), &IDENTITY, &[data], &options(suite, padding), &SystemEntropy::new())
}

/// A copy with a buffer of its own.
fn open_bytes(bytes: &[u8]) -> Result<OpenedBlock, OpenError> {
    open(&key(), &IDENTITY, SealedBlock::from_untrusted(Bytes::copy_from_slice(bytes)))
}

/// Every identity that differs from [`IDENTITY`] in exactly one field.
fn neighbours() -> Vec<BlockIdentity> {
    let object = |creator, number| ObjectId { creator: GatewayId(creator), number: ObjectNumber(number) };
    vec![
        BlockIdentity { volume: VolumeId(2), ..IDENTITY },
        BlockIdentity { object: object(3, 3), ..IDENTITY },
        BlockIdentity { object: object(2, 4), ..IDENTITY },
        BlockIdentity { block: BlockIndex(5), ..IDENTITY },
        BlockIdentity { version: Version(4), ..IDENTITY },
        BlockIdentity { version: Version(6), ..IDENTITY },
        BlockIdentity { creator: GatewayId(7), ..IDENTITY },
        BlockIdentity { epoch: KeyEpoch(8), ..IDENTITY },
    ]
}

#[test]
fn a_block_that_is_anything_else_than_asked_for_does_not_open() {
    for suite in SUITES {
        let sealed = seal_one(suite, Padding::None, b"data");
        assert!(open(&key(), &IDENTITY, sealed.clone()).is_ok());
        for other in neighbours() {
            assert_eq!(open(&key(), &other, sealed.clone()), Err(OpenError::Forged), "{other}");
        }
    }
}

#[test]
fn another_key_says_so() {
    for suite in SUITES {
        let sealed = seal_one(suite, Padding::None, b"data");
        let other = FileKey::from_bytes([43; 32]);
        assert_eq!(open(&other, &IDENTITY, sealed), Err(OpenError::WrongKey));
    }
}

#[test]
fn every_flipped_bit_of_a_small_block_is_noticed() {
    for suite in SUITES {
        let sealed = seal_one(suite, Padding::Bucket(32), b"twenty bytes of data");
        for bit in 0..sealed.as_bytes().len() * 8 {
            let mut bytes = sealed.as_bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(open_bytes(&bytes).is_err(), "{suite:?} bit {bit}");
        }
    }
}

#[test]
fn every_truncation_and_extension_is_noticed() {
    for suite in SUITES {
        let sealed = seal_one(suite, Padding::None, &[7; 100]);
        let bytes = sealed.as_bytes();
        for len in 0..bytes.len() {
            assert!(open_bytes(&bytes[..len]).is_err(), "{suite:?} {len}");
        }
        assert_eq!(open_bytes(&[bytes, &[0][..]].concat()), Err(OpenError::Forged));
    }
    let short = open_bytes(&[0xB1; SEAL_OVERHEAD - 1]);
    assert!(matches!(short, Err(OpenError::WrongLength { needed: SEAL_OVERHEAD, .. })));
}

#[test]
fn unknown_formats_and_suites_are_told_apart_from_forgery() {
    let sealed = seal_one(Suite::Aes256Gcm, Padding::None, b"data");
    let with = |at: usize, byte| {
        let mut bytes = sealed.as_bytes().to_vec();
        bytes[at] = byte;
        open_bytes(&bytes)
    };
    assert!(matches!(with(0, 0xB2), Err(OpenError::UnknownFormat { byte: 0xB2, .. })));
    assert_eq!(with(1, 3), Err(OpenError::UnknownSuite { suite: 3 }));
    assert!(matches!(with(2, 1), Err(OpenError::UnknownFormat { .. })));
    // The suite cannot be talked down: the other suite has other keys.
    assert_eq!(with(1, 2), Err(OpenError::WrongKey));
}

#[test]
fn a_unique_buffer_is_decrypted_in_place_and_a_shared_one_is_left_alone() {
    let sealed = seal_one(Suite::Aes256Gcm, Padding::None, b"data");
    let copy = sealed.clone();
    let before = copy.as_bytes().to_vec();
    assert_eq!(&open(&key(), &IDENTITY, sealed).unwrap().plaintext[..], b"data");
    assert_eq!(copy.as_bytes(), &before);
    let buffer = copy.as_bytes().as_ptr_range();
    let opened = open(&key(), &IDENTITY, copy).unwrap();
    assert_eq!(&opened.plaintext[..], b"data");
    assert!(buffer.contains(&opened.plaintext.as_ptr()));
}

#[test]
fn who_keeps_a_plaintext_keeps_neither_padding_nor_what_lay_beside_it() {
    let kept = |opened: OpenedBlock| opened.plaintext.try_into_mut().unwrap().capacity();
    let padded = seal_one(Suite::Aes256Gcm, Padding::Padme, b"data");
    assert!(padded.as_bytes().len() > 4000);
    assert!(kept(open(&key(), &IDENTITY, padded).unwrap()) < 100);
    let alone = seal_one(Suite::IntegrityOnly, Padding::None, b"data");
    let mut many = alone.as_bytes().to_vec();
    many.resize(1 << 20, 0);
    let many = Bytes::from(many);
    let sealed = SealedBlock::from_untrusted(many.slice(..alone.as_bytes().len()));
    let opened = open(&key(), &IDENTITY, sealed).unwrap();
    drop(many);
    assert!(kept(opened) < 100);
}

#[test]
fn the_clear_part_shows_neither_identity_nor_length_nor_time() {
    let seal_with = |identity: &BlockIdentity, data: &[u8], time| {
        let options = SealOptions { time, ..options(Suite::Aes256Gcm, Padding::Padme) };
        seal(&key(), identity, &[data], &options, &SystemEntropy::new())
    };
    let one = seal_with(&IDENTITY, b"a", TIME);
    let other = seal_with(&neighbours()[0], b"another length", Timestamp::default());
    let (one, other) = (one.as_bytes(), other.as_bytes());
    assert_eq!(one.len(), other.len());
    assert_eq!(one[..8], other[..8]);
    let same = (8..one.len()).filter(|&i| one[i] == other[i]).count();
    assert!(same < one.len() / 64, "{same} equal bytes of {}", one.len());
    assert!(!one.windows(8).any(|window| window == TIME.seconds.to_be_bytes()));
}

#[test]
fn integrity_only_leaves_the_data_readable() {
    let sealed = seal_one(Suite::IntegrityOnly, Padding::None, b"public data");
    assert!(sealed.as_bytes().windows(11).any(|window| window == b"public data"));
}

#[test]
fn nonces_and_commitments_never_repeat_over_a_hundred_thousand_seals() {
    let entropy = SystemEntropy::new();
    let (mut nonces, mut commitments) = (HashSet::new(), HashSet::new());
    for _ in 0..100_000 {
        let options = options(Suite::Aes256Gcm, Padding::None);
        let sealed = seal(&key(), &IDENTITY, &[b"same"], &options, &entropy);
        assert!(nonces.insert(sealed.as_bytes()[8..32].to_vec()));
        assert!(commitments.insert(sealed.as_bytes()[32..64].to_vec()));
    }
}

/// `K25`: with offset or version as the nonce, one block's keystream reappears shifted in the next version's.
#[test]
fn no_keystream_block_is_shared_by_versions_creators_or_repeated_seals() {
    let entropy = SystemEntropy::new();
    let zeros = [0; 4096];
    let mut seen = HashSet::new();
    let identities = [vec![IDENTITY, IDENTITY], neighbours()].concat();
    for identity in &identities {
        let options = options(Suite::Aes256Gcm, Padding::None);
        let sealed = seal(&key(), identity, &[zeros], &options, &entropy);
        let (stream, rest) = sealed.as_bytes()[80..80 + 4096].as_chunks::<16>();
        assert!(rest.is_empty());
        for block in stream {
            assert!(seen.insert(*block), "keystream repeats at {identity}");
        }
    }
    assert_eq!(seen.len(), identities.len() * 256);
}

#[test]
fn an_authentic_block_with_impossible_contents_is_refused() {
    let rewrite = |inner: [u8; 16]| {
        let mut bytes = seal_one(Suite::IntegrityOnly, Padding::None, b"data").as_bytes().to_vec();
        bytes[64..80].copy_from_slice(&inner);
        let nonce = bytes[8..32].try_into().unwrap();
        let aad = associated_data(&bytes[..CLEAR_LEN], &IDENTITY.to_bytes());
        let tag_at = bytes.len() - TAG_LEN;
        let tag = BlockKeys::derive(key().as_bytes(), Suite::IntegrityOnly, &nonce)
            .mac(&bytes[CLEAR_LEN..tag_at], &aad);
        bytes[tag_at..].copy_from_slice(&tag);
        open_bytes(&bytes)
    };
    let mut inner = [0; 16];
    assert!(rewrite(inner).unwrap().plaintext.is_empty());
    inner[3] = 5;
    assert!(matches!(rewrite(inner), Err(OpenError::Malformed { .. })));
    inner[..8].copy_from_slice(&[0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff]);
    assert!(matches!(rewrite(inner), Err(OpenError::Malformed { .. })));
}

/// Blocks sealed by this version must open for ever. The bytes were computed from the description of the format
/// by another implementation.
#[test]
fn format_1_never_changes() {
    struct Counting;
    impl Entropy for Counting {
        fn fill(&self, out: &mut [u8]) {
            for (i, byte) in out.iter_mut().enumerate() {
                *byte = i as u8;
            }
        }
    }
    let encrypted = "b101000000000000000102030405060708090a0b0c0d0e0f1011121314151617\
                     678e96a4e85e9b93b82fd234eb60c3b606cf651239aa3b8a5665315a28e6e562\
                     7a336cf06f3ea66be86444a87f0163d9466763635d7f1a8c72a38a930d3f53b0a40230e1";
    let readable = "b102000000000000000102030405060708090a0b0c0d0e0f1011121314151617\
                    9ce21ef3ec5edda22f7fd24a05b31f9d318eb3b85a74d45a45398a397f845d29\
                    000000043b9ac9ff000000006553f10064617461463f1234e611d57a6c9e4492df97a48c";
    for (suite, expected) in [(Suite::Aes256Gcm, encrypted), (Suite::IntegrityOnly, readable)] {
        let sealed = seal(&key(), &IDENTITY, &[b"data"], &options(suite, Padding::None), &Counting);
        assert_eq!(data_encoding::HEXLOWER.encode(sealed.as_bytes()), expected);
    }
}

fn any_padding() -> impl Strategy<Value = Padding> {
    prop_oneof![
        Just(Padding::None),
        Just(Padding::Padme),
        Just(Padding::PowerOfTwo),
        (1u32..5000).prop_map(Padding::Bucket),
    ]
}

proptest! {
    #[test]
    fn what_was_sealed_comes_back(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..4),
        padding in any_padding(),
        integrity_only: bool,
        seconds: i64,
        nanos in 0u32..1_000_000_000,
    ) {
        let suite = SUITES[usize::from(integrity_only)];
        let time = Timestamp { seconds, nanos };
        let options = SealOptions { suite, padding, time };
        let sealed = seal(&key(), &IDENTITY, &parts, &options, &SystemEntropy::new());
        let whole = parts.concat();
        prop_assert_eq!(sealed.as_bytes().len(), sealed_len(whole.len(), padding));
        let opened = open(&key(), &IDENTITY, sealed).unwrap();
        prop_assert_eq!(opened, OpenedBlock { plaintext: Bytes::from(whole), sealed_at: time, suite });
    }

    #[test]
    fn any_flipped_bit_of_a_large_block_is_noticed(bit: prop::sample::Index, integrity_only: bool) {
        let suite = SUITES[usize::from(integrity_only)];
        let mut bytes = seal_one(suite, Padding::Padme, &[1; 70_000]).as_bytes().to_vec();
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(open_bytes(&bytes).is_err());
    }

    #[test]
    fn arbitrary_bytes_never_open_and_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), header: bool) {
        if header && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(&[FORMAT, 1, 0, 0, 0, 0, 0, 0]);
        }
        prop_assert!(open_bytes(&bytes).is_err());
    }
}
