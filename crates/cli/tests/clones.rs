//! Files that share their blocks, through all that happens to clouds and gateways.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // test code at the edge

mod support;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use nfs4::{CloneArgs, NfsArgOp, StableHow};
use nfs4_client::operations::put_handle;
use support::{Client, Gateway, Random, Settings, fragments_below, named_fragments};

fn cloud(folder: &Path, name: &str) -> PathBuf {
    folder.join("clouds").join(name)
}

fn objects_in(cloud: &Path) -> usize {
    fragments_below(cloud).len()
}

async fn clone(client: &Client, from: &str, to: &str) {
    client.write(to, &Bytes::new()).await;
    let (source, target) = (client.open(from).await.unwrap(), client.open(to).await.unwrap());
    let args = CloneArgs {
        source_state_id: source.state_id,
        destination_state_id: target.state_id,
        source_offset: 0,
        destination_offset: 0,
        count: 0,
    };
    let operations =
        [put_handle(&source.handle), NfsArgOp::SaveFh, put_handle(&target.handle), NfsArgOp::Clone(args)];
    client.run(&operations).await.unwrap();
    client.session.close(&source).await.unwrap();
    client.session.close(&target).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_clone_is_drained_and_survives_its_source_and_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::start_with(&folder.path().join("data"), &Settings::in_folder(folder.path()));
    let client = Client::connect(gateway.nfs, "client").await;
    let data = Random::from_environment("clones").bytes(700_000);
    client.write("source", &data).await;
    gateway.flush();
    let before = objects_in(&cloud(folder.path(), "b"));
    clone(&client, "source", "clone").await;
    clone(&client, "clone", "second").await;
    gateway.flush();
    assert_eq!(objects_in(&cloud(folder.path(), "b")), before);
    let names =
        |path: &str| named_fragments(&gateway, path).into_iter().map(|one| one.name).collect::<Vec<_>>();
    assert_eq!(names("clone"), names("source"));
    let second = client.open("second").await.unwrap();
    let changed = Bytes::from_static(b"changed");
    client.write_at(&second.handle, second.state_id, 3, StableHow::FileSync, changed).await.unwrap();
    client.session.close(&second).await.unwrap();
    client.remove("source").await;
    gateway.flush();

    let fresh = cloud(folder.path(), "d");
    std::fs::create_dir(&fresh).unwrap();
    gateway.kurma_ends(&["cloud", "add", "d", "--url", &format!("dir:{}", fresh.display())], &[0]);
    gateway.kurma_ends(&["cloud", "drain", "b"], &[0]);
    assert_eq!(objects_in(&cloud(folder.path(), "b")), 0);
    gateway.kurma_ends(&["scrub"], &[0]);
    gateway.check();

    gateway.kill();
    gateway.launch();
    gateway.check();
    let client = Client::connect(gateway.nfs, "client").await;
    gateway.drop_cache();
    let mut changed = data.to_vec();
    changed[3..10].copy_from_slice(b"changed");
    client.expect("clone", &data).await;
    client.expect("second", &changed.into()).await;
    gateway.stop();
}
