//! The S3 driver against a real server of the protocol.
//!
//! Starts one with `tests/servers/s3` on a free port of the loopback interface, or uses the one whose address is
//! in `KURMA_TEST_S3`.

#![allow(clippy::unwrap_used)] // all of this is a test

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use cloud::{
    CloudUrl, Connection, ErrorKind, ObjectName, Options, PutMode, RetryPolicy, TimeoutPolicy, conformance,
    s3,
};
use environment::Environment;

struct Server {
    address: String,
    started: Option<tempfile::TempDir>,
}

fn script() -> Command {
    let mut command = Command::new(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/servers/s3"));
    // Short pages, so that listings take several.
    command.env("MOTO_S3_DEFAULT_MAX_KEYS", "5");
    command
}

impl Server {
    fn start() -> Server {
        if let Ok(endpoint) = std::env::var("KURMA_TEST_S3") {
            let address = endpoint.trim_start_matches("http://").trim_end_matches('/').to_owned();
            return Server { address, started: None };
        }
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let status = script().arg("start").arg(port.to_string()).arg(folder.path()).status().unwrap();
        assert!(status.success(), "the S3 server did not start");
        Server { address: format!("127.0.0.1:{port}"), started: Some(folder) }
    }

    /// Makes a bucket, which the driver cannot.
    fn make_bucket(&self, bucket: &str) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let host = &self.address;
        write!(
            stream,
            "PUT /{bucket} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") || answer.contains("BucketAlready"), "{answer}");
    }

    async fn connect(&self, bucket_and_prefix: &str) -> Connection {
        let url = format!("s3://{bucket_and_prefix}?endpoint=http://{}&region=us-east-1", self.address);
        let credentials = s3::Credentials { access_key: "test".into(), secret_key: "test".to_owned().into() };
        let options = Options {
            credentials: Some(credentials),
            retry: RetryPolicy { tries: 2, first_wait: Duration::from_millis(1), ..RetryPolicy::default() },
            timeouts: TimeoutPolicy { base: Duration::from_secs(20), ..TimeoutPolicy::default() },
            ..Options::default()
        };
        Connection::open(&Environment::real(), "s3", &CloudUrl::parse(&url).unwrap(), &options).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(folder) = &self.started {
            let _ = script().arg("stop").arg(folder.path()).status();
        }
    }
}

#[tokio::test]
async fn a_bucket_keeps_the_contract() {
    let server = Server::start();
    server.make_bucket("kurma-conformance");
    for place in ["kurma-conformance", "kurma-conformance/some/prefix"] {
        let cloud = server.connect(place).await;
        cloud.check().await.unwrap();
        conformance::run(&*cloud).await;
    }

    let name = ObjectName::new("shared").unwrap();
    let (whole, part) =
        (server.connect("kurma-conformance").await, server.connect("kurma-conformance/some/prefix").await);
    part.put(&name, vec!["inside".into()], PutMode::Overwrite).await.unwrap();
    assert_eq!(
        whole.get(&name, None).await.unwrap_err().kind(),
        ErrorKind::NotFound,
        "a prefix is a place of its own"
    );
    let listed = whole.list("", None, 10).await.unwrap();
    assert_eq!(listed, [(ObjectName::new("some/prefix/shared").unwrap(), 6)]);
    part.delete(&name).await.unwrap();

    let missing = server.connect("kurma-no-such-bucket").await;
    for error in [missing.check().await.unwrap_err(), missing.get(&name, None).await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().contains("create the bucket"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_transient_error() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Server { address: format!("127.0.0.1:{port}"), started: None };
    let error = server.connect("bucket").await.check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
}
