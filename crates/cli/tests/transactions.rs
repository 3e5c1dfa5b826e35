//! Atomic compounds and appending on a real volume, as `nfs4-server` tries them in memory.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // test code at the edge

#[path = "../../nfs4-server/tests/compounds/atomic/crowds.rs"]
mod crowds;
#[path = "../../nfs4-server/tests/compounds/atomic/scene.rs"]
mod scene;
mod support;

use support::{Client, Gateway, Settings};

/// A gateway with an empty volume; its folder goes with it.
fn gateway() -> (Gateway, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start_with(&folder.path().join("data"), &Settings::in_folder(folder.path()));
    (gateway, folder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_fails_wherever_it_stands_nothing_of_the_rest_is_done() {
    let (mut gateway, _folder) = gateway();
    let client = Client::connect(gateway.nfs, "client").await;
    scene::try_every_operation(&client.session, &client.home).await;
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
    crowds::come_to_an_end(gateway.nfs, 3).await;
    gateway.check();
    gateway.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_eight_clients_append_is_all_there_and_whole() {
    let (mut gateway, _folder) = gateway();
    crowds::append_whole_records(gateway.nfs, 1000).await;
    gateway.check();
    gateway.stop();
}
