//! Whatever the moment of a crash: what was acknowledged is there, what was not is whole or absent.
//!
//! Clients create, write, commit, rename, link, truncate and remove, each with an exact log of what the server
//! acknowledged, until the process is killed at a random moment or at a failpoint, those of its start among them. `KURMA_CRASHES` is
//! the number of kills (by SIGKILL, under load or at a point; ends in order do not count), `KURMA_SEED` repeats the choices of a run.
//! Several gateways live at the same time, for each mostly waits.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod model;
mod plan;
mod step;
#[path = "../support/mod.rs"]
mod support;
mod worker;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::join_all;

use plan::{COMMIT_PATH, POINTS, Plan, any_moment, often, plans};
use support::{Client, Gateway, Random, Settings, files_below, fragments_below};
use worker::{Observed, SHARED, Worker, observe};

/// Gateways that live at the same time.
const WORLDS: usize = 2;
/// Clients of each.
const CLIENTS: usize = 4;

/// How long the load may run towards a failpoint before everything is done to reach it.
const LOAD: Duration = Duration::from_millis(1500);
/// What files are moved to; each can do without one cloud.
const POLICIES: [&str; 4] = ["rs:2+1", "replicas:3", "aont-rs:2+1", "caont-rs:2+1"];
/// Small files that are written together, and those of them that stay.
const SMALL: usize = 400;
const HELD: usize = 140;
/// Fragments that a cloud loses when upkeep is to have something to repair.
const LOST: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn no_crash_loses_what_was_acknowledged_or_leaves_anything_half_done() {
    let rounds = std::env::var("KURMA_CRASHES").map_or(100, |rounds| rounds.parse().expect("a number"));
    let mut random = Random::from_environment("crashes");
    let plans = plans(rounds, &mut random);
    let folder = tempfile::tempdir().unwrap();
    let worlds = (0..WORLDS).map(|world| {
        let folder = folder.path().join(world.to_string());
        std::fs::create_dir(&folder).unwrap();
        let settings = Settings { journal: "64MiB", lease: "10s", ..Settings::in_folder(&folder) };
        let plans: Vec<Plan> = plans.iter().skip(world).step_by(WORLDS).cloned().collect();
        tokio::spawn(live(folder, settings, plans, random.fork()))
    });
    let mut lives: Vec<(Run, Settings)> = Vec::new();
    for world in worlds.collect::<Vec<_>>() {
        lives.push(world.await.unwrap());
    }
    // Luck decides whether a point is passed so often in one life; each must have been the end of one.
    for turn in 0..4 {
        for name in unreached(&points(&lives)) {
            println!("once more: {name}");
            lives[turn % WORLDS].0.round(&Plan::Point { name, nth: 1 }).await;
        }
    }
    for turn in 0..10 {
        for name in never_together(&lives) {
            println!("once more, with transactions: {name}");
            // The first passes of a life are by clients that come back.
            let nth = if often(name) > 1 { often(name) } else { 1 + 8 * turn as u64 };
            lives[turn % WORLDS].0.round_together(&Plan::Point { name, nth }).await;
        }
    }
    for (run, settings) in &mut lives {
        run.compare_with_clouds_only(settings).await;
        run.expect_nothing_but_fragments_of_files().await;
    }
    report(&lives, rounds);
}

/// The rounds of one gateway.
async fn live(folder: PathBuf, settings: Settings, plans: Vec<Plan>, mut random: Random) -> (Run, Settings) {
    let world = folder.file_name().unwrap().to_owned();
    let mut run = Run::begin(&folder, &settings, &mut random).await;
    for (round, plan) in plans.iter().enumerate() {
        println!("gateway {world:?}, round {round}: {plan:?}");
        run.round(plan).await;
        if round % 10 == 9 {
            run.compare_with_clouds_only(&settings).await;
        }
    }
    // Those that had not come to their point, and ended in order.
    while run.kills < plans.len() {
        run.round(&any_moment(&mut random)).await;
    }
    (run, settings)
}

/// Rounds and hits by failpoint.
type Points = BTreeMap<&'static str, (u32, u32)>;

