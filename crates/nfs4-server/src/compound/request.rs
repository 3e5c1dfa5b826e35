//! From an RPC call to a reply: the session's door, the slot, the operations; or, in 4.0, no such door.

use std::time::Duration;

use bytes::Bytes;
use nfs4::{
    CompoundHeader, NfsArgOp, NfsResOp, NfsStatus, OpCode, Outcome, SequenceArgs, SequenceOk, Utf8String,
};
use onc_rpc::{Call, Peer, Reply};
use twox_hash::XxHash3_64;
use xdr::{Decode, Decoder};

use super::reply::{ReplyBuffer, SEQUENCE_BYTES};
use super::run::{ReplyLimit, Runner};
use super::{Compound, InSession};
use crate::caller::Requester;
use crate::minor0::{self, REPLY_BYTES, RequestKey};
use crate::shared::Shared;
use crate::state::{Channel, Entered, Principal, RequestDigest, RequestId, Sequence, SequenceStatus};
use crate::text::is_text;

/// Longest tag that is given back.
const MAX_TAG: usize = 1024;

/// Most bytes of a reply to a compound without session: no negotiated limit holds there.
const REPLY_WITHOUT_SESSION: usize = 64 << 10;

/// Answers COMPOUND (RFC 8881 §16.2).
pub(crate) async fn handle(server: &Shared, call: Call, peer: &Peer) -> Reply {
    let started = server.now();
    let reply = answer(server, call, peer).await;
    server.metrics.compound(server.now().saturating_sub(started));
    reply
}

async fn answer(server: &Shared, call: Call, peer: &Peer) -> Reply {
    let requester = match Requester::new(&call.credential, peer, &server.exports) {
        Ok(requester) => requester,
        Err(status) => return Reply::AuthError(status),
    };
    let repetition = (peer.address(), call.xid, call.body.clone());
    let mut input = Decoder::new(call.body);
    let Ok(header) = CompoundHeader::decode(&mut input) else { return Reply::GarbageArguments };
    if header.tag.len() > MAX_TAG {
        return refusal(&Utf8String::from(""), NfsStatus::Inval);
    }
    if !is_text(header.tag.as_bytes()) && server.exports.seen_from(requester.address).want_text() {
        return refusal(&header.tag, NfsStatus::Inval);
    }
    if header.minor_version > 2 {
        return refusal(&header.tag, NfsStatus::MinorVersMismatch);
    }
    let start = input.clone();
    let mut request = Request {
        server,
        compound: Compound::new(server, requester, peer.connection_id(), header.minor_version),
        reply: ReplyBuffer::new(&header.tag),
        input,
        count: header.op_count,
    };
    if header.op_count == 0 {
        return request.reply.finish().into();
    }
    if header.minor_version == 0 {
        let (address, xid, body) = repetition;
        let key = RequestKey::new(address, xid, &request.compound.requester.principal, &body);
        return request.without_sessions(key).await;
    }
    match NfsArgOp::decode_op(&mut request.input, header.minor_version) {
        Ok(NfsArgOp::Sequence(args)) => request.in_session(args).await,
        Ok(argument) if stands_alone(argument.op_code()) => {
            if header.op_count > 1 {
                request.fail(argument.op_code(), NfsStatus::NotOnlyOp)
            } else {
                request.input = start;
                request.alone().await
            }
        }
        Ok(argument) => request.fail(argument.op_code(), NfsStatus::OpNotInSession),
        Err(error) => request.fail(error.op_code(), error.status()),
    }
}

/// A compound that is refused before its first operation.
fn refusal(tag: &Utf8String, status: NfsStatus) -> Reply {
    let mut reply = ReplyBuffer::new(tag);
    reply.set_status(status);
    reply.finish().into()
}

/// Operations that may be alone in a compound without SEQUENCE (RFC 8881 §2.10.2.1 and their sections).
fn stands_alone(operation: OpCode) -> bool {
    matches!(
        operation,
        OpCode::ExchangeId
            | OpCode::CreateSession
            | OpCode::DestroySession
            | OpCode::BindConnToSession
            | OpCode::DestroyClientId
    )
}

struct Request<'a> {
    server: &'a Shared,
    compound: Compound<'a>,
    reply: ReplyBuffer,
    /// Behind the first operation.
    input: Decoder,
    count: u32,
}

