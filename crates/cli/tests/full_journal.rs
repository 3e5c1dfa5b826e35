//! A journal that is full of what cannot be written back: one volume's clouds refuse, the others go on, and whoever
//! kills the gateway can start it again.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nfs4::{FileHandle, NfsArgOp, NfsResOp, Outcome, StableHow, StateId};
use nfs4_client::operations::{self, put_handle};
use support::{Client, Gateway, Mood, Random, S3StandIn, Settings};

const MIB: u64 = 1 << 20;

/// Far more than any step takes; what is over it waits for something that does not come.
const PATIENCE: Duration = Duration::from_secs(300);

fn piece(number: u64) -> Bytes {
    (0..MIB / 8).flat_map(|at| (at ^ (number << 40)).to_be_bytes()).collect::<Vec<_>>().into()
}

async fn put(client: &Client, file: &FileHandle, number: u64) {
    let state_id = StateId::ANONYMOUS;
    client.write_at(file, state_id, number * MIB, StableHow::FileSync, piece(number)).await.unwrap();
}

/// Makes the file `name` in the root of a volume.
async fn make(client: &Client, volume: &str, name: &str) -> FileHandle {
    let root = client.session.lookup(&[volume]).await.unwrap();
    let file = client.session.create(&root, name.to_owned(), 0o644).await.unwrap();
    client.session.close(&file).await.unwrap();
    file.handle
}

async fn expect(client: &Client, file: &FileHandle, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let request = [put_handle(file), operations::read(StateId::ANONYMOUS, number * MIB, MIB as u32)];
        let Some(NfsResOp::Read(Outcome::Ok(read))) = client.run(&request).await.unwrap().pop() else {
            panic!("READ returned something else")
        };
        assert!(read.data.into_bytes() == piece(number), "MiB {number}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_volume_whose_clouds_refuse_for_ever_stops_neither_the_others_nor_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let refusing = S3StandIn::start(&folder.path().join("refusing"));
    let base = Settings::in_folder(folder.path());
    let settings = Settings { block_size: "1MiB", journal: "64MiB", lease: "10s", ..base };
    let data = folder.path().join("data");
    settings.write(&data);
    let more = format!(
        "[[cloud]]\nname = \"d\"\nurl = \"{}\"\ntimeout = \"30s\"\n\
         [[volume]]\nname = \"stuck\"\npolicy = \"replicas:1\"\nclouds = [\"d\"]\nblock_size = \"1MiB\"\n",
        refusing.url()
    );
    let path = data.join("kurma.toml");
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + &more).unwrap();
    let mut gateway = Gateway::start_on_s3(&data);
    refusing.set(Mood::RefusingWrites(403));

    let client = Client::connect(gateway.nfs, "good").await;
    let (good, stuck) = (make(&client, "home", "good").await, make(&client, "stuck", "stuck").await);
    put(&client, &stuck, 0).await;
    // One block pins the oldest segment; twice the journal goes by.
    let by = async {
        for number in 0..128 {
            put(&client, &good, number).await;
        }
    };
    tokio::time::timeout(PATIENCE, by).await.expect("one block that cannot be written back stops everybody");

    // The refused volume takes what it gets, and then waits.
    let written = Arc::new(AtomicU64::new(1));
    let greedy = tokio::spawn({
        let (server, stuck, written) = (gateway.nfs, stuck.clone(), written.clone());
        async move {
            let client = Client::connect(server, "greedy").await;
            for number in 1..64 {
                let state_id = StateId::ANONYMOUS;
                let data = piece(number);
                let request = [
                    put_handle(&stuck),
                    operations::write(state_id, number * MIB, StableHow::FileSync, data),
                ];
                if client.session.execute(&request).await.is_err() {
                    return;
                }
                written.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let by = async {
        for number in 128..192 {
            put(&client, &good, number).await;
        }
    };
    tokio::time::timeout(PATIENCE, by).await.expect("a volume that is full stops the others");
    assert!(!greedy.is_finished(), "nothing bounds the volume");
    let status = gateway.json(&["status"], &[0, 1, 2, 3, 4]);
    println!("{} MiB of the refused volume: {status}", written.load(Ordering::SeqCst));

    for _ in 0..3 {
        gateway.kill();
        gateway.launch();
    }
    greedy.abort();
    let kept = written.load(Ordering::SeqCst);
    assert!((5..48).contains(&kept), "{kept}");
    let client = Client::connect(gateway.nfs, "good").await;
    put(&client, &good, 192).await;
    expect(&client, &stuck, 0..kept).await;
    refusing.set(Mood::Well);
    gateway.kurma_ends(&["flush", "--timeout", "2m"], &[0]);
    gateway.drop_cache();
    expect(&client, &stuck, 0..kept).await;
    expect(&client, &good, 0..193).await;
    gateway.check();
    assert_eq!(gateway.stop(), Some(0), "log:\n{}", gateway.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_write_beyond_the_largest_record_is_shortened_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { journal: "64MiB", ..Settings::in_folder(folder.path()) };
    let gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let client = Client::connect(gateway.nfs, "writer").await;
    let file = make(&client, "home", "file").await;
    let data = Random::from_environment("large write").bytes(4 << 20);
    let write = |at: usize, length: usize| {
        operations::write(StateId::ANONYMOUS, at as u64, StableHow::FileSync, data.slice(at..at + length))
    };
    let mut at = 0;
    let mut parts = 0;
    while at < data.len() {
        let request = [put_handle(&file), write(at, data.len() - at)];
        let Some(NfsResOp::Write(Outcome::Ok(written))) = client.run(&request).await.unwrap().pop() else {
            panic!("WRITE returned something else")
        };
        assert!(written.count > 0);
        at += written.count as usize;
        parts += 1;
    }
    assert!((2..8).contains(&parts), "{parts}");
    assert!(client.read("file").await.unwrap() == data);
    // Two in one compound that do not fit one record: both are done, whole.
    let half = 1 << 20;
    let request: Vec<NfsArgOp> = vec![put_handle(&file), write(half, half), write(0, half)];
    for result in client.run(&request).await.unwrap() {
        if let NfsResOp::Write(Outcome::Ok(written)) = result {
            assert_eq!(written.count as usize, half);
        }
    }
    assert!(client.read("file").await.unwrap() == data);
}
