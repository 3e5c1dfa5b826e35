use cloud::conformance::{self, Abilities};
use cloud::{Connection, ErrorKind};

use crate::hard::Subject;
use crate::keystone::{Keystone, PASSWORD, REGION, SECRET};
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

/// As environment files of OpenStack have it.
fn of_version_3(password: &str, project: &str) -> String {
    format!(
        "export OS_USERNAME=kurma\nexport OS_PASSWORD={password}\nexport OS_USER_DOMAIN_NAME=Users\n{project}"
    )
}

#[tokio::test]
async fn keystone_signs_in_by_password_and_by_application_credential() {
    let server = Server::start("swift");
    let port = server.port.to_string();
    server.run(|command| command.args(["container", &port, "kept"]));
    let keystone = Keystone::start(server.port).await;
    let open = async |text: &str, region: &str| {
        let file = server.secret_file("credentials", text);
        connect(&format!("swift://kept?auth={}&region={region}", keystone.url()), &patient(Some(&file))).await
    };
    let named = "export OS_PROJECT_NAME='kurma project'\nexport OS_PROJECT_DOMAIN_NAME=Projects\n";
    let cloud = open(&of_version_3(PASSWORD, named), REGION).await;
    // The first token is refused, and another one asked for.
    cloud.check().await.unwrap();
    assert_eq!(keystone.tokens(), 2);
    conformance::run_with(&*cloud, Abilities { creates: false, ..Abilities::ALL }).await;
    assert_eq!(keystone.tokens(), 2, "one token is enough");
    let credential =
        format!("os_application_credential_id = 0815\nos_application_credential_secret = {SECRET}\n");
    for text in [of_version_3(PASSWORD, "export OS_PROJECT_ID=4711\n"), credential.clone()] {
        open(&text, REGION).await.check().await.unwrap();
    }

    let bad = credential.replace(SECRET, "no-secret");
    for text in
        [of_version_3("no-secret", named), of_version_3(PASSWORD, "export OS_PROJECT_ID=no-secret\n"), bad]
    {
        trial::credentials_are_refused(&open(&text, REGION).await, "no-secret").await;
    }
    let refused = open(&credential, "nowhere").await.check().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("no object-store in nowhere"), "{refused}");
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
        server: &server,
        is_lasting: true,
        speaks_http: true,
        abilities: Abilities { creates: false, ..Abilities::ALL },
    }
    .run()
    .await;
}
