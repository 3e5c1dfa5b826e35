//! The machine is gone: what the clouds and one file give back.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use serde_json::Value;
use support::{Client, DISPERSALS, Gateway, KURMA, Random, Settings, files_below, named_fragments, parallel};
use vector_client::AttributeSet;

/// Files by path.
type Files = BTreeMap<String, Bytes>;

fn kurma(arguments: &[&str]) -> Output {
    parallel(|| Command::new(&*KURMA).args(arguments).env_remove("KURMA_ADMIN").output().unwrap())
}

/// In seconds since 1970.
fn now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}

fn export(gateway: &Gateway, to: &Path) {
    let data = gateway.data.to_str().unwrap();
    let output = kurma(&["key", "export", to.to_str().unwrap(), "--data", data]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Restores into `to`; what it says, and how it ended.
fn restore(keys: &Path, to: &Path, more: &[&str]) -> (Value, i32) {
    let (keys, to) = (keys.to_str().unwrap(), to.to_str().unwrap());
    let output = kurma(&[&["restore", "--to", to, "--keys", keys, "--json"], more].concat());
    let code = output.status.code().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(code == 0 || code == 3, "{code}: {text}");
    (serde_json::from_slice(&output.stdout).unwrap_or_else(|cause| panic!("{cause}: {text}")), code)
}

fn state<'a>(restored: &'a Value, cloud: &str) -> &'a str {
    let clouds = restored["clouds"].as_array().unwrap();
    clouds.iter().find(|found| found["cloud"] == cloud).unwrap()["state"].as_str().unwrap()
}

async fn write(client: &Client, files: &mut Files, random: &mut Random, count: usize) {
    for number in 0..count {
        let path = format!("d{}/f{}", number % 3, number);
        let data = random.bytes([10, 3000, 65_536, 200_000][number % 4]);
        client.write(&path, &data).await;
        files.insert(path, data);
    }
}

async fn expect_all(gateway: &Gateway, files: &Files) {
    let client = Client::connect(gateway.nfs, "after").await;
    for (path, data) in files {
        client.expect(path, data).await;
    }
}

fn copy(from: &Path, to: &Path) {
    // Empty, and no cloud is one without it.
    std::fs::create_dir_all(to.join(".kurma-incoming")).unwrap();
    for file in files_below(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(&file, &target).unwrap();
    }
}

struct Drill {
    folder: tempfile::TempDir,
    gateway: Gateway,
    keys: PathBuf,
    files: Files,
    random: Random,
}

impl Drill {
    /// A gateway with files that were flushed, some of them after a first backup.
    async fn begin(name: &str) -> Drill {
        Drill::of(name, "rs:2+1").await
    }

    /// The same with another dispersal.
    async fn of(name: &str, policy: &'static str) -> Drill {
        let mut random = Random::from_environment(name);
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { policy, backups: "1h", ..Settings::in_folder(folder.path()) };
        let gateway = Gateway::start_with(&folder.path().join("data"), &settings);
        let keys = folder.path().join("recovery.key");
        export(&gateway, &keys);
        let client = Client::connect(gateway.nfs, "before").await;
        for number in 0..3 {
            client.make_directory(&format!("d{number}")).await;
        }
        let mut files = Files::new();
        write(&client, &mut files, &mut random, 12).await;
        gateway.flush();
        Drill { folder, gateway, keys, files, random }
    }

    fn cloud(&self, name: &str) -> PathBuf {
        self.folder.path().join("clouds").join(name)
    }

