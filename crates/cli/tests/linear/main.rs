//! Whatever several real clients saw of one object at the same time, there is an order that explains it.
//!
//! Names, locks, appends and numbers, each contended for by clients with sessions of their own. What each client asked and was
//! answered is recorded with its times, and the crate `linearizable` looks for the order. `KURMA_LINEAR` is the number of
//! operations of each client, `KURMA_LINEAR_KILLS` how many of them are between two kills of the gateway (none unless said), `KURMA_SEED` repeats the choices of a run; how they met it does not repeat.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod contest;
mod locks;
mod log;
mod names;
mod registers;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::sync::Arc;

use contest::Contest;
use support::{Client, Gateway, Random, Settings};
use world::World;

/// Operations of each client, unless said otherwise.
const OPERATIONS: usize = 150;

/// Objects of each kind.
const OBJECTS: usize = 2;

/// Lets clients contend for objects of all kinds. The gateway is killed and started again after so many operations of each.
async fn contend(scenario: &str, between_kills: Option<usize>) {
    let operations = std::env::var("KURMA_LINEAR").map_or(OPERATIONS, |text| text.parse().expect("a number"));
    let mut random = Random::from_environment(scenario);
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &Settings::in_folder(folder.path()));
    let maker = Client::connect(gateway.nfs, "maker").await;
    let world = Arc::new(World::new(gateway.nfs, operations));

    let (mut names, mut locks) = (Vec::new(), Vec::new());
    let (mut logs, mut registers) = (Vec::new(), Vec::new());
    for number in 0..OBJECTS {
        let path = |kind: &str| format!("{kind}{number}");
        let clients = names::clients(&world, &maker, &path("names")).await;
        names.push(Contest::begin(&world, path("names"), names::Folder, clients, &mut random));
        let clients = locks::clients(&world, &maker, &path("locks")).await;
        locks.push(Contest::begin(&world, path("locks"), locks::Locks, clients, &mut random));
        let clients = log::clients(&world, &maker, &path("log")).await;
        logs.push(Contest::begin(&world, path("log"), log::Log, clients, &mut random));
        let clients = registers::clients(&world, &maker, &path("registers")).await;
        registers.push(Contest::begin(&world, path("registers"), registers::Pair, clients, &mut random));
    }
    // Nobody waits for it after a kill.
    maker.session.destroy_client().await.unwrap();
    let clients: usize = names.iter().map(Contest::clients).sum::<usize>()
        + locks.iter().map(Contest::clients).sum::<usize>()
        + logs.iter().map(Contest::clients).sum::<usize>()
        + registers.iter().map(Contest::clients).sum::<usize>();
    let apart = between_kills.map_or(usize::MAX, |operations| clients * operations);
    for kill in (apart..clients * operations).step_by(apart) {
        world.reached(kill - random.below(apart as u64 / 2) as usize).await;
        gateway.kill();
        world.died();
        gateway.launch();
    }
    for contest in names {
        contest.verdict().await;
    }
    for contest in locks {
        contest.verdict().await;
    }
    for contest in logs {
        contest.verdict().await;
    }
    for contest in registers {
        let history = contest.verdict().await;
        registers::notices_a_stale_read(history);
    }
    gateway.check();
    gateway.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_clients_see_at_once_has_an_order() {
    let between_kills = std::env::var("KURMA_LINEAR_KILLS").ok();
    contend("an order", between_kills.map(|text| text.parse().expect("a number"))).await;
}
