//! READLINK (RFC 8881 §18.24).

use file_system::FsError;
use nfs4::{LinkText, NfsStatus};

use crate::compound::Compound;
use crate::failure::Failure;

/// The target of the current filehandle; `NFS4ERR_WRONG_TYPE` if it is no link.
pub(super) async fn run(cx: &mut Compound<'_>) -> Result<LinkText, Failure> {
    let file = cx.current_file(NfsStatus::WrongType)?;
    match cx.transaction(file.volume).await?.read_link(file).await {
        Err(FsError::InvalidArgument) => Err(NfsStatus::WrongType.into()),
        target => Ok(LinkText(target?)),
    }
}
