//! Every number against the RFC's own XDR text, from which `vectors/generate.py` made the table.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use nfs4::attribute::acl;
use nfs4::{Attribute, CbOpCode, NfsStatus, NoDelegation, OpCode, bits};

fn table() -> BTreeMap<&'static str, u32> {
    let lines = include_str!("vectors/constants.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, value)| (name, value.parse::<u64>().unwrap() as u32))
        .collect()
}

fn with_prefix(prefix: &str) -> BTreeSet<(String, u32)> {
    let rows = table().into_iter().filter(|(name, _)| name.starts_with(prefix));
    rows.map(|(name, value)| (name.to_owned(), value)).collect()
}

#[test]
fn status_codes() {
    let ours: BTreeSet<_> =
        NfsStatus::ALL.iter().map(|status| (status.name().to_owned(), status.code())).collect();
    assert_eq!(ours, &with_prefix("NFS4ERR_") | &with_prefix("NFS4_OK"));
}

#[test]
fn operation_numbers() {
    let fore = OpCode::ALL.iter().filter(|op| !op.is_private());
    let fore: BTreeSet<_> = fore.map(|op| (format!("OP_{op}"), u32::from(*op))).collect();
    let back: BTreeSet<_> = CbOpCode::ALL.iter().map(|op| (format!("OP_{op}"), u32::from(*op))).collect();
    assert_eq!(&fore | &back, with_prefix("OP_"));
}

#[test]
fn attribute_numbers() {
    // Of RFCs without XDR text of their own in the table.
    let later = [
        (Attribute::ModeUmask, 81, "RFC 8275 §4"),
        (Attribute::TimeDelegAccess, 84, "RFC 9754 §6"),
        (Attribute::TimeDelegModify, 85, "RFC 9754 §6"),
        (Attribute::OpenArguments, 86, "RFC 9754 §6"),
    ];
    let all = Attribute::ALL.iter().filter(|attribute| later.iter().all(|(other, ..)| other != *attribute));
    let ours: BTreeSet<_> = all
        .map(|attribute| (format!("FATTR4_{}", attribute.name().to_uppercase()), *attribute as u32))
        .collect();
    assert_eq!(ours, with_prefix("FATTR4_"));
    for (attribute, number, paragraph) in later {
        assert_eq!(attribute as u32, number, "{paragraph}");
    }
}

#[test]
fn minor_versions() {
    let standard = || OpCode::ALL.iter().filter(|op| !op.is_private());
    let first = |minor| standard().filter(move |op| op.first_minor_version() == minor).copied();
    assert_eq!((first(0).next(), first(0).count()), (Some(OpCode::Access), 38), "4.0, and ILLEGAL");
    assert_eq!(
        (first(1).next(), first(1).last()),
        (Some(OpCode::BackchannelCtl), Some(OpCode::ReclaimComplete))
    );
    assert_eq!((first(2).next(), first(2).last()), (Some(OpCode::Allocate), Some(OpCode::RemoveXattr)));
    let private: Vec<_> = OpCode::ALL.iter().filter(|op| op.is_private()).collect();
    assert_eq!(private, [&OpCode::CompoundMode]);
    assert_eq!((OpCode::CompoundMode as u32, OpCode::CompoundMode.first_minor_version()), (0x4b55_0001, 1));
    let obsolete: Vec<_> = OpCode::ALL.iter().filter(|op| op.is_obsolete()).map(|op| op.name()).collect();
    assert_eq!(
        obsolete,
        ["OPEN_CONFIRM", "RENEW", "SETCLIENTID", "SETCLIENTID_CONFIRM", "RELEASE_LOCKOWNER"]
    );
}

/// `"NAME" value, ...`: each value is what the RFC says the name is.
macro_rules! agree {
    ($($name:literal $value:expr,)*) => {{
        let table = table();
        $(assert_eq!(table.get($name), Some(&u32::from($value)), "{}", $name);)*
    }};
}

