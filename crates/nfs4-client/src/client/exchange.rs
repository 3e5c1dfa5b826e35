//! One request in one slot, until it is answered: exactly-once semantics (RFC 8881 §2.10.6).

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use bytes::Bytes;
use nfs4::{CompoundRes, NfsResOp, NfsStatus, Outcome, SequenceOk};
use onc_rpc::{Credential, RpcError};

use super::in_flight::Courier;
use super::limits::{Size, is_about_size};
use super::line::ends_session;
use super::live_session::LiveSession;
use super::shared::Shared;
use super::slots::Slot;
use super::statistics::Counters;
use super::status_flags;
use crate::wire::COMPOUND;
use crate::{ClientError, Reply};

/// How often one request is sent again for want of an answer, before the session is given up.
const RESENDS: u32 = 16;

/// Operations that every server can decode.
const FEW: usize = 8;

/// How often a request is repeated that the server puts off.
pub(super) const DELAYS: u32 = 64;

/// A compound, ready to be sent as often as need be.
pub(super) struct Request {
    pub credential: Arc<Credential>,
    /// Encoded, SEQUENCE included.
    pub body: Vec<Bytes>,
    /// SEQUENCE not included.
    pub operations: usize,
    /// Done whole or not at all, for which there are other limits.
    pub is_atomic: bool,
    /// Of the client, and of the part of the program that sends it if that counts for itself.
    pub counters: [Option<Arc<Counters>>; 2],
}

/// What came of it.
pub(super) enum Exchanged {
    /// SEQUENCE succeeded.
    Answer(Reply),
    /// It was executed, and the result is not to be had any more.
    Forgotten,
    /// The session ended. `doubtful`: it may have been executed.
    Lost { doubtful: bool },
    /// It was not executed, and the slot is no longer to be used.
    NoSlot,
    /// It was not executed, and repeating it would not help; or its reply makes no sense.
    Failed(ClientError),
    /// It was not sent, as nobody waits for it.
    Abandoned,
}

/// What to do with what SEQUENCE said.
enum Verdict {
    Is(Exchanged),
    /// Send it again, with the same sequence id, a little later.
    Later,
    /// The same, after the connection has been bound to the session.
    Rebind,
}

impl Request {
    fn count(&self, count: impl Fn(&Counters)) {
        self.counters.iter().flatten().for_each(|counters| count(counters));
    }

    /// Of the whole compound.
    pub fn bytes(&self) -> usize {
        self.body.iter().map(Bytes::len).sum()
    }

    /// With a reply of so many bytes.
    fn size(&self, reply_bytes: usize) -> Size {
        Size {
            operations: self.operations as u32,
            request_bytes: self.bytes() as u32,
            response_bytes: reply_bytes as u32,
            begun: false,
        }
    }
}

/// Sends a request in a slot, over one connection after the other, until it is answered or the session ends.
pub(super) async fn exchange(
    shared: Arc<Shared>,
    session: Arc<LiveSession>,
    slot: Slot,
    request: Request,
    courier: Arc<Courier>,
) -> Exchanged {
    let exchanged = repeat(&shared, &session, slot, request, &courier).await;
    let is_lost = matches!(exchanged, Exchanged::Lost { doubtful: true });
    if is_lost && courier.is_doubtful() && !session.is_over.load(SeqCst) {
        // A server that has not answered for so long may execute it at any time, and nobody will know.
        drop(shared.standing.orphan());
    }
    exchanged
}

