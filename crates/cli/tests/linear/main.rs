//! Whatever several real clients saw of one object at the same time, there is an order that explains it.
//!
//! Names, locks, appends and numbers, each contended for by clients with sessions of their own. What each client asked and was
//! answered is recorded with its times, and the crate `linearizable` looks for the order. `KURMA_LINEAR` is the number of
//! operations of each client, `KURMA_LINEAR_KILLS` how many of them are between two kills of the gateway (0: it is not killed), `KURMA_SEED` repeats the choices of a run; how they met it does not repeat.

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

/// Operations of each client between two kills, unless said otherwise.
const BETWEEN_KILLS: usize = 30;

/// Objects of each kind.
const OBJECTS: usize = 2;

/// Lets clients contend for objects of all kinds. The gateway is killed and started again after so many operations of each.
async fn contend(scenario: &str) {
    let number =
        |name: &str, or: usize| std::env::var(name).map_or(or, |text| text.parse().expect("a number"));
    let operations = number("KURMA_LINEAR", OPERATIONS);
    let between_kills = number("KURMA_LINEAR_KILLS", BETWEEN_KILLS);
    let mut random = Random::from_environment(scenario);
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &Settings::in_folder(folder.path()));
    let maker = Client::connect(gateway.nfs, "maker").await;
    let world = Arc::new(World::new(gateway.nfs, operations));

    let (mut names, mut locks) = (Vec::new(), Vec::new());
    let (mut logs, mut registers) = (Vec::new(), Vec::new());
    for number in 0..OBJECTS {
        let path = |kind: &str| format!("{kind}{number}");
        names.push((path("names"), names::clients(&world, &maker, &path("names")).await));
        locks.push((path("locks"), locks::clients(&world, &maker, &path("locks")).await));
        logs.push((path("log"), log::clients(&world, &maker, &path("log")).await));
        registers.push((path("registers"), registers::clients(&world, &maker, &path("registers")).await));
    }
    // Nobody waits for it after a kill.
    maker.session.destroy_client().await.unwrap();
    let names = Contest::begin_all(&world, names::Folder, names, &mut random);
    let locks = Contest::begin_all(&world, locks::Locks, locks, &mut random);
    let logs = Contest::begin_all(&world, log::Log, logs, &mut random);
    let registers = Contest::begin_all(&world, registers::Pair, registers, &mut random);
    let clients: usize = names.iter().map(Contest::clients).sum::<usize>()
        + locks.iter().map(Contest::clients).sum::<usize>()
        + logs.iter().map(Contest::clients).sum::<usize>()
        + registers.iter().map(Contest::clients).sum::<usize>();
    let apart = if between_kills == 0 { usize::MAX } else { clients * between_kills };
    for kill in (apart..clients * operations).step_by(apart) {
        if !world.reached(kill - random.below(apart as u64 / 2) as usize).await {
            // Whom it waited for after each kill would not come back.
            break;
        }
        world.kill(|| gateway.kill());
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
    contend("an order").await;
}
