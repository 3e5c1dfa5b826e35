//! Running the operations that open-owners and lock-owners count: OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE, LOCK and
//! LOCKU (RFC 7530 §9.1.9).
//!
//! Each of them is a transaction of its own: what its owner is told, and is told again when it asks again, is decided
//! when it ends.

use bytes::Bytes;
use nfs4::bits::{open_result, share_access};
use nfs4::{
    CreateHow, LockRes, Locker, NfsArgOp, NfsResOp, NfsStatus, OpCode, OpenArgs, OpenClaim, OpenHow, Outcome,
    StateId,
};
use twox_hash::XxHash3_64;
use xdr::Encoder;

use super::owner::{Answer, OwnerKind};
use super::status::{counts, of_minor0};
use super::turn::{Admitted, Effect, Numbered, Standing, Turn};
use crate::compound::Compound;
use crate::failure::Failure;
use crate::ops;
use crate::shared::Shared;

/// Whether an owner counts this operation.
pub(super) fn is_sequenced(operation: OpCode) -> bool {
    matches!(
        operation,
        OpCode::Open
            | OpCode::OpenConfirm
            | OpCode::OpenDowngrade
            | OpCode::Close
            | OpCode::Lock
            | OpCode::Unlock
    )
}

/// Runs one of them when it is its turn, or repeats its answer.
pub(super) async fn run(
    cx: &mut Compound<'_>,
    argument: NfsArgOp,
    out: &mut Encoder,
) -> Result<NfsStatus, Failure> {
    cx.current()?;
    check_arguments(&argument)?;
    let server = cx.server;
    let turn = match admit(server, &argument)? {
        Admitted::Run(turn) => turn,
        Admitted::Again(answer) => {
            server.metrics.replay();
            if let Some(handle) = answer.handle {
                cx.set_current(handle);
            }
            out.put_raw(answer.result);
            return Ok(answer.status);
        }
    };
    let mut running = Running { server, turn, settled: false };
    cx.act_for(running.turn.client);
    let result = match body(cx, &argument, running.turn.client).await {
        Ok(done) => cx.commit().await.map(|()| done),
        Err(failure) => Err(failure),
    };
    let (result, effect) = match result {
        Ok(done) => done,
        Err(Failure::Status(status)) => {
            cx.roll_back();
            let operation = argument.op_code();
            (NfsResOp::failure(operation, of_minor0(operation, status)), Effect::Nothing)
        }
        // It is run again, or never: it did not have its turn.
        Err(again) => return Err(again),
    };
    let status = result.status();
    let encoded = xdr::to_bytes(&result);
    if counts(status) {
        // Copied: what is kept must not keep more than itself.
        let handle = if status.is_ok() { cx.current().ok() } else { None };
        running.settle(Answer { status, result: Bytes::copy_from_slice(&encoded), handle }, effect);
    }
    out.put_raw(encoded);
    Ok(status)
}

/// An operation that has its turn. Dropping it unsettled, as after a panic, gives the turn back.
struct Running<'a> {
    server: &'a Shared,
    turn: Turn,
    settled: bool,
}

impl Running<'_> {
    fn settle(&mut self, answer: Answer, effect: Effect) {
        let now = self.server.now();
        self.server.state.lock().settle(&self.turn, answer, effect, now);
        self.settled = true;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.server.state.lock().give_back(&self.turn);
        }
    }
}

/// What later versions added to arguments is no XDR of this one.
fn check_arguments(argument: &NfsArgOp) -> Result<(), NfsStatus> {
    let NfsArgOp::Open(args) = argument else { return Ok(()) };
    let is_later = matches!(args.how, OpenHow::Create(CreateHow::Exclusive41 { .. }))
        || matches!(
            args.claim,
            OpenClaim::FileHandle
                | OpenClaim::DelegateCurrentFileHandle(_)
                | OpenClaim::DelegatePreviousFileHandle
        );
    if is_later { Err(NfsStatus::BadXdr) } else { Ok(()) }
}

fn admit(server: &Shared, argument: &NfsArgOp) -> Result<Admitted, Failure> {
    let digest = XxHash3_64::oneshot(&xdr::to_bytes(argument));
    let number = |seqid| Numbered { seqid, digest };
    let by_state = |id: &StateId, kind, seqid, standing| {
        server.with_state(|state, now| state.admit_by_state(id, kind, number(seqid), standing, now))
    };
    use OwnerKind::{Lock, Open};
    use Standing::{Confirmed, Unconfirmed};
    match argument {
        NfsArgOp::Open(args) => {
            let (client, name) = (args.owner.client, &args.owner.owner[..]);
            server.with_state(|state, now| state.admit_open(client, name, number(args.seqid), now))
        }
        NfsArgOp::OpenConfirm(args) => by_state(&args.state_id, Open, args.seqid, Unconfirmed),
        NfsArgOp::OpenDowngrade(args) => by_state(&args.state_id, Open, args.seqid, Confirmed),
        NfsArgOp::Close(args) => by_state(&args.state_id, Open, args.seqid, Confirmed),
        NfsArgOp::Unlock(args) => by_state(&args.lock_state_id, Lock, args.seqid, Confirmed),
        NfsArgOp::Lock(args) => match &args.locker {
            Locker::Existing { lock_state_id, lock_seqid } => {
                by_state(lock_state_id, Lock, *lock_seqid, Confirmed)
            }
            Locker::New { open_seqid, open_state_id, lock_seqid, owner } => {
                let lock_owner = (owner.client, &owner.owner[..]);
                server.with_state(|state, now| {
                    state.admit_first_lock(open_state_id, lock_owner, number(*open_seqid), *lock_seqid, now)
                })
            }
        },
        _ => Err(NfsStatus::ServerFault.into()),
    }
}

