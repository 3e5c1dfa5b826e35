//! The files of a site, as they are and as they are remembered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use environment::Environment;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use vector_client::{AttributeSet, Attributes, Client, Data, Done, Error, Kind, Read, Step, Target};

use crate::memory::{Known, Memory};
use crate::path::Path;
use crate::references;

/// How much a site may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of files in memory that were read ahead.
    pub memory_bytes: usize,
    /// How old what is in memory may be: for so long a change of a file may go unseen.
    pub memory_age: Duration,
    /// Files that are read ahead for a page; 0 for none.
    pub ahead_files: usize,
    /// Bytes of them.
    pub ahead_bytes: u64,
    /// Pages that are read ahead for at one time; for more nothing is read ahead.
    pub ahead_pages: usize,
    /// Answers under way at one time that are not from memory; each holds at most 2 MiB.
    pub answers: usize,
    /// How long the server of the files may take for an answer.
    pub patience: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            memory_bytes: 64 << 20,
            memory_age: Duration::from_secs(5),
            ahead_files: 250,
            ahead_bytes: 8 << 20,
            ahead_pages: 8,
            answers: 128,
            patience: Duration::from_secs(30),
        }
    }
}

/// A directory whose files are served.
pub struct Site {
    pub(crate) client: Client,
    /// Names from the root of the client to the root of the site, separated by `/`.
    root: Bytes,
    pub(crate) bounds: Bounds,
    pub(crate) memory: Arc<Memory>,
    pub(crate) environment: Environment,
    pub(crate) ahead: Arc<Semaphore>,
    answers: Arc<Semaphore>,
}

/// A file, or its beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object {
    /// Those of [`WANTED`].
    pub attributes: Attributes,
    /// The first bytes of the file, or all.
    pub content: Bytes,
}

/// A file that was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub object: Object,
    /// Where it is, below the root of the site, without symbolic links.
    pub place: Bytes,
    /// Held as long as more of it may be read; `None` if it came from memory, where there is all of it.
    pub _permit: Option<OwnedSemaphorePermit>,
}

/// Why a file is not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("there is no such file")]
    NotFound,
    #[error("this is not to be read")]
    Forbidden,
    #[error("this is a directory; its path ends with a slash")]
    Directory,
    #[error("too many requests at this time; try again later")]
    Busy,
    #[error("the server of the files cannot be asked")]
    Gateway,
    #[error("the server of the files does not answer")]
    TimedOut,
}

/// What has to be known of a file. If all of it is the same, so is the content.
pub(crate) const WANTED: AttributeSet = AttributeSet::KIND
    .with(AttributeSet::SIZE)
    .with(AttributeSet::FILE_ID)
    .with(AttributeSet::MODIFIED)
    .with(AttributeSet::CHANGE);

/// Bytes of a file that are read with its attributes.
pub(crate) const FIRST: u64 = 256 << 10;

/// Bytes of it that are read at once later.
const NEXT: u64 = 1 << 20;

/// Symbolic links that are followed to a file, and times that a file may change while it is read.
const TRIES: usize = 8;

impl Site {
    /// The directory `root` of `client`, and all below it.
    pub fn new(client: Client, root: &str, bounds: Bounds, environment: Environment) -> Site {
        let names = root.split('/').filter(|name| !matches!(*name, "" | "."));
        Site {
            client,
            root: names.collect::<Vec<_>>().join("/").into(),
            memory: Arc::new(Memory::new(bounds.memory_bytes, bounds.memory_age)),
            ahead: Arc::new(Semaphore::new(bounds.ahead_pages)),
            answers: Arc::new(Semaphore::new(bounds.answers)),
            bounds,
            environment,
        }
    }

    /// A file, its beginning read if `read`. What is being read ahead is waited for.
    pub(crate) async fn find(self: &Arc<Site>, path: &Path, read: bool) -> Result<Found, Problem> {
        let found = tokio::time::timeout(self.bounds.patience, self.find_in_time(path, read)).await;
        found.map_err(|_| Problem::TimedOut)?
    }

