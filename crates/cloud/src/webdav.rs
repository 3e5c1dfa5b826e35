//! A directory on a WebDAV server (RFC 4918).
//!
//! Objects lie as in [`dir`](crate::dir). A put writes a file in `.kurma-incoming`, because servers write in place, and
//! gives it its name by MOVE. Servers look and then move, also with `Overwrite: F`, so `PutMode::Create` is made atomic
//! by an exclusive LOCK on one of 256 files, under which all creators of a name move one after the other; a server
//! without locks (class 2) refuses it. These files stay: a server (wsgidav) may fail a LOCK and keep it when another client removes
//! the file at that moment. Replacing is what the server makes of it: many take the old file away first.

mod listing;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use environment::{Entropy, Environment};
use parking_lot::Mutex;
use reqwest::header::{DATE, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, StatusCode};

use crate::contract::length_of;
use crate::driver::Driver;
use crate::fan_out::{self, INCOMING};
use crate::hourly::{HOUR, Hourly};
use crate::http::{self, Failure};
use crate::{CloudError, Credentials, ErrorKind, MAX_OBJECT, ObjectName, Operation, PutMode};
use listing::Entry;

/// The longest listing of one directory that is taken: some hundred thousand files.
const MAX_LISTING: u64 = 64 << 20;
/// Where the files are that creators lock.
const LOCKS: &str = "locks";
/// How long a creator that has gone keeps others waiting.
const LOCKED_FOR: &str = "Second-60";

const WANTED: &str = r#"<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/><getlastmodified/></prop></propfind>"#;
const EXCLUSIVE: &str = r#"<?xml version="1.0" encoding="utf-8"?><lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype><owner>kurma</owner></lockinfo>"#;

/// Where a directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Whether the connection is encrypted.
    pub encrypted: bool,
    /// Host, and port unless it is the usual one.
    pub authority: String,
    /// The directory, beginning with a slash, as in an address.
    pub path: String,
}

/// The driver.
pub(crate) struct Webdav {
    cloud: Arc<str>,
    client: Client,
    authorization: Option<HeaderValue>,
    /// Without a slash at its end.
    root: String,
    entropy: Arc<dyn Entropy>,
    sweeping: Hourly,
    /// The store has been set up, now or before: then it is only looked at.
    known: AtomicBool,
    ready: AtomicBool,
    /// Fan-out directories that exist; bounded by the characters a name may begin with.
    made: Mutex<HashSet<[u8; 2]>>,
}

fn method(name: &'static str) -> Method {
    Method::from_bytes(name.as_bytes()).unwrap_or(Method::OPTIONS)
}

/// The file that creators of a name lock: the same for all gateways, and seldom that of another name.
fn lock_of(name: &ObjectName) -> String {
    let sum = name.as_str().bytes().fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
    format!("{INCOMING}/{LOCKS}/{sum:02x}")
}

impl Webdav {
    /// A client for `location`; asks nobody yet. `credentials` hold `webdav_username` and `webdav_password`, or
    /// `webdav_token`; without them the variables of these names are used.
    pub fn open(
        env: &Environment,
        cloud: &str,
        location: &Location,
        credentials: Option<&Credentials>,
        known: bool,
    ) -> Result<Webdav, CloudError> {
        let cloud: Arc<str> = cloud.into();
        let scheme = if location.encrypted { "https" } else { "http" };
        let root = format!("{scheme}://{}{}", location.authority, location.path.trim_end_matches('/'));
        let wrong = |cause: &dyn std::fmt::Display| {
            CloudError::new(ErrorKind::Refused, &cloud, Operation::Open, &location.path, cause)
        };
        let given =
            Credentials::or_environment(credentials, &["webdav_username", "webdav_password", "webdav_token"]);
        let given = given.map_err(|cause| wrong(&cause))?;
        let authorization = match (given.get("webdav_username"), given.get("webdav_token")) {
            (_, Some(token)) => Some(format!("Bearer {}", token.as_str())),
            (Some(user), None) => {
                let password = given.get("webdav_password").map_or("", |password| password.as_str());
                let both = zeroize::Zeroizing::new(format!("{}:{password}", user.as_str()));
                Some(format!("Basic {}", data_encoding::BASE64.encode(both.as_bytes())))
            }
            (None, None) => None,
        };
        let authorization =
            authorization.map(|text| HeaderValue::try_from(zeroize::Zeroizing::new(text).as_str()));
        let authorization = authorization.transpose().map_err(|_| wrong(&"the credentials are no text"))?;
        let authorization = authorization.map(|mut value| {
            value.set_sensitive(true);
            value
        });
        let client = http::client().map_err(|cause| wrong(&cause))?;
        Ok(Webdav {
            cloud,
            client,
            authorization,
            root,
            entropy: env.entropy.clone(),
            sweeping: Hourly::new(env.clock.clone()),
            known: AtomicBool::new(known),
            ready: AtomicBool::new(false),
            made: Mutex::default(),
        })
    }

