//! Clouds are replaced and added under load and kills; what was verified is told, signed.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use support::{Client, Gateway, KURMA, Random, Settings, fragments_below};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(180);

type Files = BTreeMap<String, Bytes>;

fn cloud(folder: &Path, name: &str) -> PathBuf {
    folder.join("clouds").join(name)
}

/// A directory for one more cloud.
fn fresh(folder: &Path, name: &str) -> String {
    std::fs::create_dir_all(cloud(folder, name)).unwrap();
    format!("dir:{}", cloud(folder, name).display())
}

/// Large files, and small ones that travel in packs.
async fn fill(gateway: &Gateway, random: &mut Random) -> Files {
    let client = Client::connect(gateway.nfs, "filler").await;
    let mut files = Files::new();
    for number in 0..24 {
        let length = if number % 3 == 0 { 150_000 + 9000 * number } else { 100 + 300 * number };
        let (name, data) = (format!("file{number}"), random.bytes(length));
        client.write(&name, &data).await;
        files.insert(name, data);
    }
    gateway.flush();
    files
}

/// Writes until the gateway dies or `until` says so; what was acknowledged is in `files`, what was not is none of them.
async fn load(
    gateway: &mut Gateway,
    files: &mut Files,
    random: &mut Random,
    mut until: impl FnMut() -> bool,
) {
    let Ok(client) = Client::try_connect(gateway.nfs, "load").await else { return };
    let deadline = Instant::now() + PATIENCE;
    while !gateway.has_died() && !until() {
        assert!(Instant::now() < deadline, "nothing happens; log:\n{}", gateway.log());
        let name = format!("load{}", random.below(12));
        let length = if random.percent(30) { 140_000 } else { 2000 };
        let data = random.bytes(length);
        files.remove(&name);
        if client.try_write(&name, &data).await.is_err() {
            return;
        }
        files.insert(name, data);
    }
}

/// Asks for something that takes its time.
fn begin(gateway: &Gateway, args: &[&str]) -> Child {
    let mut command = Command::new(&*KURMA);
    command.args(args).arg("--data").arg(&gateway.data).env_remove("KURMA_ADMIN");
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

async fn expect_files(gateway: &Gateway, files: &Files) {
    gateway.drop_cache();
    let client = Client::connect(gateway.nfs, "reader").await;
    for (name, data) in files {
        client.expect(name, data).await;
    }
}

/// Collects until the clouds hold what the metadata names, and nothing else.
fn settle(gateway: &Gateway, folder: &Path, clouds: &[&str]) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        gateway.kurma_ends(&["gc"], &[0]);
        let scrubbed = gateway.json(&["scrub"], &[0]);
        let orphans = gateway.json(&["scrub", "--orphans"], &[0]);
        let there: Vec<usize> =
            clouds.iter().map(|name| fragments_below(&cloud(folder, name)).len()).collect();
        let good = scrubbed["good"].as_u64().unwrap();
        if there.iter().sum::<usize>() as u64 == good && orphans["objects"] == good {
            println!("{there:?} objects in {clouds:?}");
            return;
        }
        assert!(Instant::now() < deadline, "{there:?} objects, {good} of files, {orphans}");
    }
}

