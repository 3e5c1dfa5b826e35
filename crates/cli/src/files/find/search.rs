use std::cell::LazyCell;

use bytes::Bytes;
use rustix::io::Errno;
use serde_json::Value;
use vector_client::{AttributeSet, Attributes, Client, Entry, Error, Kind, Step};

use super::expression::{Act, Candidate, Expression};
use crate::files::people::People;
use crate::files::place::{Place, joined, trimmed};
use crate::files::quote::quoted;
use crate::files::session::{Session, errno_words, words};
use crate::outcome::Failure;

/// Directories read at once.
const AT_ONCE: usize = 256;

/// Names that wait to be removed; names removed at once.
const DOOMED: usize = 4096;
const REMOVED_AT_ONCE: usize = 256;

/// A walk that judges what it comes by.
pub struct Search<'a> {
    expression: &'a Expression,
    json: bool,
    people: LazyCell<People>,
    /// Where the walk began, as it is shown, and whether there is a link to it.
    start: Bytes,
    is_link: bool,
    /// Directories that are judged after what is in them, in the order in which they were found: those in a directory come after it.
    later: Vec<Later>,
    /// What is to be removed next, and the place in `later` of the directory that it is in.
    doomed: Vec<(Place, Option<usize>)>,
    /// The last of those places.
    last_parent: Option<usize>,
    pub has_quit: bool,
}

/// A directory on the way, or where the walk began.
struct Found {
    place: Place,
    name: Bytes,
    attributes: Attributes,
    depth: u32,
    /// The place in `later` of the directory that it is in.
    parent: Option<usize>,
}

/// A directory to be judged at the end.
struct Later {
    found: Found,
    /// How many objects are in it, as far as that is known.
    entries: Option<usize>,
}

/// A directory to be read.
struct Directory {
    place: Place,
    depth: u32,
    /// It is judged when it is known whether anything is in it.
    waits: Option<Found>,
    /// Its place in `later`.
    later: Option<usize>,
    /// What is in it is of no interest.
    is_pruned: bool,
}

