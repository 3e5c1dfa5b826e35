use cloud::{Connection, ErrorKind, conformance};

use crate::hard::Subject;
use crate::server::{Server, free_port, secret_file};
use crate::trial::{self, connect, patient};

/// The key of the account: 48 bytes in base64.
pub const KEY: &str = "a3VybWEga3VybWEga3VybWEga3VybWEga3VybWEga3VybWEga3VybWEga3VybWEg";

async fn open(server: &Server, place: &str, key: &str) -> Connection {
    let url = format!("azure://kurma/{place}?endpoint=http://127.0.0.1:{}/kurma", server.port);
    let file = server.secret_file("credentials", &format!("AZURE_STORAGE_ACCOUNT_KEY={key}\n"));
    connect(&url, &patient(Some(&file))).await
}

#[tokio::test]
async fn azurite_keeps_the_contract_and_refuses_wrong_keys() {
    let server = Server::start("azure");
    let port = server.port.to_string();
    server.run(|command| command.args(["container", &port, "conformance"]));
    for place in ["conformance", "conformance/some/prefix"] {
        let cloud = open(&server, place, KEY).await;
        cloud.check().await.unwrap();
        conformance::run(&*cloud).await;
    }
    let whole = open(&server, "conformance", KEY).await;
    let part = open(&server, "conformance/some/prefix", KEY).await;
    trial::a_prefix_is_a_place_of_its_own(&whole, &part, "some/prefix").await;
    trial::a_missing_place_is_for_a_human(&open(&server, "missing", KEY).await, "create the container").await;
    let wrong = KEY.replace("a3Vy", "aGlk");
    trial::credentials_are_refused(&open(&server, "conformance", &wrong).await, &wrong).await;
}

#[tokio::test]
async fn a_signature_in_the_address_of_a_request_is_not_told() {
    let folder = tempfile::tempdir().unwrap();
    let token = "azure_storage_sas_token = ?sv=2024-11-04&ss=b&sig=hidden%3D\n";
    let credentials = secret_file(folder.path(), "credentials", token);
    let url = format!("azure://kurma/container?endpoint=http://127.0.0.1:{}/kurma", free_port());
    let error = connect(&url, &patient(Some(&credentials))).await.check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
    assert!(!format!("{error:?}").contains("hidden"), "{error:?}");
}

#[tokio::test]
async fn azurite_in_hard_times() {
    let server = Server::start("azure");
    let port = server.port.to_string();
    server.run(|command| command.args(["container", &port, "hard"]));
    Subject {
        url: &|port| format!("azure://kurma/hard?endpoint=http://127.0.0.1:{port}/kurma"),
        credentials: Some(server.secret_file("credentials", &format!("AZURE_STORAGE_ACCOUNT_KEY={KEY}\n"))),
        port: server.port,
        server: &server,
        // It writes its index down every few seconds, so a kill loses what was acknowledged.
        is_lasting: false,
        speaks_http: true,
        abilities: conformance::Abilities::ALL,
    }
    .run()
    .await;
}
