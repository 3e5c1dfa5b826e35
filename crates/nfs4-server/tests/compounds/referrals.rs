//! Volumes that are on other servers (RFC 8881 §11, RFC 7530 §8).

use nfs4::{
    Attribute, AttributeValues, Bitmap, DirEntry, FsLocations, NfsArgOp, NfsResOp, NfsStatus, Outcome,
    ReadDirOk, StateId, Verifier, VerifyArgs,
};
use nfs4_client::Session;
use nfs4_client::operations::{get_attributes, lookup, put_handle, read_directory, set_attributes};
use nfs4_server::{Export, ExportOptions, ExportSecurity};

use crate::harness::{Running, World, home, outcome};

const WHERE: Bitmap = Attribute::set(&[Attribute::FsLocations, Attribute::FsLocationsInfo]);

fn elsewhere() -> ExportOptions {
    let referral = vec!["box2.example.org:/export/far".parse().unwrap(), "10.0.0.7:/far".parse().unwrap()];
    ExportOptions { referral, ..ExportOptions::default() }
}

/// `home` here, `far` elsewhere.
async fn start(world: &World) -> Running {
    let running = world.start().await;
    let home = Export::new("home", world.home.clone());
    running.server.replace_exports(vec![home, Export::referral("far", elsewhere())]).unwrap();
    running
}

async fn attributes(
    session: &Session,
    way: &[NfsArgOp],
    request: Bitmap,
) -> Result<AttributeValues, NfsStatus> {
    let request = [way, &[get_attributes(request)]].concat();
    let reply = session.compound(&request).await.unwrap();
    match reply.results.into_iter().next_back() {
        Some(NfsResOp::GetAttr(Outcome::Ok(said))) => Ok(said.values().unwrap()),
        _ => Err(reply.status),
    }
}

fn far() -> [NfsArgOp; 2] {
    [NfsArgOp::PutRootFh, lookup("far")]
}

fn check_locations(said: &FsLocations) {
    assert_eq!(said.fs_root, ["far".into()]);
    assert_eq!(said.locations[0].servers, ["box2.example.org".into()]);
    assert_eq!(said.locations[0].root_path, ["export".into(), "far".into()]);
    assert_eq!(said.locations[1].servers, ["10.0.0.7".into()]);
}

#[tokio::test]
async fn who_looks_a_volume_up_that_is_elsewhere_learns_where_and_nothing_else() {
    let world = World::new().await;
    let running = start(&world).await;
    let session = running.client("a").await;
    assert_eq!(outcome(&session, &far()).await, (NfsStatus::Ok, 2));
    let [put, name] = far();
    let moved = (NfsStatus::Moved, 3);
    for operation in [
        NfsArgOp::GetFh,
        lookup("x"),
        NfsArgOp::LookupParent,
        get_attributes(Attribute::set(&[Attribute::Type, Attribute::Fsid])),
        get_attributes(Attribute::set(&[Attribute::RdattrError])),
        set_attributes(StateId::ANONYMOUS, &AttributeValues { mode: Some(0), ..Default::default() }),
        read_directory(0, Verifier([0; 8]), 4096, WHERE),
        NfsArgOp::Verify(VerifyArgs { attributes: AttributeValues::default().to_fattr() }),
    ] {
        let request = [put.clone(), name.clone(), operation.clone()];
        assert_eq!(outcome(&session, &request).await, moved, "{operation:?}");
    }
    let request = WHERE
        .with(Attribute::Type)
        .with(Attribute::Size)
        .with(Attribute::Fsid)
        .with(Attribute::MountedOnFileid)
        .with(Attribute::RdattrError)
        .with(Attribute::Filehandle);
    let said = attributes(&session, &far(), request).await.unwrap();
    check_locations(&said.fs_locations.clone().unwrap());
    let info = said.fs_locations_info.clone().unwrap();
    assert_eq!(info.items[1].entries[0].server, "10.0.0.7".into());
    assert_eq!((said.r#type, said.size, &said.filehandle), (None, None, &None));
    let here =
        attributes(&session, &[NfsArgOp::PutRootFh], Attribute::set(&[Attribute::Fsid])).await.unwrap();
    assert!(said.fsid.is_some() && said.fsid != here.fsid, "clients see that it is another file system");
    running.stop().await;
}

async fn listed(session: &Session, request: Bitmap) -> Result<Vec<DirEntry>, NfsStatus> {
    let list = [NfsArgOp::PutRootFh, read_directory(0, Verifier([0; 8]), 8192, request)];
    let reply = session.compound(&list).await.unwrap();
    match reply.results.into_iter().next_back() {
        Some(NfsResOp::ReadDir(Outcome::Ok(ReadDirOk { entries, .. }))) => Ok(entries),
        _ => Err(reply.status),
    }
}

#[tokio::test]
async fn a_listing_tells_where_or_that_it_cannot_or_fails_as_it_was_asked() {
    let world = World::new().await;
    let running = start(&world).await;
    let session = running.client("a").await;
    let usual = Attribute::set(&[Attribute::Type, Attribute::Fsid, Attribute::MountedOnFileid]);
    let of_far = |entries: Vec<DirEntry>| {
        assert_eq!(
            entries.iter().map(|entry| entry.name.as_str().unwrap()).collect::<Vec<_>>(),
            ["far", "home"]
        );
        entries[0].attributes.values().unwrap()
    };
    assert_eq!(listed(&session, usual).await.unwrap_err(), NfsStatus::Moved);
    let said = of_far(listed(&session, usual.with(Attribute::RdattrError)).await.unwrap());
    assert_eq!(said.rdattr_error, Some(NfsStatus::Moved));
    assert!(said.fsid.is_some() && said.mounted_on_fileid.is_some() && said.r#type.is_none());
    for request in [usual | WHERE, usual.with(Attribute::RdattrError) | WHERE] {
        let said = of_far(listed(&session, request).await.unwrap());
        check_locations(&said.fs_locations.unwrap());
        assert!(said.rdattr_error.is_none_or(|error| error == NfsStatus::Ok));
    }
    running.stop().await;
}

#[tokio::test]
async fn handles_of_a_volume_that_has_moved_lead_to_where_it_is_and_work_again_when_it_is_back() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap();
    let here = attributes(&session, &[put_handle(&root)], WHERE).await.unwrap();
    assert!(here.fs_locations.unwrap().locations.is_empty());
    running.server.replace_exports(vec![Export::new("home", world.home.clone()).with(elsewhere())]).unwrap();
    assert_eq!(outcome(&session, &[put_handle(&root), lookup("f")]).await, (NfsStatus::Moved, 2));
    let said = attributes(&session, &[put_handle(&file.handle)], WHERE).await.unwrap();
    assert_eq!(said.fs_locations.unwrap().locations.len(), 2);
    running.server.replace_exports(vec![Export::new("home", world.home.clone())]).unwrap();
    assert_eq!(outcome(&session, &[put_handle(&root), lookup("f")]).await, (NfsStatus::Ok, 2));
    running.stop().await;
}

#[tokio::test]
async fn who_shows_too_little_does_not_learn_where_a_volume_is() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let security = ExportSecurity { trusted: Vec::new(), ..ExportSecurity::default() };
    let options = ExportOptions { security, ..elsewhere() };
    running.server.replace_exports(vec![Export::referral("far", options)]).unwrap();
    assert_eq!(outcome(&session, &far()).await, (NfsStatus::WrongSec, 2));
    running.stop().await;
}
