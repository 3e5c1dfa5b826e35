//! LINK (RFC 8881 §18.9).

use nfs4::{ChangeInfo, LinkArgs, NfsStatus};

use crate::compound::Compound;
use crate::failure::Failure;

/// Gives the saved filehandle a name in the current one.
pub(super) async fn run(_cx: &mut Compound<'_>, _args: &LinkArgs) -> Result<ChangeInfo, Failure> {
    Err(NfsStatus::NotSupp.into())
}
