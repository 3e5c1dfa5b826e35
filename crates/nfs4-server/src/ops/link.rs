//! LINK (RFC 8881 §18.9).

use nfs4::{ChangeInfo, LinkArgs, NfsStatus};

use crate::attributes::change_info;
use crate::compound::Compound;
use crate::failure::Failure;
use crate::file_handle::Handle;

/// Gives the saved filehandle a name in the current one.
pub(super) async fn run(cx: &mut Compound<'_>, args: &LinkArgs) -> Result<ChangeInfo, Failure> {
    let (directory, file) = (cx.current()?, cx.saved()?);
    let name = super::name(cx, &args.new_name)?;
    let (directory, file) = match (directory, file) {
        (_, Handle::PseudoRoot) => return Err(NfsStatus::IsDir.into()),
        (Handle::File(directory), Handle::File(file)) if directory.volume == file.volume => (directory, file),
        _ => return Err(NfsStatus::Xdev.into()),
    };
    cx.transaction(directory.volume).await?;
    cx.yield_delegations(file)?;
    cx.will_change(directory.volume)?;
    let change = cx.transaction(directory.volume).await?.link(file, directory, &name).await?;
    Ok(change_info(change))
}
