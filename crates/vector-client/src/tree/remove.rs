use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use nfs4::FileHandle;

use super::{DIRECTORIES, is_fatal};
use crate::listing::{Cookie, Directory, Entry, Page, PageResult};
use crate::nfs::REMOVALS;
use crate::{AttributeSet, Client, Error, Failure, Kind, Target};

/// What is asked of names. By its handle a directory is found again, and nothing else that somebody has put in its place: a symbolic link
/// would lead out of the tree. Local files have none, and are looked up without following any.
const WANTED: AttributeSet = AttributeSet::KIND.with(AttributeSet::HANDLE);

/// Calls at once.
const PARALLEL: usize = 4;

/// How often a directory is read that others fill meanwhile.
const TRIES: u32 = 4;

/// What becomes of a name in a tree that is removed.
#[derive(Debug)]
pub struct Removal<'a> {
    /// Which of the trees.
    pub argument: usize,
    /// The name.
    pub target: &'a Target,
    /// Whether it is, or was, a directory.
    pub is_directory: bool,
    /// Whether it is gone; a directory of which something had to stay is not spoken of.
    pub result: Result<(), &'a Error>,
}

impl Client {
    /// Removes these names with all below them (V19), and tells of each; how many could not be removed. Symbolic links
    /// are removed, not followed. Memory grows with the depth of the trees, not with their size.
    ///
    /// # Errors
    /// What ended it all before its end: the server is gone.
    pub async fn rm_recursive(
        &self,
        targets: Vec<Target>,
        each: impl FnMut(Removal<'_>),
    ) -> Result<u64, Error> {
        self.rm_recursive_but(targets, |_| false, each).await
    }

    /// As [`rm_recursive`](Self::rm_recursive), but what `stays` below these names is left alone, with all below it, and so is every
    /// directory that such a thing is in. That is no failure.
    ///
    /// # Errors
    /// What ended it all before its end: the server is gone.
    pub async fn rm_recursive_but(
        &self,
        targets: Vec<Target>,
        stays: impl FnMut(&Target) -> bool,
        each: impl FnMut(Removal<'_>),
    ) -> Result<u64, Error> {
        let kinds = self.attributes_of_each(targets.clone(), WANTED, false).await?;
        let mut run = Run { each, stays, folders: HashMap::new(), stack: Vec::new(), next: 0, failed: 0 };
        let mut doomed = Doomed::default();
        for (argument, (target, kind)) in targets.into_iter().zip(kinds).enumerate() {
            match kind {
                Ok(attributes) if attributes.is(Kind::Directory) => {
                    let place = Place { target: target.clone(), name: target };
                    run.descend(argument, place, attributes.handle, None);
                }
                Ok(_) => {
                    let place = Place { target: target.clone(), name: target };
                    doomed.names.push(Name { argument, place, parent: None, folder: None });
                }
                Err(error) => run.tell(argument, &target, false, Err(&error)),
            }
        }
        run.stack.reverse();
        while !doomed.names.is_empty() || !doomed.folders.is_empty() || !run.stack.is_empty() {
            let asked = run.ask();
            let directories = run.directories(&asked);
            // What was found last goes while the next directories are read.
            let gone = remove(self, doomed, |fates| run.settle(fates));
            let (pages, gone) = futures::join!(read(self, directories), gone);
            gone?;
            doomed = run.plan(asked, pages)?;
        }
        Ok(run.failed)
    }
}

async fn read(client: &Client, directories: Vec<Directory>) -> Vec<PageResult> {
    match directories.is_empty() {
        true => Vec::new(),
        false => client.backend.read_directories(directories).await,
    }
}

/// Removes all of these, what is in directories before the directories; tells what became of them as soon as that is known.
async fn remove(
    client: &Client,
    doomed: Doomed,
    mut settle: impl FnMut(Vec<(Name, Fate)>),
) -> Result<(), Error> {
    let mut stays = HashSet::new();
    let most = client.backend.removals();
    let Doomed { mut names, mut folders } = doomed;
    if names.len() + folders.len() <= most {
        names.append(&mut folders);
    }
    let mut names = names.into_iter();
    let parts = std::iter::from_fn(|| {
        let part: Vec<Name> = names.by_ref().take(most).collect();
        (!part.is_empty()).then_some(part)
    });
    let parts = parts.map(|part| async {
        let mut stays = HashSet::new();
        let fates = in_order(client, part, &mut stays).await;
        fates.map(|fates| (fates, stays))
    });
    let mut parts = stream::iter(parts).buffer_unordered(PARALLEL);
    while let Some(part) = parts.next().await {
        let (fates, more_stays) = part?;
        settle(fates);
        stays.extend(more_stays);
    }
    settle(in_order(client, folders, &mut stays).await?);
    Ok(())
}

/// Removes these one after the other; directories in which something stays are left alone.
async fn in_order(
    client: &Client,
    names: Vec<Name>,
    stays: &mut HashSet<u64>,
) -> Result<Vec<(Name, Fate)>, Error> {
    let mut left = VecDeque::from(names);
    let mut fates = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let mut part = Vec::new();
        while part.len() < REMOVALS
            && let Some(name) = left.pop_front()
        {
            if name.folder.is_some_and(|folder| stays.contains(&folder)) {
                stays.extend(name.parent);
                fates.push((name, Fate::Skipped));
            } else {
                part.push(name);
            }
        }
        let targets = part.iter().map(|name| name.place.name.clone()).collect();
        let failure = match client.vremove(targets).await {
            Ok(_) => None,
            Err(failure) if is_fatal(&failure) => return Err(failure.error),
            Err(failure) => Some(failure),
        };
        let gone = failure.as_ref().map_or(part.len(), Failure::index);
        let rest = part.split_off(gone);
        fates.extend(part.into_iter().map(|name| (name, Fate::Gone)));
        let mut rest = rest.into_iter();
        if let (Some(failure), Some(name)) = (failure, rest.next()) {
            if !failure.error.is_not_found() {
                stays.extend(name.parent);
            }
            let error = failure.error.of(&name.place.target);
            fates.push((name, Fate::Failed(error)));
        }
        rest.rev().for_each(|name| left.push_front(name));
    }
    Ok(fates)
}

/// Where something in a tree is.
#[derive(Clone)]
struct Place {
    /// The path by which it is spoken of.
    target: Target,
    /// What it is removed by.
    name: Target,
}

impl Place {
    /// What this is read by if it is a directory, and what is in it found by.
    fn directory(&self, handle: Option<FileHandle>) -> Target {
        match handle {
            Some(handle) => Target::at(handle, Bytes::new()),
            None => self.name.clone().firm(),
        }
    }
}

/// What can be removed now.
#[derive(Default)]
struct Doomed {
    names: Vec<Name>,
    /// Directories that are empty once the names are gone, those below others first.
    folders: Vec<Name>,
}

/// A name to remove.
struct Name {
    argument: usize,
    place: Place,
    /// The directory it is in.
    parent: Option<u64>,
    /// If it is a directory.
    folder: Option<u64>,
}

/// A directory that is not gone yet.
struct Folder {
    argument: usize,
    place: Place,
    /// What it is read by.
    directory: Target,
    parent: Option<u64>,
    /// Directories in it that are not gone yet.
    below: usize,
    /// Where reading it goes on; once what came so far is gone.
    from: Option<Cookie>,
    state: State,
    /// Whether something in it has to stay.
    stays: bool,
    tries: u32,
    /// Why it cannot be read, but it may be empty all the same; or why it cannot be removed.
    unreadable: Option<Error>,
}

#[derive(PartialEq)]
enum State {
    /// To be read.
    Waiting,
    /// There is more to read.
    Partial,
    /// All was read.
    Read,
    /// About to be removed.
    Doomed,
}

enum Fate {
    Gone,
    Failed(Error),
    /// Not tried, because something in it stays.
    Skipped,
}

struct Run<F, S> {
    each: F,
    /// What is not to be removed.
    stays: S,
    folders: HashMap<u64, Folder>,
    /// Directories to be read, the next one last.
    stack: Vec<u64>,
    next: u64,
    failed: u64,
}

impl<F: FnMut(Removal<'_>), S: FnMut(&Target) -> bool> Run<F, S> {
    fn descend(&mut self, argument: usize, place: Place, handle: Option<FileHandle>, parent: Option<u64>) {
        let folder = Folder {
            argument,
            directory: place.directory(handle),
            place,
            parent,
            below: 0,
            from: None,
            state: State::Waiting,
            stays: false,
            tries: 0,
            unreadable: None,
        };
        self.folders.insert(self.next, folder);
        self.stack.push(self.next);
        self.next += 1;
    }

    fn tell(&mut self, argument: usize, target: &Target, is_directory: bool, result: Result<(), &Error>) {
        self.failed += u64::from(result.is_err());
        (self.each)(Removal { argument, target, is_directory, result });
    }

    fn ask(&mut self) -> Vec<u64> {
        let rest = self.stack.len().saturating_sub(DIRECTORIES);
        let mut asked = self.stack.split_off(rest);
        asked.reverse();
        asked
    }

    fn directories(&self, asked: &[u64]) -> Vec<Directory> {
        let directory = |folder: &Folder| Directory {
            target: folder.directory.clone(),
            from: folder.from,
            wanted: WANTED,
        };
        asked.iter().filter_map(|id| self.folders.get(id)).map(directory).collect()
    }

    /// What can be removed after these were read.
    fn plan(&mut self, asked: Vec<u64>, pages: Vec<PageResult>) -> Result<Doomed, Error> {
        let names = pages.iter().flatten().map(|page| page.entries.len()).sum();
        let mut doomed = Doomed { names: Vec::with_capacity(names), folders: Vec::new() };
        self.stack.extend(asked.iter().skip(pages.len()).rev());
        for (id, page) in asked.into_iter().zip(pages) {
            let Some(folder) = self.folders.get_mut(&id) else { continue };
            let (argument, target, directory) =
                (folder.argument, folder.place.target.clone(), folder.directory.clone());
            let page = page.unwrap_or_else(|error| {
                folder.unreadable = Some(error.of(&target));
                Page::default()
            });
            if let Some(Error::Connection(_)) = folder.unreadable
                && let Some(error) = folder.unreadable.take()
            {
                return Err(error);
            }
            folder.from = page.next;
            folder.state = if page.next.is_some() { State::Partial } else { State::Read };
            let mut directories = Vec::new();
            for Entry { name, attributes } in page.entries {
                let place = Place { target: target.join(&name), name: directory.join(&name) };
                if (self.stays)(&place.target) {
                    folder.stays = true;
                } else if attributes.is(Kind::Directory) {
                    folder.below += 1;
                    directories.push((place, attributes.handle));
                } else {
                    doomed.names.push(Name { argument, place, parent: Some(id), folder: None });
                }
            }
            for (place, handle) in directories {
                self.descend(argument, place, handle, Some(id));
            }
            self.finish(id, &mut doomed.folders);
        }
        Ok(doomed)
    }

    /// Goes on with a directory of which all that was read is gone or about to go, and with those above it.
    fn finish(&mut self, id: u64, doomed: &mut Vec<Name>) {
        let mut next = Some(id);
        while let Some(id) = next {
            let Some(folder) = self.folders.get_mut(&id).filter(|folder| folder.below == 0) else { return };
            match folder.state {
                State::Partial => {
                    folder.state = State::Waiting;
                    self.stack.push(id);
                    return;
                }
                State::Waiting | State::Doomed => return,
                State::Read => folder.state = State::Doomed,
            }
            let (argument, place, parent) = (folder.argument, folder.place.clone(), folder.parent);
            let stays = folder.stays;
            if stays {
                self.leave(id);
            } else {
                doomed.push(Name { argument, place, parent, folder: Some(id) });
            }
            if let Some(above) = parent.and_then(|parent| self.folders.get_mut(&parent)) {
                above.below -= 1;
                above.stays |= stays;
            }
            next = parent;
        }
    }

    /// This directory stays.
    fn leave(&mut self, id: u64) {
        let Some(folder) = self.folders.remove(&id) else { return };
        if let Some(error) = folder.unreadable {
            self.tell(folder.argument, &folder.place.target, true, Err(&error));
        }
        if let Some(above) = folder.parent.and_then(|parent| self.folders.get_mut(&parent)) {
            above.stays = true;
        }
    }

    fn settle(&mut self, fates: Vec<(Name, Fate)>) {
        for (name, fate) in fates {
            let Name { argument, place: Place { target, .. }, parent, folder } = name;
            match (folder, fate) {
                (_, Fate::Gone) => {
                    folder.and_then(|folder| self.folders.remove(&folder));
                    self.tell(argument, &target, folder.is_some(), Ok(()));
                }
                (None, Fate::Failed(error)) => {
                    // Somebody else was faster.
                    if parent.is_none() || !error.is_not_found() {
                        self.tell(argument, &target, false, Err(&error));
                        if let Some(above) = parent.and_then(|parent| self.folders.get_mut(&parent)) {
                            above.stays = true;
                        }
                    }
                }
                (Some(id), Fate::Failed(error)) => self.stuck(id, error),
                (Some(id), Fate::Skipped) => match self.folders.get_mut(&id) {
                    Some(folder) if !folder.stays => {
                        folder.state = State::Read;
                        self.again_below(parent);
                    }
                    _ => self.leave(id),
                },
                (None, Fate::Skipped) => {}
            }
        }
    }

    /// A directory cannot be removed: because somebody put something into it, or for good.
    fn stuck(&mut self, id: u64, error: Error) {
        let Some(folder) = self.folders.get_mut(&id) else { return };
        if matches!(error.errno(), 39 | 17) && folder.unreadable.is_none() && folder.tries < TRIES {
            let parent = folder.parent;
            (folder.tries, folder.from, folder.state) = (folder.tries + 1, None, State::Waiting);
            self.stack.push(id);
            self.again_below(parent);
            return;
        }
        if folder.unreadable.is_none() {
            folder.unreadable = Some(error);
        }
        self.leave(id);
    }

    fn again_below(&mut self, parent: Option<u64>) {
        if let Some(above) = parent.and_then(|parent| self.folders.get_mut(&parent)) {
            above.below += 1;
        }
    }
}
