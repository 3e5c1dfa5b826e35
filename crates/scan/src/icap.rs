//! ICAP (RFC 3507): a file is shown as the body of an HTTP answer (RESPMOD), or of a request where the service knows REQMOD alone.
//!
//! OPTIONS says what a service can do; it must be able to answer 204, *no modification needed*, which is how it says that nothing was found. The
//! first bytes go as a preview, after which the service may have seen enough. Any other answer names what was found in one of the header
//! fields that are in use for that, or refuses the HTTP message with a status of 400 or more; a changed message without either is no verdict.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use environment::Clock;
use parking_lot::Mutex;

use crate::exchange::{Exchange, Sent};
use crate::verdict::printable;
use crate::{Content, Endpoint, ScanError, Verdict};

/// Bytes of a head, of ICAP and of HTTP together.
const LONGEST_HEAD: usize = 32 << 10;
/// Fields of a head.
const FIELDS: usize = 64;
/// The largest preview that is sent, whatever the service would take.
const LARGEST_PREVIEW: u64 = 64 << 10;
/// How long it is believed what a service can do.
const OPTIONS_LAST: Duration = Duration::from_secs(3600);
/// Fields that name what was found: those of the drafts, and of makers of scanners.
const THREATS: [&str; 4] = ["X-Infection-Found", "X-Virus-ID", "X-Violations-Found", "X-Virus-Name"];

/// A head of ICAP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Status.
    pub status: u16,
    /// Bytes of it, with the empty line.
    pub length: usize,
    /// The first of the fields that name what was found, or all there is to say about why the message was refused.
    pub threat: Option<String>,
    /// Whether 204 is allowed.
    pub allows_204: bool,
    /// Bytes that the service wants first.
    pub preview: Option<u64>,
    /// Whether the service knows RESPMOD, and REQMOD.
    pub methods: (bool, bool),
    /// Whether a head of an HTTP answer follows.
    pub has_http_answer: bool,
}

/// Understands the head of an answer, and that of the HTTP message behind it if that is there. `None`: more has to come.
pub fn decode_head(bytes: &[u8]) -> Result<Option<Head>, ScanError> {
    let Some((status, fields_at)) = status_line(bytes, b"ICAP/1.")? else { return Ok(None) };
    let Some(end) = find(&bytes[fields_at - 2..], b"\r\n\r\n").map(|at| at + fields_at - 2) else {
        return Ok(None);
    };
    let length = end + 4;
    let mut head = Head { status, length, ..Head::default() };
    for (name, value) in fields(&bytes[fields_at.min(end)..end])? {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let words = || value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let has = |word: &[u8]| words().any(|other| other.eq_ignore_ascii_case(word));
        if is("Allow") {
            head.allows_204 |= has(b"204");
        } else if is("Methods") {
            head.methods = (head.methods.0 || has(b"RESPMOD"), head.methods.1 || has(b"REQMOD"));
        } else if is("Preview") {
            let digits = std::str::from_utf8(value).ok().and_then(|digits| digits.trim().parse().ok());
            head.preview =
                Some(digits.ok_or_else(|| ScanError::Malformed("a preview that is no number".into()))?);
        } else if is("Encapsulated") {
            head.has_http_answer = words().any(|word| word.starts_with(b"res-hdr="));
        } else if head.threat.is_none() && THREATS.iter().any(|other| is(other)) {
            head.threat = Some(threat(value));
        }
    }
    if head.status == 200 && head.has_http_answer && head.threat.is_none() {
        let Some((http, _)) = status_line(&bytes[length..], b"HTTP/1.")? else { return Ok(None) };
        head.threat = (http >= 400).then(|| format!("refused by the ICAP service with HTTP status {http}"));
    }
    Ok(Some(head))
}

