//! Attributes that are the same for all objects of a server.

use file_system::MAX_NAME;
use file_system::limits::{MAX_FILE_SIZE, MAX_LINKS};
use nfs4::bits::fh_expire;
use nfs4::{AttributeValues, ChangeAttrType, FsCharset, NfsStatus, NfsTime};

use super::supported::{EXCLUSIVE_CREATE, supported};
use crate::shared::Shared;

/// All of them.
pub(super) fn of_server(server: &Shared) -> AttributeValues {
    let transfer = u64::from(server.limits.transfer_bytes());
    AttributeValues {
        supported_attrs: Some(supported(2, false)),
        fh_expire_type: Some(fh_expire::PERSISTENT),
        link_support: Some(true),
        symlink_support: Some(true),
        named_attr: Some(false),
        unique_handles: Some(true),
        lease_time: Some(u32::try_from(server.lease.as_secs()).unwrap_or(u32::MAX)),
        rdattr_error: Some(NfsStatus::Ok),
        cansettime: Some(true),
        case_insensitive: Some(false),
        case_preserving: Some(true),
        chown_restricted: Some(true),
        homogeneous: Some(true),
        maxfilesize: Some(MAX_FILE_SIZE),
        maxlink: Some(MAX_LINKS),
        maxname: Some(MAX_NAME as u32),
        maxread: Some(transfer),
        maxwrite: Some(transfer),
        no_trunc: Some(true),
        time_delta: Some(NfsTime { seconds: 0, nanoseconds: 1 }),
        suppattr_exclcreat: Some(EXCLUSIVE_CREATE & supported(2, false)),
        // Names are bytes unless an export says otherwise.
        fs_charset_cap: Some(FsCharset::CONTAINS_NON_UTF8),
        change_attr_type: Some(ChangeAttrType::MonotonicIncr),
        xattr_support: Some(true),
        ..AttributeValues::default()
    }
}
