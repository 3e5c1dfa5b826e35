//! Operations on names and attributes of a volume.

use bytes::Bytes;
use nfs4::bits::{access, share_access};
use nfs4::{
    AccessArgs, Attribute, AttributeValues, Bitmap, Component, CreateArgs, CreateType, Fattr, FileHandle,
    FileType, LinkArgs, LinkText, ModeMasked, NfsArgOp, NfsResOp, NfsStatus, OpenHow, Outcome, SecInfoArgs,
    SpecData, StateId, VerifyArgs,
};
use nfs4_client::operations::{
    create, get_attributes, lookup, open, owner, put_handle, read_directory, remove, rename, set_attributes,
    unchecked,
};
use nfs4_client::{Config, Session};
use onc_rpc::{AuthSys, Credential};

use crate::harness::{Running, World, home, outcome, status};

const ABOUT: Bitmap = Attribute::set(&[
    Attribute::Type,
    Attribute::Change,
    Attribute::Size,
    Attribute::Mode,
    Attribute::Numlinks,
    Attribute::Owner,
]);

async fn user(running: &Running, uid: u32) -> Session {
    let sys = AuthSys::new(uid, uid);
    running.client(&format!("user {uid}")).await.with_credential(Credential::Sys(sys))
}

fn none() -> AttributeValues {
    AttributeValues::default()
}

fn verify(attributes: &AttributeValues) -> NfsArgOp {
    NfsArgOp::Verify(VerifyArgs { attributes: attributes.to_fattr() })
}

fn nverify(attributes: &AttributeValues) -> NfsArgOp {
    NfsArgOp::Nverify(VerifyArgs { attributes: attributes.to_fattr() })
}

fn link(name: &str) -> NfsArgOp {
    NfsArgOp::Link(LinkArgs { new_name: name.into() })
}

fn symlink(name: &str, target: &'static str) -> NfsArgOp {
    let target = LinkText(Bytes::from_static(target.as_bytes()));
    NfsArgOp::Create(CreateArgs {
        object_type: CreateType::SymbolicLink(target),
        name: name.into(),
        attributes: Fattr::EMPTY,
    })
}