/// The status of a first line, and where the next one begins.
fn status_line(bytes: &[u8], protocol: &[u8]) -> Result<Option<(u16, usize)>, ScanError> {
    let Some(end) = find(bytes, b"\r\n") else { return Ok(None) };
    let line = &bytes[..end];
    let malformed = || ScanError::Malformed(format!("a first line {:?}", printable(line)));
    let rest = line.strip_prefix(protocol).ok_or_else(malformed)?;
    let status = rest.split(|byte| *byte == b' ').nth(1).filter(|digits| digits.len() == 3);
    let status = status.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    Ok(Some((status.ok_or_else(malformed)?, end + 2)))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Name and value.
type Field<'a> = (&'a [u8], &'a [u8]);

/// The fields of a head, by name and value. Of those that go on in further lines, as services write them that find several things, the first
/// line counts.
fn fields(bytes: &[u8]) -> Result<Vec<Field<'_>>, ScanError> {
    let mut fields = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)) {
        match line.iter().position(|byte| *byte == b':') {
            _ if line.is_empty()
                || (line.starts_with(b" ") || line.starts_with(b"\t")) && !fields.is_empty() => {}
            Some(colon) if colon > 0 && fields.len() < FIELDS => {
                fields.push((&line[..colon], line[colon + 1..].trim_ascii()));
            }
            _ => {
                return Err(ScanError::Malformed(format!("a field {:?} of an ICAP answer", printable(line))));
            }
        }
    }
    Ok(fields)
}

/// What a field says was found: `Type=0; Resolution=2; Threat=NAME;`, or a name.
fn threat(value: &[u8]) -> String {
    let mut parts = value.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let named = parts.find_map(|part| part.strip_prefix(b"Threat="));
    match printable(named.unwrap_or(value)) {
        empty if empty.is_empty() => "unnamed".into(),
        name => name,
    }
}

/// One service.
pub(crate) struct Service {
    endpoint: Endpoint,
    authority: String,
    path: String,
    /// What it can do, and when it said so.
    options: Mutex<Option<(Options, Duration)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    preview: Option<u64>,
    answers: bool,
}

impl Service {
    pub fn new(host: &str, port: u16, path: &str) -> Service {
        Service {
            endpoint: Endpoint::Tcp(host.into(), port),
            authority: format!("{host}:{port}"),
            path: path.into(),
            options: Mutex::default(),
        }
    }

    /// Asks again what the service can do.
    pub async fn ping(&self, clock: &dyn Clock) -> Result<(), ScanError> {
        *self.options.lock() = None;
        self.options(clock).await.map(drop)
    }

    pub async fn scan(&self, content: &mut dyn Content, clock: &dyn Clock) -> Result<Verdict, ScanError> {
        let options = self.options(clock).await?;
        let scanned = self.scan_by(options, content, clock).await;
        if scanned.as_ref().is_err_and(ScanError::is_of_scanner) {
            *self.options.lock() = None;
        }
        scanned
    }

    async fn options(&self, clock: &dyn Clock) -> Result<Options, ScanError> {
        let now = clock.monotonic();
        if let Some((options, since)) = *self.options.lock()
            && now.saturating_sub(since) < OPTIONS_LAST
        {
            return Ok(options);
        }
        let mut exchange = Exchange::open(&self.endpoint, LONGEST_HEAD, clock).await?;
        let question = format!("{}Encapsulated: null-body=0\r\n\r\n", self.start("OPTIONS"));
        exchange.send(&[question.into()]).await?;
        let head = answer(&mut exchange).await?;
        if head.status != 200 {
            return Err(ScanError::Malformed(format!(
                "the service answers OPTIONS with status {}",
                head.status
            )));
        }
        let (answers, requests) = head.methods;
        if !(answers || requests) || !head.allows_204 {
            let what = "the service does neither RESPMOD nor REQMOD, or cannot answer 204";
            return Err(ScanError::Malformed(what.into()));
        }
        let options = Options { preview: head.preview, answers };
        *self.options.lock() = Some((options, now));
        Ok(options)
    }

    fn start(&self, method: &str) -> String {
        let Service { authority, path, .. } = self;
        format!(
            "{method} icap://{authority}/{path} ICAP/1.0\r\nHost: {authority}\r\nUser-Agent: Kurma\r\nConnection: close\r\n"
        )
    }

