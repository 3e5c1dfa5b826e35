//! Delegations: with OPEN, and DELEGRETURN (RFC 8881 §10.4, §18.16, §18.6).

use file_system::{FileId, FileKind, FsError, Name};
use nfs4::bits::share_access;
use nfs4::{
    Ace, DelegReturnArgs, DelegationType, NfsStatus, NoDelegation, OpenArgs, OpenClaim, OpenDelegation,
    ReadDelegation, StateId, Utf8String,
};

use crate::compound::Compound;
use crate::failure::Failure;
use crate::state::Undelegated;

/// What comes with an OPEN that succeeded.
pub(super) fn with_open(
    cx: &mut Compound<'_>,
    args: &OpenArgs,
    file: FileId,
) -> Result<OpenDelegation, NfsStatus> {
    if cx.minor_version == 0 {
        return Ok(OpenDelegation::None);
    }
    match args.claim {
        OpenClaim::Null(_) | OpenClaim::FileHandle => delegate(cx, args.share_access, file),
        OpenClaim::Previous(DelegationType::Read) => {
            let client = cx.client()?;
            let now = cx.server.now();
            let undo = &mut cx.undo;
            let reclaimed = cx.server.state.lock().reclaim_delegation(client, file, now, undo);
            Ok(reclaimed.map_or(OpenDelegation::None, |id| read(id, true)))
        }
        // Files are not delegated for writing.
        _ => Ok(OpenDelegation::None),
    }
}

/// Delegates for reading who opens for reading, unless he does not want that. A client that said what it wants is told
/// why it does not get it (§18.16.3).
fn delegate(cx: &mut Compound<'_>, access: u32, file: FileId) -> Result<OpenDelegation, NfsStatus> {
    let session = cx.session()?;
    let want = access & share_access::WANT_DELEG_MASK;
    let refused = match want {
        share_access::WANT_NO_DELEG => Some(NoDelegation::NOT_WANTED),
        share_access::WANT_CANCEL => Some(NoDelegation::CANCELLED),
        share_access::WANT_WRITE_DELEG => Some(NoDelegation::WRITE_NOT_SUPPORTED_FOR_TYPE),
        _ if access & share_access::WRITE != 0 => Some(NoDelegation::Resource { will_signal: false }),
        _ => None,
    };
    let granted = match refused {
        Some(why) => Err(why),
        None => {
            let now = cx.server.now();
            let undo = &mut cx.undo;
            let mut state = cx.server.state.lock();
            state.delegate(session.client, file, Some(session.request), now, undo).map_err(|why| match why {
                Undelegated::Contention => NoDelegation::Contention { will_push: false },
                Undelegated::Resource => NoDelegation::Resource { will_signal: false },
            })
        }
    };
    Ok(match granted {
        Ok(id) => read(id, false),
        Err(_) if want == share_access::WANT_NO_PREFERENCE => OpenDelegation::None,
        Err(why) => OpenDelegation::NoneExt(why),
    })
}

/// Nobody is spared the ACCESS: the client knows its users, we know the file.
fn read(state_id: StateId, recall: bool) -> OpenDelegation {
    let permissions = Ace { ace_type: 0, flags: 0, access_mask: 0, who: Utf8String::default() };
    OpenDelegation::Read(ReadDelegation { state_id, recall, permissions })
}

/// DELEGRETURN.
pub(super) fn give_back(cx: &Compound<'_>, args: &DelegReturnArgs) -> Result<(), NfsStatus> {
    let client = cx.client()?;
    let file = cx.current_file(NfsStatus::BadStateId)?;
    let id = cx.resolve_state_id(args.state_id)?;
    cx.server.state.lock().return_delegation(client, &id, file)
}

/// The entry `name` of `directory` is about to change what it leads to, or the number of names that has: delegations
/// of that are recalled (§18.25.4, §18.26.4). Whether there is such an entry is for the operation to say.
pub(super) async fn recall_of_entry(
    cx: &mut Compound<'_>,
    directory: FileId,
    name: &Name,
) -> Result<(), Failure> {
    match cx.transaction(directory.volume).await?.lookup(directory, name).await {
        Ok(found) if found.kind == FileKind::Regular => cx.yield_delegations(found.file),
        Err(FsError::Conflict) => Err(Failure::Conflict),
        _ => Ok(()),
    }
}
