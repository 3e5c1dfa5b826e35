use std::io::{Read, Write};
use std::net::TcpStream;

use cloud::conformance::{self, Abilities};
use cloud::{Connection, ErrorKind};

use crate::hard::Subject;
use crate::server::{Server, free_port, secret_file};
use crate::trial::{self, connect, patient};

const CREDENTIALS: &str = "[default]\naws_access_key_id = test\naws_secret_access_key = test-secret\n";

/// Makes a bucket, which the driver cannot.
fn make_bucket(server: &Server, bucket: &str) {
    let address = format!("127.0.0.1:{}", server.port);
    let mut stream = TcpStream::connect(&address).unwrap();
    write!(
        stream,
        "PUT /{bucket} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

async fn open(server: &Server, place: &str, credentials: &str) -> Connection {
    let url = format!("s3://{place}?endpoint=http://127.0.0.1:{}&region=us-east-1", server.port);
    connect(&url, &patient(Some(&server.secret_file("credentials", credentials)))).await
}

async fn a_bucket_keeps_the_contract(server: &Server, abilities: Abilities) {
    for place in ["kurma-conformance", "kurma-conformance/some/prefix"] {
        let cloud = open(server, place, CREDENTIALS).await;
        cloud.check().await.unwrap();
        conformance::run_with(&*cloud, abilities).await;
    }
    let whole = open(server, "kurma-conformance", CREDENTIALS).await;
    let part = open(server, "kurma-conformance/some/prefix", CREDENTIALS).await;
    trial::a_prefix_is_a_place_of_its_own(&whole, &part, "some/prefix").await;
    let missing = open(server, "kurma-no-such-bucket", CREDENTIALS).await;
    trial::a_missing_place_is_for_a_human(&missing, "create the bucket").await;
}

#[tokio::test]
async fn moto_keeps_the_contract() {
    let server = Server::start("s3");
    make_bucket(&server, "kurma-conformance");
    a_bucket_keeps_the_contract(&server, Abilities::ALL).await;
}

#[tokio::test]
async fn versitygw_keeps_the_contract_and_refuses_wrong_keys() {
    let server = Server::start("s3-posix");
    std::fs::create_dir(server.folder().join("buckets/kurma-conformance")).unwrap();
    a_bucket_keeps_the_contract(&server, Abilities { nests: false, ..Abilities::ALL }).await;
    let wrong = CREDENTIALS.replace("test-secret", "no-secret");
    trial::credentials_are_refused(&open(&server, "kurma-conformance", &wrong).await, "no-secret").await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_transient_error() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = secret_file(folder.path(), "credentials", CREDENTIALS);
    let url = format!("s3://bucket?endpoint=http://127.0.0.1:{}", free_port());
    let error = connect(&url, &patient(Some(&credentials))).await.check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
}

async fn lives_through_hard_times(server: &Server, is_lasting: bool, abilities: Abilities) {
    Subject {
        url: &|port| format!("s3://kurma-hard?endpoint=http://127.0.0.1:{port}&region=us-east-1"),
        credentials: Some(server.secret_file("credentials", CREDENTIALS)),
        port: server.port,
        server: Some(server),
        is_lasting,
        speaks_http: true,
        abilities,
    }
    .run()
    .await;
}

#[tokio::test]
async fn moto_in_hard_times() {
    let server = Server::start("s3");
    make_bucket(&server, "kurma-hard");
    lives_through_hard_times(&server, false, Abilities::ALL).await;
}

#[tokio::test]
async fn versitygw_in_hard_times() {
    let server = Server::start("s3-posix");
    std::fs::create_dir(server.folder().join("buckets/kurma-hard")).unwrap();
    lives_through_hard_times(&server, true, Abilities { nests: false, ..Abilities::ALL }).await;
}
