//! Scanners that behave, and scanners that do not.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // test code at the edge

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::SystemClock;
use scan::{Address, Content, ScanError, Scanner, Verdict};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Content in parts of 64 KiB.
struct Parts {
    left: u64,
    size: u64,
}

impl Parts {
    fn new(size: u64) -> Parts {
        Parts { left: size, size }
    }
}

#[async_trait]
impl Content for Parts {
    fn size(&self) -> u64 {
        self.size
    }

    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        let length = self.left.min(64 << 10);
        self.left -= length;
        Ok((length > 0).then(|| Bytes::from(vec![b'a'; length as usize])))
    }
}

/// A scanner that does what it is told with every connection; its port.
async fn serve<F>(script: impl Fn(TcpStream) -> F + Send + 'static) -> (u16, JoinHandle<()>)
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A connection that is cut is the other side's to notice.
            drop(tokio::spawn(script(stream)));
        }
    });
    (port, serving)
}

fn scanner(address: &str, timeout: Duration) -> Scanner {
    let address: Address = address.parse().unwrap();
    Scanner::new(address, timeout, Arc::new(SystemClock::new()))
}

async fn clamd<F>(size: u64, script: impl Fn(TcpStream) -> F + Send + 'static) -> Result<Verdict, ScanError>
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let (port, serving) = serve(script).await;
    let scanner = scanner(&format!("clamd:tcp:127.0.0.1:{port}"), Duration::from_secs(20));
    let scanned = scanner.scan(&mut Parts::new(size)).await;
    serving.abort();
    scanned
}

/// Reads a whole INSTREAM; how many bytes were shown.
async fn read_stream(stream: &mut TcpStream) -> std::io::Result<u64> {
    let mut command = [0; 10];
    stream.read_exact(&mut command).await?;
    assert_eq!(&command, b"zINSTREAM\0");
    let mut shown = 0;
    loop {
        let length = stream.read_u32().await?;
        if length == 0 {
            return Ok(shown);
        }
        let mut part = vec![0; length as usize];
        stream.read_exact(&mut part).await?;
        shown += u64::from(length);
    }
}

