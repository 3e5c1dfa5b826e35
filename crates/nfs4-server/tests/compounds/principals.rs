//! Whose a session is (RFC 8881 §2.4.3, §2.10.3.1, §18.37.3).

use nfs4::{DestroyClientIdArgs, DestroySessionArgs, NfsArgOp, NfsStatus, SessionId};
use nfs4_client::{Config, Session};
use nfs4_server::{Export, ExportOptions, ExportSecurity};
use onc_rpc::{AuthSys, Credential};

use crate::harness::{World, home, status};

async fn destroy(session: &Session, id: SessionId) -> NfsStatus {
    session
        .bare_compound(&[NfsArgOp::DestroySession(DestroySessionArgs { session: id })])
        .await
        .unwrap()
        .status
}

#[tokio::test]
async fn session_ids_have_nothing_in_common() {
    let world = World::new().await;
    let running = world.start().await;
    let first = running.client("a").await;
    let second = first.sibling(running.address).await.unwrap();
    let equal = first.id().0.iter().zip(second.id().0).filter(|(a, b)| *a == b).count();
    assert!(equal < 8, "{:?} and {:?}", first.id(), second.id());
    running.stop().await;
}

#[tokio::test]
async fn many_users_work_in_one_session_and_only_its_principal_ends_it() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let user = session.with_credential(Credential::Sys(AuthSys::new(4711, 4711)));
    let root = home(&user).await;
    user.create(&root, "f", 0o644).await.unwrap();
    assert_eq!(destroy(&user, session.id()).await, NfsStatus::WrongCred);
    let client = NfsArgOp::DestroyClientId(DestroyClientIdArgs { client: session.client_id() });
    assert_eq!(user.bare_compound(&[client]).await.unwrap().status, NfsStatus::WrongCred);
    let elsewhere = running.client("b").await;
    assert_eq!(destroy(&elsewhere, session.id()).await, NfsStatus::ConnNotBoundToSession);
    assert_eq!(destroy(&session, session.id()).await, NfsStatus::Ok);
    running.stop().await;
}

#[tokio::test]
async fn a_stranger_cannot_take_the_place_of_a_trusted_client() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap();
    let offer = |trusted| {
        let options = ExportOptions {
            security: ExportSecurity { trusted, ..ExportSecurity::default() },
            ..ExportOptions::default()
        };
        running.server.replace_exports(vec![Export::new("home", world.home.clone()).with(options)]).unwrap();
    };
    offer(Vec::new());
    // It claims the same name and the same user, and to have been started again.
    let again = Session::connect(running.address, Config::new("a", [2; 8]), None).await;
    assert_eq!(status(again.map(|_| ())), NfsStatus::ClidInUse);
    offer(ExportSecurity::default().trusted);
    assert_eq!(session.read(&file, 0, 9).await.unwrap().data.len(), 0, "the file is open still");
    running.connect(Config::new("a", [2; 8])).await;
    running.stop().await;
}
