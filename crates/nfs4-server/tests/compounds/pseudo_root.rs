//! The directory above the volumes (RFC 8881 §7).

use std::sync::Arc;

use file_system::memory::MemoryFileSystem;
use ids::VolumeId;
use nfs4::bits::access;
use nfs4::{
    AccessArgs, Attribute, AttributeValues, Bitmap, CreateType, DirEntry, FileHandle, LinkArgs, NfsArgOp,
    NfsResOp, NfsStatus, Outcome, ReadDirOk, SecInfo, SecInfoArgs, SecInfoStyle, StateId, Verifier,
};
use nfs4_client::Session;
use nfs4_client::operations::{
    create, get_attributes, lookup, put_handle, read_directory, remove, rename, set_attributes,
};
use nfs4_server::Export;

use crate::harness::{Running, World, home, outcome};

const WHO: Bitmap = Attribute::set(&[Attribute::Fsid, Attribute::Fileid, Attribute::MountedOnFileid]);

/// A session with the pseudo root's handle.
async fn at_root(running: &Running) -> (Session, FileHandle) {
    let session = running.client("a").await;
    let root = session.lookup(&[]).await.unwrap();
    (session, root)
}

fn names(entries: &[DirEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.name.as_str().unwrap()).collect()
}

async fn page(session: &Session, root: &FileHandle, operation: NfsArgOp) -> Result<ReadDirOk, NfsStatus> {
    let reply = session.compound(&[put_handle(root), operation]).await.unwrap();
    match reply.results.into_iter().next_back() {
        Some(NfsResOp::ReadDir(Outcome::Ok(page))) => Ok(page),
        _ => Err(reply.status),
    }
}

#[tokio::test]
async fn volumes_are_found_by_name_and_lead_back() {
    let world = World::new().await;
    let running = world.start().await;
    let (session, root) = at_root(&running).await;
    let volume = home(&session).await;
    let whole = [NfsArgOp::PutRootFh, lookup("home"), NfsArgOp::LookupParent, NfsArgOp::GetFh];
    let results = session.execute(&whole).await.unwrap();
    assert_eq!(results.last(), Some(&NfsResOp::GetFh(Outcome::Ok(root.clone()))));
    assert_eq!(outcome(&session, &[NfsArgOp::PutRootFh, lookup("nothing")]).await.0, NfsStatus::NoEnt);
    assert_eq!(outcome(&session, &[NfsArgOp::PutRootFh, lookup("..")]).await.0, NfsStatus::BadName);
    assert_eq!(outcome(&session, &[NfsArgOp::PutRootFh, NfsArgOp::LookupParent]).await.0, NfsStatus::NoEnt);
    assert_eq!(session.lookup_in(&root, &["home"]).await.unwrap(), volume);
    running.stop().await;
}

#[tokio::test]
async fn its_listing_shows_the_root_directories_of_the_volumes() {
    let world = World::new().await;
    let running = world.start().await;
    let (session, root) = at_root(&running).await;
    let request = WHO.with(Attribute::Filehandle).with(Attribute::Mode);
    let entries = session.read_directory(&root, request).await.unwrap();
    assert_eq!(names(&entries), ["home", "other"]);
    let own = session.attributes(&root, WHO).await.unwrap();
    for entry in &entries {
        let said = entry.attributes.values().unwrap();
        let handle = session.lookup_in(&root, &[entry.name.as_str().unwrap()]).await.unwrap();
        assert_eq!(said, session.attributes(&handle, request).await.unwrap());
        assert_eq!(said.filehandle, Some(handle));
        assert_eq!(said.mode, Some(0o777));
        assert_ne!(said.fsid, own.fsid);
        assert_ne!(said.mounted_on_fileid, said.fileid);
    }
    assert_ne!(entries[0].attributes, entries[1].attributes);
    running.stop().await;
}

