//! Calling clients back (RFC 8881 §20, RFC 7530 §15): what the state machine has to tell, over the connections of the clients,
//! or, in 4.0, over connections to them.

mod holder;

use std::time::Duration;

use nfs4::bits::recall_any;
use nfs4::{
    Attribute, Bitmap, CbCompoundArgs, CbCompoundRes, CbGetAttrArgs, CbNotifyLockArgs, CbOffloadArgs,
    CbRecallAnyArgs, CbRecallArgs, CbSequenceArgs, NfsCbArgOp, NfsCbResOp, NfsStatus, OffloadInfo, Outcome,
    ReferringCall, ReferringCallList, StableHow, Utf8String, Verifier, WriteResponse,
};
use onc_rpc::{Peer, Procedure};

use crate::file_handle::Handle;
use crate::shared::Shared;
use crate::state::{CallbackEnd, Dial, HolderSays, Notice, OutgoingCallback, Probe, SessionSlot, Way};

/// How long a client has to answer, before its connection is taken for lost to callbacks; with a short lease a quarter of
/// that, for who cannot be called back has to find that out before it loses what it holds.
const PATIENCE: Duration = Duration::from_secs(10);

fn patience(server: &Shared) -> Duration {
    PATIENCE.min(server.lease / 4)
}

/// How long a client that asks for time gets, at first and at most; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Sends one callback over `peer`, `None` if that is gone already, and tells the state what became of it.
pub(crate) async fn send(server: &Shared, peer: Option<Peer>, callback: OutgoingCallback) {
    let (end, says) = match peer {
        Some(peer) => call(server, &peer, &callback).await,
        None => (CallbackEnd::Lost, None),
    };
    if let Notice::Ask { id, number, .. } = &callback.notice
        && says.is_none()
        && end != CallbackEnd::Refused(NfsStatus::Delay)
    {
        server.state.lock().not_answered(&id.other, *number);
    }
    server.metrics.callback(matches!(callback.notice, Notice::Recall { .. }), &end);
    if !matches!(end, CallbackEnd::Answered(NfsStatus::Ok) | CallbackEnd::Lost) {
        tracing::debug!(?end, way = ?callback.way, "callback not done");
        let pause = FIRST_PAUSE * (1 << callback.attempts.min(7));
        server.environment.clock.sleep(pause.min(LONGEST_PAUSE)).await;
    }
    server.state.lock().end_callback(&callback, end);
    if let (Notice::Ask { id, file, number }, Some(says)) = (callback.notice, says) {
        holder::said(server, id.other, file, number, says).await;
    }
}

/// Sends CB_NULL over `peer`, and tells the state whether the client took it. Nothing is found out if `peer` is gone
/// already.
pub(crate) async fn probe(server: &Shared, peer: Option<Peer>, probe: Probe) {
    let procedure =
        Procedure { program: probe.program, version: nfs4::CALLBACK_VERSION, number: nfs4::PROCEDURE_NULL };
    let mut answered = true;
    if let Some(peer) = peer
        && let Err(error) = peer.call(procedure, &probe.credential, Vec::new(), patience(server)).await
    {
        tracing::info!(%error, client = %peer.address(), "client cannot be called back on this connection");
        answered = false;
    }
    server.state.lock().end_probe(probe.session, probe.connection, answered);
}

/// Sends CB_NULL over a connection that was made for callbacks; says whether the client took it.
pub(crate) async fn prove(server: &Shared, peer: &Peer, dial: &Dial) -> bool {
    let procedure =
        Procedure { program: dial.program, version: nfs4::CALLBACK_VERSION, number: nfs4::PROCEDURE_NULL };
    match peer.call(procedure, &dial.credential, Vec::new(), patience(server)).await {
        Ok(_) => true,
        Err(error) => {
            tracing::debug!(%error, address = %dial.address, "client cannot be called back");
            false
        }
    }
}

