//! Requests that no browser makes.

use bytes::Bytes;
use kurma_web::Limits;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use vector_client::Write;

use crate::world::{World, bounds};

#[tokio::test]
async fn no_path_leads_out_of_the_site() {
    for world in World::each(bounds()).await {
        world.files.vwrite(vec![Write::whole("/home/secret", 0o644, "secret")]).await.unwrap();
        world.fill([("a/b".to_owned(), Bytes::from("inside"))]).await;
        for path in [
            "/../secret",
            "/a/../../secret",
            "/%2e%2e/secret",
            "/.%2E/secret",
            "/a/..%2f..%2fsecret",
            "/a/%2e%2e/%2e%2e/secret",
            "//home/secret",
            "/a//../../secret",
            "/a%00/../../secret",
            "/a/b%00",
            "/./../secret",
            "../secret",
            "/..\\secret",
            "http://site/../secret",
            "*",
            "/%",
            "/%zz",
        ] {
            let answer = world
                .raw(format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").as_bytes())
                .await;
            assert!(answer.starts_with("HTTP/1.1 40"), "{path}: {answer}");
            assert!(!answer.ends_with("secret"), "{path}");
        }
    }
}

#[tokio::test]
async fn heads_that_are_too_large_or_make_no_sense_are_refused() {
    let world = World::local(bounds(), Limits::default()).await;
    world.fill([("a".to_owned(), Bytes::from("still here"))]).await;
    let long = format!("GET /a HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    let answer = world.raw(long.as_bytes()).await;
    assert!(!answer.contains("200 OK") && !answer.contains("still here"), "{answer}");
    let many = format!("GET /a HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(100));
    assert!(world.raw(many.as_bytes()).await.starts_with("HTTP/1.1 431"));
    let garbage: [&[u8]; 4] = [
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        &[0; 99],
    ];
    for bytes in garbage {
        assert!(!world.raw(bytes).await.contains("200 OK"), "{bytes:?}");
    }
    assert_eq!(world.browser().await.get("/a").await.content.unwrap(), "still here");
}

#[tokio::test]
async fn one_connection_too_many_is_closed() {
    let world = World::local(bounds(), Limits { connections: 1, ..Limits::default() }).await;
    world.fill([("a".to_owned(), Bytes::from("a"))]).await;
    let browser = world.browser().await;
    assert_eq!(browser.get("/a").await.status, 200);
    let mut second = TcpStream::connect(world.address).await.unwrap();
    assert!(matches!(second.read(&mut [0; 9]).await, Ok(0) | Err(_)));
    assert_eq!(browser.get("/a").await.status, 200);
}
