//! The table of all attributes, from which the numbers and the typed values are made.

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::attribute::acl::{Ace, Acl41};
use crate::attribute::{
    ChangeAttrType, ChangePolicy, FileType, FsLocations, FsLocationsInfo, FsStatus, Fsid, ModeMasked,
    ModeUmask, OpenArguments, RetentionGet, RetentionSet, SecurityLabel, SpecData,
};
use crate::layout::{LayoutHint, LayoutType, ThresholdItem};
use crate::{Bitmap, FileHandle, NfsStatus, NfsTime, SetTime, Utf8String};

macro_rules! attributes {
    ($($number:literal $name:ident $field:ident: $type:ty, $text:literal;)*) => {
        /// The number of an attribute: its bit in a [`Bitmap`] and its place among the values.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Attribute {
            $(#[doc = $text] $name = $number,)*
        }

        impl Attribute {
            /// Every attribute, ascending.
            pub const ALL: &[Attribute] = &[$(Attribute::$name,)*];

            /// The attribute with this number.
            pub const fn from_number(number: u32) -> Option<Attribute> {
                match number {
                    $($number => Some(Attribute::$name),)*
                    _ => None,
                }
            }

            /// The name in the RFC, without `fattr4_`.
            pub fn name(self) -> &'static str {
                let field = match self {
                    $(Attribute::$name => stringify!($field),)*
                };
                field.strip_prefix("r#").unwrap_or(field)
            }
        }

        /// Values of any attributes, each present or not. What [`Fattr`](crate::Fattr) holds once it is decoded.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct AttributeValues {
            $(#[doc = $text] pub $field: Option<$type>,)*
        }

        impl AttributeValues {
            /// Which attributes are present.
            pub fn bitmap(&self) -> Bitmap {
                let mut bitmap = Bitmap::EMPTY;
                $(if self.$field.is_some() { bitmap.insert(Attribute::$name); })*
                bitmap
            }

            /// Writes the present values that `mask` selects, in the order of their numbers.
            pub(super) fn encode_values(&self, mask: Bitmap, out: &mut Encoder) {
                $(if let Some(value) = &self.$field && mask.contains(Attribute::$name) { value.encode(out); })*
            }

            /// Reads the value of `attribute`.
            pub(super) fn decode_value(
                &mut self,
                attribute: Attribute,
                input: &mut Decoder,
            ) -> Result<(), DecodeError> {
                match attribute {
                    $(Attribute::$name => self.$field = Some(<$type>::decode(input)?),)*
                }
                Ok(())
            }
        }
    };
}