    async fn find_in_time(self: &Arc<Site>, path: &Path, read: bool) -> Result<Found, Problem> {
        let mut known = self.memory.get(&path.file, self.environment.clock.monotonic());
        if let Known::Coming(mut over) = known {
            // Never a value, but an end.
            let _ = over.changed().await;
            known = self.memory.get(&path.file, self.environment.clock.monotonic());
        }
        if let Known::Here(object) = known {
            return Ok(Found { object: *object, place: path.file.clone(), _permit: None });
        }
        let permit = Arc::clone(&self.answers).try_acquire_owned().map_err(|_| Problem::Busy)?;
        let (site, path) = (Arc::clone(self), path.clone());
        let file = path.file.clone();
        // A task of its own: of what is asked of the server the end is awaited, and the permit held, when nobody waits any more.
        let looked = tokio::spawn(async move { (site.look(&path, read).await, permit) }).await;
        let (found, permit) = looked.map_err(|_| Problem::Gateway)?;
        let (object, place) = found?;
        // What it refers to is found by its place, to which symbolic links may lead from others.
        if let (true, Some(kind)) = (read && place == file, references::Kind::of(&place)) {
            self.read_ahead(kind, &place, &object);
        }
        Ok(Found { object, place, _permit: Some(permit) })
    }

