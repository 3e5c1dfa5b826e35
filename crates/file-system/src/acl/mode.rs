//! Lists from modes and modes from lists.

use super::evaluate::decide;
use super::{Ace, Acl, Who, flag, right};

/// What everybody has, whatever a list says.
const EVERYBODYS: u32 = right::READ_ATTRIBUTES | right::READ_ACL | right::SYNCHRONIZE;

/// What the owner has, whatever a list says.
const OWNERS: u32 = EVERYBODYS | right::WRITE_ATTRIBUTES | right::WRITE_ACL;

impl Acl {
    /// The list that says what the low nine bits of `mode` say.
    pub fn from_mode(mode: u32, is_directory: bool) -> Acl {
        let group = mode >> 3 & 7;
        let mut entries = Vec::with_capacity(5);
        put_owner(&mut entries, mode, group, is_directory);
        put_others(&mut entries, mode, is_directory);
        Acl { flags: 0, entries }
    }

    /// The low nine mode bits (RFC 8881 §6.3.2): what owner, group and others have by the entries about them and about
    /// everyone.
    pub fn mode(&self) -> u32 {
        let bits = |class: Who| {
            let allowed = decide(&self.entries, |who| who == class || who == Who::Everyone).allowed;
            bits_of(allowed)
        };
        bits(Who::Owner) << 6 | bits(Who::Group) << 3 | bits(Who::Everyone)
    }

    /// The list after the low nine bits of `mode` were set (§6.4.1.1): its [`mode`](Acl::mode) is that one, and nobody whom
    /// it names has more of it than the group, nor the owner more than his bits, whatever else he is. The rest stays, and so
    /// does what new objects inherit.
    pub fn with_mode(&self, mode: u32, is_directory: bool) -> Acl {
        self.shaped(mode, mode >> 3 & 7, is_directory, self.binds_owner(mode >> 6 & 7, is_directory))
    }

    /// Whether the owner has these bits and no others, whichever groups he is in and whoever else he is: entries about others may be about
    /// him, too, until one is for certain.
    fn binds_owner(&self, bits: u32, is_directory: bool) -> bool {
        let (needed, others) = (rights_of(bits, false), rights_of(!bits & 7, is_directory));
        let mut open = needed | others;
        for ace in self.entries.iter().filter(|ace| ace.is_effective()) {
            let wrong = if ace.allows { others } else { needed };
            if ace.rights & open & wrong != 0 {
                return false;
            }
            if matches!(ace.who, Who::Owner | Who::Everyone) {
                open &= !ace.rights;
            }
        }
        open & needed == 0
    }

    /// An inherited list for an object that is made with `mode`, but without a umask, which the list stands in for
    /// (RFC 8275 §6): nobody gets more than the list and the mode say, those whom it names as much as the group
    /// could.
    pub fn limited_to(&self, mode: u32, is_directory: bool) -> Acl {
        self.shaped(self.mode() & mode, mode >> 3 & 7, is_directory, true)
    }