#[tokio::test]
async fn every_kind_of_object_is_made_and_becomes_the_current_one() {
    let world = World::new().await;
    let running = world.start().await;
    let session = user(&running, 0).await;
    let root = home(&session).await;
    let numbers = SpecData { major: 4, minor: 64 };
    let kinds = [
        (CreateType::Directory, FileType::Directory),
        (CreateType::Fifo, FileType::Fifo),
        (CreateType::Socket, FileType::Socket),
        (CreateType::BlockDevice(numbers), FileType::BlockDevice),
        (CreateType::CharacterDevice(numbers), FileType::CharacterDevice),
    ];
    for (kind, expected) in kinds {
        let name = format!("{expected:?}");
        let request = [put_handle(&root), create(kind.clone(), name.clone(), 0o640), get_attributes(ABOUT)];
        let results = session.execute(&request).await.unwrap();
        let NfsResOp::Create(Outcome::Ok(created)) = &results[1] else { panic!("{results:?}") };
        assert!(created.change_info.atomic && created.change_info.before < created.change_info.after);
        assert_eq!(created.attributes_set, Attribute::set(&[Attribute::Mode]));
        let NfsResOp::GetAttr(Outcome::Ok(said)) = &results[2] else { panic!("{results:?}") };
        let said = said.values().unwrap();
        assert_eq!((said.r#type, said.mode), (Some(expected), Some(0o640)));
        let again = [put_handle(&root), create(kind, name, 0o640)];
        assert_eq!(outcome(&session, &again).await.0, NfsStatus::Exist);
    }
    let request = [put_handle(&root), create(CreateType::Other(1), "regular", 0o640)];
    assert_eq!(outcome(&session, &request).await.0, NfsStatus::BadType);
    let stranger = user(&running, 1000).await;
    let request = [put_handle(&root), create(CreateType::BlockDevice(numbers), "mine", 0o640)];
    assert_eq!(outcome(&stranger, &request).await.0, NfsStatus::Perm, "devices are the superuser's");
    running.stop().await;
}

#[tokio::test]
async fn links_are_read_and_not_followed() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let request = [put_handle(&root), symlink("s", "over/there"), NfsArgOp::ReadLink];
    let results = session.execute(&request).await.unwrap();
    assert_eq!(results[2], NfsResOp::ReadLink(Outcome::Ok(LinkText(Bytes::from_static(b"over/there")))));
    let through = [put_handle(&root), lookup("s"), lookup("x")];
    assert_eq!(outcome(&session, &through).await, (NfsStatus::Symlink, 3));
    let up = [put_handle(&root), lookup("s"), NfsArgOp::LookupParent];
    assert_eq!(outcome(&session, &up).await, (NfsStatus::Symlink, 3));
    assert_eq!(outcome(&session, &[put_handle(&root), symlink("empty", "")]).await.0, NfsStatus::Inval);
    assert_eq!(outcome(&session, &[put_handle(&root), NfsArgOp::ReadLink]).await.0, NfsStatus::WrongType);
    running.stop().await;
}

#[tokio::test]
async fn a_name_that_cannot_be_is_refused_by_every_operation() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let bad: [(Component, NfsStatus); 5] = [
        ("".into(), NfsStatus::Inval),
        (".".into(), NfsStatus::BadName),
        ("..".into(), NfsStatus::BadName),
        ("a/b".into(), NfsStatus::BadName),
        ("x".repeat(256).into(), NfsStatus::NameTooLong),
    ];
    for (name, status) in bad {
        let operations = [
            lookup(name.clone()),
            create(CreateType::Directory, name.clone(), 0o755),
            remove(name.clone()),
            rename(name.clone(), "x"),
            rename("x", name.clone()),
            NfsArgOp::Link(LinkArgs { new_name: name.clone() }),
            NfsArgOp::SecInfo(SecInfoArgs { name: name.clone() }),
            open(name.clone(), share_access::READ, unchecked(0o600), owner("o")),
        ];
        for operation in operations {
            let request = [put_handle(&root), NfsArgOp::SaveFh, operation];
            assert_eq!(outcome(&session, &request).await.0, status, "{:?}", request[2]);
        }
    }
    let longest = "x".repeat(255);
    session.make_directory(&root, longest.clone(), 0o755).await.unwrap();
    session.lookup_in(&root, &[&longest]).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn names_are_linked_moved_and_removed() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap().handle;
    let directory = session.make_directory(&root, "d", 0o755).await.unwrap();
    let into = |handle: &FileHandle, operation| {
        [put_handle(handle), NfsArgOp::SaveFh, put_handle(&directory), operation]
    };

    session.execute(&into(&file, link("g"))).await.unwrap();
    assert_eq!(session.attributes(&file, ABOUT).await.unwrap().numlinks, Some(2));
    assert_eq!(outcome(&session, &into(&file, link("g"))).await.0, NfsStatus::Exist);
    assert_eq!(outcome(&session, &into(&root, link("r"))).await.0, NfsStatus::IsDir);

    let results = session.execute(&into(&root, rename("f", "h"))).await.unwrap();
    let Some(NfsResOp::Rename(Outcome::Ok(moved))) = results.last() else { panic!("{results:?}") };
    assert!(moved.source.before < moved.source.after && moved.target.before < moved.target.after);
    assert_eq!(status(session.lookup_in(&root, &["f"]).await), NfsStatus::NoEnt);
    assert_eq!(session.lookup_in(&directory, &["h"]).await.unwrap(), file);
    assert_eq!(outcome(&session, &into(&root, rename("d", "inside-itself"))).await.0, NfsStatus::Inval);

    assert_eq!(status(session.remove(&root, "d").await), NfsStatus::NotEmpty);
    session.remove(&directory, "g").await.unwrap();
    session.remove(&directory, "h").await.unwrap();
    assert_eq!(status(session.remove(&directory, "h").await), NfsStatus::NoEnt);
    session.remove(&root, "d").await.unwrap();
    assert_eq!(outcome(&session, &[put_handle(&directory), get_attributes(ABOUT)]).await.0, NfsStatus::Stale);
    running.stop().await;
}

