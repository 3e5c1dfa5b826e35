//! What clients do.

use std::time::Duration;

use bytes::Bytes;
use nfs4::{
    AttributeValues, ClientId, CloseArgs, DelegReturnArgs, DelegationType, FileHandle, FreeStateIdArgs,
    LockArgs, LockTestArgs, LockType, Locker, NfsArgOp, OpenArgs, OpenClaim, OpenDowngradeArgs, OpenHow,
    ReadArgs, ReclaimCompleteArgs, SessionId, SetAttrArgs, StableHow, StateId, TestStateIdArgs, UnlockArgs,
    WriteArgs,
};
use nfs4_client::operations::{owner, put_handle};

/// By what a file is opened.
#[derive(Clone, Copy, Debug)]
pub enum Claim {
    Name,
    Handle,
    /// After a restart; with the kind of delegation that goes with it, if any.
    Previous(DelegationType),
    Delegation(StateId),
}

/// On what a lock stands.
#[derive(Clone, Copy, Debug)]
pub enum By {
    Open(StateId, u8),
    Lock(StateId),
}

/// One operation on the file that a compound is about.
#[derive(Clone, Debug)]
pub enum Op {
    /// `access` with the wishes for a delegation.
    Open {
        owner: u8,
        access: u32,
        deny: u32,
        claim: Claim,
    },
    Downgrade {
        id: StateId,
        access: u32,
        deny: u32,
    },
    Close(StateId),
    Lock {
        by: By,
        exclusive: bool,
        waits: bool,
        reclaim: bool,
        offset: u64,
        length: u64,
    },
    TestLock {
        owner: u8,
        exclusive: bool,
        offset: u64,
        length: u64,
    },
    Unlock {
        id: StateId,
        offset: u64,
        length: u64,
    },
    Free(StateId),
    Test(Vec<StateId>),
    Read(StateId),
    Write(StateId),
    /// Changes the mode, which needs no state id.
    SetMode,
    Return(StateId),
    ReclaimComplete,
}

/// How a compound goes through the door of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Next,
    /// Not the next number, and not the last one.
    Misordered(u32),
    /// Beyond the last slot.
    BadSlot,
}

#[derive(Clone, Debug)]
pub enum Step {
    ExchangeId {
        machine: usize,
        /// The client starts anew.
        reboot: bool,
        update: bool,
        stranger: bool,
    },
    CreateSession {
        machine: usize,
        client: ClientId,
        sequence: u32,
        stranger: bool,
    },
    DestroySession {
        machine: usize,
        session: SessionId,
        stranger: bool,
    },
    DestroyClient {
        machine: usize,
        client: ClientId,
        stranger: bool,
    },
    Bind {
        machine: usize,
        session: SessionId,
    },
    Compound {
        machine: usize,
        session: SessionId,
        slot: u32,
        entry: Entry,
        file: usize,
        ops: Vec<Op>,
    },
    /// The last request of the slot once more; `altered`: something else under its number.
    Repeat {
        machine: usize,
        session: SessionId,
        slot: u32,
        altered: bool,
    },
    Reconnect {
        machine: usize,
    },
    /// So many commits fail, and are tried again.
    Conflicts(u32),
    Pass(Duration),
    Restart,
}

