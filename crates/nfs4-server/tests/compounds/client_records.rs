//! Records of clients are durable before anything is granted, and gone when they are of no use (RFC 8881 §8.4.2.1, §8.4.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use nfs4::bits::share_access;
use nfs4::{NfsArgOp, NfsStatus, OpenHow, RenewArgs};
use nfs4_client::Session;
use nfs4_client::operations::{open, owner, put_handle, unchecked};
use nfs4_server::{ClientRecords, MemoryClientRecords, RecordsError};
use parking_lot::Mutex;

use crate::conflicting::Gate;
use crate::harness::{LEASE, Running, World, home, outcome};
use crate::minor0::old::Old;

/// How long a record stays when it is of no use.
const REST: Duration = Duration::from_secs(5);

/// Records that count their changes, one of which can be held up before it happens.
#[derive(Default)]
struct Slow {
    records: MemoryClientRecords,
    puts: AtomicUsize,
    next_put: Mutex<Option<Arc<Gate>>>,
    next_removal: Mutex<Option<Arc<Gate>>>,
}

impl Slow {
    fn hold(place: &Mutex<Option<Arc<Gate>>>) -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        *place.lock() = Some(gate.clone());
        gate
    }

    async fn pass(place: &Mutex<Option<Arc<Gate>>>) {
        let gate = place.lock().take();
        if let Some(gate) = gate {
            gate.reached.notify_one();
            gate.open.notified().await;
        }
    }

    async fn all(&self) -> Vec<Vec<u8>> {
        self.records.load().await.unwrap()
    }
}

#[async_trait]
impl ClientRecords for Slow {
    async fn load(&self) -> Result<Vec<Vec<u8>>, RecordsError> {
        self.records.load().await
    }

    async fn put(&self, owner_id: &[u8]) -> Result<(), RecordsError> {
        self.puts.fetch_add(1, Ordering::SeqCst);
        Slow::pass(&self.next_put).await;
        self.records.put(owner_id).await
    }

    async fn remove(&self, owner_id: &[u8]) -> Result<(), RecordsError> {
        Slow::pass(&self.next_removal).await;
        self.records.remove(owner_id).await
    }
}

async fn world() -> (World, Arc<Slow>) {
    let records = Arc::new(Slow::default());
    let world = World { records: records.clone(), ..World::new().await };
    (world, records)
}

/// Opens and closes a file.
async fn touch(session: &Session) {
    let root = home(session).await;
    let file = session.create(&root, "f", 0o666).await.unwrap();
    session.close(&file).await.unwrap();
}

async fn until_removed(records: &Slow) {
    while !records.all().await.is_empty() {
        tokio::task::yield_now().await;
    }
}

/// Whatever can go on without time does.
async fn settle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

/// The server is gone without a word; another one begins with its records.
async fn crash(world: &World, running: Running) -> Running {
    let next = world.start().await;
    std::mem::forget(running);
    next
}

#[tokio::test]
async fn a_restart_waits_for_no_client_that_has_held_nothing() {
    let (world, records) = world().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let _old = Old::connect(&running, "b").await;
    home(&session).await;
    assert!(records.all().await.is_empty());
    let running = crash(&world, running).await;
    assert!(!running.server.metrics().census.in_grace);
    touch(&running.client("c").await).await;
    running.stop().await;
}

#[tokio::test]
async fn a_record_goes_after_the_last_thing_was_held_and_comes_again_before_the_next() {
    let (world, records) = world().await;
    let running = world.start().await;
    let session = running.client("a").await;
    for _ in 0..5 {
        touch(&session).await;
        world.clock.advance(REST / 2);
        settle().await;
    }
    assert_eq!(records.puts.load(Ordering::SeqCst), 1, "not for every OPEN");
    assert_eq!(records.all().await, [b"a"]);
    world.clock.advance(REST / 2);
    until_removed(&records).await;
    session.renew().await.unwrap();
    let root = home(&session).await;
    session.create(&root, "held", 0o666).await.unwrap();
    assert_eq!(records.all().await, [b"a"]);
    world.clock.advance(2 * LEASE);
    settle().await;
    assert_eq!(records.all().await, [b"a"], "it holds something, however silent it is");
    let running = crash(&world, running).await;
    assert!(running.server.metrics().census.in_grace);
    running.stop().await;
}

