//! XDR and the messages of NFS. What decodes must encode to something that decodes to the same.

use std::fmt::Debug;

use bytes::Bytes;
use nfs4::{
    Bitmap, CbCompoundArgs, CbCompoundHeader, CbCompoundRes, CompoundArgs, CompoundHeader, CompoundRes,
    Fattr, NfsArgOp, NfsCbArgOp, NfsStatus, SetAttrArgs, VerifyArgs,
};
use xdr::{BoundedOpaque, BoundedVec, Decode, Decoder, Encode, Encoder};

use crate::vectors;

/// The value in `wire`, if there is one; it must survive its own encoding.
fn survive<T: Decode + Encode + PartialEq + Debug>(wire: Bytes) -> Option<T> {
    let value = xdr::from_bytes::<T>(wire).ok()?;
    assert_eq!(xdr::from_bytes::<T>(xdr::to_bytes(&value)).as_ref(), Ok(&value));
    Some(value)
}

/// Every shape that XDR types are built from.
#[derive(Debug, PartialEq, Encode, Decode)]
struct Everything {
    number: u32,
    signed: i32,
    wide: u64,
    signed_wide: i64,
    flag: bool,
    fixed: [u8; 3],
    opaque: Bytes,
    bounded: BoundedOpaque<8>,
    numbers: BoundedVec<u64, 4>,
    #[xdr(list)]
    list: Vec<Option<u32>>,
    choice: Choice,
    nested: Vec<Everything>,
}

#[derive(Debug, PartialEq, Encode, Decode)]
enum Choice {
    #[xdr(discriminant = 1)]
    Nothing,
    #[xdr(discriminant = 2)]
    Text { before: u32, text: Bytes },
    #[xdr(default)]
    Other(u32),
}

pub(crate) fn xdr(data: &[u8]) {
    survive::<Everything>(Bytes::copy_from_slice(data));
}

pub(crate) fn xdr_seeds() -> Vec<Vec<u8>> {
    let leaf = |choice| Everything {
        number: 1,
        signed: -2,
        wide: 3,
        signed_wide: i64::MIN,
        flag: true,
        fixed: *b"abc",
        opaque: Bytes::from_static(b"opaque"),
        bounded: BoundedOpaque::new(&b"bounded"[..]).unwrap(),
        numbers: BoundedVec::new(vec![5, u64::MAX]).unwrap(),
        list: vec![Some(6), None],
        choice,
        nested: Vec::new(),
    };
    let text = Choice::Text { before: 7, text: Bytes::from_static(b"t") };
    let tree = Everything { nested: vec![leaf(Choice::Other(9)), leaf(text)], ..leaf(Choice::Nothing) };
    vec![xdr::to_bytes(&leaf(Choice::Nothing)).to_vec(), xdr::to_bytes(&tree).to_vec()]
}

/// A request, as a client library would read it whole and as a server reads it: operation by operation.
pub(crate) fn request(data: &[u8]) {
    let wire = Bytes::copy_from_slice(data);
    let whole = survive::<CompoundArgs>(wire.clone());
    let mut input = Decoder::new(wire);
    let Ok(header) = CompoundHeader::decode(&mut input) else {
        assert_eq!(whole, None);
        return;
    };
    let mut count = 0;
    while count < header.op_count {
        let Ok(operation) = NfsArgOp::decode_op(&mut input, 2) else { break };
        if let NfsArgOp::SetAttr(SetAttrArgs { attributes, .. })
        | NfsArgOp::Verify(VerifyArgs { attributes }) = operation
        {
            values(&attributes);
        }
        count += 1;
    }
    // The server's way may refuse operations that the type knows (such as ILLEGAL), never the other way round.
    if count == header.op_count && input.finish().is_ok() {
        assert!(whole.is_some(), "decoded one by one and not as a whole");
    }
}

pub(crate) fn request_seeds() -> Vec<Vec<u8>> {
    vectors::of("args").map(|vector| compound_args(&[vector.wire])).collect()
}