#[tokio::test]
async fn nothing_moves_between_volumes() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let other = session.lookup(&["other"]).await.unwrap();
    let file = session.create(&root, "f", 0o644).await.unwrap().handle;
    for (handle, operation) in [(&root, rename("f", "f")), (&file, link("f"))] {
        let request = [put_handle(handle), NfsArgOp::SaveFh, put_handle(&other), operation];
        assert_eq!(outcome(&session, &request).await, (NfsStatus::Xdev, 4));
    }
    let request = [put_handle(&file), lookup("x")];
    assert_eq!(outcome(&session, &request).await.0, NfsStatus::NotDir);
    let request = [put_handle(&file), NfsArgOp::LookupParent];
    assert_eq!(outcome(&session, &request).await.0, NfsStatus::NotDir);
    let request = [put_handle(&root), link("x")];
    assert_eq!(outcome(&session, &request).await.0, NfsStatus::NoFileHandle, "nothing saved");
    running.stop().await;
}

#[tokio::test]
async fn a_listing_that_does_not_fit_into_the_session_is_too_big_not_too_small() {
    let world = World::new().await;
    let running = world.start().await;
    let config = Config { message_bytes: 4096, operations: 64, ..Config::new("small", [1; 8]) };
    let session = running.connect(config).await;
    let root = home(&session).await;
    for n in 0..20 {
        session.make_directory(&root, format!("{n:0>255}"), 0o755).await.unwrap();
    }
    let request = Attribute::set(&[Attribute::Filehandle]);
    assert_eq!(session.read_directory(&root, request).await.unwrap().len(), 20);
    let read = |max| read_directory(0, nfs4::Verifier::default(), max, request);
    assert_eq!(outcome(&session, &[put_handle(&root), read(300)]).await.0, NfsStatus::TooSmall);
    let (mut fitting, mut too_big) = (0, 0);
    for others in 30..60 {
        let mut operations = vec![put_handle(&root)];
        operations.resize(others, get_attributes(request));
        operations.push(read(1 << 20));
        match outcome(&session, &operations).await.0 {
            NfsStatus::Ok => fitting += 1,
            NfsStatus::RepTooBig | NfsStatus::RepTooBigToCache => too_big += 1,
            other => panic!("{other} behind {others} others"),
        }
    }
    assert!(fitting > 0 && too_big > 0);
    running.stop().await;
}

#[tokio::test]
async fn attributes_are_compared_as_a_whole() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap().handle;
    let right = session.attributes(&file, ABOUT).await.unwrap();
    let wrong = AttributeValues { size: Some(1), ..right.clone() };
    let acl = AttributeValues { acl: Some(Vec::new()), ..none() };
    let error = AttributeValues { rdattr_error: Some(NfsStatus::Ok), ..none() };
    let now = AttributeValues { time_modify_set: Some(nfs4::SetTime::ServerTime), ..none() };
    let cases = [
        (verify(&right), NfsStatus::Ok),
        (nverify(&right), NfsStatus::Same),
        (verify(&wrong), NfsStatus::NotSame),
        (nverify(&wrong), NfsStatus::Ok),
        (verify(&none()), NfsStatus::Ok),
        (verify(&acl), NfsStatus::AttrNotSupp),
        (nverify(&error), NfsStatus::Inval),
        (verify(&now), NfsStatus::Inval),
    ];
    for (operation, status) in cases {
        let request = [put_handle(&file), operation];
        assert_eq!(outcome(&session, &request).await.0, status, "{:?}", request[1]);
    }
    let write_only = get_attributes(Attribute::set(&[Attribute::TimeAccessSet]));
    assert_eq!(outcome(&session, &[put_handle(&file), write_only]).await.0, NfsStatus::Inval);
    let all = get_attributes(!Bitmap::EMPTY - Attribute::WRITE_ONLY);
    assert_eq!(
        outcome(&session, &[put_handle(&file), all]).await.0,
        NfsStatus::Ok,
        "unknown ones are left out"
    );
    running.stop().await;
}

