//! ACCESS (RFC 8881 §18.1).

use nfs4::{AccessArgs, AccessOk, NfsStatus};

use crate::compound::Compound;
use crate::failure::Failure;

/// Which of the rights asked for the caller has, by the mode bits alone.
pub(super) async fn run(_cx: &mut Compound<'_>, _args: &AccessArgs) -> Result<AccessOk, Failure> {
    Err(NfsStatus::NotSupp.into())
}
