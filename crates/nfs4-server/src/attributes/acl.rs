//! Access control lists on the wire (RFC 8881 §6.2).
//!
//! An object without a list shows the one that its mode stands for
//! (§6.4.2). Nothing is audited, so entries of those types are refused, and there is no `sacl`.

use std::borrow::Cow;

use file_system::acl::{Ace, Acl, Who, flag, right};
use file_system::{Attributes, FileKind};
use nfs4::attribute::acl::{ALLOWED, DENIED, flag as wire_flag};
use nfs4::{Acl41, NfsStatus, Utf8String};

use crate::owner_names::{IdKind, Owners};

/// The list of an object, or the one that its mode stands for.
pub(super) fn acl_of(attributes: &Attributes) -> Cow<'_, Acl> {
    match attributes.acl.as_deref() {
        Some(acl) => Cow::Borrowed(acl),
        None => Cow::Owned(Acl::from_mode(attributes.mode, attributes.kind == FileKind::Directory)),
    }
}

/// The attribute `acl`, which does not tell what was inherited (§6.4.3.2).
pub(super) fn to_acl(acl: &Acl, owners: &Owners) -> Vec<nfs4::Ace> {
    let inherited = |ace: nfs4::Ace| nfs4::Ace { flags: ace.flags & !wire_flag::INHERITED, ..ace };
    acl.entries.iter().map(|ace| to_ace(ace, owners)).map(inherited).collect()
}

/// The attribute `dacl`.
pub(super) fn to_dacl(acl: &Acl, owners: &Owners) -> Acl41 {
    let aces = acl.entries.iter().map(|ace| to_ace(ace, owners));
    Acl41 { flags: u32::from(acl.flags), aces: aces.collect() }
}

/// A list that was set as `acl`. Who does that knows nothing of automatic inheritance, and keeps it away (§6.4.3.2).
pub(super) fn from_acl(aces: &[nfs4::Ace], owners: &Owners) -> Result<Acl, NfsStatus> {
    let mut entries = from_aces(aces, owners)?;
    entries.iter_mut().for_each(|ace| ace.flags &= !flag::INHERITED);
    Ok(Acl { flags: Acl::PROTECTED, entries })
}

/// A list that was set as `dacl`.
pub(super) fn from_dacl(acl: &Acl41, owners: &Owners) -> Result<Acl, NfsStatus> {
    let flags = u8::try_from(acl.flags).map_err(|_| NfsStatus::Inval)?;
    Ok(Acl { flags, entries: from_aces(&acl.aces, owners)? })
}

fn from_aces(aces: &[nfs4::Ace], owners: &Owners) -> Result<Vec<Ace>, NfsStatus> {
    // Before anything is allocated.
    if aces.len() > file_system::acl::MAX_ENTRIES {
        return Err(NfsStatus::Fbig);
    }
    aces.iter().map(|ace| from_ace(ace, owners)).collect()
}

/// The users and groups that a list names, if it is not too long to be kept.
pub(super) fn named_in(aces: &[nfs4::Ace]) -> impl Iterator<Item = (IdKind, Utf8String)> {
    let kept: &[nfs4::Ace] = if aces.len() > file_system::acl::MAX_ENTRIES { &[] } else { aces };
    kept.iter().map(|ace| (kind(ace), ace.who.clone()))
}

fn kind(ace: &nfs4::Ace) -> IdKind {
    if ace.flags & wire_flag::IDENTIFIER_GROUP != 0 { IdKind::Group } else { IdKind::User }
}

/// `NFS4ERR_ATTRNOTSUPP` for a type that is not enforced (§6.2.1.1), `NFS4ERR_INVAL` for bits that do not exist,
/// `NFS4ERR_BADOWNER` for whom nobody knows.
fn from_ace(ace: &nfs4::Ace, owners: &Owners) -> Result<Ace, NfsStatus> {
    let allows = match ace.ace_type {
        ALLOWED => true,
        DENIED => false,
        _ => return Err(NfsStatus::AttrNotSupp),
    };
    // Two flags are for types that are not enforced, and without a meaning for these.
    let known = u32::from(flag::ALL)
        | wire_flag::IDENTIFIER_GROUP
        | wire_flag::SUCCESSFUL_ACCESS
        | wire_flag::FAILED_ACCESS;
    if ace.flags & !known != 0 || ace.access_mask & !right::ALL != 0 {
        return Err(NfsStatus::Inval);
    }
    let who = match ace.who.as_bytes() {
        b"OWNER@" => Who::Owner,
        b"GROUP@" => Who::Group,
        b"EVERYONE@" => Who::Everyone,
        _ => match (kind(ace), owners.id(kind(ace), &ace.who)?) {
            (IdKind::User, uid) => Who::User(uid),
            (IdKind::Group, gid) => Who::GroupNumber(gid),
        },
    };
    Ok(Ace { allows, flags: ace.flags as u8 & flag::ALL, rights: ace.access_mask, who })
}

