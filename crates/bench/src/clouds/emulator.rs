//! A cloud of this process: a bucket of S3 in memory that takes its time, can be slowed down, and can be killed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tokio::runtime::Runtime;

use super::latency::{Draws, Latency};

/// One cloud.
pub struct Emulator {
    pub name: &'static str,
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

struct Shared {
    objects: Mutex<BTreeMap<String, Bytes>>,
    draws: Mutex<Draws>,
    read: Latency,
    write: Latency,
    /// Microseconds that every answer takes beyond what is drawn.
    slower: AtomicU64,
    /// When objects were asked for.
    reads: Mutex<Vec<Instant>>,
    written: AtomicU64,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Emulator {
    pub fn start(name: &'static str, read: Latency, write: Latency, seed: u64) -> Result<Emulator> {
        let shared = Arc::new(Shared {
            objects: Mutex::default(),
            draws: Mutex::new(Draws::new(seed)),
            read,
            write,
            slower: AtomicU64::new(0),
            reads: Mutex::default(),
            written: AtomicU64::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut emulator = Emulator { name, address: listener.local_addr()?, shared, runtime: None };
        emulator.serve(listener)?;
        Ok(emulator)
    }

    fn serve(&mut self, listener: TcpListener) -> Result<()> {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let router = Router::new()
            .fallback(answer)
            .layer(DefaultBodyLimit::max(64 << 20))
            .with_state(self.shared.clone());
        runtime.spawn(async move {
            if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                let _ = axum::serve(listener, router).await;
            }
        });
        self.runtime = Some(runtime);
        Ok(())
    }

    /// For the configuration.
    pub fn url(&self) -> String {
        format!("s3://bucket/kurma?endpoint=http%3A%2F%2F{}&region=us-east-1", self.address)
    }

    /// Every answer takes so much longer from now on.
    pub fn slow_down(&self, by: Duration) {
        self.shared.slower.store(by.as_micros() as u64, Ordering::Relaxed);
    }

    /// Cuts all connections and takes no new ones; what is stored stays.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// At the same address as before.
    pub fn come_back(&mut self) -> Result<()> {
        let listener = TcpListener::bind(self.address)?;
        self.serve(listener)
    }

    /// When objects were asked for since the last call, whether or not somebody waited for them.
    pub fn take_reads(&self) -> Vec<Instant> {
        std::mem::take(&mut held(&self.shared.reads))
    }

    /// Bytes that were stored so far.
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What S3 answers, after its time.
async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let key = uri.path().trim_start_matches('/').split_once('/').map_or("", |(_, key)| key).to_owned();
    if method == Method::GET && !key.is_empty() {
        held(&shared.reads).push(Instant::now());
    }
    let latency = if method == Method::PUT || method == Method::DELETE { shared.write } else { shared.read };
    let takes = latency.draw(&mut held(&shared.draws));
    let slower = Duration::from_micros(shared.slower.load(Ordering::Relaxed));
    tokio::time::sleep(takes + slower).await;
    match method {
        Method::PUT => {
            let mut objects = held(&shared.objects);
            if headers.contains_key("if-none-match") && objects.contains_key(&key) {
                return StatusCode::PRECONDITION_FAILED.into_response();
            }
            shared.written.fetch_add(body.len() as u64, Ordering::Relaxed);
            objects.insert(key, body);
            [("etag", "\"x\"")].into_response()
        }
        Method::DELETE => {
            held(&shared.objects).remove(&key);
            StatusCode::NO_CONTENT.into_response()
        }
        Method::GET if key.is_empty() => list(&shared, uri.query().unwrap_or_default()),
        Method::GET | Method::HEAD => {
            let object = held(&shared.objects).get(&key).cloned();
            match object {
                Some(object) => part(&headers, object),
                None => (StatusCode::NOT_FOUND, "<Error><Code>NoSuchKey</Code></Error>").into_response(),
            }
        }
        _ => StatusCode::NOT_IMPLEMENTED.into_response(),
    }
}

/// An object, or the range of it that was asked for.
fn part(headers: &HeaderMap, object: Bytes) -> Response {
    let about = [("etag", "\"x\""), ("last-modified", "Mon, 01 Jan 2024 00:00:00 GMT")];
    let range = headers.get("range").and_then(|range| range.to_str().ok());
    let Some((start, end)) =
        range.and_then(|range| range.strip_prefix("bytes=")).and_then(|range| range.split_once('-'))
    else {
        return (about, object).into_response();
    };
    let start: usize = start.parse().unwrap_or(0);
    let end = end.parse().map_or(object.len(), |last: usize| object.len().min(last + 1));
    if start >= object.len() {
        return StatusCode::RANGE_NOT_SATISFIABLE.into_response();
    }
    let range = [("content-range", format!("bytes {start}-{}/{}", end - 1, object.len()))];
    (StatusCode::PARTIAL_CONTENT, about, range, object.slice(start..end)).into_response()
}

fn list(shared: &Shared, query: &str) -> Response {
    let parameter = |name: &str| {
        let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or("").replace("%2F", "/").replace("%7D", "}")
    };
    let prefix = parameter("prefix");
    let after = parameter("start-after").max(parameter("continuation-token"));
    let most = parameter("max-keys").parse().unwrap_or(1000);
    let objects = held(&shared.objects);
    let mut found =
        objects.iter().filter(|(key, _)| key.starts_with(&prefix) && key.as_str() > after.as_str());
    let page: Vec<_> = found.by_ref().take(most).collect();
    let truncated = found.next().is_some();
    let mut xml = format!("<ListBucketResult><IsTruncated>{truncated}</IsTruncated>");
    if let (true, Some((last, _))) = (truncated, page.last()) {
        let _ = write!(xml, "<NextContinuationToken>{last}</NextContinuationToken>");
    }
    for (key, object) in page {
        let _ = write!(
            xml,
            "<Contents><Key>{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>x</ETag><Size>{}</Size></Contents>",
            object.len()
        );
    }
    xml.push_str("</ListBucketResult>");
    ([("content-type", "application/xml")], xml).into_response()
}
