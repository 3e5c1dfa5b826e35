//! A directory of another machine, by SFTP over the user's own `ssh`.
//!
//! Objects lie as in [`dir`](crate::dir), so the same directory can be used through both. A put writes a file in
//! `.kurma-incoming`, makes it durable (`fsync@openssh.com`, where the server has it) and gives it its name:
//! `PutMode::Overwrite` by `posix-rename@openssh.com`, `PutMode::Create` by `hardlink@openssh.com`, which are atomic;
//! on a server without the latter it is refused. What an interruption leaves there is swept when a session begins, and hourly.
//!
//! The protocol is small and spoken here itself: the libraries for it take packets of any length from a server.

mod session;
mod wire;

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use environment::{Entropy, Environment};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;

use crate::contract::{clip, length_of};
use crate::driver::Driver;
use crate::error::shortened;
use crate::fan_out::{self, INCOMING};
use crate::hourly::{HOUR, Hourly};
use crate::{CloudError, Credentials, ErrorKind, MAX_OBJECT, ObjectName, Operation, PutMode};
use session::{Broken, Session};
use wire::{Attributes, CHUNK, Reply, Request, Status};

/// Sessions at a time: a server does the requests of one of them one after the other.
const SESSIONS: usize = 4;
/// Reads or writes of one object that are under way: 2 MiB.
const WINDOW: usize = 64;
/// The most files that one directory may hold; there are some hundreds of directories.
const MAX_FILES: usize = 1 << 20;

/// Where a directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// `None` for what `ssh` would take.
    pub user: Option<String>,
    /// A host that `ssh` knows: a name, an address, or one of its configuration.
    pub host: String,
    /// `None` for what `ssh` would take.
    pub port: Option<u16>,
    /// The directory: absolute, or below the user's home.
    pub path: String,
    /// A configuration of `ssh` in place of the user's.
    pub ssh_config: Option<PathBuf>,
}

/// The driver.
pub(crate) struct Sftp {
    cloud: Arc<str>,
    location: Location,
    identity: Option<PathBuf>,
    entropy: Arc<dyn Entropy>,
    sweeping: Hourly,
    /// The store has been set up, now or before: then it is only looked at.
    known: AtomicBool,
    sessions: [tokio::sync::Mutex<Option<Arc<Session>>>; SESSIONS],
    turn: AtomicUsize,
    /// Fan-out directories that exist; bounded by the characters a name may begin with.
    made: Mutex<HashSet<[u8; 2]>>,
}

/// What ended an operation.
pub(crate) enum Failure {
    Broken(Broken),
    Server(Status),
    /// The server answered something that is no answer to the question.
    Nonsense,
    Refused(String),
    TooLarge(u64),
    /// The name is taken.
    Exists,
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Failure {
        Failure::Broken(broken)
    }
}

impl Failure {
    fn is(&self, code: u32) -> bool {
        matches!(self, Failure::Server(status) if status.code == code)
    }
}

type Outcome<T> = Result<T, Failure>;

/// A handle of the server, which is given back however the operation ends.
struct Opened<'a> {
    session: &'a Session,
    handle: Bytes,
    /// The file is removed as well, unless it has got its name.
    unfinished: Option<String>,
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.session.tell(Request::Close(&self.handle));
        if let Some(path) = &self.unfinished {
            self.session.tell(Request::Remove(path));
        }
    }
}

fn done(reply: Reply) -> Outcome<()> {
    match reply {
        Reply::Status(status) if status.code == wire::OK => Ok(()),
        Reply::Status(status) => Err(Failure::Server(status)),
        _ => Err(Failure::Nonsense),
    }
}

async fn opened<'a>(session: &'a Session, request: Request<'_>) -> Outcome<Opened<'a>> {
    match session.ask(request).await? {
        Reply::Handle(handle) => Ok(Opened { session, handle, unfinished: None }),
        Reply::Status(status) => Err(Failure::Server(status)),
        _ => Err(Failure::Nonsense),
    }
}

fn attributes(reply: Reply) -> Outcome<Attributes> {
    match reply {
        Reply::Attributes(attributes) => Ok(attributes),
        Reply::Status(status) => Err(Failure::Server(status)),
        _ => Err(Failure::Nonsense),
    }
}

