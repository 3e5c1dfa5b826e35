//! Running the operations of a compound, again if need be.

use file_system::{FileId, Mode};
use nfs4::{ClientId, NfsArgOp, NfsResOp, NfsStatus, OpCode, OpDecodeError, Outcome};
use xdr::Decoder;

use super::far::{Patience, Wanted};
use super::reply::{ReplyBuffer, ReplyMark, room_needed};
use super::{Compound, Place};
use crate::failure::Failure;
use crate::state::Question;
use crate::{minor0, ops};

/// How large the reply may become, and what to say when it would become larger.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyLimit {
    /// Of the whole RPC message.
    pub bytes: usize,
    /// `NFS4ERR_REP_TOO_BIG` or `NFS4ERR_REP_TOO_BIG_TO_CACHE`.
    pub status: NfsStatus,
    /// Most bytes of a reply that is kept for retries.
    pub kept: usize,
}

/// Where a compound is run again from: behind everything that is committed.
struct Checkpoint {
    input: Decoder,
    index: u32,
    mark: ReplyMark,
    current: Place,
    saved: Place,
}

/// An operation that a failed commit is blamed on.
#[derive(Clone, Copy)]
struct Blame {
    mark: ReplyMark,
    operation: OpCode,
}

/// Why a compound has to be run again.
struct Again {
    /// The first operation behind the checkpoint.
    blame: Blame,
    reason: Reason,
}

enum Reason {
    /// The transaction met another one.
    Conflict,
    /// This expired client has to be forgotten first.
    Expired(ClientId),
    /// A delegation for writing of this client has to be revoked first.
    Overdue(ClientId),
    /// The record of this client has to be durable first.
    Unrecorded(ClientId),
    /// All this has to come first.
    Awaited(Awaited),
}

/// What other clients have to do first, and what takes its time.
#[derive(Default)]
struct Awaited {
    /// Delegations of these files have to be returned.
    returns: Vec<FileId>,
    /// These questions have to be answered.
    answers: Vec<Question>,
    /// All this is to be fetched.
    reads: Vec<Wanted>,
}

impl Awaited {
    fn bytes(&self) -> usize {
        self.reads.iter().map(|wanted| wanted.count as usize).sum()
    }
}

/// Expired clients that one compound may find in its way, as when all read what it wants to write.
const EVICTIONS: usize = 4096;

/// How often one compound has the record of its client written, in case that it is removed at once.
const RECORDS: usize = 16;

/// How often one compound waits for delegations to be returned.
const RETURNS: usize = 16;

pub(super) struct Runner<'c, 'a> {
    pub compound: &'c mut Compound<'a>,
    pub reply: &'c mut ReplyBuffer,
    pub limit: ReplyLimit,
    /// Stands before operation number `index`.
    pub input: Decoder,
    pub index: u32,
    /// Operations of the whole compound.
    pub count: u32,
    /// Whether anything was committed that a retry of the request must not do again.
    pub mutated: bool,
}

