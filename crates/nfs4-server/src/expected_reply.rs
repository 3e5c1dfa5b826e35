//! How large the reply to a compound may get, before it is executed.

use bytes::Bytes;
use nfs4::{CompoundHeader, NfsArgOp};
use xdr::{Decode, Decoder};

/// Bytes that READ, READ_PLUS and READDIR of a compound ask for, `most` at most; everything else is small. A compound that
/// cannot be decoded ends where that shows, as its execution will.
pub(crate) fn bytes(compound: &Bytes, most: usize) -> usize {
    let mut input = Decoder::new(compound.clone());
    let Ok(header) = CompoundHeader::decode(&mut input) else { return 0 };
    let mut bytes = 0usize;
    for _ in 0..header.op_count {
        let asked = match NfsArgOp::decode_op(&mut input, header.minor_version) {
            Ok(NfsArgOp::Read(args) | NfsArgOp::ReadPlus(args)) => args.count,
            Ok(NfsArgOp::ReadDir(args)) => args.max_count,
            Ok(_) => 0,
            Err(_) => break,
        };
        bytes = bytes.saturating_add(asked as usize);
    }
    bytes.min(most)
}

#[cfg(test)]
mod tests {
    use nfs4::{ReadArgs, StateId, Utf8String};
    use xdr::{Encode, Encoder};

    use super::*;

    fn compound(operations: &[NfsArgOp], count: u32) -> Bytes {
        let mut out = Encoder::new();
        Utf8String::default().encode(&mut out);
        out.put_u32(2);
        out.put_u32(count);
        operations.iter().for_each(|operation| operation.encode(&mut out));
        out.into_bytes()
    }

    #[test]
    fn reads_are_added_up_to_the_largest_reply() {
        let read = |count| NfsArgOp::Read(ReadArgs { state_id: StateId::ANONYMOUS, offset: 0, count });
        let whole = compound(&[NfsArgOp::PutRootFh, read(1000), NfsArgOp::GetFh, read(500)], 4);
        assert_eq!(bytes(&whole, 1 << 20), 1500);
        assert_eq!(bytes(&whole, 1200), 1200);
        assert_eq!(bytes(&compound(&[read(u32::MAX), read(u32::MAX)], 2), 1 << 20), 1 << 20);
        assert_eq!(bytes(&compound(&[read(1000)], u32::MAX), 1 << 20), 1000, "fewer than it says");
        assert_eq!(bytes(&compound(&[NfsArgOp::PutRootFh, NfsArgOp::GetFh], 2), 1 << 20), 0);
        assert_eq!(bytes(&Bytes::from_static(b"garbage"), 1 << 20), 0);
    }
}