    fn request(&self, method: Method, url: &str) -> RequestBuilder {
        let request = self.client.request(method, url);
        match &self.authorization {
            Some(authorization) => request.header("authorization", authorization.clone()),
            None => request,
        }
    }

    fn url(&self, below: &str) -> String {
        // Of what names and directories hold, nothing but this would mean something else in an address to some server.
        format!("{}/{}", self.root, below.replace('+', "%2B"))
    }

    fn url_of(&self, name: &ObjectName) -> String {
        self.url(&fan_out::steps(name).join("/"))
    }

    async fn entries(&self, url: &str, depth: &'static str) -> Result<Vec<Entry>, Failure> {
        self.listing(url, depth).await.map(|(entries, _)| entries)
    }

    /// What is at an address, and the server's clock.
    async fn listing(
        &self,
        url: &str,
        depth: &'static str,
    ) -> Result<(Vec<Entry>, Option<SystemTime>), Failure> {
        let request = self.request(method("PROPFIND"), url).header("depth", depth);
        let answer = http::send(request.header("content-type", "application/xml").body(WANTED)).await?;
        if answer.status() != StatusCode::MULTI_STATUS {
            return Err(Failure::Refused(format!("{url} is not on a WebDAV server")));
        }
        let now = http::text(answer.headers(), &DATE).and_then(|date| httpdate::parse_http_date(date).ok());
        let listing = http::body(answer, MAX_LISTING).await?;
        let entries = listing::entries(&listing);
        let entries = entries.ok_or_else(|| Failure::Lost("the server's listing is no listing".into()))?;
        // What is in a directory, without the directory itself.
        let own = listing::path_of(url);
        Ok((entries.into_iter().filter(|entry| depth == "0" || entry.path != own).collect(), now))
    }

    /// Looks at the store once, sets up a new one, and sweeps what interruptions left.
    async fn prepare(&self) -> Result<(), Failure> {
        if self.ready.load(Ordering::Acquire) {
            return Ok(());
        }
        let root = format!("{}/", self.root);
        match self.entries(&root, "0").await {
            Ok(root) if root.first().is_some_and(|root| root.is_directory) => {}
            Ok(_) => return Err(Failure::Refused(format!("{root} is no directory"))),
            Err(failure) if failure.is(StatusCode::NOT_FOUND) => {
                return Err(Failure::Refused(format!("there is no {root}; create the directory")));
            }
            Err(failure) => return Err(failure),
        }
        if !self.known.load(Ordering::Acquire) {
            match self.make_directory(&self.url(INCOMING)).await {
                Err(failure) if !failure.is(StatusCode::METHOD_NOT_ALLOWED) => return Err(failure),
                _ => {} // 405: it exists (RFC 4918 §9.3.1)
            }
        }
        self.require().await?;
        self.sweep().await?;
        self.known.store(true, Ordering::Release);
        self.ready.store(true, Ordering::Release);
        Ok(())
    }

