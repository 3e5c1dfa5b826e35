//! Two real gateways with one identity on the same clouds: one of them stops, says why, and the files of the other stay whole.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use support::{Client, Gateway, KURMA, Random, Settings, files_below, fragments_below, parallel};

struct World {
    folder: tempfile::TempDir,
    old: Gateway,
    keys: PathBuf,
    files: BTreeMap<String, Bytes>,
    random: Random,
}

impl World {
    /// A gateway with flushed files, which looks at its clouds every `backups`.
    async fn begin(name: &str, backups: &'static str) -> World {
        let folder = tempfile::tempdir().unwrap();
        // Each block by itself, so that what is removed is deleted.
        let settings = Settings { backups, longest_packed: "0B", ..Settings::in_folder(folder.path()) };
        let old = Gateway::start_with(&folder.path().join("old"), &settings);
        let keys = folder.path().join("recovery.key");
        old.kurma_ends(
            &["key", "export", keys.to_str().unwrap(), "--data", old.data.to_str().unwrap()],
            &[0],
        );
        let mut world =
            World { folder, old, keys, files: BTreeMap::new(), random: Random::from_environment(name) };
        let client = Client::connect(world.old.nfs, "client").await;
        for number in 0..8 {
            let data = world.random.bytes(100_000);
            client.write(&format!("file{number}"), &data).await;
            world.files.insert(format!("file{number}"), data);
        }
        world.old.flush();
        world
    }

    fn restore(&self, name: &str) -> Gateway {
        let to = self.folder.path().join(name);
        let mut command = Command::new(&*KURMA);
        command.args(["restore", "--to", to.to_str().unwrap(), "--keys", self.keys.to_str().unwrap()]);
        let output = parallel(|| command.env_remove("KURMA_ADMIN").output().unwrap());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        Gateway::new(&to)
    }

    fn objects(&self) -> usize {
        let clouds = self.folder.path().join("clouds");
        ["a", "b", "c"].iter().map(|name| fragments_below(&clouds.join(name)).len()).sum()
    }
}

/// All files are there, from the clouds, and every fragment of them.
async fn expect_whole(gateway: &Gateway, files: &BTreeMap<String, Bytes>) {
    gateway.drop_cache();
    let client = Client::connect(gateway.nfs, "client").await;
    for (path, data) in files {
        client.expect(path, data).await;
    }
    gateway.kurma_ends(&["scrub"], &[0]);
    gateway.check();
}

/// The start is refused with this in the text, and status 2.
fn is_refused(gateway: &Gateway, text: &str) {
    let output = gateway.run_to_end();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains(text) && told.contains("--take-over"), "{told}");
}

fn take_over(gateway: &mut Gateway) {
    gateway.take_over = true;
    gateway.launch();
    gateway.take_over = false;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_was_restored_from_and_runs_on_stops_and_deletes_nothing_that_the_restored_one_needs() {
    let mut world = World::begin("old runs on", "1s").await;
    let mut new = world.restore("new");
    new.launch();
    assert_eq!(world.old.wait(), Some(1), "{}", world.old.log());
    let log = world.old.log();
    assert!(log.contains("another gateway goes on") && log.contains("deletes nothing more"), "{log}");
    is_refused(&world.old, "another gateway goes on");
    let client = Client::connect(new.nfs, "client").await;
    let data = world.random.bytes(200_000);
    client.write("file0", &data).await;
    world.files.insert("file0".into(), data);
    new.flush();
    expect_whole(&new, &world.files).await;

    // Only who is told to takes over; then the other one stops.
    let before = world.files.clone();
    take_over(&mut world.old);
    assert_eq!(new.wait(), Some(1), "{}", new.log());
    is_refused(&new, "another gateway goes on");
    let client = Client::connect(world.old.nfs, "client").await;
    for path in before.keys().filter(|path| *path != "file0") {
        client.expect(path, &before[path]).await;
    }
    // Nobody is afraid of his own claim.
    assert_eq!(world.old.stop(), Some(0));
    world.old.launch();
    world.old.flush();
}

/// The old one does not look at the clouds by itself: it is about to delete what the restored one refers to.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn garbage_of_who_was_restored_from_stays_when_the_restored_one_has_begun() {
    let mut world = World::begin("garbage", "1h").await;
    let mut new = world.restore("new");
    new.launch();
    let stored = world.objects();
    let client = Client::connect(world.old.nfs, "client").await;
    for path in world.files.keys() {
        client.remove(path).await;
    }
    // A backup comes before the deletions, and after it a look at the clouds.
    world.old.kurma(&["gc"]);
    assert_eq!(world.old.wait(), Some(1), "{}", world.old.log());
    assert_eq!(world.objects(), stored);
    expect_whole(&new, &world.files).await;
    assert_eq!(new.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restored_gateway_is_refused_when_the_old_one_has_gone_on_and_the_old_one_is_not_disturbed() {
    let mut world = World::begin("came late", "1s").await;
    let new = world.restore("new");
    let twin = world.restore("twin");
    let client = Client::connect(world.old.nfs, "client").await;
    let data = world.random.bytes(200_000);
    client.write("file0", &data).await;
    world.files.insert("file0".into(), data);
    world.old.flush();
    is_refused(&new, "has gone on since");
    world.old.kurma_ends(&["backup", "now"], &[0]);
    expect_whole(&world.old, &world.files).await;

    // Of two that were restored from one backup the first goes on.
    assert_eq!(world.old.stop(), Some(0));
    let mut third = world.restore("third");
    let fourth = world.restore("fourth");
    third.launch();
    is_refused(&fourth, "has gone on since");
    is_refused(&twin, "has gone on since");
    expect_whole(&third, &world.files).await;
}

fn copy(from: &Path, to: &Path) {
    for file in files_below(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(&file, &target).unwrap();
    }
}

/// A snapshot of a virtual machine is started beside it, or in its place when it is old.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_data_folder_and_its_copy_one_goes_on() {
    let mut world = World::begin("copies", "1s").await;
    assert_eq!(world.old.stop(), Some(0));
    let at = world.folder.path().join("copy");
    copy(&world.old.data, &at);
    let mut twin = Gateway::new(&at);
    world.old.launch();
    world.old.flush();
    is_refused(&twin, "a copy of this data folder");
    take_over(&mut twin);
    assert_eq!(world.old.wait(), Some(1), "{}", world.old.log());
    is_refused(&world.old, "another gateway goes on");
    expect_whole(&twin, &world.files).await;
}