    async fn scan_by(
        &self,
        options: Options,
        content: &mut dyn Content,
        clock: &dyn Clock,
    ) -> Result<Verdict, ScanError> {
        let mut exchange = Exchange::open(&self.endpoint, LONGEST_HEAD, clock).await?;
        let preview = options.preview.map(|preview| preview.min(LARGEST_PREVIEW));
        let mut body = Body { content, left: BytesMut::new() };
        let head = self.question(options, preview, body.content.size());
        let mut sent = exchange.send(&[head.into()]).await?;
        if let Some(preview) = preview
            && sent == Sent::Whole
        {
            let (first, is_all) = body.first(preview as usize).await?;
            sent = exchange.send(&chunk(first)).await?;
            if sent == Sent::Whole {
                let end: &[u8] = if is_all { b"0; ieof\r\n\r\n" } else { b"0\r\n\r\n" };
                sent = exchange.send(&[Bytes::from_static(end)]).await?;
            }
            if sent == Sent::Answered || is_all {
                return verdict(&answer(&mut exchange).await?, sent == Sent::Whole);
            }
            let head = answer(&mut exchange).await?;
            if head.status != 100 {
                // The service has seen enough of it.
                return verdict(&head, true);
            }
            if exchange.received.len() > head.length {
                return Err(ScanError::Malformed("something follows 100 Continue at once".into()));
            }
            exchange.received.clear();
        }
        while sent == Sent::Whole {
            let Some(part) = body.next().await? else { break };
            sent = exchange.send(&chunk(part)).await?;
        }
        let was_whole =
            sent == Sent::Whole && exchange.send(&[Bytes::from_static(b"0\r\n\r\n")]).await? == Sent::Whole;
        verdict(&answer(&mut exchange).await?, was_whole)
    }

    /// All that comes before the body.
    fn question(&self, options: Options, preview: Option<u64>, size: u64) -> String {
        let kind = "Content-Type: application/octet-stream\r\n";
        let (method, http, encapsulated) = match options.answers {
            true => {
                let request = "GET http://kurma/file HTTP/1.1\r\nHost: kurma\r\n\r\n";
                let answer = format!("HTTP/1.1 200 OK\r\n{kind}Content-Length: {size}\r\n\r\n");
                let (first, second) = (request.len(), request.len() + answer.len());
                let places = format!("req-hdr=0, res-hdr={first}, res-body={second}");
                ("RESPMOD", format!("{request}{answer}"), places)
            }
            false => {
                let request = format!(
                    "PUT http://kurma/file HTTP/1.1\r\nHost: kurma\r\n{kind}Content-Length: {size}\r\n\r\n"
                );
                let places = format!("req-hdr=0, req-body={}", request.len());
                ("REQMOD", request, places)
            }
        };
        let preview = preview.map(|preview| format!("Preview: {preview}\r\n")).unwrap_or_default();
        format!("{}Allow: 204\r\n{preview}Encapsulated: {encapsulated}\r\n\r\n{http}", self.start(method))
    }
}

/// A chunk of a body; nothing for nothing, because an empty chunk ends it.
fn chunk(part: Bytes) -> Vec<Bytes> {
    match part.len() {
        0 => Vec::new(),
        length => vec![format!("{length:x}\r\n").into(), part, Bytes::from_static(b"\r\n")],
    }
}

/// The content, of which the beginning goes as a preview.
struct Body<'a> {
    content: &'a mut dyn Content,
    /// Read and not given yet.
    left: BytesMut,
}

impl Body<'_> {
    /// The first bytes, and whether there are no more.
    async fn first(&mut self, length: usize) -> Result<(Bytes, bool), ScanError> {
        while self.left.len() <= length {
            match self.content.next().await.map_err(ScanError::Content)? {
                Some(part) => self.left.extend_from_slice(&part),
                None => return Ok((self.left.split().freeze(), true)),
            }
        }
        Ok((self.left.split_to(length).freeze(), false))
    }

    async fn next(&mut self) -> Result<Option<Bytes>, ScanError> {
        match self.left.is_empty() {
            true => self.content.next().await.map_err(ScanError::Content),
            false => Ok(Some(self.left.split().freeze())),
        }
    }
}

