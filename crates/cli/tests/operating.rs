//! Commands of everyday operation: dump and load, the cache, logs, exports, stopping at once.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::process::Command;

use bytes::Bytes;
use support::{Client, Gateway, KURMA, Random, Settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_dump_loads_into_an_empty_store_only_and_brings_every_file_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &Settings::in_folder(folder.path()));
    let client = Client::connect(gateway.nfs, "client").await;
    let mut random = Random::from_environment("dump");
    let files: Vec<(String, Bytes)> =
        (0..5).map(|n| (format!("name-canary{n}"), random.bytes(70_000 * n + 1))).collect();
    for (path, data) in &files {
        client.write(path, data).await;
    }
    gateway.flush();
    let dump = folder.path().join("dump");
    let dump_text = dump.to_str().unwrap();
    let made = gateway.json(&["meta", "dump", dump_text], &[0]);
    let bytes = std::fs::read(&dump).unwrap();
    assert_eq!(made["bytes"], bytes.len());
    assert!(!bytes.windows(6).any(|part| part == b"canary"), "names are sealed");
    assert_eq!(gateway.stop(), Some(0));

    let data = gateway.data.to_str().unwrap().to_owned();
    let load = |code: i32| {
        let output = support::parallel(|| {
            Command::new(&*KURMA).args(["meta", "load", dump_text, "--data", &data]).output().unwrap()
        });
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        said
    };
    assert!(load(2).contains("not empty"));
    for part in ["meta", "journal", "cache"] {
        std::fs::rename(gateway.data.join(part), folder.path().join(part)).unwrap();
    }
    let mut damaged = bytes.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&dump, damaged).unwrap();
    assert!(load(2).contains("damaged"));
    std::fs::write(&dump, &bytes[..bytes.len() - 1]).unwrap();
    assert!(load(2).contains("too early"));
    assert!(!gateway.data.join("meta/metadata.redb").exists(), "a bad dump leaves nothing behind");
    std::fs::write(&dump, &bytes).unwrap();
    load(0);
    gateway.launch();
    let client = Client::connect(gateway.nfs, "client").await;
    for (path, data) in &files {
        client.expect(path, data).await;
    }
    client.write("new", &Bytes::from_static(b"new")).await;
    gateway.flush();
    gateway.check();
    gateway.kurma_ends(&["scrub"], &[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_are_warmed_pinned_and_evicted() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start_with(&folder.path().join("data"), &Settings::in_folder(folder.path()));
    let client = Client::connect(gateway.nfs, "client").await;
    let data = Random::from_environment("cache").bytes(300_000);
    client.write("file", &data).await;
    gateway.flush();
    gateway.drop_cache();
    let cached = || {
        let why = gateway.ask("/v1/why?path=/home/file");
        why["blocks"].as_array().unwrap().iter().filter(|block| block["cached"] == true).count()
    };
    assert_eq!(cached(), 0);
    let warmed = gateway.json(&["cache", "warm", "/home"], &[0]);
    assert_eq!((&warmed["files"], &warmed["fetched"]), (&1.into(), &5.into()));
    assert_eq!(cached(), 5);
    assert_eq!(gateway.json(&["cache", "warm", "/home/file"], &[0])["fetched"], 0);
    gateway.kurma_ends(&["cache", "evict", "/home/file"], &[0]);
    assert_eq!(cached(), 0);
    gateway.kurma_ends(&["cache", "pin", "/home/file"], &[0]);
    assert_eq!(gateway.json(&["cache", "stats"], &[0])["pinned_files"], 1);
    gateway.drop_cache();
    support::parallel(|| {
        while cached() < 5 {
            std::thread::yield_now();
        }
    });
    gateway.kurma_ends(&["cache", "evict", "/home"], &[0]);
    assert_eq!(gateway.json(&["cache", "stats"], &[0])["pinned_files"], 0);
    gateway.kurma_ends(&["cache", "warm", "/home/nothing"], &[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn logs_are_objects_a_line_when_asked_for_and_hold_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings::in_folder(folder.path());
    let data = folder.path().join("data");
    settings.write(&data);
    let file = data.join("kurma.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("[log]\nformat = \"json\"\nlevel = \"debug\"\n{text}")).unwrap();
    let mut gateway = Gateway::start(&data);
    let token = std::fs::read_to_string(data.join("admin.token")).unwrap();
    gateway.kurma_ends(&["status"], &[0]);
    assert_eq!(gateway.stop(), Some(0));
    let log = gateway.log();
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("mount with: ")).collect();
    assert!(!lines.is_empty());
    for line in lines {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(line["level"].is_string() && line["timestamp"].is_string(), "{line}");
    }
    let key = std::fs::read_to_string(data.join("keys/gateway.key")).unwrap();
    let secret = key.lines().find_map(|line| line.strip_prefix("secret = ")).unwrap();
    assert!(!log.contains(token.trim()) && !log.contains(secret));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_second_interrupt_stops_at_once_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings =
        Settings { write_back_wait: "1h", stop_wait: "1h", ..Settings::in_folder(folder.path()) };
    settings.policy = "rs:2+1";
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let client = Client::connect(gateway.nfs, "client").await;
    client.write("file", &Bytes::from_static(b"acknowledged")).await;
    // No cloud takes anything: the stop waits.
    for cloud in ["a", "b", "c"] {
        std::fs::rename(folder.path().join("clouds").join(cloud), folder.path().join(cloud)).unwrap();
    }
    let pid = gateway.pid().to_string();
    let interrupt = || Command::new("kill").args(["-INT", &pid]).status().unwrap();
    interrupt();
    support::parallel(|| {
        while std::net::TcpStream::connect(gateway.nfs).is_ok() {
            std::thread::yield_now();
        }
    });
    interrupt();
    assert_eq!(gateway.wait(), Some(130));
    assert!(gateway.log().contains("nothing is lost"), "{}", gateway.log());
    for cloud in ["a", "b", "c"] {
        std::fs::rename(folder.path().join(cloud), folder.path().join("clouds").join(cloud)).unwrap();
    }
    gateway.launch();
    let client = Client::connect(gateway.nfs, "client").await;
    client.expect("file", &Bytes::from_static(b"acknowledged")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn export_options_of_the_configuration_are_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings::in_folder(folder.path());
    let data = folder.path().join("data");
    let mut gateway = Gateway::start_with(&data, &settings);
    let client = Client::connect(gateway.nfs, "client").await;
    client.write("file", &Bytes::from_static(b"data")).await;
    assert_eq!(gateway.stop(), Some(0));
    let file = data.join("kurma.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}export = {{ read_only = true }}\n")).unwrap();
    gateway.launch();
    let client = Client::connect(gateway.nfs, "client").await;
    client.expect("file", &Bytes::from_static(b"data")).await;
    let create = [nfs4_client::operations::put_handle(&client.home), nfs4_client::operations::remove("file")];
    let refused = client.run(&create).await.unwrap_err();
    assert_eq!(refused.status(), Some(nfs4::NfsStatus::Rofs));
    assert_eq!(gateway.stop(), Some(0));
    std::fs::write(&file, format!("{text}export = {{ networks = ['10.99.0.0/16'] }}\n")).unwrap();
    gateway.launch();
    assert!(
        Client::try_connect(gateway.nfs, "client").await.is_err(),
        "other networks do not see the volume"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_limit_of_open_files_is_the_hard_one() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(&folder.path().join("data"));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", gateway.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers[0], numbers[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_admin_flag_goes_before_the_environment_and_both_before_a_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    let one = Gateway::start(&folder.path().join("one"));
    let two = Gateway::start(&folder.path().join("two"));
    let key_of = |gateway: &Gateway| gateway.json(&["key", "show"], &[0])["key"].clone();
    let asked = |args: &[&str], environment: Option<&Gateway>| -> serde_json::Value {
        let mut command = Command::new(&*KURMA);
        command.args(["key", "show", "--json"]).args(args).env_remove("KURMA_ADMIN");
        if let Some(gateway) = environment {
            command.env("KURMA_ADMIN", gateway.admin.to_string());
        }
        let output = support::parallel(|| command.output().unwrap());
        let said = String::from_utf8_lossy(&output.stderr);
        let answer: serde_json::Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
        answer["key"].clone()
    };
    let (first, second) = (key_of(&one), key_of(&two));
    let data = one.data.to_str().unwrap();
    let admin = two.admin.to_string();
    assert_ne!(first, second);
    assert_eq!(asked(&["--data", data], None), first);
    assert_eq!(asked(&["--data", data], Some(&two)), second);
    assert_eq!(asked(&["--data", data, "--admin", &admin], Some(&one)), second);
    assert_eq!(asked(&["--admin", &one.admin.to_string()], Some(&two)), first);
}