async fn repeat(
    shared: &Arc<Shared>,
    session: &Arc<LiveSession>,
    mut slot: Slot,
    request: Request,
    courier: &Courier,
) -> Exchanged {
    let mut back_off = None;
    // An earlier transmission may have been executed.
    let mut doubtful = false;
    let (mut resends, mut delays) = (0, 0);
    // A repeated answer is as old as the first request.
    let mut first_sent = None;
    let bytes = request.bytes();
    loop {
        let line = tokio::select! {
            biased;
            () = session.lost.cancelled() => return Exchanged::Lost { doubtful },
            () = shared.stop.cancelled() => return Exchanged::Lost { doubtful },
            line = shared.trunk.least_loaded(session.generation) => line,
        };
        if courier.is_abandoned() && !doubtful {
            return Exchanged::Abandoned;
        }
        // A connection that is found closed now has sent nothing.
        let may_arrive = !line.peer.is_closed();
        if may_arrive {
            courier.set_sent(true);
            request.count(|counters| {
                counters.compounds.add(1);
                counters.operations.add(request.operations as u64);
                counters.bytes_out.add(bytes as u64);
            });
        }
        let sent = shared.now();
        let first_sent = *first_sent.get_or_insert_with(|| shared.since_boot());
        let (body, timeout) = (request.body.clone(), shared.options.timeout);
        let called = line.peer.call(COMPOUND, &request.credential, body, timeout).await;
        match called {
            Ok(reply) => {
                let received = reply.len();
                request.count(|counters| counters.bytes_in.add(received as u64));
                let reply = match xdr::from_bytes::<CompoundRes>(reply) {
                    Ok(reply) => reply,
                    Err(error) => {
                        // Probably executed: if not, the slot's next request brings it to light.
                        slot.executed();
                        return Exchanged::Failed(error.into());
                    }
                };
                let size = (!request.is_atomic).then_some(request.size(received));
                match judge(shared, session, &mut slot, reply, size, doubtful) {
                    Verdict::Is(exchanged) => {
                        if let Exchanged::Answer(reply) = &exchanged {
                            let flags = reply.sequence.status_flags;
                            status_flags::follow(shared, session, flags);
                            shared.renewed_at(sent);
                            shared.vouched_for(session, first_sent, flags);
                        }
                        return exchanged;
                    }
                    Verdict::Later if delays == DELAYS && !doubtful => {
                        return Exchanged::Failed(ClientError::Refused { status: NfsStatus::Delay });
                    }
                    Verdict::Later | Verdict::Rebind if delays == DELAYS => {
                        shared.lose(session, true);
                        return Exchanged::Lost { doubtful };
                    }
                    Verdict::Later => {}
                    // It is bound when it is opened, which is the simplest way to bind it once more.
                    Verdict::Rebind => line.peer.close(),
                }
                delays += 1;
                drop(line);
                back_off.get_or_insert_with(|| shared.back_off()).wait().await;
            }
            Err(
                error @ (RpcError::Closed | RpcError::TimedOut | RpcError::Io(_) | RpcError::SystemError),
            ) => {
                // Not once more on the connection that owes the answer (RFC 8881 §2.9.2).
                if !matches!(error, RpcError::SystemError) {
                    line.peer.close();
                }
                doubtful |= may_arrive;
                if may_arrive {
                    request.count(|counters| counters.resends.add(1));
                    resends += 1;
                }
                if resends > RESENDS {
                    shared.lose(session, true);
                    return Exchanged::Lost { doubtful };
                }
                drop(line);
                if resends > 1 {
                    back_off.get_or_insert_with(|| shared.back_off()).wait().await;
                }
            }
            // Some servers cannot even decode so many operations (NFS-Ganesha). They have executed nothing, and the slot is as
            // before (RFC 5531 §9).
            Err(RpcError::GarbageArguments) if !doubtful && request.operations > FEW => {
                let status = NfsStatus::TooManyOps;
                if !request.is_atomic {
                    shared.limits.learn(status, request.size(0));
                }
                return Exchanged::Failed(ClientError::TooLarge { status });
            }
            Err(error) if doubtful => {
                tracing::warn!(%error, "a request cannot be repeated");
                shared.lose(session, true);
                return Exchanged::Lost { doubtful };
            }
            Err(error) => return Exchanged::Failed(error.into()),
        }
    }
}

fn judge(
    shared: &Arc<Shared>,
    session: &Arc<LiveSession>,
    slot: &mut Slot,
    mut reply: CompoundRes,
    size: Option<Size>,
    doubtful: bool,
) -> Verdict {
    let sequence = if reply.results.is_empty() { None } else { Some(reply.results.remove(0)) };
    let status = match sequence {
        Some(NfsResOp::Sequence(Outcome::Ok(sequence))) => {
            slot.executed();
            return Verdict::Is(accepted(shared, session, sequence, reply, size));
        }
        Some(NfsResOp::Sequence(Outcome::Err(status))) => status,
        None if !reply.status.is_ok() => reply.status,
        _ => {
            slot.executed();
            let expected = nfs4::OpCode::Sequence;
            return Verdict::Is(Exchanged::Failed(ClientError::UnexpectedResult { expected }));
        }
    };
    // From here on: the slot is as before (§18.46.3), and this transmission was not executed.
    Verdict::Is(match status {
        NfsStatus::Delay | NfsStatus::Grace | NfsStatus::BadHighSlot => return Verdict::Later,
        NfsStatus::ConnNotBoundToSession => return Verdict::Rebind,
        status if ends_session(status) => {
            shared.lose(session, false);
            Exchanged::Lost { doubtful }
        }
        // Client and server do not agree on the slot, and cannot find out why.
        NfsStatus::SeqMisordered | NfsStatus::SeqFalseRetry => {
            shared.lose(session, true);
            Exchanged::Lost { doubtful }
        }
        NfsStatus::RetryUncachedRep => {
            slot.executed();
            Exchanged::Forgotten
        }
        NfsStatus::BadSlot if !doubtful && slot.number() > 0 => {
            // Several may be refused, the lowest last or first.
            if slot.number() < session.slots.usable() {
                session.slots.use_up_to(slot.number() - 1);
            }
            Exchanged::NoSlot
        }
        status if doubtful => {
            tracing::warn!(%status, "a request cannot be repeated");
            shared.lose(session, true);
            Exchanged::Lost { doubtful }
        }
        status if is_about_size(status) => {
            if let Some(size) = size {
                shared.limits.learn(status, size);
            }
            Exchanged::Failed(ClientError::TooLarge { status })
        }
        status => Exchanged::Failed(ClientError::Refused { status }),
    })
}

/// SEQUENCE succeeded.
fn accepted(
    shared: &Shared,
    session: &LiveSession,
    sequence: SequenceOk,
    reply: CompoundRes,
    size: Option<Size>,
) -> Exchanged {
    session.slots.use_up_to(sequence.target_highest_slot);
    if reply.status == NfsStatus::RetryUncachedRep && reply.results.len() <= 1 {
        return Exchanged::Forgotten;
    }
    if let Some(size) = size
        && is_about_size(reply.status)
    {
        let done = reply.results.len().saturating_sub(1) as u32;
        let (operations, begun) = if done > 0 { (done, true) } else { (size.operations, false) };
        shared.limits.learn(reply.status, Size { operations, begun, ..size });
    }
    Exchanged::Answer(Reply { status: reply.status, sequence, results: reply.results })
}
