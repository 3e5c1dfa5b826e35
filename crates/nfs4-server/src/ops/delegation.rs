//! Delegations: with OPEN, WANT_DELEGATION and DELEGRETURN (RFC 8881 §10.4, §18.16, §18.49, §18.6).

use file_system::{Access, Attributes, FileId, FileKind, FsError, Name, permitted};
use nfs4::bits::share_access;
use nfs4::{
    Ace, DelegReturnArgs, DelegationClaim, DelegationType, NfsStatus, NoDelegation, OpenArgs, OpenClaim,
    OpenDelegation, ReadDelegation, SpaceLimit, StateId, Utf8String, WantDelegationArgs, WriteDelegation,
};

use crate::compound::Compound;
use crate::failure::Failure;
use crate::file_handle::Handle;
use crate::state::{DelegationRequest, Undelegated};

/// Files up to this size need not be sent at CLOSE by who has them delegated for writing (RFC 8881 §10.4.1). Room is no
/// reason for a limit, as a volume has no end; but a recall should be over long before the lease is, and until then
/// others wait.
const KEPT_AT_CLOSE: u64 = 64 << 20;

/// What comes with an OPEN that succeeded.
pub(super) fn with_open(
    cx: &mut Compound<'_>,
    args: &OpenArgs,
    attributes: &Attributes,
) -> Result<OpenDelegation, NfsStatus> {
    let is_confirmed = || {
        let state = cx.server.state.lock();
        cx.client().is_ok_and(|client| state.is_confirmed(client, &args.owner.owner))
    };
    match args.claim {
        // An open that has to be confirmed may be given up (RFC 7530 §9.1.11).
        OpenClaim::Null(_) if cx.minor_version == 0 && !is_confirmed() => Ok(OpenDelegation::None),
        OpenClaim::Null(_) | OpenClaim::FileHandle => delegate(cx, args.share_access, attributes),
        OpenClaim::Previous(kind) => Ok(reclaim(cx, kind, attributes)?.unwrap_or(OpenDelegation::None)),
        _ => Ok(OpenDelegation::None),
    }
}

/// WANT_DELEGATION: what OPEN would bring, without one. Nothing is pushed or signalled later.
pub(super) async fn want(
    cx: &mut Compound<'_>,
    args: &WantDelegationArgs,
) -> Result<OpenDelegation, Failure> {
    let Handle::File(file) = cx.current()? else {
        return Ok(OpenDelegation::NoneExt(NoDelegation::IS_DIRECTORY));
    };
    let client = cx.client()?;
    if args.want & !KNOWN_WANTS != 0 {
        return Err(NfsStatus::Inval.into());
    }
    let reclaim_kind = match args.claim {
        DelegationClaim::FileHandle => None,
        DelegationClaim::Previous(kind) => Some(kind),
        DelegationClaim::DelegatePreviousFileHandle => return Err(NfsStatus::NotSupp.into()),
    };
    cx.server.state.lock().check_claim(client, reclaim_kind.is_some())?;
    let attributes = cx.transaction(file.volume).await?.attributes(file).await?;
    match attributes.kind {
        FileKind::Regular => {}
        FileKind::Directory => return Ok(OpenDelegation::NoneExt(NoDelegation::IS_DIRECTORY)),
        _ => return Ok(OpenDelegation::NoneExt(NoDelegation::NOT_SUPPORTED_FOR_TYPE)),
    }
    if let Some(kind) = reclaim_kind {
        let resource = NoDelegation::Resource { will_signal: false };
        return Ok(reclaim(cx, kind, &attributes)?.unwrap_or(OpenDelegation::NoneExt(resource)));
    }
    if args.want & share_access::WANT_DELEG_MASK == share_access::WANT_NO_PREFERENCE {
        return Err(NfsStatus::Inval.into());
    }
    // Nobody has checked yet whether the caller may read it.
    if !permitted(&attributes, &cx.caller(file.volume)?).contains(Access::READ) {
        return Err(NfsStatus::Access.into());
    }
    Ok(delegate(cx, args.want, &attributes)?)
}

/// The bits that WANT_DELEGATION may have.
const KNOWN_WANTS: u32 = share_access::WANT_DELEG_MASK
    | share_access::WANT_SIGNAL_WHEN_AVAILABLE
    | share_access::WANT_PUSH_WHEN_UNCONTENDED
    | share_access::WANT_DELEG_TIMESTAMPS;

