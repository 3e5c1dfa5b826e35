//! A request is executed once, wherever its connection breaks (RFC 8881 §2.10.6).

use std::sync::Arc;
use std::time::Duration;

use environment::Environment;
use nfs4::{NfsArgOp, NfsStatus};
use nfs4_client::operations::{lookup, put_handle};
use nfs4_client::{ClientError, Options};

use crate::clock::ManualClock;
use crate::proxy::Direction;
use crate::scripted::{self, Said, Scripted, lookups, removal};
use crate::world::{World, home, make_directory, until};

#[tokio::test]
async fn a_directory_is_made_once_wherever_the_connection_breaks() {
    let world = World::new().await;
    let client = world.client().await;
    let home = home(&client).await;
    let mut cuts = 0;
    for direction in [Direction::Requests, Direction::Replies] {
        for bytes in [0, 1, 3, 4, 40, 100] {
            let before = client.statistics();
            world.proxy.cut(direction, bytes);
            make_directory(&client, &home, &format!("{direction:?} {bytes}")).await.unwrap();
            cuts += 1;
            world.proxy.cuts(cuts).await;
            assert_eq!((client.statistics() - before).resends, 1, "{direction:?} {bytes}");
        }
    }
    assert_eq!(client.statistics().recoveries, 0, "the session lives on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_tasks_lose_and_repeat_nothing_while_connections_break() {
    let world = World::new().await;
    let client = world.connect(Options { connections: 3, ..world.options() }).await;
    let home = home(&client).await;
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let (client, home) = (client.clone(), home.clone());
            tokio::spawn(async move {
                for round in 0..10 {
                    let name = format!("{task} {round}");
                    make_directory(&client, &home, &name).await.unwrap();
                    let found = client.compound(&[put_handle(&home), lookup(name)]).await.unwrap();
                    assert_eq!(found.status, NfsStatus::Ok);
                }
            })
        })
        .collect();
    let tasks = async {
        for task in tasks {
            task.await.unwrap();
        }
    };
    let breaking = async {
        for count in 1.. {
            let direction = if count % 2 == 0 { Direction::Requests } else { Direction::Replies };
            world.proxy.cut(direction, 5_000 + 111 * count);
            world.proxy.cuts(count).await;
        }
    };
    tokio::select! {
        () = tasks => {}
        () = breaking => {}
    }
    assert!(client.statistics().resends > 0);
}

#[tokio::test]
async fn what_was_never_executed_is_done_in_the_next_session() {
    // The first session is gone as soon as something is asked in it.
    let (address, server) = Scripted::start(|sequence, _| {
        (sequence.session.0[0] == 1).then_some(Said::Refused(NfsStatus::BadSession))
    })
    .await;
    let client = scripted::connect(address).await;
    client.compound(&removal()).await.unwrap().into_results().unwrap();
    assert_eq!(server.asked(nfs4::OpCode::CreateSession), 2);
    assert_eq!(server.asked(nfs4::OpCode::ExchangeId), 1, "the client id is still good");
    assert_eq!(server.asked(nfs4::OpCode::ReclaimComplete), 1);
    assert_eq!(client.statistics().recoveries, 1);
}

#[tokio::test]
async fn a_reply_that_was_not_kept_is_read_again_or_unknown() {
    let (address, _) = Scripted::start(|sequence, _| {
        (sequence.sequence_id % 2 == 0).then_some(Said::Refused(NfsStatus::RetryUncachedRep))
    })
    .await;
    let client = scripted::connect(address).await;
    // Slot 0: RECLAIM_COMPLETE and the lease were 1 and 2.
    client.compound(&lookups(1)).await.unwrap().into_results().unwrap();
    assert!(scripted::is_unknown(&client.compound(&removal()).await));
    client.compound(&removal()).await.unwrap().into_results().unwrap();
    client.compound(&lookups(1)).await.unwrap().into_results().unwrap();
}

#[tokio::test]
async fn a_server_out_of_step_gets_another_session() {
    for status in [NfsStatus::SeqMisordered, NfsStatus::SeqFalseRetry, NfsStatus::DeadSession] {
        let (address, server) =
            Scripted::start(move |sequence, _| (sequence.session.0[0] == 1).then_some(Said::Refused(status)))
                .await;
        let client = scripted::connect(address).await;
        client.compound(&removal()).await.unwrap().into_results().unwrap();
        assert_eq!(server.asked(nfs4::OpCode::CreateSession), 2);
        let left = usize::from(status != NfsStatus::DeadSession);
        assert_eq!(server.asked(nfs4::OpCode::DestroySession), left, "{status}");
        assert_eq!(server.asked(nfs4::OpCode::BindConnToSession), left, "{status}: on a connection of it");
    }
}

