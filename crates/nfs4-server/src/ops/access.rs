//! ACCESS (RFC 8881 §18.1).

use file_system::permission::{may_add, may_remove_some};
use file_system::{Access, Attributes, Caller, FileKind, permitted};
use nfs4::bits::access;
use nfs4::{AccessArgs, AccessOk, NfsStatus};

use crate::compound::Compound;
use crate::failure::Failure;
use crate::file_handle::Handle;

/// What each right on a directory takes.
const DIRECTORY: &[(u32, Access)] = &[
    (access::READ, Access::READ),
    (access::LOOKUP, Access::EXECUTE),
    (access::MODIFY, Access(Access::WRITE.0 | Access::EXECUTE.0)),
    (access::EXTEND, Access(Access::WRITE.0 | Access::EXECUTE.0)),
    (access::DELETE, Access(Access::WRITE.0 | Access::EXECUTE.0)),
];

/// What each right on anything else takes.
const FILE: &[(u32, Access)] = &[
    (access::READ, Access::READ),
    (access::MODIFY, Access::WRITE),
    (access::EXTEND, Access::WRITE),
    (access::EXECUTE, Access::EXECUTE),
];

/// What each right on extended attributes takes (RFC 8276 §8.4.1); only files and directories have them.
const XATTRS: &[(u32, Access)] = &[
    (access::XATTR_READ, Access::READ),
    (access::XATTR_WRITE, Access::WRITE),
    (access::XATTR_LIST, Access::READ),
];

/// What nobody may on a volume that is offered for reading only.
const CHANGES: u32 = access::MODIFY | access::EXTEND | access::DELETE | access::XATTR_WRITE;

/// Which of the rights asked for the caller has.
pub(super) async fn run(cx: &mut Compound<'_>, args: &AccessArgs) -> Result<AccessOk, Failure> {
    let known = if cx.minor_version < 2 { 0x3f } else { 0x1ff };
    if args.access & !known != 0 {
        return Err(NfsStatus::Inval.into());
    }
    let mut finer = 0;
    let (rights, xattrs, has) = match cx.current()? {
        Handle::PseudoRoot => (DIRECTORY, XATTRS, Access::READ | Access::EXECUTE),
        Handle::File(file) => {
            let caller = cx.caller(file.volume)?;
            let attributes = cx.transaction(file.volume).await?.attributes(file).await?;
            let (rights, xattrs) = match attributes.kind {
                FileKind::Directory => (DIRECTORY, XATTRS),
                FileKind::Regular => (FILE, XATTRS),
                _ => (FILE, &[][..]),
            };
            if attributes.acl.is_some() && attributes.kind == FileKind::Directory {
                finer = rights_on_entries(&attributes, &caller);
            }
            (rights, xattrs, permitted(&attributes, &caller))
        }
    };
    let mut answer = judge(rights, has, args.access);
    answer.access |= finer & answer.supported;
    let more = judge(xattrs, has, args.access);
    answer = AccessOk { supported: answer.supported | more.supported, access: answer.access | more.access };
    if let Handle::File(file) = cx.current()?
        && cx.check_writable(file.volume).is_err()
    {
        answer.access &= !CHANGES;
    }
    Ok(answer)
}

/// What an access control list lets the caller do with the entries of a directory: adding and removing are different
/// rights there.
fn rights_on_entries(directory: &Attributes, caller: &Caller) -> u32 {
    let mut rights = 0;
    if [FileKind::Regular, FileKind::Directory].iter().any(|&kind| may_add(directory, kind, caller).is_ok()) {
        rights |= access::EXTEND;
    }
    if may_remove_some(directory, caller) {
        rights |= access::DELETE;
    }
    rights
}

fn judge(rights: &[(u32, Access)], has: Access, asked: u32) -> AccessOk {
    let mut answer = AccessOk { supported: 0, access: 0 };
    for &(right, takes) in rights.iter().filter(|(right, _)| asked & right != 0) {
        answer.supported |= right;
        if has.contains(takes) {
            answer.access |= right;
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_follow_from_mode_bits() {
        let all = 0x3f;
        let cases = [
            (DIRECTORY, Access(0), 0),
            (DIRECTORY, Access::READ, access::READ),
            (DIRECTORY, Access::WRITE, 0),
            (DIRECTORY, Access::EXECUTE, access::LOOKUP),
            (DIRECTORY, Access(7), all - access::EXECUTE),
            (FILE, Access::READ, access::READ),
            (FILE, Access::WRITE, access::MODIFY | access::EXTEND),
            (FILE, Access::EXECUTE, access::EXECUTE),
        ];
        for (rights, has, access) in cases {
            assert_eq!(judge(rights, has, all).access, access, "{has:?}");
        }
    }

    #[test]
    fn only_what_was_asked_for_is_answered() {
        let answer = judge(FILE, Access(7), access::READ | access::DELETE);
        assert_eq!(answer, AccessOk { supported: access::READ, access: access::READ });
    }
}