#[tokio::test]
async fn its_listing_comes_in_pages_like_any_other() {
    let world = World::new().await;
    let running = world.start().await;
    let (session, root) = at_root(&running).await;
    let read = |cookie, verifier, max| read_directory(cookie, verifier, max, Bitmap::EMPTY);
    let first = page(&session, &root, read(0, Verifier::default(), 56)).await.unwrap();
    assert_eq!((names(&first.entries), first.eof), (vec!["home"], false));
    let (cookie, verifier) = (first.entries[0].cookie, first.cookie_verifier);
    let second = page(&session, &root, read(cookie, verifier, 56)).await.unwrap();
    assert_eq!((names(&second.entries), second.eof), (vec!["other"], true));
    let end = page(&session, &root, read(second.entries[0].cookie, verifier, 56)).await.unwrap();
    assert_eq!((end.entries.len(), end.eof), (0, true));
    for (cookie, verifier, max, status) in [
        (0, Verifier::default(), 30, NfsStatus::TooSmall),
        (1, verifier, 4096, NfsStatus::BadCookie),
        (cookie + 2, verifier, 4096, NfsStatus::BadCookie),
        (u64::MAX, verifier, 4096, NfsStatus::BadCookie),
        (cookie, Verifier::default(), 4096, NfsStatus::NotSame),
    ] {
        assert_eq!(page(&session, &root, read(cookie, verifier, max)).await, Err(status), "cookie {cookie}");
    }
    running.stop().await;
}

#[tokio::test]
async fn nobody_changes_it() {
    let world = World::new().await;
    let running = world.start().await;
    let (session, root) = at_root(&running).await;
    let volume = home(&session).await;
    let file = session.create(&volume, "f", 0o644).await.unwrap().handle;
    let link = || NfsArgOp::Link(LinkArgs { new_name: "x".into() });
    let mode = AttributeValues { mode: Some(0o777), ..AttributeValues::default() };
    let save = |handle: &FileHandle| [put_handle(handle), NfsArgOp::SaveFh];
    let on_root = |operation: NfsArgOp| vec![put_handle(&root), operation];
    let after = |handle: &FileHandle, operation: NfsArgOp| [&save(handle)[..], &on_root(operation)].concat();
    let cases = [
        (on_root(create(CreateType::Directory, "x", 0o755)), NfsStatus::Rofs),
        (on_root(create(CreateType::Directory, "home", 0o755)), NfsStatus::Exist),
        (on_root(remove("home")), NfsStatus::Rofs),
        (on_root(set_attributes(StateId::ANONYMOUS, &mode)), NfsStatus::Rofs),
        (after(&root, rename("home", "x")), NfsStatus::Rofs),
        (after(&volume, rename("f", "x")), NfsStatus::Xdev),
        (after(&file, link()), NfsStatus::Xdev),
        ([&save(&root)[..], &[put_handle(&volume), link()]].concat(), NfsStatus::IsDir),
        ([&save(&root)[..], &[put_handle(&volume), rename("home", "x")]].concat(), NfsStatus::Xdev),
        (on_root(NfsArgOp::ReadLink), NfsStatus::WrongType),
    ];
    for (request, status) in cases {
        assert_eq!(outcome(&session, &request).await.0, status, "{request:?}");
    }
    let asked = NfsArgOp::Access(AccessArgs { access: 0x3f });
    let results = session.execute(&on_root(asked)).await.unwrap();
    let Some(NfsResOp::Access(Outcome::Ok(granted))) = results.last() else { panic!("{results:?}") };
    assert_eq!(granted.access, access::READ | access::LOOKUP);
    running.stop().await;
}

