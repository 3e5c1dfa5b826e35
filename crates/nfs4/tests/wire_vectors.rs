//! Every type against values made from the RFC's own XDR text by `vectors/generate.py`, which knows nothing of this
//! crate: all of the bytes must decode, and encode to themselves.

#![allow(clippy::unwrap_used)]

mod vectors;

use std::collections::BTreeSet;

use nfs4::{Attribute, Bitmap, CbOpCode, Fattr, NfsArgOp, NfsCbArgOp, NfsCbResOp, NfsResOp, OpCode};
use vectors::Vector;
use xdr::{Decode, Encode};

/// Decodes and encodes each vector of `kind`, and checks that each of `names` occurs.
fn check<T: Decode + Encode>(kind: &str, name_of: impl Fn(&T) -> &'static str, names: Vec<&'static str>) {
    let mut seen = BTreeSet::new();
    for Vector { name, wire, .. } in vectors::of(kind) {
        let value: T = xdr::from_bytes(wire.clone()).unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
        assert_eq!(name_of(&value), name);
        assert_eq!(xdr::to_bytes(&value), wire, "{kind} {name}");
        seen.insert(name_of(&value));
    }
    assert_eq!(seen, names.into_iter().collect());
}

/// Of all operations that are in an RFC.
fn names() -> Vec<&'static str> {
    OpCode::ALL.iter().filter(|code| !code.is_private()).map(|code| code.name()).collect()
}

#[test]
fn arguments_of_every_operation_have_the_form_of_the_rfc() {
    check("args", |op: &NfsArgOp| op.op_code().name(), names());
}

#[test]
fn results_of_every_operation_have_the_form_of_the_rfc() {
    check("res", |op: &NfsResOp| op.op_code().name(), names());
}

#[test]
fn arguments_of_every_callback_have_the_form_of_the_rfc() {
    check(
        "cb_args",
        |op: &NfsCbArgOp| op.op_code().name(),
        CbOpCode::ALL.iter().map(|code| code.name()).collect(),
    );
}

#[test]
fn results_of_every_callback_have_the_form_of_the_rfc() {
    check(
        "cb_res",
        |op: &NfsCbResOp| op.op_code().name(),
        CbOpCode::ALL.iter().map(|code| code.name()).collect(),
    );
}

#[test]
fn every_attribute_has_the_form_of_the_rfc() {
    let mut seen = BTreeSet::new();
    for Vector { name, wire: encoded, .. } in vectors::of("attribute") {
        let number: u32 = name.parse().unwrap();
        let fattr = Fattr { bitmap: Bitmap::of(&[number]), encoded };
        let values = fattr.values().unwrap_or_else(|error| panic!("attribute {number}: {error}"));
        assert_eq!(values.to_fattr(), fattr, "attribute {number}");
        seen.insert(number);
    }
    let all: BTreeSet<u32> = Attribute::ALL.iter().map(|attribute| u32::from(*attribute)).collect();
    // RFC 8275 and RFC 9754 are not among the texts.
    assert_eq!(&all - &seen, BTreeSet::from([81, 84, 85, 86]));
}
