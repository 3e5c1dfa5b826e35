use std::cmp::{Ordering, Reverse};

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
}