fn settings(folder: &Path) -> Settings {
    Settings { longest_packed: "32KiB", lease: "10s", ..Settings::in_folder(folder) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cloud_is_replaced_under_load_whatever_kills_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &settings(folder.path()));
    let mut random = Random::from_environment("replaced");
    let mut files = fill(&gateway, &mut random).await;
    let url = fresh(folder.path(), "d");
    gateway.kurma_ends(&["cloud", "replace", "b", "d"], &[1]);
    let replace = ["cloud", "replace", "b", "d", "--url", &url];
    for point in ["noted:1", "begun:1", "copied:3", "copied:12", "before-finish:1", "finished:1"] {
        gateway.kill();
        gateway.set("KURMA_FAILPOINT", format!("drain.{point}"));
        // A replacement that goes on by itself may meet the point before anybody can mount.
        if gateway.try_launch() {
            let mut asked = begin(&gateway, &replace);
            load(&mut gateway, &mut files, &mut random, || false).await;
            let _ = asked.wait().unwrap();
        }
        assert!(gateway.was_at_failpoint(), "{point}; log:\n{}", gateway.log());
    }
    gateway.kill();
    gateway.unset("KURMA_FAILPOINT");
    gateway.launch();
    expect_files(&gateway, &files).await;
    // One more time with nothing in the way, and files written until it is done.
    let mut asked = begin(&gateway, &[&replace[..], &["--remove"]].concat());
    load(&mut gateway, &mut files, &mut random, || asked.try_wait().unwrap().is_some()).await;
    let ended = asked.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(!std::fs::read_to_string(gateway.data.join("kurma.toml")).unwrap().contains("\"b\""));
    // A backup that was cut off by a kill may be left there; no head names it.
    assert_eq!(fragments_below(&cloud(folder.path(), "b")), Vec::<PathBuf>::new());
    std::fs::remove_dir_all(cloud(folder.path(), "b")).unwrap();

    gateway.flush();
    settle(&gateway, folder.path(), &["a", "c", "d"]);
    expect_files(&gateway, &files).await;
    let backups = gateway.json(&["backup", "list"], &[0]);
    for listed in backups["clouds"].as_array().unwrap() {
        assert_eq!(listed["state"], "newest", "{backups}");
    }
    // What the new cloud has is as good as what the old one had.
    std::fs::remove_dir_all(cloud(folder.path(), "a")).unwrap();
    expect_files(&gateway, &files).await;
    gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cloud_that_was_taken_out_of_the_configuration_is_missed_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let files = fill(&gateway, &mut Random::from_environment("taken out")).await;
    assert_eq!(gateway.stop(), Some(0));
    let without =
        Settings { clouds: vec![settings.clouds[0].clone(), settings.clouds[2].clone()], ..settings };
    let text = without.text();
    let volume = text.find("[[volume]]").unwrap();
    std::fs::write(gateway.data.join("kurma.toml"), &text[..volume]).unwrap();
    std::fs::remove_dir_all(cloud(folder.path(), "b")).unwrap();
    gateway.launch();
    let status = gateway.kurma_ends(&["status"], &[3]);
    let told = String::from_utf8_lossy(&status.stderr).into_owned();
    assert!(told.contains("cloud b: not configured") && told.contains("kurma cloud replace b"), "{told}");
    let url = fresh(folder.path(), "d");
    gateway.kurma_ends(&["cloud", "replace", "b", "d", "--url", &url], &[0]);
    settle(&gateway, folder.path(), &["a", "c", "d"]);
    gateway.kurma_ends(&["status"], &[0]);
    std::fs::remove_dir_all(cloud(folder.path(), "c")).unwrap();
    expect_files(&gateway, &files).await;
    gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_added_cloud_gets_its_share_and_kills_do_not_stop_that() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        Settings { cloud_price: Some("{ put = 0.000005, egress_gb = 0.09 }"), ..settings(folder.path()) };
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let mut random = Random::from_environment("added");
    let mut files = fill(&gateway, &mut random).await;
    let nothing = gateway.json(&["cloud", "rebalance", "--dry-run"], &[0]);
    assert_eq!(nothing[0]["estimate"]["files"], 0, "{nothing}");
    gateway.kurma_ends(&["cloud", "add", "d", "--url", &fresh(folder.path(), "d")], &[0]);
    let shown = |gateway: &Gateway| gateway.json(&["volume", "show", "home"], &[0]);
    let told = gateway.json(&["cloud", "rebalance", "--dry-run"], &[0])[0]["estimate"].clone();
    assert!(told["files"].as_u64().unwrap() > 5 && told["money"].as_f64().unwrap() > 0.0, "{told}");
    assert!(told["clouds"]["d"]["put"].as_u64().unwrap() > 0 && told["clouds"]["d"]["get"] == 0);
    assert_eq!(shown(&gateway)["clouds"].as_array().unwrap().len(), 3, "it was asked what would be");
    assert!(fragments_below(&cloud(folder.path(), "d")).is_empty());

    for point in ["spread.begun", "migration.sent", "migration.offered"] {
        gateway.kill();
        gateway.set("KURMA_FAILPOINT", point);
        if gateway.try_launch() {
            let mut asked = begin(&gateway, &["cloud", "rebalance"]);
            load(&mut gateway, &mut files, &mut random, || false).await;
            let _ = asked.wait().unwrap();
        }
        assert!(gateway.was_at_failpoint(), "{point}; log:\n{}", gateway.log());
    }
    gateway.kill();
    gateway.unset("KURMA_FAILPOINT");
    gateway.launch();
    expect_files(&gateway, &files).await;
    let mut asked = begin(&gateway, &["cloud", "rebalance", "--wait"]);
    load(&mut gateway, &mut files, &mut random, || asked.try_wait().unwrap().is_some()).await;
    assert_eq!(asked.wait().unwrap().code(), Some(0));
    assert_eq!(shown(&gateway)["clouds"].as_array().unwrap().len(), 4);
    gateway.flush();
    settle(&gateway, folder.path(), &["a", "b", "c", "d"]);
    let bytes = |name: &str| -> u64 {
        let files = fragments_below(&cloud(folder.path(), name));
        files.iter().map(|file| file.metadata().unwrap().len()).sum()
    };
    let shares = ["a", "b", "c", "d"].map(bytes);
    println!("bytes in the clouds: {shares:?}");
    assert!(shares.iter().all(|share| *share > 0));
    gateway.check();
    std::fs::remove_dir_all(cloud(folder.path(), "a")).unwrap();
    expect_files(&gateway, &files).await;
}

