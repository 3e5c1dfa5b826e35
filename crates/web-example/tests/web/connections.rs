//! Protocols, time, and the end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kurma_web::{Bounds, Limits, tls};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::world::{Browser, World, bounds};

#[tokio::test]
async fn tls_agrees_on_http_2() {
    let signed = rcgen::generate_simple_self_signed(["site.invalid".to_owned()]).unwrap();
    let acceptor = tls(signed.cert.pem().as_bytes(), signed.signing_key.serialize_pem().as_bytes()).unwrap();
    let world = World::nfs(bounds(), Some(acceptor)).await;
    world.fill([("a".to_owned(), Bytes::from("over TLS"))]).await;
    let mut roots = RootCertStore::empty();
    roots.add(signed.cert.der().clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(world.address).await.unwrap();
    let name = ServerName::try_from("site.invalid").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    assert_eq!(Browser::over(stream).await.get("/a").await.content.unwrap(), "over TLS");
    let clear = world.raw(b"GET /a HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(!clear.contains("over TLS"), "{clear}");
    assert!(tls(b"", b"").is_err());
}

#[tokio::test]
async fn http_1_1_is_spoken_too() {
    let world = World::nfs(bounds(), None).await;
    world.fill([("a".to_owned(), Bytes::from("old style"))]).await;
    let twice = b"GET /a HTTP/1.1\r\nhost: a\r\n\r\nGET /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let answer = world.raw(twice).await;
    assert_eq!(answer.matches("old style").count(), 2, "{answer}");
}

#[tokio::test]
async fn a_server_of_files_that_does_not_answer_is_a_time_out() {
    let world = World::nfs(Bounds { patience: Duration::from_millis(300), ..bounds() }, None).await;
    world.fill([("a".to_owned(), Bytes::from("a"))]).await;
    let browser = world.browser().await;
    world.stop_files.cancel();
    // The last answers may still come.
    loop {
        let answer = browser.get("/a").await;
        if answer.status != 200 {
            assert_eq!(answer.status, 504);
            break;
        }
    }
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let limits = Limits { patience: Duration::from_millis(100), ..Limits::default() };
    let world = World::local(bounds(), limits).await;
    // Half of the first bytes of HTTP/2: nobody can tell yet what it will be.
    assert_eq!(world.raw(b"PRI * HT").await, "");
}

#[tokio::test]
async fn at_the_end_connections_finish_and_no_more_are_taken() {
    let world = World::nfs(bounds(), None).await;
    world.fill([("a".to_owned(), Bytes::from("a"))]).await;
    let browser = world.browser().await;
    assert_eq!(browser.get("/a").await.status, 200);
    world.stop_web.cancel();
    world.serving.await.unwrap();
    assert!(TcpStream::connect(world.address).await.is_err());
}

#[tokio::test]
async fn more_requests_than_there_is_room_for_are_told_so() {
    let world = World::local(Bounds { answers: 0, ..bounds() }, Limits::default()).await;
    world.fill([("a".to_owned(), Bytes::from("a"))]).await;
    assert_eq!(world.browser().await.get("/a").await.status, 503);
}
