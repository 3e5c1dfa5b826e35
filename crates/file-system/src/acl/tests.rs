use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::permission::{may_add, may_remove};
use crate::{Access, Attributes, Caller, Device, FileId, permitted};
use ids::{GatewayId, ObjectId, ObjectNumber, Timestamp, VolumeId};

const OWNER: u32 = 7;
const GROUP: u32 = 70;

fn object(kind: FileKind, mode: u32, acl: Option<Acl>) -> Attributes {
    let object = ObjectId { creator: GatewayId(1), number: ObjectNumber(1) };
    let zero = Timestamp::default();
    Attributes {
        file: FileId { volume: VolumeId(1), object },
        kind,
        mode,
        links: 1,
        uid: OWNER,
        gid: GROUP,
        acl: acl.map(Arc::new),
        size: 0,
        space_used: 0,
        device: Device::default(),
        accessed: zero,
        modified: zero,
        changed: zero,
        created: zero,
        change: 1,
        quarantined: false,
    }
}

fn callers() -> Vec<Caller> {
    vec![
        Caller::root(),
        Caller::user(OWNER, 1, &[]),
        Caller::user(OWNER, GROUP, &[80]),
        Caller::user(8, GROUP, &[]),
        Caller::user(8, 1, &[80, GROUP]),
        Caller::user(8, 1, &[80]),
        Caller::user(9, 1, &[]),
    ]
}

fn ace(allows: bool, flags: u8, rights: u32, who: Who) -> Ace {
    Ace { allows, flags, rights, who }
}

fn some_who() -> impl Strategy<Value = Who> {
    prop_oneof![
        Just(Who::Owner),
        Just(Who::Group),
        Just(Who::Everyone),
        prop::sample::select(vec![OWNER, 8, 9]).prop_map(Who::User),
        prop::sample::select(vec![GROUP, 80]).prop_map(Who::GroupNumber),
    ]
}

prop_compose! {
    fn some_ace()(
        allows in prop::bool::weighted(0.7),
        flags in prop_oneof![Just(0_u8), 0_u8..16, (0_u8..16).prop_map(|flags| flags | flag::INHERITED)],
        rights in prop_oneof![0_u32..128, any::<u32>().prop_map(|rights| rights & right::ALL)],
        who in some_who(),
    ) -> Ace {
        Ace { allows, flags, rights, who }
    }
}

fn some_acl() -> impl Strategy<Value = Acl> {
    (0_u8..8, prop::collection::vec(some_ace(), 0..9)).prop_map(|(flags, entries)| Acl { flags, entries })
}

/// Those whom a list names, as callers who are nothing else.
fn named(acl: &Acl) -> impl Iterator<Item = Caller> {
    let effective = acl.entries.iter().filter(|ace| ace.is_effective());
    effective.filter_map(|ace| match ace.who {
        Who::User(uid) if uid != OWNER => Some(Caller::user(uid, 1, &[])),
        Who::GroupNumber(gid) if gid != GROUP => Some(Caller::user(500, gid, &[])),
        _ => None,
    })
}

/// A list without an entry about the owner, who is of the group.
#[test]
fn the_owner_has_his_bits_although_the_list_has_the_mode_already() {
    let rights = right::WRITE_DATA | right::APPEND_DATA | right::EXECUTE;
    let acl = Acl { flags: 0, entries: vec![Ace { allows: true, flags: 0, rights, who: Who::Group }] };
    assert_eq!(acl.mode(), 0o030);
    let file = object(FileKind::Regular, 0o030, Some(acl.with_mode(0o030, false)));
    assert_eq!(permitted(&file, &Caller::user(OWNER, GROUP, &[])), Access(0));
    assert_eq!(permitted(&file, &Caller::user(500, GROUP, &[])), Access(3));
}

