//! What COMPOUND_MODE makes of the compound that it stands in: an atomic one, or one that may append (decision 15).

use file_system::FileId;
use nfs4::bits::compound_mode;
use nfs4::{
    Attribute, CompoundModeArgs, CompoundModeOk, LockType, NfsArgOp, NfsStatus, OpCode, OpenClaim, StateId,
};

use super::Compound;
use super::run::{ReplyLimit, Runner};
use crate::failure::Failure;
use crate::file_handle::Handle;

/// What was asked for; nothing unless there is a COMPOUND_MODE.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Promise {
    /// All operations are done, or none of them.
    atomic: bool,
    /// WRITE at the offset 2^64-1 appends.
    append: bool,
}

impl Compound<'_> {
    /// Whether all operations are done or none of them.
    pub fn is_atomic(&self) -> bool {
        self.promise.atomic
    }

    /// Whether a WRITE at this offset appends.
    pub fn appends(&self, offset: u64) -> bool {
        self.promise.append && offset == u64::MAX
    }

    /// What came before has to be committed before the operation can be run. In an atomic compound it cannot be:
    /// that ends with `otherwise`.
    pub fn needs_commit(&self, otherwise: NfsStatus) -> Failure {
        if self.is_atomic() { Failure::Status(otherwise) } else { Failure::OtherVolume }
    }

    /// CLOSE: the open stays as it is until the commit, so that nobody gets in between who would not yet see what was written,
    /// or be in the way if it had to be given back.
    pub fn close_at_commit(&mut self, id: &StateId, file: FileId) -> Result<(), NfsStatus> {
        let client = self.client()?;
        let id = self.server.state.lock().check_close(client, id, file)?;
        if !self.closing.contains(&(client, id, file)) {
            self.closing.push((client, id, file));
        }
        Ok(())
    }

    /// Everything else is committed.
    pub(super) fn close_all(&mut self) {
        if !self.closing.is_empty() {
            let mut state = self.server.state.lock();
            for (client, id, file) in self.closing.drain(..) {
                let _ = state.close(client, &id, file, &mut self.undo);
            }
        }
    }

    /// Closes now what of this file is to be closed at the commit: it is opened again. Not so in an atomic compound.
    pub fn close_before_open(&mut self, file: FileId) {
        if !self.is_atomic() && self.closing.iter().any(|(.., closed)| *closed == file) {
            let mut state = self.server.state.lock();
            for (client, id, file) in self.closing.extract_if(.., |(.., closed)| *closed == file) {
                let _ = state.close(client, &id, file, &mut self.undo);
            }
        }
    }

    /// An open that is opened again before the commit of an atomic compound stays.
    pub fn keep_open(&mut self, id: &StateId) {
        self.closing.retain(|(_, closed, _)| closed.other != id.other);
    }

    /// Whether others get at what was done under a lock or a reservation when the operation begins, so that it has to be committed
    /// before: it gives that up, or depends on what was closed.
    pub(super) fn gives_up_before(&self, operation: OpCode, argument: Option<&NfsArgOp>) -> bool {
        match operation {
            // Opens do not matter to it (RFC 8881 §18.30.3).
            OpCode::SetAttr if argument.is_some_and(keeps_size) => false,
            OpCode::OpenDowngrade | OpCode::Unlock => true,
            OpCode::FreeStateId | OpCode::TestStateId => !self.closing.is_empty(),
            OpCode::Access | OpCode::GetAttr | OpCode::GetFh | OpCode::SaveFh | OpCode::RestoreFh => false,
            OpCode::PutFh | OpCode::PutPubFh | OpCode::PutRootFh => false,
            _ => self.closing.iter().any(|(.., closed)| {
                [self.current.handle, self.saved.handle].contains(&Some(Handle::File(*closed)))
            }),
        }
    }

    /// Whether there is anything to commit that a retry of the request must not do again.
    pub(super) fn has_effects(&self) -> bool {
        self.has_changed() || !self.undo.is_empty() || !self.closing.is_empty()
    }

    /// `NFS4ERR_NOTSUPP` for what could not be taken back, in an atomic compound.
    pub(super) fn admit(&self, argument: &NfsArgOp) -> Result<(), NfsStatus> {
        if !self.is_atomic() || can_be_taken_back(argument) { Ok(()) } else { Err(NfsStatus::NotSupp) }
    }
}

