//! A gateway on three buckets of a real S3 server (`tests/servers/s3`).

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Client, Gateway, Random, Settings, free_port, parallel};

/// The server process.
struct Server {
    script: PathBuf,
    folder: PathBuf,
    url: String,
}

impl Server {
    fn start(folder: &Path) -> Server {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/servers/s3");
        let port = free_port().port();
        let status = Command::new(&script).args(["start", &port.to_string()]).arg(folder).status().unwrap();
        assert!(status.success(), "the S3 server did not start");
        Server { script, folder: folder.to_owned(), url: format!("http://127.0.0.1:{port}") }
    }

    fn make_bucket(&self, bucket: &str) {
        parallel(|| ureq::put(format!("{}/{bucket}", self.url)).send_empty()).unwrap();
    }

    /// Keys of at most a thousand objects.
    fn keys(&self, bucket: &str) -> Vec<String> {
        let answer = parallel(|| ureq::get(format!("{}/{bucket}?list-type=2", self.url)).call());
        let xml = answer.unwrap().body_mut().read_to_string().unwrap();
        let keys =
            xml.split("<Key>").skip(1).filter_map(|part| Some(part.split_once("</Key>")?.0.to_owned()));
        keys.collect()
    }

    fn delete(&self, bucket: &str, key: &str) {
        // Only its presence counts.
        let signature = "AWS4-HMAC-SHA256 Credential=a/20240101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let request = ureq::delete(format!("{}/{bucket}/{key}", self.url)).header("authorization", signature);
        parallel(|| request.call()).unwrap();
    }

    fn cloud(&self, bucket: &str) -> String {
        let endpoint = self.url.replace(':', "%3A").replace('/', "%2F");
        format!("s3://{bucket}/some/prefix?endpoint={endpoint}&region=us-east-1")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new(&self.script).arg("stop").arg(&self.folder).status(); // it may have ended by itself
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_survive_the_loss_of_one_of_three_buckets() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("server"));
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
    assert!(stored.len() > 10 && stored.iter().all(|key| key.starts_with("some/prefix/")));
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
