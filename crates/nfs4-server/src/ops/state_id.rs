//! TEST_STATEID and FREE_STATEID (RFC 8881 §18.48, §18.38).

use nfs4::{FreeStateIdArgs, NfsStatus, TestStateIdArgs};

use crate::compound::Compound;
use crate::failure::Failure;

/// TEST_STATEID: a status for each.
pub(super) fn test(cx: &mut Compound<'_>, args: &TestStateIdArgs) -> Result<Vec<NfsStatus>, NfsStatus> {
    let client = cx.client()?;
    let state = cx.server.state.lock();
    Ok(args.state_ids.iter().map(|id| state.test_state_id(client, id)).collect())
}

/// FREE_STATEID. A client that frees the last delegation that was revoked may reclaim again after a restart.
pub(super) fn free(cx: &mut Compound<'_>, args: &FreeStateIdArgs) -> Result<(), Failure> {
    let client = cx.client()?;
    let id = cx.resolve_state_id(args.state_id)?;
    cx.server.with_state(|state, _| state.take_notice(client, &id))?;
    Ok(cx.server.state.lock().free_state_id(client, &id, &mut cx.undo)?)
}
