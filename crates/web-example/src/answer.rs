//! Requests and their answers (RFC 9110).

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use crate::path::Path;
use crate::site::{Found, Object, Problem, Site};

/// The content of an answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, Problem>;

/// The answer to any request.
pub(crate) async fn answer<B>(site: &Arc<Site>, request: &Request<B>) -> Response<Body> {
    let is_head = request.method() == Method::HEAD;
    if !is_head && request.method() != Method::GET {
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are done here");
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    let Some(path) = Path::of_url(request.uri().path()) else {
        return plain(StatusCode::BAD_REQUEST, "this path makes no sense");
    };
    match site.find(&path, !is_head).await {
        Ok(found) => with(site, request.headers(), &path, found, is_head),
        Err(Problem::Directory) => elsewhere(request.uri().path(), request.uri().query()),
        Err(problem) => plain(status(&problem), &problem.to_string()),
    }
}

fn status(problem: &Problem) -> StatusCode {
    match problem {
        Problem::NotFound => StatusCode::NOT_FOUND,
        Problem::Forbidden => StatusCode::FORBIDDEN,
        Problem::Directory => StatusCode::MOVED_PERMANENTLY,
        Problem::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Problem::Gateway => StatusCode::BAD_GATEWAY,
        Problem::TimedOut => StatusCode::GATEWAY_TIMEOUT,
    }
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut answer = Response::new(full(format!("{} {text}\n", status.as_u16()).into()));
    *answer.status_mut() = status;
    set(&mut answer, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    set(&mut answer, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    answer
}

/// To a directory, so that relative references in its index lead into it.
fn elsewhere(path: &str, query: Option<&str>) -> Response<Body> {
    let mut answer = plain(StatusCode::MOVED_PERMANENTLY, "this is a directory");
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    set(&mut answer, header::LOCATION, &format!("{path}/{query}"));
    answer
}

fn full(content: Bytes) -> Body {
    Full::new(content).map_err(|never| match never {}).boxed_unsync()
}

fn set(answer: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

/// A file, or a part of it, or that it is still the same.
fn with(site: &Arc<Site>, asked: &HeaderMap, path: &Path, found: Found, is_head: bool) -> Response<Body> {
    let (size, tag, modified) = (found.object.size(), tag(&found.object), modified(&found.object));
    let judged = judge(asked, &tag, modified);
    let range = if is_head || judged.is_some() { Part::All } else { part(asked, &tag, size) };
    let mut answer = match (judged, &range) {
        (Some(StatusCode::NOT_MODIFIED), _) => {
            let mut answer = Response::new(full(Bytes::new()));
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            answer
        }
        (Some(status), _) => return plain(status, "the file is not what the request expects"),
        (None, Part::None) => {
            let mut answer = plain(StatusCode::RANGE_NOT_SATISFIABLE, "the file ends before that");
            set(&mut answer, header::CONTENT_RANGE, &format!("bytes */{size}"));
            return answer;
        }
        (None, range) => {
            let (status, range) = match range {
                Part::Some(range) => (StatusCode::PARTIAL_CONTENT, range.clone()),
                _ => (StatusCode::OK, 0..size),
            };
            let content = if is_head { full(Bytes::new()) } else { content(site, found, range.clone()) };
            let mut answer = Response::new(content);
            *answer.status_mut() = status;
            if status == StatusCode::PARTIAL_CONTENT {
                let value = format!("bytes {}-{}/{size}", range.start, range.end - 1);
                set(&mut answer, header::CONTENT_RANGE, &value);
            }
            let name = String::from_utf8_lossy(&path.file);
            set(
                &mut answer,
                header::CONTENT_TYPE,
                mime_guess::from_path(&*name).first_or_octet_stream().as_ref(),
            );
            set(&mut answer, header::CONTENT_LENGTH, &(range.end - range.start).to_string());
            set(&mut answer, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
            answer
        }
    };
    set(&mut answer, header::ETAG, &tag);
    if let Some(modified) = modified {
        set(&mut answer, header::LAST_MODIFIED, &httpdate::fmt_http_date(modified));
    }
    set(&mut answer, header::ACCEPT_RANGES, "bytes");
    // To be kept, but asked about each time.
    set(&mut answer, header::CACHE_CONTROL, "no-cache");
    answer
}

/// These bytes of a file: those that were read with its attributes, and others as they are wanted.
fn content(site: &Arc<Site>, found: Found, range: Range<u64>) -> Body {
    let here = found.object.content.len() as u64;
    if range.end <= here {
        // Fits: it is in memory.
        return full(found.object.content.slice(range.start as usize..range.end as usize));
    }
    let site = Arc::clone(site);
    let more = stream::try_unfold((range.start, found), move |(offset, found)| {
        let (site, end) = (Arc::clone(&site), range.end);
        async move {
            if offset == end {
                return Ok(None);
            }
            let (bytes, found) = match offset < here {
                true => (found.object.content.slice(offset as usize..), found),
                false => site.more(found, offset, end).await?,
            };
            let next = offset + bytes.len() as u64;
            Ok(Some((Frame::data(bytes), (next, found))))
        }
    });
    BodyExt::boxed_unsync(StreamBody::new(more))
}

/// A strong one: it is another when the content is another.
fn tag(object: &Object) -> String {
    let attributes = &object.attributes;
    let modified = attributes.modified.unwrap_or_default();
    let change = attributes.change.unwrap_or(0);
    let file = attributes.file_id.unwrap_or(0);
    let size = object.size();
    format!("\"{file:x}-{size:x}-{change:x}-{:x}.{:x}\"", modified.seconds, modified.nanoseconds)
}

/// In whole seconds, as HTTP has it. Nothing for what it cannot say.
fn modified(object: &Object) -> Option<SystemTime> {
    // To the year 9999.
    let seconds = u64::try_from(object.attributes.modified?.seconds)
        .ok()
        .filter(|seconds| *seconds < 253_402_300_800)?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// What conditions (RFC 9110 §13.2.2) make of the request: nothing, or a status that is not 200.
fn judge(asked: &HeaderMap, tag: &str, modified: Option<SystemTime>) -> Option<StatusCode> {
    let date = |name| httpdate::parse_http_date(asked.get(name)?.to_str().ok()?).ok();
    let has = |name| asked.contains_key(name);
    if has(header::IF_MATCH) {
        if !matches(asked, header::IF_MATCH, tag, false) {
            return Some(StatusCode::PRECONDITION_FAILED);
        }
    } else if let (Some(since), Some(modified)) = (date(header::IF_UNMODIFIED_SINCE), modified)
        && modified > since
    {
        return Some(StatusCode::PRECONDITION_FAILED);
    }
    let same = if has(header::IF_NONE_MATCH) {
        matches(asked, header::IF_NONE_MATCH, tag, true)
    } else {
        let since = date(header::IF_MODIFIED_SINCE);
        since.zip(modified).is_some_and(|(since, modified)| modified <= since)
    };
    same.then_some(StatusCode::NOT_MODIFIED)
}

/// Whether a list of tags has this one, or is `*`. Weak tags count if `weak`. No tag of ours has a comma in it.
fn matches(asked: &HeaderMap, name: HeaderName, tag: &str, weak: bool) -> bool {
    let values = asked.get_all(name);
    let mut tags = values.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    tags.any(|given| {
        let given = given.trim();
        given == "*" || given == tag || (weak && given.strip_prefix("W/") == Some(tag))
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    All,
    Some(Range<u64>),
    /// There is nothing there.
    None,
}

/// What part of a file is asked for (RFC 9110 §14.2). Of several, and of what makes no sense, all of it.
fn part(asked: &HeaderMap, tag: &str, size: u64) -> Part {
    // Dates are not exact enough.
    if asked.get(header::IF_RANGE).is_some_and(|given| given != tag) {
        return Part::All;
    }
    let value = asked.get(header::RANGE).and_then(|value| value.to_str().ok());
    let Some((first, last)) = value.and_then(|value| value.strip_prefix("bytes=")?.split_once('-')) else {
        return Part::All;
    };
    let number = |text: &str| {
        let text = text.trim();
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let range = match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => return Part::All,
        (Some(first), Some(last)) => first..last.saturating_add(1).min(size),
        (Some(first), None) if last.trim().is_empty() => first..size,
        (None, Some(length)) if first.trim().is_empty() => size.saturating_sub(length)..size,
        _ => return Part::All,
    };
    if range.is_empty() { Part::None } else { Part::Some(range) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn ranges_are_what_rfc_9110_says() {
        let of = |value, size| part(&asked(header::RANGE, value), "\"a\"", size);
        assert_eq!(of("bytes=0-0", 10), Part::Some(0..1));
        assert_eq!(of("bytes=2-", 10), Part::Some(2..10));
        assert_eq!(of("bytes=-3", 10), Part::Some(7..10));
        assert_eq!(of("bytes=-30", 10), Part::Some(0..10));
        assert_eq!(of("bytes=5-99999999999999999999999", 10), Part::Some(5..10));
        for none in ["bytes=10-", "bytes=99-100", "bytes=-0"] {
            assert_eq!(of(none, 10), Part::None, "{none}");
        }
        for all in
            ["bytes=3-2", "bytes=-", "bytes=a-b", "bytes=0-1,3-4", "lines=1-2", "bytes=--1", "bytes=+1-2"]
        {
            assert_eq!(of(all, 10), Part::All, "{all}");
        }
        assert_eq!(of("bytes=0-", 0), Part::None);
    }

    #[test]
    fn conditions_are_judged_in_order() {
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let date = |seconds| httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
        let of = |pairs: &[(HeaderName, &str)]| {
            let pairs =
                pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()));
            judge(&HeaderMap::from_iter(pairs), "\"a\"", Some(time)).map(|status| status.as_u16())
        };
        let (now, before) = (date(1_000_000_000), date(999_999_999));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(header::IF_NONE_MATCH, "\"b\", W/\"a\"")]), Some(304));
        assert_eq!(of(&[(header::IF_NONE_MATCH, "\"b\""), (header::IF_MODIFIED_SINCE, &now)]), None);
        assert_eq!(of(&[(header::IF_MODIFIED_SINCE, &now)]), Some(304));
        assert_eq!(of(&[(header::IF_MODIFIED_SINCE, &before)]), None);
        assert_eq!(of(&[(header::IF_MODIFIED_SINCE, "yesterday")]), None);
        assert_eq!(of(&[(header::IF_MATCH, "W/\"a\"")]), Some(412));
        assert_eq!(of(&[(header::IF_MATCH, "*"), (header::IF_UNMODIFIED_SINCE, &before)]), None);
        assert_eq!(of(&[(header::IF_UNMODIFIED_SINCE, &before)]), Some(412));
        assert_eq!(of(&[(header::IF_MATCH, "\"b\""), (header::IF_NONE_MATCH, "\"a\"")]), Some(412));
    }

    proptest! {
        #[test]
        fn a_part_is_always_within_the_file(value in "(bytes=)?[0-9 -,]{0,24}", size in 0_u64..50) {
            if let Part::Some(range) = part(&asked(header::RANGE, &value), "", size) {
                prop_assert!(range.start < range.end && range.end <= size);
            }
        }
    }
}
