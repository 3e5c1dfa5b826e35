//! SEEK (RFC 7862 §15.11).

use nfs4::{DataContent, NfsStatus, SeekArgs, SeekOk};

use super::sparse::Target;
use crate::compound::Compound;
use crate::failure::Failure;

/// Finds the next data, or the next hole; behind the last byte of every file there is one. A search for data that finds none
/// ends at the end of the file, too.
pub(super) async fn run(cx: &mut Compound<'_>, args: &SeekArgs) -> Result<SeekOk, Failure> {
    let Target { file, authority, attributes } = Target::to_read(cx, args.state_id).await?;
    if args.offset >= attributes.size {
        return Err(NfsStatus::Nxio.into());
    }
    let transaction = cx.transaction(file.volume).await?;
    let found = transaction.extents(file, args.offset..u64::MAX, 2, authority).await?;
    let wants_hole = args.what == DataContent::Hole;
    Ok(match found.into_iter().find(|extent| extent.is_hole == wants_hole) {
        Some(extent) => SeekOk { eof: false, offset: extent.range.start },
        None => SeekOk { eof: true, offset: attributes.size },
    })
}