/// Everything in a directory.
async fn entries(session: &Session, path: &str) -> Outcome<Vec<(String, Attributes)>> {
    let directory = opened(session, Request::OpenDirectory(path)).await?;
    let mut found = Vec::new();
    loop {
        match session.ask(Request::ReadDirectory(&directory.handle)).await? {
            Reply::Names(names) if found.len() + names.len() <= MAX_FILES => found.extend(names),
            Reply::Names(_) => {
                return Err(Failure::Refused(format!("{path} holds more than {MAX_FILES} files")));
            }
            Reply::Status(status) if status.code == wire::END => return Ok(found),
            Reply::Status(status) => return Err(Failure::Server(status)),
            _ => return Err(Failure::Nonsense),
        }
    }
}

/// Writes `parts` into an open file, many pieces at a time.
async fn write_all(file: &Opened<'_>, parts: &[Bytes]) -> Outcome<()> {
    let mut under_way = VecDeque::with_capacity(WINDOW);
    let mut offset = 0;
    for part in parts {
        let mut rest = part.clone();
        while !rest.is_empty() {
            if under_way.len() == WINDOW {
                finish_first(&mut under_way).await?;
            }
            let piece = rest.split_to(rest.len().min(CHUNK as usize));
            let length = piece.len() as u32;
            let request = Request::Write { handle: &file.handle, offset, length };
            under_way.push_back(file.session.send(request, piece)?);
            offset += u64::from(length);
        }
    }
    while !under_way.is_empty() {
        finish_first(&mut under_way).await?;
    }
    Ok(())
}

async fn finish_first(under_way: &mut VecDeque<tokio::sync::oneshot::Receiver<Reply>>) -> Outcome<()> {
    let Some(first) = under_way.pop_front() else { return Ok(()) };
    done(first.await.map_err(|_| Broken::Lost("the connection was lost".into()))?)
}

/// Reads one piece of a file, whole.
async fn read_piece(file: &Opened<'_>, mut offset: u64, end: u64) -> Outcome<Bytes> {
    let mut whole = BytesMut::new();
    while offset < end {
        let request = Request::Read { handle: &file.handle, offset, length: (end - offset) as u32 };
        match file.session.ask(request).await? {
            Reply::Data(data) if data.is_empty() || data.len() as u64 > end - offset => {
                return Err(Failure::Nonsense);
            }
            Reply::Data(data) => {
                offset += data.len() as u64;
                if whole.is_empty() && offset == end {
                    return Ok(data);
                }
                whole.extend_from_slice(&data);
            }
            Reply::Status(status) => return Err(Failure::Server(status)),
            _ => return Err(Failure::Nonsense),
        }
    }
    Ok(whole.freeze())
}

impl Sftp {
    /// A client for `location`; asks nobody yet. `credentials` are a private key; without them `ssh` uses what the user
    /// has: keys, agents, its configuration. A store that is `known` is not set up again.
    pub fn open(
        env: &Environment,
        cloud: &str,
        location: &Location,
        credentials: Option<&Credentials>,
        known: bool,
    ) -> Sftp {
        Sftp {
            cloud: cloud.into(),
            location: location.clone(),
            identity: credentials.map(|credentials| credentials.path().to_owned()),
            entropy: env.entropy.clone(),
            sweeping: Hourly::new(env.clock.clone()),
            known: AtomicBool::new(known),
            sessions: Default::default(),
            turn: AtomicUsize::new(0),
            made: Mutex::default(),
        }
    }

    /// A path below the directory of the store.
    fn path(&self, below: &str) -> String {
        format!("{}/{below}", self.location.path.trim_end_matches('/'))
    }

    fn path_of(&self, name: &ObjectName) -> String {
        self.path(&fan_out::steps(name).join("/"))
    }

    async fn session(&self) -> Outcome<Arc<Session>> {
        let at = self.turn.fetch_add(1, Ordering::Relaxed) % SESSIONS;
        let mut place = self.sessions[at].lock().await;
        if let Some(session) = place.as_ref().filter(|session| !session.is_over()) {
            return Ok(session.clone());
        }
        let session = Arc::new(Session::start(&self.location, self.identity.as_deref()).await?);
        self.prepare(&session).await?;
        *place = Some(session.clone());
        Ok(session)
    }