impl Runner<'_, '_> {
    /// Runs the operations up to the first that fails, and commits.
    pub async fn run(&mut self) {
        let limits = self.compound.server.limits;
        let mut checkpoint = self.checkpoint();
        let (mut conflicts, mut evictions, mut records, mut returns) = (0, 0, 0, 0);
        while let Err(again) = self.attempt(&mut checkpoint, &mut conflicts).await {
            // Nothing is waited for with a transaction open: it may be the one that others wait for.
            self.go_back(&checkpoint);
            let may_go_on = match again.reason {
                Reason::Conflict => {
                    self.compound.server.metrics.conflict();
                    conflicts += 1;
                    // Only the first volume of a compound is ever waited for alone: two compounds that meet in
                    // two volumes cannot wait for each other.
                    self.compound.mode =
                        if conflicts >= limits.optimistic_tries { Mode::Exclusive } else { Mode::Optimistic };
                    conflicts < limits.optimistic_tries + limits.exclusive_tries
                }
                Reason::Expired(client) => {
                    evictions += 1;
                    evictions <= EVICTIONS && self.compound.server.evict(client).await.is_ok()
                }
                Reason::Overdue(client) => {
                    evictions += 1;
                    evictions <= EVICTIONS && self.compound.server.revoke_writer(client).await.is_ok()
                }
                Reason::Unrecorded(client) => {
                    records += 1;
                    records <= RECORDS && self.compound.server.record(client).await.is_ok()
                }
                Reason::Awaited(awaited) => {
                    returns += 1;
                    self.compound.fetch(awaited.reads).await;
                    let server = self.compound.server;
                    let returned = returns <= RETURNS
                        && server.answered(&awaited.answers).await
                        && server.returned(&awaited.returns).await;
                    self.compound.impatient = !returned;
                    // In 4.0 its owner has to count what it is told.
                    returned
                        || !(self.compound.minor_version == 0 && minor0::is_barrier(again.blame.operation))
                }
            };
            if !may_go_on && self.compound.minor_version == 0 && minor0::is_barrier(again.blame.operation) {
                // Its owner has to count it.
                self.compound.give_up();
                if self.attempt(&mut checkpoint, &mut conflicts).await.is_ok() {
                    return;
                }
                self.go_back(&checkpoint);
            }
            if !may_go_on {
                self.reply.truncate(again.blame.mark);
                self.reply.push_failure(again.blame.operation, NfsStatus::Delay);
                return;
            }
        }
    }

    /// Tries the operations behind the checkpoint once.
    async fn attempt(&mut self, checkpoint: &mut Checkpoint, conflicts: &mut u32) -> Result<(), Again> {
        let mut first: Option<Blame> = None;
        let mut first_change: Option<Blame> = None;
        while self.index < self.count && self.reply.status().is_ok() {
            let input = self.input.clone();
            let mark = self.reply.mark();
            let (operation, argument) = self.decode();
            let here = Blame { mark, operation };
            // What an atomic compound must not hold is refused instead.
            let is_atomic = self.compound.is_atomic();
            let is_barrier = !is_atomic && is_barrier(operation, self.compound.minor_version);
            if is_barrier || !is_atomic && self.compound.gives_up_before(operation, argument.as_ref().ok()) {
                self.commit(*first.get_or_insert(here), first_change, checkpoint).await?;
                if !self.reply.status().is_ok() {
                    return Ok(());
                }
                // It may itself have to be run again, and only it.
                *checkpoint = Checkpoint { input: input.clone(), ..self.checkpoint() };
                (first, first_change) = (Some(here), None);
            }
            let blame = *first.get_or_insert(here);
            let started = self.compound.server.now();
            let result = match argument {
                Ok(argument) => self.step(operation, argument).await,
                Err(error) => Err(error.status().into()),
            };
            if self.compound.has_changed() {
                first_change.get_or_insert(here);
            }
            let status = match result {
                Ok(status) => status,
                Err(Failure::Conflict) => return Err(Again { blame, reason: Reason::Conflict }),
                Err(Failure::Expired(client)) => {
                    return Err(Again { blame, reason: Reason::Expired(client) });
                }
                Err(Failure::Overdue(client)) => {
                    return Err(Again { blame, reason: Reason::Overdue(client) });
                }
                Err(Failure::Unrecorded(client)) => {
                    return Err(Again { blame, reason: Reason::Unrecorded(client) });
                }
                Err(Failure::Recalled(_) | Failure::Asked(_)) if self.compound.impatient && !is_barrier => {
                    self.reply.truncate(mark);
                    self.reply.push_failure(operation, NfsStatus::Delay);
                    NfsStatus::Delay
                }
                Err(failure @ (Failure::Recalled(_) | Failure::Asked(_))) => {
                    let mut awaited = Awaited::default();
                    self.note(failure, &mut awaited);
                    if !is_barrier {
                        self.look_ahead(mark, &mut awaited).await;
                    }
                    return Err(Again { blame, reason: Reason::Awaited(awaited) });
                }
                Err(failure @ Failure::Far(_)) => {
                    let mut awaited = Awaited::default();
                    self.note(failure, &mut awaited);
                    self.compound.patience = Patience::None;
                    self.look_ahead(mark, &mut awaited).await;
                    self.compound.patience = Patience::Much;
                    return Err(Again { blame, reason: Reason::Awaited(awaited) });
                }
                Err(Failure::OtherVolume) => {
                    self.commit(blame, first_change, checkpoint).await?;
                    if !self.reply.status().is_ok() {
                        return Ok(());
                    }
                    self.input = input;
                    *checkpoint = self.checkpoint();
                    *conflicts = 0;
                    self.compound.mode = Mode::Optimistic;
                    (first, first_change) = (None, None);
                    continue;
                }
                Err(Failure::Status(status)) => {
                    self.reply.truncate(mark);
                    self.reply.push_failure(operation, status);
                    status
                }
            };
            let took = self.compound.server.now().saturating_sub(started);
            self.compound.server.metrics.operation(operation, status, took);
            self.index += 1;
            if is_barrier {
                self.mutated = true;
                *checkpoint = self.checkpoint();
                (first, first_change) = (None, None);
            }
        }
        if self.compound.is_atomic() && !self.reply.status().is_ok() {
            self.compound.roll_back();
            return Ok(());
        }
        match first {
            Some(first) => self.commit(first, first_change, checkpoint).await,
            None => Ok(()),
        }
    }

