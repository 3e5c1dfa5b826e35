//! What the operations on data and holes begin with.

use file_system::{Attributes, Authority, FileId, FileKind};
use nfs4::{NfsStatus, StateId};

use crate::compound::Compound;
use crate::failure::Failure;
use crate::file_handle::Handle;

/// The current filehandle, if it is a regular file, and what a state id entitles to.
pub(super) struct Target {
    pub file: FileId,
    pub authority: Authority,
    pub attributes: Attributes,
}

impl Target {
    /// To read.
    pub async fn to_read(cx: &mut Compound<'_>, id: StateId) -> Result<Target, Failure> {
        Target::new(cx, id, false).await
    }

    /// To write.
    pub async fn to_write(cx: &mut Compound<'_>, id: StateId) -> Result<Target, Failure> {
        Target::new(cx, id, true).await
    }

    async fn new(cx: &mut Compound<'_>, id: StateId, write: bool) -> Result<Target, Failure> {
        let file = file(cx.current()?)?;
        let attributes = cx.transaction(file.volume).await?.attributes(file).await?;
        require_regular(&attributes)?;
        let authority = cx.authority(id, file, write)?;
        Ok(Target { file, authority, attributes })
    }
}

/// The object of a volume; the pseudo root is none.
pub(super) fn file(handle: Handle) -> Result<FileId, NfsStatus> {
    match handle {
        Handle::File(file) => Ok(file),
        Handle::PseudoRoot => Err(NfsStatus::WrongType),
    }
}

/// The operations of 4.2 call every other kind of object the wrong type (RFC 7862 §15).
pub(super) fn require_regular(attributes: &Attributes) -> Result<(), NfsStatus> {
    if attributes.kind == FileKind::Regular { Ok(()) } else { Err(NfsStatus::WrongType) }
}