#[tokio::test]
async fn who_is_put_off_comes_again_unless_something_was_done() {
    let answers = parking_lot::Mutex::new(vec![
        Said::Refused(NfsStatus::Delay),
        Said::Failed(0, NfsStatus::Grace),
        Said::Failed(1, NfsStatus::Delay),
    ]);
    let (address, _) = Scripted::start(move |_, operations| {
        let is_second = operations.len() == 3;
        if is_second { Some(Said::Failed(2, NfsStatus::Delay)) } else { answers.lock().pop() }
    })
    .await;
    let client = scripted::connect(address).await;
    client.compound(&removal()).await.unwrap().into_results().unwrap();
    assert_eq!(client.statistics().delays, 2);
    let [root, remove] = removal();
    let reply = client.compound(&[root, remove.clone(), remove]).await.unwrap();
    assert_eq!((reply.status, reply.results.len()), (NfsStatus::Delay, 3));
}

#[tokio::test]
async fn an_append_that_is_put_off_comes_again() {
    let first = std::sync::atomic::AtomicBool::new(true);
    let (address, _) = Scripted::start(move |_, operations| {
        let is_put_off = operations.len() == 3 && first.swap(false, std::sync::atomic::Ordering::SeqCst);
        is_put_off.then_some(Said::Failed(2, NfsStatus::Grace))
    })
    .await;
    let client = scripted::connect(address).await;
    let flags = nfs4::bits::compound_mode::APPEND;
    let mode = NfsArgOp::CompoundMode(nfs4::CompoundModeArgs { flags });
    let [root, change] = removal();
    client.compound(&[mode, root, change]).await.unwrap().into_results().unwrap();
    assert_eq!(client.statistics().delays, 1);
}

#[tokio::test]
async fn who_gives_up_waiting_leaves_the_slots_usable() {
    let world = World::with(nfs4_server::Limits { slots: 3, ..nfs4_server::Limits::default() }).await;
    let client = world.client().await;
    let home = home(&client).await;
    assert_eq!(client.limits().slots, 3);
    for round in 0..20 {
        let name = format!("{round}");
        tokio::select! {
            biased;
            result = make_directory(&client, &home, &name) => panic!("{result:?} at once"),
            () = std::future::ready(()) => {}
        }
    }
    for round in 0..20 {
        make_directory(&client, &home, &format!("later {round}")).await.unwrap();
    }
    // What had a slot was executed, once; what had none was not.
    let mut made = 0;
    for round in 0..20 {
        let found = client.compound(&[put_handle(&home), lookup(format!("{round}"))]).await.unwrap();
        made += usize::from(found.status == NfsStatus::Ok);
    }
    assert!((3..20).contains(&made), "{made}");
    assert_eq!(client.statistics().resends, 0);
}

#[tokio::test]
async fn without_an_answer_in_time_a_change_is_unknown_and_a_read_is_unreachable() {
    let (address, _) = Scripted::start(|_, _| Some(Said::Silence)).await;
    let patience = Duration::from_millis(50);
    let options = Options { patience, ..scripted::options() };
    let client = nfs4_client::Client::connect(&[address], options, None).await.unwrap();
    assert!(scripted::is_unknown(&client.compound(&removal()).await));
    let read = client.compound(&lookups(1)).await;
    assert!(matches!(read, Err(ClientError::Unreachable { .. })), "{read:?}");
}

#[tokio::test]
async fn a_compound_that_ends_one_session_after_the_other_is_given_up() {
    // The server fails whenever it is asked this.
    let (address, server) =
        Scripted::start(|_, operations| (operations.len() == 2).then_some(Said::Failure)).await;
    let client = scripted::connect(address).await;
    assert!(scripted::is_unknown(&client.compound(&lookups(1)).await));
    let sessions = server.asked(nfs4::OpCode::CreateSession);
    assert!((5..15).contains(&sessions), "{sessions}");
    client.compound(&lookups(0)).await.unwrap();
}