// The rare large ones are boxed, so that the values of a directory entry stay small.
attributes! {
    0 SupportedAttrs supported_attrs: Bitmap, "Attributes the server supports for this object.";
    1 Type r#type: FileType, "Type of object.";
    2 FhExpireType fh_expire_type: u32, "When filehandles expire: bits of [`fh_expire`](crate::bits::fh_expire).";
    3 Change change: u64, "Changes with every change of data or metadata.";
    4 Size size: u64, "Size in bytes.";
    5 LinkSupport link_support: bool, "Whether hard links are supported.";
    6 SymlinkSupport symlink_support: bool, "Whether symbolic links are supported.";
    7 NamedAttr named_attr: bool, "Whether the object has named attributes.";
    8 Fsid fsid: Fsid, "The file system.";
    9 UniqueHandles unique_handles: bool, "Whether different handles always mean different objects.";
    10 LeaseTime lease_time: u32, "Lease time in seconds.";
    11 RdattrError rdattr_error: NfsStatus, "Why READDIR has no attributes for this entry.";
    12 Acl acl: Vec<Ace>, "Access control list.";
    13 Aclsupport aclsupport: u32, "Kinds of ACE: bits of [`acl`](crate::attribute::acl).";
    14 Archive archive: bool, "To be archived since its last backup.";
    15 Cansettime cansettime: bool, "Whether times can be set.";
    16 CaseInsensitive case_insensitive: bool, "Whether names compare without case.";
    17 CasePreserving case_preserving: bool, "Whether names keep their case.";
    18 ChownRestricted chown_restricted: bool, "Whether only a privileged user may change the owner.";
    19 Filehandle filehandle: FileHandle, "The filehandle.";
    20 Fileid fileid: u64, "Number unique within the file system (inode number).";
    21 FilesAvail files_avail: u64, "File slots available to this user.";
    22 FilesFree files_free: u64, "File slots free.";
    23 FilesTotal files_total: u64, "File slots in all.";
    24 FsLocations fs_locations: Box<FsLocations>, "Where this file system is found.";
    25 Hidden hidden: bool, "Hidden, in the sense of Windows.";
    26 Homogeneous homogeneous: bool, "Whether all objects of the file system support the same attributes.";
    27 Maxfilesize maxfilesize: u64, "Largest file size in bytes.";
    28 Maxlink maxlink: u32, "Most hard links of one object.";
    29 Maxname maxname: u32, "Longest name in bytes.";
    30 Maxread maxread: u64, "Largest READ in bytes.";
    31 Maxwrite maxwrite: u64, "Largest WRITE in bytes.";
    32 Mimetype mimetype: Utf8String, "MIME type.";
    33 Mode mode: u32, "Permission bits: the lower 12 bits of a Unix mode.";
    34 NoTrunc no_trunc: bool, "Whether too long names are refused rather than cut.";
    35 Numlinks numlinks: u32, "Number of hard links.";
    36 Owner owner: Utf8String, "Owner: `user@domain` or a number in digits.";
    37 OwnerGroup owner_group: Utf8String, "Group: `group@domain` or a number in digits.";
    38 QuotaAvailHard quota_avail_hard: u64, "Bytes left until writes fail.";
    39 QuotaAvailSoft quota_avail_soft: u64, "Bytes left until the user is warned.";
    40 QuotaUsed quota_used: u64, "Bytes used of the quota.";
    41 Rawdev rawdev: SpecData, "Device numbers of a device node.";
    42 SpaceAvail space_avail: u64, "Bytes available to this user.";
    43 SpaceFree space_free: u64, "Bytes free.";
    44 SpaceTotal space_total: u64, "Bytes in all.";
    45 SpaceUsed space_used: u64, "Bytes this object occupies.";
    46 System system: bool, "A system file, in the sense of Windows.";
    47 TimeAccess time_access: NfsTime, "When last read.";
    48 TimeAccessSet time_access_set: SetTime, "Sets `time_access`; write-only.";
    49 TimeBackup time_backup: NfsTime, "When last backed up.";
    50 TimeCreate time_create: NfsTime, "When created.";
    51 TimeDelta time_delta: NfsTime, "Granularity of the server's times.";
    52 TimeMetadata time_metadata: NfsTime, "When the metadata last changed.";
    53 TimeModify time_modify: NfsTime, "When the data last changed.";
    54 TimeModifySet time_modify_set: SetTime, "Sets `time_modify`; write-only.";
    55 MountedOnFileid mounted_on_fileid: u64, "`fileid` of the directory this file system is mounted on.";
    56 DirNotifDelay dir_notif_delay: NfsTime, "Delay of notifications on changes of a directory.";
    57 DirentNotifDelay dirent_notif_delay: NfsTime, "Delay of notifications on changes of directory entries.";
    58 Dacl dacl: Acl41, "Access control list: allow and deny.";
    59 Sacl sacl: Acl41, "Access control list: audit and alarm.";
    60 ChangePolicy change_policy: ChangePolicy, "Changes when the policy of the file system changes.";
    61 FsStatus fs_status: Box<FsStatus>, "Status of this replica of the file system.";
    62 FsLayoutTypes fs_layout_types: Vec<LayoutType>, "Layout types of the file system.";
    63 LayoutHint layout_hint: LayoutHint, "Wish for the layout of a new file; write-only.";
    64 LayoutTypes layout_types: Vec<LayoutType>, "Layout types of this file.";
    65 LayoutBlksize layout_blksize: u32, "Preferred block size in bytes.";
    66 LayoutAlignment layout_alignment: u32, "Preferred alignment in bytes.";
    67 FsLocationsInfo fs_locations_info: Box<FsLocationsInfo>, "Where this file system is found, in detail.";
    68 Mdsthreshold mdsthreshold: Vec<ThresholdItem>, "When I/O should pass by the metadata server.";
    69 RetentionGet retention_get: RetentionGet, "How long the file is retained.";
    70 RetentionSet retention_set: RetentionSet, "Sets `retention_get`; write-only.";
    71 RetentevtGet retentevt_get: RetentionGet, "How long the file is retained, event-based.";
    72 RetentevtSet retentevt_set: RetentionSet, "Sets `retentevt_get`; write-only.";
    73 RetentionHold retention_hold: u64, "Administrative holds on removal, one bit each.";
    74 ModeSetMasked mode_set_masked: ModeMasked, "Sets some bits of `mode`; write-only.";
    75 SuppattrExclcreat suppattr_exclcreat: Bitmap, "Attributes allowed in an exclusive create.";
    76 FsCharsetCap fs_charset_cap: u32, "What names may contain: bits of [`FsCharset`](crate::FsCharset).";
    77 CloneBlksize clone_blksize: u32, "Granularity of CLONE in bytes.";
    78 SpaceFreed space_freed: u64, "Bytes that removing this object would free.";
    79 ChangeAttrType change_attr_type: ChangeAttrType, "How `change` grows.";
    80 SecLabel sec_label: SecurityLabel, "Security label.";
    81 ModeUmask mode_umask: ModeUmask, "Mode and umask of a new object (RFC 8275); write-only.";
    82 XattrSupport xattr_support: bool, "Whether extended attributes are supported (RFC 8276).";
    84 TimeDelegAccess time_deleg_access: NfsTime, "`time_access` as the holder of a delegation says (RFC 9754).";
    85 TimeDelegModify time_deleg_modify: NfsTime, "`time_modify` as the holder of a delegation says (RFC 9754).";
    86 OpenArguments open_arguments: Box<OpenArguments>, "What OPEN takes here (RFC 9754).";
}

impl From<Attribute> for u32 {
    fn from(attribute: Attribute) -> u32 {
        attribute as u32
    }
}