impl<'a> Search<'a> {
    pub fn new(expression: &'a Expression, json: bool) -> Search<'a> {
        Search {
            expression,
            json,
            people: LazyCell::new(People::known),
            start: Bytes::new(),
            is_link: false,
            later: Vec::new(),
            doomed: Vec::new(),
            last_parent: None,
            has_quit: false,
        }
    }

    /// Looks at a place and all below.
    pub async fn run(&mut self, session: &mut Session, place: Place) -> Result<(), Failure> {
        let shown = if self.json { AttributeSet::STAT } else { AttributeSet::KIND };
        let wanted = self.expression.wanted() | shown;
        let client = place.client.clone();
        // Whoever writes a slash or a dot at the end means a directory, be it behind a link.
        let means_directory = place.ends_in_slash() || is_dots(&place.shown);
        let found = client.attributes_of_each(vec![place.target.clone()], wanted, means_directory).await;
        let attributes = match found.map_err(Failure::failed)?.pop() {
            Some(Ok(attributes)) if means_directory && !attributes.is(Kind::Directory) => {
                let words = errno_words(Errno::NOTDIR.raw_os_error());
                session.complain(format_args!("{}: {words}", quoted(&place.shown)));
                return Ok(());
            }
            Some(Ok(attributes)) => attributes,
            Some(Err(error)) => {
                say(session, &place, &error);
                return Ok(());
            }
            None => return Ok(()),
        };
        self.start = place.shown.clone().into();
        self.is_link = false;
        if means_directory {
            let itself =
                client.attributes_of_each(vec![place.target.clone()], AttributeSet::KIND, false).await;
            let itself = itself.map_err(Failure::failed)?.pop();
            self.is_link = itself.is_some_and(|it| it.is_ok_and(|it| it.is(Kind::SymbolicLink)));
        }
        let name = Bytes::copy_from_slice(place.name());
        let name = if name.is_empty() { self.start.clone() } else { name };
        let mut stack = Vec::new();
        let found = Found { place, name, attributes, depth: 0, parent: None };
        match found.attributes.is(Kind::Directory) {
            true => self.take(session, found, &mut stack),
            false => drop(self.judge_found(session, &found, false)),
        }
        while !stack.is_empty() && !self.has_quit {
            let batch = stack.split_off(stack.len().saturating_sub(AT_ONCE));
            let batch = batch.into_iter().rev().collect();
            let below = self.read(session, &client, batch, wanted).await?;
            stack.extend(below.into_iter().rev());
            self.remove(session).await?;
        }
        self.judge_later(session).await
    }

    /// Reads directories, and takes what is in them; the directories among that.
    async fn read(
        &mut self,
        session: &mut Session,
        client: &Client,
        mut batch: Vec<Directory>,
        wanted: AttributeSet,
    ) -> Result<Vec<Directory>, Failure> {
        let targets = batch.iter().map(|directory| directory.place.target.clone()).collect();
        let mut walk = client.walk(targets, wanted, false);
        let (mut below, mut at) = (Vec::new(), 0);
        while let Some(found) = walk.next().await {
            let Some(directory) = batch.get_mut(at) else { break };
            at += usize::from(found.last);
            let entries = match found.entries {
                Ok(entries) => entries,
                Err(error @ Error::Connection(_)) => return Err(Failure::failed(error)),
                Err(error) => {
                    say(session, &directory.place, &error);
                    if let Some(later) = directory.later {
                        self.later[later].entries = None;
                    }
                    if let Some(waits) = directory.waits.take() {
                        self.judge_found(session, &waits, false);
                    }
                    continue;
                }
            };
            if let Some(waits) = directory.waits.take() {
                directory.is_pruned |= self.judge_found(session, &waits, entries.is_empty() && found.last);
            }
            if let Some(later) = directory.later {
                *self.later[later].entries.get_or_insert(0) += entries.len();
            }
            if directory.is_pruned || directory.depth >= self.expression.max_depth {
                continue;
            }
            for Entry { name, attributes, .. } in entries {
                let (depth, parent, start) = (directory.depth + 1, directory.later, self.start.clone());
                let place = || directory.place.join(&name);
                if attributes.kind.is_none() {
                    let shown = quoted(&place().shown).to_string();
                    session.complain(format_args!("{shown}: the server does not tell what it is"));
                    continue;
                }
                if attributes.is(Kind::Directory) {
                    let found = Found { place: place(), name, attributes, depth, parent };
                    self.take(session, found, &mut below);
                } else {
                    let (path, is_empty) = (joined(&directory.place.shown, &name), false);
                    let (path, start) = (&path[..], &start[..]);
                    let it = Candidate { path, name: &name, attributes: &attributes, start, depth, is_empty };
                    self.judge(session, &it, parent, place);
                }
                if self.has_quit {
                    return Ok(below);
                }
            }
            if self.doomed.len() >= DOOMED {
                self.remove(session).await?;
            }
        }
        Ok(below)
    }

    /// Judges a directory now or notes it for later; puts it on the list if it is to be read.
    fn take(&mut self, session: &mut Session, found: Found, below: &mut Vec<Directory>) {
        let (place, depth) = (found.place.clone(), found.depth);
        let asks_if_empty = self.expression.asks_if_empty();
        let is_read = depth < self.expression.max_depth || asks_if_empty;
        let mut directory = Directory { place, depth, waits: None, later: None, is_pruned: false };
        if self.expression.is_depth_first {
            directory.later = Some(self.later.len());
            self.later.push(Later { found, entries: None });
        } else if asks_if_empty {
            directory.waits = Some(found);
        } else {
            directory.is_pruned = self.judge_found(session, &found, false);
        }
        if is_read && !directory.is_pruned {
            below.push(directory);
        }
    }

    /// Judges the directories that were left, what is in a directory before it.
    async fn judge_later(&mut self, session: &mut Session) -> Result<(), Failure> {
        while !self.has_quit && !self.later.is_empty() {
            // Whether a directory is empty is known when all that was in it is gone.
            if self.last_parent.is_some_and(|last| last + 1 >= self.later.len()) || self.doomed.len() > DOOMED
            {
                self.remove(session).await?;
            }
            let Some(Later { found, entries }) = self.later.pop() else { break };
            self.judge_found(session, &found, entries == Some(0));
        }
        self.later.clear();
        self.remove(session).await
    }

    fn judge_found(&mut self, session: &mut Session, found: &Found, is_empty: bool) -> bool {
        let Found { place, name, attributes, depth, parent } = found;
        let (path, start, depth) = (&place.shown[..], &self.start.clone()[..], *depth);
        let it = Candidate { path, name, attributes, start, depth, is_empty };
        self.judge(session, &it, *parent, || place.clone())
    }

    /// Does what the expression says; whether nothing is to be looked for in it.
    fn judge(
        &mut self,
        session: &mut Session,
        it: &Candidate,
        parent: Option<usize>,
        place: impl Fn() -> Place,
    ) -> bool {
        if it.depth < self.expression.min_depth || self.has_quit {
            return false;
        }
        let Search { expression, json, people, doomed, last_parent, is_link, has_quit, .. } = self;
        let mut is_pruned = false;
        expression.run(it, &mut |act| match act {
            _ if *has_quit => {}
            Act::Print(_) | Act::Format(_) if *json => session.say(object(it)),
            Act::Print(end) => {
                session.print(it.path);
                session.print([end]);
            }
            Act::Format(format) => session.print(format.of(it, people)),
            Act::Prune => is_pruned = true,
            // Nobody can remove where he stands: that is passed over, and by any other such name is an error.
            Act::Delete if it.depth == 0 && it.path == b"." => {}
            Act::Delete if it.depth == 0 && is_dots(it.path) => {
                let words = errno_words(Errno::INVAL.raw_os_error());
                session.complain(format_args!("cannot delete {}: {words}", quoted(it.path)));
            }
            Act::Delete if it.depth == 0 && it.path.ends_with(b"/") && *is_link => {
                let words = errno_words(Errno::NOTDIR.raw_os_error());
                session.complain(format_args!("cannot delete {}: {words}", quoted(it.path)));
            }
            Act::Delete => {
                doomed.push((place(), parent));
                *last_parent = parent.max(*last_parent);
            }
            Act::Quit => *has_quit = true,
        });
        is_pruned && !expression.is_depth_first
    }

    /// Removes what is doomed.
    async fn remove(&mut self, session: &mut Session) -> Result<(), Failure> {
        self.last_parent = None;
        let doomed = std::mem::take(&mut self.doomed);
        for doomed in doomed.chunks(REMOVED_AT_ONCE) {
            let steps = doomed.iter().map(|(place, _)| Step::Remove(place.target.clone())).collect();
            let results = doomed[0].0.client.execute_each(steps).await.map_err(Failure::failed)?;
            for ((place, parent), result) in doomed.iter().zip(results) {
                match result {
                    Ok(_) => {
                        let parent = parent.and_then(|parent| self.later.get_mut(parent));
                        if let Some(entries) = parent.and_then(|parent| parent.entries.as_mut()) {
                            *entries = entries.saturating_sub(1);
                        }
                    }
                    Err(error) => session.cannot("delete", &place.shown, &error),
                }
            }
        }
        Ok(())
    }
}

/// Whether the last name is `.` or `..`.
fn is_dots(shown: &[u8]) -> bool {
    matches!(trimmed(shown).rsplit(|byte| *byte == b'/').next(), Some(b"." | b".."))
}

fn say(session: &mut Session, place: &Place, error: &Error) {
    session.complain(format_args!("{}: {}", quoted(&place.shown), words(error)));
}

/// What `ls --json` tells, and the path.
fn object(it: &Candidate) -> Value {
    let mut object = crate::files::stat::object(it.attributes);
    object["name"] = String::from_utf8_lossy(it.name).into();
    object["path"] = String::from_utf8_lossy(it.path).into();
    object
}