#[tokio::test]
async fn attributes_are_set_and_told() {
    let world = World::new().await;
    let running = world.start().await;
    let session = user(&running, 0).await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap().handle;
    let change = AttributeValues {
        mode_set_masked: Some(ModeMasked { value: 0o020, mask: 0o077 }),
        owner: Some("1000".into()),
        ..none()
    };
    let request = [put_handle(&file), set_attributes(StateId::ANONYMOUS, &change), get_attributes(ABOUT)];
    let results = session.execute(&request).await.unwrap();
    let NfsResOp::SetAttr(set) = &results[1] else { panic!("{results:?}") };
    assert_eq!(set.attributes_set, change.bitmap());
    let NfsResOp::GetAttr(Outcome::Ok(said)) = &results[2] else { panic!("{results:?}") };
    let said = said.values().unwrap();
    assert_eq!((said.mode, said.owner), (Some(0o620), Some("1000".into())));
    let unknown = AttributeValues { owner: Some("root@example.org".into()), ..none() };
    assert_eq!(
        status(session.set_attributes(&file, StateId::ANONYMOUS, &unknown).await),
        NfsStatus::BadOwner
    );
    let stranger = user(&running, 7).await;
    let mode = AttributeValues { mode: Some(0), ..none() };
    assert_eq!(status(stranger.set_attributes(&file, StateId::ANONYMOUS, &mode).await), NfsStatus::Perm);
    running.stop().await;
}

#[tokio::test]
async fn cutting_a_file_takes_an_open_for_writing_or_permission() {
    let world = World::new().await;
    let running = world.start().await;
    let session = user(&running, 1000).await;
    let root = home(&session).await;
    let writable = session.create(&root, "f", 0o444).await.unwrap();
    let size = |size| AttributeValues { size: Some(size), ..none() };
    session.set_attributes(&writable.handle, writable.state_id, &size(10)).await.unwrap();
    assert_eq!(session.attributes(&writable.handle, ABOUT).await.unwrap().size, Some(10));
    let other = session.create(&root, "other", 0o644).await.unwrap();
    let stranger = user(&running, 7).await;
    let strange = stranger.open(&root, "f", share_access::READ, OpenHow::NoCreate, owner("o")).await.unwrap();
    let cut =
        async |session: &Session, id| status(session.set_attributes(&writable.handle, id, &size(0)).await);
    assert_eq!(cut(&stranger, strange.state_id).await, NfsStatus::OpenMode, "open for reading only");
    assert_eq!(cut(&stranger, StateId::ANONYMOUS).await, NfsStatus::Access);
    assert_eq!(cut(&session, other.state_id).await, NfsStatus::BadStateId, "of another file");
    let mode = AttributeValues { mode: Some(0o400), ..none() };
    session.set_attributes(&writable.handle, other.state_id, &mode).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn rights_depend_on_who_asks() {
    let world = World::new().await;
    let running = world.start().await;
    let owning = user(&running, 1000).await;
    let root = home(&owning).await;
    let file = owning.create(&root, "f", 0o640).await.unwrap().handle;
    let all = access::READ | access::MODIFY | access::EXTEND | access::EXECUTE;
    for (uid, expected) in [(1000, all - access::EXECUTE), (7, 0), (0, all - access::EXECUTE)] {
        let session = user(&running, uid).await;
        let request = [put_handle(&file), NfsArgOp::Access(AccessArgs { access: 0x3f })];
        let results = session.execute(&request).await.unwrap();
        let NfsResOp::Access(Outcome::Ok(granted)) = &results[1] else { panic!("{results:?}") };
        assert_eq!((granted.supported, granted.access), (all, expected), "user {uid}");
    }
    let request = [put_handle(&file), NfsArgOp::Access(AccessArgs { access: 0x200 })];
    assert_eq!(outcome(&owning, &request).await.0, NfsStatus::Inval);
    running.stop().await;
}
