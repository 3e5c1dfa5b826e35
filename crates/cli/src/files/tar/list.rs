//! What is in an archive.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use tar::EntryType;
use vector_client::{Kind, Time};

use super::archive;
use crate::files::quote::quoted_if_needed;
use crate::files::session::Session;
use crate::files::{date, mode};
use crate::outcome::Failure;

/// How wide owner, group and size are at least.
const WIDTH: usize = 19;

/// Prints the names of members, or all that the archive says of them, as GNU tar does.
pub fn list(session: &mut Session, archive: &OsStr, verbose: bool) -> Result<(), Failure> {
    members(session, archive, verbose).map_err(|error| {
        Failure::failed(format_args!("tar: {}: {error}", quoted_if_needed(archive.as_bytes())))
    })
}

fn members(session: &mut Session, archive: &OsStr, verbose: bool) -> io::Result<()> {
    let mut archive = tar::Archive::new(archive::open(archive, Arc::default())?);
    let (mut width, is_utf8) = (WIDTH, is_utf8());
    let escaped = |name: &[u8]| escaped(name, is_utf8);
    for entry in archive.entries()? {
        let entry = entry?;
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        if verbose {
            session.print(described(&entry, &mut width, &escaped)?);
        }
        session.print(escaped(&entry.path_bytes()));
        let before = match kind {
            EntryType::Link => Some(" link to "),
            EntryType::Symlink => Some(" -> "),
            _ => None,
        };
        if verbose && let (Some(before), Some(link)) = (before, entry.link_name_bytes()) {
            session.print(before);
            session.print(escaped(&link));
        }
        session.print("\n");
    }
    Ok(())
}

fn described(
    entry: &tar::Entry<'_, impl io::Read>,
    width: &mut usize,
    escaped: &impl Fn(&[u8]) -> String,
) -> io::Result<String> {
    let header = entry.header();
    let kind = match header.entry_type() {
        EntryType::Directory => Some(Kind::Directory),
        EntryType::Symlink => Some(Kind::SymbolicLink),
        EntryType::Fifo => Some(Kind::Fifo),
        EntryType::Char => Some(Kind::CharacterDevice),
        EntryType::Block => Some(Kind::BlockDevice),
        _ => Some(Kind::File),
    };
    let mut permissions = mode::text(kind, header.mode()? & 0o7777);
    if header.entry_type() == EntryType::Link {
        permissions.replace_range(..1, "h");
    }
    let name = |name: Option<&[u8]>, id: io::Result<u64>| match name {
        Some(name) if !name.is_empty() => escaped(name),
        _ => id.map_or("?".into(), |id| id.to_string()),
    };
    let user = name(header.username_bytes(), header.uid());
    let group = name(header.groupname_bytes(), header.gid());
    let size = match kind {
        Some(Kind::CharacterDevice | Kind::BlockDevice) => {
            format!("{},{}", header.device_major()?.unwrap_or(0), header.device_minor()?.unwrap_or(0))
        }
        Some(Kind::File) => entry.size().to_string(),
        _ => "0".into(),
    };
    let names = user.len() + group.len() + 2;
    *width = (*width).max(names + size.len());
    let seconds = i64::try_from(header.mtime()?).unwrap_or(i64::MAX);
    let time = date::formatted(Time { seconds, nanoseconds: 0 }, "%Y-%m-%d %H:%M");
    Ok(format!("{permissions} {user}/{group} {size:>0$} {time} ", *width - names))
}

/// Whether the locale shows letters beyond ASCII.
fn is_utf8() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    locale.is_some_and(|locale| locale.to_ascii_lowercase().replace('-', "").contains("utf8"))
}

/// What a name contains must not act on a terminal, nor look like two lines.
fn escaped(name: &[u8], is_utf8: bool) -> String {
    let mut text = String::with_capacity(name.len());
    let octal = |text: &mut String, byte: u8| *text += &format!("\\{byte:03o}");
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\x07' => text += "\\a",
                '\x08' => text += "\\b",
                '\t' => text += "\\t",
                '\n' => text += "\\n",
                '\x0b' => text += "\\v",
                '\x0c' => text += "\\f",
                '\r' => text += "\\r",
                '\\' => text += "\\\\",
                ' '..='~' => text.push(letter),
                _ if is_utf8 && !letter.is_control() => text.push(letter),
                _ => letter.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| octal(&mut text, byte)),
            }
        }
        chunk.invalid().iter().for_each(|byte| octal(&mut text, *byte));
    }
    text
}