#[test]
fn enumerations() {
    use nfs4::{
        ChangeAttrType, ChannelDirFromClient, ChannelDirFromServer, DataContent, DelegationType, FileType,
        FsStatusType, GssService, IoAdvice, LayoutIoMode, LayoutType, LockType, NotifyDeviceIdType,
        NotifyType, SecInfoStyle, SetXattrOption, StableHow,
    };
    agree! {
        "NF4REG" FileType::Regular, "NF4DIR" FileType::Directory, "NF4BLK" FileType::BlockDevice,
        "NF4CHR" FileType::CharacterDevice, "NF4LNK" FileType::SymbolicLink, "NF4SOCK" FileType::Socket,
        "NF4FIFO" FileType::Fifo, "NF4ATTRDIR" FileType::AttributeDirectory,
        "NF4NAMEDATTR" FileType::NamedAttribute,
        "NFS4_CHANGE_TYPE_IS_MONOTONIC_INCR" ChangeAttrType::MonotonicIncr,
        "NFS4_CHANGE_TYPE_IS_VERSION_COUNTER" ChangeAttrType::VersionCounter,
        "NFS4_CHANGE_TYPE_IS_VERSION_COUNTER_NOPNFS" ChangeAttrType::VersionCounterNoPnfs,
        "NFS4_CHANGE_TYPE_IS_TIME_METADATA" ChangeAttrType::TimeMetadata,
        "NFS4_CHANGE_TYPE_IS_UNDEFINED" ChangeAttrType::Undefined,
        "STATUS4_FIXED" FsStatusType::Fixed, "STATUS4_UPDATED" FsStatusType::Updated,
        "STATUS4_VERSIONED" FsStatusType::Versioned, "STATUS4_WRITABLE" FsStatusType::Writable,
        "STATUS4_REFERRAL" FsStatusType::Referral,
        "LAYOUT4_NFSV4_1_FILES" LayoutType::Files, "LAYOUT4_OSD2_OBJECTS" LayoutType::Osd2Objects,
        "LAYOUT4_BLOCK_VOLUME" LayoutType::BlockVolume, "LAYOUT4_FLEX_FILES" LayoutType::FlexFiles,
        "LAYOUTIOMODE4_READ" LayoutIoMode::Read, "LAYOUTIOMODE4_RW" LayoutIoMode::ReadWrite,
        "LAYOUTIOMODE4_ANY" LayoutIoMode::Any,
        "UNSTABLE4" StableHow::Unstable, "DATA_SYNC4" StableHow::DataSync, "FILE_SYNC4" StableHow::FileSync,
        "NFS4_CONTENT_DATA" DataContent::Data, "NFS4_CONTENT_HOLE" DataContent::Hole,
        "READ_LT" LockType::Read, "WRITE_LT" LockType::Write, "READW_LT" LockType::ReadWait,
        "WRITEW_LT" LockType::WriteWait,
        "OPEN_DELEGATE_NONE" DelegationType::None, "OPEN_DELEGATE_READ" DelegationType::Read,
        "OPEN_DELEGATE_WRITE" DelegationType::Write, "OPEN_DELEGATE_NONE_EXT" DelegationType::NoneExt,
        "RPC_GSS_SVC_NONE" GssService::None, "RPC_GSS_SVC_INTEGRITY" GssService::Integrity,
        "RPC_GSS_SVC_PRIVACY" GssService::Privacy,
        "CDFC4_FORE" ChannelDirFromClient::Fore, "CDFC4_BACK" ChannelDirFromClient::Back,
        "CDFC4_FORE_OR_BOTH" ChannelDirFromClient::ForeOrBoth,
        "CDFC4_BACK_OR_BOTH" ChannelDirFromClient::BackOrBoth,
        "CDFS4_FORE" ChannelDirFromServer::Fore, "CDFS4_BACK" ChannelDirFromServer::Back,
        "CDFS4_BOTH" ChannelDirFromServer::Both,
        "SECINFO_STYLE4_CURRENT_FH" SecInfoStyle::CurrentFileHandle, "SECINFO_STYLE4_PARENT" SecInfoStyle::Parent,
        "SETXATTR4_EITHER" SetXattrOption::Either, "SETXATTR4_CREATE" SetXattrOption::Create,
        "SETXATTR4_REPLACE" SetXattrOption::Replace,
        "IO_ADVISE4_NORMAL" IoAdvice::Normal, "IO_ADVISE4_SEQUENTIAL" IoAdvice::Sequential,
        "IO_ADVISE4_SEQUENTIAL_BACKWARDS" IoAdvice::SequentialBackwards, "IO_ADVISE4_RANDOM" IoAdvice::Random,
        "IO_ADVISE4_WILLNEED" IoAdvice::WillNeed,
        "IO_ADVISE4_WILLNEED_OPPORTUNISTIC" IoAdvice::WillNeedOpportunistic,
        "IO_ADVISE4_DONTNEED" IoAdvice::DontNeed, "IO_ADVISE4_NOREUSE" IoAdvice::NoReuse,
        "IO_ADVISE4_READ" IoAdvice::Read, "IO_ADVISE4_WRITE" IoAdvice::Write,
        "IO_ADVISE4_INIT_PROXIMITY" IoAdvice::InitProximity,
        "NOTIFY4_CHANGE_CHILD_ATTRS" NotifyType::ChangeChildAttrs,
        "NOTIFY4_CHANGE_DIR_ATTRS" NotifyType::ChangeDirAttrs, "NOTIFY4_REMOVE_ENTRY" NotifyType::RemoveEntry,
        "NOTIFY4_ADD_ENTRY" NotifyType::AddEntry, "NOTIFY4_RENAME_ENTRY" NotifyType::RenameEntry,
        "NOTIFY4_CHANGE_COOKIE_VERIFIER" NotifyType::ChangeCookieVerifier,
        "NOTIFY_DEVICEID4_CHANGE" NotifyDeviceIdType::Change, "NOTIFY_DEVICEID4_DELETE" NotifyDeviceIdType::Delete,
    }
}

