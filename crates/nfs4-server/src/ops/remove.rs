//! REMOVE (RFC 8881 §18.25).

use nfs4::{ChangeInfo, NfsStatus, RemoveArgs};

use super::delegation::recall_of_entry;
use crate::attributes::change_info;
use crate::compound::Compound;
use crate::failure::Failure;

/// Removes a name from the current filehandle.
pub(super) async fn run(cx: &mut Compound<'_>, args: &RemoveArgs) -> Result<ChangeInfo, Failure> {
    let directory = cx.current_file(NfsStatus::Rofs)?;
    let name = super::name(cx, &args.target)?;
    recall_of_entry(cx, directory, &name).await?;
    cx.will_change(directory.volume)?;
    let change = cx.transaction(directory.volume).await?.remove(directory, &name).await?;
    Ok(change_info(change))
}
