use cloud::Connection;
use cloud::conformance::{self, Abilities};

use crate::hard::Subject;
use crate::server::Server;
use crate::trial::{self, connect, patient};

async fn open(server: &Server, place: &str, key: &str) -> Connection {
    let auth = format!("http://127.0.0.1:{}/auth/v1.0", server.port);
    let text = format!("export ST_USER=test:kurma\nexport ST_KEY={key}\nexport ST_AUTH={auth}\n");
    let file = server.secret_file("credentials", &text);
    connect(&format!("swift://{place}"), &patient(Some(&file))).await
}

#[tokio::test]
async fn a_swift_keeps_the_contract_and_refuses_wrong_keys() {
    let server = Server::start("swift");
    let port = server.port.to_string();
    server.run(|command| command.args(["container", &port, "conformance"]));
    for place in ["conformance", "conformance/some/prefix"] {
        let cloud = open(&server, place, "test-secret").await;
        cloud.check().await.unwrap();
        conformance::run_with(&*cloud, Abilities { creates: false, ..Abilities::ALL }).await;
    }
    let whole = open(&server, "conformance", "test-secret").await;
    let part = open(&server, "conformance/some/prefix", "test-secret").await;
    trial::a_prefix_is_a_place_of_its_own(&whole, &part, "some/prefix").await;
    let missing = open(&server, "missing", "test-secret").await;
    trial::a_missing_place_is_for_a_human(&missing, "create the container").await;
    trial::credentials_are_refused(&open(&server, "conformance", "no-secret").await, "no-secret").await;
}

#[tokio::test]
async fn a_swift_in_hard_times() {
    let server = Server::start("swift");
    let port = server.port.to_string();
    server.run(|command| command.args(["container", &port, "hard"]));
    let credentials = "st_user = test:kurma\nst_key = test-secret\n";
    Subject {
        url: &|port| format!("swift://hard?auth=http://127.0.0.1:{port}/auth/v1.0"),
        credentials: Some(server.secret_file("credentials", credentials)),
        port: server.port,
        server: Some(&server),
        is_lasting: true,
        speaks_http: true,
        abilities: Abilities { creates: false, ..Abilities::ALL },
    }
    .run()
    .await;
}
