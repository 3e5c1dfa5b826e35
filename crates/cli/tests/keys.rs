//! Keys that are renewed, kept by people, and destroyed, through the real program.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use bytes::Bytes;
use environment::failpoint::POINTS;
use serde_json::Value;
use support::{Client, Gateway, KURMA, Random, Settings, files_below, parallel};

/// Files by path.
type Files = BTreeMap<String, Bytes>;

fn kurma(arguments: &[&str]) -> Output {
    parallel(|| Command::new(&*KURMA).args(arguments).env_remove("KURMA_ADMIN").output().unwrap())
}

/// What it says on standard error, with the expected status.
fn told(arguments: &[&str], code: i32) -> String {
    let output = kurma(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "kurma {arguments:?}: {text}");
    text
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// How long the gateway may take for what it does by itself.
const PATIENCE: Duration = Duration::from_secs(120);

/// A start does not wait for who has said goodbye.
async fn leave(client: Client) {
    client.session.destroy_client().await.unwrap();
}

struct Site {
    folder: tempfile::TempDir,
    gateway: Gateway,
    files: Files,
    random: Random,
}

impl Site {
    async fn begin(name: &str, policy: &'static str) -> Site {
        Site::begin_with(name, |settings| settings.policy = policy).await
    }

    /// With small blocks in packs: nothing is stored before it is asked for, so that they find company.
    async fn begin_packing(name: &str) -> Site {
        let packing = |settings: &mut Settings| {
            (settings.longest_packed, settings.write_back_wait) = ("256KiB", "1h");
        };
        let site = Site::begin_with(name, packing).await;
        assert!(site.packs() > 0);
        site
    }

    async fn begin_with(name: &str, change: impl FnOnce(&mut Settings)) -> Site {
        let random = Random::from_environment(name);
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings { lease: "10s", ..Settings::in_folder(folder.path()) };
        change(&mut settings);
        let gateway = Gateway::start_with(&folder.path().join("data"), &settings);
        let mut site = Site { folder, gateway, files: Files::new(), random };
        let maker = site.client("maker").await;
        maker.make_directory("secret").await;
        leave(maker).await;
        site.write("kept", 8).await;
        site.write("secret/file", 6).await;
        site.gateway.flush();
        site
    }

    fn packs(&self) -> u64 {
        self.gateway.json(&["status"], &[0])["node"]["packs"].as_u64().unwrap()
    }

    async fn client(&self, name: &str) -> Client {
        Client::connect(self.gateway.nfs, name).await
    }

    async fn write(&mut self, prefix: &str, count: usize) {
        let client = self.client(&format!("writer of {prefix}")).await;
        for number in 0..count {
            let path = format!("{prefix}{number}");
            let data = self.random.bytes([10, 3000, 65_536, 150_000][number % 4]);
            client.write(&path, &data).await;
            self.files.insert(path, data);
        }
        leave(client).await;
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn data(&self) -> String {
        text(&self.gateway.data).to_owned()
    }

    /// Everything, read from the clouds.
    async fn expect(&self, gateway: &Gateway) {
        gateway.drop_cache();
        let client = Client::connect(gateway.nfs, "reader").await;
        for (path, data) in &self.files {
            client.expect(path, data).await;
        }
        leave(client).await;
        gateway.check();
    }

    /// Nothing of the shredded tree is to be seen.
    async fn expect_no_secrets(&self) {
        let client = self.client("looker").await;
        assert!(client.find("secret").await.is_err());
        leave(client).await;
    }

    /// Waits for what the gateway does by itself.
    async fn until(&self, what: &str, is_done: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let keys = self.keys();
            if is_done(&keys) {
                return keys;
            }
            assert!(Instant::now() < deadline, "{what}: {keys:#}");
            tokio::task::yield_now().await;
        }
    }

    fn export(&self, name: &str, more: &[&str]) -> PathBuf {
        let to = self.at(name);
        let output = kurma(&[&["key", "export", text(&to), "--data", &self.data()], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        to
    }

    /// A gateway out of the clouds and these keys.
    async fn restored(&self, keys: &[&Path], to: &str) -> Gateway {
        let to = self.at(to);
        let mut arguments = vec!["restore", "--to", text(&to)];
        keys.iter().for_each(|keys| arguments.extend(["--keys", text(keys)]));
        told(&arguments, 0);
        let mut gateway = Gateway::new(&to);
        gateway.launch();
        gateway
    }

    fn keys(&self) -> Value {
        self.gateway.json(&["key", "show"], &[0])
    }

    fn shred(&self, what: &str, recovery: &str, code: i32, more: &[&str]) -> String {
        let recovery = self.at(recovery);
        let output = self.gateway.kurma_ends(
            &[&["key", "shred", what, "--recovery", text(&recovery), "--yes"], more].concat(),
            &[code],
        );
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    fn forget_secrets(&mut self) {
        self.files.retain(|path, _| !path.starts_with("secret/"));
    }
}

fn copy(from: &Path, to: &Path) {
    for file in files_below(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(&file, &target).unwrap();
    }
}

fn epoch(keys: &Value) -> (u64, u64) {
    let keys = &keys["volumes"][0]["keys"];
    (keys["epoch"].as_u64().unwrap(), keys["old_epochs"].as_u64().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_rotations_all_is_read_restarted_and_restored_with_recovery_files_of_before_and_after() {
    for policy in ["rs:2+1", "caont-rs:2+1"] {
        let mut site = Site::begin("rotation", policy).await;
        let before = site.export("before.key", &[]);
        let rotated = site.gateway.json(&["key", "rotate", "home", "--wait"], &[0]);
        assert_eq!(epoch(&rotated), (2, 0), "{policy}: {rotated:#}");
        site.write("new", 5).await;
        site.write("kept", 4).await; // of files that were there before
        site.gateway.flush();
        site.expect(&site.gateway).await;
        site.gateway.kill();
        site.gateway.launch();
        site.expect(&site.gateway).await;
        assert_eq!(epoch(&site.keys()), (2, 0));
        site.gateway.kurma_ends(&["key", "rotate"], &[0]);
        site.gateway.kurma_ends(&["scrub"], &[0]);
        site.gateway.flush();
        assert_eq!(site.gateway.kurma(&["key", "rotate", "nothing"]).status.code(), Some(1));
        let after = site.export("after.key", &[]);
        site.gateway.kill();
        for (keys, to) in [(&before, "one"), (&after, "two")] {
            let mut gateway = site.restored(&[keys], to).await;
            site.expect(&gateway).await;
            gateway.kill();
            std::fs::remove_dir_all(site.at(to)).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_rotation_that_is_killed_anywhere_loses_nothing_and_goes_on_by_itself() {
    for (at, (point, _)) in POINTS.iter().filter(|(point, _)| point.starts_with("keys.")).enumerate() {
        let mut site = match at % 2 {
            0 => Site::begin(point, "rs:2+1").await,
            _ => Site::begin_packing(point).await,
        };
        site.gateway.kill();
        site.gateway.set("KURMA_FAILPOINT", *point);
        site.gateway.launch();
        let output = site.gateway.kurma(&["key", "rotate", "--wait"]);
        assert!(!output.status.success() && site.gateway.was_at_failpoint(), "{point}");
        site.gateway.kill();
        site.gateway.unset("KURMA_FAILPOINT");
        site.gateway.launch();
        site.expect(&site.gateway).await;
        site.write("new", 3).await;
        site.gateway.flush();
        let keys = site.until("old keys are there", |keys| epoch(keys).1 == 0).await;
        assert_eq!(epoch(&keys).0, if *point == "keys.before-epoch" { 1 } else { 2 }, "{point}");
        site.expect(&site.gateway).await;
        site.gateway.kurma_ends(&["scrub"], &[0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn words_and_shares_of_officers_bring_a_lost_gateway_back() {
    let mut site = Site::begin("officers", "rs:2+1").await;
    let words = site.export("words.txt", &["--paper"]);
    let shares = site.export("shares", &["--shares", "3/5"]);
    let share = |number: usize| shares.join(format!("share-{number}-of-5.txt"));
    let data = site.data();
    told(&["key", "export", text(&shares), "--shares", "3/5", "--data", &data], 2);
    let odd = told(&["key", "export", text(&site.at("x")), "--shares", "5/3", "--data", &data], 2);
    assert!(odd.contains("5 of 3"), "{odd}");
    site.gateway.kill();
    std::fs::remove_dir_all(&site.gateway.data).unwrap();

    for (keys, to) in [(vec![words.clone()], "one"), (vec![share(5), share(2), share(3)], "two")] {
        let keys: Vec<&Path> = keys.iter().map(PathBuf::as_path).collect();
        let mut gateway = site.restored(&keys, to).await;
        site.expect(&gateway).await;
        gateway.kill();
    }
    // The same by way of a recovery file.
    let file = site.at("recovery.key");
    told(&["key", "combine", text(&share(1)), text(&share(2)), text(&share(4)), "--to", text(&file)], 0);
    let mut gateway = site.restored(&[&file], "three").await;
    site.expect(&gateway).await;
    gateway.kill();

    let to = site.at("none");
    let few = told(&["key", "combine", text(&share(1)), text(&share(4)), "--to", text(&to)], 2);
    assert!(few.contains("3 shares") && few.contains("there are 2 (numbers 1, 4)"), "{few}");
    let typed = site.at("typed.txt");
    let paper = std::fs::read_to_string(&words).unwrap();
    // Lines that begin with # are not the key.
    let first = paper.lines().find_map(|line| line.strip_prefix("  1 ")?.split(' ').next()).unwrap();
    let with_first = |word: &str| {
        std::fs::write(&typed, paper.replacen(&format!("\n  1 {first} "), &format!("\n  1 {word} "), 1))
            .unwrap();
    };
    with_first("zzzebra");
    let open = told(&["key", "import", text(&typed), "--to", text(&to)], 2);
    assert!(open.contains("chmod 600"), "{open}");
    std::fs::set_permissions(&typed, Permissions::from_mode(0o600)).unwrap();
    let named = told(&["key", "import", text(&typed), "--to", text(&to)], 2);
    assert!(named.contains("word 1") && named.contains("zzzebra"), "{named}");
    with_first(if first == "zoo" { "zebra" } else { "zoo" });
    let other = told(&["key", "import", text(&typed), "--to", text(&to)], 2);
    assert!(other.contains("do not fit together"), "{other}");
    assert!(!to.exists());
    told(&["key", "import", text(&words), "--to", text(&to)], 0);
    assert_eq!(std::fs::read(&to).unwrap(), std::fs::read(&file).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_shredded_tree_is_gone_for_good_and_all_else_goes_on() {
    let mut site = Site::begin("shredding", "rs:2+1").await;
    let old_keys = site.export("old.key", &[]);
    // A cloud that keeps everything for ever, and a dump that somebody has kept.
    let kept = site.at("kept clouds");
    copy(&site.at("clouds"), &kept);
    let dump = site.at("old.dump");
    site.gateway.kurma_ends(&["meta", "dump", text(&dump)], &[0]);

    let recovery = site.at("new.key");
    let refused = site.gateway.kurma(&["key", "shred", "home/secret", "--recovery", text(&recovery)]);
    assert_eq!(refused.status.code(), Some(2), "without --yes nothing is done");
    assert!(site.shred("home/nothing", "new.key", 1, &[]).contains("no file or directory"));
    assert!(site.shred("nowhere", "new.key", 1, &[]).contains("no volume"));
    site.expect(&site.gateway).await;
    assert!(!recovery.exists());

    let proof = site.at("proof.txt");
    let statement = site.shred("home/secret", "new.key", 0, &["--proof", text(&proof)]);
    assert!(statement.contains("what = home/secret") && statement.contains("files = 6"), "{statement}");
    site.forget_secrets();
    site.expect_no_secrets().await;
    site.expect(&site.gateway).await;
    let keys = site.keys();
    assert_eq!((keys["generation"].as_u64(), keys["oldest_generation"].as_u64()), (Some(2), Some(2)));
    site.write("later", 4).await;
    site.gateway.flush();
    site.gateway.kurma_ends(&["gc"], &[0]);
    site.gateway.json(&["scrub", "--orphans"], &[0]);
    site.gateway.kill();
    site.gateway.launch();
    site.expect(&site.gateway).await;
    let new_export = site.export("exported later.key", &[]);
    site.gateway.kill();

    // The statement.
    let data = site.data();
    told(&["key", "shred", "--verify", text(&proof), "--data", &data], 0);
    told(&["key", "shred", "--verify", text(&proof), "--keys", text(&old_keys)], 0);
    told(&["key", "shred", "--verify", text(&proof)], 3);
    let changed = std::fs::read_to_string(&proof).unwrap().replace("files = 6", "files = 5");
    std::fs::write(site.at("changed.txt"), changed).unwrap();
    let forged = told(&["key", "shred", "--verify", text(&site.at("changed.txt")), "--data", &data], 1);
    assert!(forged.contains("signature does not hold"), "{forged}");

    // The new recovery file, and one of later, bring it back; the one of before does not, and says why.
    for (keys, to) in [(&recovery, "one"), (&new_export, "two")] {
        let mut gateway = site.restored(&[keys], to).await;
        site.expect(&gateway).await;
        gateway.kill();
    }
    let to = site.at("three");
    let old = told(&["restore", "--to", text(&to), "--keys", text(&old_keys)], 2);
    assert!(old.contains("shredded") && old.contains("generation 1 of 2"), "{old}");

    // With everything that the clouds had before, and the new key, there is nothing to be had.
    let clouds: Vec<String> =
        ["a", "b", "c"].iter().map(|name| format!("{name}=dir://{}", kept.join(name).display())).collect();
    for name in ["a", "b", "c"] {
        std::fs::create_dir_all(kept.join(name).join(".kurma-incoming")).unwrap();
    }
    let mut arguments = vec!["restore", "--to", text(&to), "--keys", text(&recovery)];
    clouds.iter().for_each(|cloud| arguments.extend(["--cloud", cloud]));
    let _ = std::fs::remove_dir_all(&to);
    let nothing = told(&arguments, 2);
    assert!(nothing.contains("keys that it needs are destroyed"), "{nothing}");
    // Nor with the dump.
    for part in ["meta", "journal"] {
        std::fs::rename(site.gateway.data.join(part), site.at(part)).unwrap();
    }
    let nothing = told(&["meta", "load", text(&dump), "--data", &data], 2);
    assert!(nothing.contains("keys that it needs are destroyed"), "{nothing}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_shredding_that_is_killed_anywhere_goes_on_by_itself_and_loses_nothing_else() {
    for (at, (point, _)) in POINTS.iter().filter(|(point, _)| point.starts_with("shred.")).enumerate() {
        let mut site = match at % 2 {
            0 => Site::begin(point, "rs:2+1").await,
            _ => Site::begin_packing(point).await,
        };
        let old_keys = site.export("old.key", &[]);
        site.gateway.kill();
        site.gateway.set("KURMA_FAILPOINT", *point);
        site.gateway.launch();
        let recovery = site.at("new.key");
        let output =
            site.gateway.kurma(&["key", "shred", "home/secret", "--recovery", text(&recovery), "--yes"]);
        assert!(!output.status.success() && site.gateway.was_at_failpoint(), "{point}");
        site.gateway.kill();
        site.gateway.unset("KURMA_FAILPOINT");
        // Should the machine be lost now, one of the two files brings back all that is to be kept.
        let to = site.at("lost");
        let code = |keys: &Path| kurma(&["restore", "--to", text(&to), "--keys", text(keys)]).status.code();
        let codes = [&old_keys, &recovery].map(|keys| {
            let _ = std::fs::remove_dir_all(&to);
            code(keys)
        });
        assert!(codes.iter().any(|code| matches!(code, Some(0 | 3))), "{point}: {codes:?}");

        site.gateway.launch();
        let keys = site.until("the shredding goes on", |keys| keys["shredding"].is_null()).await;
        assert_eq!(
            (keys["generation"].as_u64(), keys["oldest_generation"].as_u64()),
            (Some(2), Some(2)),
            "{point}"
        );
        site.forget_secrets();
        site.expect(&site.gateway).await;
        site.expect_no_secrets().await;
        let log = site.gateway.data.join("shredded.log");
        told(&["key", "shred", "--verify", text(&log), "--data", &site.data()], 0);
        site.gateway.flush();
        site.gateway.kill();
        let mut gateway = site.restored(&[&recovery], "restored").await;
        site.expect(&gateway).await;
        gateway.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_shredding_waits_for_clouds_and_a_volume_goes_as_a_whole() {
    let site = Site::begin("whole volume", "caont-rs:2+1").await;
    let alone = site.shred("home/kept0", "new.key", 2, &[]);
    assert!(alone.contains("caont-rs") && alone.contains("Shred the"), "{alone}");
    site.gateway.kurma_ends(&["volume", "create", "other", "--policy", "rs:2+1", "--clouds", "a,b,c"], &[0]);
    // Two clouds do not answer: the backup with the new keys is in too few of them.
    for name in ["b", "c"] {
        std::fs::rename(site.at("clouds").join(name), site.at(name)).unwrap();
    }
    let waiting = site.shred("home", "new.key", 3, &[]);
    assert!(waiting.contains("no backup with the new ones"), "{waiting}");
    let status = site.gateway.json(&["status"], &[3]);
    let attention = status["attention"].to_string();
    assert!(attention.contains("home is being shredded"), "{attention}");
    let export = told(&["key", "export", text(&site.at("x")), "--data", &site.data()], 2);
    assert!(export.contains("just being shredded"), "{export}");
    for name in ["b", "c"] {
        std::fs::rename(site.at(name), site.at("clouds").join(name)).unwrap();
    }
    let keys = site.until("the shredding goes on", |keys| keys["shredding"].is_null()).await;
    assert_eq!(keys["generation"].as_u64(), Some(2));
    let volumes = site.gateway.json(&["volume", "list"], &[0]);
    assert_eq!(volumes.as_array().unwrap().len(), 1, "{volumes:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_that_lie_in_packs_with_others_are_shredded_alone() {
    let mut site = Site::begin_packing("packs").await;
    site.gateway.kurma_ends(&["key", "rotate", "home", "--wait"], &[0]);
    site.write("new", 8).await;
    site.gateway.flush();
    assert!(site.packs() >= 2, "of both epochs");
    let statement = site.shred("home/secret", "new.key", 0, &[]);
    site.forget_secrets();
    let packed = statement.lines().find_map(|line| line.strip_prefix("blocks-in-packs = "));
    let packed: u64 = packed.unwrap().parse().unwrap();
    assert!((1..=5).contains(&packed), "four small files, and the end of a large one: {statement}");
    site.gateway.kurma_ends(&["gc"], &[0]);
    site.gateway.json(&["scrub"], &[0]);
    site.gateway.json(&["scrub", "--orphans"], &[0]);
    site.expect(&site.gateway).await;
    let recovery = site.at("new.key");
    site.gateway.kill();
    site.gateway.launch();
    site.expect(&site.gateway).await;
    site.gateway.kill();
    let mut gateway = site.restored(&[&recovery], "restored").await;
    site.expect(&gateway).await;
    gateway.kill();
}
