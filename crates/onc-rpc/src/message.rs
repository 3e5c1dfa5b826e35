//! The RPC message headers (RFC 5531 §9).

use bytes::Bytes;
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::gss::RPCSEC_GSS;
use crate::{AuthStatus, Call, Credential, OpaqueAuth, Reply, RpcError};

const CALL: u32 = 0;
pub(crate) const REPLY: u32 = 1;
/// The only version of RPC that is spoken here.
const RPC_VERSION: u32 = 2;

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Procedure {
    /// Program number.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Number of the procedure.
    pub number: u32,
}

/// A message of the other side.
#[derive(Debug)]
pub(crate) enum Message {
    Call(Call),
    /// A call with a credential of RPCSEC_GSS, and what its verifier is a checksum of: all before it.
    GssCall {
        call: Call,
        header: Bytes,
    },
    /// A call that the connection refuses by itself.
    Refused {
        xid: u32,
        reply: Reply,
    },
    Reply {
        xid: u32,
        result: Result<Bytes, RpcError>,
    },
}

#[derive(Decode)]
enum ReplyBody {
    #[xdr(discriminant = 0)]
    Accepted { _verifier: OpaqueAuth, accepted: Accepted },
    #[xdr(discriminant = 1)]
    Denied(Denied),
}

#[derive(Encode, Decode)]
enum Accepted {
    /// The results follow.
    #[xdr(discriminant = 0)]
    Success,
    #[xdr(discriminant = 1)]
    ProgramUnavailable,
    #[xdr(discriminant = 2)]
    ProgramMismatch { low: u32, high: u32 },
    #[xdr(discriminant = 3)]
    ProcedureUnavailable,
    #[xdr(discriminant = 4)]
    GarbageArguments,
    #[xdr(discriminant = 5)]
    SystemError,
}

#[derive(Encode, Decode)]
enum Denied {
    #[xdr(discriminant = 0)]
    RpcMismatch { low: u32, high: u32 },
    #[xdr(discriminant = 1)]
    AuthError(AuthStatus),
}

impl Message {
    /// Reads the header of a record; bodies are slices of it.
    pub fn parse(record: Bytes) -> Result<Message, DecodeError> {
        let mut input = Decoder::new(record);
        let xid = input.u32()?;
        match input.u32()? {
            CALL => parse_call(xid, input),
            REPLY => {
                let body = ReplyBody::decode(&mut input)?;
                Ok(Message::Reply { xid, result: body.into_result(input) })
            }
            value => Err(DecodeError::UnknownDiscriminant { position: 4, type_name: "msg_type", value }),
        }
    }
}

fn parse_call(xid: u32, mut input: Decoder) -> Result<Message, DecodeError> {
    if input.u32()? != RPC_VERSION {
        return Ok(Message::Refused { xid, reply: Reply::RpcMismatch });
    }
    let Procedure { program, version, number } = Procedure::decode(&mut input)?;
    let credential = OpaqueAuth::decode(&mut input)?;
    let header = (credential.flavor == RPCSEC_GSS).then(|| input.since(0));
    let verifier = OpaqueAuth::decode(&mut input)?;
    let Ok(credential) = Credential::try_from(credential) else {
        return Ok(Message::Refused { xid, reply: Reply::AuthError(AuthStatus::BadCredential) });
    };
    let body = input.rest();
    let call = Call { xid, program, version, procedure: number, credential, verifier, body };
    Ok(match header {
        None => Message::Call(call),
        Some(header) => Message::GssCall { call, header },
    })
}

impl ReplyBody {
    fn into_result(self, mut input: Decoder) -> Result<Bytes, RpcError> {
        Err(match self {
            ReplyBody::Accepted { accepted, .. } => match accepted {
                Accepted::Success => return Ok(input.rest()),
                Accepted::ProgramUnavailable => RpcError::ProgramUnavailable,
                Accepted::ProgramMismatch { low, high } => RpcError::ProgramMismatch { low, high },
                Accepted::ProcedureUnavailable => RpcError::ProcedureUnavailable,
                Accepted::GarbageArguments => RpcError::GarbageArguments,
                Accepted::SystemError => RpcError::SystemError,
            },
            ReplyBody::Denied(Denied::RpcMismatch { low, high }) => RpcError::RpcMismatch { low, high },
            ReplyBody::Denied(Denied::AuthError(status)) => RpcError::AuthError(status),
        })
    }
}

/// The header of a call.
pub(crate) fn put_call(out: &mut Encoder, xid: u32, procedure: Procedure, credential: &Credential) {
    out.put_u32(xid);
    out.put_u32(CALL);
    out.put_u32(RPC_VERSION);
    procedure.encode(out);
    credential.encode(out);
    OpaqueAuth::default().encode(out);
}

