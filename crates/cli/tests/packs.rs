//! Many small files cost few requests: to be stored, to be read again, and to be kept when most of them are gone.
//!
//! `KURMA_FILES` is how many there are.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::path::Path;
use std::time::Instant;

use nfs4::StableHow;
use support::bill::{assert_agrees, requests_to};
use support::{Client, Gateway, Random, S3StandIn, Settings};

const FILES: usize = 5000;
const LENGTH: usize = 4096;
/// In one directory.
const SIDE_BY_SIDE: usize = 500;

fn file_count() -> usize {
    std::env::var("KURMA_FILES").map_or(FILES, |files| files.parse().expect("a number"))
}

fn content(number: usize) -> Vec<u8> {
    (0..LENGTH).map(|at| (at * 31 + number * 7 + number / 251) as u8).collect()
}

/// A tree of small files on this machine.
fn make_tree(folder: &Path, files: usize) {
    for number in 0..files {
        let directory = folder.join((number / SIDE_BY_SIDE).to_string());
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(number.to_string()), content(number)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_files_by_the_thousand_cost_a_few_requests() {
    let files = file_count();
    let folder = tempfile::tempdir().unwrap();
    let clouds = ["a", "b", "c"].map(|name| S3StandIn::start(&folder.path().join(name)));
    let mut settings = Settings {
        journal: "2GiB",
        memory: "256MiB",
        disk: "2GiB",
        in_flight: "64MiB",
        write_back_wait: "5s",
        ..Settings::in_folder(folder.path())
    };
    for (cloud, name) in clouds.iter().zip(["a", "b", "c"]) {
        settings = settings.with_cloud(name, cloud.url());
    }
    let data = folder.path().join("data");
    settings.write(&data);
    let mut gateway = Gateway::start_on_s3(&data);
    let tree = folder.path().join("tree");
    make_tree(&tree, files);
    let puts = || clouds.each_ref().map(|cloud| cloud.requests_by("PUT"));
    let gets = || clouds.iter().map(|cloud| cloud.requests_by("GET")).sum::<usize>();

    let (before, begun) = (puts(), Instant::now());
    let url = format!("nfs://{}/home", gateway.nfs);
    gateway.kurma_ends(&["cp", "-r", tree.to_str().unwrap(), &url], &[0]);
    let written = begun.elapsed();
    gateway.kurma_ends(&["flush", "--timeout", "20m"], &[0]);
    let stored: Vec<usize> = puts().iter().zip(before).map(|(after, before)| after - before).collect();
    println!("{files} files: written in {written:?}, flushed after {:?}; PUTs {stored:?}", begun.elapsed());
    // 1,500 for 100,000 files, backups of the metadata included; those of the first file would be some, too.
    let most = 20 + files * 1480 / 100_000;
    assert!(stored.iter().all(|puts| *puts <= most), "{stored:?} PUTs for {files} files, {most} allowed");
    // The bill says the same, to the request.
    let seen = || ["a", "b", "c"].into_iter().zip(clouds.each_ref().map(requests_to)).collect();
    assert_agrees(&gateway, seen);
    let status = gateway.json(&["status"], &[0]);
    let packs = status["node"]["packs"].as_u64().unwrap() as usize;
    assert!(packs > 0 && stored.iter().all(|puts| *puts >= packs), "{packs} packs by {stored:?} PUTs");
    let why = gateway.json(&["why", "/home/tree/0/17"], &[0]);
    let pack = &why["blocks"][0]["pack"];
    assert!(pack["bytes"].as_u64().unwrap() > LENGTH as u64, "{why}");
    assert!(pack["pack_bytes"].as_u64().unwrap() > 100 * LENGTH as u64, "{why}");

    gateway.drop_cache();
    let (before, begun) = (gets(), Instant::now());
    let back = folder.path().join("back");
    gateway.kurma_ends(&["cp", "-r", &format!("{url}/tree"), back.to_str().unwrap()], &[0]);
    let read = gets() - before;
    println!("read in {:?} by {read} GETs", begun.elapsed());
    for number in 0..files {
        let path = back.join((number / SIDE_BY_SIDE).to_string()).join(number.to_string());
        assert_eq!(std::fs::read(path).unwrap(), content(number), "file {number}");
    }
    assert!(read * 10 < files, "{read} GETs for {files} files");
    assert_agrees(&gateway, seen);

    assert_eq!(gateway.stop(), Some(0));
}

/// `K53`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_writes_side_by_side_are_one_request_to_each_cloud() {
    let folder = tempfile::tempdir().unwrap();
    let clouds = ["a", "b", "c"].map(|name| S3StandIn::start(&folder.path().join(name)));
    let (policy, block_size, backups, write_back_wait) = ("replicas:3", "1MiB", "0s", "1h");
    let usual = Settings::in_folder(folder.path());
    let mut settings = Settings { policy, block_size, backups, write_back_wait, ..usual };
    for (cloud, name) in clouds.iter().zip(["a", "b", "c"]) {
        settings = settings.with_cloud(name, cloud.url());
    }
    let data = folder.path().join("data");
    settings.write(&data);
    let mut gateway = Gateway::start_on_s3(&data);
    let client = Client::connect(gateway.nfs, "client").await;
    let content = Random::from_environment("grouping").bytes(1 << 20);
    let puts = || clouds.each_ref().map(|cloud| cloud.requests_by("PUT"));
    let before = puts();
    let file = client.open("file").await.unwrap();
    for at in (0..content.len()).step_by(4096) {
        let part = content.slice(at..at + 4096);
        client.write_at(&file.handle, file.state_id, at as u64, StableHow::FileSync, part).await.unwrap();
    }
    client.session.close(&file).await.unwrap();
    gateway.flush();
    assert_eq!(puts(), before.map(|puts| puts + 1));
    gateway.drop_cache();
    client.expect("file", &content).await;
    assert_eq!(gateway.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_many_packs_moves_together() {
    let files = 2000;
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &Settings::in_folder(folder.path()));
    let tree = folder.path().join("tree");
    make_tree(&tree, files);
    let url = format!("nfs://{}/home", gateway.nfs);
    gateway.kurma_ends(&["cp", "-r", tree.to_str().unwrap(), &url], &[0]);
    gateway.flush();
    let packs = gateway.json(&["status"], &[0])["node"]["packs"].as_u64().unwrap() as usize;

    // Four of five go, from everywhere: the rest moves together.
    let names = (0..files).filter(|number| number % 5 != 0);
    let names: Vec<String> = names.map(|n| format!("{url}/tree/{}/{n}", n / SIDE_BY_SIDE)).collect();
    for names in names.chunks(500) {
        let command: Vec<&str> = ["rm"].into_iter().chain(names.iter().map(String::as_str)).collect();
        gateway.kurma_ends(&command, &[0]);
    }
    let begun = Instant::now();
    let (mut cleaned, mut moved) = (0, 0);
    // Removed files are taken apart in the background.
    let packs_now = || gateway.json(&["status"], &[0])["node"]["packs"].as_u64().unwrap() as usize;
    while moved * 10 < files as u64 || packs_now() > packs.div_ceil(2) {
        assert!(begun.elapsed().as_secs() < 300, "{cleaned} packs cleaned, {moved} blocks moved");
        let report = gateway.json(&["gc"], &[0]);
        cleaned += report["packs_cleaned"].as_u64().unwrap();
        moved += report["blocks_moved"].as_u64().unwrap();
    }
    println!("{cleaned} packs cleaned, {moved} blocks moved in {:?}", begun.elapsed());
    gateway.check();
    gateway.drop_cache();
    let again = folder.path().join("again");
    gateway.kurma_ends(&["cp", "-r", &format!("{url}/tree"), again.to_str().unwrap()], &[0]);
    for number in (0..files).step_by(5) {
        let path = again.join((number / SIDE_BY_SIDE).to_string()).join(number.to_string());
        assert_eq!(std::fs::read(path).unwrap(), content(number), "file {number}");
    }
    gateway.json(&["scrub", "--orphans"], &[0]);
    assert_eq!(gateway.stop(), Some(0));
}