    /// Finds out what the operations behind one that has to wait would have to wait for, so that all of it is under way
    /// at the same time. The compound is taken back anyway; how the operations end does not matter. Those that move
    /// data or locks are left out, but reads that others wait with.
    async fn look_ahead(&mut self, mark: ReplyMark, awaited: &mut Awaited) {
        loop {
            self.index += 1;
            self.reply.truncate(mark);
            if self.index >= self.count {
                return;
            }
            let (operation, argument) = self.decode();
            let Ok(argument) = argument else { return };
            if is_barrier(operation, self.compound.minor_version) {
                return;
            }
            let reads = operation == OpCode::Read && self.compound.patience == Patience::None;
            if !may_wait(operation) && !reads {
                continue;
            }
            match self.step(operation, argument).await {
                Err(Failure::Conflict | Failure::OtherVolume) => return,
                // The reply has no room for more.
                Err(Failure::Far(_)) if awaited.bytes() >= self.limit.bytes => return,
                Err(failure) => self.note(failure, awaited),
                Ok(_) => {}
            }
        }
    }

    /// Notes what has to come first, if the failure is about that.
    fn note(&mut self, failure: Failure, awaited: &mut Awaited) {
        match failure {
            Failure::Recalled(file) => awaited.returns.push(file),
            Failure::Asked(question) => {
                awaited.answers.push(question);
                // Who asks the same again, later in the compound, means this answer.
                self.compound.asked.push(question);
            }
            Failure::Far(wanted) => awaited.reads.push(wanted),
            _ => {}
        }
    }

    fn decode(&mut self) -> (OpCode, Result<NfsArgOp, OpDecodeError>) {
        let result = NfsArgOp::decode_op(&mut self.input, self.compound.minor_version);
        match &result {
            Ok(argument) => (argument.op_code(), result),
            Err(error) => (error.op_code(), result),
        }
    }

    /// Runs one operation and writes its result.
    async fn step(&mut self, operation: OpCode, argument: NfsArgOp) -> Result<NfsStatus, Failure> {
        check_position(&argument, self.index, self.count, self.compound)?;
        self.compound.admit(&argument)?;
        let limit = self.reply_limit();
        self.compound.is_last = self.index + 1 == self.count;
        self.compound.too_big = limit.status;
        self.compound.room = limit.bytes.saturating_sub(self.reply.message_bytes());
        if self.compound.room() < room_needed(operation) {
            return Err(limit.status.into());
        }
        if let NfsArgOp::CompoundMode(args) = argument {
            let result = self.set_mode(args)?;
            self.reply.push(&NfsResOp::CompoundMode(Outcome::Ok(result)));
            return Ok(NfsStatus::Ok);
        }
        let status = match self.compound.minor_version {
            0 => minor0::execute(self.compound, argument, &mut self.reply.out).await?,
            _ => ops::execute(self.compound, argument, &mut self.reply.out).await?,
        };
        let limit = self.reply_limit();
        if self.reply.message_bytes() > limit.bytes {
            // An atomic compound has just begun to change something, perhaps.
            debug_assert!(
                room_needed(operation) == super::reply::ERROR_BYTES || self.compound.is_atomic(),
                "{operation} wrote more than it said"
            );
            return Err(limit.status.into());
        }
        self.reply.written(status);
        Ok(status)
    }

