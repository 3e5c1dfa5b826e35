//! Silent clients make way (RFC 8881 §8.4.3), and an OPEN that is refused for what others hold has changed nothing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use file_system::Mode;
use nfs4::bits::{share_access, share_deny};
use nfs4::{
    Attribute, AttributeValues, CreateHow, NfsArgOp, NfsStatus, OpenArgs, OpenClaim, OpenHow, StableHow,
};
use nfs4_client::Session;
use nfs4_client::operations::{get_attributes, lookup, open, owner, put_handle, unchecked};
use nfs4_server::{ClientRecords, Limits, MemoryClientRecords, RecordsError};

use crate::harness::{LEASE, Running, World, home, outcome, status};

/// Records that are rows of the volume's own store: they change when no exclusive transaction is open.
struct InStore {
    records: MemoryClientRecords,
    alone: Arc<tokio::sync::Mutex<()>>,
}

#[async_trait]
impl ClientRecords for InStore {
    async fn load(&self) -> Result<Vec<Vec<u8>>, RecordsError> {
        self.records.load().await
    }

    async fn put(&self, owner_id: &[u8]) -> Result<(), RecordsError> {
        let _alone = self.alone.lock().await;
        self.records.put(owner_id).await
    }

    async fn remove(&self, owner_id: &[u8]) -> Result<(), RecordsError> {
        let _alone = self.alone.lock().await;
        self.records.remove(owner_id).await
    }
}

fn sharing(name: &str, access: u32, deny: u32, how: OpenHow) -> NfsArgOp {
    NfsArgOp::Open(OpenArgs {
        seqid: 0,
        share_access: access,
        share_deny: deny,
        owner: owner("open"),
        how,
        claim: OpenClaim::Null(name.into()),
    })
}

fn cutting() -> OpenHow {
    OpenHow::Create(CreateHow::Unchecked(
        AttributeValues { size: Some(0), ..AttributeValues::default() }.to_fattr(),
    ))
}

async fn size_of(session: &Session, file: &nfs4::FileHandle) -> u64 {
    session.attributes(file, Attribute::set(&[Attribute::Size])).await.unwrap().size.unwrap()
}

/// A file of four bytes that nobody has open.
async fn closed_file(session: &Session, name: &str) -> nfs4::FileHandle {
    let root = home(session).await;
    let file = session.create(&root, name, 0o666).await.unwrap();
    session.write(&file, 0, StableHow::FileSync, Bytes::from_static(b"data")).await.unwrap();
    session.close(&file).await.unwrap();
    file.handle
}

async fn expire_all_but(running: &Running, world: &World, live: &Session) {
    world.clock.advance(LEASE);
    live.renew().await.unwrap();
    world.clock.advance(Duration::from_secs(5));
    assert!(!running.server.metrics().census.in_grace);
}

/// The records wait for the end of the compound's own transaction, so it has to end first.
#[tokio::test]
async fn a_compound_that_runs_alone_forgets_an_expired_client_in_its_way() {
    let mut world = World::new().await;
    world.records = Arc::new(InStore { records: MemoryClientRecords::default(), alone: world.home.alone() });
    let running = world.start().await;
    let (silent, live) = (running.client("silent").await, running.client("live").await);
    let root = home(&live).await;
    let file = closed_file(&live, "f").await;
    let denying = sharing("f", share_access::READ, share_deny::BOTH, OpenHow::NoCreate);
    silent.execute(&[put_handle(&root), denying]).await.unwrap();
    let wanted = sharing("f", share_access::BOTH, 0, OpenHow::NoCreate);
    let request = [
        put_handle(&file),
        get_attributes(Attribute::set(&[Attribute::Size])),
        put_handle(&root),
        wanted.clone(),
    ];
    assert_eq!(outcome(&live, &request).await, (NfsStatus::ShareDenied, 4));
    expire_all_but(&running, &world, &live).await;
    world.home.take_modes();
    world.home.refuse_attributes(world.limits.optimistic_tries);
    assert_eq!(outcome(&live, &request).await, (NfsStatus::Ok, 4));
    assert_eq!(world.home.take_modes().last(), Some(&Mode::Exclusive));
    assert_eq!(world.records.load().await.unwrap(), [b"live"]);
    assert_eq!(status(silent.renew().await), NfsStatus::BadSession);
    running.stop().await;
}

