//! RENAME (RFC 8881 §18.26).

use nfs4::{NfsStatus, RenameArgs, RenameOk};

use crate::compound::Compound;
use crate::failure::Failure;

/// Moves a name from the saved filehandle to the current one.
pub(super) async fn run(_cx: &mut Compound<'_>, _args: &RenameArgs) -> Result<RenameOk, Failure> {
    Err(NfsStatus::NotSupp.into())
}
