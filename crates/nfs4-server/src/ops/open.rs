//! OPEN (RFC 8881 §18.16).

use file_system::permission::may_add;
use file_system::{
    Access, Attributes, Caller, FileId, FileKind, FsError, Name, OpenCreate, SetAttributes, permitted,
};
use nfs4::bits::{open_result, share_access};
use nfs4::{Bitmap, ChangeInfo, CreateHow, NfsStatus, OpenArgs, OpenClaim, OpenHow, OpenOk, StateId};

use super::delegation;
use crate::attributes::{EXCLUSIVE_CREATE, ToSet, check_supported, named_owners, to_set, without_owners};
use crate::compound::Compound;
use crate::failure::Failure;
use crate::file_handle::Handle;
use crate::state::{OpenRequest, Share};

/// The file that is opened, and what opening it by name did.
struct Found {
    attributes: Attributes,
    /// Made by this OPEN, or by the one that it repeats: whatever the mode bits, its maker has it open.
    created: bool,
    /// Whether this OPEN made or cut the file.
    changed: bool,
    /// Opened by handle: the owner may whatever the mode bits, as he may in SETATTR and READ (§18.16.4).
    by_handle: bool,
    change: ChangeInfo,
    attributes_set: Bitmap,
}

/// Opens a file, making it if need be, and makes it the current filehandle.
pub(crate) async fn run(cx: &mut Compound<'_>, args: &OpenArgs) -> Result<OpenOk, Failure> {
    let client = cx.client()?;
    let share = Share::new(args.share_access & share_access::BOTH, args.share_deny)?;
    if args.share_access & !KNOWN_SHARE_BITS != 0 {
        return Err(NfsStatus::Inval.into());
    }
    let reclaim = matches!(args.claim, OpenClaim::Previous(_));
    cx.server.state.lock().check_claim(client, reclaim)?;

    let found = match &args.claim {
        OpenClaim::Null(name) => {
            let directory = cx.current_file(pseudo_root_error(&args.how))?;
            let name = super::name(cx, name)?;
            by_name(cx, args, share, directory, &name).await?
        }
        OpenClaim::FileHandle | OpenClaim::Previous(_) => {
            if args.how != OpenHow::NoCreate {
                return Err(NfsStatus::Inval.into());
            }
            by_handle(cx).await?
        }
        OpenClaim::DelegateCurrent { file: name, .. } => {
            let directory = cx.current_file(pseudo_root_error(&args.how))?;
            if args.how != OpenHow::NoCreate {
                return Err(NfsStatus::Inval.into());
            }
            let name = super::name(cx, name)?;
            by_name(cx, args, share, directory, &name).await?
        }
        OpenClaim::DelegateCurrentFileHandle(_) => {
            if args.how != OpenHow::NoCreate {
                return Err(NfsStatus::Inval.into());
            }
            by_handle(cx).await?
        }
        OpenClaim::DelegatePrevious(_) | OpenClaim::DelegatePreviousFileHandle => {
            return Err(NfsStatus::NotSupp.into());
        }
    };
    let file = found.attributes.file;
    let caller = cx.caller(file.volume)?;
    let by_delegation = match &args.claim {
        OpenClaim::DelegateCurrent { state_id, .. } | OpenClaim::DelegateCurrentFileHandle(state_id) => {
            let id = cx.resolve_state_id(*state_id)?;
            let holder = cx.server.state.lock().check_delegation(client, &id, file, share)?;
            // In 4.0 everybody may send it.
            cx.minor_version > 0 || holder == cx.requester.principal
        }
        _ => false,
    };
    // What was opened by a delegation was checked when that was done. What is reclaimed is checked again: nobody knows any
    // more whether it was open.
    let granted = by_delegation || found.created || found.by_handle && caller.uid == found.attributes.uid;
    if !granted {
        check_access(&found.attributes, &caller, share)?;
    }
    let by_writer = by_delegation && share.access & Share::WRITE != 0;
    // Who has it delegated for writing got that while the export was writable.
    if share.access & Share::WRITE != 0 && !by_writer {
        cx.check_writable(file.volume)?;
    }
    let state_id = match grant(cx, args, share, file, reclaim) {
        // Somebody was faster since it was looked at, and the file is changed already: that is taken back, and the
        // next try finds out before it changes anything.
        Err(_) if found.changed => return Err(Failure::Conflict),
        granted => granted?,
    };
    if by_writer {
        let now = cx.server.now();
        cx.server.state.lock().opened_by_delegation(&state_id, now);
    }
    let delegation = delegation::with_open(cx, args, &found.attributes)?;
    let mut flags = open_result::LOCKTYPE_POSIX | open_result::PRESERVE_UNLINKED;
    if cx.server.state.lock().has_back_channel(client) {
        flags |= open_result::MAY_NOTIFY_LOCK;
    }
    let mut given = state_id;
    cx.set_current(Handle::File(file));
    cx.set_state_id(state_id);
    if let Some(delegated) = delegation::state_id(&delegation)
        && args.share_access & share_access::WANT_OPEN_XOR_DELEGATION != 0
        && share.deny == 0
        && !reclaim
        && cx.server.state.lock().close_new(client, &state_id, &mut cx.undo)
    {
        flags |= open_result::NO_OPEN_STATE_ID;
        given = StateId::ANONYMOUS;
        cx.set_state_id(delegated);
    }
    Ok(OpenOk {
        state_id: given,
        change_info: found.change,
        flags,
        attributes_set: found.attributes_set,
        delegation,
    })
}