#[tokio::test]
async fn a_silent_client_that_is_in_nobodys_way_goes_on_after_its_lease() {
    let world = World::new().await;
    let running = world.start().await;
    let (silent, live) = (running.client("silent").await, running.client("live").await);
    let root = home(&silent).await;
    for _ in 0..10 {
        expire_all_but(&running, &world, &live).await;
        live.renew().await.unwrap();
    }
    silent.create(&root, "f", 0o644).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn an_open_beyond_the_limits_makes_and_cuts_nothing() {
    let mut world = World::new().await;
    world.limits = Limits { opens_per_client: 1, ..Limits::default() };
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = closed_file(&session, "full").await;
    session.create(&root, "only", 0o644).await.unwrap();
    for how in [unchecked(0o644), nfs4_client::operations::guarded(0o644)] {
        let request = [put_handle(&root), open("new", share_access::BOTH, how, owner("o"))];
        assert_eq!(outcome(&session, &request).await, (NfsStatus::Delay, 2));
        let there = [put_handle(&root), lookup("new")];
        assert_eq!(outcome(&session, &there).await.0, NfsStatus::NoEnt);
    }
    let cut = [put_handle(&root), open("full", share_access::WRITE, cutting(), owner("o"))];
    assert_eq!(outcome(&session, &cut).await, (NfsStatus::Delay, 2));
    assert_eq!(size_of(&session, &file).await, 4);
    running.stop().await;
}

#[tokio::test]
async fn an_open_that_loses_the_last_place_while_it_runs_makes_nothing() {
    let mut world = World::new().await;
    world.limits = Limits { states: 1, ..Limits::default() };
    let running = world.start().await;
    let (slow, fast) = (running.client("slow").await, running.client("fast").await);
    let root = home(&slow).await;
    closed_file(&fast, "f").await;
    let gate = world.home.hold_next_open();
    let request = [put_handle(&root), open("new", share_access::BOTH, unchecked(0o644), owner("o"))];
    let (refused, ()) = tokio::join!(outcome(&slow, &request), async {
        gate.reached.notified().await;
        let existing = open("f", share_access::READ, OpenHow::NoCreate, owner("o"));
        fast.execute(&[put_handle(&root), existing]).await.unwrap();
        gate.open.notify_one();
    });
    assert_eq!(refused, (NfsStatus::Delay, 2));
    assert_eq!(outcome(&fast, &[put_handle(&root), lookup("new")]).await.0, NfsStatus::NoEnt);
    running.stop().await;
}

#[tokio::test]
async fn an_open_that_meets_a_new_share_reservation_while_it_runs_cuts_nothing() {
    let world = World::new().await;
    let running = world.start().await;
    let (slow, fast) = (running.client("slow").await, running.client("fast").await);
    let root = home(&slow).await;
    let file = closed_file(&fast, "f").await;
    let gate = world.home.hold_next_open();
    let request = [put_handle(&root), open("f", share_access::WRITE, cutting(), owner("o"))];
    let (refused, ()) = tokio::join!(outcome(&slow, &request), async {
        gate.reached.notified().await;
        let denying = sharing("f", share_access::READ, share_deny::WRITE, OpenHow::NoCreate);
        fast.execute(&[put_handle(&root), denying]).await.unwrap();
        gate.open.notify_one();
    });
    assert_eq!(refused, (NfsStatus::ShareDenied, 2));
    assert_eq!(size_of(&fast, &file).await, 4);
    running.stop().await;
}