async fn answer(exchange: &mut Exchange) -> Result<Head, ScanError> {
    loop {
        if let Some(head) = decode_head(&exchange.received)? {
            return Ok(head);
        }
        if !exchange.receive().await? {
            return Err(ScanError::Lost("the service closed it before its answer was complete".into()));
        }
    }
}

/// What an answer means; one that finds nothing counts only if all was sent that the service wanted.
fn verdict(head: &Head, was_whole: bool) -> Result<Verdict, ScanError> {
    match (head.status, &head.threat) {
        (200, Some(threat)) => Ok(Verdict::Infected(threat.clone())),
        (204, Some(_)) => {
            Err(ScanError::Malformed("an answer that both finds something and changes nothing".into()))
        }
        (204, None) if was_whole => Ok(Verdict::Clean),
        (204, None) => {
            Err(ScanError::Malformed("the service calls clean what it has not seen all of".into()))
        }
        (200, None) => {
            Err(ScanError::Refused("the service has changed the content without saying why".into()))
        }
        (status @ (413 | 415), _) => Err(ScanError::Refused(format!("ICAP status {status}"))),
        (status, _) => Err(ScanError::Malformed(format!("the service answers with status {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        decode_head(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn an_answer_is_understood_when_it_is_complete_and_not_before() {
        let text = "ICAP/1.0 200 OK\r\nISTag: \"x\"\r\nX-Infection-Found: Type=0; Resolution=2; Threat=Eicar-1;\r\n\
                    X-Other: 1\r\n\t-\r\n\tmore: 2\r\nEncapsulated: res-hdr=0, res-body=99\r\n\r\nHTTP/1.1 403 Forbidden\r\n";
        let found = head(text);
        assert_eq!((found.status, found.threat.as_deref()), (200, Some("Eicar-1")));
        let without = text.replace("X-Infection-Found", "X-Unknown");
        assert!(head(&without).threat.unwrap().contains("HTTP status 403"));
        for end in 0..without.len() - 1 {
            assert_eq!(decode_head(&without.as_bytes()[..end]), Ok(None), "{end} bytes");
        }
        assert!(head(&without.replace("403", "200")).threat.is_none());
    }

    #[test]
    fn options_say_what_a_service_can_do() {
        let options =
            head("ICAP/1.0 200 OK\r\nMethods: RESPMOD, REQMOD\r\nAllow: 204\r\nPreview: 1024\r\n\r\n");
        assert_eq!((options.methods, options.allows_204, options.preview), ((true, true), true, Some(1024)));
        assert!(decode_head(b"ICAP/1.0 200 OK\r\nPreview: many\r\n\r\n").is_err());
    }

    #[test]
    fn wrong_first_lines_are_refused() {
        for line in ["HTTP/1.1 200 OK", "ICAP/1.0", "ICAP/1.0 20 x", "ICAP/1.0 2000 x", "ICAP/1.0 abc x"] {
            assert!(decode_head(format!("{line}\r\n\r\n").as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn only_a_whole_scan_without_a_finding_is_clean() {
        let of =
            |status, threat: Option<&str>| Head { status, threat: threat.map(Into::into), ..Head::default() };
        assert_eq!(verdict(&of(204, None), true), Ok(Verdict::Clean));
        assert!(verdict(&of(204, None), false).is_err());
        assert!(verdict(&of(204, Some("x")), true).is_err());
        assert_eq!(verdict(&of(200, Some("x")), false), Ok(Verdict::Infected("x".into())));
        assert!(matches!(verdict(&of(200, None), true), Err(ScanError::Refused(_))));
        assert!(verdict(&of(500, None), true).is_err());
        assert!(verdict(&of(100, None), true).is_err());
    }
}