impl Op {
    pub fn name(&self) -> &'static str {
        match self {
            Op::Open { .. } => "OPEN",
            Op::Downgrade { .. } => "OPEN_DOWNGRADE",
            Op::Close(_) => "CLOSE",
            Op::Lock { .. } => "LOCK",
            Op::TestLock { .. } => "LOCKT",
            Op::Unlock { .. } => "LOCKU",
            Op::Free(_) => "FREE_STATEID",
            Op::Test(_) => "TEST_STATEID",
            Op::Read(_) => "READ",
            Op::Write(_) => "WRITE",
            Op::SetMode => "SETATTR",
            Op::Return(_) => "DELEGRETURN",
            Op::ReclaimComplete => "RECLAIM_COMPLETE",
        }
    }

    /// The same with `current` in place of what stands for the current state id; without one, that names nothing
    /// (§16.2.3.1.2).
    pub fn resolve(mut self, current: Option<StateId>) -> Op {
        let id = match &mut self {
            Op::Open { claim: Claim::Delegation(id), .. }
            | Op::Downgrade { id, .. }
            | Op::Close(id)
            | Op::Lock { by: By::Open(id, _) | By::Lock(id), .. }
            | Op::Unlock { id, .. }
            | Op::Free(id)
            | Op::Read(id)
            | Op::Write(id)
            | Op::Return(id) => id,
            Op::Open { .. } | Op::TestLock { .. } | Op::Test(_) | Op::SetMode | Op::ReclaimComplete => {
                return self;
            }
        };
        if let (StateId::CURRENT, Some(current)) = (*id, current) {
            *id = current;
        }
        self
    }

    /// On the wire: one operation, behind a PUTFH if it needs the directory.
    pub fn encode(&self, root: &FileHandle, file_name: &'static str) -> Vec<NfsArgOp> {
        let only = match self.clone() {
            Op::Open { owner: name, access, deny, claim } => {
                let by_name = matches!(claim, Claim::Name);
                let claim = match claim {
                    Claim::Name => OpenClaim::Null(file_name.into()),
                    Claim::Handle => OpenClaim::FileHandle,
                    Claim::Previous(kind) => OpenClaim::Previous(kind),
                    Claim::Delegation(id) => OpenClaim::DelegateCurrentFileHandle(id),
                };
                let open = NfsArgOp::Open(OpenArgs {
                    seqid: 0,
                    share_access: access,
                    share_deny: deny,
                    owner: owner(vec![name]),
                    how: OpenHow::NoCreate,
                    claim,
                });
                return if by_name { vec![put_handle(root), open] } else { vec![open] };
            }
            Op::Downgrade { id, access, deny } => NfsArgOp::OpenDowngrade(OpenDowngradeArgs {
                state_id: id,
                seqid: 0,
                share_access: access,
                share_deny: deny,
            }),
            Op::Close(id) => NfsArgOp::Close(CloseArgs { seqid: 0, state_id: id }),
            Op::Lock { by, exclusive, waits, reclaim, offset, length } => {
                let locker = match by {
                    By::Open(id, name) => Locker::New {
                        open_seqid: 0,
                        open_state_id: id,
                        lock_seqid: 0,
                        owner: owner(vec![name]),
                    },
                    By::Lock(id) => Locker::Existing { lock_state_id: id, lock_seqid: 0 },
                };
                let lock_type = match (exclusive, waits) {
                    (false, false) => LockType::Read,
                    (false, true) => LockType::ReadWait,
                    (true, false) => LockType::Write,
                    (true, true) => LockType::WriteWait,
                };
                NfsArgOp::Lock(LockArgs { lock_type, reclaim, offset, length, locker })
            }
            Op::TestLock { owner: name, exclusive, offset, length } => NfsArgOp::LockTest(LockTestArgs {
                lock_type: if exclusive { LockType::Write } else { LockType::Read },
                offset,
                length,
                owner: owner(vec![name]),
            }),
            Op::Unlock { id, offset, length } => NfsArgOp::Unlock(UnlockArgs {
                lock_type: LockType::Write,
                seqid: 0,
                lock_state_id: id,
                offset,
                length,
            }),
            Op::Free(id) => NfsArgOp::FreeStateId(FreeStateIdArgs { state_id: id }),
            Op::Test(ids) => NfsArgOp::TestStateId(TestStateIdArgs { state_ids: ids }),
            Op::Read(id) => NfsArgOp::Read(ReadArgs { state_id: id, offset: 0, count: 1 }),
            Op::Write(id) => NfsArgOp::Write(WriteArgs {
                state_id: id,
                offset: 0,
                stable: StableHow::FileSync,
                data: Bytes::from_static(b"x"),
            }),
            Op::SetMode => {
                let mode = AttributeValues { mode: Some(0o666), ..AttributeValues::default() };
                NfsArgOp::SetAttr(SetAttrArgs { state_id: StateId::ANONYMOUS, attributes: mode.to_fattr() })
            }
            Op::Return(id) => NfsArgOp::DelegReturn(DelegReturnArgs { state_id: id }),
            Op::ReclaimComplete => NfsArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false }),
        };
        vec![only]
    }
}
