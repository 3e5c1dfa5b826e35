//! Making, linking, renaming and removing.

use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, Mode, linkat, mkdirat, renameat, statat, symlinkat, unlinkat};
use rustix::io::Errno;

use super::attributes::{check_mode, set_mode};
use super::content::by_number;
use super::place::{Found, Place, local, read_link};
use super::vector::Vector;
use crate::step::Done;
use crate::{Error, Target};

impl Vector<'_> {
    pub fn make_directory(&mut self, target: &Target, mode: u32) -> Result<Done, Error> {
        let place = self.named(target)?;
        make_directory(&place, mode).map_err(|errno| local(target, errno))?;
        Ok(Done::Nothing)
    }

    pub fn make_symbolic_link(&mut self, target: &Target, text: &Bytes) -> Result<Done, Error> {
        let place = self.named(target)?;
        if text.is_empty() {
            return Err(local(target, Errno::INVAL));
        }
        symlinkat(&text[..], &place.directory, &place.name[..]).map_err(|errno| local(target, errno))?;
        Ok(Done::Nothing)
    }

    pub fn text_of(&mut self, target: &Target) -> Result<Done, Error> {
        let text = match self.find(target, false)? {
            Found::Open(_) => Err(Errno::INVAL),
            Found::Missing(_) => Err(Errno::NOENT),
            Found::There(place, _) => read_link(&place),
        };
        Ok(Done::Link(text.map_err(|errno| local(target, errno))?.into()))
    }

    pub fn hard_link(&mut self, existing: &Target, new: &Target) -> Result<Done, Error> {
        self.open_file(existing)?;
        self.parent_and_name(new)?;
        let found = self.find(existing, false)?;
        let place = match &found {
            Found::Missing(_) => return Err(local(existing, Errno::NOENT)),
            _ => self.named(new)?,
        };
        let (directory, name) = (&place.directory, &place.name[..]);
        let linked = match &found {
            Found::Open(file) => linkat(CWD, by_number(&file.fd), directory, name, AtFlags::SYMLINK_FOLLOW),
            Found::There(from, _) | Found::Missing(from) => {
                linkat(&from.directory, &from.name[..], directory, name, AtFlags::empty())
            }
        };
        linked.map_err(|errno| local(new, errno))?;
        Ok(Done::Nothing)
    }

    pub fn remove(&mut self, target: &Target) -> Result<Done, Error> {
        let Place { directory, name } = self.named(target)?;
        let removed = match unlinkat(&directory, &name[..], AtFlags::empty()) {
            Err(Errno::ISDIR) => {
                self.forget_directories();
                unlinkat(&directory, &name[..], AtFlags::REMOVEDIR)
            }
            // It may have been a link.
            result => {
                self.forget_links();
                result
            }
        };
        removed.map_err(|errno| local(target, errno))?;
        Ok(Done::Nothing)
    }

    pub fn rename(&mut self, from: &Target, to: &Target) -> Result<Done, Error> {
        self.parent_and_name(from)?;
        self.parent_and_name(to)?;
        let (old, new) = (self.named(from)?, self.named(to)?);
        let renamed = renameat(&old.directory, &old.name[..], &new.directory, &new.name[..]);
        self.forget_directories();
        renamed.map_err(|errno| local(from, errno))?;
        Ok(Done::Nothing)
    }
}

/// With exactly this mode, whatever the `umask` is; a directory that hands down its group goes on doing so.
fn make_directory(place: &Place, mode: u32) -> Result<(), Errno> {
    let mode = check_mode(mode)?;
    mkdirat(&place.directory, &place.name[..], mode)?;
    let made = statat(&place.directory, &place.name[..], AtFlags::SYMLINK_NOFOLLOW)?;
    let made = Mode::from_raw_mode(made.st_mode);
    let wanted = mode | (made & Mode::SGID);
    if made != wanted {
        set_mode(place, wanted)?;
    }
    Ok(())
}
