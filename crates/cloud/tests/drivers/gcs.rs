use cloud::{Connection, conformance};

use crate::gcs_stand_in::StandIn;
use crate::hard::Subject;
use crate::server::secret_file;
use crate::trial::{self, connect, patient};

async fn open(server: &StandIn, place: &str, token: &str) -> Connection {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("google_bearer_token = {token}\n");
    let file = secret_file(folder.path(), "credentials", &text);
    connect(&format!("gcs://{place}?endpoint=http://{}", server.address), &patient(Some(&file))).await
}

#[tokio::test]
async fn a_bucket_of_google_keeps_the_contract_and_refuses_wrong_tokens() {
    let server = StandIn::start("bucket", "right-token");
    for place in ["bucket", "bucket/some/prefix"] {
        let cloud = open(&server, place, "right-token").await;
        cloud.check().await.unwrap();
        conformance::run(&*cloud).await;
    }
    let whole = open(&server, "bucket", "right-token").await;
    let part = open(&server, "bucket/some/prefix", "right-token").await;
    trial::a_prefix_is_a_place_of_its_own(&whole, &part, "some/prefix").await;
    let missing = open(&server, "missing", "right-token").await;
    trial::a_missing_place_is_for_a_human(&missing, "create the bucket").await;
    let wrong = open(&server, "bucket", "wrong-token").await;
    trial::credentials_are_refused(&wrong, "wrong-token").await;
}

#[tokio::test]
async fn a_bucket_of_google_in_hard_times() {
    let server = StandIn::start("bucket", "right-token");
    let folder = tempfile::tempdir().unwrap();
    let token = "google_bearer_token = right-token\n";
    Subject {
        url: &|port| format!("gcs://bucket?endpoint=http://127.0.0.1:{port}"),
        credentials: Some(secret_file(folder.path(), "credentials", token)),
        port: server.address.port(),
        server: &server,
        is_lasting: true,
        speaks_http: true,
        abilities: conformance::Abilities::ALL,
    }
    .run()
    .await;
}
