//! REMOVE (RFC 8881 §18.25).

use nfs4::{ChangeInfo, NfsStatus, RemoveArgs};

use crate::compound::Compound;
use crate::failure::Failure;

/// Removes a name from the current filehandle.
pub(super) async fn run(_cx: &mut Compound<'_>, _args: &RemoveArgs) -> Result<ChangeInfo, Failure> {
    Err(NfsStatus::NotSupp.into())
}