const KNOWN_SHARE_BITS: u32 = share_access::BOTH
    | share_access::WANT_DELEG_MASK
    | share_access::WANT_SIGNAL_WHEN_AVAILABLE
    | share_access::WANT_PUSH_WHEN_UNCONTENDED
    // Delegated timestamps are not offered; a wish for them is none that has to be fulfilled.
    | share_access::WANT_DELEG_TIMESTAMPS
    | share_access::WANT_OPEN_XOR_DELEGATION;

/// Nothing can be made in the pseudo root, and all that is there are directories.
fn pseudo_root_error(how: &OpenHow) -> NfsStatus {
    if *how == OpenHow::NoCreate { NfsStatus::IsDir } else { NfsStatus::Rofs }
}

/// CLAIM_FH and CLAIM_PREVIOUS.
async fn by_handle(cx: &mut Compound<'_>) -> Result<Found, Failure> {
    let file = cx.current_file(NfsStatus::IsDir)?;
    let attributes = cx.transaction(file.volume).await?.attributes(file).await?;
    check_kind(attributes.kind)?;
    // No directory is involved (§18.16.4).
    let change = ChangeInfo { atomic: true, before: 0, after: 0 };
    Ok(Found {
        attributes,
        created: false,
        changed: false,
        by_handle: true,
        change,
        attributes_set: Bitmap::EMPTY,
    })
}

/// CLAIM_NULL. Everything that can forbid the OPEN is looked at before a file is made or touched.
async fn by_name(
    cx: &mut Compound<'_>,
    args: &OpenArgs,
    share: Share,
    directory: FileId,
    name: &Name,
) -> Result<Found, Failure> {
    let wanted = match &args.how {
        OpenHow::NoCreate => None,
        OpenHow::Create(how) => Some(create_arguments(cx, how, directory).await?),
    };
    let caller = cx.caller(directory.volume)?;
    let transaction = cx.transaction(directory.volume).await?;
    let existing = match transaction.lookup(directory, name).await {
        Ok(attributes) => Some(attributes),
        Err(FsError::NotFound) if wanted.is_some() => None,
        Err(error) => return Err(error.into()),
    };
    let Some((how, to_set)) = wanted else {
        let Some(attributes) = existing else { return Err(NfsStatus::NoEnt.into()) };
        check_kind(attributes.kind)?;
        let change = transaction.attributes(directory).await?.change;
        let change = ChangeInfo { atomic: true, before: change, after: change };
        return Ok(Found {
            attributes,
            created: false,
            changed: false,
            by_handle: false,
            change,
            attributes_set: Bitmap::EMPTY,
        });
    };

    let mut set = to_set.attributes;
    let mut applied = to_set.applied;
    let mut changed = false;
    let owner = (cx.client()?, &args.owner.owner[..]);
    if let (Some(attributes), OpenCreate::Unchecked) = (&existing, how) {
        check_kind(attributes.kind)?;
        // Of the attributes only a size of zero counts for an existing file (§18.16.3).
        let cut = set.size == Some(0);
        set = SetAttributes { size: set.size.filter(|_| cut), ..SetAttributes::default() };
        applied = if cut { Bitmap::of(&[nfs4::Attribute::Size as u32]) } else { Bitmap::EMPTY };
        let needed = if cut { Share { access: share.access | Share::WRITE, ..share } } else { share };
        check_access(attributes, &caller, needed)?;
        cx.server.with_state(|state, now| state.check_open(owner, Some(attributes.file), needed, now))?;
        if cut {
            cx.yield_delegations(attributes.file)?;
            cx.will_change(directory.volume)?;
            changed = true;
        }
    } else if existing.is_none() {
        cx.server.with_state(|state, now| state.check_open(owner, None, share, now))?;
        cx.will_change(directory.volume)?;
        changed = true;
    }
    let opened = cx.transaction(directory.volume).await?.open_create(directory, name, how, &set).await?;
    let repeated = matches!(how, OpenCreate::Exclusive(_));
    Ok(Found {
        created: opened.created || repeated && caller.uid == opened.attributes.uid,
        changed,
        by_handle: false,
        change: ChangeInfo { atomic: true, before: opened.change.before, after: opened.change.after },
        attributes_set: if opened.created || existing.is_some() { applied } else { Bitmap::EMPTY },
        attributes: opened.attributes,
    })
}

