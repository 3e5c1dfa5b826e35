//! IO_ADVISE (RFC 7862 §15.5).

use nfs4::{Bitmap, IoAdviseArgs};

use super::sparse::Target;
use crate::compound::Compound;
use crate::failure::Failure;

/// Heeds no hint, and says so: the cache finds sequential readers by itself.
pub(super) async fn run(cx: &mut Compound<'_>, args: &IoAdviseArgs) -> Result<Bitmap, Failure> {
    Target::to_read(cx, args.state_id).await?;
    Ok(Bitmap::EMPTY)
}
