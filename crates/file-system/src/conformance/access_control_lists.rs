use std::sync::Arc;

use super::scene::*;
use crate::acl::{Ace, Acl, MAX_ENTRIES, Who, flag, right};
use crate::{Authority, Caller, CreateKind, FileSystem, FsError, OpenCreate, SetAttributes};

const READ_WRITE: u32 = right::READ_DATA | right::WRITE_DATA | right::APPEND_DATA;

/// A list that gives user 5 these rights, and owner and group what they need.
fn list(flags: u8, rights: u32) -> Acl {
    let entry = |who, rights| Ace { allows: true, flags, rights, who };
    let own = READ_WRITE | right::EXECUTE;
    Acl {
        flags: 0,
        entries: vec![entry(Who::Owner, own), entry(Who::User(5), rights), entry(Who::Group, own)],
    }
}

fn with(acl: Acl) -> SetAttributes {
    SetAttributes { acl: Some(Arc::new(acl)), ..SetAttributes::default() }
}

pub async fn a_list_is_kept_and_decides(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"x").await;
    assert_eq!(file.acl, None, "nobody has a list unasked");
    let set = with(list(0, READ_WRITE));
    let set = tx.set_attributes(file.file, &set, Authority::Checked).await.unwrap();
    assert_eq!((set.acl.as_deref(), set.mode), (Some(&list(0, READ_WRITE)), 0o770));
    commit(tx).await;
    let mut tx = begin_as(&fs, &user(5)).await;
    assert_eq!(tx.attributes(file.file).await.unwrap(), set);
    assert_eq!(tx.lookup(root, &name("a")).await.unwrap(), set);
    write(&mut tx, file.file, 0, b"y").await.unwrap();
    assert_eq!(read_all(&mut tx, file.file).await, b"y");
    let mut tx = begin_as(&fs, &user(6)).await;
    assert_eq!(read(&mut tx, file.file, 0, 1).await, Err(FsError::AccessDenied));
}

pub async fn a_new_mode_takes_from_those_whom_the_list_names(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"x").await.file;
    tx.set_attributes(file, &with(list(0, READ_WRITE)), Authority::Checked).await.unwrap();
    let set = tx.set_attributes(file, &SetAttributes::with_mode(0o640), Authority::Checked).await.unwrap();
    assert_eq!((set.mode, set.acl.map(|acl| acl.mode())), (0o640, Some(0o640)));
    commit(tx).await;
    let mut tx = begin_as(&fs, &user(5)).await;
    assert_eq!(read_all(&mut tx, file).await, b"x");
    assert_eq!(write(&mut tx, file, 0, b"y").await, Err(FsError::AccessDenied));
    // Both at once: the list counts.
    let mut tx = begin(&fs).await;
    let both = SetAttributes { mode: Some(0o4000), ..with(list(0, READ_WRITE)) };
    assert_eq!(tx.set_attributes(file, &both, Authority::Checked).await.unwrap().mode, 0o4770);
}

pub async fn lists_are_set_by_owners_and_by_those_whom_a_list_lets(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"").await.file;
    commit(tx).await;
    let mut tx = begin_as(&fs, &user(5)).await;
    let open = with(list(0, READ_WRITE | right::WRITE_ACL));
    assert_eq!(tx.set_attributes(file, &open, Authority::Checked).await, Err(FsError::NotPermitted));
    let mut tx = begin(&fs).await;
    tx.set_attributes(file, &open, Authority::Checked).await.unwrap();
    commit(tx).await;
    let mut tx = begin_as(&fs, &user(5)).await;
    let mode = tx.set_attributes(file, &SetAttributes::with_mode(0o6777), Authority::Checked).await.unwrap();
    assert_eq!(mode.mode, 0o777, "who is not the owner makes no programs that run as the owner");
    tx.set_attributes(file, &open, Authority::Checked).await.unwrap();
    let owner = SetAttributes { uid: Some(5), ..SetAttributes::default() };
    assert_eq!(tx.set_attributes(file, &owner, Authority::Checked).await, Err(FsError::NotPermitted));
    let takes = with(list(0, READ_WRITE | right::WRITE_OWNER | right::WRITE_ATTRIBUTES));
    tx.set_attributes(file, &takes, Authority::Checked).await.unwrap();
    let given = SetAttributes { uid: Some(6), ..SetAttributes::default() };
    assert_eq!(tx.set_attributes(file, &given, Authority::Checked).await, Err(FsError::NotPermitted));
    assert_eq!(tx.set_attributes(file, &owner, Authority::Checked).await.unwrap().uid, 5);
}

