//! Operations with their arguments, for compounds.
//!
//! What 4.1 no longer uses (seqids, client ids in owners) is filled in.

use bytes::Bytes;
use nfs4::bits::compound_mode;
use nfs4::{
    AttributeValues, Bitmap, ClientId, CloseArgs, CommitArgs, Component, CompoundModeArgs, CreateArgs,
    CreateHow, CreateType, Fattr, FileHandle, GetAttrArgs, LockArgs, LockType, Locker, LookupArgs, NfsArgOp,
    OpenArgs, OpenClaim, OpenHow, OwnerName, PutFhArgs, ReadArgs, ReadDirArgs, RemoveArgs, RenameArgs,
    SetAttrArgs, StableHow, StateId, StateOwner, UnlockArgs, Verifier, WriteArgs,
};

/// PUTFH.
pub fn put_handle(handle: &FileHandle) -> NfsArgOp {
    NfsArgOp::PutFh(PutFhArgs { file_handle: handle.clone() })
}

/// LOOKUP of one name.
pub fn lookup(name: impl Into<Component>) -> NfsArgOp {
    NfsArgOp::Lookup(LookupArgs { name: name.into() })
}

/// GETATTR.
pub fn get_attributes(request: Bitmap) -> NfsArgOp {
    NfsArgOp::GetAttr(GetAttrArgs { request })
}

/// SETATTR.
pub fn set_attributes(state_id: StateId, attributes: &AttributeValues) -> NfsArgOp {
    NfsArgOp::SetAttr(SetAttrArgs { state_id, attributes: attributes.to_fattr() })
}

/// A state-owner; names above 1024 bytes are cut off there.
pub fn owner(name: impl Into<Bytes>) -> StateOwner {
    let mut name = name.into();
    name.truncate(nfs4::OPAQUE_LIMIT);
    StateOwner { client: ClientId(0), owner: OwnerName::new(name).unwrap_or_default() }
}

/// OPEN by name. `share_access` as in [`nfs4::bits::share_access`]; nothing is denied to others.
pub fn open(name: impl Into<Component>, share_access: u32, how: OpenHow, owner: StateOwner) -> NfsArgOp {
    NfsArgOp::Open(OpenArgs {
        seqid: 0,
        share_access,
        share_deny: nfs4::bits::share_deny::NONE,
        owner,
        how,
        claim: OpenClaim::Null(name.into()),
    })
}

/// Create with this mode; an existing file is opened as it is.
pub fn unchecked(mode: u32) -> OpenHow {
    OpenHow::Create(CreateHow::Unchecked(with_mode(mode)))
}

/// Create with this mode; an existing file is an error.
pub fn guarded(mode: u32) -> OpenHow {
    OpenHow::Create(CreateHow::Guarded(with_mode(mode)))
}

/// CLOSE.
pub fn close(state_id: StateId) -> NfsArgOp {
    NfsArgOp::Close(CloseArgs { seqid: 0, state_id })
}

/// READ.
pub fn read(state_id: StateId, offset: u64, count: u32) -> NfsArgOp {
    NfsArgOp::Read(ReadArgs { state_id, offset, count })
}

/// WRITE.
pub fn write(state_id: StateId, offset: u64, stable: StableHow, data: Bytes) -> NfsArgOp {
    NfsArgOp::Write(WriteArgs { state_id, offset, stable, data })
}

/// COMMIT; `count` 0 means up to the end.
pub fn commit(offset: u64, count: u32) -> NfsArgOp {
    NfsArgOp::Commit(CommitArgs { offset, count })
}

/// CREATE of anything but a regular file.
pub fn create(object_type: CreateType, name: impl Into<Component>, mode: u32) -> NfsArgOp {
    NfsArgOp::Create(CreateArgs { object_type, name: name.into(), attributes: with_mode(mode) })
}

/// READDIR from `cookie` on (0 and a zero verifier: from the start), with a reply of at most `max_count` bytes.
pub fn read_directory(cookie: u64, cookie_verifier: Verifier, max_count: u32, request: Bitmap) -> NfsArgOp {
    NfsArgOp::ReadDir(ReadDirArgs { cookie, cookie_verifier, dir_count: max_count, max_count, request })
}

/// REMOVE.
pub fn remove(name: impl Into<Component>) -> NfsArgOp {
    NfsArgOp::Remove(RemoveArgs { target: name.into() })
}

/// RENAME from the saved to the current filehandle.
pub fn rename(old_name: impl Into<Component>, new_name: impl Into<Component>) -> NfsArgOp {
    NfsArgOp::Rename(RenameArgs { old_name: old_name.into(), new_name: new_name.into() })
}

/// The first LOCK of a lock-owner on a file opened as `open`.
pub fn first_lock(
    open: StateId,
    owner: StateOwner,
    lock_type: LockType,
    offset: u64,
    length: u64,
) -> NfsArgOp {
    let locker = Locker::New { open_seqid: 0, open_state_id: open, lock_seqid: 0, owner };
    NfsArgOp::Lock(LockArgs { lock_type, reclaim: false, offset, length, locker })
}

