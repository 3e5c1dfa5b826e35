//! What operators see of the clients, what they count, and the eviction of one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use nfs4::bits::share_access;
use nfs4::{NfsStatus, OpenHow};
use nfs4_client::operations::{lookup, owner, put_handle};
use nfs4_server::{ClientId, ClientRecords, Holding, MemoryClientRecords, RecordsError, Standing};

use crate::harness::{World, home, outcome, status};
use crate::minor0::old::Old;

#[tokio::test]
async fn clients_of_every_version_are_seen_with_what_they_hold() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("new\nclient").await;
    let mut old = Old::connect(&running, "old client").await;
    let root = home(&session).await;
    session.create(&root, "f", 0o644).await.unwrap();
    let args = old.open_args("f", share_access::READ, 0);
    let old_root = old.home().await;
    old.open(&old_root, args).await.unwrap();

    let page = running.server.clients(None, 100);
    assert_eq!((page.total, page.clients.len(), page.next), (2, 2, None));
    let known =
        [(session.client_id(), "new\\nclient", 2, "uid 0"), (old.client, "old client", 0, "uid 1000")];
    for (id, owner, minor_version, principal) in known {
        let client = running.server.client(id).unwrap();
        assert_eq!((client.owner.to_string().as_str(), client.minor_version), (owner, Some(minor_version)));
        assert_eq!((client.opens, client.confirmed, client.standing), (1, true, Standing::Active));
        let origin = client.origin.as_ref().unwrap();
        assert!(origin.address.is_loopback());
        assert_eq!(origin.principal, principal);
        assert_eq!(origin.security, "AUTH_SYS in clear text");
        assert_eq!(running.server.connections_of(&client).len(), client.sessions);
        let held = running.server.held_by(id, None, 10).unwrap().held;
        let [held] = &held[..] else { panic!("{held:?}") };
        let Holding::Open { access, .. } = held.holding else { panic!("{held:?}") };
        assert_eq!((access.read, access.write), (true, minor_version > 0));
    }
    assert!(running.server.client(ClientId(1)).is_none());
    running.stop().await;
}

#[tokio::test]
async fn an_evicted_client_has_nothing_left_cannot_reclaim_and_may_come_back_as_a_new_one() {
    let world = World::new().await;
    let running = world.start().await;
    let (session, other) = (running.client("evicted").await, running.client("other").await);
    let mut old = Old::connect(&running, "old").await;
    let (root, old_root) = (home(&session).await, old.home().await);
    session.create(&root, "f", 0o644).await.unwrap();
    other.create(&root, "h", 0o644).await.unwrap();
    let args = old.open_args("g", share_access::BOTH, 0);
    let (_, opened) = old.open(&old_root, args).await.unwrap();
    for id in [session.client_id(), old.client] {
        let had = running.server.evict(id).await.unwrap().unwrap();
        assert_eq!(had.opens, 1);
        assert!(running.server.evict(id).await.unwrap().is_none(), "it is gone");
    }
    assert_eq!(running.server.metrics().census.opens, 1);
    assert_eq!(world.records.load().await.unwrap(), [b"other"]);
    assert_eq!(status(session.renew().await), NfsStatus::BadSession);
    let close = old.close_op(opened.state_id);
    assert_eq!(old.status(&[put_handle(&old_root), close]).await, NfsStatus::Expired);
    other.renew().await.unwrap();

    let again = running.client("evicted").await;
    again.open(&root, "f", share_access::READ, OpenHow::NoCreate, owner("o")).await.unwrap();
    running.stop().await;
}

/// Records that can be made to fail.
#[derive(Default)]
struct Failing {
    records: MemoryClientRecords,
    fails: AtomicBool,
}

#[async_trait]
impl ClientRecords for Failing {
    async fn load(&self) -> Result<Vec<Vec<u8>>, RecordsError> {
        self.records.load().await
    }

    async fn put(&self, owner_id: &[u8]) -> Result<(), RecordsError> {
        self.records.put(owner_id).await
    }

    async fn remove(&self, owner_id: &[u8]) -> Result<(), RecordsError> {
        match self.fails.load(Ordering::SeqCst) {
            true => Err(RecordsError("the disk is full".into())),
            false => self.records.remove(owner_id).await,
        }
    }
}

#[tokio::test]
async fn without_its_record_removed_a_client_keeps_what_it_holds() {
    let mut world = World::new().await;
    let records = Arc::new(Failing::default());
    world.records = records.clone();
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    session.create(&root, "f", 0o644).await.unwrap();
    records.fails.store(true, Ordering::SeqCst);
    assert!(running.server.evict(session.client_id()).await.is_err());
    assert_eq!(running.server.client(session.client_id()).unwrap().opens, 1);
    assert_eq!(world.records.load().await.unwrap(), [b"a"]);
    running.stop().await;
}

#[tokio::test]
async fn operations_are_counted_with_their_errors_and_their_time() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    for _ in 0..3 {
        let missing = [put_handle(&root), lookup("missing")];
        assert_eq!(outcome(&session, &missing).await.0, NfsStatus::NoEnt);
    }
    let metrics = running.server.metrics();
    let lookup = metrics.operations.iter().find(|operation| operation.name == "LOOKUP").unwrap();
    assert_eq!(lookup.errors, [("NFS4ERR_NOENT", 3)]);
    assert_eq!(lookup.latency.count, 4, "one found the volume");
    assert_eq!(metrics.compounds, metrics.compound_latency.count);
    assert!(metrics.compounds >= 7);
    running.stop().await;
}
