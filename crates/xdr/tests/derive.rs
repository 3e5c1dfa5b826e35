//! What the derive macros promise, on types of the shapes that NFS uses.

#![allow(clippy::unwrap_used)] // generators are test code, though not inside a test function

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use xdr::{BoundedOpaque, BoundedVec, Decode, DecodeError, Encode, Encoder, Payload, from_bytes, to_bytes};

#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
#[repr(u32)]
enum Kind {
    Regular = 1,
    Directory,
    Link = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
#[repr(u32)]
enum Status {
    Ok = 0,
    Delay = 10008,
    #[xdr(other)]
    Other(u32),
}

const LOOKUP: u32 = 15;

#[derive(Clone, Debug, PartialEq, Encode, Decode)]
enum Operation {
    #[xdr(discriminant = 10)]
    GetHandle,
    #[xdr(discriminant = LOOKUP)]
    Lookup(BoundedOpaque<255>),
    #[xdr(discriminant = Kind::Link)]
    Create { kind: Kind, verifier: [u8; 8], data: Option<Bytes> },
    #[xdr(default)]
    Unknown(u32),
}

#[derive(Clone, Debug, PartialEq, Encode, Decode)]
enum Outcome {
    #[xdr(discriminant = 0)]
    Ok(u64, i64, bool),
    #[xdr(default)]
    Failed(Status),
}

#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Entry {
    cookie: i32,
    name: Bytes,
}

#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Message {
    tag: String,
    operations: BoundedVec<Operation, 16>,
    outcomes: Vec<Outcome>,
    #[xdr(list)]
    entries: Vec<Entry>,
    data: Payload,
    next: Option<Box<Message>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
struct Identifier(u32);

#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
struct Nothing;

#[derive(Debug, PartialEq, Decode)]
enum Tolerant {
    #[xdr(discriminant = 1)]
    One(u32),
    #[xdr(default)]
    Rest,
}

fn bytes(limit: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..limit).prop_map(Bytes::from)
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Regular), Just(Kind::Directory), Just(Kind::Link)]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        Just(Operation::GetHandle),
        bytes(256).prop_map(|name| Operation::Lookup(BoundedOpaque::new(name).unwrap())),
        (kind(), any::<[u8; 8]>(), proptest::option::of(bytes(40)))
            .prop_map(|(kind, verifier, data)| Operation::Create { kind, verifier, data }),
        (100u32..).prop_map(Operation::Unknown),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        any::<(u64, i64, bool)>().prop_map(|(a, b, c)| Outcome::Ok(a, b, c)),
        Just(Outcome::Failed(Status::Delay)),
        (20000u32..).prop_map(|code| Outcome::Failed(Status::Other(code))),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let entry = (any::<i32>(), bytes(9)).prop_map(|(cookie, name)| Entry { cookie, name });
    let leaf = (
        "[a-zé]{0,6}",
        vec(operation(), 0..=16),
        vec(outcome(), 0..4),
        vec(entry, 0..4),
        vec(bytes(4096), 0..4),
    )
        .prop_map(|(tag, operations, outcomes, entries, data)| Message {
            tag,
            operations: BoundedVec::new(operations).unwrap(),
            outcomes,
            entries,
            data: Payload::new(data),
            next: None,
        });
    leaf.prop_recursive(3, 3, 1, |inner| {
        (inner.clone(), inner).prop_map(|(mut first, next)| {
            first.next = Some(Box::new(next));
            first
        })
    })
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_itself(message in message()) {
        let wire = to_bytes(&message);
        prop_assert_eq!(wire.len() % 4, 0);
        prop_assert_eq!(from_bytes::<Message>(wire), Ok(message));
    }

    #[test]
    fn a_message_cut_short_is_an_error(message in message(), cut in any::<prop::sample::Index>()) {
        let wire = to_bytes(&message);
        prop_assert!(from_bytes::<Message>(wire.slice(..cut.index(wire.len()))).is_err());
    }

    #[test]
    fn arbitrary_bytes_never_panic(wire in vec(prop_oneof![3 => 0u8..3, 1 => any::<u8>()], 0..512)) {
        let _ = from_bytes::<Message>(Bytes::from(wire));
    }

    #[test]
    fn a_damaged_message_never_panics(
        message in message(), at in any::<prop::sample::Index>(), value in any::<u8>()
    ) {
        let mut wire = to_bytes(&message).to_vec();
        let at = at.index(wire.len());
        wire[at] = value;
        let _ = from_bytes::<Message>(Bytes::from(wire));
    }
}

#[test]
fn enumerations_are_their_numbers() {
    assert_eq!(u32::from(Kind::Directory), 2);
    assert_eq!(to_bytes(&Kind::Link)[..], [0, 0, 0, 5]);
    assert_eq!(
        from_bytes::<Kind>(to_bytes(&3u32)),
        Err(DecodeError::UnknownDiscriminant { position: 0, type_name: "Kind", value: 3 })
    );
    assert_eq!(from_bytes::<Status>(to_bytes(&0u32)), Ok(Status::Ok));
    assert_eq!(u32::from(&Status::Other(77)), 77);
}

#[test]
fn union_arms_may_be_named_by_constants_and_enumerations() {
    assert_eq!(to_bytes(&Operation::Lookup(BoundedOpaque::default()))[..], [0, 0, 0, 15, 0, 0, 0, 0]);
    let create = Operation::Create { kind: Kind::Regular, verifier: [9; 8], data: None };
    assert_eq!(to_bytes(&create)[..8], [0, 0, 0, 5, 0, 0, 0, 1]);
    assert_eq!(from_bytes::<Tolerant>(to_bytes(&Identifier(9))), Ok(Tolerant::Rest));
    assert_eq!(from_bytes::<Tolerant>(to_bytes(&0x1_0000_0002u64)), Ok(Tolerant::One(2)));
}

#[test]
fn a_structure_without_fields_takes_no_bytes() {
    assert_eq!(to_bytes(&Nothing).len(), 0);
    assert_eq!(from_bytes::<Nothing>(Bytes::new()), Ok(Nothing));
    assert_eq!(
        from_bytes::<Nothing>(to_bytes(&1u32)),
        Err(DecodeError::TrailingBytes { position: 0, count: 4 })
    );
}

#[test]
fn endless_nesting_is_refused_and_long_lists_are_not() {
    #[derive(Debug, PartialEq, Encode, Decode)]
    struct Chain {
        next: Option<Box<Chain>>,
    }
    #[derive(Debug, PartialEq, Encode, Decode)]
    struct List {
        #[xdr(list)]
        words: Vec<u32>,
    }
    let endless = to_bytes(&vec![1u32; 100_000]).slice(4..);
    assert!(matches!(from_bytes::<Chain>(endless), Err(DecodeError::TooDeep { limit: xdr::MAX_DEPTH, .. })));
    let long = List { words: vec![7; 100_000] };
    assert_eq!(from_bytes::<List>(to_bytes(&long)), Ok(long));
}

#[test]
fn a_union_with_a_large_payload_is_spliced() {
    let data = Bytes::from(vec![1; 100_000]);
    let mut out = Encoder::new();
    Operation::Create { kind: Kind::Regular, verifier: [0; 8], data: Some(data.clone()) }.encode(&mut out);
    assert!(out.into_segments().iter().any(|segment| segment.as_ptr() == data.as_ptr()));
}