    /// Commits what was done behind the checkpoint. When that fails for good, the reply ends with that error on
    /// the first operation that changed something.
    async fn commit(&mut self, first: Blame, change: Option<Blame>, from: &Checkpoint) -> Result<(), Again> {
        let changes = self.compound.has_effects();
        match self.compound.commit().await {
            Ok(()) => {
                self.mutated |= changes;
                Ok(())
            }
            Err(Failure::Status(status)) => {
                self.compound.roll_back();
                if self.compound.is_atomic() {
                    // Nobody knows whether it was done.
                    self.reply.truncate(first.mark);
                    self.reply.push_failure(first.operation, NfsStatus::Io);
                    return Ok(());
                }
                let blame = change.unwrap_or(first);
                self.reply.truncate(if change.is_some() { blame.mark } else { from.mark });
                self.reply.push_failure(blame.operation, status);
                Ok(())
            }
            // A commit ends in nothing else.
            Err(_) => Err(Again { blame: first, reason: Reason::Conflict }),
        }
    }

    fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            input: self.input.clone(),
            index: self.index,
            mark: self.reply.mark(),
            current: self.compound.current,
            saved: self.compound.saved,
        }
    }

    fn go_back(&mut self, checkpoint: &Checkpoint) {
        self.compound.roll_back();
        self.input = checkpoint.input.clone();
        self.index = checkpoint.index;
        self.reply.truncate(checkpoint.mark);
        self.compound.current = checkpoint.current;
        self.compound.saved = checkpoint.saved;
    }
}

/// Operations that may have to wait for other clients, and those that say on what. See [`Runner::look_ahead`].
fn may_wait(operation: OpCode) -> bool {
    matches!(
        operation,
        OpCode::PutFh
            | OpCode::PutRootFh
            | OpCode::PutPubFh
            | OpCode::SaveFh
            | OpCode::RestoreFh
            | OpCode::Lookup
            | OpCode::LookupParent
            | OpCode::GetAttr
            | OpCode::Verify
            | OpCode::Nverify
            | OpCode::Open
            | OpCode::SetAttr
            | OpCode::Link
            | OpCode::Remove
            | OpCode::Rename
    )
}

/// Operations that change the state in ways that are not taken back: what was done before is committed first.
fn is_barrier(operation: OpCode, minor_version: u32) -> bool {
    if minor_version == 0 {
        return minor0::is_barrier(operation);
    }
    matches!(
        operation,
        OpCode::ExchangeId
            | OpCode::CreateSession
            | OpCode::DestroySession
            | OpCode::DestroyClientId
            | OpCode::BackchannelCtl
            | OpCode::DelegReturn
            | OpCode::OffloadCancel
            | OpCode::ReclaimComplete
    )
}

/// Whether an operation may stand where it does (RFC 8881 §2.10.2.1, §18.34.3, §18.37.3, §18.46.3).
fn check_position(argument: &NfsArgOp, index: u32, count: u32, compound: &Compound) -> Result<(), NfsStatus> {
    match argument {
        NfsArgOp::Sequence(_) if index > 0 => Err(NfsStatus::SequencePos),
        NfsArgOp::CompoundMode(_) if index != 1 => Err(NfsStatus::SequencePos),
        NfsArgOp::BindConnToSession(_) if count > 1 => Err(NfsStatus::NotOnlyOp),
        NfsArgOp::DestroySession(args)
            if index + 1 < count && compound.session.is_some_and(|own| own.session == args.session) =>
        {
            Err(NfsStatus::NotOnlyOp)
        }
        _ => Ok(()),
    }
}
