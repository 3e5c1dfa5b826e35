//! Extended attributes (RFC 8276).

use nfs4::bits::access;
use nfs4::{
    AccessArgs, Attribute, Bitmap, CreateType, GetXattrArgs, ListXattrsArgs, ListXattrsOk, NfsArgOp,
    NfsResOp, NfsStatus, Outcome, RemoveXattrArgs, SetXattrArgs, SetXattrOption,
};
use nfs4_client::Session;
use nfs4_client::operations::{create, put_handle};
use nfs4_server::{Export, ExportOptions};

use crate::harness::{World, home, outcome};

fn set(name: impl Into<String>, option: SetXattrOption, value: Vec<u8>) -> NfsArgOp {
    NfsArgOp::SetXattr(SetXattrArgs { option, name: name.into().into(), value: value.into() })
}

fn get(name: &str) -> NfsArgOp {
    NfsArgOp::GetXattr(GetXattrArgs { name: name.into() })
}

fn remove(name: &str) -> NfsArgOp {
    NfsArgOp::RemoveXattr(RemoveXattrArgs { name: name.into() })
}

fn list(cookie: u64, max_count: u32) -> NfsArgOp {
    NfsArgOp::ListXattrs(ListXattrsArgs { cookie, max_count })
}

/// What a compound of PUTFH and one operation ends with.
async fn status(session: &Session, handle: &nfs4::FileHandle, operation: NfsArgOp) -> NfsStatus {
    outcome(session, &[put_handle(handle), operation]).await.0
}

#[tokio::test]
async fn values_come_back_and_options_are_heeded() {
    use SetXattrOption::{Create, Either, Replace};
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap().handle;
    let changed = |results: &[NfsResOp]| match results {
        [_, NfsResOp::SetXattr(Outcome::Ok(change))] => change.atomic && change.after > change.before,
        other => panic!("{other:?}"),
    };
    let request = [put_handle(&file), set("tag", Create, b"red".to_vec())];
    assert!(changed(&session.execute(&request).await.unwrap()));
    assert_eq!(status(&session, &file, set("tag", Create, vec![])).await, NfsStatus::Exist);
    assert_eq!(status(&session, &file, set("other", Replace, vec![])).await, NfsStatus::NoXattr);
    assert_eq!(status(&session, &file, set("tag", Replace, vec![7; 65_536])).await, NfsStatus::Ok);
    assert_eq!(status(&session, &file, set("tag", Either, vec![7; 65_537])).await, NfsStatus::Xattr2Big);
    let results = session.execute(&[put_handle(&file), get("tag")]).await.unwrap();
    let [_, NfsResOp::GetXattr(Outcome::Ok(value))] = &results[..] else { panic!("{results:?}") };
    assert_eq!(*value, vec![7; 65_536]);
    assert_eq!(status(&session, &file, remove("tag")).await, NfsStatus::Ok);
    assert_eq!(status(&session, &file, remove("tag")).await, NfsStatus::NoXattr);
    assert_eq!(status(&session, &file, get("tag")).await, NfsStatus::NoXattr);
    assert_eq!(status(&session, &file, get("")).await, NfsStatus::Inval);
    let long = "x".repeat(251);
    assert_eq!(status(&session, &file, set(long, Either, vec![])).await, NfsStatus::NameTooLong);
    running.stop().await;
}

#[tokio::test]
async fn a_list_in_pages_is_whole() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let names: Vec<String> = (100..150).map(|number| format!("name/{number}")).collect();
    for name in &names {
        let request = [put_handle(&root), set(name.clone(), SetXattrOption::Either, vec![])];
        session.execute(&request).await.unwrap();
    }
    let (mut cookie, mut found) = (0, Vec::new());
    loop {
        let results = session.execute(&[put_handle(&root), list(cookie, 100)]).await.unwrap();
        let [_, NfsResOp::ListXattrs(Outcome::Ok(page))] = &results[..] else { panic!("{results:?}") };
        let ListXattrsOk { cookie: next, names, eof } = page;
        assert!(!names.is_empty() && xdr::to_bytes(page).len() <= 100);
        found.extend(names.iter().map(|name| name.as_str().unwrap().to_owned()));
        cookie = *next;
        if *eof {
            break;
        }
    }
    assert_eq!(found, names);
    assert_eq!(status(&session, &root, list(0, 20)).await, NfsStatus::TooSmall);
    assert_eq!(status(&session, &root, list(51, 1000)).await, NfsStatus::BadCookie);
    running.stop().await;
}

