//! What comes back from the clouds, and keys. Nothing may be accepted but what was stored.

use std::sync::OnceLock;

use blocks::Pack;
use bytes::Bytes;
use disperse::{Fragment, Scheme, SplitKeys, VerifiedFragment, join, rebuild, split};
use ids::{BlockIndex, GatewayId, ObjectId, ObjectNumber, Timestamp, Version, VolumeId};
use seal::{
    AccessorSetId, BlockIdentity, BlockName, Certificate, EpochIdentity, EpochKey, FileKey, KeyEpoch,
    KeyFile, Padding, SealOptions, SealedBlock, Signer, SigningKey, Suite, open, open_convergent,
    open_epoch_key, seal_convergent, unwrap_file_key, wrap_epoch_key, wrap_file_key,
};

use crate::machine::Counted;
use crate::tape::Tape;

const PLAINTEXT: &[u8] = b"what the program wrote";
const OBJECT: ObjectId = ObjectId { creator: GatewayId(1), number: ObjectNumber(42) };

fn identity() -> BlockIdentity {
    BlockIdentity {
        volume: VolumeId(7),
        object: OBJECT,
        block: BlockIndex(3),
        version: Version(9),
        creator: GatewayId(1),
        epoch: KeyEpoch(1),
    }
}

fn file_key() -> FileKey {
    FileKey::generate(&Counted::default())
}

fn sealed(suite: Suite) -> Vec<u8> {
    let options = SealOptions { suite, padding: Padding::Bucket(64), time: Timestamp::default() };
    seal::seal(&file_key(), &identity(), &[PLAINTEXT], &options, &Counted::default()).into_bytes().to_vec()
}

/// A sealed block.
pub(crate) fn block(data: &[u8]) {
    static STORED: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let sealed = SealedBlock::from_untrusted(Bytes::copy_from_slice(data));
    let opened = match sealed.is_convergent() {
        true => open_convergent(file_key().content_key(), sealed),
        false => open(&file_key(), &identity(), sealed),
    };
    if let Ok(opened) = opened {
        assert!(STORED.get_or_init(block_seeds).iter().any(|stored| stored == data), "a forgery was opened");
        assert_eq!(&opened.plaintext[..], PLAINTEXT);
    }
}

pub(crate) fn block_seeds() -> Vec<Vec<u8>> {
    let convergent = seal_convergent(file_key().content_key(), &[PLAINTEXT], Padding::Bucket(64));
    vec![sealed(Suite::Aes256Gcm), sealed(Suite::IntegrityOnly), convergent.into_bytes().to_vec()]
}

const FRAGMENT_KEY: [u8; 32] = [3; 32];
const SCHEMES: [&str; 7] =
    ["replicas:1", "replicas:3", "rs:1+1", "rs:2+1", "rs:4+2", "aont-rs:3+1", "caont-rs:2+2"];

fn stored(scheme: Scheme) -> Vec<Bytes> {
    let block = Bytes::from_static(PLAINTEXT);
    let keys = SplitKeys { checksum: &FRAGMENT_KEY, convergence: &[4; 32] };
    // The same package key whenever it is asked for.
    let fragments = split(scheme, &block, keys, &identity().to_bytes(), &Counted::default());
    fragments.iter().map(Fragment::to_bytes).collect()
}

/// A scheme, and for each of its fragments whether a cloud gives it back, another one, or a changed one.
pub(crate) fn fragments(data: &[u8]) {
    let mut tape = Tape::new(data);
    let scheme: Scheme = tape.pick(&SCHEMES).unwrap().parse().unwrap();
    let stored = stored(scheme);
    let mut good: Vec<VerifiedFragment> = Vec::new();
    for index in 0..scheme.total() {
        let answer = match tape.byte() % 5 {
            0 => stored[index].clone(),
            1 => continue,
            2 => tape.pick(&stored).unwrap(),
            3 => {
                let mut changed = stored[index].to_vec();
                let at = usize::from(tape.byte()) % changed.len();
                changed[at] ^= tape.byte();
                changed.truncate(changed.len() - usize::from(tape.byte()).min(changed.len()));
                changed.into()
            }
            _ => Bytes::copy_from_slice(tape.bytes()),
        };
        let Ok(fragment) = Fragment::from_bytes(answer.clone()) else { continue };
        if let Ok(verified) = fragment.verify(&FRAGMENT_KEY, scheme, index as u8, &identity().to_bytes()) {
            assert_eq!(answer, stored[index], "another fragment was taken for this one");
            good.push(verified);
        }
    }
    let enough = good.len() >= scheme.needed();
    for (index, stored) in stored.iter().enumerate() {
        match rebuild(&good, index as u8, &FRAGMENT_KEY, &identity().to_bytes()) {
            Ok(rebuilt) => assert_eq!(rebuilt.to_bytes(), *stored),
            Err(_) => assert!(!enough, "fragment {index} was not rebuilt"),
        }
    }
    let missing = scheme.total() as u8 + tape.byte() % 64;
    assert!(rebuild(&good, missing, &FRAGMENT_KEY, &[]).is_err());
    match join(good) {
        Ok(block) => assert_eq!(&block[..], PLAINTEXT),
        Err(_) => assert!(!enough, "enough fragments were not joined"),
    }
}

pub(crate) fn fragment_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for scheme in 0..SCHEMES.len() as u8 {
        seeds.push(vec![scheme, 0, 0, 0, 0, 0, 0]);
        seeds.push(vec![scheme, 1, 0, 2, 0, 3, 20, 1, 0, 0, 0]);
        let fragment = &stored(SCHEMES[usize::from(scheme)].parse().unwrap())[0];
        seeds.push([&[scheme, 4, fragment.len() as u8], &fragment[..], &[0, 0, 0, 0, 0]].concat());
    }
    seeds
}