    /// Looks whether the store is there, sets up a new one, and sweeps what interruptions left.
    async fn prepare(&self, session: &Session) -> Outcome<()> {
        let root = attributes(session.ask(Request::Stat(&self.location.path)).await?);
        match root {
            Ok(root) if root.is_directory() => {}
            Ok(_) => return Err(Failure::Refused(format!("{} is no directory", self.location.path))),
            Err(failure) if failure.is(wire::NO_SUCH_FILE) => {
                let cause = format!("there is no {}; create the directory or mount it", self.location.path);
                return Err(Failure::Refused(cause));
            }
            Err(failure) => return Err(failure),
        }
        let incoming = self.path(INCOMING);
        let known = self.known.load(Ordering::Acquire);
        if known {
            self.require(session).await?;
        } else if let Err(failure) = done(session.ask(Request::MakeDirectory(&incoming)).await?) {
            // It exists, or the directory cannot be written to.
            self.require(session).await.map_err(|_| failure)?;
        }
        match self.sweep(session, &incoming).await {
            // What has been used before may be closed to writers by now, and is still read.
            Err(Failure::Server(_)) if known => {}
            swept => swept?,
        }
        self.known.store(true, Ordering::Release);
        Ok(())
    }

    /// Removes what interruptions left behind a while ago, by the server's clock.
    async fn sweep(&self, session: &Session, incoming: &str) -> Outcome<()> {
        self.sweeping.begun();
        let probe = format!("{incoming}/{:016x}", self.entropy.next_u64());
        let mut file = opened(session, Request::Open { path: &probe, flags: wire::WRITE_NEW }).await?;
        file.unfinished = Some(probe);
        let now = attributes(session.ask(Request::Size(&file.handle)).await?)?.modified.unwrap_or(0);
        let is_old = |file: &Attributes| {
            let is_old = |then: u32| u64::from(then) + HOUR.as_secs() < u64::from(now);
            file.is_file() && file.modified.is_some_and(is_old)
        };
        for (left, _) in entries(session, incoming).await?.iter().filter(|(_, file)| is_old(file)) {
            session.tell(Request::Remove(&format!("{incoming}/{left}")));
        }
        Ok(())
    }

    /// What is in a directory; nothing, if it was removed meanwhile.
    async fn listed(&self, session: &Session, path: String) -> Outcome<fan_out::Listed> {
        let entries = match entries(session, &self.path(&path)).await {
            Err(failure) if failure.is(wire::NO_SUCH_FILE) => Vec::new(),
            entries => entries?,
        };
        let listed = entries.into_iter().filter_map(|(file, about)| match about.is_directory() {
            true => Some((file, None)),
            false => Some((file, Some(about.size.filter(|_| about.is_file())?))),
        });
        Ok(listed.collect())
    }

    /// A missing file in a missing store is not "no such object".
    async fn require(&self, session: &Session) -> Outcome<()> {
        match attributes(session.ask(Request::Stat(&self.path(INCOMING))).await?) {
            Ok(_) => Ok(()),
            Err(failure) if failure.is(wire::NO_SUCH_FILE) => {
                let root = &self.location.path;
                Err(Failure::Refused(format!(
                    "{root} has gone or is not mounted; mount it again. If an empty disk takes its place, make the directory {root}/{INCOMING} in it"
                )))
            }
            Err(failure) => Err(failure),
        }
    }

    async fn explain<T>(&self, session: &Session, failure: Failure) -> Outcome<T> {
        if failure.is(wire::NO_SUCH_FILE) {
            self.require(session).await?;
        }
        Err(failure)
    }

    /// Gives a file its name, and makes the directories of the name when they are missing.
    async fn give_name(
        &self,
        session: &Session,
        incoming: &str,
        name: &ObjectName,
        mode: PutMode,
    ) -> Outcome<()> {
        let target = &self.path_of(name);
        let ask = || async {
            done(match mode {
                PutMode::Overwrite => session.ask(Request::Rename { from: incoming, to: target }).await?,
                PutMode::Create => session.ask(Request::Link { from: incoming, to: target }).await?,
            })
        };
        let [first, second, _] = fan_out::steps(name);
        let key = [name.as_str().as_bytes()[0], name.as_str().as_bytes()[1]];
        for last in [false, true] {
            if !self.made.lock().contains(&key) {
                for below in [first.clone(), format!("{first}/{second}")] {
                    // It may be there; if it could not be made, the next step fails.
                    let _ = done(session.ask(Request::MakeDirectory(&self.path(&below))).await?);
                }
                self.made.lock().insert(key);
            }
            match ask().await {
                // Somebody emptied the store under us.
                Err(failure) if failure.is(wire::NO_SUCH_FILE) && !last => {
                    self.require(session).await?;
                    self.made.lock().clear();
                }
                // The protocol has no word for "exists".
                Err(failure) if failure.is(wire::FAILURE) && mode == PutMode::Create => {
                    return match attributes(session.ask(Request::Stat(target)).await?) {
                        Ok(_) => Err(Failure::Exists),
                        Err(_) => Err(failure),
                    };
                }
                outcome => return outcome,
            }
        }
        Err(Failure::Nonsense)
    }
}

