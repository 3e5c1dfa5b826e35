//! Tells of a copy as `cp` does.

use vector_client::{Attributes, CopyAct, CopyItem, CopyWatch, Error};

use super::exclude::Excluded;
use super::place::Place;
use super::quote::quoted;
use super::session::{Session, ask, errno_words, words};
use crate::progress::Progress;

/// What is done about something that exists.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub enum Replace {
    #[default]
    Always,
    Never,
    /// If the other one is newer.
    Older,
    /// If it differs.
    Different,
    Ask,
}

impl Replace {
    /// Whether this one goes.
    pub fn allows(self, tool: &str, new: &Attributes, old: &Attributes, shown: &[u8]) -> bool {
        match self {
            Replace::Always => true,
            Replace::Never => false,
            Replace::Different => super::sync::differs(new, old),
            Replace::Older => new.modified > old.modified,
            Replace::Ask => ask(tool, format_args!("overwrite {}?", quoted(shown))),
        }
    }
}

/// What is wished of a copy besides its options.
#[derive(Clone, Copy, Default)]
pub struct Wishes<'a> {
    pub replace: Replace,
    /// What is printed for each before its two names, if anything is.
    pub verbose: Option<&'static str>,
    /// What is not copied, by its name within the argument, which begins with a slash.
    pub excluded: Option<&'a Excluded>,
}

/// Tells of each object of a copy.
pub struct Report<'a> {
    pub session: &'a mut Session,
    pub tool: &'static str,
    /// The arguments: from where, to where.
    pub copies: &'a [(Place, Place)],
    pub wishes: Wishes<'a>,
    pub progress: Progress,
    /// The arguments of which not all was copied.
    pub incomplete: Vec<bool>,
}

impl Report<'_> {
    fn names(&self, item: &CopyItem) -> (Vec<u8>, Vec<u8>) {
        let (from, to) = &self.copies[item.argument];
        (from.show(&item.source), to.show(&item.destination))
    }
}

impl CopyWatch for Report<'_> {
    fn wants(&mut self, item: &CopyItem) -> bool {
        let (from, _) = &self.copies[item.argument];
        !self.wishes.excluded.is_some_and(|excluded| excluded.holds(&from.name_within(&item.source)))
    }

    fn may_replace(&mut self, item: &CopyItem) -> bool {
        let (_, to) = self.names(item);
        let old = item.existing.clone().unwrap_or_default();
        self.session.flush();
        let allowed = self.wishes.replace.allows(self.tool, &item.attributes, &old, &to);
        self.incomplete[item.argument] |= !allowed;
        allowed
    }

    fn moving(&mut self, bytes: u64) {
        self.progress.set(self.session.bytes + bytes, None, true);
    }

    fn copied(&mut self, item: &CopyItem, bytes: u64) {
        self.session.bytes += bytes;
        self.progress.set(self.session.bytes, None, true);
        if let Some(verb) = self.wishes.verbose {
            let (from, to) = self.names(item);
            self.session.say(format_args!("{verb}{} -> {}", quoted(&from), quoted(&to)));
        }
    }

    fn failed(&mut self, item: &CopyItem, act: &CopyAct, error: Option<&Error>) {
        self.incomplete[item.argument] = true;
        let (from, to) = self.names(item);
        let (from, to) = (quoted(&from), quoted(&to));
        let errno = error.map_or(0, Error::errno);
        let why = error.map(words).unwrap_or_default();
        let tool_message = match act {
            CopyAct::Find => format!("cannot stat {from}: {why}"),
            CopyAct::FindDestination => format!("cannot stat {to}: {why}"),
            CopyAct::OmitDirectory => format!("-r not specified; omitting directory {from}"),
            CopyAct::SameFile => format!("{from} and {to} are the same file"),
            CopyAct::IntoItself => {
                let root = quoted(&self.copies[item.argument].1.shown);
                let whole = quoted(&self.copies[item.argument].0.shown);
                format!("cannot copy a directory, {whole}, into itself, {root}")
            }
            CopyAct::Cycle => format!("cannot copy cyclic symbolic link {from}"),
            CopyAct::OverDirectory => format!("cannot overwrite directory {to} with non-directory"),
            CopyAct::OverFile => format!("cannot overwrite non-directory {to} with directory {from}"),
            CopyAct::List => format!("cannot access {from}: {why}"),
            CopyAct::Read if errno == 5 => format!("error reading {from}: {why}"),
            CopyAct::Read => format!("cannot open {from} for reading: {why}"),
            // No space, no quota, too large, the disk.
            CopyAct::Write if matches!(errno, 28 | 122 | 27 | 5) => format!("error writing {to}: {why}"),
            CopyAct::Write => format!("cannot create regular file {to}: {why}"),
            CopyAct::MakeDirectory => format!("cannot create directory {to}: {why}"),
            CopyAct::ReadLink => format!("cannot read symbolic link {from}: {why}"),
            CopyAct::MakeSymbolicLink(text) => {
                format!("cannot create symbolic link {to} to {}: {why}", quoted(text))
            }
            CopyAct::MakeHardLink(first) => {
                let (source, target) = &self.copies[item.argument];
                let first = match first.path().starts_with(target.target.path()) {
                    true => target.show(first),
                    false => source.show(first),
                };
                format!("cannot create hard link {to} to {}: {why}", quoted(&first))
            }
            CopyAct::MakeSpecial => format!("cannot create special file {to}: {}", errno_words(95)),
            CopyAct::Remove => format!("cannot remove {to}: {why}"),
            _ => format!("preserving permissions for {to}: {why}"),
        };
        self.session.complain(tool_message);
    }
}