/// The header of a reply; returns the body that follows it, or nothing if no reply is to be sent.
pub(crate) fn put_reply(
    out: &mut Encoder,
    xid: u32,
    reply: Reply,
    verifier: &OpaqueAuth,
) -> Option<Vec<Bytes>> {
    let (accepted, body) = match reply {
        Reply::Success(body) => (Ok(Accepted::Success), body),
        Reply::ProgramUnavailable => (Ok(Accepted::ProgramUnavailable), Vec::new()),
        Reply::ProgramMismatch { low, high } => (Ok(Accepted::ProgramMismatch { low, high }), Vec::new()),
        Reply::ProcedureUnavailable => (Ok(Accepted::ProcedureUnavailable), Vec::new()),
        Reply::GarbageArguments => (Ok(Accepted::GarbageArguments), Vec::new()),
        Reply::SystemError => (Ok(Accepted::SystemError), Vec::new()),
        Reply::AuthError(status) => (Err(Denied::AuthError(status)), Vec::new()),
        Reply::RpcMismatch => (Err(Denied::RpcMismatch { low: RPC_VERSION, high: RPC_VERSION }), Vec::new()),
        Reply::Drop => return None,
    };
    out.put_u32(xid);
    out.put_u32(REPLY);
    match accepted {
        Ok(accepted) => {
            out.put_u32(0);
            verifier.encode(out);
            accepted.encode(out);
        }
        Err(denied) => {
            out.put_u32(1);
            denied.encode(out);
        }
    }
    Some(body)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const PROCEDURE: Procedure = Procedure { program: 100_003, version: 4, number: 1 };

    fn call() -> Vec<u8> {
        let mut out = Encoder::new();
        put_call(&mut out, 77, PROCEDURE, &Credential::Sys(crate::AuthSys::new(5, 6)));
        out.put_u32(42);
        out.into_bytes().to_vec()
    }

    #[test]
    fn a_call_arrives_with_credential_and_body() {
        let Message::Call(call) = Message::parse(Bytes::from(call())).unwrap() else { panic!("not a call") };
        assert_eq!((call.xid, call.program, call.version, call.procedure), (77, 100_003, 4, 1));
        assert_eq!(call.credential, Credential::Sys(crate::AuthSys::new(5, 6)));
        assert_eq!(call.body, xdr::to_bytes(&42u32));
    }

    #[test]
    fn another_rpc_version_and_a_bad_credential_are_refused_but_answered() {
        let mut wrong_version = call();
        wrong_version[11] = 3;
        assert!(matches!(
            Message::parse(Bytes::from(wrong_version)),
            Ok(Message::Refused { xid: 77, reply: Reply::RpcMismatch })
        ));
        let mut bad_credential = call();
        bad_credential[39] = 255; // length of the machine name
        assert!(matches!(
            Message::parse(Bytes::from(bad_credential)),
            Ok(Message::Refused { xid: 77, reply: Reply::AuthError(AuthStatus::BadCredential) })
        ));
    }

    #[test]
    fn every_reply_arrives_as_what_it_is() {
        let round_trip = |reply| {
            let mut out = Encoder::new();
            for segment in put_reply(&mut out, 5, reply, &OpaqueAuth::default()).unwrap() {
                out.put_raw(segment);
            }
            match Message::parse(out.into_bytes()).unwrap() {
                Message::Reply { xid: 5, result } => result,
                other => panic!("{other:?}"),
            }
        };
        let body = xdr::to_bytes(&9u32);
        assert_eq!(round_trip(Reply::Success(vec![body.clone()])).unwrap(), body);
        assert!(matches!(round_trip(Reply::ProgramUnavailable), Err(RpcError::ProgramUnavailable)));
        assert!(matches!(
            round_trip(Reply::ProgramMismatch { low: 4, high: 5 }),
            Err(RpcError::ProgramMismatch { low: 4, high: 5 })
        ));
        assert!(matches!(round_trip(Reply::ProcedureUnavailable), Err(RpcError::ProcedureUnavailable)));
        assert!(matches!(round_trip(Reply::GarbageArguments), Err(RpcError::GarbageArguments)));
        assert!(matches!(round_trip(Reply::SystemError), Err(RpcError::SystemError)));
        assert!(matches!(
            round_trip(Reply::AuthError(AuthStatus::TooWeak)),
            Err(RpcError::AuthError(AuthStatus::TooWeak))
        ));
        assert!(matches!(round_trip(Reply::RpcMismatch), Err(RpcError::RpcMismatch { low: 2, high: 2 })));
        assert!(put_reply(&mut Encoder::new(), 5, Reply::Drop, &OpaqueAuth::default()).is_none());
    }

    proptest! {
        #[test]
        fn garbage_is_an_error_and_never_a_panic(
            record in vec(prop_oneof![4 => 0u8..3, 1 => any::<u8>()], 0..120)
        ) {
            let _ = Message::parse(Bytes::from(record));
        }

        #[test]
        fn a_damaged_call_never_panics(at in any::<prop::sample::Index>(), value in any::<u8>(), cut in 0usize..80) {
            let mut record = call();
            let at = at.index(record.len());
            record[at] = value;
            record.truncate(record.len() - cut.min(record.len()));
            let _ = Message::parse(Bytes::from(record));
        }
    }
}