/// A further LOCK of the same lock-owner on the same file.
pub fn further_lock(lock: StateId, lock_type: LockType, offset: u64, length: u64) -> NfsArgOp {
    let locker = Locker::Existing { lock_state_id: lock, lock_seqid: 0 };
    NfsArgOp::Lock(LockArgs { lock_type, reclaim: false, offset, length, locker })
}

/// LOCKU.
pub fn unlock(lock: StateId, offset: u64, length: u64) -> NfsArgOp {
    NfsArgOp::Unlock(UnlockArgs { lock_type: LockType::Write, seqid: 0, lock_state_id: lock, offset, length })
}

/// Whether the operation may be executed twice with no other effect than once, so that its reply need not be kept.
pub(crate) fn is_repeatable(operation: &NfsArgOp) -> bool {
    matches!(
        operation,
        NfsArgOp::Access(_)
            | NfsArgOp::Commit(_)
            | NfsArgOp::CompoundMode(_)
            | NfsArgOp::GetAttr(_)
            | NfsArgOp::GetFh
            | NfsArgOp::GetXattr(_)
            | NfsArgOp::IoAdvise(_)
            | NfsArgOp::ListXattrs(_)
            | NfsArgOp::LockTest(_)
            | NfsArgOp::Lookup(_)
            | NfsArgOp::LookupParent
            | NfsArgOp::Nverify(_)
            | NfsArgOp::PutFh(_)
            | NfsArgOp::PutPubFh
            | NfsArgOp::PutRootFh
            | NfsArgOp::Read(_)
            | NfsArgOp::ReadDir(_)
            | NfsArgOp::ReadLink
            | NfsArgOp::ReadPlus(_)
            | NfsArgOp::RestoreFh
            | NfsArgOp::SaveFh
            | NfsArgOp::SecInfo(_)
            | NfsArgOp::SecInfoNoName(_)
            | NfsArgOp::Seek(_)
            | NfsArgOp::TestStateId(_)
            | NfsArgOp::Verify(_)
            | NfsArgOp::Write(_)
    )
}

/// Whether the operation changes nothing that anybody could see, so that a compound of such operations may be repeated
/// even when nobody knows whether it was executed: it reads, moves about, or opens and closes what no other compound
/// knows of.
pub fn only_reads(operation: &NfsArgOp) -> bool {
    match operation {
        NfsArgOp::Write(_) => false,
        // An open that nobody learnt of does no harm: the repetition opens it once more, or closes it.
        NfsArgOp::Open(open) => {
            open.how == OpenHow::NoCreate && matches!(open.claim, OpenClaim::Null(_) | OpenClaim::FileHandle)
        }
        NfsArgOp::Close(close) => close.state_id == StateId::CURRENT,
        operation => is_repeatable(operation),
    }
}

/// Whether the operation only says what the next ones are about.
pub(crate) fn only_moves(operation: &NfsArgOp) -> bool {
    matches!(
        operation,
        NfsArgOp::CompoundMode(_)
            | NfsArgOp::Lookup(_)
            | NfsArgOp::LookupParent
            | NfsArgOp::PutFh(_)
            | NfsArgOp::PutPubFh
            | NfsArgOp::PutRootFh
            | NfsArgOp::RestoreFh
            | NfsArgOp::SaveFh
    )
}

/// Whether the compound is done whole or not at all (`docs/protocol.md`).
pub(crate) fn is_atomic(operations: &[NfsArgOp]) -> bool {
    let Some(NfsArgOp::CompoundMode(CompoundModeArgs { flags })) = operations.first() else { return false };
    flags & compound_mode::ATOMIC != 0
}

/// The open, lock or delegation that the operation is done under.
pub(crate) fn state_id_of(operation: &NfsArgOp) -> Option<StateId> {
    match operation {
        NfsArgOp::Allocate(arguments) => Some(arguments.state_id),
        NfsArgOp::Deallocate(arguments) => Some(arguments.state_id),
        NfsArgOp::Lock(LockArgs { locker: Locker::New { open_state_id, .. }, .. }) => Some(*open_state_id),
        NfsArgOp::Lock(LockArgs { locker: Locker::Existing { lock_state_id, .. }, .. }) => {
            Some(*lock_state_id)
        }
        NfsArgOp::OpenDowngrade(arguments) => Some(arguments.state_id),
        NfsArgOp::Read(arguments) => Some(arguments.state_id),
        NfsArgOp::ReadPlus(arguments) => Some(arguments.state_id),
        NfsArgOp::Seek(arguments) => Some(arguments.state_id),
        NfsArgOp::SetAttr(arguments) => Some(arguments.state_id),
        NfsArgOp::Unlock(arguments) => Some(arguments.lock_state_id),
        NfsArgOp::Write(arguments) => Some(arguments.state_id),
        _ => None,
    }
}

fn with_mode(mode: u32) -> Fattr {
    AttributeValues { mode: Some(mode), ..AttributeValues::default() }.to_fattr()
}
