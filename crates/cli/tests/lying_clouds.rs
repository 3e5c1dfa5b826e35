//! Clouds that lie, forget, hang and refuse: with three clouds, whatever the dispersal, the client notices nothing, the tamper
//! log notices everything, and repair makes it good.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use nfs4::NfsStatus;
use support::{
    Client, DISPERSALS, FragmentPlace, Gateway, Mood, Random, S3StandIn, Settings, incidents,
    named_fragments, place_in_dir,
};

/// Three directory clouds and a volume with blocks of 64 KiB.
struct World {
    folder: tempfile::TempDir,
    gateway: Gateway,
    client: Client,
    random: Random,
    /// Path and content of every file.
    files: Vec<(String, Bytes)>,
}

impl World {
    async fn new(scenario: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::in_folder(folder.path());
        World::with(scenario, folder, &settings).await
    }

    async fn dispersed(scenario: &str, policy: &'static str) -> World {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { policy, ..Settings::in_folder(folder.path()) };
        World::with(&format!("{scenario} {policy}"), folder, &settings).await
    }

    async fn with(scenario: &str, folder: tempfile::TempDir, settings: &Settings) -> World {
        let gateway = Gateway::start_with(&folder.path().join("data"), settings);
        let client = Client::connect(gateway.nfs, "client").await;
        World { folder, gateway, client, random: Random::from_environment(scenario), files: Vec::new() }
    }

    /// Writes a file of so many bytes.
    async fn write(&mut self, path: &str, length: usize) {
        let data = self.random.bytes(length);
        self.client.write(path, &data).await;
        self.files.retain(|(known, _)| known != path);
        self.files.push((path.to_owned(), data));
    }

    async fn expect_all(&self) {
        for (path, data) in &self.files {
            self.client.expect(path, data).await;
        }
    }

    fn file_of(&self, place: &FragmentPlace) -> PathBuf {
        place_in_dir(&self.folder.path().join("clouds").join(&place.cloud), &place.name)
    }

    /// The fragment of a block of `path` in `cloud`.
    fn fragment(&self, path: &str, block: u64, cloud: &str) -> FragmentPlace {
        let places = named_fragments(&self.gateway, path);
        let mut found = places.into_iter().filter(|place| place.block == block && place.cloud == cloud);
        found.next().unwrap_or_else(|| panic!("{path} has no block {block} in cloud {cloud}"))
    }

    /// Everything the client wrote is read from the clouds, each bad fragment is an incident with all fields, repair
    /// rewrites them as they were, and then nothing is wrong any more.
    async fn expect_healing(&mut self, damaged: &[(FragmentPlace, Vec<u8>)]) {
        self.gateway.drop_cache();
        self.expect_all().await;
        self.gateway.kurma_ends(&["scrub"], &[0, 3]); // finds the ones that no read needed
        let log = incidents(&self.gateway);
        for (place, _) in damaged {
            let incident = log.iter().find(|incident| incident["fragment"] == place.name.as_str());
            let incident =
                incident.unwrap_or_else(|| panic!("{} incidents, and none of {place:?}", log.len()));
            assert_eq!(incident["cloud"], place.cloud.as_str(), "{incident:#}");
            assert_eq!(incident["block"], place.block, "{incident:#}");
            assert_eq!(incident["version"], place.version, "{incident:#}");
            assert!(incident["time"].as_f64() > Some(1.7e9), "{incident:#}"); // seconds of the wall clock
            for field in ["volume", "object", "wrong", "done"] {
                let text = incident[field].as_str();
                assert!(text.is_some_and(|text| !text.is_empty()), "no {field} in {incident:#}");
            }
        }
        self.gateway.kurma_ends(&["repair"], &[0]);
        self.gateway.kurma_ends(&["scrub"], &[0]);
        for (place, before) in damaged {
            assert!(std::fs::read(self.file_of(place)).unwrap() == *before, "{place:?} is not what it was");
        }
        self.gateway.drop_cache();
        self.expect_all().await;
        self.gateway.check();
    }

    /// Changes the stored bytes of a fragment; `None` deletes it. Returns what was there.
    fn damage(&self, place: &FragmentPlace, how: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
        let file = self.file_of(place);
        let before = std::fs::read(&file).unwrap();
        match how(&before) {
            Some(bytes) => std::fs::write(file, bytes).unwrap(),
            None => std::fs::remove_file(file).unwrap(),
        }
        before
    }
}

