//! RENAME (RFC 8881 §18.26).

use nfs4::{NfsStatus, RenameArgs, RenameOk};

use super::delegation::recall_of_entry;
use crate::attributes::change_info;
use crate::compound::Compound;
use crate::failure::Failure;
use crate::file_handle::Handle;

/// Moves a name from the saved filehandle to the current one.
pub(super) async fn run(cx: &mut Compound<'_>, args: &RenameArgs) -> Result<RenameOk, Failure> {
    let (to, from) = (cx.current()?, cx.saved()?);
    let (old_name, new_name) = (super::name(cx, &args.old_name)?, super::name(cx, &args.new_name)?);
    let (from, to) = match (from, to) {
        (Handle::File(from), Handle::File(to)) if from.volume == to.volume => (from, to),
        (Handle::PseudoRoot, Handle::PseudoRoot) => return Err(NfsStatus::Rofs.into()),
        _ => return Err(NfsStatus::Xdev.into()),
    };
    recall_of_entry(cx, from, &old_name).await?;
    recall_of_entry(cx, to, &new_name).await?;
    cx.will_change(to.volume)?;
    let transaction = cx.transaction(to.volume).await?;
    let (source, target) = transaction.rename(from, &old_name, to, &new_name).await?;
    Ok(RenameOk { source: change_info(source), target: change_info(target) })
}