/// Delegates what is opened, for as much as it is opened for, unless the client wants something else. A client that said
/// what it wants is told why it does not get it (§18.16.3).
fn delegate(
    cx: &mut Compound<'_>,
    access: u32,
    attributes: &Attributes,
) -> Result<OpenDelegation, NfsStatus> {
    let writes = access & share_access::WRITE != 0;
    let resource = NoDelegation::Resource { will_signal: false };
    let want = access & share_access::WANT_DELEG_MASK;
    let wanted = match want {
        share_access::WANT_NO_DELEG => Err(NoDelegation::NOT_WANTED),
        share_access::WANT_CANCEL => Err(NoDelegation::CANCELLED),
        share_access::WANT_READ_DELEG if writes => Err(resource),
        share_access::WANT_READ_DELEG => Ok(false),
        share_access::WANT_WRITE_DELEG => Ok(true),
        _ => Ok(writes),
    };
    let granted = match wanted {
        // A delegation for writing is a right to read and to write; nobody gets by it what he had not.
        Ok(true) if !may_read_and_write(cx, attributes)? => Err(resource),
        Ok(writing) => {
            let request = request(cx, writing, attributes)?;
            let file_system = cx.file_system(request.file.volume)?;
            let (now, before) = (cx.server.now(), cx.exports().change());
            let undo = &mut cx.undo;
            let reference = || file_system.reference(request.file);
            let mut state = cx.server.state.lock();
            // Delegations that are lost by other exports are recalled once, when those are in place.
            let delegated = match cx.server.exports.all().change() == before {
                true => state.delegate(&request, reference, now, undo),
                false => Err(Undelegated::Resource),
            };
            delegated.map_err(|why| match why {
                Undelegated::Contention => NoDelegation::Contention { will_push: false },
                Undelegated::Resource => resource,
                Undelegated::Upgrade => NoDelegation::UPGRADE_NOT_SUPPORTED,
                Undelegated::Downgrade => NoDelegation::DOWNGRADE_NOT_SUPPORTED,
            })
        }
        Err(why) => Err(why),
    };
    Ok(match granted {
        Ok(id) if wanted == Ok(true) => write(id, false),
        Ok(id) => read(id, false),
        Err(_) if want == share_access::WANT_NO_PREFERENCE => OpenDelegation::None,
        Err(why) => OpenDelegation::NoneExt(why),
    })
}

fn may_read_and_write(cx: &Compound<'_>, attributes: &Attributes) -> Result<bool, NfsStatus> {
    let volume = attributes.file.volume;
    let has = permitted(attributes, &cx.caller(volume)?);
    let writable = cx.check_writable(volume).is_ok();
    Ok(writable && has.contains(Access::READ) && has.contains(Access::WRITE))
}

/// Nobody knows any more what was delegated: nobody gets by a reclaim what he has no right to. Owners have it whatever the
/// mode, as with READ and WRITE.
fn may_reclaim(cx: &Compound<'_>, writing: bool, attributes: &Attributes) -> Result<bool, NfsStatus> {
    let volume = attributes.file.volume;
    let caller = cx.caller(volume)?;
    let has = permitted(attributes, &caller);
    let is_owner = caller.uid == attributes.uid;
    let may = |access| is_owner || has.contains(access);
    Ok(may(Access::READ) && (!writing || may(Access::WRITE) && cx.check_writable(volume).is_ok()))
}

/// What the client held before the restart, if it can have held it.
fn reclaim(
    cx: &mut Compound<'_>,
    kind: DelegationType,
    attributes: &Attributes,
) -> Result<Option<OpenDelegation>, NfsStatus> {
    let writing = match kind {
        DelegationType::Read => false,
        DelegationType::Write => true,
        DelegationType::None | DelegationType::NoneExt => return Ok(None),
    };
    if !may_reclaim(cx, writing, attributes)? {
        return Ok(None);
    }
    let request = request(cx, writing, attributes)?;
    let file_system = cx.file_system(request.file.volume)?;
    let (now, undo) = (cx.server.now(), &mut cx.undo);
    let reference = || file_system.reference(request.file);
    let reclaimed = cx.server.state.lock().reclaim_delegation(&request, reference, now, undo);
    Ok(reclaimed.map(|id| if writing { write(id, true) } else { read(id, true) }))
}

fn request(
    cx: &Compound<'_>,
    writing: bool,
    attributes: &Attributes,
) -> Result<DelegationRequest, NfsStatus> {
    let file = attributes.file;
    Ok(DelegationRequest {
        client: cx.client()?,
        file,
        by: cx.requester.principal,
        writing: writing.then_some(attributes.change),
        given_by: cx.session().ok().map(|session| session.request),
        own_changes: cx.own_changes(file),
    })
}

/// Nobody is spared the ACCESS: the client knows its users, we know the file.
fn nobody() -> Ace {
    Ace { ace_type: 0, flags: 0, access_mask: 0, who: Utf8String::default() }
}

fn read(state_id: StateId, recall: bool) -> OpenDelegation {
    OpenDelegation::Read(ReadDelegation { state_id, recall, permissions: nobody() })
}

fn write(state_id: StateId, recall: bool) -> OpenDelegation {
    let space_limit = SpaceLimit::Size(KEPT_AT_CLOSE);
    OpenDelegation::Write(WriteDelegation { state_id, recall, space_limit, permissions: nobody() })
}

/// The state id of a delegation that was given.
pub(super) fn state_id(delegation: &OpenDelegation) -> Option<StateId> {
    match delegation {
        OpenDelegation::Read(read) => Some(read.state_id),
        OpenDelegation::Write(write) => Some(write.state_id),
        OpenDelegation::None | OpenDelegation::NoneExt(_) => None,
    }
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