/// He may be of a group that the list refuses what everybody has.
#[test]
fn the_owner_has_his_bits_although_the_list_refuses_them_to_a_group_of_his() {
    let write = right::WRITE_DATA | right::APPEND_DATA;
    for who in [Who::Group, Who::GroupNumber(80)] {
        let acl =
            Acl { flags: 0, entries: vec![ace(false, 0, write, who), ace(true, 0, write, Who::Everyone)] };
        let mode = acl.mode();
        let file = object(FileKind::Regular, mode, Some(acl.with_mode(mode, false)));
        assert_eq!(permitted(&file, &Caller::user(OWNER, GROUP, &[80])), Access(2), "{who:?}");
    }
    // And one that would give him what he does not have, if he is not of the one before.
    let refused_first = [(false, 80), (true, 90)];
    let entries = refused_first.map(|(allows, group)| ace(allows, 0, write, Who::GroupNumber(group)));
    let acl = Acl { flags: 0, entries: entries.to_vec() };
    let file = object(FileKind::Regular, 0, Some(acl.with_mode(0, false)));
    assert_eq!(permitted(&file, &Caller::user(OWNER, GROUP, &[90])), Access(0));
}

/// What refuses him comes too late, behind what everybody has.
#[test]
fn whom_a_list_refuses_too_late_has_no_more_than_the_group_all_the_same() {
    let write = right::WRITE_DATA | right::APPEND_DATA;
    let refused_late = [
        ace(false, 0, write, Who::Group),
        ace(true, 0, write, Who::Everyone),
        ace(false, 0, write, Who::User(8)),
    ];
    let acl = Acl { flags: 0, entries: refused_late.to_vec() };
    for new in [acl.limited_to(0o742, false), acl.with_mode(0o202, false)] {
        assert_eq!(new.mode(), 0o202);
        let file = object(FileKind::Regular, 0o202, Some(new));
        assert_eq!(permitted(&file, &Caller::user(8, 1, &[])), Access(0));
        assert_eq!(permitted(&file, &Caller::user(9, 1, &[])), Access(2));
    }
}