#[test]
fn reasons_for_no_delegation() {
    let table = table();
    for (name, reason) in [
        ("WND4_NOT_WANTED", NoDelegation::NOT_WANTED),
        ("WND4_CONTENTION", NoDelegation::Contention { will_push: false }),
        ("WND4_RESOURCE", NoDelegation::Resource { will_signal: false }),
        ("WND4_NOT_SUPP_FTYPE", NoDelegation::NOT_SUPPORTED_FOR_TYPE),
        ("WND4_WRITE_DELEG_NOT_SUPP_FTYPE", NoDelegation::WRITE_NOT_SUPPORTED_FOR_TYPE),
        ("WND4_NOT_SUPP_UPGRADE", NoDelegation::UPGRADE_NOT_SUPPORTED),
        ("WND4_NOT_SUPP_DOWNGRADE", NoDelegation::DOWNGRADE_NOT_SUPPORTED),
        ("WND4_CANCELLED", NoDelegation::CANCELLED),
        ("WND4_IS_DIR", NoDelegation::IS_DIRECTORY),
    ] {
        assert_eq!(xdr::to_bytes(&reason)[..4], table[name].to_be_bytes(), "{name}");
    }
}

#[test]
fn access_control_lists() {
    use acl::{flag, mask};
    agree! {
        "ACE4_ACCESS_ALLOWED_ACE_TYPE" acl::ALLOWED, "ACE4_ACCESS_DENIED_ACE_TYPE" acl::DENIED,
        "ACE4_SYSTEM_AUDIT_ACE_TYPE" acl::AUDIT, "ACE4_SYSTEM_ALARM_ACE_TYPE" acl::ALARM,
        "ACL4_SUPPORT_ALLOW_ACL" acl::SUPPORT_ALLOW, "ACL4_SUPPORT_DENY_ACL" acl::SUPPORT_DENY,
        "ACL4_SUPPORT_AUDIT_ACL" acl::SUPPORT_AUDIT, "ACL4_SUPPORT_ALARM_ACL" acl::SUPPORT_ALARM,
        "ACE4_FILE_INHERIT_ACE" flag::FILE_INHERIT, "ACE4_DIRECTORY_INHERIT_ACE" flag::DIRECTORY_INHERIT,
        "ACE4_NO_PROPAGATE_INHERIT_ACE" flag::NO_PROPAGATE_INHERIT, "ACE4_INHERIT_ONLY_ACE" flag::INHERIT_ONLY,
        "ACE4_SUCCESSFUL_ACCESS_ACE_FLAG" flag::SUCCESSFUL_ACCESS,
        "ACE4_FAILED_ACCESS_ACE_FLAG" flag::FAILED_ACCESS, "ACE4_IDENTIFIER_GROUP" flag::IDENTIFIER_GROUP,
        "ACE4_INHERITED_ACE" flag::INHERITED,
        "ACE4_READ_DATA" mask::READ_DATA, "ACE4_LIST_DIRECTORY" mask::READ_DATA,
        "ACE4_WRITE_DATA" mask::WRITE_DATA, "ACE4_ADD_FILE" mask::WRITE_DATA,
        "ACE4_APPEND_DATA" mask::APPEND_DATA, "ACE4_ADD_SUBDIRECTORY" mask::APPEND_DATA,
        "ACE4_READ_NAMED_ATTRS" mask::READ_NAMED_ATTRS, "ACE4_WRITE_NAMED_ATTRS" mask::WRITE_NAMED_ATTRS,
        "ACE4_EXECUTE" mask::EXECUTE, "ACE4_DELETE_CHILD" mask::DELETE_CHILD,
        "ACE4_READ_ATTRIBUTES" mask::READ_ATTRIBUTES, "ACE4_WRITE_ATTRIBUTES" mask::WRITE_ATTRIBUTES,
        "ACE4_WRITE_RETENTION" mask::WRITE_RETENTION, "ACE4_WRITE_RETENTION_HOLD" mask::WRITE_RETENTION_HOLD,
        "ACE4_DELETE" mask::DELETE, "ACE4_READ_ACL" mask::READ_ACL, "ACE4_WRITE_ACL" mask::WRITE_ACL,
        "ACE4_WRITE_OWNER" mask::WRITE_OWNER, "ACE4_SYNCHRONIZE" mask::SYNCHRONIZE,
        "ACE4_GENERIC_READ" mask::GENERIC_READ, "ACE4_GENERIC_WRITE" mask::GENERIC_WRITE,
        "ACE4_GENERIC_EXECUTE" mask::GENERIC_EXECUTE,
    }
}

