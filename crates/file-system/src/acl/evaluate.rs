use super::{Ace, Acl, Who};
use crate::{Attributes, Caller};

/// What a list says about somebody's rights. What it does not decide is refused, unless something else allows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Rights that are given.
    pub allowed: u32,
    /// Rights that are refused.
    pub denied: u32,
}

impl Acl {
    /// What the list of `attributes` says about `caller`. For each right the first entry that is about him and names it
    /// decides (RFC 8881 §6.2.1).
    pub fn verdict(&self, attributes: &Attributes, caller: &Caller) -> Verdict {
        decide(&self.entries, |who| match who {
            Who::Owner => caller.uid == attributes.uid,
            Who::Group => caller.in_group(attributes.gid),
            Who::Everyone => true,
            Who::User(uid) => caller.uid == uid,
            Who::GroupNumber(gid) => caller.in_group(gid),
        })
    }

    /// Whether some entry gives anybody one of these rights.
    pub fn gives_anybody(&self, rights: u32) -> bool {
        self.entries.iter().any(|ace| ace.is_effective() && ace.allows && ace.rights & rights != 0)
    }
}

/// What those of the entries say that are about `whom`.
pub(super) fn decide(entries: &[Ace], whom: impl Fn(Who) -> bool) -> Verdict {
    let mut verdict = Verdict::default();
    for ace in entries.iter().filter(|ace| ace.is_effective() && whom(ace.who)) {
        let open = ace.rights & !(verdict.allowed | verdict.denied);
        if ace.allows {
            verdict.allowed |= open;
        } else {
            verdict.denied |= open;
        }
    }
    verdict
}
