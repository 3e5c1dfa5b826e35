//! CLONE (RFC 7862 §15.13).

use file_system::Position;
use nfs4::{CloneArgs, NfsStatus};

use super::sparse::{self, Target};
use crate::compound::Compound;
use crate::failure::Failure;

/// Makes a range of the saved filehandle's file the content of the current one's, at once and durable when answered.
pub(super) async fn run(cx: &mut Compound<'_>, args: &CloneArgs) -> Result<(), Failure> {
    let from = sparse::file(cx.saved()?)?;
    let to = Target::to_write(cx, args.destination_state_id).await?;
    let volume = to.file.volume;
    if from.volume != volume {
        return Err(NfsStatus::Xdev.into());
    }
    let attributes = cx.transaction(volume).await?.attributes(from).await?;
    sparse::require_regular(&attributes)?;
    let authority = cx.authority(args.source_state_id, from, false)?;
    if cx.has_changed() && !cx.is_atomic() {
        // What came before is committed first: it may be what the clone has to wait for.
        return Err(Failure::OtherVolume);
    }
    cx.will_change(volume)?;
    cx.will_copy()?;
    let from = Position { file: from, offset: args.source_offset, authority };
    let to = Position { file: to.file, offset: args.destination_offset, authority: to.authority };
    Ok(cx.transaction(volume).await?.clone_range(from, to, args.count, true).await?)
}