/// The operation itself: the body that all minor versions share, and what 4.0 says otherwise.
async fn body(
    cx: &mut Compound<'_>,
    argument: &NfsArgOp,
    client: nfs4::ClientId,
) -> Result<(NfsResOp, Effect), Failure> {
    if cx.is_given_up() {
        return Err(NfsStatus::Delay.into());
    }
    match argument {
        NfsArgOp::Open(args) => open(cx, args, client).await,
        NfsArgOp::OpenConfirm(args) => {
            check_newest(cx, &args.state_id)?;
            let id = cx.server.state.lock().rename_open(&args.state_id.other)?;
            Ok((NfsResOp::OpenConfirm(Outcome::Ok(id)), Effect::Confirmed))
        }
        NfsArgOp::OpenDowngrade(args) => {
            check_newest(cx, &args.state_id)?;
            check_share(args.share_access)?;
            let id = ops::close::downgrade(cx, args)?;
            Ok((NfsResOp::OpenDowngrade(Outcome::Ok(id)), Effect::Nothing))
        }
        NfsArgOp::Close(args) => {
            check_newest(cx, &args.state_id)?;
            ops::close::run(cx, args)?;
            // As if it lived on (§16.2.4): some clients look at it.
            let id = StateId { seqid: args.state_id.seqid.wrapping_add(1), ..args.state_id };
            Ok((NfsResOp::Close(Outcome::Ok(id)), Effect::Closed(id.other)))
        }
        NfsArgOp::Lock(args) => {
            match &args.locker {
                Locker::New { open_state_id, .. } => check_newest(cx, open_state_id)?,
                Locker::Existing { lock_state_id, .. } => check_newest(cx, lock_state_id)?,
            }
            let result = ops::lock::lock(cx, args).await?;
            let effect = match &result {
                LockRes::Ok(id) => Effect::Locked { lock: id.other, by: cx.requester.principal },
                _ => Effect::Nothing,
            };
            if args.reclaim && effect != Effect::Nothing {
                cx.server.state.lock().has_reclaimed(client);
            }
            Ok((NfsResOp::Lock(result), effect))
        }
        NfsArgOp::Unlock(args) => {
            check_newest(cx, &args.lock_state_id)?;
            let id = ops::lock::unlock(cx, args)?;
            Ok((NfsResOp::Unlock(Outcome::Ok(id)), Effect::Nothing))
        }
        _ => Err(NfsStatus::ServerFault.into()),
    }
}

fn check_newest(cx: &Compound<'_>, id: &StateId) -> Result<(), NfsStatus> {
    cx.server.state.lock().check_newest(id)
}

/// 4.0 knows no wishes for a delegation.
fn check_share(access: u32) -> Result<(), NfsStatus> {
    if access & !share_access::BOTH != 0 { Err(NfsStatus::Inval) } else { Ok(()) }
}

/// OPEN.
async fn open(
    cx: &mut Compound<'_>,
    args: &OpenArgs,
    client: nfs4::ClientId,
) -> Result<(NfsResOp, Effect), Failure> {
    check_share(args.share_access)?;
    if let OpenHow::Create(CreateHow::Unchecked(attributes) | CreateHow::Guarded(attributes)) = &args.how {
        super::execute::check_attributes(attributes)?;
    }
    if let OpenClaim::DelegateCurrent { state_id, .. } = &args.claim {
        check_newest(cx, state_id)?;
    }
    let server = cx.server;
    let reclaim = matches!(args.claim, OpenClaim::Previous(_));
    let mut opened = ops::open::run(cx, args).await?;
    let confirmed = {
        let mut state = server.state.lock();
        if reclaim {
            state.has_reclaimed(client);
        }
        reclaim || state.is_confirmed(client, &args.owner.owner)
    };
    let confirm = if confirmed { 0 } else { open_result::CONFIRM };
    opened.flags = opened.flags & open_result::LOCKTYPE_POSIX | confirm;
    let by = cx.requester.principal;
    let effect = Effect::Opened { open: opened.state_id.other, by, confirmed };
    Ok((NfsResOp::Open(Outcome::Ok(opened)), effect))
}
