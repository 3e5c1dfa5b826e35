//! Files that a scanner sees before they go to the clouds, through real gateways: with ClamAV, with an ICAP service, and with scanners that
//! hang, are away, or see a file change.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // test code at the edge

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use nfs4::NfsStatus;
use serde_json::Value;
use support::{
    Clamd, Client, Gateway, Icap, MALWARE, MALWARE_NAME, Settings, eicar, fragments_below, parallel,
};

/// A gateway whose files are shown to the scanner at this address; `more` is the rest of the section, and what follows it.
fn begin(folder: &Path, address: &str, more: &str) -> Gateway {
    let data = folder.join("data");
    // Objects are counted: one for each block.
    let settings =
        Settings { backups: "0s", stop_wait: "1s", longest_packed: "0B", ..Settings::in_folder(folder) };
    settings.write(&data);
    let file = data.join("kurma.toml");
    let scan =
        format!("[scan]\naddress = \"{address}\"\nopen_wait = \"200ms\"\nrescan = \"100ms\"\n{more}\n");
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + &scan).unwrap();
    Gateway::start(&data)
}

fn objects(folder: &Path) -> usize {
    fragments_below(&folder.join("clouds/a")).len()
}

/// What `kurma scan list` says of a file.
fn listed(gateway: &Gateway, path: &str) -> Option<Value> {
    let files = gateway.json(&["scan", "list"], &[0]);
    files.as_array().unwrap().iter().find(|file| file["path"] == path).cloned()
}

