//! Clouds are added, drained, removed and lost while files are in use; the client notices nothing.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use nfs4::bits::{compound_mode, share_access};
use nfs4::{CompoundModeArgs, NfsArgOp, NfsResOp, OpenHow, Outcome, StateId};
use nfs4_client::operations::{self as op, put_handle};
use support::{
    Client, Gateway, Mood, Random, S3StandIn, Settings, fragments_below, named_fragments, place_in_dir,
};

fn clouds(folder: &Path, name: &str) -> PathBuf {
    folder.join("clouds").join(name)
}

async fn with_files(folder: &Path) -> (Gateway, Client, Vec<(String, Bytes)>) {
    let gateway = Gateway::start_with(&folder.join("data"), &Settings::in_folder(folder));
    let client = Client::connect(gateway.nfs, "client").await;
    let mut random = Random::from_environment("clouds come and go");
    let files: Vec<(String, Bytes)> =
        (0..6).map(|n| (format!("file{n}"), random.bytes(90_000 * n + 10))).collect();
    for (path, data) in &files {
        client.write(path, data).await;
    }
    gateway.flush();
    (gateway, client, files)
}

async fn expect_files(gateway: &Gateway, client: &Client, files: &[(String, Bytes)]) {
    gateway.drop_cache();
    for (path, data) in files {
        client.expect(path, data).await;
    }
}

fn state_of(gateway: &Gateway, cloud: &str) -> String {
    gateway.ask(&format!("/v1/clouds/{cloud}"))["state"].as_str().unwrap().to_owned()
}