proptest! {
    #[test]
    fn a_list_made_of_a_mode_gives_everybody_what_the_mode_gives(mode in 0_u32..0o1000, directory: bool) {
        let kind = if directory { FileKind::Directory } else { FileKind::Regular };
        let acl = Acl::from_mode(mode, directory);
        prop_assert_eq!(acl.mode(), mode);
        prop_assert!(acl.entries.len() <= 5);
        let (plain, listed) = (object(kind, mode, None), object(kind, mode, Some(acl.clone())));
        for caller in callers() {
            prop_assert_eq!(permitted(&listed, &caller), permitted(&plain, &caller));
            if directory {
                let victim = object(FileKind::Regular, 0, None);
                let remove = |directory| may_remove(directory, &victim, &caller);
                prop_assert_eq!(remove(&listed), remove(&plain));
                for kind in [FileKind::Regular, FileKind::Directory] {
                    prop_assert_eq!(may_add(&listed, kind, &caller), may_add(&plain, kind, &caller));
                }
            }
        }
        prop_assert_eq!(&acl.with_mode(0o531, directory).with_mode(mode, directory), &acl);
    }

    #[test]
    fn a_mode_that_is_set_is_the_mode_that_follows(acl in some_acl(), mode in 0_u32..0o1000, directory: bool) {
        let new = acl.with_mode(mode, directory);
        prop_assert_eq!(new.mode(), mode);
        prop_assert_eq!(&new.with_mode(mode, directory), &new, "a second time changes nothing");
        let kind = if directory { FileKind::Directory } else { FileKind::Regular };
        let file = object(kind, mode, Some(new.clone()));
        let owner = permitted(&file, &Caller::user(OWNER, GROUP, &[80]));
        prop_assert_eq!(owner, Access(mode >> 6), "the owner has his bits, whatever else he is");
        for caller in named(&new) {
            let has = permitted(&file, &caller).0;
            prop_assert_eq!(has & !(mode >> 3), 0, "{:?} has more than the group", caller);
        }
    }

    #[test]
    fn a_mode_changes_nothing_of_what_is_inherited(acl in some_acl(), mode in 0_u32..0o1000, of_directory: bool) {
        let new = acl.with_mode(mode, true);
        let entries = |acl: &Acl| acl.inherited(of_directory).map(|acl| acl.entries);
        prop_assert_eq!(entries(&new), entries(&acl));
    }

    #[test]
    fn lists_do_not_grow_with_every_mode(acl in some_acl(), modes in prop::collection::vec(0_u32..0o1000, 40)) {
        let mut all = acl.clone();
        for mode in modes {
            all = all.with_mode(mode, true);
        }
        prop_assert!(all.entries.len() <= 2 * acl.entries.len() + 4 * acl.entries.len() + 5);
    }

    #[test]
    fn a_new_object_gets_no_more_than_list_and_mode_say(acl in some_acl(), mode in 0_u32..0o1000) {
        let new = acl.limited_to(mode, false);
        prop_assert_eq!(new.mode(), acl.mode() & mode);
        let (before, after) =
            (object(FileKind::Regular, 0, Some(acl)), object(FileKind::Regular, 0, Some(new.clone())));
        for caller in named(&new) {
            let (before, after) = (permitted(&before, &caller).0, permitted(&after, &caller).0);
            prop_assert_eq!(after & !(mode >> 3), 0);
            prop_assert_eq!(after & !before, 0, "{:?} got more than the list says", caller);
        }
    }

    #[test]
    fn the_first_entry_that_names_a_right_decides(acl in some_acl(), right in prop::sample::select(vec![1_u32, 2, 4, 32])) {
        let file = object(FileKind::Regular, 0, Some(acl.clone()));
        for caller in callers() {
            let about = |ace: &&Ace| ace.is_effective() && ace.rights & right != 0 && match ace.who {
                Who::Owner => caller.uid == OWNER,
                Who::Group => caller.in_group(GROUP),
                Who::Everyone => true,
                Who::User(uid) => caller.uid == uid,
                Who::GroupNumber(gid) => caller.in_group(gid),
            };
            let first = acl.entries.iter().find(about).map(|ace| ace.allows);
            let verdict = acl.verdict(&file, &caller);
            prop_assert_eq!((verdict.allowed & right != 0, verdict.denied & right != 0), (first == Some(true), first == Some(false)));
        }
    }
}

#[test]
fn entries_are_inherited_by_what_they_are_for() {
    use flag::*;
    let both = FILE_INHERIT | DIRECTORY_INHERIT;
    // Flags in the directory; in a file below it; in a directory below it.
    let cases = [
        (0, None, None),
        (FILE_INHERIT, Some(0), Some(FILE_INHERIT | INHERIT_ONLY)),
        (DIRECTORY_INHERIT, None, Some(DIRECTORY_INHERIT)),
        (both, Some(0), Some(both)),
        (both | INHERIT_ONLY, Some(0), Some(both)),
        (both | NO_PROPAGATE_INHERIT, Some(0), Some(0)),
        (FILE_INHERIT | NO_PROPAGATE_INHERIT, Some(0), None),
        (DIRECTORY_INHERIT | NO_PROPAGATE_INHERIT, None, Some(0)),
        (both | INHERITED, Some(0), Some(both)),
    ];
    for (flags, in_file, in_directory) in cases {
        let acl = Acl {
            flags: Acl::AUTO_INHERIT | Acl::PROTECTED,
            entries: vec![ace(true, flags, right::READ_DATA, Who::User(8))],
        };
        for (by_directory, expected) in [(false, in_file), (true, in_directory)] {
            let found = acl.inherited(by_directory);
            assert_eq!(
                found.as_ref().map(|acl| acl.entries[0].flags),
                expected.map(|f| f | INHERITED),
                "{flags:x}"
            );
            assert!(found.is_none_or(|acl| acl.flags == Acl::AUTO_INHERIT), "a new object is not protected");
        }
    }
}

