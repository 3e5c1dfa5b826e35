//! An access control list at the end of an inode.

use file_system::acl::{Ace, Acl, MAX_KEPT_ENTRIES, Who, flag, right};

use super::{BadRow, RowReader, RowWriter};

/// A bit beside [`who_byte`].
const DENIES: u8 = 0x80;

pub(super) fn write(acl: &Acl, row: &mut RowWriter) {
    row.byte(acl.flags).number(acl.entries.len() as u64);
    for ace in &acl.entries {
        let (who, id) = who_byte(ace.who);
        row.byte(if ace.allows { who } else { who | DENIES });
        row.byte(ace.flags).number(u64::from(ace.rights));
        if let Some(id) = id {
            row.number(u64::from(id));
        }
    }
}

pub(super) fn read(reader: &mut RowReader<'_>) -> Result<Acl, BadRow> {
    let flags = reader.byte()?;
    if flags & !(Acl::AUTO_INHERIT | Acl::PROTECTED | Acl::DEFAULTED) != 0 {
        return Err(BadRow("an access control list with unknown flags"));
    }
    let count = reader.number()?;
    if count > MAX_KEPT_ENTRIES as u64 {
        return Err(BadRow("an access control list that is too long"));
    }
    let mut entries = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let who = reader.byte()?;
        let (flags, rights) = (reader.byte()?, reader.number32()?);
        if flags & !flag::ALL != 0 || rights & !right::ALL != 0 {
            return Err(BadRow("an access control entry with unknown bits"));
        }
        let allows = who & DENIES == 0;
        let who = match who & !DENIES {
            1 => Who::Owner,
            2 => Who::Group,
            3 => Who::Everyone,
            4 => Who::User(reader.number32()?),
            5 => Who::GroupNumber(reader.number32()?),
            _ => return Err(BadRow("an access control entry about nobody")),
        };
        entries.push(Ace { allows, flags, rights, who });
    }
    Ok(Acl { flags, entries })
}

fn who_byte(who: Who) -> (u8, Option<u32>) {
    match who {
        Who::Owner => (1, None),
        Who::Group => (2, None),
        Who::Everyone => (3, None),
        Who::User(uid) => (4, Some(uid)),
        Who::GroupNumber(gid) => (5, Some(gid)),
    }
}
