//! Google's XML interface as far as the driver uses it, over one atomic map that outlives the server.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use parking_lot::Mutex;
use tokio::runtime::Runtime;

use crate::server::{Mortal, free_port};

/// Short pages, so that listings take several.
const PAGE: usize = 5;
const DATE: &str = "2026-01-01T00:00:00Z";

pub struct StandIn {
    pub address: SocketAddr,
    store: Arc<Store>,
    /// Its connections end with it.
    serving: Mutex<Option<Runtime>>,
}

struct Store {
    bucket: String,
    authorization: String,
    objects: Mutex<BTreeMap<String, Bytes>>,
}

impl StandIn {
    pub fn start(bucket: &str, token: &str) -> StandIn {
        let store = Arc::new(Store {
            bucket: bucket.into(),
            authorization: format!("Bearer {token}"),
            objects: Mutex::default(),
        });
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let stand_in = StandIn { address, store, serving: Mutex::default() };
        stand_in.start_again();
        stand_in
    }
}

impl Mortal for StandIn {
    fn kill(&self) {
        if let Some(runtime) = self.serving.lock().take() {
            // When this returns the port is free and nothing more is stored. Not within the runtime of a test.
            let ended = std::thread::spawn(move || runtime.shutdown_timeout(Duration::from_secs(60)));
            ended.join().unwrap();
        }
    }

    fn start_again(&self) {
        let router = Router::new()
            .route("/{bucket}", get(list))
            .route("/{bucket}/{*key}", any(object))
            .layer(DefaultBodyLimit::disable())
            .with_state(self.store.clone());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = {
            let _entered = runtime.enter();
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(true).unwrap();
            socket.bind(self.address).unwrap();
            socket.listen(1024).unwrap()
        };
        runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
        *self.serving.lock() = Some(runtime);
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.kill();
    }
}

fn failed(status: StatusCode, code: &str) -> Response {
    (status, format!("<Error><Code>{code}</Code></Error>")).into_response()
}

impl Store {
    /// Why it is not let in, if it is not.
    fn refusal(&self, bucket: &str, headers: &HeaderMap) -> Option<Response> {
        let given = headers.get("authorization").and_then(|value| value.to_str().ok());
        if given != Some(&self.authorization) {
            return Some(failed(StatusCode::UNAUTHORIZED, "AuthenticationRequired"));
        }
        if bucket != self.bucket {
            return Some(failed(StatusCode::NOT_FOUND, "NoSuchBucket"));
        }
        None
    }
}

async fn list(
    State(store): State<Arc<Store>>,
    Path(bucket): Path<String>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    if let Some(refusal) = store.refusal(&bucket, &headers) {
        return refusal;
    }
    let text = |key: &str| query.get(key).cloned().unwrap_or_default();
    let after = text("start-after").max(text("continuation-token"));
    let limit = query.get("max-keys").map_or(PAGE, |limit| limit.parse::<usize>().unwrap().min(PAGE));
    let objects = store.objects.lock();
    let matching: Vec<_> = objects
        .iter()
        .filter(|(key, _)| key.starts_with(&text("prefix")) && **key > after)
        .take(limit + 1)
        .collect();
    let mut xml = String::from("<ListBucketResult>");
    for (key, bytes) in matching.iter().take(limit) {
        let size = bytes.len();
        write!(
            xml,
            "<Contents><Key>{key}</Key><Size>{size}</Size><LastModified>{DATE}</LastModified></Contents>"
        )
        .unwrap();
    }
    if matching.len() > limit {
        write!(xml, "<NextContinuationToken>{}</NextContinuationToken>", matching[limit - 1].0).unwrap();
    }
    xml.push_str("</ListBucketResult>");
    xml.into_response()
}

async fn object(
    State(store): State<Arc<Store>>,
    Path((bucket, key)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Some(refusal) = store.refusal(&bucket, &headers) {
        return refusal;
    }
    let mut objects = store.objects.lock();
    match method {
        Method::PUT => {
            let create = headers.get("x-goog-if-generation-match").is_some_and(|value| value == "0");
            if create && objects.contains_key(&key) {
                return failed(StatusCode::PRECONDITION_FAILED, "PreconditionFailed");
            }
            objects.insert(key, body);
            ([("etag", "\"e\""), ("x-goog-generation", "1")], "").into_response()
        }
        Method::DELETE => match objects.remove(&key) {
            Some(_) => StatusCode::NO_CONTENT.into_response(),
            None => failed(StatusCode::NOT_FOUND, "NoSuchKey"),
        },
        Method::GET | Method::HEAD => match objects.get(&key) {
            Some(bytes) => content(bytes, &headers, &method),
            None => failed(StatusCode::NOT_FOUND, "NoSuchKey"),
        },
        _ => failed(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
    }
}

fn content(bytes: &Bytes, headers: &HeaderMap, method: &Method) -> Response {
    let size = bytes.len();
    let answer = Response::builder()
        .header("etag", "\"e\"")
        .header("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        .header("x-goog-generation", "1");
    if *method == Method::HEAD {
        return answer.header("content-length", size).body(Body::empty()).unwrap();
    }
    let Some(range) = headers.get("range").and_then(|range| range.to_str().ok()?.strip_prefix("bytes="))
    else {
        return answer.body(Body::from(bytes.clone())).unwrap();
    };
    let (start, last) = range.split_once('-').unwrap();
    let start: usize = start.parse().unwrap();
    let end = (last.parse::<usize>().unwrap() + 1).min(size);
    if start >= size {
        return failed(StatusCode::RANGE_NOT_SATISFIABLE, "InvalidRange");
    }
    answer
        .status(StatusCode::PARTIAL_CONTENT)
        .header("content-range", format!("bytes {start}-{}/{size}", end - 1))
        .body(Body::from(bytes.slice(start..end)))
        .unwrap()
}
