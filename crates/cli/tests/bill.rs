//! What `kurma cost` says is what the servers' own logs say, to the request.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::collections::BTreeMap;

use serde_json::Value;
use support::bill::{Requests, assert_agrees, class_of, line, requests_of, requests_to};
use support::{Client, Gateway, Mood, Random, S3Server, S3StandIn, Settings};

/// What the log of a server says of a bucket.
fn requests(server: &S3Server, bucket: &str) -> Requests {
    let mut requests = Requests::default();
    for line in server.log().lines() {
        // 127.0.0.1 - - [22/Nov/2026 14:30:04] "PUT /alpha/some/prefix/name HTTP/1.1" 200 -
        let Some(request) = line.split('"').nth(1) else { continue };
        let mut words = request.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        // Requests that were refused are written in colour.
        let method = method.rsplit(|c: char| !c.is_ascii_uppercase()).next().unwrap_or_default();
        let is_here = target.strip_prefix(&format!("/{bucket}"));
        if is_here.is_some_and(|rest| rest.starts_with(['/', '?'])) {
            requests[class_of(method, target)] += 1;
        }
    }
    requests
}

const PRICE: &str = "{ put = 5e-6, get = 4e-7, list = 5e-6, egress_gb = 0.09, storage_gb_month = 0.023 }";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_bill_is_what_three_buckets_of_a_real_server_were_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = S3Server::start(&folder.path().join("server"));
    let buckets = [("a", "alpha"), ("b", "beta"), ("c", "gamma")];
    // Each block by itself, so that what was removed is deleted.
    let mut settings =
        Settings { cloud_price: Some(PRICE), longest_packed: "0B", ..Settings::in_folder(folder.path()) };
    for (name, bucket) in buckets {
        server.make_bucket(bucket);
        settings = settings.with_cloud(name, server.cloud(bucket));
    }
    // Making the buckets was ours.
    let ours = buckets.map(|(_, bucket)| requests(&server, bucket));
    let seen = || {
        let mine = |(at, (name, bucket)): (usize, &(&'static str, &str))| {
            let all = requests(&server, bucket);
            (*name, std::array::from_fn(|class| all[class] - ours[at][class]))
        };
        buckets.iter().enumerate().map(mine).collect::<BTreeMap<_, Requests>>()
    };
    let data = folder.path().join("data");
    settings.write(&data);
    let mut gateway = Gateway::start_on_s3(&data);
    let mut random = Random::from_environment("bill");
    let files: Vec<_> = (0..8).map(|n| (format!("file{n}"), random.bytes(1 << (2 * n + 4)))).collect();
    let client = Client::connect(gateway.nfs, "client").await;
    for (path, data) in &files {
        client.write(path, data).await;
    }
    gateway.flush();
    gateway.kurma_ends(&["backup", "now"], &[0]);
    let after_writing = assert_agrees(&gateway, seen);
    gateway.drop_cache();
    for (path, data) in &files {
        client.expect(path, data).await;
    }
    gateway.kurma_ends(&["scrub"], &[0]);
    for (path, _) in &files[..4] {
        client.remove(path).await;
    }
    gateway.flush();
    // What a backup refers to stays.
    gateway.kurma_ends(&["backup", "now"], &[0]);
    let began = std::time::Instant::now();
    while requests_of(line(&gateway.json(&["cost"], &[0]), "b"))[3] == 0 {
        assert!(began.elapsed().as_secs() < 60, "nothing is deleted");
        gateway.kurma_ends(&["gc"], &[0]);
    }
    gateway.kurma_ends(&["cloud", "test", "a"], &[0]);
    gateway.kurma_ends(&["cost", "--measure"], &[0]);
    let before_restart = assert_agrees(&gateway, seen);
    assert_eq!(gateway.stop(), Some(0));
    gateway.set_credentials();
    gateway.launch();
    gateway.drop_cache();
    let client = Client::connect(gateway.nfs, "client").await;
    for (path, data) in &files[4..] {
        client.expect(path, data).await;
    }
    let bill = assert_agrees(&gateway, seen);

    // Every class was used, and the counts went on over the restart.
    for (name, _) in buckets {
        let [first, then, now] =
            [&after_writing, &before_restart, &bill].map(|bill| requests_of(line(bill, name)));
        assert!(first[0] > 0 && then[2] > first[2] && then[3] > first[3], "{first:?} {then:?}");
        assert!(now.iter().zip(then).all(|(now, then)| *now >= then), "{then:?} {now:?}");
        let line = line(&bill, name);
        assert!(line["stored_objects"].as_u64().unwrap() > 0, "{line}");
        let [put, get, list, _] = requests_of(line).map(|count| count as f64);
        let down = line["downloaded_bytes"].as_f64().unwrap();
        let storage = line["gb_months"].as_f64().unwrap() * 0.023;
        let money = put * 5e-6 + get * 4e-7 + list * 5e-6 + down * 0.09 / 1e9 + storage;
        let told = line["money"]["total"].as_f64().unwrap();
        assert!((told - money).abs() < 1e-9, "{money}: {line}");
    }
    assert!(bill["money"].as_f64().unwrap() > 0.0 && bill["crashes"] == 0, "{bill}");
    let text = String::from_utf8(gateway.kurma_ends(&["cost"], &[0]).stdout).unwrap();
    assert!(text.starts_with("CLOUD") && text.contains("MONEY") && text.contains("since "), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tries_that_failed_are_billed_and_a_crash_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [("a", "one"), ("b", "two"), ("c", "three")]
        .map(|(name, place)| (name, S3StandIn::start(&folder.path().join(place))));
    let mut settings = Settings::in_folder(folder.path());
    for (name, store) in &stores {
        settings = settings.with_cloud(name, store.url());
    }
    let seen = || stores.iter().map(|(name, store)| (*name, requests_to(store))).collect::<BTreeMap<_, _>>();
    let data = folder.path().join("data");
    settings.write(&data);
    let mut gateway = Gateway::start_on_s3(&data);
    let client = Client::connect(gateway.nfs, "client").await;
    let content = Random::from_environment("bill").bytes(300_000);
    client.write("well", &content).await;
    gateway.flush();
    let well = requests_of(line(&assert_agrees(&gateway, seen), "b"))[0];
    stores[1].1.set(Mood::RefusingWrites(503));
    client.write("in trouble", &content).await;
    // Degraded: b lacks its fragments.
    gateway.kurma_ends(&["flush", "--timeout", "10s"], &[0, 3]);
    stores[1].1.set(Mood::Well);
    gateway.flush();
    let bill = assert_agrees(&gateway, seen);
    let troubled = requests_of(line(&bill, "b"))[0] - well;
    assert!(troubled > well, "{well} puts when all was well, then {troubled} with those that were repeated");
    assert!(bill["money"].is_null() && line(&bill, "a")["money"].is_null(), "nothing has a price: {bill}");

    // What was in the file survives a crash, and the crash is told.
    let written = || std::fs::read_to_string(data.join("costs.json")).unwrap();
    let saved = |text: &str| -> u64 {
        let bill: Value = serde_json::from_str(text).unwrap();
        bill["clouds"]["b"]["counts"]["put"].as_u64().unwrap_or(0)
    };
    let began = std::time::Instant::now();
    while saved(&written()) < well + troubled {
        assert!(began.elapsed().as_secs() < 60, "{}", written());
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    gateway.kill();
    gateway.launch();
    let bill = gateway.json(&["cost"], &[0]);
    assert_eq!(bill["crashes"], 1, "{bill}");
    assert!(requests_of(line(&bill, "b"))[0] >= well + troubled, "{bill}");
    let told = String::from_utf8(gateway.kurma_ends(&["cost"], &[0]).stderr).unwrap();
    assert!(told.contains("ended without a stop"), "{told}");
}
