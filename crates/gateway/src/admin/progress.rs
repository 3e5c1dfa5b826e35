//! How far a long request is: its answer as lines of JSON, the last of which is the result.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use environment::Clock;
use futures::stream::unfold;
use serde_json::{Value, json};

use super::{Answer, Refusal};

/// The type of such an answer; whoever accepts it gets it.
const LINES: &str = "application/x-ndjson";
/// The time between two lines.
const TICK: Duration = Duration::from_millis(250);

/// What is done of how much.
#[derive(Clone)]
pub(super) struct Meter(Arc<Counts>);

struct Counts {
    unit: &'static str,
    done: AtomicU64,
    /// `u64::MAX`: not known.
    total: AtomicU64,
}

impl Meter {
    pub fn new(unit: &'static str) -> Meter {
        Meter(Arc::new(Counts { unit, done: AtomicU64::new(0), total: AtomicU64::new(u64::MAX) }))
    }

    pub fn set(&self, done: u64, total: Option<u64>) {
        self.0.done.store(done, Ordering::Relaxed);
        self.0.total.store(total.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Only what is done.
    pub fn progress(&self, done: u64) {
        self.0.done.store(done, Ordering::Relaxed);
    }

    pub fn add(&self, done: u64) {
        self.0.done.fetch_add(done, Ordering::Relaxed);
    }

    pub fn expect(&self, total: u64) {
        self.0.total.store(total, Ordering::Relaxed);
    }

    fn line(&self) -> Value {
        let total = Some(self.0.total.load(Ordering::Relaxed)).filter(|total| *total != u64::MAX);
        json!({ "progress": { "unit": self.0.unit, "done": self.0.done.load(Ordering::Relaxed), "total": total } })
    }
}

type Work = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Does `work`; whoever asks for lines sees how far it is. The work ends with the connection.
pub(super) async fn streamed(
    headers: &HeaderMap,
    meter: Meter,
    clock: Arc<dyn Clock>,
    work: impl Future<Output = Answer> + Send + 'static,
) -> Response {
    if !wants_lines(headers) {
        return work.await.into_response();
    }
    let work: Work = Box::pin(work);
    let lines = unfold(Some(work), move |work| {
        let (meter, clock) = (meter.clone(), clock.clone());
        async move {
            let mut work = work?;
            let (line, rest) = tokio::select! {
                answer = &mut work => (last(answer), None),
                () = clock.sleep(TICK) => (meter.line(), Some(work)),
            };
            Some((Ok::<_, Infallible>(format!("{line}\n")), rest))
        }
    });
    ([(CONTENT_TYPE, LINES)], Body::from_stream(lines)).into_response()
}

/// Whether somebody watches.
pub(super) fn wants_lines(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).is_some_and(|accepted| accepted == LINES)
}

/// Does `work`, and `sample` now and then meanwhile.
pub(super) async fn sampled<F: Future<Output = ()> + Send>(
    work: impl Future<Output = Answer> + Send,
    sample: impl Fn() -> F + Send,
    clock: Arc<dyn Clock>,
) -> Answer {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            answer = &mut work => return answer,
            () = clock.sleep(TICK) => sample().await,
        }
    }
}

fn last(answer: Answer) -> Value {
    match answer {
        Ok(result) => json!({ "result": result.0 }),
        Err(Refusal { status, text }) => json!({ "error": text, "status": status.as_u16() }),
    }
}
