//! Operating a gateway while clients use it: who they are, eviction, reading the configuration again, metrics.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use nfs4::{LockType, NfsStatus, StableHow};
use nfs4_client::operations::{first_lock, lookup, owner, put_handle};
use serde_json::Value;
use support::{Client, Gateway, Settings};

fn started(folder: &Path) -> Gateway {
    Gateway::start_with(&folder.join("data"), &Settings::in_folder(folder))
}

/// The text of the configuration file, and what puts another one there.
fn configuration(gateway: &Gateway) -> (String, impl Fn(&str)) {
    let file = gateway.data.join("kurma.toml");
    (std::fs::read_to_string(&file).unwrap(), move |text: &str| std::fs::write(&file, text).unwrap())
}

fn hang_up(gateway: &Gateway) {
    let status = Command::new("kill").args(["-HUP", &gateway.pid().to_string()]).status().unwrap();
    assert!(status.success());
}

/// Waits until the log says it so many times.
fn logged(gateway: &Gateway, what: &str, times: usize) {
    support::parallel(|| {
        while gateway.log().matches(what).count() < times {
            std::thread::yield_now();
        }
    });
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_are_listed_and_shown_with_what_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = started(folder.path());
    let client = Client::connect(gateway.nfs, "mailserver").await;
    let _other = Client::connect(gateway.nfs, "other").await;
    client.make_directory("mail").await;
    let file = client.open("mail/box").await.unwrap();
    let lock = first_lock(file.state_id, owner("locker"), LockType::Write, 10, 5);
    client.run(&[put_handle(&file.handle), lock]).await.unwrap();

    let all = gateway.json(&["clients", "list"], &[0]);
    assert_eq!(all.as_array().unwrap().len(), 2);
    let named = |all: &Value, name: &str| {
        all.as_array().unwrap().iter().find(|client| client["owner"] == name).unwrap().clone()
    };
    let listed = named(&all, "mailserver");
    for (key, value) in [
        ("address", Value::from("127.0.0.1")),
        ("principal", "uid 0".into()),
        ("version", "4.2".into()),
        ("state", "active".into()),
        ("confirmed", true.into()),
        ("sessions", 1.into()),
        ("opens", 1.into()),
        ("lock_owners", 1.into()),
        ("delegations", 0.into()),
    ] {
        assert_eq!(listed[key], value, "{key}");
    }
    assert!(listed["lease_left_seconds"].as_f64().unwrap() > 1.0);
    assert_eq!(gateway.json(&["clients", "list", "--limit", "1"], &[0]).as_array().unwrap().len(), 1);

    let id = listed["id"].as_str().unwrap();
    let shown = gateway.json(&["clients", "show", id], &[0]);
    assert_eq!(shown["connections"].as_array().unwrap().len(), 1);
    let [open, locks] = &shown["held"].as_array().unwrap()[..] else { panic!("{shown:#}") };
    assert_eq!((&open["kind"], &open["access"]), (&"open".into(), &"read+write".into()));
    assert_eq!((&open["path"], &open["volume"]), (&"/home/mail/box".into(), &"home".into()));
    assert_eq!((&locks["kind"], &locks["owner"]), (&"locks".into(), &"locker".into()));
    assert_eq!(locks["ranges"], serde_json::json!([{ "offset": 10, "length": 5, "exclusive": true }]));
    assert_eq!(gateway.json(&["clients", "show", id, "--limit", "1"], &[0])["held"][0], *open);
    assert_eq!(
        gateway.json(&["clients", "show", id, "--limit", "0"], &[0])["held"].as_array().unwrap().len(),
        2
    );

    let said = |args: &[&str]| String::from_utf8(gateway.kurma_ends(args, &[0]).stdout).unwrap();
    let table = said(&["clients", "list"]);
    assert!(table.contains("mailserver") && table.contains(id), "{table}");
    let table = said(&["clients", "show", id]);
    assert!(table.contains("/home/mail/box") && table.contains("write 10+5"), "{table}");
    gateway.kurma_ends(&["clients", "show", "0000000000000001"], &[1]);
    gateway.kurma_ends(&["clients", "show", "mailserver"], &[2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_evicted_client_has_no_session_and_nothing_open_and_may_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = started(folder.path());
    let client = Client::connect(gateway.nfs, "evicted").await;
    let other = Client::connect(gateway.nfs, "other").await;
    client.write("file", &Bytes::from_static(b"data")).await;
    client.open("file").await.unwrap();
    let all = gateway.json(&["clients", "list"], &[0]);
    let listed = all.as_array().unwrap().iter().find(|client| client["owner"] == "evicted").unwrap();
    let id = listed["id"].as_str().unwrap();
    gateway.kurma_ends(&["clients", "evict", id], &[2]);
    client.session.renew().await.unwrap();
    assert_eq!(gateway.json(&["clients", "evict", id, "--yes"], &[0])["opens"], 1);
    let refused = client.session.renew().await.unwrap_err();
    assert_eq!(refused.status(), Some(NfsStatus::BadSession));
    gateway.kurma_ends(&["clients", "evict", id, "--yes"], &[1]);
    other.session.renew().await.unwrap();
    assert_eq!(gateway.json(&["status"], &[0])["node"]["nfs_opens"], 0);
    let back = Client::connect(gateway.nfs, "evicted").await;
    back.expect("file", &Bytes::from_static(b"data")).await;
    back.open("file").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reload_changes_what_is_exported_and_cuts_nobody_off() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = started(folder.path());
    let client = Client::connect(gateway.nfs, "client").await;
    let (good, set) = configuration(&gateway);
    let file = client.open("file").await.unwrap();
    let write = async || {
        let data = Bytes::from_static(b"data");
        client.write_at(&file.handle, file.state_id, 0, StableHow::FileSync, data).await
    };
    write().await.unwrap();
    let nothing = gateway.json(&["config", "reload"], &[0]);
    assert_eq!((strings(&nothing["applied"]), strings(&nothing["pending"])), (vec![], vec![]));

    set(&format!("{good}export = {{ read_only = true }}\n"));
    let reloaded = gateway.json(&["config", "reload"], &[0]);
    assert_eq!(strings(&reloaded["applied"]), ["volume.home.export.read_only"]);
    assert_eq!(write().await.unwrap_err().status(), Some(NfsStatus::Rofs));
    client.expect("file", &Bytes::from_static(b"data")).await;
    let opens = || gateway.json(&["status"], &[0])["node"]["nfs_opens"].clone();
    assert_eq!(opens(), 1, "the same session, and the same open");

    // What is wrong changes nothing.
    set(&good.replace("lease", "leese"));
    let refused = gateway.kurma_ends(&["config", "reload"], &[2]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("kurma.toml:6: ") && said.contains("did you mean `lease`?"), "{said}");
    hang_up(&gateway);
    logged(&gateway, "the configuration stays as it was", 2);
    assert_eq!(write().await.unwrap_err().status(), Some(NfsStatus::Rofs));

    // By signal, with something that wants a restart.
    set(&good.replace("lease = \"90s\"", "lease = \"60s\""));
    hang_up(&gateway);
    logged(&gateway, "nfs.lease", 1);
    write().await.unwrap();
    let reloaded = gateway.json(&["config", "reload"], &[3]);
    let pending = reloaded["pending"].as_array().unwrap();
    assert_eq!((pending.len(), &pending[0]["key"]), (1, &"nfs.lease".into()));
    client.session.close(&file).await.unwrap();
    assert_eq!(opens(), 0);

    set(&format!("{good}export = {{ networks = ['10.99.0.0/16'] }}\n"));
    gateway.kurma_ends(&["config", "reload"], &[0]);
    let root = client.session.execute(&[nfs4::NfsArgOp::PutRootFh, lookup("home")]).await;
    assert_eq!(root.unwrap_err().status(), Some(NfsStatus::NoEnt));
    set(&good);
    gateway.kurma_ends(&["config", "reload"], &[0]);
    client.expect("file", &Bytes::from_static(b"data")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reload_changes_the_level_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = started(folder.path());
    let (good, set) = configuration(&gateway);
    let told = "the configuration was read again";
    gateway.kurma_ends(&["config", "reload"], &[0]);
    assert!(!gateway.log().contains(told), "at info, and the level is warn");
    set(&format!("[log]\nlevel = \"info\"\n{good}"));
    let reloaded = gateway.json(&["config", "reload"], &[0]);
    assert_eq!(strings(&reloaded["applied"]), ["log.level"]);
    support::parallel(|| {
        while !gateway.log().contains(told) {
            gateway.kurma_ends(&["config", "reload"], &[0]);
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_metric_is_in_the_table_of_the_documentation() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let settings = Settings::in_folder(folder.path());
    settings.write(&data);
    // Nobody answers there; it is about the names.
    let scan = "[scan]\naddress = \"clamd:tcp:127.0.0.1:1\"\n";
    std::fs::write(data.join("kurma.toml"), settings.text() + scan).unwrap();
    let gateway = Gateway::start(&data);
    let client = Client::connect(gateway.nfs, "client").await;
    client.write("file", &Bytes::from_static(b"data")).await;
    client.expect_failure("missing", NfsStatus::NoEnt).await;
    let address = format!("http://{}/metrics", gateway.admin);
    let text = support::parallel(|| ureq::get(address).call().unwrap().body_mut().read_to_string().unwrap());
    let served: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let documentation = include_str!("../../../docs/operations.md");
    let described: BTreeSet<&str> = documentation
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split('`').next())
        .filter(|name| name.starts_with("kurma_"))
        .collect();
    assert_eq!(served, described);
    let line = "kurma_nfs_errors_total{operation=\"LOOKUP\",status=\"NFS4ERR_NOENT\"} 1";
    assert!(text.lines().any(|known| known == line), "{text}");
    assert!(text.contains("kurma_nfs_operation_seconds_bucket{operation=\"WRITE\",le=\"+Inf\"} 1"), "{text}");
}