    /// The list with this mode, and those whom it names having at most the bits `most`. It stays as it is if it fits.
    fn shaped(&self, mode: u32, most: u32, is_directory: bool, may_fit: bool) -> Acl {
        let all = rights_of(7, is_directory);
        let limit = rights_of(most, is_directory);
        // What they must not get from what everybody has.
        let refused = rights_of(mode & 7, is_directory) & !limit;
        if may_fit && self.is_shaped(mode, all & !limit, refused) {
            return self.clone();
        }
        let mut entries = Vec::with_capacity(self.entries.len() + 5);
        put_owner(&mut entries, mode, most, is_directory);
        let start = entries.len();
        // What was denied to everyone so far, and so decided for whoever comes later.
        let mut closed = 0;
        for ace in &self.entries {
            if ace.is_effective() && ace.who == Who::Everyone && !ace.allows {
                closed |= ace.rights & all;
            }
            let kept = match ace.who {
                _ if !ace.is_effective() => ace.rights,
                Who::Owner => ace.rights & !(all | OWNERS),
                Who::Group | Who::Everyone => ace.rights & !(all | EVERYBODYS),
                _ if ace.allows => ace.rights & !(all & !limit | closed),
                _ => ace.rights,
            };
            if kept == ace.rights {
                entries.push(*ace);
                continue;
            }
            if ace.is_inheritable() {
                entries.push(Ace { flags: ace.flags | flag::INHERIT_ONLY, ..*ace });
            }
            if kept != 0 {
                let flags = ace.flags & !(flag::INHERITANCE | flag::INHERITED);
                entries.push(Ace { flags, rights: kept, ..*ace });
            }
        }
        if refused != 0 {
            for ace in self.entries.iter().filter(|ace| ace.is_effective() && ace.who.is_named()) {
                let decided = decide(&entries[start..], |who| who == ace.who);
                let rights = refused & !(decided.allowed | decided.denied);
                if rights != 0 {
                    entries.push(Ace { allows: false, flags: 0, rights, who: ace.who });
                }
            }
        }
        put_others(&mut entries, mode, is_directory);
        let inherited = self.entries.iter().any(|ace| ace.flags & flag::INHERITED != 0);
        // Inherited entries do not stand at the end any more, as they must to be inherited anew (§6.4.3.2).
        let flags = if inherited { self.flags | Acl::PROTECTED } else { self.flags };
        Acl { flags, entries }
    }

    /// Whether the list has this mode already and gives nobody whom it names what is `beyond`, nor leaves him what is
    /// `refused`.
    fn is_shaped(&self, mode: u32, beyond: u32, refused: u32) -> bool {
        self.mode() == mode & 0o777
            && self.entries.iter().filter(|ace| ace.is_effective() && ace.who.is_named()).all(|ace| {
                let fits = !ace.allows || ace.rights & beyond == 0;
                // What refuses him counts only if it comes before what everyone is given.
                let about = |who| who == ace.who || who == Who::Everyone;
                fits && (refused == 0 || decide(&self.entries, about).denied & refused == refused)
            })
    }
}

/// The owner gets his bits of `mode`, and none of those that he would have as one of the group, of those named, who have
/// `named`, or of the others.
fn put_owner(entries: &mut Vec<Ace>, mode: u32, named: u32, is_directory: bool) {
    let own = rights_of(mode >> 6 & 7, is_directory);
    let others = rights_of((mode >> 3 | mode | named) & 7, is_directory);
    put(entries, true, own | OWNERS, Who::Owner);
    put(entries, false, others & !own, Who::Owner);
}

/// The group gets its bits, and none of the others'; everyone gets the rest.
fn put_others(entries: &mut Vec<Ace>, mode: u32, is_directory: bool) {
    let (group, others) = (rights_of(mode >> 3 & 7, is_directory), rights_of(mode & 7, is_directory));
    put(entries, true, group | EVERYBODYS, Who::Group);
    put(entries, false, others & !group, Who::Group);
    put(entries, true, others | EVERYBODYS, Who::Everyone);
}

fn put(entries: &mut Vec<Ace>, allows: bool, rights: u32, who: Who) {
    if rights != 0 {
        entries.push(Ace { allows, flags: 0, rights, who });
    }
}

/// What three mode bits stand for.
fn rights_of(bits: u32, is_directory: bool) -> u32 {
    let mut rights = 0;
    if bits & 4 != 0 {
        rights |= right::READ_DATA;
    }
    if bits & 2 != 0 {
        rights |= right::WRITE_DATA | right::APPEND_DATA;
        if is_directory {
            rights |= right::DELETE_CHILD;
        }
    }
    if bits & 1 != 0 {
        rights |= right::EXECUTE;
    }
    rights
}

/// The three mode bits that stand for these rights.
pub(crate) fn bits_of(rights: u32) -> u32 {
    let has = |needed| rights & needed == needed;
    u32::from(has(right::READ_DATA)) << 2
        | u32::from(has(right::WRITE_DATA | right::APPEND_DATA)) << 1
        | u32::from(has(right::EXECUTE))
}
