//! CREATE (RFC 8881 §18.4).

use nfs4::{CreateArgs, CreateOk, NfsStatus};

use crate::compound::Compound;
use crate::failure::Failure;

/// Makes a directory, link or special node and makes it the current filehandle.
pub(super) async fn run(_cx: &mut Compound<'_>, _args: &CreateArgs) -> Result<CreateOk, Failure> {
    Err(NfsStatus::NotSupp.into())
}
