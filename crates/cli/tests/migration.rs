//! Files that move from one policy to another, through real gateways.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // test code at the edge

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nfs4::{StableHow, StateId};
use support::{Client, Gateway, Random, Settings, fragments_below};

/// Every scheme, each on clouds of its own, so that every change leaves a cloud behind.
const POLICIES: [(&str, &[&str]); 4] = [
    ("replicas:3", &["b", "c", "d"]),
    ("aont-rs:2+1", &["d", "a", "b"]),
    ("caont-rs:2+1", &["a", "c", "d"]),
    ("rs:2+1", &["a", "b", "c"]),
];
const CLOUDS: [&str; 4] = ["a", "b", "c", "d"];

fn objects_in(folder: &Path, cloud: &str) -> usize {
    fragments_below(&folder.join("clouds").join(cloud)).len()
}

/// Four clouds, of which the volume uses the first three.
fn begin(folder: &Path) -> Gateway {
    let settings = Settings { backups: "0s", ..Settings::in_folder(folder) };
    let gateway = Gateway::start_with(&folder.join("data"), &settings);
    let fourth = folder.join("clouds/d");
    std::fs::create_dir_all(&fourth).unwrap();
    let url = format!("dir:{}", fourth.display());
    gateway.kurma_ends(&["cloud", "add", "d", "--url", &url], &[0]);
    gateway
}

fn set(gateway: &Gateway, (scheme, clouds): (&str, &[&str])) {
    let clouds = clouds.join(",");
    gateway.kurma_ends(&["volume", "set", "home", "--policy", scheme, "--clouds", &clouds], &[0]);
}

/// Collects until the clouds of a policy hold what the metadata names, and the others nothing.
fn settle(gateway: &Gateway, folder: &Path, clouds: &[&str]) {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        gateway.kurma_ends(&["gc"], &[0]);
        let scrubbed = gateway.json(&["scrub"], &[0]);
        let orphans = gateway.json(&["scrub", "--orphans"], &[0]);
        let there: Vec<usize> = CLOUDS.iter().map(|cloud| objects_in(folder, cloud)).collect();
        let is_left = CLOUDS.iter().zip(&there).any(|(cloud, count)| *count > 0 && !clouds.contains(cloud));
        let good = scrubbed["good"].as_u64().unwrap();
        if !is_left && there.iter().sum::<usize>() as u64 == good {
            assert_eq!(orphans["orphans"], 0);
            return;
        }
        assert!(Instant::now() < deadline, "{there:?} objects, {good} of files");
    }
}

/// Files of several kinds, with what is in them.
async fn fill(client: &Client) -> Vec<(&'static str, Bytes)> {
    let mut random = Random::from_environment("migration");
    let large = random.bytes(5 * 65_536 + 1000);
    let repeated = Bytes::from([&large[..65_536], &large[..65_536]].concat());
    let files =
        vec![("small", random.bytes(100)), ("large", large.clone()), ("same", large), ("twice", repeated)];
    for (name, content) in &files {
        client.write(name, content).await;
    }
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_volume_moves_through_all_policies_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = begin(folder.path());
    let client = Client::connect(gateway.nfs, "client").await;
    let files = fill(&client).await;
    gateway.flush();
    let handle = client.find("large").await.unwrap();
    for policy in POLICIES.iter().chain(POLICIES.iter().rev()) {
        set(&gateway, *policy);
        gateway.kurma_ends(&["volume", "migrate", "home", "--wait"], &[0]);
        let shown = gateway.json(&["volume", "show", "home"], &[0]);
        assert_eq!(shown["migrating"]["files"], 0);
        gateway.check();
        settle(&gateway, folder.path(), policy.1);
        gateway.drop_cache();
        for (name, content) in &files {
            client.expect(name, content).await;
        }
    }
    assert_eq!(client.find("large").await.unwrap(), handle);
    gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_directory_moves_alone_and_an_unknown_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = begin(folder.path());
    let client = Client::connect(gateway.nfs, "client").await;
    client.make_directory("images").await;
    let data = Random::from_environment("directory").bytes(65_536);
    for path in ["images/one", "elsewhere"] {
        client.write(path, &data).await;
    }
    gateway.flush();
    let set = ["volume", "set", "home", "--directory", "images", "--policy", "replicas:1", "--clouds", "d"];
    gateway.kurma_ends(&set, &[0]);
    gateway.kurma_ends(&["volume", "migrate", "home", "--directory", "images", "--wait"], &[0]);
    settle(&gateway, folder.path(), &CLOUDS);
    assert_eq!(CLOUDS.map(|cloud| objects_in(folder.path(), cloud)), [1; 4]);
    let refused = gateway.kurma_ends(&["volume", "migrate", "home", "--directory", "nowhere"], &[1, 2]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no directory \"nowhere\""));
    gateway.drop_cache();
    client.expect("images/one", &data).await;
    gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_migration_goes_on_by_itself_after_a_kill_while_files_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = begin(folder.path());
    let client = Client::connect(gateway.nfs, "client").await;
    let mut random = Random::from_environment("killed");
    let mut content = random.bytes(64 * 65_536).to_vec();
    client.write("file", &Bytes::from(content.clone())).await;
    gateway.flush();
    set(&gateway, POLICIES[0]);
    gateway.kurma_ends(&["volume", "migrate", "home"], &[0]);
    gateway.kill();
    gateway.launch();
    let client = Client::connect(gateway.nfs, "client").await;
    let file = client.find("file").await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut written = 0;
    while gateway.json(&["volume", "show", "home"], &[0])["migrating"]["files"] != 0 || written == 0 {
        assert!(Instant::now() < deadline, "the migration does not end; log:\n{}", gateway.log());
        let (offset, data) = (random.below(64 * 65_536 - 5000) as usize, random.bytes(5000));
        let (at, part) = (offset as u64, data.clone());
        client.write_at(&file, StateId::ANONYMOUS, at, StableHow::FileSync, part).await.unwrap();
        content[offset..offset + data.len()].copy_from_slice(&data);
        written += 1;
    }
    gateway.flush();
    gateway.kurma_ends(&["volume", "migrate", "home", "--wait"], &[0]);
    settle(&gateway, folder.path(), POLICIES[0].1);
    gateway.drop_cache();
    client.expect("file", &Bytes::from(content)).await;
    gateway.check();
}
