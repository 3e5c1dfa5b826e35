use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use environment::Entropy;
use proptest::prelude::*;

use super::*;
use crate::SplitKeys;
use crate::gf256::{invert, multiply};

const KEY: [u8; 32] = [3; 32];
const CONTEXT: &[u8] = b"version 5";

/// Bytes that are as predictable as can be.
struct Counting;

impl Entropy for Counting {
    fn fill(&self, out: &mut [u8]) {
        out.iter_mut().zip(0..).for_each(|(byte, number)| *byte = number);
    }
}

fn split(scheme: Scheme, block: &Bytes) -> Vec<Fragment> {
    let keys = SplitKeys { checksum: &KEY, convergence: &[5; 32] };
    crate::split(scheme, block, keys, CONTEXT, &Counting)
}

fn scheme() -> Scheme {
    Scheme::reed_solomon(3, 1).unwrap()
}

fn stored(index: usize) -> Vec<u8> {
    split(scheme(), &Bytes::from_static(b"a sealed block"))[index].to_bytes().to_vec()
}

fn verify(bytes: Vec<u8>, index: u8) -> Result<VerifiedFragment, BadFragment> {
    verify_as(scheme(), bytes, index)
}

fn verify_as(scheme: Scheme, bytes: Vec<u8>, index: u8) -> Result<VerifiedFragment, BadFragment> {
    Fragment::from_bytes(Bytes::from(bytes))?.verify(&KEY, scheme, index, CONTEXT)
}

#[test]
fn an_intact_fragment_verifies_and_tells_what_it_is() {
    for index in 0..4 {
        let fragment = verify(stored(index.into()), index).unwrap();
        assert_eq!((fragment.index(), fragment.scheme(), fragment.block_len()), (index, scheme(), 14));
    }
}

#[test]
fn the_reason_for_refusal_is_named() {
    let with = |at: usize, byte| {
        let mut bytes = stored(1);
        bytes[at] = byte;
        verify(bytes, 1)
    };
    assert_eq!(with(0, 0xF2), Err(BadFragment::WrongFormat { byte: 0xF2 }));
    assert_eq!(with(5, 1), Err(BadFragment::WrongFormat { byte: 1 }));
    assert_eq!(with(3, 5), Err(BadFragment::WrongScheme { expected: scheme() }));
    assert_eq!(with(4, 2), Err(BadFragment::WrongIndex { expected: 1, found: 2 }));
    assert_eq!(with(15, 200), Err(BadFragment::WrongLength { expected: 67, found: 5 }));
    assert_eq!(with(16, 0), Err(BadFragment::WrongChecksum));
    assert_eq!(with(HEADER_LEN, 0), Err(BadFragment::WrongChecksum));
    let mut bytes = stored(1);
    bytes.push(0);
    assert_eq!(verify(bytes, 1), Err(BadFragment::WrongLength { expected: 5, found: 6 }));
    assert_eq!(verify(vec![0xF1; 31], 1), Err(BadFragment::TooShort { len: 31 }));
}

#[test]
fn shares_in_the_format_of_other_fragments_are_refused_as_such() {
    let scheme = Scheme::caont_rs(2, 1).unwrap();
    let mut bytes = split(scheme, &Bytes::from_static(b"a sealed block"))[1].to_bytes().to_vec();
    assert_eq!(bytes[0], 0xF2);
    bytes[0] = 0xF1;
    assert_eq!(verify_as(scheme, bytes.clone(), 1), Err(BadFragment::WrongFormat { byte: 0xF1 }));
    bytes[0] = 0xF3;
    assert_eq!(verify_as(scheme, bytes, 1), Err(BadFragment::WrongFormat { byte: 0xF3 }));
    assert_eq!(verify_as(scheme, stored(1), 1), Err(BadFragment::WrongScheme { expected: scheme }));
}

