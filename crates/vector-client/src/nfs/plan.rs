//! Steps as operations of one compound.

mod emit;
mod unfinished;

use std::ops::Range;
use std::sync::Arc;

use nfs4::bits::compound_mode;
use nfs4::{CompoundModeArgs, NfsArgOp, StableHow, StateId, StateOwner, WriteArgs};
use nfs4_client::operations::close;
use nfs4_client::{ClientError, OpenState};

use super::cache::Kept;
use super::open_files::OpenFiles;
use super::position::{Place, Position, Start};
use super::promise::{Promises, Stamp, Touched, touched};
use super::size;
use crate::step::{APPEND, Step};
use crate::target::Target;
use crate::{Descriptor, Error};

use emit::Emit;
pub(super) use emit::{access_bits, asks_for_more, open_owner, place};
use unfinished::Unfinished;

/// Steps of one compound at most (kurma.md §3.6).
const STEPS: usize = 256;

/// Removals of one compound at most: they carry nothing but a name, and are all that takes a tree away (V37).
pub(crate) const REMOVALS: usize = 1024;

/// How much a compound may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Operations, SEQUENCE not counted.
    pub operations: usize,
    /// Bytes of operations.
    pub request: usize,
    /// Bytes of results.
    pub reply: usize,
    /// Bytes of results, if the server has to keep them.
    pub kept_reply: usize,
}

/// A step that is waiting to be done.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub step: Step,
    /// Symbolic links that were followed for it.
    pub links: u32,
    /// Of a file to append to, the size at which the data goes if it is still that.
    pub size: Option<u64>,
    /// Whether it has an open of its own: there is no right to what those after it want.
    pub alone: bool,
    /// Whether it may be seen half done, as it cannot be done in a transaction.
    pub growing: bool,
    /// What it reads, if that is still so.
    pub kept: Option<Arc<Kept>>,
}

impl Work {
    pub fn new(step: Step) -> Work {
        Work { step, links: 0, size: None, alone: false, growing: false, kept: None }
    }
}

/// What became of a step in a compound.
pub(super) struct Piece {
    /// Its operations.
    pub operations: Range<usize>,
    /// The one with the result.
    pub key: usize,
    /// The descriptor that an [`Step::Open`] will be.
    pub descriptor: Option<Descriptor>,
    /// An operation that may be left out: the step is done also if it fails in a way that says so.
    pub unless: Option<usize>,
    /// Of a file that may be delegated.
    pub stamp: Option<Stamp>,
    /// Of a COMMIT: how many operations have written to the file before it.
    pub writes: u64,
}

/// An OPEN in the compound.
#[derive(Debug)]
pub(super) struct Opening {
    pub open: usize,
    pub close: Option<usize>,
    pub file: Place,
}

/// A compound.
#[derive(Default)]
pub(super) struct Plan {
    pub operations: Vec<NfsArgOp>,
    pub pieces: Vec<Piece>,
    pub openings: Vec<Opening>,
    /// The OPEN that asks for a delegation of the file at this path, which is [kept](crate::nfs::held).
    pub wanted: Option<(usize, Target)>,
    /// Operations under the state id of a file that stays open: the current filehandle's.
    pub states: Vec<(usize, Arc<OpenState>)>,
    /// Those that read the saved filehandle under one.
    pub sources: Vec<(usize, Arc<OpenState>)>,
    pub only_reads: bool,
    /// Whether its reply says of what was written before if that is safe.
    commits: bool,
    /// Whether all of it is done or nothing.
    pub atomic: bool,
    /// What it may change.
    pub touched: Vec<Touched>,
    request: usize,
    reply: usize,
    position: Position,
    /// The file that is open for the next steps too.
    open: Option<Target>,
    /// Files that are closed at this point.
    closed: Vec<Descriptor>,
}

/// What a compound is to promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// What comes before a failure is done.
    Plain,
    /// As many steps as fit are done, or none of them.
    Atomic,
    /// All steps, fit or not.
    Whole,
}

/// What plans need to know of the client.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub root: &'a Start,
    pub files: &'a OpenFiles,
    /// Nobody else's while the compound is under way: opens of one owner are one (RFC 8881 §9.1.2).
    pub owner: &'a StateOwner,
    pub bounds: Bounds,
    /// Most bytes of one WRITE.
    pub transfer: usize,
    pub promise: Promise,
    /// Whether what is read is to be kept.
    pub keeps: bool,
    /// Whether a file that is read by its path is to be delegated.
    pub holds: bool,
    pub promises: &'a Promises,
}

/// What a compound looked like before a step was put into it.
struct Mark {
    operations: usize,
    openings: usize,
    states: usize,
    sources: usize,
    request: usize,
    reply: usize,
    position: Position,
    open: Option<Target>,
    /// The CLOSE of the last OPEN.
    close: Option<usize>,
    closed: usize,
}