/// Of all gateways.
fn points(lives: &[(Run, Settings)]) -> Points {
    let mut points = Points::new();
    for (name, (rounds, hits)) in lives.iter().flat_map(|(run, _)| &run.points) {
        let of_all = points.entry(*name).or_default();
        *of_all = (of_all.0 + rounds, of_all.1 + hits);
    }
    points
}

/// Points at which no crash happened.
fn unreached(points: &Points) -> Vec<&'static str> {
    let names = POINTS.iter().map(|(name, _)| *name);
    names.filter(|name| points.get(name).is_none_or(|(_, hits)| *hits == 0)).collect()
}

/// Points of the commit path at which no transaction was under way in any crash.
fn never_together(lives: &[(Run, Settings)]) -> Vec<&'static str> {
    let met = |name: &&str| lives.iter().any(|(run, _)| run.together.contains(name));
    COMMIT_PATH.into_iter().filter(|name| !met(name)).collect()
}

fn report(lives: &[(Run, Settings)], wanted: usize) {
    let acknowledged: u64 =
        lives.iter().flat_map(|(run, _)| &run.workers).map(|worker| worker.acknowledged).sum();
    let count: u64 = lives.iter().map(|(run, _)| run.life).sum();
    let kills: usize = lives.iter().map(|(run, _)| run.kills).sum();
    println!("{count} lives, {kills} of them ended by SIGKILL, {acknowledged} steps acknowledged");
    assert!(kills >= wanted, "there were fewer kills than asked for");
    let points = points(lives);
    for (name, what) in &*POINTS {
        let (rounds, hits) = points.get(name).copied().unwrap_or_default();
        println!("{name:<26} {hits} of {rounds}  {what}");
    }
    let never = unreached(&points);
    assert!(never.is_empty(), "no crash happened at {never:?}");
    let never = never_together(lives);
    assert!(never.is_empty(), "no crash happened at {never:?} while a transaction was under way");
}

/// The whole scenario: one gateway, its clients, and how often each point was reached.
struct Run {
    folder: PathBuf,
    gateway: Gateway,
    workers: Vec<Worker>,
    random: Random,
    /// Starts of the gateway.
    life: u64,
    /// Rounds that ended by SIGKILL.
    kills: usize,
    observed: HashSet<String>,
    points: Points,
    /// Points at which it ended while a transaction was under way.
    together: BTreeSet<&'static str>,
}

impl Run {
    async fn begin(folder: &Path, settings: &Settings, random: &mut Random) -> Run {
        let gateway = Gateway::start_with(&folder.join("data"), settings);
        let mut workers: Vec<Worker> =
            (0..CLIENTS).map(|number| Worker::new(number, random.fork())).collect();
        Client::connect(gateway.nfs, "observer").await.make_directory(SHARED).await;
        for worker in &mut workers {
            worker.settle(gateway.nfs).await;
        }
        let random = random.fork();
        let mut run = Run {
            folder: folder.into(),
            gateway,
            workers,
            random,
            life: 1,
            kills: 0,
            observed: HashSet::new(),
            points: Points::new(),
            together: BTreeSet::new(),
        };
        run.gateway.kill();
        run
    }

    /// One life of the gateway that ends as planned. The promises of the life before are checked at its start; once
    /// more in a life of its own when the failpoint was hit too early for that.
    async fn round(&mut self, plan: &Plan) {
        if let Plan::Point { name, nth } = plan {
            if name.starts_with("clients.") {
                self.rest().await;
            }
            self.gateway.set("KURMA_FAILPOINT", format!("{name}:{nth}"));
        }
        self.life += 1;
        let verified = self.gateway.try_launch() && self.verify().await;
        if verified {
            self.load(plan).await;
        }
        if let Plan::Point { name, .. } = plan {
            let (rounds, hits) = self.points.entry(*name).or_default();
            *rounds += 1;
            let is_hit = self.gateway.was_at_failpoint();
            *hits += u32::from(is_hit);
            if is_hit && verified && self.workers.iter().any(Worker::is_together) {
                self.together.insert(*name);
            }
        }
        self.gateway.interrupt();
        let (is_killed, log) = (self.gateway.was_killed(), self.gateway.log());
        assert!(is_killed || matches!(plan, Plan::Point { .. }), "the gateway ended by itself; log:\n{log}");
        self.kills += usize::from(is_killed);
        self.gateway.kill();
        self.gateway.unset("KURMA_FAILPOINT");
        if !verified {
            self.live().await;
            self.gateway.kill();
        }
    }

