//! How volumes are offered: to whom, as whom, for what.

use bytes::Bytes;
use nfs4::bits::{access, share_access};
use nfs4::{
    AccessArgs, Attribute, AttributeValues, Bitmap, CreateType, LinkArgs, NfsArgOp, NfsResOp, NfsStatus,
    OpenHow, Outcome, StableHow, StateId, WriteArgs,
};
use nfs4_client::operations::{
    create, get_attributes, lookup, open, owner, put_handle, remove, rename, set_attributes, unchecked,
};
use nfs4_server::{Export, ExportOptions, Squash};

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
