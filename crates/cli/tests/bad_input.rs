//! Bad input gets a clear sentence, the right exit status, and damages nothing.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bytes::Bytes;
use support::{Client, Gateway, KURMA, Random, S3StandIn, Settings, files_below};

fn kurma(args: &[&str]) -> Output {
    Command::new(&*KURMA).args(args).env_remove("KURMA_ADMIN").output().unwrap()
}

/// The command must end with `code` and say every one of `words` on standard error.
fn refused(output: &Output, code: i32, words: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    for word in words {
        assert!(error.contains(word), "{word:?} is not in: {error}");
    }
    assert!(!error.contains("panicked"), "{error}");
}

/// A gateway's data folder that has been used and stopped.
fn used_folder(folder: &Path) -> Gateway {
    let mut gateway = Gateway::start(&folder.join("data"));
    assert_eq!(gateway.stop(), Some(0));
    gateway
}

#[test]
fn unknown_commands_and_flags_are_usage_errors() {
    for args in
        [&["fly"][..], &["up", "--fast"], &["scrub", "--sample", "0"], &["flush", "--timeout", "soon"], &[]]
    {
        assert_eq!(kurma(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn every_command_has_help() {
    for command in [
        "up", "serve", "config", "status", "volume", "cloud", "flush", "cache", "scrub", "repair", "gc",
        "why",
    ] {
        let output = kurma(&[command, "--help"]);
        assert!(output.status.success() && !output.stdout.is_empty(), "{command}");
    }
}

#[test]
fn unknown_keys_and_bad_sizes_name_file_line_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kurma.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "[nfs]\nlisten = '127.0.0.1:1'\nleaze = '5s'\n").unwrap();
    refused(&kurma(&["config", "check", path]), 2, &["kurma.toml:3", "leaze", "`lease`"]);
    refused(&kurma(&["serve", "--config", path]), 2, &["kurma.toml:3"]);
    std::fs::write(&file, "[cache]\nmemory = '12 parsecs'\n").unwrap();
    refused(&kurma(&["config", "check", path]), 2, &["kurma.toml:2", "12 parsecs", "64KiB"]);
    refused(&kurma(&["config", "check", "/nonexistent/kurma.toml"]), 2, &["/nonexistent/kurma.toml"]);
}

#[test]
fn a_port_in_use_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = used_folder(folder.path());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    gateway.nfs = taken.local_addr().unwrap();
    refused(&gateway.run_to_end(), 2, &[&gateway.nfs.to_string(), "in use"]);
}

#[test]
fn a_folder_in_use_by_another_gateway_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(&folder.path().join("data"));
    let second = Gateway::new(&gateway.data);
    refused(&second.run_to_end(), 2, &["data", "another"]);
}

#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    let gateway = Gateway::new(Path::new("/proc/kurma"));
    refused(&gateway.run_to_end(), 2, &["/proc/kurma"]);
}

#[test]
fn the_key_file_of_another_gateway_is_refused_and_the_right_one_still_works() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = used_folder(folder.path());
    let elsewhere = tempfile::tempdir().unwrap();
    let other = used_folder(elsewhere.path());
    let (key, foreign) = (gateway.data.join("keys/gateway.key"), other.data.join("keys/gateway.key"));
    let right = std::fs::read(&key).unwrap();
    std::fs::copy(foreign, &key).unwrap();
    refused(&gateway.run_to_end(), 2, &["key"]);
    std::fs::write(&key, "no key at all").unwrap();
    let named_once = |output: Output| {
        refused(&output, 2, &["gateway.key"]);
        assert_eq!(String::from_utf8_lossy(&output.stderr).matches("gateway.key").count(), 1);
    };
    named_once(gateway.run_to_end());
    std::fs::write(&key, right).unwrap();
    let aside = key.with_extension("aside");
    std::fs::rename(&key, &aside).unwrap();
    named_once(gateway.run_to_end());
    assert!(!key.exists(), "a new key makes old data unreadable");
    std::fs::rename(&aside, &key).unwrap();
    gateway.launch();
}

#[test]
fn a_missing_new_cloud_is_named_and_nothing_is_created_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let gateway = with_fourth_cloud(folder.path(), &format!("dir:{}", missing.display()));
    refused(&gateway.run_to_end(), 2, &["\"s\"", "missing", "must exist"]);
    assert!(!missing.exists());
}

