//! A client that is idle keeps its lease; one that was stopped for too long finds out what it lost (RFC 8881 §8.3).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use environment::Environment;
use nfs4::bits::{sequence_status, share_access};
use nfs4::{Bitmap, ChangeInfo, FileHandle, NfsStatus, OpCode, OpenDelegation, OpenOk, StateId};
use nfs4_client::operations::{lookup, owner, put_handle, read, unchecked};
use nfs4_client::{Client, ClientError, OpenState, Options};
use nfs4_server::ServerConfig;

use crate::clock::ManualClock;
use crate::scripted::{self, Said, Scripted, lookups};
use crate::world::{LEASE, World, home, until};

#[tokio::test]
async fn an_idle_client_renews_its_lease() {
    let world = World::new().await;
    let client = world.client().await;
    assert_eq!(client.lease(), LEASE);
    for _ in 0..5 {
        let before = client.statistics().compounds;
        world.client_clock.advance(LEASE / 3 - Duration::from_secs(1));
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert_eq!(client.statistics().compounds, before, "not needed yet");
        world.client_clock.advance(Duration::from_secs(1));
        until(|| client.statistics().compounds > before).await;
        // The answer, too: the next renewal counts from this one.
        home(&client).await;
    }
}

#[tokio::test]
async fn a_client_knows_when_its_lease_has_run_out() {
    let mut world = World::new().await;
    let client = world.client().await;
    assert!(!client.is_in_good_standing(), "nothing was granted yet");
    home(&client).await;
    assert!(client.is_in_good_standing());
    world.stop().await;
    world.client_clock.advance(LEASE - Duration::from_secs(1));
    assert!(client.is_in_good_standing());
    world.client_clock.advance(Duration::from_secs(1));
    assert!(!client.is_in_good_standing());
    assert_eq!(client.doubts(), 0);
    world.start().await;
    let ticking = async {
        while !client.is_in_good_standing() {
            world.client_clock.advance(Duration::from_millis(50));
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(async { home(&client).await }, ticking);
    assert!(client.doubts() > 0, "what was granted before may be somebody else's");
}

#[tokio::test]
async fn a_lease_that_ran_out_and_was_renewed_is_not_what_it_was() {
    let world = World::new().await;
    let client = world.client().await;
    home(&client).await;
    for before in 0..3 {
        assert_eq!(client.doubts(), before);
        // Asleep: nothing was sent meanwhile, and the server was courteous.
        world.client_clock.suspend(LEASE);
        assert!(!client.is_in_good_standing());
        home(&client).await;
        assert!(client.is_in_good_standing());
    }
}

#[tokio::test]
async fn what_was_granted_before_the_server_restarted_is_in_doubt() {
    let mut world = World::new().await;
    let client = world.client().await;
    for before in 0..3 {
        home(&client).await;
        assert!(client.is_in_good_standing());
        assert_eq!(client.doubts(), before);
        world.restart().await;
    }
}

#[tokio::test]
async fn nothing_counts_while_the_server_says_that_something_is_revoked() {
    let (address, server) = Scripted::start(|_, operations| {
        let tests = operations.iter().any(|it| matches!(it, nfs4::NfsArgOp::TestStateId(_)));
        tests.then_some(Said::Failed(0, NfsStatus::Delay))
    })
    .await;
    let client = scripted::connect(address).await;
    let _open = adopted(&client, 2);
    client.compound(&lookups(1)).await.unwrap();
    assert!(client.is_in_good_standing() && client.doubts() == 0);
    server.flags.store(sequence_status::RECALLABLE_STATE_REVOKED, SeqCst);
    client.compound(&lookups(1)).await.unwrap();
    let doubts = client.doubts();
    assert!(doubts > 0);
    // The server does not say which it is, and is asked again.
    for _ in 0..1000 {
        client.compound(&lookups(1)).await.unwrap();
    }
    assert!(server.asked(OpCode::TestStateId) >= 3);
    assert!(client.doubts() > doubts);
    server.flags.store(0, SeqCst);
    client.compound(&lookups(1)).await.unwrap();
    let doubts = client.doubts();
    client.compound(&lookups(1)).await.unwrap();
    assert!(client.is_in_good_standing() && client.doubts() == doubts);
}

#[tokio::test]
async fn nothing_counts_for_longer_than_a_lease_when_recalls_do_not_come() {
    for flag in [sequence_status::CB_PATH_DOWN, sequence_status::CB_PATH_DOWN_SESSION] {
        let (address, server) = Scripted::start(|_, _| None).await;
        let clock = ManualClock::new(Duration::from_secs(10));
        let environment = Environment { clock: clock.clone(), ..Environment::real() };
        let client = Client::connect(&[address], Options::new(environment), None).await.unwrap();
        client.compound(&lookups(1)).await.unwrap();
        server.flags.store(flag, SeqCst);
        clock.suspend(client.lease() - Duration::from_secs(1));
        client.compound(&lookups(1)).await.unwrap();
        assert!(client.is_in_good_standing(), "what is recalled now is good for another lease");
        clock.suspend(Duration::from_secs(1));
        client.compound(&lookups(1)).await.unwrap();
        assert!(!client.is_in_good_standing());
        server.flags.store(0, SeqCst);
        client.compound(&lookups(1)).await.unwrap();
        assert!(client.is_in_good_standing());
        assert_eq!(client.doubts(), 1, "what was recalled meanwhile is gone");
    }
}

#[tokio::test]
async fn nothing_counts_that_is_to_be_reclaimed_yet() {
    let (address, server) = Scripted::start(|_, operations| {
        let tells = operations.len() == 3;
        let status_flags = sequence_status::RESTART_RECLAIM_NEEDED;
        tells.then_some(Said::Sequence { target_highest_slot: 7, status_flags })
    })
    .await;
    let client = scripted::connect(address).await;
    client.compound(&lookups(1)).await.unwrap();
    assert!(client.is_in_good_standing());
    client.compound(&lookups(2)).await.unwrap();
    // Only other tasks of this thread could have changed that by now.
    assert!(!client.is_in_good_standing());
    until(|| client.is_in_good_standing()).await;
    assert_eq!(server.asked(OpCode::CreateSession), 2);
}

#[tokio::test]
async fn a_change_that_nobody_waits_for_is_in_doubt_until_it_is_answered() {
    let silent = Arc::new(AtomicBool::new(true));
    let is_silent = silent.clone();
    let (address, server) = Scripted::start(move |_, operations| {
        let removes = operations.iter().any(|it| matches!(it, nfs4::NfsArgOp::Remove(_)));
        (removes && is_silent.load(SeqCst)).then_some(Said::Silence)
    })
    .await;
    let client = scripted::connect(address).await;
    client.compound(&lookups(1)).await.unwrap();
    {
        let removal = scripted::removal();
        let mut change = pin!(client.compound(&removal));
        tokio::select! {
            result = &mut change => panic!("{result:?}"),
            () = until(|| server.asked(OpCode::Remove) == 1) => {}
        }
        assert!(client.is_in_good_standing(), "it is waited for");
    }
    assert!(!client.is_in_good_standing());
    client.compound(&lookups(1)).await.unwrap();
    assert!(!client.is_in_good_standing(), "whatever is answered beside");
    assert_eq!(client.doubts(), 0);
    silent.store(false, SeqCst);
    let peers = std::mem::take(&mut *server.peers.lock());
    peers.iter().for_each(onc_rpc::Peer::close);
    until(|| client.is_in_good_standing()).await;
    assert_eq!(client.doubts(), 1, "nobody knows when it was executed");
    // What only reads concerns nobody.
    {
        let asked = lookups(1);
        let mut question = pin!(client.compound(&asked));
        let is_sent = poll_fn(|context| Poll::Ready(question.as_mut().poll(context).is_pending())).await;
        assert!(is_sent);
    }
    assert!(client.is_in_good_standing());
    assert_eq!(client.doubts(), 1);
}

#[tokio::test]
async fn a_change_given_up_with_a_session_that_the_server_still_knows_is_in_doubt_for_ever() {
    for knows in [true, false] {
        let is_first = AtomicBool::new(true);
        let (address, server) = Scripted::start(move |_, operations| {
            let removes = operations.iter().any(|it| matches!(it, nfs4::NfsArgOp::Remove(_)));
            let ended = if knows { NfsStatus::SeqMisordered } else { NfsStatus::BadSession };
            removes.then(|| if is_first.swap(false, SeqCst) { Said::Silence } else { Said::Refused(ended) })
        })
        .await;
        let client = scripted::connect(address).await;
        let removal = scripted::removal();
        let breaking = async {
            until(|| server.asked(OpCode::Remove) == 1).await;
            let peers = std::mem::take(&mut *server.peers.lock());
            peers.iter().for_each(onc_rpc::Peer::close);
        };
        let (doubtful, ()) = tokio::join!(client.compound(&removal), breaking);
        assert!(scripted::is_unknown(&doubtful), "{doubtful:?}");
        client.compound(&lookups(1)).await.unwrap();
        assert_eq!(client.is_in_good_standing(), !knows);
    }
}

#[tokio::test]
async fn a_client_that_was_stopped_for_too_long_has_to_open_its_files_again() {
    let world = World::new().await;
    let client = world.client().await;
    let home = home(&client).await;
    let access = share_access::BOTH | share_access::WANT_NO_DELEG;
    let open = client.open_file(&home, "f", access, unchecked(0o600), owner("o")).await.unwrap();
    let request = || Ok(vec![put_handle(open.handle()), read(open.state_id()?, 0, 1)]);
    // The server is courteous, for some time.
    world.clock.advance(LEASE * 2);
    client.compound_with(request).await.unwrap().into_results().unwrap();
    world.clock.advance(LEASE + ServerConfig::DEFAULT_COURTESY + Duration::from_secs(1));
    until(|| world.server().clients(None, 9).clients.is_empty()).await;
    let lost = client.compound_with(request).await;
    assert!(matches!(lost, Err(ClientError::OpenLost { .. })), "{lost:?}");
    assert!(open.lost().is_some());
    assert_eq!(client.statistics().recoveries, 1);
    client.open_file(&home, "f", access, unchecked(0o600), owner("o")).await.unwrap();
}

/// A file that is open as far as the client knows.
fn adopted(client: &Client, number: u8) -> Arc<OpenState> {
    let opened = OpenOk {
        state_id: StateId { seqid: 1, other: [number; 12] },
        change_info: ChangeInfo { atomic: true, before: 0, after: 0 },
        flags: 0,
        attributes_set: Bitmap::default(),
        delegation: OpenDelegation::None,
    };
    client.adopt(FileHandle::new("f").unwrap(), (share_access::READ, 0), owner("o"), &opened)
}

#[tokio::test]
async fn state_that_the_server_says_it_revoked_is_found_and_freed() {
    let revoked = [
        sequence_status::EXPIRED_ALL_STATE_REVOKED,
        sequence_status::EXPIRED_SOME_STATE_REVOKED,
        sequence_status::ADMIN_STATE_REVOKED,
        sequence_status::RECALLABLE_STATE_REVOKED,
    ];
    for flag in revoked {
        let (address, server) = Scripted::start(move |_, operations| {
            let tells = operations.len() == 3;
            tells.then_some(Said::Sequence { target_highest_slot: 7, status_flags: flag })
        })
        .await;
        let client = scripted::connect(address).await;
        // More than one question.
        let opens: Vec<_> = (0..150).map(|number| adopted(&client, number + 2)).collect();
        client.compound(&lookups(2)).await.unwrap();
        until(|| server.asked(OpCode::FreeStateId) == 75).await;
        for open in &opens {
            let is_odd = open.lost().is_some();
            let expected = is_odd.then_some(NfsStatus::AdminRevoked);
            assert_eq!(open.lost(), expected);
            assert_eq!(open.state_id().is_err(), is_odd);
        }
        assert_eq!(opens.iter().filter(|open| open.lost().is_some()).count(), 75);
        assert_eq!(server.asked(OpCode::TestStateId), 2);
        assert_eq!(client.statistics().recoveries, 0);
    }
}

#[tokio::test]
async fn an_open_that_the_server_does_not_know_is_lost_and_the_others_are_not() {
    for status in [NfsStatus::BadStateId, NfsStatus::Expired, NfsStatus::AdminRevoked] {
        let (address, server) =
            Scripted::start(move |_, operations| (operations.len() == 3).then_some(Said::Failed(2, status)))
                .await;
        let client = scripted::connect(address).await;
        let (one, other) = (adopted(&client, 1), adopted(&client, 2));
        let request = || Ok(vec![nfs4::NfsArgOp::PutRootFh, lookup("x"), read(one.state_id()?, 0, 1)]);
        assert_eq!(client.compound_with(request).await.unwrap().status, status);
        assert_eq!((one.lost(), other.lost()), (Some(status), None));
        let before = server.asked(OpCode::Read);
        let lost = client.compound_with(request).await;
        assert!(matches!(&lost, Err(ClientError::OpenLost { status: why }) if *why == status), "{lost:?}");
        assert_eq!(server.asked(OpCode::Read), before, "not asked again");
    }
}