#[tokio::test]
async fn ways_to_authenticate_are_told_and_the_handle_is_gone() {
    let world = World::new().await;
    let running = world.start().await;
    let (session, _) = at_root(&running).await;
    let of = |name: &str| NfsArgOp::SecInfo(SecInfoArgs { name: name.into() });
    let current = NfsArgOp::SecInfoNoName(SecInfoStyle::CurrentFileHandle);
    let parent = NfsArgOp::SecInfoNoName(SecInfoStyle::Parent);
    for request in [
        vec![NfsArgOp::PutRootFh, of("home")],
        vec![NfsArgOp::PutRootFh, current],
        vec![NfsArgOp::PutRootFh, lookup("home"), parent.clone()],
    ] {
        let results = session.execute(&request).await.unwrap();
        let (NfsResOp::SecInfo(Outcome::Ok(ways)) | NfsResOp::SecInfoNoName(Outcome::Ok(ways))) =
            &results[results.len() - 1]
        else {
            panic!("{results:?}");
        };
        assert_eq!(ways, &[SecInfo::SYS, SecInfo::NONE]);
        let after = [&request[..], &[NfsArgOp::GetFh]].concat();
        assert_eq!(outcome(&session, &after).await.0, NfsStatus::NoFileHandle);
    }
    assert_eq!(outcome(&session, &[NfsArgOp::PutRootFh, of("nothing")]).await.0, NfsStatus::NoEnt);
    assert_eq!(outcome(&session, &[NfsArgOp::PutRootFh, parent]).await.0, NfsStatus::NoEnt);
    running.stop().await;
}

#[tokio::test]
async fn the_public_filehandle_is_the_root() {
    let world = World::new().await;
    let running = world.start().await;
    let (session, root) = at_root(&running).await;
    let results = session.execute(&[NfsArgOp::PutPubFh, NfsArgOp::GetFh]).await.unwrap();
    assert_eq!(results.last(), Some(&NfsResOp::GetFh(Outcome::Ok(root))));
    running.stop().await;
}

#[tokio::test]
async fn volumes_come_and_go_while_the_server_runs() {
    let world = World::new().await;
    let running = world.start().await;
    let (session, root) = at_root(&running).await;
    let volume = home(&session).await;
    let change = Attribute::set(&[Attribute::Change]);
    let before = session.attributes(&root, change).await.unwrap();

    let third = Arc::new(MemoryFileSystem::with(VolumeId(3), world.clock.clone()));
    let exports = vec![Export::new("other", world.other.clone()), Export::new("third", third)];
    running.server.replace_exports(exports).unwrap();
    assert!(session.attributes(&root, change).await.unwrap().change > before.change);
    assert_eq!(names(&session.read_directory(&root, Bitmap::EMPTY).await.unwrap()), ["other", "third"]);
    assert_eq!(outcome(&session, &[put_handle(&volume), get_attributes(WHO)]).await.0, NfsStatus::Stale);

    let exports = vec![Export::new("moved", world.home.clone()), Export::new("other", world.other.clone())];
    running.server.replace_exports(exports).unwrap();
    assert_eq!(session.lookup(&["moved"]).await.unwrap(), volume, "handles do not depend on the name");
    assert_eq!(outcome(&session, &[put_handle(&volume), get_attributes(WHO)]).await.0, NfsStatus::Ok);
    running.stop().await;
}

#[tokio::test]
async fn a_volume_that_cannot_be_read_does_not_hide_the_others() {
    let world = World::new().await;
    let running = world.start().await;
    let (session, root) = at_root(&running).await;
    world.home.refuse_attributes(1);
    let entries = session.read_directory(&root, WHO.with(Attribute::RdattrError)).await.unwrap();
    let said: Vec<_> = entries.iter().map(|entry| entry.attributes.values().unwrap()).collect();
    assert_eq!((said[0].rdattr_error, said[1].rdattr_error), (Some(NfsStatus::Delay), Some(NfsStatus::Ok)));
    assert_eq!((said[0].fileid, said[0].fsid.is_some()), (None, true));
    world.home.refuse_attributes(1);
    let request = read_directory(0, Verifier::default(), 4096, WHO);
    assert_eq!(
        page(&session, &root, request).await,
        Err(NfsStatus::Delay),
        "without rdattr_error it has to fail"
    );
    running.stop().await;
}
