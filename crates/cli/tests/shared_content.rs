//! Volumes that keep equal content once, and policies of directories, through real gateways.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // test code at the edge

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use support::{Client, Gateway, Random, Settings, files_below, named_fragments};

fn objects_in(folder: &Path, cloud: &str) -> usize {
    let files = files_below(&folder.join("clouds").join(cloud));
    files.iter().filter(|file| !file.to_string_lossy().contains("/.kurma-")).count()
}

fn objects(folder: &Path) -> [usize; 3] {
    ["a", "b", "c"].map(|cloud| objects_in(folder, cloud))
}

/// Removed files are taken apart in the background, then their blocks are garbage: collects until so many objects are left.
async fn collect_to(gateway: &Gateway, folder: &Path, left: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while objects(folder) != [left; 3] {
        assert!(Instant::now() < deadline, "{:?} objects, not {left} in each cloud", objects(folder));
        gateway.kurma_ends(&["gc"], &[0]);
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn equal_blocks_are_stored_once_and_go_with_the_last_file_that_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { policy: "caont-rs:2+1", backups: "0s", ..Settings::in_folder(folder.path()) };
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let client = Client::connect(gateway.nfs, "client").await;
    let data = Random::from_environment("equal blocks").bytes(5 * 65_536 + 1000);
    client.write("one", &data).await;
    gateway.flush();
    assert_eq!(objects(folder.path()), [6; 3]);
    client.write("other", &data).await;
    client.write("twice", &Bytes::from([&data[..65_536], &data[..65_536]].concat())).await;
    gateway.flush();
    assert_eq!(objects(folder.path()), [6; 3]);
    let names = |gateway: &Gateway, path| {
        named_fragments(gateway, path).into_iter().map(|one| one.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&gateway, "one"), names(&gateway, "other"));
    client.remove("one").await;
    gateway.flush();
    gateway.kurma_ends(&["gc"], &[0]);
    gateway.kill();
    gateway.launch();
    let client = Client::connect(gateway.nfs, "client").await;
    gateway.kurma_ends(&["gc"], &[0]);
    gateway.drop_cache();
    client.expect("other", &data).await;
    gateway.kurma_ends(&["scrub"], &[0]);
    gateway.check();
    assert_eq!(objects(folder.path()), [6; 3]);
    client.remove("other").await;
    collect_to(&gateway, folder.path(), 1).await;
    client.expect("twice", &Bytes::from([&data[..65_536], &data[..65_536]].concat())).await;
    client.remove("twice").await;
    collect_to(&gateway, folder.path(), 0).await;
    gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_directory_has_a_policy_of_its_own_until_it_inherits_again() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { backups: "0s", ..Settings::in_folder(folder.path()) };
    let gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let client = Client::connect(gateway.nfs, "client").await;
    client.make_directory("images").await;
    let data = Random::from_environment("directories").bytes(65_536);
    let set = ["volume", "set", "home", "--directory", "images", "--policy"];
    gateway.kurma_ends(&[&set[..], &["caont-rs:2+1"]].concat(), &[0]);
    for path in ["images/one", "images/other", "elsewhere"] {
        client.write(path, &data).await;
    }
    gateway.flush();
    assert_eq!(objects(folder.path()), [2; 3]);
    let shown = gateway.json(&["volume", "show", "home"], &[0]);
    assert_eq!(shown["policy"], "rs:2+1");
    assert_eq!(shown["directories"][0]["path"], "/home/images");
    assert_eq!(shown["directories"][0]["policy"], "caont-rs:2+1");
    gateway.kurma_ends(&[&set[..], &["inherit"]].concat(), &[0]);
    client.write("images/third", &data).await;
    gateway.flush();
    assert_eq!(objects(folder.path()), [3; 3]);
    let absent = ["volume", "set", "home", "--directory", "nowhere", "--policy", "replicas:3"];
    let refused = gateway.kurma_ends(&absent, &[1, 2]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no directory \"nowhere\""));
    gateway.check();
}