/// Nobody says in 4.0 that he has unmounted.
#[tokio::test]
async fn a_client_of_4_0_that_went_silent_and_holds_nothing_has_no_record_and_may_go_on() {
    let (world, records) = world().await;
    let running = world.start().await;
    let mut old = Old::connect(&running, "old").await;
    let root = old.home().await;
    let (file, id) = old.make(&root, "f").await;
    let close = old.close_op(id);
    assert_eq!(old.status(&[put_handle(&file), close]).await, NfsStatus::Ok);
    assert_eq!(records.all().await, [b"nfs4.0:old"]);
    world.clock.advance(LEASE + Duration::from_secs(1));
    until_removed(&records).await;
    let renew = NfsArgOp::Renew(RenewArgs { client: old.client });
    assert_eq!(old.status(&[renew]).await, NfsStatus::Ok);
    old.make(&root, "g").await;
    assert_eq!(records.all().await, [b"nfs4.0:old"]);
    running.stop().await;
}

#[tokio::test]
async fn after_a_stop_nobody_has_a_record_who_holds_nothing() {
    let (world, records) = world().await;
    let running = world.start().await;
    let (idle, holder) = (running.client("idle").await, running.client("holder").await);
    touch(&idle).await;
    let root = home(&holder).await;
    holder.create(&root, "held", 0o666).await.unwrap();
    running.stop().await;
    assert_eq!(records.all().await, [b"holder"]);
}

#[tokio::test]
async fn a_client_that_comes_back_while_its_record_is_removed_gets_nothing_before_it_has_a_new_one() {
    let (world, records) = world().await;
    let running = world.start().await;
    let session = running.client("a").await;
    touch(&session).await;
    let root = home(&session).await;
    let removal = Slow::hold(&records.next_removal);
    world.clock.advance(REST);
    removal.reached.notified().await;
    let asks = session.create(&root, "g", 0o666);
    let (opened, ()) = tokio::join!(asks, async {
        settle().await;
        assert_eq!(records.puts.load(Ordering::SeqCst), 1, "it waits for its turn");
        removal.open.notify_one();
    });
    opened.unwrap();
    assert_eq!(records.all().await, [b"a"]);
    running.stop().await;
}

#[tokio::test]
async fn an_eviction_removes_the_record_that_is_being_written() {
    let (world, records) = world().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let put = Slow::hold(&records.next_put);
    let request = [put_handle(&root), open("f", share_access::BOTH, unchecked(0o644), owner("o"))];
    // It is granted before the eviction, or refused behind it.
    let (_, evicted) = tokio::join!(outcome(&session, &request), async {
        put.reached.notified().await;
        tokio::join!(running.server.evict(session.client_id()), async {
            settle().await;
            put.open.notify_one();
        })
        .0
    });
    assert!(evicted.unwrap().is_some());
    assert!(records.all().await.is_empty());
    assert_eq!(running.server.metrics().census.opens, 0);
    running.stop().await;
}

/// The client that went comes again, under the same name, before its old record is gone.
#[tokio::test]
async fn the_record_of_a_client_that_has_gone_is_not_that_of_the_one_that_came() {
    let (world, records) = world().await;
    let running = world.start().await;
    let session = running.client("a").await;
    touch(&session).await;
    let removal = Slow::hold(&records.next_removal);
    tokio::join!(async { session.destroy_client().await.unwrap() }, async {
        removal.reached.notified().await;
        let again = running.client("a").await;
        let root = home(&again).await;
        let wanted = again.open(&root, "f", share_access::READ, OpenHow::NoCreate, owner("o"));
        let opens = async {
            settle().await;
            removal.open.notify_one();
        };
        tokio::join!(async { wanted.await.unwrap() }, opens);
    });
    assert_eq!(records.all().await, [b"a"]);
    running.stop().await;
}

#[tokio::test]
async fn leases_are_looked_after_while_a_record_waits_for_room_on_the_disk() {
    let (world, records) = world().await;
    let running = world.start().await;
    let session = running.client("a").await;
    touch(&session).await;
    let mut never_confirmed = Old::stranger(&running, 1000).await;
    never_confirmed.set_client_id("b", 1).await.unwrap();
    let removal = Slow::hold(&records.next_removal);
    world.clock.advance(REST);
    removal.reached.notified().await;
    assert_eq!(running.server.metrics().census.clients, 2);
    world.clock.advance(LEASE + Duration::from_secs(1));
    while running.server.metrics().census.clients == 2 {
        tokio::task::yield_now().await;
    }
    removal.open.notify_one();
    running.stop().await;
}
