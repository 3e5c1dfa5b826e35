use std::cmp::{Ordering, Reverse};

use vector_client::Kind;

use super::Ls;
use super::read::Line;

/// Sorts as `ls` does in the C locale.
pub fn sort(ls: &Ls, lines: &mut [Line]) {
    if ls.unsorted {
        return;
    }
    let order = |a: &Line, b: &Line| {
        let first = if ls.by_time {
            Reverse(a.attributes.modified).cmp(&Reverse(b.attributes.modified))
        } else if ls.by_size {
            Reverse(a.attributes.size).cmp(&Reverse(b.attributes.size))
        } else {
            Ordering::Equal
        };
        first.then_with(|| a.name.cmp(&b.name))
    };
    lines.sort_by(|a, b| if ls.reverse { order(b, a) } else { order(a, b) });
    if ls.group_directories_first {
        lines.sort_by_key(|line| !leads_to_directory(line));
    }
}

/// Whether it is a directory, or a link to one as far as that was looked at.
fn leads_to_directory(line: &Line) -> bool {
    line.linked.as_ref().unwrap_or(&line.attributes).is(Kind::Directory)
}