pub async fn new_objects_inherit_lists(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let directory = make_directory(&mut tx, root, "d", 0o777).await;
    let inheritable = flag::FILE_INHERIT | flag::DIRECTORY_INHERIT;
    tx.set_attributes(directory, &with(list(inheritable, READ_WRITE)), Authority::Checked).await.unwrap();
    let masked = SetAttributes { umask: Some(0o077), ..SetAttributes::with_mode(0o666) };
    let file = tx.open_create(directory, &name("f"), OpenCreate::Guarded, &masked).await.unwrap().attributes;
    assert_eq!(file.mode, 0o660, "the list stands in for the umask");
    let whole = SetAttributes::with_mode(0o777);
    let umask = SetAttributes { umask: Some(0o022), ..whole.clone() };
    let below = tx.create(directory, &name("b"), CreateKind::Directory, &umask).await.unwrap().attributes;
    assert_eq!(below.acl.as_deref().map(|acl| acl.entries[1].flags), Some(inheritable | flag::INHERITED));
    let deep = make_file(&mut tx, below.file, "deep", b"x").await;
    assert_eq!(deep.mode, 0o644, "a mode without a umask is set as it is");
    let own = SetAttributes { acl: Some(Arc::new(list(0, 0))), ..whole };
    let own = tx.open_create(directory, &name("own"), OpenCreate::Guarded, &own).await.unwrap().attributes;
    assert_eq!((own.acl.as_deref(), own.mode), (Some(&list(0, 0)), 0o770), "its own list and no other");
    let nothing = SetAttributes::default();
    let bare =
        tx.open_create(directory, &name("bare"), OpenCreate::Exclusive([1; 8]), &nothing).await.unwrap();
    assert_eq!(bare.attributes.acl, None, "nothing asked for, nothing inherited");
    let link = CreateKind::Symlink("x".into());
    let link = tx.create(directory, &name("link"), link, &masked).await.unwrap().attributes;
    assert_eq!((link.acl, link.mode), (None, 0o777));
    commit(tx).await;
    let mut tx = begin_as(&fs, &Caller::user(5, 5, &[])).await;
    write(&mut tx, file.file, 0, b"y").await.unwrap();
    let again = tx.attributes(below.file).await.unwrap();
    assert_eq!((again.acl, again.mode), (below.acl, below.mode));
    // Without a list to inherit, the umask counts.
    let mut tx = begin(&fs).await;
    let plain = tx.open_create(root, &name("p"), OpenCreate::Guarded, &masked).await.unwrap().attributes;
    assert_eq!((plain.mode, plain.acl), (0o600, None));
}

pub async fn impossible_lists_are_refused(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let entry = Ace { allows: false, flags: 0, rights: right::ALL, who: Who::GroupNumber(u32::MAX - 1) };
    let long = |entries| with(Acl { flags: 7, entries: vec![entry; entries] });
    let kept = tx.set_attributes(root, &long(MAX_ENTRIES), Authority::Checked).await.unwrap();
    assert_eq!(kept.acl.map(|acl| acl.entries.len()), Some(MAX_ENTRIES));
    let over = tx.set_attributes(root, &long(MAX_ENTRIES + 1), Authority::Checked).await;
    assert_eq!(over, Err(FsError::TooLarge));
    let unknown = with(Acl { flags: 8, entries: Vec::new() });
    assert_eq!(tx.set_attributes(root, &unknown, Authority::Checked).await, Err(FsError::InvalidArgument));
    let set = SetAttributes::with_mode(0o777);
    let link = tx.create(root, &name("l"), CreateKind::Symlink("x".into()), &set).await.unwrap().attributes;
    let on_link = tx.set_attributes(link.file, &with(list(0, 0)), Authority::Checked).await;
    assert_eq!(on_link, Err(FsError::InvalidArgument));
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(tx.attributes(root).await.unwrap().acl.map(|acl| acl.flags), Some(7));
}
