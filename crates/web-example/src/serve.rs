//! Connections: HTTP/1.1 and HTTP/2, in the clear or under TLS, until it is time to stop.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::answer::answer;
use crate::site::Site;

/// How much clients may have.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at one time; more are closed at once.
    pub connections: usize,
    /// Requests of one connection at one time.
    pub streams: u32,
    /// Bytes of the head of a request, at least 8 KiB.
    pub head_bytes: usize,
    /// How long a connection may take to its first request, an HTTP/1.1 connection to each, and a ping to its answer.
    pub patience: Duration,
    /// How long requests under way have at the end.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 256,
            streams: 128,
            head_bytes: 16 << 10,
            patience: Duration::from_secs(15),
            grace: Duration::from_secs(10),
        }
    }
}

/// TLS with these certificates and this key (PEM), HTTP/2 preferred.
///
/// # Errors
/// They cannot be read, or do not belong together.
pub fn tls(certificates: &[u8], key: &[u8]) -> Result<TlsAcceptor, anyhow::Error> {
    let certificates = CertificateDer::pem_slice_iter(certificates).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves connections until `stop`, then lets requests under way finish.
///
/// # Errors
/// The listener is broken.
pub async fn serve(
    listener: TcpListener,
    site: Arc<Site>,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    stop: CancellationToken,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    // Ends the connections that are not over in time.
    let end = CancellationToken::new();
    let _end = end.clone().drop_guard();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            // One that broke before it was accepted says nothing about others; no files left says that others have to end.
            Err(error) if error.raw_os_error().is_some_and(|error| matches!(error, 23 | 24)) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                site.environment.clock.sleep(Duration::from_millis(100)).await;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error),
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        // Answers are small and written whole.
        let _ = stream.set_nodelay(true);
        let (site, watcher, tls, end) = (Arc::clone(&site), graceful.watcher(), tls.clone(), end.clone());
        tokio::spawn(async move {
            let connected = async {
                match tls {
                    None => connection(stream, site, limits, watcher).await,
                    Some(tls) => match tokio::time::timeout(limits.patience, tls.accept(stream)).await {
                        Ok(Ok(stream)) => connection(stream, site, limits, watcher).await,
                        _ => tracing::debug!("no TLS came about"),
                    },
                }
            };
            tokio::select! {
                () = connected => {}
                () = end.cancelled() => {}
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(limits.grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests that took too long were ended");
    }
    Ok(())
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    site: Arc<Site>,
    limits: Limits,
    watcher: Watcher,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.patience)
        .max_headers(64)
        .max_buf_size(limits.head_bytes.max(8 << 10));
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.patience)
        .keep_alive_timeout(limits.patience)
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX));
    let begun = CancellationToken::new();
    let first = begun.clone();
    let service = service_fn(move |request| {
        first.cancel();
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(answer(&site, &request).await) }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    let connection = watcher.watch(connection);
    let idle = async {
        if tokio::time::timeout(limits.patience, begun.cancelled()).await.is_ok() {
            std::future::pending().await
        }
    };
    tokio::select! {
        result = connection => {
            if let Err(error) = result {
                tracing::debug!(error, "a connection ended");
            }
        }
        () = idle => {}
    }
}