    /// What is in a directory; nothing, if it was removed meanwhile.
    async fn listed(&self, path: String) -> Result<fan_out::Listed, Failure> {
        let entries = match self.entries(&self.url(&format!("{path}/")), "1").await {
            Err(failure) if failure.is(StatusCode::NOT_FOUND) => Vec::new(),
            entries => entries?,
        };
        let listed = entries.iter().filter_map(|entry| {
            let size = if entry.is_directory { None } else { Some(entry.size?) };
            Some((entry.file().to_owned(), size))
        });
        Ok(listed.collect())
    }

    /// A missing file in a missing store is not "no such object".
    async fn require(&self) -> Result<(), Failure> {
        match self.entries(&self.url(&format!("{INCOMING}/")), "0").await {
            Err(failure) if failure.is(StatusCode::NOT_FOUND) => {
                self.ready.store(false, Ordering::Release);
                let root = &self.root;
                Err(Failure::Refused(format!(
                    "{root} has gone or is not mounted; mount it again. If an empty disk takes its place, make the directory {root}/{INCOMING} in it"
                )))
            }
            other => other.map(|_| ()),
        }
    }

    async fn sweep(&self) -> Result<(), Failure> {
        self.sweeping.begun();
        let incoming = self.url(&format!("{INCOMING}/"));
        let (left, now) = self.listing(&incoming, "1").await?;
        let is_old = |then: SystemTime| {
            now.and_then(|now| now.duration_since(then).ok()).is_some_and(|age| age > HOUR)
        };
        for left in left {
            if !left.is_directory && left.modified.is_some_and(is_old) {
                self.remove(&self.url(&format!("{INCOMING}/{}", left.file()))).await?;
            }
        }
        Ok(())
    }

    async fn explain<T>(&self, failure: Failure) -> Result<T, Failure> {
        if failure.is(StatusCode::NOT_FOUND) {
            self.require().await?;
        }
        Err(failure)
    }

    async fn make_directory(&self, url: &str) -> Result<(), Failure> {
        http::tell(self.request(method("MKCOL"), url)).await.map(|_| ())
    }

    /// Removes a file, if it is there.
    async fn remove(&self, url: &str) -> Result<(), Failure> {
        match http::tell(self.request(Method::DELETE, url)).await {
            Err(failure) if !failure.is(StatusCode::NOT_FOUND) => Err(failure),
            _ => Ok(()),
        }
    }

    /// Moves while nobody else may create this name.
    async fn create(&self, incoming: &str, name: &ObjectName) -> Result<(), Failure> {
        let lock = self.url(&lock_of(name));
        let token = match self.lock(&lock).await {
            // The first creator of this store; 409: there is no such directory (RFC 4918 §9.10.4).
            Err(failure) if failure.is(StatusCode::CONFLICT) || failure.is(StatusCode::NOT_FOUND) => {
                self.require().await?;
                // It may be there by now; if it could not be made, the next step fails.
                let _ = self.make_directory(&self.url(&format!("{INCOMING}/{LOCKS}"))).await;
                self.lock(&lock).await?
            }
            locked => locked?,
        };
        let named = self.give_name(incoming, name, "F").await;
        // Left, the lock ends by itself.
        let _ = http::tell(self.request(method("UNLOCK"), &lock).header("lock-token", token)).await;
        named
    }

    /// The token of a lock that is ours now.
    async fn lock(&self, url: &str) -> Result<HeaderValue, Failure> {
        let request = self.request(method("LOCK"), url).header("depth", "0").header("timeout", LOCKED_FOR);
        let locked = http::send(request.header("content-type", "application/xml").body(EXCLUSIVE)).await;
        let answer = locked.map_err(|failure| match failure {
            Failure::Status(status, _) if matches!(status.as_u16(), 405 | 501) => Failure::Refused(
                "the server has no locks, without which objects cannot be created atomically".into(),
            ),
            failure => failure,
        })?;
        let token = answer.headers().get("lock-token").cloned();
        let token = token.ok_or_else(|| Failure::Lost("the server locked without a token".into()))?;
        http::body(answer, MAX_LISTING).await?;
        Ok(token)
    }

