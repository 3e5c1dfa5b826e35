//! READ (RFC 8881 §18.22).

use file_system::{Access, Authority, permitted};
use nfs4::{NfsStatus, Payload, ReadArgs, ReadOk};

use crate::compound::{Compound, Wanted};
use crate::failure::Failure;

/// Reads without copying. Less than asked for comes only at the end of the file, or when the reply cannot be
/// larger.
pub(super) async fn run(cx: &mut Compound<'_>, args: &ReadArgs) -> Result<ReadOk, Failure> {
    /// Number, status, `eof` and the length.
    const HEAD: usize = 16;
    let file = cx.current_file(NfsStatus::IsDir)?;
    let mut authority = cx.authority(args.state_id, file, false)?;
    let room = cx.room().saturating_sub(HEAD) & !3;
    let count = args.count.min(u32::try_from(room).unwrap_or(u32::MAX));
    let caller = cx.caller(file.volume)?;
    if authority == Authority::Checked {
        // Whoever may run a program may read it (§18.22.4).
        let attributes = cx.transaction(file.volume).await?.attributes(file).await?;
        if permitted(&attributes, &caller).contains(Access::EXECUTE) {
            authority = Authority::Opened;
        }
    }
    let data = match cx.read(Wanted { file, offset: args.offset, count, authority }).await {
        // Of another kind than a regular file.
        Err(Failure::Status(NfsStatus::Inval)) => return Err(NfsStatus::WrongType.into()),
        result => result?,
    };
    cx.server.metrics.read(data.len());
    Ok(ReadOk { eof: data.end_of_file, data: Payload::new(data.segments) })
}
