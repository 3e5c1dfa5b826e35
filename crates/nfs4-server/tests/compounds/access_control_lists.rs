//! Access control lists of a volume that offers them.

use bytes::Bytes;
use nfs4::attribute::acl::{ALLOWED, AUDIT, SUPPORT_ALLOW, SUPPORT_DENY, flag, mask};
use nfs4::bits::access;
use nfs4::{
    AccessArgs, Ace, Acl41, Attribute, AttributeValues, Bitmap, CreateArgs, CreateHow, CreateType,
    FileHandle, ModeUmask, NfsArgOp, NfsResOp, NfsStatus, OpenHow, Outcome, StateId, Verifier,
};
use nfs4_client::Session;
use nfs4_client::operations::{open, owner, put_handle, remove, set_attributes};
use nfs4_server::{Export, ExportOptions};
use onc_rpc::{AuthSys, Credential};

use crate::harness::{Running, World, home, outcome, status};

const LISTS: Bitmap =
    Attribute::set(&[Attribute::Acl, Attribute::Aclsupport, Attribute::Dacl, Attribute::Mode]);
const READ_WRITE: u32 = mask::READ_DATA | mask::WRITE_DATA | mask::APPEND_DATA;

/// A server that offers access control lists of `home`, and not of `other`.
pub async fn start_with_lists(world: &World) -> Running {
    let running = world.start().await;
    let options = ExportOptions { acls: true, ..ExportOptions::default() };
    let home = Export::new("home", world.home.clone()).with(options);
    running.server.replace_exports(vec![home, Export::new("other", world.other.clone())]).unwrap();
    running
}

async fn user(running: &Running, uid: u32) -> Session {
    let sys = Credential::Sys(AuthSys::new(uid, uid));
    running.client(&format!("user {uid}")).await.with_credential(sys)
}

fn allow(who: &str, flags: u32, access_mask: u32) -> Ace {
    Ace { ace_type: ALLOWED, flags, access_mask, who: who.into() }
}

fn acl(aces: Vec<Ace>) -> AttributeValues {
    AttributeValues { acl: Some(aces), ..AttributeValues::default() }
}

async fn set(session: &Session, file: &FileHandle, values: &AttributeValues) -> NfsStatus {
    outcome(session, &[put_handle(file), set_attributes(StateId::ANONYMOUS, values)]).await.0
}