fn to_ace(ace: &Ace, owners: &Owners) -> nfs4::Ace {
    let (who, is_group) = match ace.who {
        Who::Owner => (Utf8String::from("OWNER@"), false),
        Who::Group => (Utf8String::from("GROUP@"), false),
        Who::Everyone => (Utf8String::from("EVERYONE@"), false),
        Who::User(uid) => (owners.name(IdKind::User, uid), false),
        Who::GroupNumber(gid) => (owners.name(IdKind::Group, gid), true),
    };
    nfs4::Ace {
        ace_type: if ace.allows { ALLOWED } else { DENIED },
        flags: u32::from(ace.flags) | if is_group { wire_flag::IDENTIFIER_GROUP } else { 0 },
        access_mask: ace.rights,
        who,
    }
}

#[cfg(test)]
mod tests {
    use nfs4::attribute::acl::{ALARM, AUDIT};

    use super::*;

    const NUMBERS: Owners = Owners::NUMBERS;

    fn ace(who: &str, flags: u32) -> nfs4::Ace {
        nfs4::Ace { ace_type: ALLOWED, flags, access_mask: 0x1f_07ff, who: who.into() }
    }

    #[test]
    fn lists_survive_the_wire() {
        let group = wire_flag::IDENTIFIER_GROUP;
        let whole = Acl41 {
            flags: 7,
            aces: vec![
                ace("OWNER@", 0x8f),
                nfs4::Ace { ace_type: DENIED, ..ace("1000", 3) },
                ace("1000", group),
                ace("GROUP@", 0),
                ace("EVERYONE@", 0),
            ],
        };
        let read = from_dacl(&whole, &NUMBERS).unwrap();
        assert_eq!(read.entries[1].who, Who::User(1000));
        assert_eq!(read.entries[2].who, Who::GroupNumber(1000));
        assert_eq!(to_dacl(&read, &NUMBERS), whole);
        let read = from_acl(&whole.aces, &NUMBERS).unwrap();
        assert_eq!(read.flags, Acl::PROTECTED);
        let mut shown = whole.aces.clone();
        shown[0].flags = 0x0f;
        assert_eq!(to_acl(&read, &NUMBERS), shown);
        assert_eq!(
            to_acl(&from_dacl(&whole, &NUMBERS).unwrap(), &NUMBERS),
            shown,
            "what was inherited is not told in acl"
        );
        assert_eq!(from_acl(&[ace("GROUP@", group | 0x30)], &NUMBERS).unwrap().entries[0].who, Who::Group);
    }

    #[test]
    fn entries_that_cannot_be_kept_are_refused_for_their_reason() {
        let good = ace("1", 0);
        let cases = [
            (nfs4::Ace { ace_type: AUDIT, ..good.clone() }, NfsStatus::AttrNotSupp),
            (nfs4::Ace { ace_type: ALARM, ..good.clone() }, NfsStatus::AttrNotSupp),
            (nfs4::Ace { ace_type: 4, ..good.clone() }, NfsStatus::AttrNotSupp),
            (ace("1", 0x100), NfsStatus::Inval),
            (nfs4::Ace { access_mask: 0x800, ..good.clone() }, NfsStatus::Inval),
            (ace("INTERACTIVE@", 0), NfsStatus::BadOwner),
            (ace("anna@example.org", 0), NfsStatus::BadOwner),
            (ace("", 0x40), NfsStatus::BadOwner),
        ];
        for (ace, status) in cases {
            assert_eq!(from_acl(&[good.clone(), ace.clone()], &NUMBERS).unwrap_err(), status, "{ace:?}");
        }
        assert_eq!(
            from_dacl(&Acl41 { flags: 256, aces: Vec::new() }, &NUMBERS).unwrap_err(),
            NfsStatus::Inval
        );
        assert_eq!(from_acl(&vec![good; 129], &NUMBERS).unwrap_err(), NfsStatus::Fbig);
    }
}