#[test]
fn without_any_cloud_the_gateway_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = used_folder(folder.path());
    std::fs::rename(gateway.data.join("clouds"), folder.path().join("elsewhere")).unwrap();
    refused(&gateway.run_to_end(), 2, &["none of the clouds", "clouds/a", "clouds/b", "clouds/c"]);
    assert!(!gateway.data.join("clouds").exists());
}

/// A data folder with one more cloud, `s`, which no volume uses.
fn with_fourth_cloud(folder: &Path, url: &str) -> Gateway {
    let mut gateway = used_folder(folder);
    let file = gateway.data.join("kurma.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let cloud = format!("[[cloud]]\nname = \"s\"\nurl = \"{url}\"\ntimeout = \"1s\"\n");
    std::fs::write(&file, format!("{text}\n{cloud}")).unwrap();
    gateway.set_credentials();
    gateway
}

#[test]
fn a_missing_bucket_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let server = S3StandIn::start(&folder.path().join("objects"));
    let mut gateway = with_fourth_cloud(folder.path(), &server.url_of("nowhere"));
    refused(&gateway.run_to_end(), 2, &["\"s\"", "bucket"]);
    let file = gateway.data.join("kurma.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("nowhere", "bucket")).unwrap();
    gateway.launch();
}

#[test]
fn a_cloud_that_is_down_does_not_keep_the_gateway_down() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("s3://bucket/x?endpoint=http%3A%2F%2F{}&region=us-east-1", support::free_port());
    let mut gateway = with_fourth_cloud(folder.path(), &url);
    gateway.launch();
    gateway.kurma_ends(&["cloud", "test", "s"], &[1]);
    gateway.kurma_ends(&["cloud", "test", "a"], &[0]);
}

/// Sets the format number of a metadata store, bytes 8 to 11 of its file, and returns what it was.
fn set_format(store: &Path, format: u32) -> u32 {
    let mut bytes = std::fs::read(store).unwrap();
    let before = u32::from_be_bytes(bytes[8..12].try_into().unwrap());
    bytes[8..12].copy_from_slice(&format.to_be_bytes());
    std::fs::write(store, bytes).unwrap();
    before
}

#[test]
fn a_metadata_store_of_a_newer_format_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = used_folder(folder.path());
    let store = gateway.data.join("meta/metadata.redb");
    let format = set_format(&store, 999);
    let before = digest(&gateway.data.join("meta"));
    refused(&gateway.run_to_end(), 2, &["metadata.redb", "999", "newer version"]);
    expect_unchanged(&before);
    set_format(&store, format);
    gateway.launch();
}

#[test]
fn a_metadata_store_that_is_no_database_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = used_folder(folder.path());
    let store = gateway.data.join("meta/metadata.redb");
    std::fs::write(&store, vec![b'?'; 100_000]).unwrap();
    refused(&gateway.run_to_end(), 2, &["metadata.redb"]);
    assert!(std::fs::read(&store).unwrap() == vec![b'?'; 100_000]);
}

/// Ten files, each acknowledged before the next, in a journal that nothing else is written to; the process is
/// killed. The last thing in the journal is the change of `last` from old to new.
async fn killed_with_a_journal(folder: &Path) -> (Gateway, Vec<(String, Bytes)>) {
    let settings = Settings { write_back_wait: "1h", ..Settings::in_folder(folder) };
    let mut gateway = Gateway::start_with(&folder.join("data"), &settings);
    let client = Client::connect(gateway.nfs, "client").await;
    let mut random = Random::from_environment("journal damage");
    let files: Vec<(String, Bytes)> =
        (0..10).map(|n| (format!("file{n}"), random.bytes(5000 * n + 10))).collect();
    client.write("last", &Bytes::from_static(b"old")).await;
    let last = client.find("last").await.unwrap();
    for (path, data) in &files {
        client.write(path, data).await;
    }
    let stable = nfs4::StableHow::FileSync;
    client.write_at(&last, nfs4::StateId::ANONYMOUS, 0, stable, Bytes::from_static(b"new")).await.unwrap();
    gateway.kill();
    (gateway, files)
}