#[test]
fn flags_of_files() {
    use bits::{access, fh_expire, mode, open_result, share_access, share_deny};
    use nfs4::FsCharset;
    agree! {
        "ACCESS4_READ" access::READ, "ACCESS4_LOOKUP" access::LOOKUP, "ACCESS4_MODIFY" access::MODIFY,
        "ACCESS4_EXTEND" access::EXTEND, "ACCESS4_DELETE" access::DELETE, "ACCESS4_EXECUTE" access::EXECUTE,
        "OPEN4_SHARE_ACCESS_READ" share_access::READ, "OPEN4_SHARE_ACCESS_WRITE" share_access::WRITE,
        "OPEN4_SHARE_ACCESS_BOTH" share_access::BOTH,
        "OPEN4_SHARE_ACCESS_WANT_DELEG_MASK" share_access::WANT_DELEG_MASK,
        "OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE" share_access::WANT_NO_PREFERENCE,
        "OPEN4_SHARE_ACCESS_WANT_READ_DELEG" share_access::WANT_READ_DELEG,
        "OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG" share_access::WANT_WRITE_DELEG,
        "OPEN4_SHARE_ACCESS_WANT_ANY_DELEG" share_access::WANT_ANY_DELEG,
        "OPEN4_SHARE_ACCESS_WANT_NO_DELEG" share_access::WANT_NO_DELEG,
        "OPEN4_SHARE_ACCESS_WANT_CANCEL" share_access::WANT_CANCEL,
        "OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL" share_access::WANT_SIGNAL_WHEN_AVAILABLE,
        "OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED" share_access::WANT_PUSH_WHEN_UNCONTENDED,
        "OPEN4_SHARE_DENY_NONE" share_deny::NONE, "OPEN4_SHARE_DENY_READ" share_deny::READ,
        "OPEN4_SHARE_DENY_WRITE" share_deny::WRITE, "OPEN4_SHARE_DENY_BOTH" share_deny::BOTH,
        "OPEN4_RESULT_CONFIRM" open_result::CONFIRM, "OPEN4_RESULT_LOCKTYPE_POSIX" open_result::LOCKTYPE_POSIX,
        "OPEN4_RESULT_PRESERVE_UNLINKED" open_result::PRESERVE_UNLINKED,
        "OPEN4_RESULT_MAY_NOTIFY_LOCK" open_result::MAY_NOTIFY_LOCK,
        "FH4_PERSISTENT" fh_expire::PERSISTENT, "FH4_NOEXPIRE_WITH_OPEN" fh_expire::NO_EXPIRE_WITH_OPEN,
        "FH4_VOLATILE_ANY" fh_expire::VOLATILE_ANY, "FH4_VOL_MIGRATION" fh_expire::VOLATILE_MIGRATION,
        "FH4_VOL_RENAME" fh_expire::VOLATILE_RENAME,
        "MODE4_SUID" mode::SET_UID, "MODE4_SGID" mode::SET_GID, "MODE4_SVTX" mode::STICKY,
        "FSCHARSET_CAP4_CONTAINS_NON_UTF8" FsCharset::CONTAINS_NON_UTF8,
        "FSCHARSET_CAP4_ALLOWS_ONLY_UTF8" FsCharset::ALLOWS_ONLY_UTF8,
    }
    let xattr = (access::XATTR_READ, access::XATTR_WRITE, access::XATTR_LIST);
    assert_eq!(xattr, (0x40, 0x80, 0x100), "RFC 8276 §8.4.1");
}