/// What became of a callback, and what the client says if it was asked something.
async fn call(
    server: &Shared,
    peer: &Peer,
    callback: &OutgoingCallback,
) -> (CallbackEnd, Option<HolderSays>) {
    let procedure = Procedure {
        program: callback.program,
        version: nfs4::CALLBACK_VERSION,
        number: nfs4::PROCEDURE_COMPOUND,
    };
    let body = xdr::to_bytes(&compound(server, callback));
    match peer.call(procedure, &callback.credential, vec![body], patience(server)).await {
        Ok(reply) => match xdr::from_bytes::<CbCompoundRes>(reply) {
            Ok(reply) => judge(&callback.way, &reply),
            Err(_) => (CallbackEnd::Refused(NfsStatus::BadXdr), None),
        },
        Err(error) => {
            tracing::debug!(%error, client = %peer.address(), "client cannot be called back on this connection");
            (CallbackEnd::Lost, None)
        }
    }
}

fn compound(server: &Shared, callback: &OutgoingCallback) -> CbCompoundArgs {
    let operation = match &callback.notice {
        Notice::Recall { id, file } => NfsCbArgOp::Recall(CbRecallArgs {
            state_id: *id,
            truncate: false,
            file_handle: server.handles.seal(Handle::File(*file)),
        }),
        Notice::RecallAny { keep } => NfsCbArgOp::RecallAny(CbRecallAnyArgs {
            objects_to_keep: *keep,
            type_mask: Bitmap::of(&[recall_any::READ_DELEGATIONS, recall_any::WRITE_DELEGATIONS]),
        }),
        Notice::Ask { file, .. } => NfsCbArgOp::GetAttr(CbGetAttrArgs {
            file_handle: server.handles.seal(Handle::File(*file)),
            request: Attribute::set(&[Attribute::Change, Attribute::Size]),
        }),
        Notice::Offload { id, file, end } => NfsCbArgOp::Offload(CbOffloadArgs {
            file_handle: server.handles.seal(Handle::File(*file)),
            state_id: *id,
            info: match end.status {
                NfsStatus::Ok => OffloadInfo::Ok(WriteResponse {
                    callback_id: None,
                    count: end.copied,
                    committed: StableHow::FileSync,
                    verifier: Verifier(end.verifier),
                }),
                status => OffloadInfo::Failed { status, bytes_copied: end.copied },
            },
        }),
        Notice::LockFree { file, owner } => NfsCbArgOp::NotifyLock(CbNotifyLockArgs {
            file_handle: server.handles.seal(Handle::File(*file)),
            lock_owner: owner.to_wire(),
        }),
    };
    let (callback_ident, ops) = match &callback.way {
        Way::Session(slot) => (0, vec![sequence(slot), operation]),
        Way::Path { ident, .. } => (*ident, vec![operation]),
    };
    let minor_version = callback.minor_version;
    CbCompoundArgs { tag: Utf8String::default(), minor_version, callback_ident, ops }
}

fn sequence(slot: &SessionSlot) -> NfsCbArgOp {
    let referring = slot.referring.map(|request| ReferringCallList {
        session: request.session,
        calls: vec![ReferringCall { sequence_id: request.sequence, slot: request.slot }],
    });
    NfsCbArgOp::Sequence(CbSequenceArgs {
        session: slot.session,
        sequence_id: slot.sequence,
        slot: slot.slot,
        highest_slot: slot.highest_slot,
        cache_this: false,
        referring_call_lists: referring.into_iter().collect(),
    })
}

/// What a reply says. In a session CB_SEQUENCE is its first operation; a compound that was refused as a whole has none.
fn judge(way: &Way, reply: &CbCompoundRes) -> (CallbackEnd, Option<HolderSays>) {
    let (end, operation) = match (way, &reply.results[..]) {
        (Way::Session(_), [NfsCbResOp::Sequence(_), operation, ..]) | (Way::Path { .. }, [operation, ..]) => {
            (CallbackEnd::Answered(operation.status()), Some(operation))
        }
        (Way::Session(_), [NfsCbResOp::Sequence(Outcome::Ok(_))]) => {
            (CallbackEnd::Answered(reply.status), None)
        }
        _ => (CallbackEnd::Refused(reply.status), None),
    };
    (end, operation.and_then(holder::says))
}