async fn has(session: &Session, file: &FileHandle, asked: u32) -> u32 {
    let request = [put_handle(file), NfsArgOp::Access(AccessArgs { access: asked })];
    match session.execute(&request).await.unwrap().pop() {
        Some(NfsResOp::Access(Outcome::Ok(answer))) => answer.access,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn modes_are_seen_as_lists_and_lists_as_modes() {
    let world = World::new().await;
    let running = start_with_lists(&world).await;
    let session = user(&running, 0).await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o640).await.unwrap().handle;
    let said = session.attributes(&file, LISTS).await.unwrap();
    assert_eq!(said.aclsupport, Some(SUPPORT_ALLOW | SUPPORT_DENY));
    let whos: Vec<_> = said.acl.iter().flatten().map(|ace| ace.who.as_str().unwrap().to_owned()).collect();
    assert_eq!(whos, ["OWNER@", "GROUP@", "EVERYONE@"]);

    let list = vec![
        allow("OWNER@", 0, READ_WRITE),
        allow("1000", 0, READ_WRITE),
        allow("GROUP@", 0, mask::READ_DATA),
    ];
    assert_eq!(set(&session, &file, &acl(list.clone())).await, NfsStatus::Ok);
    let said = session.attributes(&file, LISTS).await.unwrap();
    assert_eq!((said.acl.as_ref(), said.mode), (Some(&list), Some(0o640)));
    let protected = Acl41 { flags: 2, aces: list.clone() };
    assert_eq!(said.dacl, Some(protected), "whoever sets acl knows nothing of automatic inheritance");

    let named = user(&running, 1000).await;
    let other = user(&running, 1001).await;
    let rights = access::READ | access::MODIFY | access::EXTEND;
    assert_eq!(has(&named, &file, rights).await, rights);
    assert_eq!(has(&other, &file, rights).await, 0);
    let mode = AttributeValues { mode: Some(0o644), ..AttributeValues::default() };
    assert_eq!(set(&session, &file, &mode).await, NfsStatus::Ok);
    assert_eq!(has(&named, &file, rights).await, access::READ, "no more than the group");
    assert_eq!(has(&other, &file, rights).await, access::READ);
    assert_eq!(set(&named, &file, &acl(list)).await, NfsStatus::Perm);

    let dacl = Acl41 { flags: 1, aces: vec![allow("OWNER@", flag::INHERITED, READ_WRITE)] };
    let values = AttributeValues { dacl: Some(dacl.clone()), ..AttributeValues::default() };
    assert_eq!(set(&session, &file, &values).await, NfsStatus::Ok);
    let said = session.attributes(&file, LISTS).await.unwrap();
    assert_eq!((said.dacl, said.mode), (Some(dacl), Some(0o600)));
}

#[tokio::test]
async fn new_objects_inherit_and_the_list_stands_in_for_the_umask() {
    let world = World::new().await;
    let running = start_with_lists(&world).await;
    let session = user(&running, 0).await;
    let root = home(&session).await;
    let make = |name: &str, attributes: AttributeValues| {
        NfsArgOp::Create(CreateArgs {
            object_type: CreateType::Directory,
            name: name.into(),
            attributes: attributes.to_fattr(),
        })
    };
    let both = flag::FILE_INHERIT | flag::DIRECTORY_INHERIT;
    let list = vec![
        allow("OWNER@", both, READ_WRITE | mask::EXECUTE),
        allow("7", both | flag::IDENTIFIER_GROUP, READ_WRITE),
    ];
    let made = [put_handle(&root), make("d", acl(list.clone())), NfsArgOp::GetFh];
    let Some(NfsResOp::GetFh(Outcome::Ok(directory))) = session.execute(&made).await.unwrap().pop() else {
        panic!("no handle");
    };
    let masked = ModeUmask { mode: 0o777, umask: 0o077 };
    let masked = AttributeValues { mode_umask: Some(masked), ..AttributeValues::default() };
    let made = [put_handle(&directory), make("below", masked.clone()), NfsArgOp::GetFh];
    let Some(NfsResOp::GetFh(Outcome::Ok(below))) = session.execute(&made).await.unwrap().pop() else {
        panic!("no handle");
    };
    let said = session.attributes(&below, LISTS).await.unwrap();
    assert_eq!((said.acl, said.mode), (Some(list), Some(0o700)));
    let inherited = said.dacl.unwrap();
    assert!(inherited.flags == 0 && inherited.aces.iter().all(|ace| ace.flags & flag::INHERITED != 0));
    let made = [put_handle(&root), make("plain", masked), NfsArgOp::GetFh];
    let Some(NfsResOp::GetFh(Outcome::Ok(plain))) = session.execute(&made).await.unwrap().pop() else {
        panic!("no handle");
    };
    assert_eq!(session.attributes(&plain, LISTS).await.unwrap().mode, Some(0o700), "here the umask counts");
}

#[tokio::test]
async fn rights_in_directories_are_told_one_by_one() {
    let world = World::new().await;
    let running = start_with_lists(&world).await;
    let session = user(&running, 0).await;
    let root = home(&session).await;
    let directory = session.make_directory(&root, "d", 0o755).await.unwrap();
    session.create(&directory, "f", 0o644).await.unwrap();
    let named = user(&running, 1000).await;
    let asked = access::LOOKUP | access::EXTEND | access::DELETE | access::MODIFY;
    let search = allow("1000", 0, mask::EXECUTE);
    for (right, expected) in [
        (mask::WRITE_DATA, access::EXTEND | access::DELETE),
        (mask::APPEND_DATA, access::EXTEND),
        (mask::DELETE_CHILD, access::DELETE),
        (mask::READ_DATA, 0),
    ] {
        let list = acl(vec![search.clone(), allow("1000", 0, right)]);
        assert_eq!(set(&session, &directory, &list).await, NfsStatus::Ok);
        assert_eq!(has(&named, &directory, asked).await, expected | access::LOOKUP, "{right:x}");
    }
    let list = acl(vec![search, allow("1000", 0, mask::DELETE_CHILD)]);
    assert_eq!(set(&session, &directory, &list).await, NfsStatus::Ok);
    assert_eq!(status(named.create(&directory, "g", 0o644).await), NfsStatus::Access);
    assert_eq!(outcome(&named, &[put_handle(&directory), remove("f")]).await.0, NfsStatus::Ok);
}

#[tokio::test]
async fn nothing_is_audited_so_there_is_no_sacl() {
    let world = World::new().await;
    let running = start_with_lists(&world).await;
    let session = user(&running, 0).await;
    let root = home(&session).await;
    let sacl = Attribute::set(&[Attribute::Sacl]);
    let said = session.attributes(&root, sacl.with(Attribute::SupportedAttrs)).await.unwrap();
    assert!(said.sacl.is_none());
    let supported = said.supported_attrs.unwrap();
    assert!(supported.contains(Attribute::Dacl) && !supported.contains(Attribute::Sacl));
    let values = AttributeValues { sacl: Some(Acl41 { flags: 0, aces: Vec::new() }), ..Default::default() };
    assert_eq!(set(&session, &root, &values).await, NfsStatus::AttrNotSupp);
}

#[tokio::test]
async fn lists_that_cannot_be_kept_are_refused_and_so_are_all_where_they_are_not_offered() {
    let world = World::new().await;
    let running = start_with_lists(&world).await;
    let session = user(&running, 0).await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o640).await.unwrap().handle;
    let audit = Ace { ace_type: AUDIT, ..allow("1", 0, 1) };
    let cases = [
        (vec![audit], NfsStatus::AttrNotSupp),
        (vec![allow("nobody@example.org", 0, 1)], NfsStatus::BadOwner),
        (vec![allow("1", 0, 1 << 31)], NfsStatus::Inval),
        (vec![allow("1", 0, 1); 129], NfsStatus::Fbig),
    ];
    for (aces, expected) in cases {
        assert_eq!(set(&session, &file, &acl(aces)).await, expected);
    }
    let other = session.lookup(&["other"]).await.unwrap();
    let said = session.attributes(&other, LISTS).await.unwrap();
    assert_eq!((said.acl, said.aclsupport, said.dacl), (None, None, None));
    assert_eq!(set(&session, &other, &acl(Vec::new())).await, NfsStatus::AttrNotSupp);
    let fifo = NfsArgOp::Create(CreateArgs {
        object_type: CreateType::Fifo,
        name: Bytes::from_static(b"fifo").into(),
        attributes: acl(Vec::new()).to_fattr(),
    });
    assert_eq!(outcome(&session, &[put_handle(&other), fifo]).await.0, NfsStatus::AttrNotSupp);
    for how in [
        CreateHow::Unchecked(acl(Vec::new()).to_fattr()),
        CreateHow::Guarded(acl(Vec::new()).to_fattr()),
        CreateHow::Exclusive41 { verifier: Verifier([1; 8]), attributes: acl(Vec::new()).to_fattr() },
    ] {
        let make =
            |directory| [put_handle(directory), open("g", 1, OpenHow::Create(how.clone()), owner("o"))];
        assert_eq!(outcome(&session, &make(&other)).await, (NfsStatus::AttrNotSupp, 2), "{how:?}");
        assert_eq!(status(session.lookup(&["other", "g"]).await), NfsStatus::NoEnt);
        assert_eq!(outcome(&session, &make(&root)).await.0, NfsStatus::Ok, "{how:?}");
        outcome(&session, &[put_handle(&root), remove("g")]).await;
    }
}
