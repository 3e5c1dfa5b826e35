//! PUTFH, PUTROOTFH and GETFH (RFC 8881 §18.19, §18.21, §18.8).

use nfs4::{FileHandle, NfsStatus, PutFhArgs};

use crate::compound::Compound;
use crate::file_handle::Handle;

/// Makes a handle the current one. Whether its object still exists, and whether the request is protected well enough
/// for it, shows when it is used.
pub(super) fn put(cx: &mut Compound<'_>, args: &PutFhArgs) -> Result<(), NfsStatus> {
    let handle = cx.server.handles.open(&args.file_handle)?;
    if let Handle::File(file) = handle {
        cx.demanding_export(file.volume)?;
    }
    cx.set_current(handle);
    Ok(())
}

/// Makes the pseudo root the current filehandle; it is the public one, too (RFC 8881 §4.1.2).
pub(super) fn put_root(cx: &mut Compound<'_>) {
    cx.set_current(Handle::PseudoRoot);
}

/// The current filehandle. What is on another server has none here.
pub(super) fn get(cx: &Compound<'_>) -> Result<FileHandle, NfsStatus> {
    let handle = cx.current()?;
    match handle {
        Handle::File(file) if cx.demanding_export(file.volume)?.is_elsewhere() => Err(NfsStatus::Moved),
        _ => Ok(cx.server.handles.seal(handle)),
    }
}
