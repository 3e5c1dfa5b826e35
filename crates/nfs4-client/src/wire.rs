//! Compounds on a connection: what [`Session`](crate::Session) and [`Client`](crate::Client) share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nfs4::bits::exchange_id;
use nfs4::{
    AuthSysParms, CallbackSecParms, ClientOwner, CompoundRes, ExchangeIdArgs, ExchangeIdOk, NfsArgOp,
    NfsResOp, OpCode, Outcome, OwnerName, SequenceArgs, StateProtectArgs, Utf8String, Verifier,
};
use onc_rpc::tls::TlsClient;
use onc_rpc::{Credential, Limits, Network, Peer, Procedure, RpcError, Service};
use xdr::{Encode, Encoder};

use crate::ClientError;

/// The one procedure that carries operations.
pub(crate) const COMPOUND: Procedure =
    Procedure { program: nfs4::PROGRAM, version: nfs4::VERSION, number: nfs4::PROCEDURE_COMPOUND };

/// Small values of a usual request, in bytes.
const REQUEST_BYTES: usize = 512;

/// Bytes of memory that a connection keeps for data to come: as much as a vector has under way.
const RECYCLED: usize = 16 << 20;

/// Calls outside of slots that a connection may have under way.
const EXTRA_CALLS: usize = 16;

/// How calls are made: in which dialect, by whom, and how long to wait for an answer.
#[derive(Clone, Copy)]
pub(crate) struct Manner<'a> {
    pub minor_version: u32,
    pub credential: &'a Credential,
    pub timeout: Duration,
}

/// Opens a connection that carries messages of this size, one for each slot.
pub(crate) async fn connect(
    network: &dyn Network,
    addresses: &[SocketAddr],
    tls: Option<&TlsClient>,
    service: Arc<dyn Service>,
    message_bytes: u32,
    slots: u32,
) -> Result<Peer, ClientError> {
    let limits = Limits {
        record_bytes: message_bytes as usize,
        outgoing_calls: slots.max(1) as usize + EXTRA_CALLS,
        recycled_bytes: RECYCLED,
        ..Limits::default()
    };
    Ok(match tls {
        None => Peer::over(network.connect(addresses).await.map_err(RpcError::from)?, service, limits)?,
        Some(tls) => Peer::connect_tls(addresses, service, limits, tls, nfs4::PROGRAM, nfs4::VERSION).await?,
    })
}

/// Makes the client known.
pub(crate) async fn identify(
    peer: &Peer,
    manner: Manner<'_>,
    owner: &Bytes,
    verifier: Verifier,
) -> Result<ExchangeIdOk, ClientError> {
    let owner_id = OwnerName::new(owner.clone()).map_err(|_| ClientError::OwnerTooLong)?;
    let arguments = ExchangeIdArgs {
        client_owner: ClientOwner { verifier, owner_id },
        flags: exchange_id::USE_NON_PNFS,
        state_protect: StateProtectArgs::None,
        implementation: None,
    };
    match alone(peer, manner, NfsArgOp::ExchangeId(arguments)).await? {
        NfsResOp::ExchangeId(Outcome::Ok(known)) => Ok(known),
        _ => Err(ClientError::UnexpectedResult { expected: OpCode::ExchangeId }),
    }
}

/// How the server may present itself in callbacks: as the client does, or as nobody.
pub(crate) fn callback_security(credential: &Credential) -> CallbackSecParms {
    match credential {
        Credential::Sys(sys) => CallbackSecParms::Sys(AuthSysParms {
            stamp: sys.stamp,
            machine_name: sys.machine.clone(),
            uid: sys.uid,
            gid: sys.gid,
            gids: sys.gids.clone(),
        }),
        _ => CallbackSecParms::None,
    }
}

/// Executes one operation outside of a session, successfully.
pub(crate) async fn alone(
    peer: &Peer,
    manner: Manner<'_>,
    operation: NfsArgOp,
) -> Result<NfsResOp, ClientError> {
    let expected = operation.op_code();
    let mut reply = call(peer, manner, None, &[operation]).await?;
    match reply.results.pop() {
        Some(result) if reply.status.is_ok() && result.op_code() == expected => Ok(result),
        Some(result) if !reply.status.is_ok() => {
            Err(ClientError::Operation { operation: result.op_code(), index: 0, status: reply.status })
        }
        None if !reply.status.is_ok() => Err(ClientError::Refused { status: reply.status }),
        _ => Err(ClientError::UnexpectedResult { expected }),
    }
}

/// Sends operations, behind a SEQUENCE if there is one, and returns exactly what comes back.
pub(crate) async fn call(
    peer: &Peer,
    manner: Manner<'_>,
    sequence: Option<SequenceArgs>,
    operations: &[NfsArgOp],
) -> Result<CompoundRes, ClientError> {
    let request = encode(manner.minor_version, sequence, operations);
    let reply = peer.call(COMPOUND, manner.credential, request, manner.timeout).await?;
    Ok(xdr::from_bytes(reply)?)
}

/// A `COMPOUND4args` without a tag, from borrowed operations.
pub(crate) fn encode(
    minor_version: u32,
    sequence: Option<SequenceArgs>,
    operations: &[NfsArgOp],
) -> Vec<Bytes> {
    let mut out = Encoder::with_capacity(REQUEST_BYTES);
    Utf8String::default().encode(&mut out);
    out.put_u32(minor_version);
    out.put_length(operations.len() + usize::from(sequence.is_some()));
    if let Some(sequence) = sequence {
        NfsArgOp::Sequence(sequence).encode(&mut out);
    }
    for operation in operations {
        operation.encode(&mut out);
    }
    out.into_segments()
}