impl Plan {
    /// As many of these steps as fit, in order; fewer also if one cannot be done at all, for the reason returned, or when
    /// one that changes something follows others that only read (so that those may be repeated).
    pub fn of(work: &[Work], context: &Context) -> (Plan, Option<Error>) {
        let atomic = context.promise != Promise::Plain;
        let mut plan = Plan { only_reads: true, atomic, ..Plan::default() };
        let appends =
            |work: &Work| matches!(&work.step, Step::Write(it) if it.offset == APPEND && work.size.is_none());
        let appends = work.iter().take(STEPS).any(appends);
        if atomic || appends {
            let atomic = if atomic { compound_mode::ATOMIC } else { 0 };
            let append = if appends { compound_mode::APPEND } else { 0 };
            plan.push(NfsArgOp::CompoundMode(CompoundModeArgs { flags: atomic | append }));
        }
        let whole = context.promise == Promise::Whole;
        let removals = work.iter().take(REMOVALS).take_while(|it| matches!(it.step, Step::Remove(_))).count();
        let most = if whole { work.len() } else { STEPS.max(removals) };
        let mut unfinished = Unfinished::default();
        for (index, item) in work.iter().enumerate().take(most) {
            if !whole && !unfinished.may_be_followed_by(&item.step, plan.commits) {
                break;
            }
            let mark = plan.mark();
            let emitted = Emit { plan: &mut plan, context }.step(item, &work[index + 1..]);
            match emitted {
                Ok(piece) => plan.pieces.push(piece),
                Err(error) => {
                    plan.reset(mark);
                    plan.end();
                    return (plan, Some(error));
                }
            }
            let only_reads = plan.only_reads && item.step.only_reads();
            let fits = plan.fits(&context.bounds, only_reads);
            if !fits && index > 0 {
                plan.pieces.pop();
                plan.reset(mark);
                break;
            }
            unfinished.add(&item.step);
            plan.only_reads = only_reads;
            plan.touched.extend(touched(&item.step, context.files));
            plan.touched.dedup();
        }
        plan.end();
        (plan, None)
    }

    fn fits(&self, bounds: &Bounds, only_reads: bool) -> bool {
        // The CLOSE that may have to follow.
        let operations = self.operations.len() + usize::from(self.open.is_some());
        let reply = if only_reads { bounds.reply } else { bounds.reply.min(bounds.kept_reply) };
        operations <= bounds.operations && self.request <= bounds.request && self.reply <= reply
    }

    fn mark(&self) -> Mark {
        Mark {
            operations: self.operations.len(),
            openings: self.openings.len(),
            states: self.states.len(),
            sources: self.sources.len(),
            request: self.request,
            reply: self.reply,
            position: self.position.clone(),
            open: self.open.clone(),
            close: self.openings.last().and_then(|opening| opening.close),
            closed: self.closed.len(),
        }
    }

    fn reset(&mut self, mark: Mark) {
        self.operations.truncate(mark.operations);
        self.openings.truncate(mark.openings);
        self.states.truncate(mark.states);
        self.sources.truncate(mark.sources);
        if let Some(opening) = self.openings.last_mut() {
            opening.close = mark.close;
        }
        self.request = mark.request;
        self.reply = mark.reply;
        self.position = mark.position;
        self.open = mark.open;
        self.closed.truncate(mark.closed);
    }

    /// Bytes of the operations.
    pub fn request_bytes(&self) -> usize {
        self.request
    }

    /// Bytes of the results.
    pub fn reply_bytes(&self) -> usize {
        self.reply
    }

    /// Whether it leaves data in this file that is not safe.
    fn writes_unsafely(&self, open: &Arc<OpenState>) -> bool {
        self.states.iter().any(|(index, written)| {
            let unsafely = |write: &WriteArgs| write.stable == StableHow::Unstable;
            Arc::ptr_eq(written, open)
                && matches!(&self.operations[*index], NfsArgOp::Write(write) if unsafely(write))
        })
    }

    /// Operations in it that write to this file.
    fn writes_to(&self, open: &Arc<OpenState>) -> u64 {
        let writes = |index: usize| matches!(self.operations[index], NfsArgOp::Write(_) | NfsArgOp::Copy(_));
        self.states.iter().filter(|(index, written)| Arc::ptr_eq(written, open) && writes(*index)).count()
            as u64
    }

    /// Whether there are state ids in it that change with a restart of the server.
    pub fn names_states(&self) -> bool {
        !self.states.is_empty() || !self.sources.is_empty()
    }

    /// The operations with the state ids that open files have now.
    pub fn renewed(&self) -> Result<Vec<NfsArgOp>, ClientError> {
        let mut operations = self.operations.clone();
        for (index, open) in &self.states {
            let state_id = open.state_id()?;
            match &mut operations[*index] {
                NfsArgOp::Read(it) => it.state_id = state_id,
                NfsArgOp::Write(it) => it.state_id = state_id,
                NfsArgOp::SetAttr(it) => it.state_id = state_id,
                NfsArgOp::Close(it) => it.state_id = state_id,
                NfsArgOp::DelegReturn(it) => {
                    it.state_id = open.read_delegation().map_or(it.state_id, |id| id.newest());
                }
                NfsArgOp::Copy(it) => it.destination_state_id = state_id,
                _ => {}
            }
        }
        for (index, open) in &self.sources {
            if let NfsArgOp::Copy(it) = &mut operations[*index] {
                it.source_state_id = open.state_id()?;
            }
        }
        Ok(operations)
    }

    /// Closes what is still open.
    fn end(&mut self) {
        if self.open.take().is_some() {
            self.close_current();
            if let Some(piece) = self.pieces.last_mut() {
                piece.operations.end = self.operations.len();
            }
        }
    }

    fn close_current(&mut self) {
        if let Some(opening) = self.openings.last_mut() {
            opening.close = Some(self.operations.len());
        }
        self.push(close(StateId::CURRENT));
    }

    fn push(&mut self, operation: NfsArgOp) -> usize {
        self.request += size::of_request(&operation);
        self.reply += size::of_reply(&operation);
        self.commits |= matches!(operation, NfsArgOp::Commit(_));
        self.operations.push(operation);
        self.operations.len() - 1
    }
}
