//! Atomic compounds and appending on a real volume, as `nfs4-server` tries them in memory.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

#[path = "../../nfs4-server/tests/compounds/atomic/crowds.rs"]
mod crowds;
#[path = "../../nfs4-server/tests/compounds/atomic/scene.rs"]
mod scene;
mod support;

use bytes::Bytes;
use nfs4::{NfsResOp, NfsStatus, OpCode, Outcome, StableHow};
use nfs4_client::operations::{put_handle, write};
use support::{Client, Gateway, Settings};
use vector_client::Write;

/// A gateway with an empty volume; its folder goes with it.
fn gateway() -> (Gateway, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start_with(&folder.path().join("data"), &Settings::in_folder(folder.path()));
    (gateway, folder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_fails_wherever_it_stands_nothing_of_the_rest_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { acls: true, ..Settings::in_folder(folder.path()) };
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let client = Client::connect(gateway.nfs, "client").await;
    let kinds = scene::try_every_operation(&client.session, &client.home).await;
    assert!(kinds.contains(&"setattr-acl"), "{kinds:?}");
    gateway.check();
    gateway.kill();
    gateway.launch();
    gateway.check();
    gateway.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_see_all_or_nothing_of_what_others_do_together() {
    let (mut gateway, _folder) = gateway();
    crowds::see_all_or_nothing(gateway.nfs, 50).await;
    crowds::never_mix(gateway.nfs, 25).await;
    crowds::are_as_one_after_the_other(gateway.nfs, 30).await;
    gateway.check();
    gateway.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_limit_allows_fits_into_a_small_journal() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { journal: "64MiB", ..Settings::in_folder(folder.path()) };
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &settings);
    let client = Client::connect(gateway.nfs, "client").await;
    let results = client.run(&[scene::atomic()]).await.unwrap();
    let NfsResOp::CompoundMode(Outcome::Ok(limits)) = &results[0] else { panic!("{results:?}") };
    let file = client.open("f").await.unwrap();
    let request = |length: u64| {
        let data = Bytes::from(vec![7; length as usize]);
        [
            scene::atomic(),
            put_handle(&file.handle),
            write(file.state_id, 0, StableHow::FileSync, data.slice(..data.len() / 2)),
            write(file.state_id, length, StableHow::Unstable, data.slice(data.len() / 2..)),
        ]
    };
    let refused = client.session.compound(&request(limits.max_bytes)).await.unwrap();
    assert_eq!((refused.status, refused.results.len()), (NfsStatus::ReqTooBig, 1));
    assert_eq!(refused.results[0].op_code(), OpCode::CompoundMode);
    let most = limits.max_bytes - 1024;
    assert!(most > 1 << 20, "{most}");
    let results = client.run(&request(most)).await.unwrap();
    for written in &results[2..] {
        let NfsResOp::Write(Outcome::Ok(written)) = written else { panic!("{written:?}") };
        assert_eq!((u64::from(written.count), written.committed), (most / 2, StableHow::FileSync));
    }
    gateway.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_eight_clients_append_is_all_there_and_whole() {
    let (mut gateway, _folder) = gateway();
    crowds::append_whole_records(gateway.nfs, 1000).await;
    gateway.check();
    gateway.stop();
}

/// Goes on for as long as the kernel's client in the guest looks on (`tests/guest/all onlooker-4.2`), which says by
/// `KURMA_ONLOOKER` where the gateway is, which folder to make, and a file that is there when it has seen enough. Each transaction writes its number to
/// all files of one directory, always as long, and makes or removes all files of the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it needs somebody who looks on"]
async fn a_kernel_looks_on() {
    const FILES: usize = 16;
    let told = std::env::var("KURMA_ONLOOKER").expect("KURMA_ONLOOKER=SERVER,FOLDER,FILE");
    let [server, folder, enough] = told.split(',').collect::<Vec<_>>().try_into().unwrap();
    let options = vector_client::Options::default();
    let client = vector_client::Client::connect(server.parse::<std::net::SocketAddr>().unwrap(), options)
        .await
        .unwrap();
    for directory in ["written", "made"] {
        client.ensure_directory(format!("{folder}/{directory}"), 0o755).await.unwrap();
    }
    let mut number = 0;
    while number == 0 || !std::path::Path::new(enough).exists() {
        number += 1;
        let transaction = client.transaction(|t| {
            for file in 0..FILES {
                t.write(Write::whole(format!("{folder}/written/{file}"), 0o644, format!("{number:08}")));
            }
            for file in 0..FILES {
                let path = format!("{folder}/made/{file}");
                if number % 2 == 1 {
                    t.write(Write::whole(path, 0o644, "made"));
                } else {
                    t.remove(path);
                }
            }
        });
        transaction.await.unwrap();
    }
    println!("{number} transactions");
}