/// One block of one file is treated `how` in each cloud in turn.
async fn one_bad_fragment_heals(scenario: &str, how: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    one_bad_fragment_heals_with("rs:2+1", scenario, how).await;
}

async fn one_bad_fragment_heals_with(
    policy: &'static str,
    scenario: &str,
    how: impl Fn(&[u8]) -> Option<Vec<u8>>,
) {
    let mut world = World::dispersed(scenario, policy).await;
    let paths = ["in-a", "in-b", "in-c"];
    for path in paths {
        world.write(path, 3 * 65_536 + 1000).await;
    }
    world.gateway.flush();
    let mut damaged = Vec::new();
    for (path, cloud) in paths.into_iter().zip(["a", "b", "c"]) {
        let place = world.fragment(path, 1, cloud);
        let before = world.damage(&place, &how);
        damaged.push((place, before));
    }
    world.expect_healing(&damaged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deleted_fragment_is_read_from_elsewhere_and_stored_again() {
    for policy in DISPERSALS {
        one_bad_fragment_heals_with(policy, "deleted", |_| None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_truncated_fragment_is_read_from_elsewhere_and_stored_again() {
    one_bad_fragment_heals("empty", |_| Some(Vec::new())).await;
    one_bad_fragment_heals("one byte", |before| Some(before[..1].to_vec())).await;
    one_bad_fragment_heals("half", |before| Some(before[..before.len() / 2].to_vec())).await;
    one_bad_fragment_heals("without its last byte", |before| Some(before[..before.len() - 1].to_vec())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_extended_fragment_is_read_from_elsewhere_and_stored_again() {
    one_bad_fragment_heals("extended", |before| Some([before, &[0]].concat())).await;
    one_bad_fragment_heals("doubled", |before| Some([before, before].concat())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn garbage_instead_of_a_fragment_is_read_from_elsewhere_and_stored_again() {
    one_bad_fragment_heals("garbage", |before| Some(noise().bytes(before.len()).to_vec())).await;
    one_bad_fragment_heals("zeros", |before| Some(vec![0; before.len()])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_flipped_bit_is_noticed_whatever_the_dispersal() {
    for policy in DISPERSALS {
        let flip = |before: &[u8]| {
            let mut bytes = before.to_vec();
            bytes[before.len() / 2] ^= 1;
            Some(bytes)
        };
        one_bad_fragment_heals_with(policy, "flipped", flip).await;
    }
}

fn noise() -> Random {
    Random::from_environment("noise")
}

/// Each byte of a small fragment is flipped in a file of its own, so that header, tag and ciphertext all have their
/// turn; in a large one, samples.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_flipped_bit_anywhere_is_noticed_and_made_good() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { longest_packed: "0B", ..Settings::in_folder(folder.path()) };
    let mut world = World::with("flipped bit", folder, &settings).await;
    world.write("measure", 20).await;
    world.gateway.flush();
    let clouds = ["a", "b", "c"];
    let place = world.fragment("measure", 0, "a");
    let length = std::fs::read(world.file_of(&place)).unwrap().len();
    for at in 0..length {
        world.write(&format!("small{at}"), 20).await;
    }
    world.write("large", 8 * 65_536).await;
    world.gateway.flush();
    let flip = |world: &mut World, path: &str, block: u64, cloud: &str, at: Option<usize>| {
        let place = world.fragment(path, block, cloud);
        let (anywhere, bit) = (world.random.next() as usize, 1 << world.random.below(8));
        let before = world.damage(&place, |before| {
            let mut bytes = before.to_vec();
            bytes[at.unwrap_or(anywhere % before.len())] ^= bit;
            Some(bytes)
        });
        (place, before)
    };
    let large = (0..8)
        .map(|block| flip(&mut world, "large", block, clouds[block as usize % 3], None))
        .collect::<Vec<_>>();
    world.expect_healing(&large).await;
    // In portions: the tamper log shows the last thousand, and one may be met by a read and by the scrub.
    for portion in (0..length).collect::<Vec<_>>().chunks(500) {
        let small =
            portion.iter().map(|at| flip(&mut world, &format!("small{at}"), 0, clouds[at % 3], Some(*at)));
        let small = small.collect::<Vec<_>>();
        world.expect_healing(&small).await;
    }
    println!("each of {length} bytes of a small fragment");
}

/// Exchanges two fragments and returns both as they were.
fn swap(world: &World, one: FragmentPlace, other: FragmentPlace) -> [(FragmentPlace, Vec<u8>); 2] {
    let (first, second) =
        (std::fs::read(world.file_of(&one)).unwrap(), std::fs::read(world.file_of(&other)).unwrap());
    std::fs::write(world.file_of(&one), &second).unwrap();
    std::fs::write(world.file_of(&other), &first).unwrap();
    [(one, first), (other, second)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_blocks_of_a_file_swapped_are_noticed_and_made_good() {
    for policy in DISPERSALS {
        let mut world = World::dispersed("swapped blocks", policy).await;
        let paths = ["in-a", "in-b", "in-c"];
        for path in paths {
            world.write(path, 4 * 65_536).await;
        }
        world.gateway.flush();
        let mut damaged = Vec::new();
        for (path, cloud) in paths.into_iter().zip(["a", "b", "c"]) {
            let (one, other) = (world.fragment(path, 1, cloud), world.fragment(path, 2, cloud));
            damaged.extend(swap(&world, one, other));
        }
        world.expect_healing(&damaged).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_block_of_two_files_swapped_is_noticed_and_made_good() {
    for policy in DISPERSALS {
        let mut world = World::dispersed("swapped files", policy).await;
        for path in ["one", "other"] {
            world.write(path, 4 * 65_536).await;
        }
        world.gateway.flush();
        let mut damaged = Vec::new();
        for (block, cloud) in [(0, "a"), (1, "b"), (2, "c")] {
            let (one, other) = (world.fragment("one", block, cloud), world.fragment("other", block, cloud));
            assert_eq!(one.version, other.version);
            damaged.extend(swap(&world, one, other));
        }
        world.expect_healing(&damaged).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_older_version_put_back_is_noticed_and_made_good() {
    for policy in DISPERSALS {
        let mut world = World::dispersed("older version", policy).await;
        world.write("file", 3 * 65_536).await;
        world.gateway.flush();
        let clouds = [(0, "a"), (1, "b"), (2, "c")];
        let old: Vec<Vec<u8>> = clouds
            .iter()
            .map(|(block, cloud)| {
                std::fs::read(world.file_of(&world.fragment("file", *block, cloud))).unwrap()
            })
            .collect();
        world.write("file", 3 * 65_536).await;
        world.gateway.flush();
        let mut damaged = Vec::new();
        for ((block, cloud), old) in clouds.into_iter().zip(old) {
            let place = world.fragment("file", block, cloud);
            let before = world.damage(&place, |_| Some(old));
            damaged.push((place, before));
        }
        world.expect_healing(&damaged).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_too_many_bad_clouds_a_read_fails_and_never_gives_wrong_bytes() {
    for policy in DISPERSALS {
        too_many_bad_clouds(policy).await;
    }
}

async fn too_many_bad_clouds(policy: &'static str) {
    let mut world = World::dispersed("too many", policy).await;
    let too_many: &[&str] = if policy == "replicas:3" { &["a", "b", "c"] } else { &["a", "c"] };
    for path in ["deleted", "flipped", "older", "good"] {
        world.write(path, 2 * 65_536 + 10).await;
    }
    world.gateway.flush();
    let older: Vec<Vec<u8>> = ["a", "b", "c"]
        .iter()
        .map(|cloud| std::fs::read(world.file_of(&world.fragment("older", 0, cloud))).unwrap())
        .collect();
    world.write("older", 2 * 65_536 + 10).await;
    world.gateway.flush();
    for cloud in too_many {
        world.damage(&world.fragment("deleted", 1, cloud), |_| None);
        world.damage(&world.fragment("flipped", 1, cloud), |before| {
            let mut bytes = before.to_vec();
            bytes[before.len() / 2] ^= 1;
            Some(bytes)
        });
    }
    for (cloud, old) in ["a", "b", "c"].into_iter().zip(older) {
        world.damage(&world.fragment("older", 0, cloud), |_| Some(old));
    }
    world.gateway.drop_cache();
    for path in ["deleted", "flipped", "older"] {
        world.client.expect_failure(path, NfsStatus::Io).await;
    }
    world.files.retain(|(path, _)| path == "good");
    world.expect_all().await;
    world.gateway.kurma_ends(&["scrub"], &[3]);
    world.gateway.kurma_ends(&["repair"], &[3]);
    assert!(incidents(&world.gateway).len() >= 7);
    // New data is as welcome as ever, also in the place of what is lost.
    world.write("deleted", 65_536).await;
    world.gateway.drop_cache();
    world.expect_all().await;
}

/// A world whose first cloud, which holds plain data of every block, is a stand-in.
async fn with_stand_in(scenario: &str) -> (World, S3StandIn) {
    let folder = tempfile::tempdir().unwrap();
    let stand_in = S3StandIn::start(&folder.path().join("bucket"));
    let settings = Settings::in_folder(folder.path()).with_cloud("a", stand_in.url());
    let data = folder.path().join("data");
    settings.write(&data);
    let gateway = Gateway::start_on_s3(&data);
    let client = Client::connect(gateway.nfs, "client").await;
    let random = Random::from_environment(scenario);
    (World { folder, gateway, client, random, files: Vec::new() }, stand_in)
}

/// No operation may take longer than this while a cloud hangs; the time-out of the cloud is 30 s.
const UNNOTICED: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hanging_cloud_delays_neither_reads_nor_writes() {
    let (mut world, cloud) = with_stand_in("hanging").await;
    for number in 0..8 {
        world.write(&format!("before{number}"), 3 * 65_536).await;
    }
    world.gateway.flush();
    world.gateway.drop_cache();
    cloud.set(Mood::Hanging);
    let mut slowest = Duration::ZERO;
    let began = Instant::now();
    let mut number = 0;
    while number < 8 || (began.elapsed() < Duration::from_secs(10) && number < 200) {
        let started = Instant::now();
        world.write(&format!("during{number}"), 3 * 65_536).await;
        slowest = slowest.max(started.elapsed());
        let (path, data) = &world.files[number % 8];
        let started = Instant::now();
        world.client.expect(path, data).await;
        slowest = slowest.max(started.elapsed());
        number += 1;
    }
    println!("{number} writes and reads, the slowest took {slowest:?}");
    assert!(slowest < UNNOTICED, "an operation took {slowest:?}");
    cloud.set(Mood::Well);
    world.expect_whole_again().await;
}

impl World {
    /// After the cloud is back: what it missed is stored, and a scrub finds nothing.
    async fn expect_whole_again(&mut self) {
        self.gateway.kurma_ends(&["repair"], &[0, 3]); // repairs wait for their turn after failures
        self.gateway.flush();
        // A cloud that failed is asked now and then at first, and backups in it are out of reach in between.
        let mut tries = 0;
        while self.gateway.kurma_ends(&["scrub"], &[0, 3]).status.code() != Some(0) {
            tries += 1;
            assert!(tries < 120, "it is not whole again");
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        }
        self.gateway.drop_cache();
        self.expect_all().await;
        self.gateway.check();
    }
}

async fn a_refusing_cloud_is_tolerated(status: u16) {
    let (mut world, cloud) = with_stand_in("refusing").await;
    cloud.set(Mood::RefusingWrites(status));
    for number in 0..20 {
        world.write(&format!("file{number}"), 2 * 65_536 + 100 * number).await;
    }
    world.write("file0", 65_536).await;
    let left = world.gateway.json(&["flush", "--timeout", "8s"], &[3]);
    assert_eq!(left["dirty_bytes"], 0, "{left:#}");
    assert!(left["repairs"].as_u64() > Some(0), "{left:#}");
    assert!(cloud.objects() <= 1); // the claim of the start, which came before
    world.gateway.drop_cache();
    world.expect_all().await;
    world.gateway.kurma_ends(&["status"], &[3]); // somebody should look after that cloud
    // The debts survive a restart.
    assert_eq!(world.gateway.stop(), Some(0));
    cloud.set(Mood::Well);
    world.gateway.launch();
    world.client = Client::connect(world.gateway.nfs, "client").await;
    world.expect_whole_again().await;
    assert!(cloud.objects() > 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cloud_that_forbids_all_writes_costs_nothing_but_repairs() {
    a_refusing_cloud_is_tolerated(403).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cloud_that_is_out_of_service_for_writes_costs_nothing_but_repairs() {
    a_refusing_cloud_is_tolerated(503).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cloud_whose_directory_vanishes_is_missed_and_not_replaced() {
    let mut world = World::new("vanished").await;
    world.write("before", 3 * 65_536).await;
    world.gateway.flush();
    let (cloud, elsewhere) = (world.folder.path().join("clouds/b"), world.folder.path().join("elsewhere"));
    std::fs::rename(&cloud, &elsewhere).unwrap();
    world.write("during", 3 * 65_536).await;
    world.gateway.kurma_ends(&["flush", "--timeout", "5s"], &[3]);
    world.gateway.drop_cache();
    world.expect_all().await;
    assert!(!Path::new(&cloud).exists(), "an unmounted cloud was replaced by an empty folder");
    std::fs::rename(&elsewhere, &cloud).unwrap();
    world.expect_whole_again().await;
}
