use super::{Ace, Acl, flag};

impl Acl {
    /// What a new object in a directory with this list gets (RFC 8881 §6.4.3.1); `None` if there is nothing to inherit.
    pub fn inherited(&self, by_directory: bool) -> Option<Acl> {
        let entries: Vec<Ace> = self.entries.iter().filter_map(|ace| inherited(ace, by_directory)).collect();
        (!entries.is_empty()).then_some(Acl { flags: self.flags & Acl::AUTO_INHERIT, entries })
    }
}

fn inherited(ace: &Ace, by_directory: bool) -> Option<Ace> {
    let has = |flags| ace.flags & flags != 0;
    let passed_on = ace.flags & (flag::FILE_INHERIT | flag::DIRECTORY_INHERIT);
    let flags = match (by_directory, has(flag::NO_PROPAGATE_INHERIT)) {
        (false, _) if has(flag::FILE_INHERIT) => 0,
        (true, true) if has(flag::DIRECTORY_INHERIT) => 0,
        (true, false) if has(flag::DIRECTORY_INHERIT) => passed_on,
        // It waits there for files.
        (true, false) if has(flag::FILE_INHERIT) => flag::FILE_INHERIT | flag::INHERIT_ONLY,
        _ => return None,
    };
    Some(Ace { flags: flags | flag::INHERITED, ..*ace })
}