/// The end of what is written in the newest segment that holds anything, and the segment.
fn journal_tail(gateway: &Gateway) -> (PathBuf, usize) {
    let segments = files_below(&gateway.data.join("journal"));
    let ends = segments.into_iter().filter_map(|segment| {
        let bytes = std::fs::read(&segment).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0)?;
        (end > 2 * 4096).then_some((segment, end + 1)) // more than the header of a run
    });
    ends.max().expect("a segment with records")
}

async fn expect_files(gateway: &Gateway, files: &[(String, Bytes)], last: &[&'static [u8]]) {
    let client = Client::connect(gateway.nfs, "client").await;
    for (path, data) in files {
        client.expect(path, data).await;
    }
    let found = client.read("last").await.unwrap();
    assert!(last.contains(&&found[..]), "{found:?}");
    gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_torn_journal_tail_costs_what_was_torn_and_is_told() {
    type Damage = fn(&mut Vec<u8>, usize);
    let kinds: [(&str, Damage); 3] = [
        ("zeros", |bytes, end| bytes[end - 40..end].fill(0)),
        ("garbage", |bytes, end| bytes[end - 40..end].iter_mut().for_each(|byte| *byte ^= 0x5a)),
        ("cut", |bytes, end| bytes.truncate(end - 20)),
    ];
    for (kind, damage) in kinds {
        println!("{kind}");
        let folder = tempfile::tempdir().unwrap();
        let (mut gateway, files) = killed_with_a_journal(folder.path()).await;
        let (segment, end) = journal_tail(&gateway);
        let mut bytes = std::fs::read(&segment).unwrap();
        damage(&mut bytes, end);
        std::fs::write(&segment, bytes).unwrap();
        gateway.launch();
        assert!(gateway.log().contains("journal"), "{kind}: nothing is said; log:\n{}", gateway.log());
        expect_files(&gateway, &files, &[b"old", b"new"]).await;
        assert_eq!(gateway.stop(), Some(0));
    }
}

/// Behind the headers of the journal and of its first run, two blocks each.
const FIRST_BATCH: usize = 4 * 4096;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn damage_in_the_middle_of_the_journal_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (mut gateway, files) = killed_with_a_journal(folder.path()).await;
    let (segment, _) = journal_tail(&gateway);
    let sound = std::fs::read(&segment).unwrap();
    for at in [FIRST_BATCH + 5, FIRST_BATCH + 80] {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x01;
        std::fs::write(&segment, &bytes).unwrap();
        let before = digest(&gateway.data);
        let name = segment.file_name().unwrap().to_string_lossy().into_owned();
        refused(&gateway.run_to_end(), 2, &["journal", &name, "damaged"]);
        expect_unchanged(&before);
    }
    std::fs::write(&segment, sound).unwrap();
    gateway.launch();
    expect_files(&gateway, &files, &[b"new"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn damaged_data_in_the_journal_is_an_error_for_its_file_only() {
    let folder = tempfile::tempdir().unwrap();
    let (mut gateway, mut files) = killed_with_a_journal(folder.path()).await;
    let (segment, end) = journal_tail(&gateway);
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[end - 24_000] ^= 0x01; // the 45,000 bytes of the last file are the last but a few
    std::fs::write(&segment, &bytes).unwrap();
    gateway.launch();
    let client = Client::connect(gateway.nfs, "client").await;
    let (path, _) = files.pop().unwrap();
    client.expect_failure(&path, nfs4::NfsStatus::Io).await;
    for (path, data) in &files {
        client.expect(path, data).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_missing_journal_segment_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (mut gateway, files) = killed_with_a_journal(folder.path()).await;
    // Also when the metadata store has everything: nobody can know that without the journal.
    gateway.launch();
    assert_eq!(gateway.stop(), Some(0));
    gateway.launch();
    gateway.kill();
    let (segment, _) = journal_tail(&gateway);
    let aside = folder.path().join("aside");
    std::fs::rename(&segment, &aside).unwrap();
    refused(&gateway.run_to_end(), 2, &["journal"]);
    std::fs::rename(&aside, &segment).unwrap();
    gateway.launch();
    expect_files(&gateway, &files, &[b"new"]).await;
}

fn digest(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    files_below(folder).into_iter().map(|file| (file.clone(), std::fs::read(file).unwrap())).collect()
}

fn expect_unchanged(before: &[(PathBuf, Vec<u8>)]) {
    for (file, bytes) in before {
        assert!(std::fs::read(file).is_ok_and(|now| now == *bytes), "{} was changed", file.display());
    }
}