/// Waits until a file is in this state.
fn until_listed(gateway: &Gateway, path: &str, state: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match listed(gateway, path) {
            Some(file) if file["state"] == state => return file,
            other => {
                assert!(Instant::now() < deadline, "{path} is {other:?} and not {state}\n{}", gateway.log())
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_infected_file_is_out_of_reach_and_out_of_the_clouds_until_it_is_released() {
    let folder = tempfile::tempdir().unwrap();
    let clamd = Clamd::start(folder.path());
    let mut gateway = begin(folder.path(), &clamd.address(), "");
    let client = Client::connect(gateway.nfs, "client").await;
    let (clean, large) = (Bytes::from_static(b"nothing of interest"), Bytes::from(vec![7; 5 << 20]));
    let infected = Bytes::from_static(MALWARE);
    client.write("clean", &clean).await;
    client.write("large", &large).await;
    client.make_directory("folder").await;
    client.write("folder/infected", &infected).await;
    // Whoever flushes does not wait for what is quarantined.
    gateway.flush();
    let stored = objects(folder.path());
    assert_eq!(stored, 1 + (5 << 20) / (64 << 10));
    let found = listed(&gateway, "/home/folder/infected").unwrap();
    assert_eq!((&found["state"], &found["found"]), (&"quarantined".into(), &MALWARE_NAME.into()));
    assert!(listed(&gateway, "/home/clean").is_none());
    client.expect_failure("folder/infected", NfsStatus::Access).await;
    assert_eq!(client.open("folder/infected").await.err().unwrap().status(), Some(NfsStatus::Access));
    assert_eq!(client.list("folder").await.unwrap().len(), 1, "it can be seen");
    let status = gateway.json(&["scan", "status"], &[3]);
    assert_eq!(status["volumes"][0]["quarantined"], 1);
    assert_eq!(status["volumes"][0]["quarantined_bytes"], MALWARE.len());
    gateway.kurma_ends(&["status"], &[3]);
    gateway.check();

    gateway.kill();
    gateway.launch();
    let client = Client::connect(gateway.nfs, "client").await;
    client.expect_failure("folder/infected", NfsStatus::Access).await;
    gateway.flush();
    assert_eq!(objects(folder.path()), stored, "it is still here alone");

    gateway.kurma_ends(&["scan", "release", "/home/folder/infected"], &[0]);
    client.expect("folder/infected", &infected).await;
    gateway.flush();
    assert_eq!(objects(folder.path()), stored + 1);
    assert_eq!(listed(&gateway, "/home/folder/infected").unwrap()["state"], "released");
    gateway.drop_cache();
    for (name, content) in [("clean", &clean), ("large", &large), ("folder/infected", &infected)] {
        client.expect(name, content).await;
    }
    // Another version of it is another file.
    client.write("folder/infected", &Bytes::from([MALWARE, b"!"].concat())).await;
    until_listed(&gateway, "/home/folder/infected", "quarantined");
    gateway.kurma_ends(&["scan", "remove", "/home/folder/infected"], &[2]);
    gateway.kurma_ends(&["scan", "remove", "/home/folder/infected", "--yes"], &[0]);
    assert!(client.list("folder").await.unwrap().is_empty());
    gateway.kurma_ends(&["scan", "remove", "/home/clean", "--yes"], &[3]);
    gateway.kurma_ends(&["scan", "release", "/home/nowhere"], &[1]);
    gateway.flush();
    gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_icap_service_is_asked_as_well_and_what_it_finds_can_be_only_told() {
    let folder = tempfile::tempdir().unwrap();
    let clamd = Clamd::start(folder.path());
    let icap = Icap::start(folder.path(), &clamd);
    let gateway = begin(folder.path(), &icap.address(), "infected = \"report\"");
    let client = Client::connect(gateway.nfs, "client").await;
    let infected = Bytes::from(eicar());
    // The preview is 1 KiB.
    let long = Bytes::from([vec![b'.'; 300_000], MALWARE.to_vec(), vec![b'.'; 300_000]].concat());
    client.write("short", &infected).await;
    client.write("long", &long).await;
    client.write("clean", &Bytes::from(vec![b'x'; 200_000])).await;
    client.write("empty", &Bytes::new()).await;
    gateway.flush();
    let name_of = |path: &str| listed(&gateway, path).unwrap()["found"].as_str().unwrap().to_owned();
    assert!(name_of("/home/short").contains("Eicar"), "{}", name_of("/home/short"));
    assert_eq!(name_of("/home/long"), MALWARE_NAME);
    assert!(listed(&gateway, "/home/clean").is_none());
    let status = gateway.json(&["scan", "status"], &[0]);
    assert_eq!((&status["volumes"][0]["reported"], &status["since_start"]["clean"]), (&2.into(), &1.into()));
    // They were let go on.
    gateway.drop_cache();
    client.expect("short", &infected).await;
    client.expect("long", &long).await;
    gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_scanner_that_is_away_is_not_waited_for_and_sees_the_files_later() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("clamd.ctl");
    let gateway = begin(folder.path(), &format!("clamd:unix:{}", socket.display()), "fail = \"open\"");
    let client = Client::connect(gateway.nfs, "client").await;
    client.write("infected", &Bytes::from_static(MALWARE)).await;
    client.write("clean", &Bytes::from_static(b"clean")).await;
    gateway.flush();
    assert_eq!(objects(folder.path()), 2);
    assert_eq!(listed(&gateway, "/home/infected").unwrap()["state"], "unscanned");
    let _clamd = Clamd::start(folder.path());
    let found = until_listed(&gateway, "/home/infected", "quarantined");
    assert_eq!(found["found"], MALWARE_NAME);
    client.expect_failure("infected", NfsStatus::Access).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    while listed(&gateway, "/home/clean").is_some() {
        assert!(Instant::now() < deadline);
    }
    client.expect("clean", &Bytes::from_static(b"clean")).await;
    gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_wait_for_a_scanner_that_is_away_when_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("clamd.ctl");
    let mut gateway = begin(folder.path(), &format!("clamd:unix:{}", socket.display()), "fail = \"closed\"");
    let client = Client::connect(gateway.nfs, "client").await;
    let content = Bytes::from_static(b"content");
    for name in ["one", "two", "three"] {
        client.write(name, &content).await;
    }
    let left = gateway.json(&["flush", "--timeout", "1s"], &[3]);
    assert_eq!(left["dirty_bytes"], 3 * content.len());
    assert_eq!(objects(folder.path()), 0);
    until_listed(&gateway, "/home/one", "waiting");
    let status = gateway.json(&["scan", "status"], &[0, 3]);
    assert_eq!(
        (&status["volumes"][0]["waiting"], &status["volumes"][0]["waiting_bytes"]),
        (&3.into(), &21.into())
    );
    // They can be read, and one is let go by hand; also after a restart.
    client.expect("two", &content).await;
    gateway.kill();
    gateway.launch();
    let client = Client::connect(gateway.nfs, "client").await;
    until_listed(&gateway, "/home/two", "waiting");
    gateway.kurma_ends(&["scan", "release", "/home/two"], &[0]);
    let deadline = Instant::now() + Duration::from_secs(60);
    while objects(folder.path()) == 0 {
        assert!(Instant::now() < deadline);
    }
    // The way out for all of them: another policy, without a restart.
    let file = gateway.data.join("kurma.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"closed\"", "\"open\"")).unwrap();
    gateway.kurma_ends(&["config", "reload"], &[0]);
    gateway.flush();
    assert_eq!(objects(folder.path()), 3);
    for name in ["one", "two", "three"] {
        client.expect(name, &content).await;
    }
    gateway.check();
}

/// A `clamd` of which the test decides: it says when something was shown to it, and answers when it is told what.
struct Puppet {
    port: u16,
    shown: Receiver<Vec<u8>>,
    answers: Sender<&'static str>,
}

impl Puppet {
    fn start() -> Puppet {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (show, shown) = channel();
        let (answers, told) = channel::<&'static str>();
        std::thread::spawn(move || {
            // One scan after the other, until the test is over.
            while let Ok((mut stream, _)) = listener.accept() {
                let content = read_stream(&mut stream).unwrap();
                if show.send(content).is_err() {
                    return;
                }
                let Ok(answer) = told.recv() else { return };
                // It may not be waited for any more.
                let _ = stream.write_all(format!("stream: {answer}\0").as_bytes());
            }
        });
        Puppet { port, shown, answers }
    }

    fn address(&self) -> String {
        format!("clamd:tcp:127.0.0.1:{}", self.port)
    }

    /// What is shown next.
    fn shown(&self) -> Vec<u8> {
        parallel(|| self.shown.recv_timeout(Duration::from_secs(60))).expect("something is shown")
    }

    fn answer(&self, answer: &'static str) {
        self.answers.send(answer).unwrap();
    }
}

fn read_stream(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let (mut command, mut content) = ([0; 10], Vec::new());
    stream.read_exact(&mut command)?;
    assert_eq!(&command, b"zINSTREAM\0");
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length == 0 {
            return Ok(content);
        }
        let start = content.len();
        content.resize(start + length, 0);
        stream.read_exact(&mut content[start..])?;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_verdict_is_of_the_version_that_was_scanned() {
    let folder = tempfile::tempdir().unwrap();
    let puppet = Puppet::start();
    let gateway = begin(folder.path(), &puppet.address(), "fail = \"closed\"\nat_once = 1");
    let client = Client::connect(gateway.nfs, "client").await;
    let (first, second) = (Bytes::from_static(b"the first version"), Bytes::from_static(b"the second one"));
    client.write("file", &first).await;
    assert_eq!(puppet.shown(), first);
    // Changed while it is being scanned: what was found in the first version says nothing of the second.
    client.write("file", &second).await;
    puppet.answer("OK");
    assert_eq!(puppet.shown(), second);
    assert_eq!(objects(folder.path()), 0);
    puppet.answer("Something FOUND");
    until_listed(&gateway, "/home/file", "quarantined");
    client.expect_failure("file", NfsStatus::Access).await;

    // The other way round: what was found in an old version does not lock the new one away.
    client.write("other", &first).await;
    assert_eq!(puppet.shown(), first);
    client.write("other", &second).await;
    puppet.answer("Something FOUND");
    assert_eq!(puppet.shown(), second);
    client.expect("other", &second).await;
    puppet.answer("OK");
    gateway.flush();
    client.expect("other", &second).await;
    assert_eq!(objects(folder.path()), 1);
    gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_scanner_that_hangs_holds_up_only_what_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let puppet = Puppet::start();
    let more = "fail = \"closed\"\nvolumes = [\"home\"]\nlargest = \"100KiB\"\n\
                [[volume]]\nname = \"elsewhere\"\npolicy = \"rs:2+1\"\nblock_size = \"64KiB\"\n";
    let gateway = begin(folder.path(), &puppet.address(), more);
    let client = Client::connect(gateway.nfs, "client").await;
    let (small, large) = (Bytes::from_static(b"small"), Bytes::from(vec![1; 200 << 10]));
    // At most four scans are under way, and none of them ends.
    for number in 0..8 {
        client.write(&format!("waits-{number}"), &small).await;
    }
    puppet.shown();
    let source = folder.path().join("source");
    std::fs::write(&source, &small).unwrap();
    let target = format!("nfs://{}/elsewhere/file", gateway.nfs);
    gateway.kurma_ends(&["cp", source.to_str().unwrap(), &target], &[0]);
    gateway.kurma_ends(&["flush", "elsewhere", "--timeout", "1m"], &[0]);
    assert_eq!(objects(folder.path()), 1, "the other volume");
    // Too large to be scanned: it goes on although all scans hang.
    client.write("large", &large).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    while objects(folder.path()) < 5 {
        assert!(Instant::now() < deadline);
    }
    client.expect("large", &large).await;
    for number in 0..8 {
        client.expect(&format!("waits-{number}"), &small).await;
        client.remove(&format!("waits-{number}")).await;
    }
    client.write("again", &small).await;
    client.expect("again", &small).await;
    gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn quarantine_takes_no_more_of_the_journal_than_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let clamd = Clamd::start(folder.path());
    let mut gateway = begin(folder.path(), &clamd.address(), "quarantine_room = \"300KiB\"");
    let client = Client::connect(gateway.nfs, "client").await;
    let infected = Bytes::from([MALWARE, &[b'.'; 100 << 10]].concat());
    for number in 0..5 {
        client.write(&format!("infected-{number}"), &infected).await;
    }
    gateway.flush();
    let check = |gateway: &Gateway| {
        let status = gateway.json(&["scan", "status"], &[3]);
        let volume = &status["volumes"][0];
        assert_eq!(
            (&volume["quarantined"], &volume["quarantined_bytes"]),
            (&5.into(), &(2 * infected.len()).into())
        );
        // The others are in the clouds, two blocks each, and as much in quarantine there.
        assert_eq!(objects(folder.path()), 6);
    };
    check(&gateway);
    gateway.kill();
    gateway.launch();
    gateway.flush();
    check(&gateway);
    let client = Client::connect(gateway.nfs, "client").await;
    for number in 0..5 {
        client.expect_failure(&format!("infected-{number}"), NfsStatus::Access).await;
    }
    // Who turns scanning off is told what is still out of reach.
    assert_eq!(gateway.stop(), Some(0));
    let file = gateway.data.join("kurma.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &text[..text.find("[scan]").unwrap()]).unwrap();
    gateway.launch();
    let status = gateway.json(&["status"], &[3]);
    let told = status["attention"].to_string();
    assert!(told.contains("5 files are in quarantine") && told.contains("turned off"), "{told}");
    let status = gateway.json(&["scan", "status"], &[3]);
    assert_eq!((&status["on"], &status["volumes"][0]["quarantined"]), (&false.into(), &5.into()));
    let client = Client::connect(gateway.nfs, "client").await;
    for number in 0..5 {
        client.expect_failure(&format!("infected-{number}"), NfsStatus::Access).await;
        client.remove(&format!("infected-{number}")).await;
    }
    gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_scanned_unless_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { backups: "0s", ..Settings::in_folder(folder.path()) };
    let gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let client = Client::connect(gateway.nfs, "client").await;
    let infected = Bytes::from_static(MALWARE);
    client.write("infected", &infected).await;
    gateway.flush();
    client.expect("infected", &infected).await;
    assert_eq!(gateway.json(&["scan", "status"], &[0])["on"], false);
    assert_eq!(gateway.json(&["scan", "list"], &[0]), serde_json::json!([]));
}
