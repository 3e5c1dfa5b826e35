use proptest::prelude::*;

use super::*;
use crate::split;

const KEY: [u8; 32] = [3; 32];
const CONTEXT: &[u8] = b"version 5";

fn scheme() -> Scheme {
    Scheme::reed_solomon(3, 1).unwrap()
}

fn stored(index: usize) -> Vec<u8> {
    split(scheme(), &Bytes::from_static(b"a sealed block"), &KEY, CONTEXT)[index].to_bytes().to_vec()
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
    for fragment in split(Scheme::replicas(2).unwrap(), &Bytes::from_static(b"block"), &KEY, CONTEXT) {
        assert_eq!(fragment.segments().concat(), fragment.to_bytes());
        assert_eq!(fragment.to_bytes().len(), fragment.len());
    }
}

/// Fragments stored by this version must verify for ever. The bytes were computed from the description of the
/// format by another implementation.
#[test]
fn format_1_never_changes() {
    let coded = split(Scheme::reed_solomon(3, 2).unwrap(), &Bytes::from_static(b"0123456789"), &KEY, CONTEXT);
    let replicas = split(Scheme::replicas(2).unwrap(), &Bytes::from_static(b"block"), &KEY, CONTEXT);
    let hex =
        |fragment: &Fragment| fragment.to_bytes().iter().map(|b| format!("{b:02x}")).collect::<String>();
    assert_eq!(hex(&coded[2]), "f102030502000000000000000000000ad6c97a39b8d6495dff24a0e3dfc3e0b03839");
    assert_eq!(hex(&coded[4]), "f102030504000000000000000000000adf3be97ffa18a85f36e3ab2f9e511e66ae348c6c");
    assert_eq!(
        hex(&replicas[1]),
        "f1010102010000000000000000000005fac18bebb705628529331b1c1ec4db6d626c6f636b"
    );
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
