use std::path::Path;

use cloud::{CloudUrl, Connection, ErrorKind, Options, PutMode, conformance};
use environment::Environment;

use crate::hard::Subject;
use crate::server::{Server, free_port};
use crate::trial::{self, connect, name, patient};

fn url(server: &Server, path: &Path) -> String {
    let config = server.folder().join("ssh_config");
    format!("sftp://127.0.0.1:{}{}?ssh_config={}", server.port, path.display(), config.display())
}

async fn open(server: &Server, path: &Path) -> Connection {
    connect(&url(server, path), &patient(None)).await
}

#[tokio::test]
async fn a_directory_behind_ssh_keeps_the_contract() {
    let server = Server::start("sftp");
    let path = server.folder().join("odd ü place");
    std::fs::create_dir(&path).unwrap();
    let cloud = open(&server, &path).await;
    cloud.check().await.unwrap();
    conformance::run(&*cloud).await;

    // The same directory is the same store for the driver of directories.
    cloud.put(&name("a/b"), vec!["both".into()], PutMode::Create).await.unwrap();
    let dir = CloudUrl::Dir(path.clone());
    let dir = Connection::open(&Environment::real(), "dir", &dir, &Options::default()).await.unwrap();
    assert_eq!(dir.get(&name("a/b"), None).await.unwrap(), "both");

    // What is not there any more is not taken for empty.
    std::fs::rename(&path, server.folder().join("moved")).unwrap();
    std::fs::create_dir(&path).unwrap();
    for error in [cloud.get(&name("a/b"), None).await.map(|_| ()), cloud.check().await] {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().contains("not mounted"), "{error}");
    }
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0, "a bare mount point stays bare");
}

#[tokio::test]
async fn what_interruptions_left_is_swept_after_an_hour() {
    let server = Server::start("sftp");
    let incoming = server.folder().join("store/.kurma-incoming");
    std::fs::create_dir_all(&incoming).unwrap();
    trial::leave_behind(&incoming);
    let cloud = open(&server, &server.folder().join("store")).await;
    cloud.check().await.unwrap();
    // Requests of a session are done in order: what swept is done when another operation is, for every session.
    for _ in 0..4 {
        cloud.check().await.unwrap();
    }
    let left: Vec<_> = std::fs::read_dir(&incoming).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["young"]);
    let url = url(&server, &server.folder().join("store"));
    trial::what_is_left_meanwhile_goes_within_the_hour(&url, &patient(None), &incoming).await;
}

#[tokio::test]
async fn what_a_human_has_to_mend_is_told() {
    let server = Server::start("sftp");
    let store = server.folder().join("store");
    let refusal = async |url: String, options: Options| {
        let error = connect(&url, &options).await.check().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        error.to_string()
    };
    let missing = refusal(url(&server, &store), patient(None)).await;
    assert!(missing.contains("create the directory"), "{missing}");
    std::fs::create_dir(&store).unwrap();

    let stranger = server.folder().join("stranger");
    let without = server.folder().join("bare_config");
    let text = std::fs::read_to_string(server.folder().join("ssh_config")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("IdentityFile"));
    std::fs::write(&without, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let bare = url(&server, &store).replace("/ssh_config", "/bare_config");
    let denied = refusal(bare.clone(), patient(Some(&stranger))).await;
    assert!(denied.contains("Permission denied") && denied.contains("check the credentials"), "{denied}");
    let key = server.folder().join("key");
    connect(&bare, &patient(Some(&key))).await.check().await.unwrap();

    std::fs::write(server.folder().join("known_hosts"), "").unwrap();
    let unknown = refusal(url(&server, &store), patient(None)).await;
    assert!(unknown.contains("Host key verification failed") && unknown.contains("by hand"), "{unknown}");
}

#[tokio::test]
async fn a_host_that_is_not_there_is_a_transient_error() {
    let url = format!("sftp://127.0.0.1:{}/store?ssh_config=/dev/null", free_port());
    let error = connect(&url, &patient(None)).await.check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_directory_behind_ssh_in_hard_times() {
    let server = Server::start("sftp");
    let store = server.folder().join("store");
    std::fs::create_dir(&store).unwrap();
    let config = server.folder().join("ssh_config");
    Subject {
        url: &|port| format!("sftp://127.0.0.1:{port}{}?ssh_config={}", store.display(), config.display()),
        credentials: None,
        port: server.port,
        server: &server,
        is_lasting: true,
        speaks_http: false,
        abilities: conformance::Abilities::ALL,
    }
    .run()
    .await;
}
