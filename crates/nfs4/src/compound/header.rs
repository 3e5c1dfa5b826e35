//! Decoding a request one operation at a time.

use xdr::{Decode, DecodeError, Decoder, Encode};

use crate::{CbOpCode, NfsArgOp, NfsCbArgOp, NfsStatus, OpCode, Utf8String};

/// What stands before the operations of a request (start of `COMPOUND4args`).
///
/// A malformed operation must not keep those before it from being executed, so a server decodes this and then,
/// `op_count` times, one operation with [`NfsArgOp::decode_op`], executing each before it looks at the next.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CompoundHeader {
    /// Any text; comes back in the reply.
    pub tag: Utf8String,
    /// 0 for 4.0, 1 for 4.1, 2 for 4.2.
    pub minor_version: u32,
    /// Number of operations announced. Not checked: the sender may lie.
    pub op_count: u32,
}

/// What stands before the operations of a callback request (start of `CB_COMPOUND4args`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CbCompoundHeader {
    /// Any text; comes back in the reply.
    pub tag: Utf8String,
    /// As that of the session; 0 without one.
    pub minor_version: u32,
    /// What the client gave with SETCLIENTID; not used since 4.1.
    pub callback_ident: u32,
    /// Number of operations announced. Not checked: the sender may lie.
    pub op_count: u32,
}

/// Why an operation could not be decoded. Nothing after it can be decoded either. `Code` is [`OpCode`] or
/// [`CbOpCode`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpDecodeError<Code = OpCode> {
    /// The number is that of no operation of this minor version.
    #[error("operation {number} does not exist in minor version {minor_version}")]
    Illegal {
        /// The number.
        number: u32,
        /// The minor version of the compound.
        minor_version: u32,
    },
    /// The operation is known, its arguments are not what they should be.
    #[error("arguments of {operation}: {source}")]
    Malformed {
        /// The operation.
        operation: Code,
        /// What is wrong.
        source: DecodeError,
    },
    /// There is not even an operation number.
    #[error("operation missing: {0}")]
    Missing(DecodeError),
}

macro_rules! one_at_a_time {
    ($Arg:ident, $Code:ident) => {
        impl $Arg {
            /// Reads the next operation of a compound of this minor version.
            pub fn decode_op(input: &mut Decoder, minor_version: u32) -> Result<$Arg, OpDecodeError<$Code>> {
                let number = input.peek_u32().map_err(OpDecodeError::Missing)?;
                let operation = $Code::from_number(number)
                    .filter(|code| *code != $Code::Illegal && code.first_minor_version() <= minor_version)
                    .ok_or(OpDecodeError::Illegal { number, minor_version })?;
                $Arg::decode(input).map_err(|source| OpDecodeError::Malformed { operation, source })
            }
        }

        impl OpDecodeError<$Code> {
            /// The status to answer with: `NFS4ERR_OP_ILLEGAL` or `NFS4ERR_BADXDR`.
            pub fn status(&self) -> NfsStatus {
                match self {
                    OpDecodeError::Illegal { .. } => NfsStatus::OpIllegal,
                    OpDecodeError::Malformed { .. } | OpDecodeError::Missing(_) => NfsStatus::BadXdr,
                }
            }

            /// The operation to name in the reply (RFC 8881 §15.2).
            pub fn op_code(&self) -> $Code {
                match self {
                    OpDecodeError::Malformed { operation, .. } => *operation,
                    OpDecodeError::Illegal { .. } | OpDecodeError::Missing(_) => $Code::Illegal,
                }
            }
        }
    };
}

one_at_a_time!(NfsArgOp, OpCode);
one_at_a_time!(NfsCbArgOp, CbOpCode);

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{CompoundArgs, LookupArgs};

    #[test]
    fn operations_before_a_malformed_one_are_decoded() {
        let request = CompoundArgs {
            tag: Utf8String::from("t"),
            minor_version: 1,
            ops: vec![NfsArgOp::PutRootFh, NfsArgOp::Lookup(LookupArgs { name: "name".into() })],
        };
        let wire = xdr::to_bytes(&request);
        let mut input = Decoder::new(wire.slice(..wire.len() - 4));
        let header = CompoundHeader::decode(&mut input).unwrap();
        assert_eq!((header.minor_version, header.op_count), (1, 2));
        assert_eq!(NfsArgOp::decode_op(&mut input, 1), Ok(NfsArgOp::PutRootFh));
        let error = NfsArgOp::decode_op(&mut input, 1).unwrap_err();
        assert_eq!((error.op_code(), error.status()), (OpCode::Lookup, NfsStatus::BadXdr));
    }

    #[test]
    fn numbers_that_are_no_operation_of_the_minor_version_are_illegal() {
        let cases = [
            (0, 2, true),
            (2, 2, true),
            (10044, 2, true),
            (76, 2, true),
            (59, 1, true),
            (24, 1, false),
            (53, 0, true),
            (0x4b55_0001, 0, true),
            (0x4b55_0001, 1, false),
        ];
        for (number, minor_version, illegal) in cases {
            let mut input = Decoder::new(xdr::to_bytes(&number));
            let result = NfsArgOp::decode_op(&mut input, minor_version);
            let is_illegal = matches!(
                &result,
                Err(error) if error.status() == NfsStatus::OpIllegal && error.op_code() == OpCode::Illegal
            );
            assert_eq!(is_illegal, illegal, "operation {number} in 4.{minor_version}: {result:?}");
        }
    }

    #[test]
    fn a_missing_operation_is_bad_xdr() {
        let error = NfsArgOp::decode_op(&mut Decoder::new(Bytes::new()), 1).unwrap_err();
        assert_eq!((error.op_code(), error.status()), (OpCode::Illegal, NfsStatus::BadXdr));
    }

    #[test]
    fn callbacks_are_decoded_alike() {
        let mut input = Decoder::new(xdr::to_bytes(&15u32));
        let error = NfsCbArgOp::decode_op(&mut input, 1).unwrap_err();
        assert_eq!((error.op_code(), error.status()), (CbOpCode::Illegal, NfsStatus::OpIllegal));
        let mut input = Decoder::new(xdr::to_bytes(&10u32));
        let error = NfsCbArgOp::decode_op(&mut input, 1).unwrap_err();
        assert_eq!((error.op_code(), error.status()), (CbOpCode::RecallSlot, NfsStatus::BadXdr));
    }
}
