//! What the drivers that speak HTTP themselves have in common.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderName};
use reqwest::{Body, Client, RequestBuilder, Response, StatusCode};

use crate::error::shortened;
use crate::{CloudError, ErrorKind, MAX_OBJECT, Operation};

/// Bytes of what a server says about a failure that are looked at.
const MAX_WORDS: u64 = 4 << 10;

/// What ended a request.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server said no.
    Status(StatusCode, String),
    /// No answer, or one that broke off.
    Lost(String),
    /// For a human.
    Refused(String),
    /// The name is taken.
    Exists,
}

/// A client that follows no redirects and repeats nothing.
pub(crate) fn client() -> Result<Client, reqwest::Error> {
    Client::builder()
        .connect_timeout(Duration::from_secs(5))
        .pool_idle_timeout(Duration::from_secs(60))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .user_agent("kurma")
        .build()
}

impl Failure {
    pub fn is(&self, status: StatusCode) -> bool {
        matches!(self, Failure::Status(found, _) if *found == status)
    }

    pub fn into_error(self, cloud: &Arc<str>, operation: Operation, object: impl fmt::Display) -> CloudError {
        let (kind, cause) = match self {
            Failure::Status(status, words) => {
                let (kind, advice) = meaning(status);
                (kind, format!("the server answers {status}{advice}: {words}"))
            }
            Failure::Lost(cause) => (ErrorKind::Transient, cause),
            Failure::Refused(cause) => (ErrorKind::Refused, cause),
            Failure::Exists => (ErrorKind::AlreadyExists, "the name is taken".into()),
        };
        CloudError::new(kind, cloud, operation, object, shortened(cause.trim_end_matches(": ")))
    }
}

fn meaning(status: StatusCode) -> (ErrorKind, &'static str) {
    match status.as_u16() {
        404 | 410 => (ErrorKind::NotFound, ""),
        401 | 403 => (ErrorKind::Refused, " (check the credentials and what they permit)"),
        408 | 409 | 423 | 425 | 429 => (ErrorKind::Transient, ""),
        300..=399 => (ErrorKind::Refused, " (the store is at another address)"),
        507 => (ErrorKind::Refused, " (the store is full)"),
        400..=499 | 501 | 505 => (ErrorKind::Refused, ""),
        _ => (ErrorKind::Transient, ""),
    }
}

/// Errors of the library without the address, which is long and may hold what is nobody's business.
fn lost(error: reqwest::Error) -> Failure {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    Failure::Lost(text)
}

/// Sends a request and returns an answer of success.
pub(crate) async fn send(request: RequestBuilder) -> Result<Response, Failure> {
    let answer = request.send().await.map_err(lost)?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let words = body(answer, MAX_WORDS).await.unwrap_or_default();
    Err(Failure::Status(status, String::from_utf8_lossy(&words).into_owned()))
}

/// Sends a request whose answer has no content that matters. What there is of it is taken, so that the connection can
/// be used again.
pub(crate) async fn tell(request: RequestBuilder) -> Result<StatusCode, Failure> {
    let answer = send(request).await?;
    let status = answer.status();
    body(answer, MAX_WORDS).await?;
    Ok(status)
}

/// The payload of an upload, which is not copied.
pub(crate) fn upload(request: RequestBuilder, parts: Vec<Bytes>) -> RequestBuilder {
    let length = crate::contract::length_of(&parts);
    let parts = futures::stream::iter(parts.into_iter().map(Ok::<_, std::io::Error>));
    request.header(CONTENT_LENGTH, length).body(Body::wrap_stream(parts))
}

/// The body of an answer, of at most `most` bytes.
pub(crate) async fn body(answer: Response, most: u64) -> Result<Bytes, Failure> {
    let too_long = || Failure::Refused(format!("the answer is longer than the {most} bytes that are taken"));
    let expected = answer.content_length();
    if expected.is_some_and(|length| length > most) {
        return Err(too_long());
    }
    let mut parts = answer.bytes_stream();
    let Some(first) = parts.next().await.transpose().map_err(lost)? else { return Ok(Bytes::new()) };
    if Some(first.len() as u64) == expected {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(expected.unwrap_or(0) as usize);
    whole.extend_from_slice(&first);
    while let Some(part) = parts.next().await.transpose().map_err(lost)? {
        whole.extend_from_slice(&part);
        if whole.len() as u64 > most {
            return Err(too_long());
        }
    }
    Ok(whole.freeze())
}

/// Asks for a part of an object.
pub(crate) fn ranged(request: RequestBuilder, range: Option<&Range<u64>>) -> RequestBuilder {
    match range {
        Some(range) => request.header("range", format!("bytes={}-{}", range.start, range.end - 1)),
        None => request,
    }
}

/// The content of an object, or that of `range`, out of an answer, which may be another part than was asked for.
pub(crate) async fn content(answer: Response, range: Option<Range<u64>>) -> Result<Bytes, Failure> {
    let is_part = answer.status() == StatusCode::PARTIAL_CONTENT;
    let starts = text(answer.headers(), &CONTENT_RANGE)
        .and_then(|text| text.strip_prefix("bytes ")?.split_once('-')?.0.parse::<u64>().ok());
    let whole = body(answer, MAX_OBJECT).await?;
    let Some(range) = range else {
        return match is_part {
            false => Ok(whole),
            true => Err(Failure::Lost("the server sent a part of what was asked for".into())),
        };
    };
    let length = whole.len() as u64;
    if !is_part {
        // The server knows no ranges.
        let end = range.end.min(length);
        return Ok(whole.slice(range.start.min(end) as usize..end as usize));
    }
    if starts != Some(range.start) || length > range.end - range.start {
        return Err(Failure::Lost("the server sent another part than was asked for".into()));
    }
    Ok(whole)
}

/// What asking for an object, or for `range` of it, has brought. `size` is asked for where a server refuses a range beyond the end.
pub(crate) async fn part(
    asked: Result<Response, Failure>,
    range: Option<Range<u64>>,
    size: impl Future<Output = Result<u64, Failure>>,
) -> Result<Bytes, Failure> {
    match (asked, range) {
        (Ok(answer), range) => content(answer, range).await,
        (Err(failure), Some(range)) if failure.is(StatusCode::RANGE_NOT_SATISFIABLE) => {
            match size.await? <= range.start {
                true => Ok(Bytes::new()),
                false => Err(failure),
            }
        }
        (Err(failure), _) => Err(failure),
    }
}

/// The size of an object, out of the answer to HEAD.
pub(crate) fn size(answer: &Response) -> Result<u64, Failure> {
    let size = text(answer.headers(), &CONTENT_LENGTH).and_then(|text| text.parse().ok());
    size.ok_or_else(|| Failure::Lost("the server tells no size".into()))
}

/// A header as text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
