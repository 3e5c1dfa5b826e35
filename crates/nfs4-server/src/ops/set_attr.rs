//! SETATTR (RFC 8881 §18.30).

use nfs4::{Bitmap, NfsStatus, SetAttrArgs};

use crate::compound::Compound;
use crate::failure::Failure;

/// Changes attributes; returns which. A change of the size needs what the state id entitles to
/// ([`Compound::authority`]), everything else ignores it.
pub(super) async fn run(_cx: &mut Compound<'_>, _args: &SetAttrArgs) -> Result<Bitmap, Failure> {
    Err(NfsStatus::NotSupp.into())
}
