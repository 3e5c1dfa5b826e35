//! CLOSE and OPEN_DOWNGRADE (RFC 8881 §18.2, §18.18).

use nfs4::bits::share_access;
use nfs4::{CloseArgs, NfsStatus, OpenDowngradeArgs, StateId};

use crate::compound::Compound;
use crate::state::Share;

/// CLOSE. The state id returned means nothing (RFC 8881 §18.2.4).
pub(crate) fn run(cx: &mut Compound<'_>, args: &CloseArgs) -> Result<StateId, NfsStatus> {
    let file = cx.current_file(NfsStatus::BadStateId)?;
    let id = cx.resolve_state_id(args.state_id)?;
    cx.delegate_later(&id, file);
    cx.close_at_commit(&id, file)?;
    cx.set_state_id(StateId::INVALID);
    Ok(StateId::INVALID)
}

/// OPEN_DOWNGRADE.
pub(crate) fn downgrade(cx: &mut Compound<'_>, args: &OpenDowngradeArgs) -> Result<StateId, NfsStatus> {
    let client = cx.client()?;
    let file = cx.current_file(NfsStatus::BadStateId)?;
    let id = cx.resolve_state_id(args.state_id)?;
    let share = Share::new(args.share_access & !share_access::WANT_DELEG_MASK, args.share_deny)?;
    cx.delegate_later(&id, file);
    let id = cx.server.state.lock().downgrade(client, &id, file, share, &mut cx.undo)?;
    cx.set_state_id(id);
    Ok(id)
}
