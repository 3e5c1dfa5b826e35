//! From the wire to [`SetAttributes`].

use std::sync::Arc;

use file_system::{SetAttributes, SetTime};
use ids::Timestamp;
use nfs4::{Attribute, AttributeValues, Bitmap, Fattr, ModeMasked, NfsStatus, NfsTime, Utf8String};

use super::acl::{from_acl, from_dacl, named_in};
use super::supported::{SETTABLE, SUPPORTED};
use crate::owner_names::{IdKind, Owners};

/// Attributes to set.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToSet {
    /// For the file system.
    pub attributes: SetAttributes,
    /// Which attributes of the request that covers.
    pub applied: Bitmap,
}

/// The users and groups that `wanted` calls by names. Who they are has to be found out ([`Owners::find_ids`]) before
/// [`to_set`] and [`to_change`], and for those alone who may do what they ask for: name services are slow.
pub(crate) fn named_owners(wanted: &Fattr, owners: &Owners) -> Vec<(IdKind, Utf8String)> {
    if owners.are_numbers() {
        return Vec::new();
    }
    let Ok(values) = decode(wanted) else { return Vec::new() };
    let mut names: Vec<_> = values.acl.iter().flat_map(|acl| named_in(acl)).collect();
    names.extend(values.dacl.iter().flat_map(|dacl| named_in(&dacl.aces)));
    names.extend(values.owner.map(|name| (IdKind::User, name)));
    names.extend(values.owner_group.map(|name| (IdKind::Group, name)));
    names.retain(|(_, name)| !name.as_bytes().iter().all(u8::is_ascii_digit));
    names
}

/// Without users and groups.
pub(crate) fn without_owners(wanted: &Fattr) -> Result<Fattr, NfsStatus> {
    let values = decode(wanted)?;
    Ok(AttributeValues { owner: None, owner_group: None, acl: None, dacl: None, ..values }.to_fattr())
}

/// What a client asks for in CREATE or OPEN: `NFS4ERR_ATTRNOTSUPP` for an attribute that is not supported,
/// `NFS4ERR_INVAL` for one that cannot be set or a value that makes no sense, `NFS4ERR_BADOWNER` for an owner
/// that nobody knows.
pub(crate) fn to_set(wanted: &Fattr, owners: &Owners) -> Result<ToSet, NfsStatus> {
    let values = decode(wanted)?;
    let mut attributes = plain(&values, owners)?;
    if let Some(masked) = values.mode_set_masked {
        attributes.mode = Some(apply(masked, 0)?);
    }
    if let Some(both) = values.mode_umask {
        attributes.mode = Some(checked_mode(both.mode)?);
        attributes.umask = Some(both.umask);
    }
    Ok(ToSet { attributes, applied: wanted.bitmap })
}

/// What a client asks for in SETATTR; fails as [`to_set`]. `mode` is the present mode, needed only if
/// `mode_set_masked` is among the wishes.
pub(crate) fn to_change(wanted: &Fattr, mode: u32, owners: &Owners) -> Result<ToSet, NfsStatus> {
    let values = decode(wanted)?;
    if values.mode_umask.is_some() {
        // Only for what is new (RFC 8275 §5).
        return Err(NfsStatus::Inval);
    }
    let mut attributes = plain(&values, owners)?;
    if let Some(masked) = values.mode_set_masked {
        attributes.mode = Some(apply(masked, mode)?);
    }
    Ok(ToSet { attributes, applied: wanted.bitmap })
}

fn decode(wanted: &Fattr) -> Result<AttributeValues, NfsStatus> {
    if !SUPPORTED.contains_all(wanted.bitmap) {
        return Err(NfsStatus::AttrNotSupp);
    }
    if !SETTABLE.contains_all(wanted.bitmap) {
        return Err(NfsStatus::Inval);
    }
    const MODES: Bitmap = Attribute::set(&[Attribute::Mode, Attribute::ModeSetMasked, Attribute::ModeUmask]);
    // RFC 8881 §6.4.1, RFC 8275 §5.
    if (wanted.bitmap & MODES).len() > 1 {
        return Err(NfsStatus::Inval);
    }
    const LISTS: Bitmap = Attribute::set(&[Attribute::Acl, Attribute::Dacl]);
    if wanted.bitmap.contains_all(LISTS) {
        return Err(NfsStatus::Inval);
    }
    wanted.values().map_err(|error| error.status())
}

/// All but the two indirect ways to say a mode.
fn plain(values: &AttributeValues, owners: &Owners) -> Result<SetAttributes, NfsStatus> {
    let acl = match (&values.acl, &values.dacl) {
        (Some(acl), _) => Some(from_acl(acl, owners)?),
        (None, Some(dacl)) => Some(from_dacl(dacl, owners)?),
        (None, None) => None,
    };
    Ok(SetAttributes {
        mode: values.mode.map(checked_mode).transpose()?,
        umask: None,
        acl: acl.map(Arc::new),
        uid: values.owner.as_ref().map(|name| owners.id(IdKind::User, name)).transpose()?,
        gid: values.owner_group.as_ref().map(|name| owners.id(IdKind::Group, name)).transpose()?,
        size: values.size,
        accessed: values.time_access_set.map(time_to_set).transpose()?,
        modified: values.time_modify_set.map(time_to_set).transpose()?,
        created: values.time_create.map(time).transpose()?,
    })
}

fn checked_mode(mode: u32) -> Result<u32, NfsStatus> {
    if mode & !nfs4::bits::mode::ALL == 0 { Ok(mode) } else { Err(NfsStatus::Inval) }
}

fn apply(masked: ModeMasked, mode: u32) -> Result<u32, NfsStatus> {
    let (value, mask) = (checked_mode(masked.value)?, checked_mode(masked.mask)?);
    // A bit outside of the mask makes no sense (RFC 8881 §6.2.5).
    if value & !mask != 0 {
        return Err(NfsStatus::Inval);
    }
    Ok(mode & !mask | value)
}

fn time_to_set(wanted: nfs4::SetTime) -> Result<SetTime, NfsStatus> {
    match wanted {
        nfs4::SetTime::ServerTime => Ok(SetTime::Now),
        nfs4::SetTime::ClientTime(at) => time(at).map(SetTime::At),
    }
}

fn time(at: NfsTime) -> Result<Timestamp, NfsStatus> {
    if !at.is_valid() {
        return Err(NfsStatus::Inval);
    }
    Ok(Timestamp { seconds: at.seconds, nanos: at.nanoseconds })
}
