//! ALLOCATE and DEALLOCATE (RFC 7862 §15.1, §15.4).

use nfs4::AllocateArgs;

use super::sparse::Target;
use crate::compound::Compound;
use crate::failure::Failure;

/// ALLOCATE.
pub(super) async fn allocate(cx: &mut Compound<'_>, args: &AllocateArgs) -> Result<(), Failure> {
    let Target { file, authority, .. } = Target::to_write(cx, args.state_id).await?;
    cx.will_change(file.volume)?;
    Ok(cx.transaction(file.volume).await?.allocate(file, args.offset, args.length, authority).await?)
}

/// DEALLOCATE.
pub(super) async fn deallocate(cx: &mut Compound<'_>, args: &AllocateArgs) -> Result<(), Failure> {
    let Target { file, authority, .. } = Target::to_write(cx, args.state_id).await?;
    cx.will_change(file.volume)?;
    Ok(cx.transaction(file.volume).await?.deallocate(file, args.offset, args.length, authority).await?)
}
