//! How volumes are offered: to whom, as whom, for what.

use bytes::Bytes;
use nfs4::bits::{access, share_access};
use nfs4::{
    AccessArgs, Attribute, AttributeValues, Bitmap, Component, CompoundArgs, CompoundRes, CreateType,
    FsCharset, LinkArgs, NfsArgOp, NfsResOp, NfsStatus, OpenHow, Outcome, SecInfoArgs, StableHow, StateId,
    Utf8String, WriteArgs,
};
use nfs4_client::operations::{
    create, get_attributes, lookup, open, owner, put_handle, remove, rename, set_attributes, unchecked,
};
use nfs4_server::{Export, ExportOptions, Squash};
use onc_rpc::{Credential, Procedure};

use crate::harness::{World, home, outcome};

fn home_with(world: &World, options: ExportOptions) -> Vec<Export> {
    vec![Export::new("home", world.home.clone()).with(options), Export::new("other", world.other.clone())]
}

#[tokio::test]
async fn a_volume_of_another_network_does_not_exist_until_it_is_offered_here() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let elsewhere = ExportOptions { networks: vec!["10.0.0.0/8".parse().unwrap()], ..Default::default() };
    running.server.replace_exports(home_with(&world, elsewhere)).unwrap();
    assert_eq!(outcome(&session, &[NfsArgOp::PutRootFh, lookup("home")]).await.0, NfsStatus::NoEnt);
    assert_eq!(outcome(&session, &[put_handle(&root)]).await.0, NfsStatus::Stale);
    let pseudo_root = session.lookup(&[]).await.unwrap();
    let listed = session.read_directory(&pseudo_root, Bitmap::EMPTY).await.unwrap();
    assert_eq!(listed.iter().map(|entry| entry.name.as_str().unwrap()).collect::<Vec<_>>(), ["other"]);
    let here = ExportOptions { networks: vec!["127.0.0.0/8".parse().unwrap()], ..Default::default() };
    running.server.replace_exports(home_with(&world, here)).unwrap();
    assert_eq!(home(&session).await, root);
    running.stop().await;
}

#[tokio::test]
async fn nothing_on_a_read_only_volume_can_be_changed() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o666).await.unwrap();
    session.write(&file, 0, StableHow::FileSync, Bytes::from_static(b"data")).await.unwrap();
    let read_only = ExportOptions { read_only: true, ..Default::default() };
    running.server.replace_exports(home_with(&world, read_only)).unwrap();

    let write = |state_id, stable| {
        NfsArgOp::Write(WriteArgs { state_id, offset: 0, stable, data: Bytes::from_static(b"x") })
    };
    let mode = AttributeValues { mode: Some(0o600), ..AttributeValues::default() };
    let cut = AttributeValues { size: Some(0), ..AttributeValues::default() };
    let changes: Vec<Vec<NfsArgOp>> = vec![
        vec![put_handle(&root), create(CreateType::Directory, "d", 0o755)],
        vec![put_handle(&root), remove("f")],
        vec![put_handle(&root), NfsArgOp::SaveFh, rename("f", "g")],
        vec![
            put_handle(&file.handle),
            NfsArgOp::SaveFh,
            put_handle(&root),
            NfsArgOp::Link(LinkArgs { new_name: "g".into() }),
        ],
        vec![put_handle(&file.handle), set_attributes(StateId::ANONYMOUS, &mode)],
        vec![put_handle(&file.handle), set_attributes(file.state_id, &cut)],
        vec![put_handle(&file.handle), write(file.state_id, StableHow::FileSync)],
        vec![put_handle(&file.handle), write(file.state_id, StableHow::Unstable)],
        vec![put_handle(&file.handle), write(StateId::ANONYMOUS, StableHow::FileSync)],
        vec![put_handle(&root), open("f", share_access::WRITE, OpenHow::NoCreate, owner("w"))],
        vec![put_handle(&root), open("f", share_access::BOTH, unchecked(0o644), owner("w"))],
        vec![put_handle(&root), open("new", share_access::READ, unchecked(0o644), owner("w"))],
    ];
    for change in changes {
        let last = change.len();
        assert_eq!(outcome(&session, &change).await, (NfsStatus::Rofs, last), "{change:?}");
    }
    let read = [put_handle(&root), open("f", share_access::READ, unchecked(0o644), owner("r"))];
    assert_eq!(outcome(&session, &read).await.0, NfsStatus::Ok);
    assert_eq!(session.read(&file, 0, 9).await.unwrap().data.into_bytes(), "data");
    let reply =
        session.compound(&[put_handle(&root), NfsArgOp::Access(AccessArgs { access: 0x3f })]).await.unwrap();
    let Some(NfsResOp::Access(Outcome::Ok(answer))) = reply.results.last() else { panic!("{reply:?}") };
    assert_eq!(answer.access, access::READ | access::LOOKUP);
    running.stop().await;
}

