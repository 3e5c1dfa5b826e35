//! LOCK, LOCKT and LOCKU (RFC 8881 §18.10-§18.12).

use file_system::{FileId, FileKind};
use nfs4::{
    LockArgs, LockDenied as WireDenied, LockRes, LockTestArgs, LockTestRes, LockType, Locker as WireLocker,
    NfsStatus, StateId, UnlockArgs,
};

use crate::compound::Compound;
use crate::failure::Failure;
use crate::file_handle::Handle;
use crate::state::{ByteRange, LockDenied, LockRequest, Locker};

fn denied(held: &LockDenied) -> WireDenied {
    WireDenied {
        offset: held.range.offset(),
        length: held.range.length(),
        lock_type: if held.exclusive { LockType::Write } else { LockType::Read },
        owner: held.owner.to_wire(),
    }
}

/// LOCK. A client that would wait is told at once that the lock is taken, and asks again: when it is called, or when it
/// thinks fit (RFC 8881 §9.6).
pub(crate) async fn lock(cx: &mut Compound<'_>, args: &LockArgs) -> Result<LockRes, Failure> {
    let client = cx.client()?;
    let file = cx.current_file(NfsStatus::IsDir)?;
    // It has been open for longer than the export is what it is now.
    cx.export(file.volume)?;
    let range = ByteRange::new(args.offset, args.length)?;
    let locker = match &args.locker {
        WireLocker::New { open_state_id, owner, .. } => {
            Locker::New { open: cx.resolve_state_id(*open_state_id)?, owner: &owner.owner }
        }
        WireLocker::Existing { lock_state_id, .. } => Locker::Known(cx.resolve_state_id(*lock_state_id)?),
    };
    let exclusive = args.lock_type.is_write();
    let waits = matches!(args.lock_type, LockType::ReadWait | LockType::WriteWait);
    let request = LockRequest { client, file, locker, range, exclusive, reclaim: args.reclaim, waits };
    let server = cx.server;
    let undo = &mut cx.undo;
    match server.with_state(|state, now| state.lock(&request, now, undo))? {
        Ok(id) => {
            cx.set_state_id(id);
            Ok(LockRes::Ok(id))
        }
        Err(held) => Ok(LockRes::Denied(denied(&held))),
    }
}

/// LOCKT. Needs no open, so the kind of file is looked at here.
pub(super) async fn test(cx: &mut Compound<'_>, args: &LockTestArgs) -> Result<LockTestRes, Failure> {
    let client = cx.client()?;
    let file = regular_file(cx).await?;
    let range = ByteRange::new(args.offset, args.length)?;
    // Who has the file delegated for writing may keep its locks to itself (§10.4.2).
    cx.recall_writers(file)?;
    let (owner, exclusive) = (&args.owner.owner, args.lock_type.is_write());
    let conflict =
        cx.server.with_state(|state, now| state.test_lock(client, owner, file, range, exclusive, now))?;
    Ok(match conflict {
        None => LockTestRes::Ok,
        Some(held) => LockTestRes::Denied(denied(&held)),
    })
}

/// LOCKU.
pub(crate) fn unlock(cx: &mut Compound<'_>, args: &UnlockArgs) -> Result<StateId, NfsStatus> {
    let client = cx.client()?;
    let file = cx.current_file(NfsStatus::IsDir)?;
    let range = ByteRange::new(args.offset, args.length)?;
    let id = cx.resolve_state_id(args.lock_state_id)?;
    let id = cx.server.state.lock().unlock(client, &id, file, range, &mut cx.undo)?;
    cx.set_state_id(id);
    Ok(id)
}

/// The current filehandle, if it is a regular file: the only kind with bytes to lock, read or write.
pub(super) async fn regular_file(cx: &mut Compound<'_>) -> Result<FileId, Failure> {
    let Handle::File(file) = cx.current()? else { return Err(NfsStatus::IsDir.into()) };
    let attributes = cx.transaction(file.volume).await?.attributes(file).await?;
    match attributes.kind {
        FileKind::Regular => Ok(file),
        kind => Err(super::wrong_kind(kind).into()),
    }
}