fn compound_args(operations: &[Bytes]) -> Vec<u8> {
    let mut out = Encoder::new();
    CompoundHeader { tag: "seed".into(), minor_version: 2, op_count: operations.len() as u32 }
        .encode(&mut out);
    operations.iter().for_each(|operation| out.put_raw(operation.clone()));
    out.into_bytes().to_vec()
}

/// A reply, as a client reads it.
pub(crate) fn reply(data: &[u8]) {
    let Some(reply) = survive::<CompoundRes>(Bytes::copy_from_slice(data)) else { return };
    for result in &reply.results {
        let _ = (result.op_code(), result.status());
        if let nfs4::NfsResOp::GetAttr(nfs4::Outcome::Ok(attributes)) = result {
            values(attributes);
        }
        if let nfs4::NfsResOp::ReadDir(nfs4::Outcome::Ok(page)) = result {
            page.entries.iter().for_each(|entry| values(&entry.attributes));
        }
    }
}

pub(crate) fn reply_seeds() -> Vec<Vec<u8>> {
    vectors::of("res").map(|vector| compound_res(vector.wire)).collect()
}

fn compound_res(result: Bytes) -> Vec<u8> {
    let mut out = Encoder::new();
    NfsStatus::Ok.encode(&mut out);
    out.put_opaque_slice(b"seed");
    out.put_u32(1);
    out.put_raw(result);
    out.into_bytes().to_vec()
}

/// A callback or its reply.
pub(crate) fn callback(data: &[u8]) {
    let Some((&kind, data)) = data.split_first() else { return };
    let wire = Bytes::copy_from_slice(data);
    if kind % 2 == 0 {
        survive::<CbCompoundRes>(wire);
        return;
    }
    survive::<CbCompoundArgs>(wire.clone());
    let mut input = Decoder::new(wire);
    let Ok(header) = CbCompoundHeader::decode(&mut input) else { return };
    for _ in 0..header.op_count {
        if NfsCbArgOp::decode_op(&mut input, header.minor_version).is_err() {
            break;
        }
    }
}

pub(crate) fn callback_seeds() -> Vec<Vec<u8>> {
    let calls = vectors::of("cb_args").map(|vector| {
        let mut out = Encoder::new();
        let header =
            CbCompoundHeader { tag: "seed".into(), minor_version: 2, callback_ident: 0, op_count: 1 };
        header.encode(&mut out);
        out.put_raw(vector.wire);
        [&[1], &out.into_bytes()[..]].concat()
    });
    let replies = vectors::of("cb_res").map(|vector| [&[0], &compound_res(vector.wire)[..]].concat());
    calls.chain(replies).collect()
}

/// A set of attributes and its values.
pub(crate) fn attributes(data: &[u8]) {
    if let Some(fattr) = survive::<Fattr>(Bytes::copy_from_slice(data)) {
        values(&fattr);
    }
}

fn values(fattr: &Fattr) {
    let Ok(values) = fattr.values() else { return };
    let again = values.to_fattr();
    assert_eq!(again.bitmap, fattr.bitmap);
    assert_eq!(again.values().as_ref(), Ok(&values));
}

pub(crate) fn attribute_seeds() -> Vec<Vec<u8>> {
    let number =
        |vector: &vectors::Vector| -> u32 { vector.name.parse().expect("the number of an attribute") };
    let seed = |bitmap, encoded| xdr::to_bytes(&Fattr { bitmap, encoded }).to_vec();
    let mut all: Vec<_> = vectors::of("attribute").collect();
    all.sort_by_key(number);
    let mut seeds: Vec<_> =
        all.iter().map(|vector| seed(Bitmap::of(&[number(vector)]), vector.wire.clone())).collect();
    all.dedup_by_key(|vector| number(vector));
    for some in all.chunks(16) {
        let numbers: Vec<u32> = some.iter().map(number).collect();
        let encoded: Vec<&[u8]> = some.iter().map(|vector| &vector.wire[..]).collect();
        seeds.push(seed(Bitmap::of(&numbers), encoded.concat().into()));
    }
    seeds
}