#[async_trait]
impl Driver for Sftp {
    type Failure = Failure;

    fn error(&self, operation: Operation, object: &str, failure: Failure) -> CloudError {
        let (kind, cause) = match failure {
            Failure::Broken(Broken::Lost(cause)) => (ErrorKind::Transient, cause),
            Failure::Broken(Broken::Refused(cause)) | Failure::Refused(cause) => (ErrorKind::Refused, cause),
            Failure::Nonsense => (ErrorKind::Transient, "the server's answer makes no sense".into()),
            Failure::Exists => (ErrorKind::AlreadyExists, "the name is taken".into()),
            Failure::TooLarge(size) => {
                let cause = format!("{size} bytes are more than the {MAX_OBJECT} that an object may have");
                (ErrorKind::Refused, cause)
            }
            Failure::Server(status) => {
                let kind = match status.code {
                    wire::NO_SUCH_FILE => ErrorKind::NotFound,
                    wire::PERMISSION_DENIED | wire::UNSUPPORTED => ErrorKind::Refused,
                    _ => ErrorKind::Transient,
                };
                (kind, format!("the server says {:?} ({})", status.message, status.code))
            }
        };
        CloudError::new(kind, &self.cloud, operation, object, shortened(&cause))
    }

    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Outcome<()> {
        if length_of(&parts) > MAX_OBJECT {
            return Err(Failure::TooLarge(length_of(&parts)));
        }
        let session = &*self.session().await?;
        if mode == PutMode::Create && !session.has_link {
            let cause = "the server cannot create objects atomically (hardlink@openssh.com); OpenSSH's can";
            return Err(Failure::Refused(cause.into()));
        }
        // Before anything is done that could not be done again, should this take too long.
        if self.sweeping.begin_when_due() && self.sweep(session, &self.path(INCOMING)).await.is_err() {
            tracing::debug!(cloud = %self.cloud, "leftovers could not be swept");
        }
        let incoming = self.path(&format!("{INCOMING}/{:016x}", self.entropy.next_u64()));
        let request = Request::Open { path: &incoming, flags: wire::WRITE_NEW };
        let file = opened(session, request).await;
        let mut file = match file {
            Ok(file) => file,
            Err(failure) => return self.explain(session, failure).await,
        };
        file.unfinished = Some(incoming.clone());
        write_all(&file, &parts).await?;
        if let Some(reply) = session.sync(&file.handle).await? {
            done(reply)?;
        }
        self.give_name(session, &incoming, name, mode).await?;
        if mode == PutMode::Overwrite {
            file.unfinished = None;
        }
        Ok(())
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Outcome<Bytes> {
        let session = &*self.session().await?;
        let path = self.path_of(name);
        let file = match opened(session, Request::Open { path: &path, flags: wire::READ }).await {
            Ok(file) => file,
            Err(failure) => return self.explain(session, failure).await,
        };
        let size = attributes(session.ask(Request::Size(&file.handle)).await?)?.size;
        let range = clip(range, size.ok_or(Failure::Nonsense)?);
        if range.end - range.start > MAX_OBJECT {
            return Err(Failure::TooLarge(range.end - range.start));
        }
        let starts = (range.start..range.end).step_by(CHUNK as usize);
        let pieces = starts.map(|start| read_piece(&file, start, range.end.min(start + u64::from(CHUNK))));
        let mut pieces = futures::stream::iter(pieces).buffered(WINDOW);
        let mut whole = BytesMut::with_capacity((range.end - range.start) as usize);
        while let Some(piece) = pieces.try_next().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    async fn head(&self, name: &ObjectName) -> Outcome<u64> {
        let session = &*self.session().await?;
        let path = self.path_of(name);
        match attributes(session.ask(Request::Stat(&path)).await?) {
            Ok(found) => found.size.ok_or(Failure::Nonsense),
            Err(failure) => self.explain(session, failure).await,
        }
    }

    async fn delete(&self, name: &ObjectName) -> Outcome<()> {
        let session = &*self.session().await?;
        let path = self.path_of(name);
        match done(session.ask(Request::Remove(&path)).await?) {
            Err(failure) if failure.is(wire::NO_SUCH_FILE) => self.require(session).await,
            outcome => outcome,
        }
    }

    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Outcome<Vec<(ObjectName, u64)>> {
        let session = &*self.session().await?;
        self.require(session).await?;
        fan_out::list(|path| self.listed(session, path), prefix, after, limit).await
    }
}