#[tokio::test]
async fn a_squashed_superuser_makes_files_as_the_anonymous_user_and_may_no_more_than_he() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let options =
        |squash| ExportOptions { squash, anonymous_uid: 77, anonymous_gid: 88, ..Default::default() };
    session.execute(&[put_handle(&root), create(CreateType::Directory, "private", 0o700)]).await.unwrap();
    running.server.replace_exports(home_with(&world, options(Squash::Root))).unwrap();
    let who = get_attributes(Attribute::set(&[Attribute::Owner, Attribute::OwnerGroup]));
    let results =
        session.execute(&[put_handle(&root), create(CreateType::Directory, "d", 0o755), who]).await.unwrap();
    let Some(NfsResOp::GetAttr(Outcome::Ok(attributes))) = results.last() else { panic!("{results:?}") };
    let attributes = attributes.values().unwrap();
    assert_eq!(attributes.owner.unwrap(), "77".into());
    assert_eq!(attributes.owner_group.unwrap(), "88".into());
    let enter = [put_handle(&root), lookup("private"), lookup("x")];
    assert_eq!(outcome(&session, &enter).await, (NfsStatus::Access, 3));
    running.stop().await;
}

/// RFC 8881 §14.4, §14.5.
#[tokio::test]
async fn names_are_bytes_until_the_export_wants_utf8() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let latin = || Component::from(Bytes::from_static(b"caf\xe9"));
    let charset = async || {
        let ask = get_attributes(Attribute::set(&[Attribute::FsCharsetCap]));
        let results = session.execute(&[put_handle(&root), ask]).await.unwrap();
        let Some(NfsResOp::GetAttr(Outcome::Ok(attributes))) = results.last() else { panic!("{results:?}") };
        attributes.values().unwrap().fs_charset_cap
    };
    let file = session.create(&root, latin(), 0o666).await.unwrap();
    session.close(&file).await.unwrap();
    assert_eq!(charset().await, Some(FsCharset::CONTAINS_NON_UTF8));

    let utf8 = ExportOptions { utf8: true, ..Default::default() };
    running.server.replace_exports(home_with(&world, utf8)).unwrap();
    assert_eq!(charset().await, Some(FsCharset::ALLOWS_ONLY_UTF8));
    let attempts = [
        lookup(latin()),
        open(latin(), share_access::READ, OpenHow::NoCreate, owner("o")),
        open(latin(), share_access::READ, unchecked(0o600), owner("o")),
        create(CreateType::Directory, latin(), 0o755),
        rename(latin(), "new"),
        rename("old", latin()),
        NfsArgOp::Link(LinkArgs { new_name: latin() }),
        remove(latin()),
        NfsArgOp::SecInfo(SecInfoArgs { name: latin() }),
    ];
    for attempt in attempts {
        let request = [put_handle(&root), NfsArgOp::SaveFh, attempt];
        assert_eq!(outcome(&session, &request).await, (NfsStatus::Inval, 3), "{request:?}");
    }
    let request = [put_handle(&root), create(CreateType::Directory, "caf\u{e9}", 0o755)];
    assert_eq!(outcome(&session, &request).await.0, NfsStatus::Ok);
    running.server.replace_exports(home_with(&world, ExportOptions::default())).unwrap();
    assert_eq!(outcome(&session, &[put_handle(&root), remove(latin())]).await.0, NfsStatus::Ok);
    running.stop().await;
}

/// RFC 8881 §14.5, §16.2.3.
#[tokio::test]
async fn tags_are_bytes_until_all_exports_want_utf8() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let send = async |tag: &'static [u8], minor_version| {
        let args =
            CompoundArgs { tag: Utf8String::from(Bytes::from_static(tag)), minor_version, ops: Vec::new() };
        let procedure =
            Procedure { program: nfs4::PROGRAM, version: nfs4::VERSION, number: nfs4::PROCEDURE_COMPOUND };
        let timeout = std::time::Duration::from_secs(20);
        let body = vec![xdr::to_bytes(&args)];
        let reply = session.peer().call(procedure, &Credential::None, body, timeout).await.unwrap();
        let reply = xdr::from_bytes::<CompoundRes>(reply).unwrap();
        (reply.status, reply.tag.as_bytes().to_vec())
    };
    let utf8 = || ExportOptions { utf8: true, ..Default::default() };
    running.server.replace_exports(home_with(&world, utf8())).unwrap();
    assert_eq!(send(b"caf\xe9", 1).await, (NfsStatus::Ok, b"caf\xe9".to_vec()), "the other volume does not");
    let all = vec![Export::new("home", world.home.clone()).with(utf8())];
    running.server.replace_exports(all).unwrap();
    for minor_version in 0..=2 {
        assert_eq!(send("caf\u{e9}".as_bytes(), minor_version).await.0, NfsStatus::Ok);
        assert_eq!(send(b"caf\xe9", minor_version).await, (NfsStatus::Inval, b"caf\xe9".to_vec()));
    }
    running.stop().await;
}