impl Request<'_> {
    fn fail(mut self, operation: OpCode, status: NfsStatus) -> Reply {
        self.reply.push_failure(operation, status);
        self.reply.finish().into()
    }

    /// One operation without session.
    async fn alone(mut self) -> Reply {
        let bytes = REPLY_WITHOUT_SESSION;
        let limit = ReplyLimit { bytes, status: NfsStatus::RepTooBig, kept: bytes };
        self.run(limit, 0).await;
        self.reply.finish().into()
    }

    /// Everything of 4.0 (RFC 7530 §15.2). What changed something is answered once, however often it comes.
    async fn without_sessions(mut self, key: RequestKey) -> Reply {
        let server = self.server;
        if self.count > server.limits.operations {
            let first = self.input.peek_u32().ok().and_then(OpCode::from_number).unwrap_or(OpCode::Illegal);
            return self.fail(first, NfsStatus::Resource);
        }
        let running = match server.duplicates.enter(key, server.now()).await {
            Ok(running) => running,
            Err(reply) => {
                server.metrics.replay();
                return Reply::Success(vec![reply]);
            }
        };
        if let Some(client) = minor0::whose(&self.compound, self.input.clone(), self.count) {
            self.compound.act_for(client);
        }
        let bytes = server.limits.message_bytes as usize;
        let limit = ReplyLimit { bytes, status: NfsStatus::Resource, kept: bytes };
        let mutated = self.run(limit, 0).await;
        if !mutated || self.reply.message_bytes() > REPLY_BYTES {
            return self.reply.finish().into();
        }
        let whole = self.reply.finish().into_bytes();
        running.keep(&whole, server.now());
        Reply::Success(vec![whole])
    }

    async fn run(&mut self, limit: ReplyLimit, index: u32) -> bool {
        let mut runner = Runner {
            compound: &mut self.compound,
            reply: &mut self.reply,
            limit,
            input: self.input.clone(),
            index,
            count: self.count,
            mutated: false,
        };
        runner.run().await;
        runner.mutated
    }

    /// Everything that begins with SEQUENCE.
    async fn in_session(mut self, args: SequenceArgs) -> Reply {
        let server = self.server;
        let now = server.now();
        let sequence = Sequence {
            connection: self.compound.connection,
            session: args.session,
            slot: args.slot,
            sequence: args.sequence_id,
            digest: self.digest(),
            operations: self.count as usize,
            request_bytes: self.input.position() + self.input.remaining(),
            reply_bytes: self.reply.message_bytes() + SEQUENCE_BYTES,
            cache_this: args.cache_this,
        };
        let entered = server.state.lock().enter(&sequence, now);
        let status = entered.as_ref().err().copied().unwrap_or(NfsStatus::Ok);
        server.metrics.operation(OpCode::Sequence, status, Duration::ZERO);
        match entered {
            Err(status) => self.fail(OpCode::Sequence, status),
            Ok(Entered::Replay(reply)) => {
                server.metrics.replay();
                Reply::Success(vec![reply])
            }
            Ok(Entered::Uncached { status }) => {
                server.metrics.replay();
                self.reply.push(&sequence_result(&args, &status));
                let next =
                    self.input.peek_u32().ok().and_then(OpCode::from_number).unwrap_or(OpCode::Illegal);
                self.fail(next, NfsStatus::RetryUncachedRep)
            }
            Ok(Entered::Run { client, channel, status }) => {
                // From here on the slot is given back whatever happens.
                let slot = Slot { server, args, answered: false };
                self.compound.session = Some(InSession {
                    client,
                    session: args.session,
                    request: RequestId { session: args.session, slot: args.slot, sequence: args.sequence_id },
                });
                self.reply.push(&sequence_result(&args, &status));
                debug_assert_eq!(self.reply.message_bytes(), sequence.reply_bytes);
                let limit = reply_limit(&channel, args.cache_this);
                let mutated = self.run(limit, 1).await;
                let is_atomic = self.compound.is_atomic();
                let is_promised = args.cache_this || self.count == 1 || is_atomic;
                let keep = if is_promised {
                    Keep::Promised
                } else if mutated {
                    Keep::IfThereIsRoom
                } else {
                    Keep::Not
                };
                slot.answer(self.reply, keep, &channel)
            }
        }
    }

    /// Hashes what must be equal in a retry (RFC 8881 §2.10.6.1.3.1): who asks, and the operations behind SEQUENCE,
    /// whose own arguments may differ. All of it: a WRITE that is taken for another one is data lost.
    fn digest(&self) -> RequestDigest {
        let principal = match self.compound.requester.principal {
            Principal::Nobody => u64::MAX,
            Principal::Unix(uid) => uid.into(),
            Principal::Stranger(uid) => uid.map_or(1 << 33, |uid| 1 << 32 | u64::from(uid)),
            Principal::Gss(digest) => u128::from_be_bytes(digest) as u64,
        };
        let seed = principal.rotate_left(32) ^ u64::from(self.count);
        XxHash3_64::oneshot_with_seed(seed, &self.input.clone().rest())
    }
}

fn sequence_result(args: &SequenceArgs, status: &SequenceStatus) -> NfsResOp {
    NfsResOp::Sequence(Outcome::Ok(SequenceOk {
        session: args.session,
        sequence_id: args.sequence_id,
        slot: args.slot,
        highest_slot: status.highest_slot,
        target_highest_slot: status.highest_slot,
        status_flags: status.flags,
    }))
}

fn reply_limit(channel: &Channel, cache_this: bool) -> ReplyLimit {
    let all = channel.max_response as usize;
    let cached = channel.max_response_cached as usize;
    if cache_this && cached < all {
        ReplyLimit { bytes: cached, status: NfsStatus::RepTooBigToCache, kept: cached }
    } else {
        ReplyLimit { bytes: all, status: NfsStatus::RepTooBig, kept: cached }
    }
}

/// Whether a reply is kept for retries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Promised,
    /// It changed something.
    IfThereIsRoom,
    Not,
}

/// A slot in use. Dropping it without an answer, as after a panic, frees it.
struct Slot<'a> {
    server: &'a Shared,
    args: SequenceArgs,
    answered: bool,
}

impl Slot<'_> {
    /// Keeps the reply for retries if `keep` says so and it is small enough, and sends it.
    fn answer(mut self, reply: ReplyBuffer, keep: Keep, channel: &Channel) -> Reply {
        self.answered = true;
        let fits = reply.message_bytes() <= channel.max_response_cached as usize;
        let out = reply.finish();
        if keep != Keep::Not && fits {
            let whole = out.into_bytes();
            // What it lies in may be much longer.
            self.leave(Some(Bytes::copy_from_slice(&whole)), keep == Keep::Promised);
            Reply::Success(vec![whole])
        } else {
            self.leave(None, false);
            out.into()
        }
    }

    fn leave(&self, reply: Option<Bytes>, is_promised: bool) {
        let now = self.server.now();
        let mut state = self.server.state.lock();
        state.leave(self.args.session, self.args.slot, reply, is_promised, now);
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.leave(None, false);
        }
    }
}