/// Ends with one of these codes; what it wrote to standard output.
fn kurma(args: &[&str], codes: &[i32]) -> String {
    let output = Command::new(&*KURMA).args(args).env_remove("KURMA_ADMIN").output().unwrap();
    assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_period_verifies_everything_repairs_what_it_finds_and_its_report_can_be_proved() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let files = fill(&gateway, &mut Random::from_environment("period")).await;
    assert_eq!(gateway.json(&["scrub", "report"], &[3])["volumes"][0]["scrubbed"], "never");
    settle(&gateway, folder.path(), &["a", "b", "c"]);
    let fragments = fragments_below(&cloud(folder.path(), "b"));
    std::fs::remove_file(&fragments[0]).unwrap();
    std::fs::write(&fragments[1], [&[0xF1][..], b"junk"].concat()).unwrap();
    assert_eq!(gateway.stop(), Some(0));
    let text = settings.text().replace("[upkeep]\n", "[upkeep]\nscrub_period = \"1h\"\n");
    std::fs::write(gateway.data.join("kurma.toml"), text).unwrap();
    gateway.launch();
    let deadline = Instant::now() + PATIENCE;
    let report = loop {
        let report = gateway.json(&["scrub", "report"], &[0, 3]);
        // The one before, by hand, has found nothing.
        if report["volumes"][0]["clouds"]["b"]["missing"] == 1 {
            break report;
        }
        assert!(Instant::now() < deadline, "{report}; log:\n{}", gateway.log());
        std::thread::yield_now();
    };
    let home = &report["volumes"][0];
    let b = &home["clouds"]["b"];
    assert_eq!(
        (&b["missing"], &b["bad"], &b["repaired"], &home["lacking"]),
        (&1.into(), &1.into(), &2.into(), &0.into())
    );
    assert_eq!(b["good"].as_u64().unwrap(), fragments.len() as u64 - 2);
    assert_eq!(home["clouds"]["a"]["good"].as_u64().unwrap(), fragments.len() as u64);
    gateway.kill();
    gateway.launch();

    let (file, changed) = (folder.path().join("report.txt"), folder.path().join("changed.txt"));
    let (file_text, changed_text) = (file.to_str().unwrap(), changed.to_str().unwrap());
    let printed = gateway.kurma_ends(&["scrub", "report"], &[0]).stdout;
    std::fs::write(&file, &printed).unwrap();
    let better = String::from_utf8(printed).unwrap().replace("missing 1", "missing 0");
    std::fs::write(&changed, better).unwrap();
    let signer = gateway.json(&["key", "show"], &[0])["signer"].as_str().unwrap().to_owned();
    let data = gateway.data.to_str().unwrap().to_owned();
    let keys = format!("{data}/keys/gateway.key");
    for whose in [["--signer", &signer], ["--keys", &keys], ["--data", &data]] {
        let verified = kurma(&["scrub", "verify", file_text, whose[0], whose[1], "--json"], &[0]);
        let verified: Value = serde_json::from_str(&verified).unwrap();
        assert_eq!(verified["volumes"], report["volumes"]);
        kurma(&["scrub", "verify", changed_text, whose[0], whose[1]], &[1]);
    }
    kurma(&["scrub", "verify", file_text, "--signer", &"0".repeat(64)], &[1]);
    kurma(&["scrub", "verify", file_text], &[2]);
    // By hand it is the same.
    gateway.kurma_ends(&["scrub", "--sample", "50"], &[0]);
    let report = gateway.json(&["scrub", "report"], &[0]);
    assert_eq!(report["volumes"][0]["scrubbed"], "sample of 50 %");
    expect_files(&gateway, &files).await;
}
