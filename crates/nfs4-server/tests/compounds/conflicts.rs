//! Compounds that meet other transactions are run again, state and all (decision D1).

use std::collections::HashSet;

use file_system::Mode;
use nfs4::bits::share_access;
use nfs4::{CreateType, NfsArgOp, NfsResOp, NfsStatus, Outcome};
use nfs4_client::operations::{close, create, guarded, open, owner, put_handle, remove, unchecked};

use crate::harness::{World, home, outcome, statuses};

#[tokio::test]
async fn a_compound_is_run_again_from_its_start_without_leaving_traces_in_the_state() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    world.home.take_modes();
    world.home.refuse_commits(3);
    let reply = session
        .compound(&[
            put_handle(&root),
            open("f", share_access::BOTH, guarded(0o644), owner("o")),
            NfsArgOp::GetFh,
        ])
        .await
        .unwrap();
    assert_eq!(statuses(&reply.results), [NfsStatus::Ok; 3]);
    let NfsResOp::Open(Outcome::Ok(opened)) = &reply.results[1] else { panic!("no OPEN") };
    assert_eq!(opened.state_id.seqid, 1, "as if it had been run once");
    assert_eq!(world.home.take_modes(), [Mode::Optimistic; 4]);
    let metrics = running.server.metrics();
    assert_eq!((metrics.conflicts, metrics.census.opens), (3, 1));
    running.stop().await;
}

#[tokio::test]
async fn after_some_conflicts_a_compound_waits_for_its_turn_alone() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    world.home.take_modes();
    world.home.refuse_commits(world.limits.optimistic_tries + 1);
    let (status, _) =
        outcome(&session, &[put_handle(&root), create(CreateType::Directory, "d", 0o755)]).await;
    assert_eq!(status, NfsStatus::Ok);
    assert_eq!(world.home.take_modes()[world.limits.optimistic_tries as usize..], [Mode::Exclusive; 2]);
    running.stop().await;
}

#[tokio::test]
async fn endless_conflicts_end_in_delay_with_nothing_done() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    world.home.refuse_commits(u32::MAX);
    let request = [put_handle(&root), open("f", share_access::BOTH, unchecked(0o644), owner("o"))];
    assert_eq!(outcome(&session, &request).await, (NfsStatus::Delay, 1));
    assert_eq!(running.server.metrics().census.opens, 0);
    world.home.refuse_commits(0);
    assert_eq!(outcome(&session, &[put_handle(&root), remove("f")]).await.0, NfsStatus::NoEnt);
    running.stop().await;
}

#[tokio::test]
async fn a_conflict_in_the_middle_of_a_compound_is_run_again_as_well() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap();
    world.home.refuse_attributes(1);
    let request = [
        put_handle(&file.handle),
        close(file.state_id),
        nfs4_client::operations::get_attributes(nfs4::Attribute::set(&[nfs4::Attribute::Size])),
    ];
    assert_eq!(outcome(&session, &request).await, (NfsStatus::Ok, 3));
    let metrics = running.server.metrics();
    assert_eq!((metrics.conflicts, metrics.census.opens), (1, 0));
    running.stop().await;
}

#[tokio::test]
async fn a_commit_that_fails_for_good_is_blamed_on_the_first_change() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    world.home.break_next_commit();
    let request =
        [put_handle(&root), NfsArgOp::GetFh, create(CreateType::Directory, "d", 0o755), NfsArgOp::GetFh];
    let reply = session.compound(&request).await.unwrap();
    assert_eq!(statuses(&reply.results), [NfsStatus::Ok, NfsStatus::Ok, NfsStatus::Io]);
    running.stop().await;
}

#[tokio::test]
async fn a_compound_over_two_volumes_commits_each_in_turn() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let other = session.lookup(&["other"]).await.unwrap();
    let request = |name: &str| {
        [
            put_handle(&root),
            create(CreateType::Directory, name, 0o755),
            put_handle(&other),
            create(CreateType::Directory, name, 0o755),
            put_handle(&root),
            create(CreateType::Directory, format!("{name}2"), 0o755),
        ]
    };
    assert_eq!(outcome(&session, &request("d")).await, (NfsStatus::Ok, 6));
    // What is committed already is not run again.
    world.home.take_commits();
    world.home.refuse_attributes(0);
    assert_eq!(outcome(&session, &request("d")).await, (NfsStatus::Exist, 2));
    assert_eq!(outcome(&session, &request("e")).await, (NfsStatus::Ok, 6));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_creating_in_one_directory_all_succeed_once() {
    let world = World::new().await;
    let running = world.start().await;
    let mut tasks = Vec::new();
    for client in 0..8 {
        let session = running.client(&format!("client{client}")).await;
        tasks.push(tokio::spawn(async move {
            let root = home(&session).await;
            for index in 0..25 {
                let name = format!("{client}-{index}");
                loop {
                    let request = [put_handle(&root), create(CreateType::Directory, name.as_str(), 0o755)];
                    match outcome(&session, &request).await.0 {
                        NfsStatus::Ok => break,
                        NfsStatus::Delay => tokio::task::yield_now().await,
                        status => panic!("{status}"),
                    }
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let session = running.client("reader").await;
    let root = home(&session).await;
    let entries = session.read_directory(&root, nfs4::Bitmap::EMPTY).await.unwrap();
    let names: HashSet<_> = entries.iter().map(|entry| entry.name.clone()).collect();
    assert_eq!((entries.len(), names.len()), (200, 200));
    running.stop().await;
}