#[test]
fn a_fragment_of_another_place_version_or_key_is_refused() {
    assert_eq!(verify(stored(0), 1), Err(BadFragment::WrongIndex { expected: 1, found: 0 }));
    let fragment = || Fragment::from_bytes(Bytes::from(stored(1))).unwrap();
    assert_eq!(fragment().verify(&KEY, scheme(), 1, b"version 6"), Err(BadFragment::WrongChecksum));
    assert_eq!(fragment().verify(&[4; 32], scheme(), 1, CONTEXT), Err(BadFragment::WrongChecksum));
    let other = Scheme::reed_solomon(3, 2).unwrap();
    let expected = BadFragment::WrongScheme { expected: other };
    assert_eq!(fragment().verify(&KEY, other, 1, CONTEXT), Err(expected));
}

#[test]
fn every_flipped_bit_is_noticed() {
    // Shares of 32 bytes, which are all end, and of 66.
    for (scheme, len) in [("rs:3+1", 14), ("replicas:2", 14), ("aont-rs:2+1", 14), ("caont-rs:3+2", 150)] {
        let scheme: Scheme = scheme.parse().unwrap();
        for (index, fragment) in split(scheme, &Bytes::from(vec![7; len])).iter().enumerate() {
            let good = fragment.to_bytes().to_vec();
            for bit in 0..good.len() * 8 {
                let mut bytes = good.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(verify_as(scheme, bytes, index as u8).is_err(), "{scheme} {index} bit {bit}");
            }
        }
    }
}

/// The front page of the crate, word for word; slow, and without a step in common with what `split` does but the primitives.
fn as_described(scheme: Scheme, block: &[u8]) -> Vec<Vec<u8>> {
    let (k, total) = (scheme.needed(), scheme.total());
    let s = (block.len() + 48).div_ceil(k).max(32);
    let package_key: [u8; 32] = match scheme.is_convergent() {
        false => std::array::from_fn(|at| at as u8),
        true => {
            let secret = blake3::derive_key("kurma 2026 convergent package key", &[5; 32]);
            *blake3::keyed_hash(&secret, block).as_bytes()
        }
    };
    let mut package = block.to_vec();
    package.resize(k * s - 48, 0);
    let cipher = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &package_key).unwrap());
    let nonce = Nonce::assume_unique_for_key([0; 12]);
    cipher.seal_in_place_append_tag(nonce, Aad::empty(), &mut package).unwrap();
    let share_digest = |share: &[u8]| {
        let (start, end) = share.split_at(s - 32);
        [&blake3::derive_key("kurma 2026 share digest", start)[..], end].concat()
    };
    package.extend_from_slice(&package_key);
    let mut digests = package.chunks(s).map(share_digest).collect::<Vec<_>>().concat();
    digests.truncate(64 * k - 32);
    let mask = blake3::derive_key("kurma 2026 package digest", &digests);
    package.iter_mut().skip(k * s - 32).zip(mask).for_each(|(key, mask)| *key ^= mask);
    let mut bodies: Vec<Vec<u8>> = package.chunks(s).map(<[u8]>::to_vec).collect();
    for row in k..total {
        let term = |i: usize, at: usize| multiply(invert((row ^ i) as u8), package[i * s + at]);
        bodies.push((0..s).map(|at| (0..k).fold(0, |sum, i| sum ^ term(i, at))).collect());
    }
    let checksum_key = blake3::derive_key("kurma 2026 fragment checksum", &KEY);
    let with_header = |(index, body): (usize, &Vec<u8>)| {
        let kind = if scheme.is_convergent() { 4 } else { 3 };
        let mut out = vec![0xF2, kind, k as u8, total as u8, index as u8, 0, 0, 0];
        out.extend_from_slice(&(block.len() as u64).to_be_bytes());
        let covered = [&out[..], CONTEXT, &share_digest(body)].concat();
        out.extend_from_slice(&blake3::keyed_hash(&checksum_key, &covered).as_bytes()[..16]);
        [out, body.clone()].concat()
    };
    bodies.iter().enumerate().map(with_header).collect()
}

#[test]
fn shares_are_what_the_description_says() {
    for scheme in ["aont-rs:2+1", "caont-rs:2+0", "aont-rs:5+3", "caont-rs:3+2", "caont-rs:31+1"] {
        let scheme: Scheme = scheme.parse().unwrap();
        for len in [0, 1, 15, 16, 17, 48, 50, 1000, 33_000, 200_001] {
            let block: Bytes = (0..len).map(|at: u32| (at * 7 / 8) as u8).collect();
            let made: Vec<_> = split(scheme, &block).iter().map(|share| share.to_bytes().to_vec()).collect();
            assert!(made == as_described(scheme, &block), "{scheme} of {len} bytes");
        }
    }
}