fn keeps_size(argument: &NfsArgOp) -> bool {
    matches!(argument, NfsArgOp::SetAttr(args) if !args.attributes.bitmap.contains(Attribute::Size))
}

impl Runner<'_, '_> {
    /// COMPOUND_MODE, before anything is done.
    pub(super) fn set_mode(&mut self, args: CompoundModeArgs) -> Result<CompoundModeOk, NfsStatus> {
        if args.flags & !compound_mode::ALL != 0 {
            return Err(NfsStatus::Inval);
        }
        let limits = &self.compound.server.limits;
        let atomic = args.flags & compound_mode::ATOMIC != 0;
        if atomic && self.count > limits.atomic_operations {
            return Err(NfsStatus::TooManyOps);
        }
        if atomic && self.input.remaining() as u64 > limits.atomic_bytes {
            return Err(NfsStatus::ReqTooBig);
        }
        self.compound.promise = Promise { atomic, append: args.flags & compound_mode::APPEND != 0 };
        Ok(CompoundModeOk {
            flags: compound_mode::ALL,
            max_operations: limits.atomic_operations,
            max_bytes: limits.atomic_bytes,
        })
    }

    /// How large the reply may become. One that tells how an atomic compound ended which changed something is kept for
    /// retries, so that a client whose connection breaks can find out.
    pub(super) fn reply_limit(&self) -> ReplyLimit {
        let is_kept = self.compound.is_atomic() && self.compound.has_effects();
        if is_kept && self.limit.kept < self.limit.bytes {
            ReplyLimit { bytes: self.limit.kept, status: NfsStatus::RepTooBigToCache, ..self.limit }
        } else {
            self.limit
        }
    }
}

/// Whether nothing is left of the operation once transaction and state are rolled back, whatever others do meanwhile.
fn can_be_taken_back(argument: &NfsArgOp) -> bool {
    match argument {
        // Locks that are given up may be somebody else's when they are wanted back; so may a place in a queue.
        NfsArgOp::Lock(args) => {
            !args.reclaim && !matches!(args.lock_type, LockType::ReadWait | LockType::WriteWait)
        }
        NfsArgOp::Open(args) => {
            !matches!(args.claim, OpenClaim::Previous(_) | OpenClaim::DelegatePrevious(_))
        }
        argument => matches!(
            argument.op_code(),
            OpCode::Access
                | OpCode::Allocate
                | OpCode::Clone
                | OpCode::Close
                | OpCode::Commit
                | OpCode::CompoundMode
                | OpCode::Copy
                | OpCode::Create
                | OpCode::Deallocate
                | OpCode::GetAttr
                | OpCode::GetFh
                | OpCode::GetXattr
                | OpCode::IoAdvise
                | OpCode::Link
                | OpCode::ListXattrs
                | OpCode::LockTest
                | OpCode::Lookup
                | OpCode::LookupParent
                | OpCode::Nverify
                | OpCode::PutFh
                | OpCode::PutPubFh
                | OpCode::PutRootFh
                | OpCode::Read
                | OpCode::ReadDir
                | OpCode::ReadLink
                | OpCode::ReadPlus
                | OpCode::Remove
                | OpCode::RemoveXattr
                | OpCode::Rename
                | OpCode::RestoreFh
                | OpCode::SaveFh
                | OpCode::SecInfo
                | OpCode::SecInfoNoName
                | OpCode::Seek
                | OpCode::Sequence
                | OpCode::SetAttr
                | OpCode::SetXattr
                | OpCode::TestStateId
                | OpCode::Verify
                | OpCode::Write
        ),
    }
}