/// Fragments in a directory cloud.
fn objects_in(cloud: &Path) -> usize {
    fragments_below(cloud).len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cloud_is_replaced_by_another_while_files_are_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let (mut gateway, client, mut files) = with_files(folder.path()).await;
    // Three clouds for three fragments: nowhere to go.
    let refused = gateway.kurma_ends(&["cloud", "drain", "b"], &[3]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cloud add"));
    let refused = gateway.kurma_ends(&["cloud", "remove", "b"], &[1]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("home"));

    let file = gateway.data.join("kurma.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("# Mine.\n{text}")).unwrap();
    let fresh = clouds(folder.path(), "d");
    gateway.kurma_ends(&["cloud", "add", "d", "--url", &format!("dir:{}", fresh.display())], &[2]);
    assert!(!fresh.exists(), "a missing directory is not made");
    std::fs::create_dir(&fresh).unwrap();
    gateway.kurma_ends(&["cloud", "add", "d", "--url", &format!("dir:{}", fresh.display())], &[0]);
    gateway.kurma_ends(&["cloud", "add", "d", "--url", "dir:/tmp"], &[2]);
    assert_eq!(state_of(&gateway, "d"), "good");

    let before = objects_in(&clouds(folder.path(), "b"));
    let drained = gateway.json(&["cloud", "drain", "b"], &[0]);
    assert_eq!(drained["to"], "d");
    assert_eq!(drained["moved"], before);
    assert_eq!(objects_in(&clouds(folder.path(), "b")), 0);
    assert_eq!(state_of(&gateway, "b"), "drained");
    expect_files(&gateway, &client, &files).await;
    client.write("later", &Bytes::from_static(b"later")).await;
    files.push(("later".into(), Bytes::from_static(b"later")));
    gateway.flush();
    assert_eq!(objects_in(&clouds(folder.path(), "b")), 0, "nothing new goes to a drained cloud");
    assert!(named_fragments(&gateway, "later").iter().any(|fragment| fragment.cloud == "d"));
    gateway.kurma_ends(&["scrub"], &[0]);

    gateway.kurma_ends(&["cloud", "remove", "b"], &[0]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# Mine.\n") && !text.contains("\"b\""), "{text}");
    assert_eq!(gateway.stop(), Some(0));
    gateway.launch();
    let client = Client::connect(gateway.nfs, "client").await;
    expect_files(&gateway, &client, &files).await;
    // The name is free, and stands for another cloud now.
    let again = clouds(folder.path(), "b");
    gateway.kurma_ends(&["cloud", "add", "b", "--url", &format!("dir:{}", again.display())], &[0]);
    expect_files(&gateway, &client, &files).await;
    gateway.check();
    assert_eq!(support::incidents(&gateway), Vec::<serde_json::Value>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_cloud_is_rebuilt_in_another_and_a_restart_does_not_stop_that() {
    let folder = tempfile::tempdir().unwrap();
    let (mut gateway, _, files) = with_files(folder.path()).await;
    std::fs::remove_dir_all(clouds(folder.path(), "a")).unwrap();
    std::fs::create_dir(clouds(folder.path(), "d")).unwrap();
    let url = format!("dir:{}", clouds(folder.path(), "d").display());
    gateway.kurma_ends(&["cloud", "add", "d", "--url", &url], &[0]);
    gateway.kill();
    gateway.launch();
    gateway.kurma_ends(&["cloud", "drain", "a", "--to", "d"], &[0]);
    gateway.kurma_ends(&["cloud", "remove", "a"], &[0]);
    gateway.kurma_ends(&["scrub"], &[0]);
    std::fs::remove_dir_all(clouds(folder.path(), "b")).unwrap();
    let client = Client::connect(gateway.nfs, "client").await;
    expect_files(&gateway, &client, &files).await;
    gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_missing_directory_cloud_changes_nothing_and_is_taken_up_again_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let (mut gateway, _, mut files) = with_files(folder.path()).await;
    assert_eq!(gateway.stop(), Some(0));
    let (mount, aside) = (clouds(folder.path(), "b"), folder.path().join("aside"));
    std::fs::rename(&mount, &aside).unwrap();
    std::fs::create_dir(&mount).unwrap(); // the bare mount point
    gateway.launch();
    assert!(gateway.log().contains("the cloud is down"), "{}", gateway.log());
    assert_eq!(state_of(&gateway, "b"), "down");
    gateway.kurma_ends(&["status"], &[3]);
    let client = Client::connect(gateway.nfs, "client").await;
    expect_files(&gateway, &client, &files).await;
    client.write("meanwhile", &Bytes::from_static(b"meanwhile")).await;
    files.push(("meanwhile".into(), Bytes::from_static(b"meanwhile")));
    gateway.kurma_ends(&["flush", "--timeout", "2s"], &[3]);
    assert_eq!(std::fs::read_dir(&mount).unwrap().count(), 0, "a bare mount point stays bare");

    std::fs::remove_dir(&mount).unwrap();
    std::fs::rename(&aside, &mount).unwrap();
    support::parallel(|| {
        while state_of(&gateway, "b") != "good" {
            std::thread::yield_now();
        }
    });
    gateway.flush();
    gateway.kurma_ends(&["scrub"], &[0]);
    std::fs::remove_dir_all(clouds(folder.path(), "a")).unwrap();
    expect_files(&gateway, &client, &files).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exchanged_clouds_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (mut gateway, _, files) = with_files(folder.path()).await;
    assert_eq!(gateway.stop(), Some(0));
    let exchange = || {
        let (a, b, aside) =
            (clouds(folder.path(), "a"), clouds(folder.path(), "b"), folder.path().join("aside"));
        std::fs::rename(&a, &aside).unwrap();
        std::fs::rename(&b, &a).unwrap();
        std::fs::rename(&aside, &b).unwrap();
    };
    exchange();
    let refused = gateway.run_to_end();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another cloud"));
    exchange();
    gateway.launch();
    let client = Client::connect(gateway.nfs, "client").await;
    expect_files(&gateway, &client, &files).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn objects_that_nothing_refers_to_are_named_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, client, mut files) = with_files(folder.path()).await;
    let stored =
        || ["a", "b", "c"].map(|name| objects_in(&clouds(folder.path(), name)) as u64).iter().sum::<u64>();
    let found = gateway.json(&["scrub", "--orphans"], &[0]);
    assert_eq!((&found["objects"], &found["orphans"]), (&stored().into(), &0.into()));
    let name = "stray234567stray234567stray234567stray23";
    let stray = place_in_dir(&clouds(folder.path(), "b"), name);
    std::fs::create_dir_all(stray.parent().unwrap()).unwrap();
    std::fs::write(&stray, b"whose is it?").unwrap();
    let found = gateway.json(&["scrub", "--orphans"], &[3]);
    assert_eq!((&found["orphans"], &found["bytes"]), (&1.into(), &12.into()));
    assert_eq!((&found["names"][0]["cloud"], &found["names"][0]["name"]), (&"b".into(), &name.into()));
    assert!(stray.exists());
    std::fs::remove_file(stray).unwrap();
    // What is superseded, removed and shared is known.
    files[2].1 = Bytes::from_static(b"shorter");
    client.write(&files[2].0, &files[2].1).await;
    client.remove(&files.pop().unwrap().0).await;
    gateway.flush();
    gateway.kurma_ends(&["scrub", "--orphans"], &[0]);
    gateway.kurma_ends(&["scrub", "home", "--orphans"], &[2]);
    expect_files(&gateway, &client, &files).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cloud_that_is_not_in_the_configuration_any_more_is_drained() {
    let folder = tempfile::tempdir().unwrap();
    let (mut gateway, client, files) = with_files(folder.path()).await;
    drop(client);
    assert_eq!(gateway.stop(), Some(0));
    let mut settings = Settings::in_folder(folder.path());
    let fresh = clouds(folder.path(), "d");
    std::fs::create_dir(&fresh).unwrap();
    settings.clouds[1] = ("d".into(), format!("dir:{}", fresh.display()));
    settings.write(&gateway.data);
    gateway.launch();
    let client = Client::connect(gateway.nfs, "client").await;
    expect_files(&gateway, &client, &files).await;
    gateway.kurma_ends(&["cloud", "drain", "nobody"], &[1]);
    gateway.kurma_ends(&["cloud", "drain", "b"], &[0]);
    assert_eq!(objects_in(&fresh), objects_in(&clouds(folder.path(), "a")));
    gateway.kurma_ends(&["scrub"], &[0]);
    client.write("new", &files[1].1).await;
    gateway.flush();
    std::fs::remove_dir_all(clouds(folder.path(), "a")).unwrap();
    expect_files(&gateway, &client, &files).await;
    gateway.kurma_ends(&["cloud", "drain", "b"], &[1]);
}

/// The way to a cloud is long: a compound that reads many files goes it once (`V43`, `T13`).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_files_that_a_compound_reads_are_fetched_side_by_side() {
    const FILES: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let cloud = S3StandIn::start(&folder.path().join("cloud"));
    let settings = Settings {
        clouds: vec![("a".to_owned(), cloud.url())],
        policy: "replicas:1",
        longest_packed: "0B",
        ..Settings::in_folder(folder.path())
    };
    let data = folder.path().join("data");
    settings.write(&data);
    let mut gateway = Gateway::start_on_s3(&data);
    let client = Client::connect(gateway.nfs, "client").await;
    let names: Vec<String> = (0..FILES).map(|number| format!("file {number}")).collect();
    for name in &names {
        client.write(name, &Bytes::from(name.clone())).await;
    }
    gateway.flush();
    for mode in [vec![], vec![NfsArgOp::CompoundMode(CompoundModeArgs { flags: compound_mode::ATOMIC })]] {
        gateway.drop_cache();
        cloud.set(Mood::Together(FILES));
        let read = |name: &String| {
            let open = op::open(name.as_str(), share_access::READ, OpenHow::NoCreate, op::owner("reader"));
            [put_handle(&client.home), open, op::read(StateId::CURRENT, 0, 1000), op::close(StateId::CURRENT)]
        };
        let request: Vec<NfsArgOp> = mode.into_iter().chain(names.iter().flat_map(read)).collect();
        let results = client.run(&request).await.unwrap();
        let found = results.into_iter().filter_map(|result| match result {
            NfsResOp::Read(Outcome::Ok(read)) => Some(read.data.into_bytes()),
            _ => None,
        });
        assert_eq!(found.collect::<Vec<_>>(), names);
        cloud.set(Mood::Well);
    }
    gateway.stop();
}
