//! LOOKUP and LOOKUPP (RFC 8881 §18.13, §18.14).

use file_system::{FileId, FileKind, FsError};
use ids::ObjectId;
use nfs4::{Component, LookupArgs, NfsStatus};

use crate::compound::Compound;
use crate::failure::Failure;
use crate::file_handle::Handle;

/// Makes what the name leads to the current filehandle. From the pseudo root a name leads to the root of a volume.
pub(super) async fn child(cx: &mut Compound<'_>, args: &LookupArgs) -> Result<(), Failure> {
    let found = find(cx, &args.name).await?;
    cx.set_current(found);
    Ok(())
}

/// Makes the parent the current filehandle: of a volume's root the pseudo root, of that `NFS4ERR_NOENT`.
pub(super) async fn parent(cx: &mut Compound<'_>) -> Result<(), Failure> {
    let found = find_parent(cx).await?;
    cx.set_current(found);
    Ok(())
}

/// What the name leads to from the current filehandle.
pub(super) async fn find(cx: &mut Compound<'_>, name: &Component) -> Result<Handle, Failure> {
    let current = cx.current()?;
    let name = super::name(cx, name)?;
    match current {
        Handle::PseudoRoot => {
            let export = cx.exports().by_name(name.as_bytes()).ok_or(NfsStatus::NoEnt)?;
            let volume = export.file_system.volume();
            if export.is_elsewhere() {
                // Asking for more than where it is will tell (RFC 7530 §8.7.1).
                cx.export_wherever(volume)?;
                return Ok(Handle::File(FileId { volume, object: ObjectId::from_bytes([0; ObjectId::LEN]) }));
            }
            Ok(Handle::File(cx.transaction(volume).await?.root()))
        }
        Handle::File(directory) => {
            let transaction = cx.transaction(directory.volume).await?;
            match transaction.lookup(directory, &name).await {
                Err(FsError::NotDirectory) => Err(no_directory(cx, directory).await?.into()),
                found => Ok(Handle::File(found?.file)),
            }
        }
    }
}

/// What holds the current filehandle.
pub(super) async fn find_parent(cx: &mut Compound<'_>) -> Result<Handle, Failure> {
    match cx.current()? {
        Handle::PseudoRoot => Err(NfsStatus::NoEnt.into()),
        Handle::File(directory) => {
            let transaction = cx.transaction(directory.volume).await?;
            if directory == transaction.root() {
                return Ok(Handle::PseudoRoot);
            }
            match transaction.parent(directory).await {
                Err(FsError::NotDirectory) => Err(no_directory(cx, directory).await?.into()),
                found => Ok(Handle::File(found?.file)),
            }
        }
    }
}

/// Clients have to follow links themselves; so they must learn that this is one (§15.2, §18.13.3).
async fn no_directory(cx: &mut Compound<'_>, file: FileId) -> Result<NfsStatus, Failure> {
    let attributes = cx.transaction(file.volume).await?.attributes(file).await?;
    Ok(if attributes.kind == FileKind::Symlink { NfsStatus::Symlink } else { NfsStatus::NotDir })
}
