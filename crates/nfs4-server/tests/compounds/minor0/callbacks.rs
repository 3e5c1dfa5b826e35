//! The way back to clients of 4.0 (RFC 7530 §10.2, §16.33): found out before anything is delegated, and no danger to others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use nfs4::bits::share_access;
use nfs4::{NetAddress, NfsArgOp, NfsStatus, OpenDelegation, SetClientIdConfirm};
use nfs4_client::operations::{put_handle, remove};
use onc_rpc::{Call, Connection, Limits, Peer, Reply, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::back::{Back, GARBAGE, listen_badly, location};
use super::delegations::state_id;
use super::old::Old;
use crate::delegations::make;
use crate::harness::{LEASE, World, home, outcome};

impl Old {
    /// Opens a file twice, so that the owner is confirmed, and closes it: whether it was delegated.
    async fn is_delegated(&mut self, name: &str) -> bool {
        let root = self.home().await;
        let mut delegated = false;
        for _ in 0..2 {
            let (file, opened) = self.open_there(&root, name, share_access::READ).await;
            delegated |= opened.delegation != OpenDelegation::None;
            let close = self.close_op(opened.state_id);
            assert_eq!(self.status(&[put_handle(&file), close]).await, NfsStatus::Ok);
        }
        delegated
    }
}

/// A client must not make the server connect to somebody else.
#[tokio::test]
async fn a_client_is_called_back_at_its_own_address_and_nowhere_else() {
    let world = World::new().await;
    let running = world.start().await;
    let _maker = make(&running, &["f"]).await;
    let victim = TcpListener::bind("127.2.0.1:0").await.unwrap();
    let mut old = Old::stranger(&running, 1000).await;
    let ip = old.ip();
    let there = |network: &'static str, address: String| NetAddress {
        network: network.into(),
        address: address.into(),
    };
    for elsewhere in [
        location(victim.local_addr().unwrap()),
        there("tcp", format!("{ip}.0.0")),
        there("tcp", format!("{ip}.0.22")),
        there("tcp", "0.0.0.0.200.1".into()),
        there("udp", format!("{ip}.200.1")),
        there("tcp6", "::1.200.1".into()),
        there("", String::new()),
        there("tcp", ".".repeat(400)),
    ] {
        old.listen_at("old", elsewhere.clone()).await;
        assert!(!old.is_delegated("f").await, "{elsewhere:?}");
    }
    // Whatever came before would have come by the time that this does.
    let back = Back::listen(ip).await;
    old.listen_at("old", back.location()).await;
    while !old.is_delegated("f").await {}
    tokio::select! {
        biased;
        _ = victim.accept() => panic!("a third party was connected to"),
        () = std::future::ready(()) => {}
    }
    running.stop().await;
}

#[tokio::test]
async fn who_answers_nothing_or_nonsense_is_delegated_nothing_and_in_nobodys_way() {
    let world = World::new().await;
    let running = world.start().await;
    let _maker = make(&running, &["f"]).await;
    let mut hostile = Vec::new();
    for kind in 0..5 {
        let mut old = Old::stranger(&running, 1000).await;
        let (sender, mut met) = tokio::sync::mpsc::unbounded_channel();
        let (location, task) = listen_badly(old.ip(), move |mut stream| {
            let sender = sender.clone();
            async move {
                let _ = sender.send(()); // the test may be over
                match kind {
                    0 => std::future::pending().await,
                    1 => stream.set_zero_linger().unwrap(),
                    2 => stream.write_all(&GARBAGE).await.unwrap(),
                    // A record that is longer than any reply, and endless.
                    3 => while stream.write_all(&[0x7f; 4096]).await.is_ok() {},
                    // What was asked, as if it were the answer.
                    _ => {
                        let mut call = [0; 4096];
                        while let Ok(read @ 1..) = stream.read(&mut call).await {
                            stream.write_all(&call[..read]).await.unwrap();
                        }
                    }
                }
            }
        })
        .await;
        old.listen_at(&format!("bad {kind}"), location).await;
        met.recv().await.unwrap();
        for _ in 0..10 {
            assert!(!old.is_delegated("f").await, "{kind}");
        }
        assert_eq!(old.renew().await, NfsStatus::Ok, "it has nothing to lose");
        hostile.push((old, task));
    }
    let (mut old, _back) = Old::listening(&running, "good").await;
    while !old.is_delegated("f").await {}
    running.stop().await;
}

#[tokio::test]
async fn a_thousand_clients_with_dead_paths_do_not_delay_another_one() {
    let mut world = World::new().await;
    world.limits.connections = 64;
    let running = world.start().await;
    let _maker = make(&running, &["f"]).await;
    let mut many = Old::stranger(&running, 1000).await;
    let (location, _task) = listen_badly(many.ip(), |_stream| std::future::pending()).await;
    for number in 0..1000 {
        many.listen_at(&format!("dead {number}"), location.clone()).await;
    }
    assert_eq!(running.server.metrics().census.clients, 1001);
    // The clock stands still, and nobody waits for what never comes.
    let (mut old, back) = Old::listening(&running, "good").await;
    while !old.is_delegated("f").await {}
    assert_eq!(back.connections(), 1);
    running.stop().await;
}

/// Takes CB_NULL, and hangs up when something is wanted.
struct HangsUp(Arc<AtomicUsize>);

#[async_trait]
impl Service for HangsUp {
    async fn call(&self, call: Call, peer: &Peer) -> Reply {
        if call.procedure == nfs4::PROCEDURE_NULL {
            return Reply::Success(Vec::new());
        }
        self.0.fetch_add(1, Ordering::SeqCst);
        peer.close();
        Reply::Drop
    }
}