    /// Gives a file its name, and makes the directories of the name when they are missing.
    async fn give_name(
        &self,
        incoming: &str,
        name: &ObjectName,
        overwrite: &'static str,
    ) -> Result<(), Failure> {
        let target = self.url_of(name);
        let [first, second, _] = fan_out::steps(name);
        let key = [name.as_str().as_bytes()[0], name.as_str().as_bytes()[1]];
        for last in [false, true] {
            if !self.made.lock().contains(&key) {
                for below in [first.clone(), format!("{first}/{second}")] {
                    // It may be there; if it could not be made, the next step fails.
                    let _ = self.make_directory(&self.url(&below)).await;
                }
                self.made.lock().insert(key);
            }
            let request = self.request(method("MOVE"), incoming).header("destination", &target);
            match http::tell(request.header("overwrite", overwrite)).await {
                Err(failure) if failure.is(StatusCode::PRECONDITION_FAILED) => return Err(Failure::Exists),
                // 409: somebody emptied the store under us (RFC 4918 §9.9.4).
                Err(failure) if failure.is(StatusCode::CONFLICT) && !last => {
                    self.require().await?;
                    self.made.lock().clear();
                }
                moved => return moved.map(|_| ()),
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Driver for Webdav {
    type Failure = Failure;

    fn error(&self, operation: Operation, object: &str, failure: Failure) -> CloudError {
        failure.into_error(&self.cloud, operation, object)
    }

    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), Failure> {
        if length_of(&parts) > MAX_OBJECT {
            let cause =
                format!("{} bytes are more than the {MAX_OBJECT} that an object may have", length_of(&parts));
            return Err(Failure::Refused(cause));
        }
        self.prepare().await?;
        // Before anything is done that could not be done again, should this take too long.
        if self.sweeping.begin_when_due() && self.sweep().await.is_err() {
            tracing::debug!(cloud = %self.cloud, "leftovers could not be swept");
        }
        let incoming = self.url(&format!("{INCOMING}/{:016x}", self.entropy.next_u64()));
        let put = http::tell(http::upload(self.request(Method::PUT, &incoming), parts)).await;
        let named = match put {
            Ok(_) => match mode {
                PutMode::Overwrite => self.give_name(&incoming, name, "T").await,
                PutMode::Create => self.create(&incoming, name).await,
            },
            // 409: there is no such directory (RFC 4918 §9.7.1).
            Err(failure) if failure.is(StatusCode::CONFLICT) || failure.is(StatusCode::NOT_FOUND) => {
                self.require().await.and(Err(failure))
            }
            Err(failure) => Err(failure),
        };
        if named.is_err() {
            let _ = self.remove(&incoming).await; // or it is swept
        }
        named
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, Failure> {
        self.prepare().await?;
        if range.as_ref().is_some_and(|range| range.start >= range.end) {
            return self.head(name).await.map(|_| Bytes::new());
        }
        let request = http::ranged(self.request(Method::GET, &self.url_of(name)), range.as_ref());
        match http::part(http::send(request).await, range, self.head(name)).await {
            Err(failure) => self.explain(failure).await,
            got => got,
        }
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, Failure> {
        self.prepare().await?;
        match http::send(self.request(Method::HEAD, &self.url_of(name))).await {
            Ok(answer) => http::size(&answer),
            Err(failure) => self.explain(failure).await,
        }
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), Failure> {
        self.prepare().await?;
        match http::tell(self.request(Method::DELETE, &self.url_of(name))).await {
            Err(failure) if failure.is(StatusCode::NOT_FOUND) => self.require().await,
            deleted => deleted.map(|_| ()),
        }
    }

    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<(ObjectName, u64)>, Failure> {
        self.prepare().await?;
        self.require().await?;
        fan_out::list(|path| self.listed(path), prefix, after, limit).await
    }
}