    /// One round trip, if there are no symbolic links on the way.
    async fn look(&self, path: &Path, read: bool) -> Result<(Object, Bytes), Problem> {
        let mut place = path.file.clone();
        'again: for _ in 0..TRIES {
            let above = above(&place);
            let mut steps: Vec<_> = above.iter().map(|directory| self.ask(directory)).collect();
            steps.push(self.ask(&place));
            if read {
                // Asked before and after: nothing says that a vector is done at one instant.
                steps.extend([self.read(&place, 0, FIRST), self.ask(&place)]);
            }
            let (done, error) = match self.client.execute(steps).await {
                Ok(done) => (done, None),
                Err(failure) => (failure.done, Some(failure.error)),
            };
            let mut results = done.into_iter();
            for directory in &above {
                match kind(results.next()) {
                    Some(Kind::Directory) => {}
                    Some(Kind::SymbolicLink) => {
                        place = self.through(directory, &place[directory.len()..]).await?;
                        continue 'again;
                    }
                    Some(_) => return Err(Problem::NotFound),
                    None => return Err(self.problem(directory, error)),
                }
            }
            let Some(Done::Attributes(attributes)) = results.next() else {
                let problem = self.problem(&place, error);
                // The directory is there, and has no index: lists are not given.
                let no_list = path.of_directory && matches!(problem, Problem::NotFound);
                return Err(if no_list { Problem::Forbidden } else { problem });
            };
            match attributes.kind {
                Some(Kind::File) => {}
                Some(Kind::SymbolicLink) => {
                    place = self.through(&place, b"").await?;
                    continue;
                }
                Some(Kind::Directory) if !path.of_directory => return Err(Problem::Directory),
                _ => return Err(Problem::Forbidden),
            }
            match (read, results.next(), results.next()) {
                (false, ..) => return Ok((Object { attributes: *attributes, content: Bytes::new() }, place)),
                (true, Some(Done::Read(data)), Some(Done::Attributes(after))) => {
                    let expected = attributes.size.unwrap_or(0).min(FIRST);
                    if after == attributes && data.len() == expected {
                        return Ok((Object { attributes: *attributes, content: data.into_bytes() }, place));
                    }
                }
                _ => return Err(self.problem(&place, error)),
            }
        }
        // Links in a circle, or a file that never rests.
        Err(Problem::Forbidden)
    }

    /// Bytes of a file from `offset` on, as many as are read at once, up to `end`. An error if it is not what it was.
    pub(crate) async fn more(
        self: &Arc<Site>,
        found: Found,
        offset: u64,
        end: u64,
    ) -> Result<(Bytes, Found), Problem> {
        let site = Arc::clone(self);
        // A task of its own, as in `find`.
        let read = tokio::spawn(async move {
            let length = NEXT.min(end - offset);
            let (place, was) = (&found.place, &found.object.attributes);
            match site.client.execute(vec![site.read(place, offset, length), site.ask(place)]).await {
                Ok(done) => match <[Done; 2]>::try_from(done) {
                    Ok([Done::Read(data), Done::Attributes(now)]) if *now == *was && data.len() == length => {
                        Ok((data.into_bytes(), found))
                    }
                    _ => Err(Problem::Gateway),
                },
                Err(failure) => Err(site.problem(place, Some(failure.error))),
            }
        });
        let read = tokio::time::timeout(self.bounds.patience, read).await.map_err(|_| Problem::TimedOut)?;
        read.map_err(|_| Problem::Gateway)?
    }

    /// Where a symbolic link leads, with `rest` after it. The names before it are directories, so that `..` is what it seems.
    async fn through(&self, link: &Bytes, rest: &[u8]) -> Result<Bytes, Problem> {
        let text = match self.client.vreadlink(vec![self.target(link)]).await {
            Ok(mut texts) => texts.pop().unwrap_or_default(),
            Err(failure) => return Err(self.problem(link, Some(failure.error))),
        };
        let mut names: Vec<&[u8]> = Vec::new();
        if !text.starts_with(b"/") {
            names.extend(split(&self.root));
            names.extend(split(link));
            names.pop();
        }
        for name in split(&text) {
            match name {
                b"." => {}
                b".." => drop(names.pop()),
                name => names.push(name),
            }
        }
        let root: Vec<_> = split(&self.root).collect();
        let below = names.strip_prefix(&root[..]).ok_or(Problem::Forbidden)?;
        let names: Vec<_> = below.iter().copied().chain(split(rest)).collect();
        if names.is_empty() { Err(Problem::Directory) } else { Ok(names.join(&b'/').into()) }
    }

    fn target(&self, place: &[u8]) -> Target {
        Target::from(&self.root[..]).join(place)
    }

    /// A step that asks for the attributes of a file; of a symbolic link, not of where it leads.
    pub(crate) fn ask(&self, place: &[u8]) -> Step {
        Step::GetAttributes { target: self.target(place), wanted: WANTED, follow: false }
    }

    /// A step that reads some of a file.
    pub(crate) fn read(&self, place: &[u8], offset: u64, length: u64) -> Step {
        Step::Read(Read { follow: false, ..Read::new(self.target(place), offset, length) })
    }

    fn problem(&self, place: &Bytes, error: Option<Error>) -> Problem {
        let Some(error) = error else { return Problem::Gateway };
        match error.errno() {
            // Not there, not below a file, gone meanwhile, no name at all.
            2 | 20 | 36 | 84 | 116 => Problem::NotFound,
            // Rights; a directory, a link or something else where a moment ago there was a file.
            1 | 13 | 21 | 22 | 40 => Problem::Forbidden,
            _ => {
                tracing::warn!(file = %String::from_utf8_lossy(place), %error, "cannot be read");
                Problem::Gateway
            }
        }
    }
}

impl Object {
    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.attributes.size.unwrap_or(0)
    }
}

/// The content, if these are the attributes and all of a file that had attributes `before`.
pub(crate) fn whole(before: &Attributes, data: Data, after: &Attributes) -> Option<Object> {
    let is_whole = before == after && Some(data.len()) == before.size;
    is_whole.then(|| Object { attributes: before.clone(), content: data.into_bytes() })
}

/// The directories above a file, outermost first.
pub(crate) fn above(place: &Bytes) -> Vec<Bytes> {
    let ends = place.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    ends.map(|(end, _)| place.slice(..end)).collect()
}

/// What the attributes say an object is.
pub(crate) fn kind(done: Option<Done>) -> Option<Kind> {
    match done {
        Some(Done::Attributes(attributes)) => attributes.kind,
        _ => None,
    }
}

fn split(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}