    /// The same, while the clients make hardly anything but transactions.
    async fn round_together(&mut self, plan: &Plan) {
        self.workers.iter_mut().for_each(|worker| worker.prefers_together = true);
        self.round(plan).await;
        self.workers.iter_mut().for_each(|worker| worker.prefers_together = false);
    }

    /// Begins a life that keeps all promises.
    async fn live(&mut self) {
        self.life += 1;
        self.gateway.launch();
        assert!(self.verify().await, "the gateway ended by itself; log:\n{}", self.gateway.log());
    }

    /// One life in which all come back, hold nothing, and have no record any more when it ends cleanly.
    async fn rest(&mut self) {
        self.live().await;
        assert_eq!(self.gateway.stop(), Some(0), "log:\n{}", self.gateway.log());
    }

    /// All promises at once: a client that stays away would keep the others in the grace period.
    async fn verify(&mut self) -> bool {
        let server = self.gateway.nfs;
        let observer = async { Client::try_connect(server, "observer").await.is_ok() };
        let verified = join_all(self.workers.iter_mut().map(|worker| worker.verify(server, &self.observed)));
        let (observer, verified) = tokio::join!(observer, verified);
        if !observer || verified.contains(&false) {
            return false;
        }
        let output = self.gateway.kurma(&["meta", "check"]);
        if output.status.code() != Some(0) {
            assert!(
                self.gateway.has_died(),
                "meta check: {}{}\nlog:\n{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr),
                self.gateway.log()
            );
            return false;
        }
        true
    }

    /// Load until the process ends.
    async fn load(&mut self, plan: &Plan) {
        let (server, life) = (self.gateway.nfs, self.life);
        let observed = Observed::default();
        let mut load = tokio::spawn({
            let (observed, mut workers) = (observed.clone(), std::mem::take(&mut self.workers));
            async move {
                tokio::join!(
                    join_all(workers.iter_mut().map(|w| w.work(server, life))),
                    observe(server, observed)
                );
                workers
            }
        });
        let patience = match plan {
            Plan::AnyMoment(after) => *after,
            Plan::Point { .. } => LOAD,
        };
        // The load ends by itself only when the process does.
        let ended = match tokio::time::timeout(patience, &mut load).await {
            Ok(ended) => ended,
            Err(_) => {
                self.end(plan);
                load.await
            }
        };
        self.workers = ended.expect("the load");
        self.observed = std::mem::take(&mut *observed.lock().unwrap());
    }

    /// Ends a process that is still alive; one that heads for a failpoint gets every chance to reach it first.
    fn end(&mut self, plan: &Plan) {
        if let Plan::Point { name, .. } = plan {
            if name.starts_with("pack.") || name.starts_with("clean.") {
                self.fill_and_empty_packs();
            }
            self.provoke();
            if self.random.percent(70) {
                self.gateway.terminate();
                return;
            }
        }
        self.gateway.interrupt();
    }

    /// More small files than one transaction commits, in a pack of which most becomes garbage. As in [`Run::provoke`], nothing need
    /// succeed.
    fn fill_and_empty_packs(&mut self) {
        let to = format!("nfs://{}/home", self.gateway.nfs);
        for (from, files, length) in [("full", SMALL, 4096), ("hollow", SMALL - HELD, 0)] {
            let folder = self.folder.join(from).join("small");
            if !folder.exists() {
                std::fs::create_dir_all(&folder).unwrap();
                for file in 0..files {
                    std::fs::write(folder.join(file.to_string()), vec![file as u8; length]).unwrap();
                }
            }
            if !self.gateway.has_died() {
                self.gateway.kurma(&["cp", "-r", folder.to_str().expect("a name in letters"), &to]);
            }
            if !self.gateway.has_died() {
                self.gateway.kurma(&["flush", "--timeout", "10s"]);
            }
        }
        // What was cut off lets go of its pack, which is cleaned then.
        for _ in 0..2 {
            if !self.gateway.has_died() {
                self.gateway.kurma(&["gc"]);
            }
        }
    }

