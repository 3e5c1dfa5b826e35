//! Which attributes exist here.

use nfs4::{Attribute, Bitmap, NfsStatus};

/// Attributes that can be read or set.
pub(super) const SUPPORTED: Bitmap =
    Attribute::REQUIRED.union(SERVER).union(OBJECT).union(SPACE).union(SETTABLE).union(ACLS);

/// The attributes of those that a minor version has; and access control lists only where they are offered. The pseudo root
/// has none.
pub(crate) fn supported(minor_version: u32, acls: bool) -> Bitmap {
    let offered = if acls { SUPPORTED } else { SUPPORTED.difference(ACLS) };
    if minor_version == 0 { offered & Attribute::OF_MINOR_0 } else { offered }
}

/// Everything about access control lists.
pub(super) const ACLS: Bitmap = Attribute::set(&[Attribute::Acl, Attribute::Aclsupport, Attribute::Dacl]);

/// Attributes that can be set.
pub(super) const SETTABLE: Bitmap = Attribute::set(&[
    Attribute::Size,
    Attribute::Acl,
    Attribute::Mode,
    Attribute::Owner,
    Attribute::OwnerGroup,
    Attribute::TimeAccessSet,
    Attribute::TimeCreate,
    Attribute::TimeModifySet,
    Attribute::Dacl,
    Attribute::ModeSetMasked,
    Attribute::ModeUmask,
]);

/// Attributes that an exclusive create may set. Setting times would make its verifier void.
pub(crate) const EXCLUSIVE_CREATE: Bitmap = SETTABLE.difference(Attribute::set(&[
    Attribute::TimeAccessSet,
    Attribute::TimeCreate,
    Attribute::TimeModifySet,
]));

/// Optional attributes that are the same for all objects.
const SERVER: Bitmap = Attribute::set(&[
    Attribute::Cansettime,
    Attribute::CaseInsensitive,
    Attribute::CasePreserving,
    Attribute::ChownRestricted,
    Attribute::Homogeneous,
    Attribute::Maxfilesize,
    Attribute::Maxlink,
    Attribute::Maxname,
    Attribute::Maxread,
    Attribute::Maxwrite,
    Attribute::NoTrunc,
    Attribute::TimeDelta,
    Attribute::FsCharsetCap,
    Attribute::ChangeAttrType,
    Attribute::XattrSupport,
    Attribute::OpenArguments,
]);

/// Optional attributes of single objects.
const OBJECT: Bitmap = Attribute::set(&[
    Attribute::Fileid,
    Attribute::FsLocations,
    Attribute::FsLocationsInfo,
    Attribute::Mode,
    Attribute::Numlinks,
    Attribute::Owner,
    Attribute::OwnerGroup,
    Attribute::Rawdev,
    Attribute::SpaceUsed,
    Attribute::TimeAccess,
    Attribute::TimeCreate,
    Attribute::TimeMetadata,
    Attribute::TimeModify,
    Attribute::MountedOnFileid,
]);

/// Attributes that the volume has to be asked for.
const SPACE: Bitmap = Attribute::set(&[
    Attribute::CloneBlksize,
    Attribute::FilesAvail,
    Attribute::FilesFree,
    Attribute::FilesTotal,
    Attribute::QuotaAvailHard,
    Attribute::QuotaAvailSoft,
    Attribute::QuotaUsed,
    Attribute::SpaceAvail,
    Attribute::SpaceFree,
    Attribute::SpaceTotal,
]);

/// Whether the volume has to be asked how much room it has.
pub(crate) fn wants_space(request: Bitmap) -> bool {
    request.intersects(SPACE)
}

/// `NFS4ERR_INVAL` when an attribute is asked for that can only be set (RFC 8881 §5.5).
pub(crate) fn check_readable(request: Bitmap) -> Result<(), NfsStatus> {
    if request.intersects(Attribute::WRITE_ONLY & SUPPORTED) { Err(NfsStatus::Inval) } else { Ok(()) }
}
