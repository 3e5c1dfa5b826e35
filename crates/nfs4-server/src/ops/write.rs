//! WRITE (RFC 8881 §18.32).

use bytes::Bytes;
use file_system::FsError;
use nfs4::{NfsStatus, StableHow, Verifier, WriteArgs, WriteOk};

use crate::compound::Compound;
use crate::failure::Failure;

/// Requests below this size share a buffer with their neighbours ([`onc_rpc::Call::body`]): data that may be kept
/// for long must not keep those.
const SHARED_BUFFER: usize = 16 << 10;

/// Writes a slice of the request, copied only if it is small. What one transaction cannot hold is left out, and the
/// client writes the rest (§18.32.3). What is appended, and what an atomic compound writes, is written whole.
pub(super) async fn run(cx: &mut Compound<'_>, args: WriteArgs) -> Result<WriteOk, Failure> {
    let file = cx.current_file(NfsStatus::IsDir)?;
    let authority = cx.authority(args.state_id, file, true)?;
    let appends = cx.appends(args.offset);
    let verifier = Verifier(cx.file_system(file.volume)?.write_verifier());
    let data = if args.data.len() < SHARED_BUFFER { Bytes::copy_from_slice(&args.data) } else { args.data };
    let transaction = cx.transaction(file.volume).await?;
    let room = transaction.room();
    let offset = match appends {
        // Whoever makes the file longer before the commit is a conflict.
        true => transaction.attributes(file).await?.size,
        false => args.offset,
    };
    if data.len() as u64 > room {
        if cx.has_changed() {
            // What came before is committed first, as before an operation on another volume.
            return Err(cx.needs_commit(NfsStatus::ReqTooBig));
        }
        if appends || cx.is_atomic() {
            return Err(NfsStatus::ReqTooBig.into());
        }
    }
    let data = data.slice(..data.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
    let count = data.len() as u32;
    let committed = match args.stable {
        StableHow::Unstable if !cx.is_atomic() => StableHow::Unstable,
        _ => StableHow::FileSync,
    };
    cx.will_write(file, args.state_id, committed)?;
    match cx.transaction(file.volume).await?.write(file, offset, data, authority).await {
        // Of another kind than a regular file.
        Err(FsError::InvalidArgument) => return Err(NfsStatus::WrongType.into()),
        result => result?,
    }
    cx.server.metrics.written(count as usize);
    Ok(WriteOk { count, committed, verifier })
}
