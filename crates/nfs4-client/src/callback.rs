use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use nfs4::{
    CbCompoundArgs, CbSequenceArgs, CbSequenceOk, ChannelAttrs, CompoundReply, NfsCbArgOp, NfsCbResOp,
    NfsStatus, Outcome, SessionId,
};
use onc_rpc::{Call, Peer, Reply, Service};
use tokio::sync::Mutex;
use xdr::Encoder;

/// The RPC program number of callbacks; any transient one does, as the connection is the client's own.
pub(crate) const CALLBACK_PROGRAM: u32 = 0x4000_0000;

/// Callbacks at once.
const SLOTS: u32 = 16;

/// Largest callback request and reply, in bytes.
const MESSAGE_BYTES: u32 = 64 << 10;

/// Executes the callbacks of the server.
#[async_trait]
pub trait Callback: Send + Sync {
    /// Executes one operation other than CB_SEQUENCE. Must return the result of that operation, for instance
    /// [`NfsCbResOp::failure`]. A compound on the same session may be sent meanwhile.
    async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp;
}

/// The back channel of a session: CB_SEQUENCE and its reply cache (RFC 8881 §2.10.6).
pub(crate) struct BackChannel {
    callback: Arc<dyn Callback>,
    /// Set as soon as CREATE_SESSION is answered.
    session: OnceLock<SessionId>,
    slots: Vec<Mutex<CallbackSlot>>,
    /// What callbacks get before the session is known; `None`: they are executed.
    early: Option<NfsStatus>,
}

/// Locked while a callback executes, so a repetition waits for the original.
#[derive(Default)]
struct CallbackSlot {
    sequence_id: u32,
    reply: Vec<Bytes>,
}

pub(crate) fn back_channel_attributes() -> ChannelAttrs {
    ChannelAttrs {
        header_pad_size: 0,
        max_request_size: MESSAGE_BYTES,
        max_response_size: MESSAGE_BYTES,
        max_response_size_cached: MESSAGE_BYTES,
        max_operations: 16,
        max_requests: SLOTS,
        rdma_ird: None,
    }
}

impl BackChannel {
    pub fn new(callback: Arc<dyn Callback>) -> BackChannel {
        let slots = (0..SLOTS).map(|_| Mutex::default()).collect();
        BackChannel { callback, session: OnceLock::new(), slots, early: None }
    }

    /// The same, but callbacks that come before the session is known are put off: its connection may still carry
    /// callbacks of another one.
    pub fn of_next_session(callback: Arc<dyn Callback>) -> BackChannel {
        BackChannel { early: Some(NfsStatus::Delay), ..BackChannel::new(callback) }
    }

    pub fn begin(&self, session: SessionId) {
        self.session.get_or_init(|| session);
    }

    async fn compound(&self, request: CbCompoundArgs) -> Vec<Bytes> {
        let refuse = |status| {
            let mut out = Encoder::new();
            let mut reply = CompoundReply::begin(&mut out, &request.tag);
            reply.push(&NfsCbResOp::Sequence(Outcome::Err(status)));
            reply.finish(status);
            out.into_segments()
        };
        let Some(NfsCbArgOp::Sequence(sequence)) = request.ops.first() else {
            return refuse(NfsStatus::OpNotInSession);
        };
        match (self.session.get(), self.early) {
            (Some(session), _) if *session != sequence.session => return refuse(NfsStatus::BadSession),
            (None, Some(status)) => return refuse(status),
            _ => {}
        }
        let Some(slot) = self.slots.get(sequence.slot as usize) else {
            return refuse(NfsStatus::BadSlot);
        };
        let mut slot = slot.lock().await;
        if sequence.sequence_id == slot.sequence_id && !slot.reply.is_empty() {
            return slot.reply.clone();
        }
        if sequence.sequence_id != slot.sequence_id.wrapping_add(1) {
            return refuse(NfsStatus::SeqMisordered);
        }
        slot.sequence_id = sequence.sequence_id;
        slot.reply = self.execute(sequence, &request).await;
        slot.reply.clone()
    }