#[test]
fn segments_are_the_bytes() {
    for fragment in split(Scheme::replicas(2).unwrap(), &Bytes::from_static(b"block")) {
        assert_eq!(fragment.segments().concat(), fragment.to_bytes());
        assert_eq!(fragment.to_bytes().len(), fragment.len());
    }
}

/// Fragments stored by this version must verify for ever. The bytes were computed from the description of the
/// format by another implementation.
#[test]
fn format_1_never_changes() {
    let coded = split(Scheme::reed_solomon(3, 2).unwrap(), &Bytes::from_static(b"0123456789"));
    let replicas = split(Scheme::replicas(2).unwrap(), &Bytes::from_static(b"block"));
    let hex =
        |fragment: &Fragment| fragment.to_bytes().iter().map(|b| format!("{b:02x}")).collect::<String>();
    assert_eq!(hex(&coded[2]), "f102030502000000000000000000000ad6c97a39b8d6495dff24a0e3dfc3e0b03839");
    assert_eq!(hex(&coded[4]), "f102030504000000000000000000000adf3be97ffa18a85f36e3ab2f9e511e66ae348c6c");
    assert_eq!(
        hex(&replicas[1]),
        "f1010102010000000000000000000005fac18bebb705628529331b1c1ec4db6d626c6f636b"
    );
}

/// The bytes were computed from the description of the format by another implementation. The shares of the first package are
/// all end, those of the second are not.
#[test]
fn packages_of_format_2_never_change() {
    let hex =
        |fragment: &Fragment| fragment.to_bytes().iter().map(|b| format!("{b:02x}")).collect::<String>();
    let of = |scheme: Option<Scheme>, block: &[u8]| {
        split(scheme.unwrap(), &Bytes::copy_from_slice(block)).iter().map(hex).collect::<Vec<_>>()
    };
    let random = [
        "f203020300000000000000000000000a2d2695238bfd08564e92c03135987a4d3e8d87ed8119b58a3091a935182c9199a6a0f51e767c40855909226e803e553f",
        "f203020301000000000000000000000a49b6c71a8bf6611d27fdd5b44d1cae93c94d7b62f69a191ac230f9f7cc719bc3e78eee7e095258813d16e6818a41e7ee",
        "f203020302000000000000000000000abbc72ad14b9c50cfe3569d9f5a8b3e5458f3e42d9cf428b8add68d32483944830e2aae253cfbe3b34273b848cd20f9cb",
    ];
    assert_eq!(of(Scheme::aont_rs(2, 1), b"0123456789"), random);
    let convergent = [
        "f20402030000000000000000000000287c098cb3872591fd659dceb1bf23faaf582b2a01ba873599cf756ee80f499f95c77a775f1d828521bcb7b59e32da141bb6c18f2cee970bc8e439eda3",
        "f2040203010000000000000000000028592453fc1b1c1cde3b67fdb9b1fa13ac342d402b857a36261cf262b23dfd7b00fd191c4e7c1555aa46ac3372c9f218dd2b5df6c8a4d85f2f08e72c1f",
        "f20402030200000000000000000000288b3274e4fc1bd75c6fdbd9a48780783bcb80de97d510862b1611e21a690ae8c44dc14a9b5fb9fff897b1c5615ec802c8422e9ba5e08dbe8a81cf1721",
    ];
    assert_eq!(of(Scheme::caont_rs(2, 1), &b"0123456789".repeat(4)), convergent);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_verify_and_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        header: bool,
        coded: bool,
        index in 0u8..4,
    ) {
        let scheme = if coded { scheme() } else { Scheme::caont_rs(3, 1).unwrap() };
        if header && bytes.len() >= 8 {
            let [kind, needed, total] = scheme.to_bytes();
            bytes[..8].copy_from_slice(&[format_of(scheme), kind, needed, total, index, 0, 0, 0]);
        }
        prop_assert!(verify_as(scheme, bytes, index).is_err());
    }
}
