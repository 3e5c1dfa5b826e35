use cloud::{CloudUrl, Connection, ErrorKind, Options, PutMode, conformance};
use environment::Environment;

use crate::hard::Subject;
use crate::server::Server;
use crate::trial::{self, connect, name, patient};

async fn open(server: &Server, place: &str, password: &str) -> Connection {
    let text = format!("webdav_username = kurma\nwebdav_password = {password}\n");
    let file = server.secret_file("credentials", &text);
    connect(&format!("webdav://127.0.0.1:{}/{place}", server.port), &patient(Some(&file))).await
}

#[tokio::test]
async fn wsgidav_keeps_the_contract_and_refuses_wrong_passwords() {
    let server = Server::start("webdav");
    let files = server.folder().join("files");
    let missing = open(&server, "odd%20place", "test-secret").await;
    trial::a_missing_place_is_for_a_human(&missing, "create the directory").await;
    std::fs::create_dir(files.join("odd place")).unwrap();
    let cloud = open(&server, "odd%20place/", "test-secret").await;
    cloud.check().await.unwrap();
    conformance::run(&*cloud).await;
    let left = std::fs::read_dir(files.join("odd place/.kurma-incoming")).unwrap();
    assert_eq!(left.map(|file| file.unwrap().file_name()).collect::<Vec<_>>(), ["locks"]);
    trial::credentials_are_refused(&open(&server, "odd%20place", "no-secret").await, "no-secret").await;

    // The same directory is the same store for the driver of directories.
    cloud.put(&name("a/b"), vec!["both".into()], PutMode::Create).await.unwrap();
    let dir = CloudUrl::Dir(files.join("odd place"));
    let dir = Connection::open(&Environment::real(), "dir", &dir, &Options::default()).await.unwrap();
    assert_eq!(dir.get(&name("a/b"), None).await.unwrap(), "both");

    // What is not there any more is not taken for empty.
    std::fs::rename(files.join("odd place"), files.join("moved")).unwrap();
    std::fs::create_dir(files.join("odd place")).unwrap();
    for error in [cloud.get(&name("a/b"), None).await.map(|_| ()), cloud.delete(&name("a/b")).await] {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().contains("not mounted"), "{error}");
    }
}

#[tokio::test]
async fn what_interruptions_left_is_swept_after_an_hour() {
    let server = Server::start("webdav");
    let incoming = server.folder().join("files/.kurma-incoming");
    std::fs::create_dir_all(&incoming).unwrap();
    trial::leave_behind(&incoming);
    open(&server, "", "test-secret").await.check().await.unwrap();
    let left: Vec<_> = std::fs::read_dir(&incoming).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["young"]);
    let url = format!("webdav://127.0.0.1:{}/", server.port);
    let credentials = server.folder().join("credentials");
    let options = patient(Some(&credentials));
    trial::what_is_left_meanwhile_goes_within_the_hour(&url, &options, &incoming).await;
}

#[tokio::test]
async fn wsgidav_in_hard_times() {
    let server = Server::start("webdav");
    let credentials = "webdav_username = kurma\nwebdav_password = test-secret\n";
    Subject {
        url: &|port| format!("webdav://127.0.0.1:{port}/"),
        credentials: Some(server.secret_file("credentials", credentials)),
        port: server.port,
        server: &server,
        is_lasting: true,
        speaks_http: true,
        abilities: conformance::Abilities::ALL,
    }
    .run()
    .await;
}