    async fn execute(&self, sequence: &CbSequenceArgs, request: &CbCompoundArgs) -> Vec<Bytes> {
        let mut results = vec![NfsCbResOp::Sequence(Outcome::Ok(CbSequenceOk {
            session: sequence.session,
            sequence_id: sequence.sequence_id,
            slot: sequence.slot,
            highest_slot: SLOTS - 1,
            target_highest_slot: SLOTS - 1,
        }))];
        let mut status = NfsStatus::Ok;
        for operation in &request.ops[1..] {
            let result = match operation {
                NfsCbArgOp::Sequence(_) => NfsCbResOp::Sequence(Outcome::Err(NfsStatus::SequencePos)),
                operation => self.callback.call(operation.clone()).await,
            };
            status = result.status();
            results.push(result);
            if !status.is_ok() {
                break;
            }
        }
        let mut out = Encoder::new();
        let mut reply = CompoundReply::begin(&mut out, &request.tag);
        results.iter().for_each(|result| reply.push(result));
        reply.finish(status);
        out.into_segments()
    }
}

#[async_trait]
impl Service for BackChannel {
    async fn call(&self, call: Call, _peer: &Peer) -> Reply {
        match (call.program, call.version, call.procedure) {
            (CALLBACK_PROGRAM, nfs4::CALLBACK_VERSION, nfs4::PROCEDURE_NULL) => Reply::Success(Vec::new()),
            (CALLBACK_PROGRAM, nfs4::CALLBACK_VERSION, nfs4::PROCEDURE_COMPOUND) => {
                match xdr::from_bytes(call.body) {
                    Ok(request) => Reply::Success(self.compound(request).await),
                    Err(_) => Reply::GarbageArguments,
                }
            }
            (CALLBACK_PROGRAM, nfs4::CALLBACK_VERSION, _) => Reply::ProcedureUnavailable,
            (CALLBACK_PROGRAM, ..) => {
                Reply::ProgramMismatch { low: nfs4::CALLBACK_VERSION, high: nfs4::CALLBACK_VERSION }
            }
            _ => Reply::ProgramUnavailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use nfs4::{CbCompoundRes, Utf8String};

    use super::*;

    struct Willing;

    #[async_trait]
    impl Callback for Willing {
        async fn call(&self, operation: NfsCbArgOp) -> NfsCbResOp {
            NfsCbResOp::failure(operation.op_code(), NfsStatus::NotSupp)
        }
    }

    async fn call(channel: &BackChannel, session: u8) -> NfsStatus {
        let sequence = CbSequenceArgs {
            session: SessionId([session; 16]),
            sequence_id: 1,
            slot: 0,
            highest_slot: 0,
            cache_this: false,
            referring_call_lists: Vec::new(),
        };
        let ops = vec![NfsCbArgOp::Sequence(sequence)];
        let tag = Utf8String::default();
        let request = CbCompoundArgs { tag, minor_version: 2, callback_ident: 0, ops };
        let reply = channel.compound(request).await;
        let mut out = Encoder::new();
        reply.into_iter().for_each(|segment| out.put_raw(segment));
        xdr::from_bytes::<CbCompoundRes>(out.into_bytes()).unwrap().status
    }

    #[tokio::test]
    async fn callbacks_before_the_next_session_are_put_off_and_those_of_others_are_refused() {
        let next = BackChannel::of_next_session(Arc::new(Willing));
        assert_eq!(call(&next, 1).await, NfsStatus::Delay);
        next.begin(SessionId([2; 16]));
        assert_eq!(call(&next, 1).await, NfsStatus::BadSession);
        assert_eq!(call(&next, 2).await, NfsStatus::Ok);
        let only = BackChannel::new(Arc::new(Willing));
        assert_eq!(call(&only, 1).await, NfsStatus::Ok, "no other session can be meant");
    }
}