    /// Makes the upkeep do everything it can do, and repair what a cloud lost. Nothing here need succeed: the
    /// process may end at any moment.
    fn provoke(&mut self) {
        if !self.gateway.has_died() {
            self.gateway.kurma(&["flush", "--timeout", "10s"]); // the files of this moment are in the clouds
        }
        // Always the same cloud: two would be more than the policy tolerates. And what came last: the load may have
        // replaced the rest, and nobody repairs what is not current.
        let mut cloud = fragments_below(&self.folder.join("clouds/b"));
        cloud.sort_by_key(|fragment| fragment.metadata().and_then(|data| data.modified()).ok());
        for fragment in cloud.iter().rev().take(LOST) {
            let _ = std::fs::remove_file(fragment); // garbage collection may have been faster
        }
        let policy = POLICIES[self.random.below(POLICIES.len() as u64) as usize];
        let set = ["volume", "set", "home", "--policy", policy];
        let migrate = ["volume", "migrate", "home", "--wait"];
        let rotate = ["key", "rotate", "--wait"];
        for command in [&["scrub"][..], &["repair"], &set, &migrate, &rotate, &["gc"]] {
            if self.gateway.has_died() {
                return;
            }
            self.gateway.kurma(command);
        }
    }

    /// After a flush and a clean stop, a gateway with another journal and cache reads the same from the clouds.
    async fn compare_with_clouds_only(&mut self, settings: &Settings) {
        self.live().await;
        self.gateway.kurma(&["scrub"]); // finds what `provoke` deleted
        self.gateway.flush();
        self.gateway.json(&["scrub", "--orphans"], &[0]);
        assert_eq!(self.gateway.stop(), Some(0), "log:\n{}", self.gateway.log());
        let copy = self.folder.join(format!("copy{}", self.life));
        let data = &self.gateway.data;
        for file in files_below(data) {
            let inside = file.strip_prefix(data).unwrap();
            if !["cache", "journal"].iter().any(|part| inside.starts_with(part)) {
                let to = copy.join(inside);
                std::fs::create_dir_all(to.parent().unwrap()).unwrap();
                std::fs::copy(&file, to).unwrap();
            }
        }
        // Without backups it lays no claim to what is the first one's.
        let mut other = Gateway::start_with(&copy, &Settings { backups: "0s", ..settings.clone() });
        let server = other.nfs;
        let observer = Client::connect(server, "observer");
        tokio::join!(observer, join_all(self.workers.iter().map(|worker| worker.expect_same(server))));
        other.kill();
        std::fs::remove_dir_all(copy).unwrap();
    }

    /// After all crashes the clouds hold every fragment that the metadata names, and nothing else.
    async fn expect_nothing_but_fragments_of_files(&mut self) {
        self.live().await;
        self.gateway.flush();
        let number = |value: &serde_json::Value, key: &str| value[key].as_u64().expect("a number");
        let mut seen = Vec::new();
        for _ in 0..120 {
            let collected = self.gateway.json(&["gc"], &[0]);
            let scrubbed = self.gateway.json(&["scrub"], &[0]);
            let found = self.gateway.json(&["scrub", "--orphans"], &[0]);
            let there = fragments_below(&self.folder.join("clouds"));
            let good = number(&scrubbed, "good");
            if (there.len() as u64, number(&found, "objects")) == (good, good) {
                println!("{good} fragments in the clouds, all of them of files");
                return;
            }
            // Files that were removed are taken apart when nobody can come back for them.
            seen.push(format!("{} files, {collected} {scrubbed} {found}", there.len()));
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("the clouds do not come to hold what the metadata names: {seen:#?}");
    }
}