fn signer() -> Signer {
    Signer { gateway: GatewayId(1), key: SigningKey::of_seed(&[9; 32]).into() }
}

const BLOCKS: [&[u8]; 2] = [b"one", b"another"];

/// Blocks, footer and end of a pack.
fn packed() -> [Vec<u8>; 3] {
    static PACKED: OnceLock<[Vec<u8>; 3]> = OnceLock::new();
    let make = || {
        let signer = signer();
        let mut certificate = Certificate::of_nothing(signer.owner(), Timestamp::default());
        let (mut blocks, mut footer) = (Vec::new(), Vec::new());
        for (at, plaintext) in BLOCKS.into_iter().enumerate() {
            let id = BlockIdentity { block: BlockIndex(at as u64), ..identity() };
            let options = SealOptions { padding: Padding::None, ..SealOptions::at(Timestamp::default()) };
            let sealed =
                seal::seal(&file_key(), &id, &[plaintext], &options, &Counted::default()).into_bytes();
            certificate.append(&BlockName::of(&sealed), sealed.len() as u64);
            footer.extend_from_slice(&id.to_bytes()[16..]);
            footer.extend_from_slice(&(sealed.len() as u32).to_be_bytes());
            blocks.extend_from_slice(&sealed);
        }
        footer.extend_from_slice(&certificate.sign(&signer.key));
        [blocks, footer, vec![0, 0, 0, 0xA2]]
    };
    PACKED.get_or_init(make).clone()
}

/// The content of a pack, as it is or with a footer sealed by its owner: nothing is read beyond its end, and what is accepted is
/// what is certified.
pub(crate) fn pack(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let content = match kind % 2 {
        0 => data.to_vec(),
        _ => {
            let [blocks, _, end] = packed();
            let options = SealOptions { padding: Padding::None, ..SealOptions::at(Timestamp::default()) };
            let footer =
                seal::seal(&file_key().footer_key(), &identity(), &[data], &options, &Counted::default());
            let footer = footer.into_bytes();
            [&blocks[..], &footer, &(footer.len() as u32).to_be_bytes(), &end].concat()
        }
    };
    let Ok(pack) = Pack::open(&file_key(), &identity(), &signer().owner(), content.into()) else { return };
    assert_eq!((pack.blocks().len(), pack.certificate().blocks), (BLOCKS.len(), BLOCKS.len() as u32));
    for (_, place) in pack.blocks() {
        assert!(pack.sealed(place).is_some(), "a place without its block");
    }
}

pub(crate) fn pack_seeds() -> Vec<Vec<u8>> {
    let [blocks, footer, end] = packed();
    let options = SealOptions { padding: Padding::None, ..SealOptions::at(Timestamp::default()) };
    let sealed = seal::seal(&file_key().footer_key(), &identity(), &[&footer], &options, &Counted::default());
    let sealed = sealed.into_bytes();
    let whole = [&[0], &blocks[..], &sealed, &(sealed.len() as u32).to_be_bytes(), &end].concat();
    vec![whole, [&[1], &footer[..]].concat()]
}

/// A certificate. One that is accepted, and names this owner, is one that it has signed.
pub(crate) fn certificate(data: &[u8]) {
    if let Some(certificate) = Certificate::verify(data).ok().filter(|found| found.owner == signer().owner())
    {
        assert_eq!(certificate.sign(&signer().key), data);
        assert!(certificate_seeds().iter().any(|seed| seed == data), "a forgery was accepted");
    }
}

pub(crate) fn certificate_seeds() -> Vec<Vec<u8>> {
    let [_, footer, _] = packed();
    vec![footer[footer.len() - Certificate::LEN..].to_vec()]
}

fn epoch_identity() -> EpochIdentity {
    EpochIdentity { volume: VolumeId(7), accessors: AccessorSetId(0), epoch: KeyEpoch(1) }
}

fn gateway() -> KeyFile {
    KeyFile::generate(GatewayId(7), &Counted::default())
}

/// A wrapped file key and a wrapped epoch key.
pub(crate) fn keys(data: &[u8]) {
    static STORED: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let is_stored = || STORED.get_or_init(key_seeds).iter().any(|stored| stored == data);
    let epoch_key = EpochKey::generate(epoch_identity(), &Counted::default());
    if let Ok(key) = unwrap_file_key(&epoch_key, OBJECT, data) {
        assert!(is_stored() && key == file_key());
    }
    if let Ok(key) = open_epoch_key(&gateway().gateway_keys(), epoch_identity(), data) {
        assert!(is_stored() && key == epoch_key);
    }
}

pub(crate) fn key_seeds() -> Vec<Vec<u8>> {
    static SEEDS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    // Made once: the encapsulation draws its own randomness.
    let make = || {
        let epoch_key = EpochKey::generate(epoch_identity(), &Counted::default());
        let file = wrap_file_key(&epoch_key, &file_key(), OBJECT, &Counted::default());
        let epoch = wrap_epoch_key(&epoch_key, gateway().gateway_keys().public(), &Counted::default());
        let epoch = epoch.map(|wrapped| wrapped.as_bytes().to_vec());
        [Some(file.as_bytes().to_vec()), epoch.ok()].into_iter().flatten().collect()
    };
    SEEDS.get_or_init(make).clone()
}

/// The text of a key file. One that is accepted reads the same again.
pub(crate) fn key_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(key) = KeyFile::parse(text) {
        assert_eq!(KeyFile::parse(&key.to_text()).ok(), Some(key));
    }
}

pub(crate) fn key_file_seeds() -> Vec<Vec<u8>> {
    let text = gateway().to_text().to_string();
    vec![text.replace('#', "\n #\t").into_bytes(), text.into_bytes()]
}
