use std::cmp::{Ordering, Reverse};

use clap::ValueEnum;
use vector_client::{AttributeSet, Attributes, Kind, Time};

use super::Ls;
use super::read::Line;
use super::version;

/// By what lines are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    Name,
    None,
    Size,
    Time,
    Version,
    Extension,
    Width,
}

/// Which time is shown and sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Which {
    #[default]
    #[value(name = "mtime", alias = "modification")]
    Modified,
    #[value(name = "atime", aliases = ["access", "use"])]
    Accessed,
    #[value(name = "ctime", alias = "status")]
    Changed,
}

impl Which {
    pub fn of(self, attributes: &Attributes) -> Option<Time> {
        match self {
            Which::Modified => attributes.modified,
            Which::Accessed => attributes.accessed,
            Which::Changed => attributes.changed,
        }
    }

    pub fn attribute(self) -> AttributeSet {
        match self {
            Which::Modified => AttributeSet::MODIFIED,
            Which::Accessed => AttributeSet::ACCESSED,
            Which::Changed => AttributeSet::CHANGED,
        }
    }
}

/// Sorts as `ls` does in the C locale.
pub fn sort(ls: &Ls, lines: &mut [Line]) {
    let sort = ls.sorts_by();
    if sort == Sort::None {
        return;
    }
    let which = ls.which_time();
    let order = |a: &Line, b: &Line| {
        let first = match sort {
            Sort::Time => Reverse(which.of(&a.attributes)).cmp(&Reverse(which.of(&b.attributes))),
            Sort::Size => Reverse(a.attributes.size).cmp(&Reverse(b.attributes.size)),
            Sort::Version => version::compare(&a.name, &b.name),
            Sort::Extension => extension(&a.name).cmp(extension(&b.name)),
            Sort::Width => a.name.len().cmp(&b.name.len()),
            Sort::Name | Sort::None => Ordering::Equal,
        };
        first.then_with(|| a.name.cmp(&b.name))
    };
    lines.sort_by(|a, b| if ls.reverse { order(b, a) } else { order(a, b) });
    if ls.group_directories_first {
        lines.sort_by_key(|line| !leads_to_directory(line));
    }
}

/// From the last dot on.
fn extension(name: &[u8]) -> &[u8] {
    name.iter().rposition(|byte| *byte == b'.').map_or(b"", |dot| &name[dot..])
}

/// Whether it is a directory, or a link to one as far as that was looked at.
fn leads_to_directory(line: &Line) -> bool {
    line.linked.as_ref().unwrap_or(&line.attributes).is(Kind::Directory)
}
