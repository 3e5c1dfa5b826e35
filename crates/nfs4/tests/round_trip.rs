//! What decodes encodes to something that decodes to the same; nothing panics.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod vectors;

use bytes::Bytes;
use nfs4::{
    AttributeValues, Bitmap, CbCompoundArgs, CompoundArgs, CompoundRes, Fattr, NfsArgOp, NfsCbArgOp,
    NfsCbResOp, NfsResOp,
};
use proptest::prelude::*;
use vectors::Vector;
use xdr::{Decode, Encode};

/// Whether `wire` decodes; if it does, the value survives encoding.
fn survives<T: Decode + Encode + PartialEq + std::fmt::Debug>(wire: &Bytes) -> bool {
    let Ok(value) = xdr::from_bytes::<T>(wire.clone()) else { return false };
    let again = xdr::to_bytes(&value);
    assert_eq!(xdr::from_bytes::<T>(again).unwrap(), value);
    true
}

/// The same for the values of attributes.
fn attributes_survive(wire: &Bytes, number: u32) -> bool {
    let Ok(values) = (Fattr { bitmap: Bitmap::of(&[number]), encoded: wire.clone() }).values() else {
        return false;
    };
    assert_eq!(values.to_fattr().values().unwrap(), values);
    true
}

fn check(kind: &str, name: &str, wire: &Bytes) -> bool {
    match kind {
        "args" => survives::<NfsArgOp>(wire),
        "res" => survives::<NfsResOp>(wire),
        "cb_args" => survives::<NfsCbArgOp>(wire),
        "cb_res" => survives::<NfsCbResOp>(wire),
        _ => attributes_survive(wire, name.parse().unwrap()),
    }
}

/// A word that means something in many places.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..8, Just(u32::MAX), Just(0x7fff_ffff), any::<u32>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn values_of_every_operation_and_attribute_survive(
        changes in prop::collection::vec((any::<prop::sample::Index>(), word()), 0..3),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut decoded = 0;
        for Vector { kind, name, wire } in vectors::all() {
            let mut wire = wire.to_vec();
            for (at, word) in &changes {
                // The first word says which operation it is.
                let words = wire.len() / 4 - usize::from(kind != "attribute");
                if words > 0 {
                    let start = wire.len() - 4 * (1 + at.index(words));
                    wire[start..start + 4].copy_from_slice(&word.to_be_bytes());
                }
            }
            if let Some(cut) = cut {
                wire.truncate(cut.index(wire.len() + 1));
            }
            decoded += u32::from(check(kind, name, &Bytes::from(wire)));
        }
        // So that this does not become a test of nothing: unchanged, all decode; changed, the most do.
        prop_assert!(decoded > 100 || cut.is_some(), "{decoded} decoded");
    }

    #[test]
    fn arbitrary_bytes_never_panic(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        let wire = Bytes::from(noise);
        survives::<CompoundArgs>(&wire);
        survives::<CompoundRes>(&wire);
        survives::<CbCompoundArgs>(&wire);
        for number in 0..128 {
            attributes_survive(&wire, number);
            let mut op = u32::to_be_bytes(number).to_vec();
            op.extend_from_slice(&wire);
            let op = Bytes::from(op);
            for kind in ["args", "res", "cb_args", "cb_res"] {
                check(kind, "", &op);
            }
        }
    }

    #[test]
    fn any_set_of_attributes_survives(chosen in any::<[u32; 3]>(), mask in any::<[u32; 3]>()) {
        let mut all = AttributeValues::default();
        for Vector { name, wire: encoded, .. } in vectors::of("attribute") {
            let number: u32 = name.parse().unwrap();
            if chosen[number as usize / 32] >> (number % 32) & 1 == 1 {
                let one = Fattr { bitmap: Bitmap::of(&[number]), encoded };
                merge(&mut all, one);
            }
        }
        let set = |words: [u32; 3]| (0u32..96).filter(|n| words[*n as usize / 32] >> (n % 32) & 1 == 1).collect::<Bitmap>();
        prop_assert!(set(chosen).contains_all(all.bitmap()));
        let fattr = all.to_fattr();
        prop_assert_eq!(fattr.bitmap, all.bitmap());
        prop_assert_eq!(&fattr.values().unwrap(), &all);
        let selected = all.select(set(mask));
        prop_assert_eq!(selected.bitmap, all.bitmap() & set(mask));
        prop_assert_eq!(selected.values().unwrap().to_fattr(), selected);
    }
}

/// Adds the single attribute `one` to `all`, through the wire form.
fn merge(all: &mut AttributeValues, one: Fattr) {
    let before = all.to_fattr();
    let number = one.bitmap.iter().next().unwrap();
    if before.bitmap.contains(number) {
        return;
    }
    // Vectors come in the order of names, so take the values below and above apart.
    let below = all.select((0..number).collect());
    let above = all.select((number..127).collect());
    let encoded = [&below.encoded[..], &one.encoded, &above.encoded].concat();
    *all = Fattr { bitmap: before.bitmap | one.bitmap, encoded: Bytes::from(encoded) }.values().unwrap();
}