#[test]
fn what_was_inherited_and_then_changed_is_protected() {
    let inherited = ace(true, flag::INHERITED, right::READ_DATA | right::EXECUTE, Who::User(8));
    let acl = Acl { flags: Acl::AUTO_INHERIT, entries: vec![inherited] };
    assert_eq!(acl.with_mode(0o640, false).flags, Acl::AUTO_INHERIT | Acl::PROTECTED);
    assert_eq!(acl.limited_to(0o777, false), acl, "what fits stays as it is");
}

#[test]
fn those_who_are_named_keep_what_a_new_mode_leaves_the_group() {
    let team = ace(
        true,
        flag::FILE_INHERIT,
        right::READ_DATA | right::WRITE_DATA | right::APPEND_DATA,
        Who::User(8),
    );
    let acl = Acl { flags: 0, entries: vec![team] };
    let new = object(FileKind::Regular, 0o640, Some(acl.with_mode(0o640, false)));
    assert_eq!(permitted(&new, &Caller::user(8, 1, &[])), Access::READ);
    assert_eq!(permitted(&new, &Caller::user(9, 1, &[])), Access(0));
}

#[test]
fn removing_is_allowed_by_either_list_and_by_the_right_to_add_when_none_speaks_of_it() {
    let caller = Caller::user(8, 1, &[]);
    let list = |allowed, denied| {
        let entries = vec![ace(true, 0, allowed, Who::User(8)), ace(false, 0, denied, Who::User(8))];
        Some(Acl { flags: 0, entries })
    };
    let (adds, search) = (right::WRITE_DATA, right::EXECUTE);
    let denied = Err(FsError::AccessDenied);
    let cases = [
        (list(search, 0), None, denied.clone()),
        (list(search | adds, 0), None, Ok(())),
        (list(search | adds, right::DELETE_CHILD), None, denied.clone()),
        (list(search | adds, 0), list(0, right::DELETE), denied.clone()),
        (list(search | right::DELETE_CHILD, 0), list(0, right::DELETE), Ok(())),
        (list(search, right::DELETE_CHILD), list(right::DELETE, 0), Ok(())),
        (list(right::DELETE_CHILD, 0), None, denied.clone()),
    ];
    for (number, (of_directory, of_victim, expected)) in cases.into_iter().enumerate() {
        let directory = object(FileKind::Directory, 0o755, of_directory);
        let victim = object(FileKind::Regular, 0o644, of_victim);
        assert_eq!(may_remove(&directory, &victim, &caller), expected, "case {number}");
        let sticky = object(FileKind::Directory, 0o1755, directory.acl.as_deref().cloned());
        let by_victim = number == 5;
        assert_eq!(may_remove(&sticky, &victim, &caller).is_ok(), by_victim, "case {number}, sticky");
    }
}

#[test]
fn files_and_directories_are_added_by_rights_of_their_own() {
    let caller = Caller::user(8, 1, &[]);
    for (right, file, directory) in [(right::WRITE_DATA, true, false), (right::APPEND_DATA, false, true)] {
        let entries = vec![ace(true, 0, right | right::EXECUTE, Who::User(8))];
        let parent = object(FileKind::Directory, 0o755, Some(Acl { flags: 0, entries }));
        assert_eq!(may_add(&parent, FileKind::Regular, &caller).is_ok(), file);
        assert_eq!(may_add(&parent, FileKind::Directory, &caller).is_ok(), directory);
    }
}

#[test]
fn the_superuser_runs_what_somebody_whom_a_list_names_may_run() {
    let entries = vec![ace(true, 0, right::EXECUTE, Who::User(8))];
    let file = object(FileKind::Regular, 0, Some(Acl { flags: 0, entries }));
    assert_eq!(permitted(&file, &Caller::root()), Access(7));
    assert_eq!(permitted(&object(FileKind::Regular, 0, None), &Caller::root()), Access(6));
}