#[tokio::test]
async fn access_tells_who_may_use_them_and_only_where_there_are_any() {
    const ALL: u32 = access::XATTR_READ | access::XATTR_WRITE | access::XATTR_LIST;
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap().handle;
    let fifo = [put_handle(&root), create(CreateType::Fifo, "p", 0o666), NfsArgOp::GetFh];
    let results = session.execute(&fifo).await.unwrap();
    let [.., NfsResOp::GetFh(Outcome::Ok(fifo))] = &results[..] else { panic!("{results:?}") };
    let stranger = onc_rpc::Credential::Sys(onc_rpc::AuthSys::new(7, 7));
    let stranger = session.with_credential(stranger);
    for (session, handle, supported, granted) in [
        (&session, &file, ALL, ALL),
        (&stranger, &file, ALL, access::XATTR_READ | access::XATTR_LIST),
        (&stranger, &root, ALL, ALL),
        (&session, fifo, 0, 0),
    ] {
        let request = [put_handle(handle), NfsArgOp::Access(AccessArgs { access: ALL })];
        let results = session.execute(&request).await.unwrap();
        let [_, NfsResOp::Access(Outcome::Ok(answer))] = &results[..] else { panic!("{results:?}") };
        assert_eq!((answer.supported, answer.access), (supported, granted));
    }
    assert_eq!(status(&stranger, &file, set("x", SetXattrOption::Either, vec![])).await, NfsStatus::Access);
    assert_eq!(status(&session, fifo, set("x", SetXattrOption::Either, vec![])).await, NfsStatus::Perm);
    let support = Bitmap::EMPTY.with(Attribute::XattrSupport);
    assert_eq!(session.attributes(&file, support).await.unwrap().xattr_support, Some(true));
    running.stop().await;
}

#[tokio::test]
async fn the_pseudo_root_and_read_only_volumes_take_none() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    session.execute(&[put_handle(&root), set("x", SetXattrOption::Either, vec![1])]).await.unwrap();
    let options = ExportOptions { read_only: true, ..Default::default() };
    running.server.replace_exports(vec![Export::new("home", world.home.clone()).with(options)]).unwrap();
    let pseudo_root = session.lookup(&[]).await.unwrap();
    for handle in [&root, &pseudo_root] {
        let change = set("y", SetXattrOption::Either, vec![1]);
        assert_eq!(status(&session, handle, change).await, NfsStatus::Rofs);
        assert_eq!(status(&session, handle, remove("x")).await, NfsStatus::Rofs);
        assert_eq!(status(&session, handle, list(0, 1000)).await, NfsStatus::Ok);
    }
    assert_eq!(status(&session, &root, get("x")).await, NfsStatus::Ok);
    assert_eq!(status(&session, &pseudo_root, get("x")).await, NfsStatus::NoXattr);
    running.stop().await;
}

#[tokio::test]
async fn a_value_that_the_reply_cannot_hold_is_refused() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("large").await;
    let root = home(&session).await;
    session.execute(&[put_handle(&root), set("x", SetXattrOption::Either, vec![1; 8000])]).await.unwrap();
    let config = nfs4_client::Config { message_bytes: 4096, ..nfs4_client::Config::new("small", [1; 8]) };
    let session = running.connect(config).await;
    assert_eq!(status(&session, &root, get("x")).await, NfsStatus::RepTooBig);
    running.stop().await;
}
