//! A connection of a client: compounds out, callbacks in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nfs4::{
    CbCompoundArgs, CbSequenceOk, CompoundArgs, CompoundReply, NfsArgOp, NfsCbArgOp, NfsCbResOp, NfsStatus,
    Outcome, Utf8String,
};
use onc_rpc::{AuthSys, Call, Credential, Limits, Peer, Procedure, Reply, Service};
use tokio::sync::mpsc;
use xdr::Encoder;

const COMPOUND: Procedure =
    Procedure { program: nfs4::PROGRAM, version: nfs4::VERSION, number: nfs4::PROCEDURE_COMPOUND };

/// The RPC program of callbacks.
pub const CALLBACK_PROGRAM: u32 = 0x4000_0000;

/// Longer than any answer takes: who waits for longer waits for ever.
const HANG: Duration = Duration::from_secs(20);

pub struct Wire {
    peer: Peer,
    callbacks: mpsc::UnboundedReceiver<NfsCbArgOp>,
    /// Unlike that of every other connection.
    pub number: u64,
}

impl Wire {
    pub async fn connect(address: SocketAddr, number: u64) -> Wire {
        let (sender, callbacks) = mpsc::unbounded_channel();
        let peer = Peer::connect(address, Arc::new(Callbacks(sender)), Limits::default()).await.unwrap();
        Wire { peer, callbacks, number }
    }

    /// The reply as it comes.
    pub async fn send(&self, user: u32, minor_version: u32, operations: &[NfsArgOp]) -> Bytes {
        let args = CompoundArgs { tag: Utf8String::default(), minor_version, ops: operations.to_vec() };
        let credential = Credential::Sys(AuthSys::new(user, user));
        self.peer.call(COMPOUND, &credential, vec![xdr::to_bytes(&args)], HANG).await.unwrap()
    }

    /// Waits for a callback; `None` if none comes.
    pub async fn callback(&mut self) -> Option<NfsCbArgOp> {
        tokio::time::timeout(HANG, self.callbacks.recv()).await.ok().flatten()
    }

    /// A callback that has come already.
    pub fn unheard(&mut self) -> Option<NfsCbArgOp> {
        self.callbacks.try_recv().ok()
    }

    pub fn close(&self) {
        self.peer.close();
    }
}

/// Agrees to everything.
struct Callbacks(mpsc::UnboundedSender<NfsCbArgOp>);

#[async_trait]
impl Service for Callbacks {
    async fn call(&self, call: Call, _peer: &Peer) -> Reply {
        if call.procedure == nfs4::PROCEDURE_NULL {
            return Reply::Success(Vec::new());
        }
        let Ok(request) = xdr::from_bytes::<CbCompoundArgs>(call.body) else {
            return Reply::GarbageArguments;
        };
        let mut out = Encoder::new();
        let mut reply = CompoundReply::begin(&mut out, &request.tag);
        for operation in request.ops {
            let result = match &operation {
                NfsCbArgOp::Sequence(args) => NfsCbResOp::Sequence(Outcome::Ok(CbSequenceOk {
                    session: args.session,
                    sequence_id: args.sequence_id,
                    slot: args.slot,
                    highest_slot: args.highest_slot,
                    target_highest_slot: args.highest_slot,
                })),
                NfsCbArgOp::Recall(_) => NfsCbResOp::Recall(NfsStatus::Ok),
                NfsCbArgOp::NotifyLock(_) => NfsCbResOp::NotifyLock(NfsStatus::Ok),
                // Nothing else is asked for.
                other => NfsCbResOp::failure(other.op_code(), NfsStatus::NotSupp),
            };
            if !matches!(operation, NfsCbArgOp::Sequence(_)) {
                // The test may have ended.
                let _ = self.0.send(operation);
            }
            reply.push(&result);
        }
        reply.finish(NfsStatus::Ok);
        Reply::Success(out.into_segments())
    }
}