#[test]
fn flags_of_sessions() {
    use bits::{create_session, exchange_id, recall_any, sequence_status};
    agree! {
        "EXCHGID4_FLAG_SUPP_MOVED_REFER" exchange_id::SUPP_MOVED_REFER,
        "EXCHGID4_FLAG_SUPP_MOVED_MIGR" exchange_id::SUPP_MOVED_MIGR,
        "EXCHGID4_FLAG_SUPP_FENCE_OPS" exchange_id::SUPP_FENCE_OPS,
        "EXCHGID4_FLAG_BIND_PRINC_STATEID" exchange_id::BIND_PRINC_STATEID,
        "EXCHGID4_FLAG_USE_NON_PNFS" exchange_id::USE_NON_PNFS,
        "EXCHGID4_FLAG_USE_PNFS_MDS" exchange_id::USE_PNFS_MDS,
        "EXCHGID4_FLAG_USE_PNFS_DS" exchange_id::USE_PNFS_DS, "EXCHGID4_FLAG_MASK_PNFS" exchange_id::MASK_PNFS,
        "EXCHGID4_FLAG_UPD_CONFIRMED_REC_A" exchange_id::UPD_CONFIRMED_REC_A,
        "EXCHGID4_FLAG_CONFIRMED_R" exchange_id::CONFIRMED_R,
        "CREATE_SESSION4_FLAG_PERSIST" create_session::PERSIST,
        "CREATE_SESSION4_FLAG_CONN_BACK_CHAN" create_session::CONN_BACK_CHAN,
        "CREATE_SESSION4_FLAG_CONN_RDMA" create_session::CONN_RDMA,
        "SEQ4_STATUS_CB_PATH_DOWN" sequence_status::CB_PATH_DOWN,
        "SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING" sequence_status::CB_GSS_CONTEXTS_EXPIRING,
        "SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED" sequence_status::CB_GSS_CONTEXTS_EXPIRED,
        "SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED" sequence_status::EXPIRED_ALL_STATE_REVOKED,
        "SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED" sequence_status::EXPIRED_SOME_STATE_REVOKED,
        "SEQ4_STATUS_ADMIN_STATE_REVOKED" sequence_status::ADMIN_STATE_REVOKED,
        "SEQ4_STATUS_RECALLABLE_STATE_REVOKED" sequence_status::RECALLABLE_STATE_REVOKED,
        "SEQ4_STATUS_LEASE_MOVED" sequence_status::LEASE_MOVED,
        "SEQ4_STATUS_RESTART_RECLAIM_NEEDED" sequence_status::RESTART_RECLAIM_NEEDED,
        "SEQ4_STATUS_CB_PATH_DOWN_SESSION" sequence_status::CB_PATH_DOWN_SESSION,
        "SEQ4_STATUS_BACKCHANNEL_FAULT" sequence_status::BACKCHANNEL_FAULT,
        "SEQ4_STATUS_DEVID_CHANGED" sequence_status::DEVID_CHANGED,
        "SEQ4_STATUS_DEVID_DELETED" sequence_status::DEVID_DELETED,
        "RCA4_TYPE_MASK_RDATA_DLG" recall_any::READ_DELEGATIONS,
        "RCA4_TYPE_MASK_WDATA_DLG" recall_any::WRITE_DELEGATIONS,
        "RCA4_TYPE_MASK_DIR_DLG" recall_any::DIR_DELEGATIONS,
        "RCA4_TYPE_MASK_FILE_LAYOUT" recall_any::FILE_LAYOUTS,
        "RCA4_TYPE_MASK_BLK_LAYOUT" recall_any::BLOCK_LAYOUTS,
        "RCA4_TYPE_MASK_OBJ_LAYOUT_MIN" recall_any::OBJECT_LAYOUTS_MIN,
        "RCA4_TYPE_MASK_OBJ_LAYOUT_MAX" recall_any::OBJECT_LAYOUTS_MAX,
        "RCA4_TYPE_MASK_OTHER_LAYOUT_MIN" recall_any::OTHER_LAYOUTS_MIN,
        "RCA4_TYPE_MASK_OTHER_LAYOUT_MAX" recall_any::OTHER_LAYOUTS_MAX,
    }
}

#[test]
fn sizes() {
    agree! {
        "NFS4_FHSIZE" nfs4::FILE_HANDLE_SIZE as u32,
        "NFS4_OPAQUE_LIMIT" nfs4::OPAQUE_LIMIT as u32,
        "NFS4_VERIFIER_SIZE" size_of::<nfs4::Verifier>() as u32,
        "NFS4_SESSIONID_SIZE" size_of::<nfs4::SessionId>() as u32,
        "NFS4_DEVICEID4_SIZE" size_of::<nfs4::DeviceId>() as u32,
        "NFS4_OTHER_SIZE" nfs4::StateId::ANONYMOUS.other.len() as u32,
    }
}