async fn create_arguments(
    cx: &mut Compound<'_>,
    how: &CreateHow,
    directory: FileId,
) -> Result<(OpenCreate, ToSet), Failure> {
    let (how, attributes) = match how {
        CreateHow::Unchecked(attributes) => (OpenCreate::Unchecked, attributes),
        CreateHow::Guarded(attributes) => (OpenCreate::Guarded, attributes),
        CreateHow::Exclusive(verifier) => return Ok((OpenCreate::Exclusive(verifier.0), ToSet::default())),
        CreateHow::Exclusive41 { verifier, attributes } => (OpenCreate::Exclusive(verifier.0), attributes),
    };
    check_supported(cx, attributes.bitmap)?;
    if matches!(how, OpenCreate::Exclusive(_)) && !EXCLUSIVE_CREATE.contains_all(attributes.bitmap) {
        return Err(NfsStatus::Inval.into());
    }
    let owners = cx.server.owners.current();
    let named = named_owners(attributes, &owners);
    if named.is_empty() {
        return Ok((how, to_set(attributes, &owners)?));
    }
    let caller = cx.caller(directory.volume)?;
    let parent = cx.transaction(directory.volume).await?.attributes(directory).await?;
    if cx.check_writable(directory.volume).is_err() || may_add(&parent, FileKind::Regular, &caller).is_err() {
        // Nothing is made, and of what is there no owner is set.
        return Ok((how, to_set(&without_owners(attributes)?, &owners)?));
    }
    owners.find_ids(named).await;
    Ok((how, to_set(attributes, &owners)?))
}

fn check_kind(kind: FileKind) -> Result<(), NfsStatus> {
    if kind == FileKind::Regular { Ok(()) } else { Err(super::wrong_kind(kind)) }
}

/// Whether the mode bits allow the caller what the OPEN asks for. Whoever may run a program may open it for
/// reading (§18.22.4).
fn check_access(attributes: &Attributes, caller: &Caller, share: Share) -> Result<(), NfsStatus> {
    let has = permitted(attributes, caller);
    let read = share.access & Share::READ == 0 || has.contains(Access::READ) || has.contains(Access::EXECUTE);
    let write = share.access & Share::WRITE == 0 || has.contains(Access::WRITE);
    if read && write { Ok(()) } else { Err(NfsStatus::Access) }
}

/// The state. The file is referenced before the transaction commits: if it was removed before that, the commit
/// fails.
fn grant(
    cx: &mut Compound<'_>,
    args: &OpenArgs,
    share: Share,
    file: FileId,
    reclaim: bool,
) -> Result<StateId, Failure> {
    let client = cx.client()?;
    let request = OpenRequest { client, owner: &args.owner.owner, file, share, reclaim };
    let file_system = cx.file_system(file.volume)?;
    cx.close_before_open(file);
    let server = cx.server;
    let undo = &mut cx.undo;
    let id =
        server.with_state(|state, now| state.open(&request, || file_system.reference(file), now, undo))?;
    cx.keep_open(&id);
    Ok(id)
}
