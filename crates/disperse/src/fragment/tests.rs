use environment::Entropy;
use proptest::prelude::*;

use super::*;
use crate::SplitKeys;

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
    Fragment::from_bytes(Bytes::from(bytes))?.verify(&KEY, scheme(), index, CONTEXT)
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
    for index in 0..4u8 {
        let good = stored(index.into());
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(verify(bytes, index).is_err(), "fragment {index} bit {bit}");
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

/// The bytes were computed from the description of the format by another implementation.
#[test]
fn packages_of_format_1_never_change() {
    let hex =
        |fragment: &Fragment| fragment.to_bytes().iter().map(|b| format!("{b:02x}")).collect::<String>();
    let of = |scheme: Option<Scheme>| {
        split(scheme.unwrap(), &Bytes::from_static(b"0123456789")).iter().map(hex).collect::<Vec<_>>()
    };
    let random = [
        "f103020300000000000000000000000afeb4716c683af38f10e2817bd6a475813e8d87ed8119b58a3091a935182c9199a6a0f51e767c40855909226e803e553f",
        "f103020301000000000000000000000ac45a3a0766c5780bb7f3136a73a51aee291030577ad93bc5d24b53e2c1894cb959344903ed355a482e9b2b594c64c06c",
        "f103020302000000000000000000000af2161e5d16be7736abd9a594969e285bf333dd3e133e360656ffebcab89a095e64b7380e602d16f4b80808008fc8e4b5",
    ];
    assert_eq!(of(Scheme::aont_rs(2, 1)), random);
    let convergent = [
        "f104020300000000000000000000000a3c30a64d8ff0a25d5c30cbb14011ac5a85c70b1e686c78cd435cf42207cc66207cd7aa81601d56c72b9c8cab515c7aba",
        "f104020301000000000000000000000a83a5699fac8d05ff9a107c79911e0a6cc280e7488d155b74794aa95699fa50850f9a46f940145be36669306f5fa372f7",
        "f104020302000000000000000000000a5319c3c769ecc2305bb035c206c2df787966d6374fcefec473e31d23fa3003983b939c99fb8ce947b96956fe934f13fb",
    ];
    assert_eq!(of(Scheme::caont_rs(2, 1)), convergent);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_verify_and_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        header: bool,
        index in 0u8..4,
    ) {
        if header && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(&[FORMAT, 2, 3, 4, index, 0, 0, 0]);
        }
        prop_assert!(verify(bytes, index).is_err());
    }
}
