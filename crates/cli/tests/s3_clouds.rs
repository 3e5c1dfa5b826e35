//! A gateway on three buckets of a real S3 server (`tests/servers/s3`).

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use support::{Client, Gateway, Random, S3Server, Settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_survive_the_loss_of_one_of_three_buckets() {
    let folder = tempfile::tempdir().unwrap();
    let server = S3Server::start(&folder.path().join("server"));
    let buckets = ["alpha", "beta", "gamma"];
    let mut settings = Settings { backups: "0s", ..Settings::in_folder(folder.path()) };
    for (bucket, name) in buckets.into_iter().zip(["a", "b", "c"]) {
        server.make_bucket(bucket);
        settings = settings.with_cloud(name, server.cloud(bucket));
    }
    let data = folder.path().join("data");
    settings.write(&data);
    let gateway = Gateway::start_on_s3(&data);
    let client = Client::connect(gateway.nfs, "client").await;
    let mut random = Random::from_environment("s3 clouds");
    let files: Vec<_> = (0..10).map(|n| (format!("file{n}"), random.bytes(1 << (2 * n)))).collect();
    for (path, data) in &files {
        client.write(path, data).await;
    }
    gateway.flush();
    let stored = server.keys("beta");
    assert!(stored.len() > 2 && stored.iter().all(|key| key.starts_with("some/prefix/")));
    for lost in [None, Some("alpha"), Some("beta")] {
        if let Some(bucket) = lost {
            server.keys(bucket).iter().for_each(|key| server.delete(bucket, key));
        }
        gateway.drop_cache();
        for (path, data) in &files {
            client.expect(path, data).await;
        }
        gateway.kurma_ends(&["scrub"], &[0, 3]);
        gateway.kurma_ends(&["repair"], &[0]);
        gateway.kurma_ends(&["scrub"], &[0]);
    }
    assert_eq!(server.keys("beta").len(), stored.len());
    // Data that is deleted leaves the buckets.
    for (path, _) in &files {
        client.remove(path).await;
    }
    gateway.flush();
    let began = std::time::Instant::now();
    while !server.keys("beta").is_empty() {
        assert!(began.elapsed().as_secs() < 60, "{:?}", server.keys("beta"));
        gateway.kurma_ends(&["gc"], &[0]);
    }
}
