use std::io::{Read, Write};
use std::net::TcpStream;

use axum::http::{HeaderMap, StatusCode};
use cloud::conformance::{self, Abilities};
use cloud::{Connection, ErrorKind};

use crate::hard::Subject;
use crate::server::{Server, free_port, secret_file};
use crate::trial::{self, connect, name, patient};

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
        server,
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

/// Credentials that end after hours have a token, which goes along and is signed.
#[tokio::test]
async fn temporary_credentials_are_sent_with_their_token() {
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel::<HeaderMap>();
    let answer = move |headers: HeaderMap| async move {
        sender.send(headers).unwrap();
        StatusCode::NOT_FOUND
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        axum::serve(listener, axum::Router::new().fallback(answer)).await.unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let keys = "aws_access_key_id = somebody\naws_secret_access_key = secret\n";
    for token in [None, Some("for-an-hour")] {
        let text = token.map_or(keys.to_owned(), |token| format!("{keys}aws_session_token = {token}\n"));
        let file = secret_file(folder.path(), "credentials", &text);
        let cloud = connect(&format!("s3://bucket?endpoint=http://{address}"), &patient(Some(&file))).await;
        let error = cloud.get(&name("any"), None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        let headers = seen.recv().await.unwrap();
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(text("x-amz-security-token"), token);
        let signed = text("authorization").unwrap();
        assert_eq!(signed.contains("x-amz-security-token"), token.is_some(), "{signed}");
    }
    serving.abort();
}