#[tokio::test]
async fn a_server_that_knows_none_of_its_sessions_is_given_up_and_nothing_is_unknown() {
    let (address, server) = Scripted::start(|_, _| Some(Said::Refused(NfsStatus::BadSession))).await;
    let client = scripted::connect(address).await;
    for _ in 0..2 {
        let refused = client.compound(&removal()).await;
        assert!(matches!(refused, Err(ClientError::Unreachable { .. })), "{refused:?}");
    }
    assert!((10..30).contains(&server.asked(nfs4::OpCode::CreateSession)));
}

#[tokio::test]
async fn restarts_before_a_compound_is_executed_are_not_its_doing() {
    let (address, server) = Scripted::start(|sequence, operations| {
        (operations.len() == 2 && sequence.session.0[0] <= 20).then_some(Said::Restarted)
    })
    .await;
    let client = scripted::connect(address).await;
    client.compound(&removal()).await.unwrap().into_results().unwrap();
    assert_eq!(server.asked(nfs4::OpCode::ExchangeId), 21);
}

#[tokio::test]
async fn what_was_put_off_in_the_last_session_is_not_what_ended_it() {
    // Twenty sessions, in each of which the compound is put off, before the server fails.
    let put_off = parking_lot::Mutex::new(0);
    let (address, _) = Scripted::start(move |sequence, operations| {
        let session = sequence.session.0[0];
        (operations.len() == 2 && session <= 20).then(|| {
            let was_put_off = std::mem::replace(&mut *put_off.lock(), session) == session;
            if was_put_off { Said::Failure } else { Said::Failed(0, NfsStatus::Delay) }
        })
    })
    .await;
    let client = scripted::connect(address).await;
    client.compound(&lookups(1)).await.unwrap().into_results().unwrap();
    assert_eq!(client.statistics().recoveries, 20);
}

#[tokio::test]
async fn what_was_put_off_is_asked_of_the_next_server_at_once() {
    let (address, server) = Scripted::start(|sequence, operations| {
        (sequence.session.0[0] == 1).then(|| match operations.len() {
            2 => Said::Failed(0, NfsStatus::Delay),
            _ => Said::Restarted,
        })
    })
    .await;
    // No pause ever ends.
    let clock = ManualClock::new(Duration::ZERO);
    let options = Options::new(Environment { clock, ..Environment::real() });
    let client = nfs4_client::Client::connect(&[address], options, None).await.unwrap();
    let (removed, found) = tokio::join!(async { client.compound(&removal()).await.unwrap() }, async {
        until(|| client.statistics().delays == 1).await;
        client.compound(&lookups(2)).await.unwrap()
    },);
    assert!(removed.status.is_ok() && found.status.is_ok());
    assert_eq!(server.asked(nfs4::OpCode::Remove), 2);
}

#[tokio::test]
async fn a_client_that_is_closed_is_gone_from_the_server() {
    let world = World::new().await;
    let client = world.client().await;
    let clone = client.clone();
    assert_eq!(world.server().clients(None, 9).clients.len(), 1);
    client.close().await.unwrap();
    assert_eq!(world.server().clients(None, 9).clients.len(), 0);
    assert!(matches!(clone.compound(&[NfsArgOp::PutRootFh]).await, Err(ClientError::Closed)));
}

#[tokio::test]
async fn a_client_is_closed_wherever_the_connection_breaks() {
    for direction in [Direction::Requests, Direction::Replies] {
        // Of DESTROY_SESSION, or of DESTROY_CLIENTID.
        for bytes in [0, 30, 60, 100, 130] {
            let world = World::new().await;
            let client = world.client().await;
            world.proxy.cut(direction, bytes);
            client.close().await.unwrap();
            assert_eq!(world.server().clients(None, 9).clients.len(), 0, "{direction:?} {bytes}");
        }
    }
}

#[tokio::test]
async fn a_client_is_closed_although_the_server_has_restarted() {
    let mut world = World::new().await;
    let client = world.client().await;
    world.stop().await;
    let (closed, ()) = tokio::join!(client.close(), world.start());
    closed.unwrap();
    assert!(matches!(client.compound(&lookups(1)).await, Err(ClientError::Closed)));
}

#[tokio::test]
async fn connections_end_with_the_last_clone() {
    let (address, server) = Scripted::start(|_, _| None).await;
    let client = scripted::connect(address).await;
    let clone: Arc<nfs4_client::Client> = Arc::new(client.counted());
    drop(client);
    clone.compound(&lookups(1)).await.unwrap();
    assert_eq!(clone.statistics().compounds, 1);
    drop(clone);
    let peers = std::mem::take(&mut *server.peers.lock());
    for peer in peers {
        peer.closed().await;
    }
}