    /// SIGKILL, and nothing is left but the clouds and the one file.
    fn lose(&mut self) {
        self.gateway.kill();
        std::fs::remove_dir_all(&self.gateway.data).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_of_three_clouds_and_one_file_bring_back_everything_flushed_before_the_kill() {
    let cases = [
        ("rs:2+1", "c", "missing"),
        ("aont-rs:2+1", "a", "a week old"),
        ("caont-rs:2+1", "b", "missing"),
        ("replicas:3", "c", "a week old"),
    ];
    for (policy, third, case) in cases {
        let mut drill = Drill::of("the drill", policy).await;
        let old = drill.folder.path().join("old");
        copy(&drill.cloud(third), &old);
        let client = Client::connect(drill.gateway.nfs, "more").await;
        let mut more = Files::new();
        write(&client, &mut more, &mut drill.random, 20).await;
        drill.files.extend(more);
        client.remove("d0/f0").await;
        drill.files.remove("d0/f0");
        let begun = now();
        drill.gateway.flush();
        let ended = now();
        let status = drill.gateway.json(&["backup", "list"], &[0]);
        let newest = status["clouds"][0]["transaction"].as_u64().unwrap();

        // It dies at work.
        let busy = Client::connect(drill.gateway.nfs, "busy").await;
        let written = Arc::new(AtomicUsize::new(0));
        let work = tokio::spawn({
            let (written, data) = (written.clone(), drill.random.bytes(100_000));
            async move {
                while busy
                    .try_write(&format!("d1/busy{}", written.load(Ordering::SeqCst)), &data)
                    .await
                    .is_ok()
                {
                    written.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        while written.load(Ordering::SeqCst) < 20 && !work.is_finished() {
            tokio::task::yield_now().await;
        }
        assert!(!work.is_finished());
        drill.lose();
        work.abort();
        std::fs::remove_dir_all(drill.cloud(third)).unwrap();
        if case == "a week old" {
            copy(&old, &drill.cloud(third));
        }
        let to = drill.folder.path().join("new");
        let (restored, code) = restore(&drill.keys, &to, &[]);
        assert_eq!(code, 3, "{case}: {restored:#}");
        assert_eq!(restored["transaction"].as_u64(), Some(newest), "{case}");
        let instant = restored["time"].as_f64().unwrap();
        assert!(begun <= instant && instant <= ended, "{case}: {begun} {instant} {ended}");
        assert_eq!(
            (restored["lost"].as_array().unwrap().len(), &restored["findings"]),
            (0, &Value::Array(vec![]))
        );
        let expected = if case == "missing" { "unreachable" } else { "older" };
        for cloud in ["a", "b", "c"] {
            let expected = if cloud == third { expected } else { "newest" };
            assert_eq!(state(&restored, cloud), expected, "{policy} {case}");
        }
        assert!(to.join("restore-report.json").exists());

        let mut gateway = Gateway::new(&to);
        gateway.launch();
        expect_all(&gateway, &drill.files).await;
        let client = Client::connect(gateway.nfs, "goes on").await;
        assert!(client.read("d0/f0").await.is_err(), "what was removed stays removed");
        // It goes on, in a branch of its own, and can be lost again.
        write(&client, &mut drill.files, &mut drill.random, 8).await;
        gateway.kurma_ends(&["flush"], &[0, 3]);
        gateway.kill();
        std::fs::remove_dir_all(&to).unwrap();
        let (restored, _) = restore(&drill.keys, &to, &[]);
        assert_eq!(restored["branch"], 1);
        gateway.launch();
        expect_all(&gateway, &drill.files).await;
        let check = gateway.json(&["meta", "check"], &[0]);
        assert_eq!(check["findings"], Value::Array(vec![]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_not_in_the_clouds_is_named_and_no_file_is_longer_than_what_was_stored() {
    let mut drill = Drill::begin("lost data").await;
    // From now on nothing is written back by itself.
    drill.gateway.stop();
    let settings = Settings { write_back_wait: "1h", ..Settings::in_folder(drill.folder.path()) };
    settings.write(&drill.gateway.data);
    drill.gateway.launch();
    let client = Client::connect(drill.gateway.nfs, "dirty").await;
    let fresh = drill.random.bytes(100_000);
    client.write("fresh", &fresh).await;
    let before = drill.files["d0/f6"].clone(); // 65,536 bytes
    let file = client.open("d0/f6").await.unwrap();
    let appended = drill.random.bytes(5000);
    let stable = nfs4::StableHow::FileSync;
    client.write_at(&file.handle, file.state_id, before.len() as u64, stable, appended).await.unwrap();
    client.session.close(&file).await.unwrap();
    let backup = drill.gateway.json(&["backup", "now"], &[0]);
    assert_eq!(backup["unsaved_bytes"], 105_000);

    drill.lose();
    let to = drill.folder.path().join("new");
    let (restored, code) = restore(&drill.keys, &to, &[]);
    assert_eq!(code, 3);
    let lost: Vec<_> = restored["lost"].as_array().unwrap().iter().collect();
    let told: Vec<_> =
        lost.iter().map(|lost| (lost["path"].as_str().unwrap(), &lost["size_was"], &lost["size"])).collect();
    assert_eq!(
        told,
        [
            ("/home/d0/f6", &Value::from(70_536), &Value::from(65_536)),
            ("/home/fresh", &Value::from(100_000), &Value::from(0))
        ]
    );
    let mut gateway = Gateway::new(&to);
    gateway.launch();
    drill.files.insert("fresh".into(), Bytes::new());
    expect_all(&gateway, &drill.files).await;
}

/// Before the end files may have the sizes of data that nobody has.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restore_that_was_killed_is_none() {
    let mut drill = Drill::begin("killed restore").await;
    drill.gateway.stop();
    let settings = Settings { write_back_wait: "1h", ..Settings::in_folder(drill.folder.path()) };
    settings.write(&drill.gateway.data);
    drill.gateway.launch();
    let client = Client::connect(drill.gateway.nfs, "dirty").await;
    client.write("d0/unsaved", &drill.random.bytes(100_000)).await;
    drill.gateway.kurma_ends(&["backup", "now"], &[0]);
    drill.lose();
    let to = drill.folder.path().join("new");
    let (new, keys) = (to.to_str().unwrap(), drill.keys.to_str().unwrap());
    for point in ["restore.loaded", "restore.before-end"] {
        let mut command = Command::new(&*KURMA);
        command.args(["restore", "--to", new, "--keys", keys]).env("KURMA_FAILPOINT", point);
        let died = parallel(|| command.output().unwrap());
        assert_eq!(died.status.code(), None, "{point}: {}", String::from_utf8_lossy(&died.stderr));
        for arguments in [&["up", "--data", new][..], &["restore", "--to", new, "--keys", keys]] {
            let refused = kurma(arguments);
            let said = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(2), "{point}: {arguments:?}: {said}");
            assert!(said.contains(new), "{said}");
        }
        std::fs::remove_dir_all(&to).unwrap();
    }
    let (restored, _) = restore(&drill.keys, &to, &[]);
    assert_eq!(restored["lost"][0]["path"], "/home/d0/unsaved");
    let mut gateway = Gateway::new(&to);
    gateway.launch();
    drill.files.insert("d0/unsaved".into(), Bytes::new());
    expect_all(&gateway, &drill.files).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_gateway_killed_in_the_middle_of_a_backup_can_be_restored() {
    for point in ["backup.before-object:2", "backup.before-head:2", "backup.after-head:2"] {
        let mut drill = Drill::begin("killed").await;
        drill.gateway.stop();
        drill.gateway.set("KURMA_FAILPOINT", point);
        drill.gateway.launch();
        let client = Client::connect(drill.gateway.nfs, "last").await;
        // The base of this start is the first; the second is the one that it dies of.
        drill.gateway.kurma_ends(&["backup", "now"], &[0]);
        client.write("d0/last", &Bytes::from_static(b"written and not flushed")).await;
        drill.gateway.kurma(&["flush"]);
        drill.gateway.wait();
        assert!(drill.gateway.was_at_failpoint(), "{point}");
        drill.gateway.unset("KURMA_FAILPOINT");
        // As it is, it starts again and goes on.
        drill.gateway.launch();
        drill.gateway.flush();
        drill.lose();
        let to = drill.folder.path().join("new");
        let (restored, code) = restore(&drill.keys, &to, &[]);
        assert_eq!(code, 0, "{point}: {restored:#}");
        let mut gateway = Gateway::new(&to);
        gateway.launch();
        drill.files.insert("d0/last".into(), Bytes::from_static(b"written and not flushed"));
        expect_all(&gateway, &drill.files).await;
    }
}

/// A backup has all of what was done together or nothing of it, whenever it is made, and so has the machine that takes over from it (T12). Each
/// transaction puts a new set of links and directories in place of the one before.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_done_together_is_restored_together() {
    const SET: usize = 24;
    for drills in 1..=3 {
        let mut drill = Drill::begin("together").await;
        let client = vectorized(&drill.gateway).await;
        client.ensure_directory("/home/set", 0o755).await.unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        let work = tokio::spawn({
            let done = done.clone();
            async move {
                for number in 1.. {
                    let together = client.transaction(|t| {
                        for at in 0..SET {
                            if number > 1 {
                                t.remove(format!("/home/set/{}.{at}", number - 1));
                            }
                            let path = format!("/home/set/{number}.{at}");
                            if at % 2 == 0 {
                                t.symbolic_link(path, "somewhere");
                            } else {
                                t.make_directory(path, 0o755);
                            }
                        }
                    });
                    together.await.unwrap();
                    done.store(number, Ordering::SeqCst);
                }
            }
        });
        let mut sure = 0;
        for _ in 0..drills {
            while done.load(Ordering::SeqCst) <= sure && !work.is_finished() {
                tokio::task::yield_now().await;
            }
            sure = done.load(Ordering::SeqCst);
            drill.gateway.kurma_ends(&["backup", "now"], &[0]);
        }
        assert!(!work.is_finished(), "{:?}", work.await);
        drill.lose();
        work.abort();
        let last = done.load(Ordering::SeqCst);
        let to = drill.folder.path().join("new");
        let (restored, _) = restore(&drill.keys, &to, &[]);
        assert_eq!(restored["findings"], Value::Array(vec![]));
        let mut gateway = Gateway::new(&to);
        gateway.launch();
        let listed = vectorized(&gateway).await.list("/home/set", AttributeSet::NONE).await.unwrap();
        let names: BTreeSet<String> =
            listed.iter().map(|entry| String::from_utf8(entry.name.to_vec()).unwrap()).collect();
        let number: usize = names.first().unwrap().split('.').next().unwrap().parse().unwrap();
        assert_eq!(names, (0..SET).map(|at| format!("{number}.{at}")).collect(), "one whole set");
        assert!(
            0 < sure && sure <= number && number <= last + 1,
            "{sure} backed up, {last} made, {number} there"
        );
        println!("set {number} of {last}, {sure} were backed up for sure");
    }
}

async fn vectorized(gateway: &Gateway) -> vector_client::Client {
    vector_client::Client::connect(gateway.nfs, vector_client::Options::default()).await.unwrap()
}

/// What somebody sees who has taken one cloud with everything in it: names of forty letters and lengths. Which objects are backups
/// can be told from their first byte and from when they change; what is in them cannot.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leaked_cloud_shows_no_name_no_content_and_no_tree() {
    for policy in DISPERSALS {
        expect_nothing_in_a_leaked_cloud(policy).await;
    }
}

async fn expect_nothing_in_a_leaked_cloud(policy: &'static str) {
    let mut drill = Drill::of("leaked", policy).await;
    let client = Client::connect(drill.gateway.nfs, "canaries").await;
    let canary = "canary-of-a-name";
    client.make_directory(canary).await;
    for number in 0..40 {
        let content = Bytes::from(format!("canary-of-content-{number}").repeat(100));
        client.write(&format!("{canary}/canary-file-{number}"), &content).await;
    }
    drill.gateway.flush();
    let fragments: usize = 3
        * (0..40)
            .map(|number| {
                named_fragments(&drill.gateway, &format!("{canary}/canary-file-{number}")).len() / 3
            })
            .sum::<usize>();
    assert_eq!(fragments, 120);
    let mut seen: BTreeMap<(&str, u64), usize> = BTreeMap::new();
    for file in files_below(&drill.cloud("a")) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with('.') {
            continue;
        }
        let bytes = std::fs::read(&file).unwrap();
        assert!(
            name.len() == 40 && name.bytes().all(|c| c.is_ascii_lowercase() || (b'2'..=b'7').contains(&c)),
            "{name}"
        );
        for needle in [&b"canary"[..], b"kurma", b"clouds"] {
            assert!(!bytes.windows(needle.len()).any(|part| part == needle), "{name} shows {needle:?}");
        }
        let kind = if bytes[0] == 0xB1 { "backup" } else { "fragment" };
        *seen.entry((kind, bytes.len() as u64)).or_default() += 1;
        if kind == "backup" {
            let padded = bytes.len() - 96;
            assert!(padded.is_power_of_two() && padded >= 16 << 10, "{padded}");
        }
    }
    for ((kind, length), count) in &seen {
        println!("an observer sees {count} objects of {length} bytes ({kind})");
    }
    // Ten files or fifty, deep or flat: objects of the same few lengths.
    let lengths = seen.keys().filter(|(kind, _)| *kind == "backup").count();
    assert!((1..=4).contains(&lengths), "{seen:?}");
    drill.gateway.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bad_input_to_a_restore_is_told_and_loses_nothing() {
    let mut drill = Drill::begin("bad restores").await;
    drill.gateway.stop();
    let (keys, to) = (drill.keys.to_str().unwrap().to_owned(), drill.folder.path().join("new"));
    let fails = |arguments: &[&str], text: &str| {
        let output = kurma(&[&["restore"], arguments].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(text), "{told}");
    };
    let new = to.to_str().unwrap();
    fails(&["--to", drill.gateway.data.to_str().unwrap(), "--keys", &keys], "is not empty");
    let plain = drill.gateway.data.join("keys/gateway.key");
    fails(&["--to", new, "--keys", plain.to_str().unwrap()], "--cloud NAME=URL");
    let other = drill.folder.path().join("other");
    let mut stranger =
        Gateway::start_with(&other, &Settings::in_folder(&drill.folder.path().join("elsewhere")));
    let foreign = drill.folder.path().join("foreign.key");
    export(&stranger, &foreign);
    stranger.kill();
    let mut arguments =
        vec!["--to".to_owned(), new.to_owned(), "--keys".to_owned(), foreign.to_str().unwrap().to_owned()];
    for name in ["a", "b", "c"] {
        arguments.extend(["--cloud".into(), format!("{name}=dir:{}", drill.cloud(name).display())]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    fails(&arguments, "no cloud has a backup of this gateway");
    fails(&["--to", new, "--keys", &keys, "--branch", "7"], "no cloud has a backup of this gateway");
    assert!(!to.exists(), "nothing was made");
    let (restored, code) = restore(&drill.keys, &to, &[]);
    assert_eq!(code, 0, "{restored:#}");
}