#[tokio::test]
async fn clamd_sees_all_of_it_and_its_answer_is_believed() {
    let answer_with = |answer: &'static str| {
        move |mut stream: TcpStream| async move {
            assert_eq!(read_stream(&mut stream).await?, 1_000_000);
            // Byte by byte.
            for byte in answer.bytes() {
                stream.write_all(&[byte]).await?;
            }
            Ok(())
        }
    };
    assert_eq!(clamd(1_000_000, answer_with("stream: OK\0")).await, Ok(Verdict::Clean));
    let found = clamd(1_000_000, answer_with("stream: Eicar FOUND\0")).await;
    assert_eq!(found, Ok(Verdict::Infected("Eicar".into())));
    let refused = clamd(1_000_000, answer_with("INSTREAM size limit exceeded. ERROR\0")).await;
    assert!(matches!(refused, Err(ScanError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn what_clamd_calls_clean_before_it_has_seen_it_is_not() {
    let lied = clamd(64 << 20, |mut stream| async move {
        stream.write_all(b"stream: OK\0").await?;
        // What is sent is taken, but not waited for.
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.map(drop)
    });
    assert!(matches!(lied.await, Err(ScanError::Malformed(_))));
}

#[tokio::test]
async fn what_clamd_finds_early_is_found() {
    let found = clamd(64 << 20, |mut stream| async move {
        stream.write_all(b"stream: Early FOUND\0").await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.map(drop)
    });
    assert_eq!(found.await, Ok(Verdict::Infected("Early".into())));
}

#[tokio::test]
async fn a_clamd_that_goes_away_in_the_middle_has_given_no_verdict() {
    for answer in ["", "stream: O", "stream: OK", "stream: Eicar FOUND"] {
        let scanned = clamd(1 << 20, move |mut stream| async move {
            let mut some = [0; 1000];
            stream.read_exact(&mut some).await?;
            stream.write_all(answer.as_bytes()).await
        });
        let error = scanned.await.unwrap_err();
        assert!(error.is_of_scanner(), "{answer:?}: {error}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    for size in [0, 64 << 20] {
        let scanned = clamd(size, |mut stream| async move {
            loop {
                stream.write_all(&[b'x'; 1 << 16]).await?;
            }
        });
        assert!(matches!(scanned.await, Err(ScanError::Malformed(_))), "{size}");
    }
}

#[tokio::test]
async fn more_than_one_answer_is_none() {
    let scanned = clamd(10, |mut stream| async move {
        read_stream(&mut stream).await?;
        stream.write_all(b"stream: OK\0stream: OK\0").await
    });
    assert!(matches!(scanned.await, Err(ScanError::Malformed(_))));
}

#[tokio::test]
async fn a_scanner_that_hangs_has_its_time_and_no_more() {
    // One does not read, one does not answer, one begins an answer.
    for kind in 0..3 {
        let (port, serving) = serve(move |mut stream| async move {
            if kind > 0 {
                read_stream(&mut stream).await?;
            }
            if kind == 2 {
                stream.write_all(b"s").await?;
            }
            std::future::pending().await
        })
        .await;
        let limit = Duration::from_millis(500);
        let scanner = scanner(&format!("clamd:tcp:127.0.0.1:{port}"), limit);
        let scanned = scanner.scan(&mut Parts::new(64 << 20)).await;
        assert_eq!(scanned, Err(ScanError::TimedOut(limit)), "{kind}");
        serving.abort();
    }
}

#[tokio::test]
async fn nobody_there_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let second = Duration::from_secs(20);
    for address in [
        format!("clamd:tcp:127.0.0.1:{port}"),
        format!("icap://127.0.0.1:{port}/avscan"),
        "clamd:unix:/nowhere".into(),
    ] {
        let scanner = scanner(&address, second);
        assert!(matches!(scanner.scan(&mut Parts::new(1)).await, Err(ScanError::Connect(_))), "{address}");
        assert!(scanner.ping().await.is_err());
    }
}

const OPTIONS: &str = "ICAP/1.0 200 OK\r\nMethods: RESPMOD\r\nAllow: 204\r\nPreview: 100\r\n\r\n";

/// Reads up to the end of a head, of a preview, or of a body.
async fn read_until(stream: &mut TcpStream, end: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut read = Vec::new();
    while !read.ends_with(end) {
        read.push(stream.read_u8().await?);
    }
    Ok(read)
}

/// Shows content to an ICAP service that answers OPTIONS so, and then follows the script.
async fn icap<F>(
    options: &'static str,
    size: u64,
    script: impl Fn(TcpStream) -> F + Clone + Send + 'static,
) -> Result<Verdict, ScanError>
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let (port, serving) = serve(move |mut stream| {
        let script = script.clone();
        async move {
            let head = read_until(&mut stream, b"\r\n\r\n").await?;
            match head.starts_with(b"OPTIONS icap://") {
                true => stream.write_all(options.as_bytes()).await,
                false => {
                    let method: &[u8] =
                        if options.contains("RESPMOD") { b"RESPMOD icap://" } else { b"REQMOD icap://" };
                    assert!(head.starts_with(method));
                    script(stream).await
                }
            }
        }
    })
    .await;
    let scanner = scanner(&format!("icap://127.0.0.1:{port}/avscan"), Duration::from_secs(20));
    let scanned = scanner.scan(&mut Parts::new(size)).await;
    serving.abort();
    scanned
}

/// The encapsulated heads of a RESPMOD.
async fn skip_http(stream: &mut TcpStream) -> std::io::Result<()> {
    read_until(stream, b"\r\n\r\n").await?;
    read_until(stream, b"\r\n\r\n").await.map(drop)
}

#[tokio::test]
async fn an_icap_service_sees_the_preview_and_the_rest_if_it_wants() {
    // All of it is in the preview.
    let small = icap(OPTIONS, 50, |mut stream| async move {
        skip_http(&mut stream).await?;
        let preview = read_until(&mut stream, b"0; ieof\r\n\r\n").await?;
        assert!(preview.starts_with(b"32\r\naaaa"));
        stream.write_all(b"ICAP/1.0 204 Unmodified\r\n\r\n").await
    });
    assert_eq!(small.await, Ok(Verdict::Clean));
    // The preview is enough.
    let enough = icap(OPTIONS, 1 << 20, |mut stream| async move {
        skip_http(&mut stream).await?;
        let preview = read_until(&mut stream, b"0\r\n\r\n").await?;
        assert!(preview.starts_with(b"64\r\naaaa"));
        stream.write_all(b"ICAP/1.0 204 Unmodified\r\n\r\n").await
    });
    assert_eq!(enough.await, Ok(Verdict::Clean));
    // It wants the rest.
    let rest = icap(OPTIONS, 1 << 20, |mut stream| async move {
        skip_http(&mut stream).await?;
        read_until(&mut stream, b"0\r\n\r\n").await?;
        stream.write_all(b"ICAP/1.0 100 Continue\r\n\r\n").await?;
        let body = read_until(&mut stream, b"\r\n0\r\n\r\n").await?;
        let shown = body.iter().filter(|byte| **byte == b'a').count();
        assert!(((1 << 20) - 100..(1 << 20)).contains(&shown), "{shown}");
        stream.write_all(b"ICAP/1.0 200 OK\r\nX-Virus-ID: Eicar\r\nEncapsulated: null-body=0\r\n\r\n").await
    });
    assert_eq!(rest.await, Ok(Verdict::Infected("Eicar".into())));
}

#[tokio::test]
async fn a_service_without_previews_or_with_requests_alone_is_shown_the_whole() {
    for options in [
        "ICAP/1.0 200 OK\r\nMethods: RESPMOD\r\nAllow: 204\r\n\r\n",
        "ICAP/1.0 200 OK\r\nMethods: REQMOD\r\nAllow: 204\r\n\r\n",
    ] {
        let scanned = icap(options, 1 << 20, |mut stream| async move {
            read_until(&mut stream, b"\r\n0\r\n\r\n").await?;
            stream.write_all(b"ICAP/1.0 204 Unmodified\r\n\r\n").await
        });
        assert_eq!(scanned.await, Ok(Verdict::Clean));
    }
}

#[tokio::test]
async fn a_service_that_cannot_say_that_nothing_was_found_is_of_no_use() {
    for options in [
        "ICAP/1.0 200 OK\r\nMethods: RESPMOD\r\n\r\n",
        "ICAP/1.0 200 OK\r\nAllow: 204\r\n\r\n",
        "ICAP/1.0 404 Not Found\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
    ] {
        let scanned = icap(options, 1, |_| async { unreachable!("nothing is shown to it") });
        assert!(matches!(scanned.await, Err(ScanError::Malformed(_))), "{options}");
    }
}

#[tokio::test]
async fn icap_answers_that_prove_nothing_are_no_verdict() {
    for answer in [
        "",
        "ICAP/1.0 204",
        "ICAP/1.0 200 OK\r\nEncapsulated: res-hdr=0, res-body=19\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        "ICAP/1.0 500 Server error\r\n\r\n",
        "ICAP/1.0 100 Continue\r\n\r\nICAP/1.0 204 Unmodified\r\n\r\n",
        "ICAP/1.0 204 Unmodified\r\nno field\r\n\r\n",
    ] {
        let scanned = icap(OPTIONS, 1 << 20, move |mut stream| async move {
            skip_http(&mut stream).await?;
            read_until(&mut stream, b"0\r\n\r\n").await?;
            stream.write_all(answer.as_bytes()).await
        });
        assert!(scanned.await.is_err(), "{answer:?}");
    }
    let endless = icap(OPTIONS, 1 << 20, |mut stream| async move {
        stream.write_all(b"ICAP/1.0 200 OK\r\nX: ").await?;
        loop {
            stream.write_all(&[b'x'; 1 << 16]).await?;
        }
    });
    assert!(matches!(endless.await, Err(ScanError::Malformed(_) | ScanError::Lost(_))));
}

#[tokio::test]
async fn a_service_that_calls_clean_what_it_has_not_seen_is_not_believed() {
    let scanned = icap(OPTIONS, 64 << 20, |mut stream| async move {
        skip_http(&mut stream).await?;
        read_until(&mut stream, b"0\r\n\r\n").await?;
        stream.write_all(b"ICAP/1.0 100 Continue\r\n\r\n").await?;
        let mut some = [0; 100_000];
        stream.read_exact(&mut some).await?;
        stream.write_all(b"ICAP/1.0 204 Unmodified\r\n\r\n").await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.map(drop)
    });
    assert!(matches!(scanned.await, Err(ScanError::Malformed(_))));
}

#[tokio::test]
async fn content_that_cannot_be_read_is_not_the_fault_of_the_scanner() {
    struct Unreadable;
    #[async_trait]
    impl Content for Unreadable {
        fn size(&self) -> u64 {
            10
        }
        async fn next(&mut self) -> Result<Option<Bytes>, String> {
            Err("the clouds are away".into())
        }
    }
    let (port, serving) = serve(|mut stream| async move {
        read_stream(&mut stream).await?;
        unreachable!("the stream never ends")
    })
    .await;
    let scanner = scanner(&format!("clamd:tcp:127.0.0.1:{port}"), Duration::from_secs(20));
    let error = scanner.scan(&mut Unreadable).await.unwrap_err();
    assert!(matches!(error, ScanError::Content(_)) && !error.is_of_scanner());
    serving.abort();
}