#[tokio::test]
async fn who_hangs_up_when_it_is_recalled_is_not_called_at_the_pace_of_the_network() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f", "g"]).await;
    let calls = Arc::<AtomicUsize>::default();
    let mut old = Old::stranger(&running, 1000).await;
    let service = Arc::new(HangsUp(calls.clone()));
    let (location, _task) = listen_badly(old.ip(), move |stream| {
        let connection = Connection::tcp(stream, service.clone(), Limits::default()).unwrap();
        async move { connection.run().await.unwrap_or_default() }
    })
    .await;
    old.listen_at("old", location).await;
    let root = old.home().await;
    let (file, delegation) = old.delegated(&root, "f", share_access::READ).await;
    let change = [put_handle(&home(&maker).await), remove("f")];
    let changed = tokio::spawn(async move { outcome(&maker, &change).await });
    while !changed.is_finished() {
        world.clock.advance(Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(changed.await.unwrap(), (NfsStatus::Delay, 2));
    while old.renew().await != NfsStatus::CbPathDown {}
    for _ in 0..100 {
        assert!(!old.is_delegated("g").await);
    }
    let calls = calls.load(Ordering::SeqCst);
    assert!((2..10).contains(&calls), "{calls}");
    assert_eq!(old.give_back(&file, state_id(&delegation)).await, NfsStatus::Ok);
    assert_eq!(old.renew().await, NfsStatus::Ok, "it has nothing to lose");
    running.stop().await;
}

/// RFC 7530 §16.29.4, §16.33.5.
#[tokio::test]
async fn who_cannot_be_called_back_any_more_is_told_and_may_say_where_it_can() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let (mut old, back) = Old::listening(&running, "old").await;
    let root = old.home().await;
    let (file, delegation) = old.delegated(&root, "f", share_access::READ).await;
    let id = state_id(&delegation);
    assert_eq!(old.renew().await, NfsStatus::Ok);
    // Nobody listens any more, and the connection is gone.
    let ip = old.ip();
    drop(back);
    let change = [put_handle(&home(&maker).await), remove("f")];
    let try_once = || {
        let (maker, change) = (maker.clone(), change.clone());
        tokio::spawn(async move { outcome(&maker, &change).await })
    };
    let first = try_once();
    while !first.is_finished() {
        world.clock.advance(Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(first.await.unwrap(), (NfsStatus::Delay, 2));
    while old.renew().await != NfsStatus::CbPathDown {}

    let mut again = Back::listen(ip).await;
    old.listen_at("old", again.location()).await;
    let recall = again.recalls.recv().await.unwrap();
    assert_eq!((recall.state_id, &recall.file_handle), (id, &file), "it is the same client");
    while old.renew().await != NfsStatus::Ok {}
    assert_eq!(old.give_back(&file, id).await, NfsStatus::Ok);
    assert_eq!(try_once().await.unwrap(), (NfsStatus::Ok, 2));
    running.stop().await;
}

#[tokio::test]
async fn a_path_that_was_down_is_tried_again_by_itself() {
    let world = World::new().await;
    let running = world.start().await;
    let _maker = make(&running, &["f"]).await;
    let mut old = Old::stranger(&running, 1000).await;
    // A port that nobody listens on yet.
    let port = TcpListener::bind((old.ip(), 0)).await.unwrap().local_addr().unwrap();
    old.listen_at("old", location(port)).await;
    assert!(!old.is_delegated("f").await);
    let back = Back::listen_on(port).await;
    while !old.is_delegated("f").await {
        world.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(back.connections(), 1);
    running.stop().await;
}

#[tokio::test]
async fn a_connection_for_callbacks_is_closed_when_it_is_idle_and_made_again() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = make(&running, &["f"]).await;
    let (mut old, mut back) = Old::listening(&running, "old").await;
    let root = old.home().await;
    let (file, delegation) = old.delegated(&root, "f", share_access::READ).await;
    assert_eq!(back.manner.open.load(Ordering::SeqCst), 1);
    while back.manner.open.load(Ordering::SeqCst) > 0 {
        world.clock.advance(Duration::from_secs(1));
        assert_eq!(old.renew().await, NfsStatus::Ok, "it is not down");
        maker.renew().await.unwrap();
    }
    let change = [put_handle(&home(&maker).await), remove("f")];
    let changed = tokio::spawn(async move { outcome(&maker, &change).await });
    back.recalls.recv().await.unwrap();
    assert_eq!(old.give_back(&file, state_id(&delegation)).await, NfsStatus::Ok);
    assert_eq!(changed.await.unwrap(), (NfsStatus::Ok, 2));
    assert_eq!(back.connections(), 2);
    running.stop().await;
}

/// A new incarnation does not hear what the former one had delegated, and a client that is gone is not connected to.
#[tokio::test]
async fn a_client_that_is_gone_keeps_no_connection() {
    let world = World::new().await;
    let running = world.start().await;
    let _maker = make(&running, &["f"]).await;
    let (mut old, back) = Old::listening(&running, "old").await;
    while !old.is_delegated("f").await {}
    let id: SetClientIdConfirm = old.set_client_id("old", 2).await.unwrap();
    assert_eq!(old.status(&[NfsArgOp::SetClientIdConfirm(id)]).await, NfsStatus::Ok);
    assert_eq!(running.server.metrics().census.delegations, 0);
    while back.manner.open.load(Ordering::SeqCst) > 0 {
        tokio::task::yield_now().await;
    }

    let (silent, back) = Old::listening(&running, "silent").await;
    while back.manner.probes.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    drop(silent);
    while back.manner.open.load(Ordering::SeqCst) > 0 {
        world.clock.advance(LEASE);
        tokio::task::yield_now().await;
    }
    running.stop().await;
}
