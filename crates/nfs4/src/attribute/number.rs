//! Sets of attributes.

use crate::{Attribute, Bitmap};

impl Attribute {
    /// Attributes that can be set but not read: GETATTR, READDIR, VERIFY of them is `NFS4ERR_INVAL` (RFC 8881 §5.5).
    pub const WRITE_ONLY: Bitmap = set(&[
        Attribute::TimeAccessSet,
        Attribute::TimeModifySet,
        Attribute::LayoutHint,
        Attribute::RetentionSet,
        Attribute::RetentevtSet,
        Attribute::ModeSetMasked,
        Attribute::ModeUmask,
    ]);

    /// Attributes that can be set; SETATTR of another one is `NFS4ERR_INVAL` (RFC 8881 §5.5, tables 4 and 5).
    pub const SETTABLE: Bitmap = Attribute::WRITE_ONLY.union(set(&[
        Attribute::Size,
        Attribute::Acl,
        Attribute::Archive,
        Attribute::Hidden,
        Attribute::Mimetype,
        Attribute::Mode,
        Attribute::Owner,
        Attribute::OwnerGroup,
        Attribute::System,
        Attribute::TimeBackup,
        Attribute::TimeCreate,
        Attribute::Dacl,
        Attribute::Sacl,
        Attribute::RetentionHold,
        Attribute::SecLabel,
    ]));

    /// Attributes every server supports (RFC 8881 §5.6).
    pub const REQUIRED: Bitmap = set(&[
        Attribute::SupportedAttrs,
        Attribute::Type,
        Attribute::FhExpireType,
        Attribute::Change,
        Attribute::Size,
        Attribute::LinkSupport,
        Attribute::SymlinkSupport,
        Attribute::NamedAttr,
        Attribute::Fsid,
        Attribute::UniqueHandles,
        Attribute::LeaseTime,
        Attribute::RdattrError,
        Attribute::Filehandle,
        Attribute::SuppattrExclcreat,
    ]);

    /// The attributes of 4.0 (RFC 7530 §5.6, §5.7); later minor versions added all above.
    pub const OF_MINOR_0: Bitmap = {
        let mut bitmap = Bitmap::EMPTY;
        let mut number = 0;
        while number <= Attribute::MountedOnFileid as u32 {
            bitmap = bitmap.union(Bitmap::of(&[number]));
            number += 1;
        }
        bitmap
    };

    /// The set of these attributes, usable in constants.
    pub const fn set(attributes: &[Attribute]) -> Bitmap {
        set(attributes)
    }
}

const fn set(attributes: &[Attribute]) -> Bitmap {
    let mut bitmap = Bitmap::EMPTY;
    let mut index = 0;
    while index < attributes.len() {
        bitmap = bitmap.union(Bitmap::of(&[attributes[index] as u32]));
        index += 1;
    }
    bitmap
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_version_0_ends_with_mounted_on_fileid() {
        assert_eq!(Attribute::OF_MINOR_0.len(), 56);
        assert!(Attribute::OF_MINOR_0.contains(Attribute::MountedOnFileid));
        assert!(!Attribute::OF_MINOR_0.contains(Attribute::DirNotifDelay));
    }
}
