//! What is done next.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::Ordering;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

use super::batch::{Copied, Ends, Piece, is_content, may_do_without_owner, preserved};
use super::folder::{Folder, Reading};
use super::open::{EXISTING, Listed, Made, Opened, Opening};
use super::options::{CopyAct, CopyItem, CopyWatch, Links, Make};
use crate::step::{Done, Step};
use crate::{Attributes, Error, Kind, NewAttributes, Target};

/// Calls under way at once, and of those how many for large files.
const JOBS: usize = 8;
const LARGE_JOBS: usize = 2;

/// Objects of one batch, and bytes with what goes beside those of a file: what fits into one message.
const BATCH: usize = 128;
const BATCH_BYTES: u64 = 1 << 20;
const BESIDE: u64 = 1 << 10;

/// A larger file goes alone.
const SMALL: u64 = 512 << 10;

/// Directories opened at once.
const DIRECTORIES: usize = 128;

/// As long as so many objects wait, no further directory is read.
const WAITING: usize = 2048;

/// As long as more than this of a directory is not copied, no further page of it is read.
const AHEAD: usize = 512;

type Job<'a> = BoxFuture<'a, Result<Outcome, Error>>;

enum Outcome {
    Opened(Vec<Opened>),
    Copied(Vec<(Piece, Copied)>),
    Large(Box<(Piece, Copied)>),
    Linked(Vec<(Piece, Target, Result<(), Error>)>),
    Closed(Vec<(u64, Result<(), Error>)>),
}

/// Which object it is, within a client.
type Identity = ((u64, u64), u64);

pub(super) struct Run<'a> {
    ends: &'a Ends<'a>,
    watch: &'a mut dyn CopyWatch,
    folders: HashMap<u64, Folder>,
    next: u64,
    /// Directories to be made or read, the next one last.
    stack: Vec<u64>,
    small: VecDeque<Piece>,
    small_bytes: u64,
    large: VecDeque<Piece>,
    /// Further names of what is copied already, or about to be.
    links: VecDeque<(Target, Piece)>,
    /// The copy of each file with names that are still to come, and how many those are.
    seen: HashMap<Identity, (Target, u32)>,
    /// Directories that need their attributes.
    closing: Vec<u64>,
    /// What the copies of the arguments are.
    roots: HashSet<Identity>,
    opening: bool,
    copying: usize,
    copying_large: usize,
    failed: u64,
}

impl<'a> Run<'a> {
    pub fn new(ends: &'a Ends<'a>, watch: &'a mut dyn CopyWatch) -> Run<'a> {
        Run {
            ends,
            watch,
            folders: HashMap::new(),
            next: 0,
            stack: Vec::new(),
            small: VecDeque::new(),
            small_bytes: 0,
            large: VecDeque::new(),
            links: VecDeque::new(),
            seen: HashMap::new(),
            closing: Vec::new(),
            roots: HashSet::new(),
            opening: false,
            copying: 0,
            copying_large: 0,
            failed: 0,
        }
    }

    pub async fn copy(mut self, copies: Vec<(Target, Target)>) -> Result<u64, Error> {
        self.arguments(copies).await?;
        let mut jobs = FuturesUnordered::new();
        loop {
            while jobs.len() < JOBS
                && let Some(job) = self.job(jobs.is_empty())
            {
                jobs.push(job);
            }
            let next = poll_fn(|context| {
                let polled = jobs.poll_next_unpin(context);
                if polled.is_pending() {
                    // Something has moved, or else nobody would have looked.
                    self.watch.moving(self.ends.moving.load(Ordering::Relaxed));
                }
                polled
            });
            match next.await {
                Some(outcome) => self.settle(outcome?),
                None => return Ok(self.failed),
            }
        }
    }

    async fn arguments(&mut self, copies: Vec<(Target, Target)>) -> Result<(), Error> {
        let ends = self.ends;
        let sources = copies.iter().map(|(source, _)| source.clone()).collect();
        let follow = ends.options.links != Links::Keep;
        let found = ends.from.attributes_of_each(sources, ends.wanted(), follow).await?;
        let mut items = Vec::new();
        for (argument, ((source, destination), attributes)) in copies.into_iter().zip(found).enumerate() {
            let mut item =
                CopyItem { argument, source, destination, attributes: Attributes::default(), existing: None };
            match attributes {
                Ok(attributes) => {
                    item.attributes = attributes;
                    items.push(item);
                }
                Err(error) => self.fail(&item, &CopyAct::Find, Some(&error)),
            }
        }
        let ask = |item: &CopyItem| Step::GetAttributes {
            target: item.destination.clone(),
            wanted: EXISTING,
            follow: !item.attributes.is(Kind::SymbolicLink),
        };
        let there = ends.to.execute_each(items.iter().map(ask).collect()).await?;
        for (mut item, there) in items.into_iter().zip(there) {
            match there {
                Ok(Done::Attributes(there)) => item.existing = Some(*there),
                Err(error) if !error.is_not_found() => {
                    self.fail(&item, &CopyAct::FindDestination, Some(&error));
                    continue;
                }
                _ => {}
            }
            self.take(item, None);
        }
        self.stack.reverse();
        Ok(())
    }

    fn fail(&mut self, item: &CopyItem, act: &CopyAct, error: Option<&Error>) {
        self.failed += 1;
        self.watch.failed(item, act, error);
    }

    /// Decides what becomes of an object.
    fn take(&mut self, item: CopyItem, folder: Option<u64>) {
        let is_directory = item.attributes.is(Kind::Directory);
        if let Some(act) = self.objection(&item, folder) {
            return self.fail(&item, &act, None);
        }
        if !is_directory && item.existing.is_some() && !self.watch.may_replace(&item) {
            return;
        }
        if let Some(folder) = folder.and_then(|folder| self.folders.get_mut(&folder)) {
            folder.below += 1;
        }
        if is_directory {
            return self.descend(item, folder);
        }
        if self.is_further_name(&item, folder) {
            return;
        }
        let size = item.attributes.size.unwrap_or(0);
        if is_content(&item, self.ends.options) && size > SMALL {
            self.large.push_back(Piece { item, folder });
        } else {
            self.small_bytes += weight(&item, self.ends);
            self.small.push_back(Piece { item, folder });
        }
    }

    /// Why it cannot be copied.
    fn objection(&self, item: &CopyItem, folder: Option<u64>) -> Option<CopyAct> {
        let (options, attributes) = (self.ends.options, &item.attributes);
        let is_directory = attributes.is(Kind::Directory);
        let own = identity(attributes);
        let there = item.existing.as_ref();
        if is_directory && !options.recursive {
            return Some(CopyAct::OmitDirectory);
        }
        if self.ends.same && own.is_some() {
            if is_directory && self.roots.contains(&own?) {
                return Some(CopyAct::IntoItself);
            }
            if there.is_some_and(|there| identity(there) == own) {
                return Some(CopyAct::SameFile);
            }
        }
        if !self.ends.same && there.is_some_and(|there| attributes.may_be_of_one_with(there)) && !is_directory
        {
            return Some(CopyAct::SameFile);
        }
        if is_directory && options.links == Links::Follow && self.is_above(folder, own) {
            return Some(CopyAct::Cycle);
        }
        match there {
            Some(there) if is_directory && !there.is(Kind::Directory) => Some(CopyAct::OverFile),
            Some(there) if !is_directory && there.is(Kind::Directory) => Some(CopyAct::OverDirectory),
            _ if !matches!(attributes.kind, Some(Kind::File | Kind::Directory | Kind::SymbolicLink))
                && options.make == Make::Copy =>
            {
                Some(CopyAct::MakeSpecial)
            }
            _ => None,
        }
    }

    fn is_above(&self, mut folder: Option<u64>, own: Option<Identity>) -> bool {
        while let Some(above) = folder.and_then(|folder| self.folders.get(&folder)) {
            if own.is_some() && identity(&above.item.attributes) == own {
                return true;
            }
            folder = above.parent;
        }
        false
    }

    fn descend(&mut self, item: CopyItem, parent: Option<u64>) {
        let folder = Folder {
            item,
            parent,
            below: 0,
            reading: Reading::Unmade,
            before: None,
            mode_is_provisional: false,
        };
        self.folders.insert(self.next, folder);
        self.stack.push(self.next);
        self.next += 1;
    }

    /// Whether it is another name of something that was met before, and so needs no copy of its own.
    fn is_further_name(&mut self, item: &CopyItem, folder: Option<u64>) -> bool {
        let options = self.ends.options;
        let links = item.attributes.links.unwrap_or(1);
        let counts = options.preserve.links && links > 1 && options.make == Make::Copy;
        let Some(own) = identity(&item.attributes).filter(|_| counts) else { return false };
        let Some((first, left)) = self.seen.get_mut(&own) else {
            self.seen.insert(own, (item.destination.clone(), links - 1));
            return false;
        };
        *left -= 1;
        let (first, left) = (first.clone(), *left);
        if left == 0 {
            self.seen.remove(&own);
        }
        self.links.push_back((first, Piece { item: item.clone(), folder }));
        true
    }

    /// What to do beside what is under way; nothing if that has to be waited for.
    fn job(&mut self, idle: bool) -> Option<Job<'a>> {
        let full = self.small.len() >= BATCH || self.small_bytes >= BATCH_BYTES;
        if full {
            return Some(self.copy_small());
        }
        if self.copying_large < LARGE_JOBS
            && let Some(piece) = self.large.pop_front()
        {
            self.copying_large += 1;
            let ends = self.ends;
            return Some(Box::pin(async move {
                let copied = ends.large(&piece.item).await?;
                Ok(Outcome::Large(Box::new((piece, copied))))
            }));
        }
        let waiting = self.small.len() + self.large.len() + self.links.len();
        if !self.opening && !self.stack.is_empty() && waiting < WAITING {
            return Some(self.open_folders());
        }
        if self.closing.len() >= BATCH {
            return Some(self.close_folders());
        }
        if self.opening || !self.stack.is_empty() && !idle {
            return None;
        }
        if !self.small.is_empty() {
            return Some(self.copy_small());
        }
        if self.copying + self.copying_large == 0 && !self.links.is_empty() {
            return Some(self.link());
        }
        (!self.closing.is_empty()).then(|| self.close_folders())
    }

    fn copy_small(&mut self) -> Job<'a> {
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        while pieces.len() < BATCH
            && let Some(piece) = self.small.front()
        {
            bytes += weight(&piece.item, self.ends);
            if bytes > BATCH_BYTES && !pieces.is_empty() {
                break;
            }
            self.small_bytes -= weight(&piece.item, self.ends);
            pieces.extend(self.small.pop_front());
        }
        self.copying += 1;
        let ends = self.ends;
        Box::pin(async move { Ok(Outcome::Copied(ends.batch(pieces).await?)) })
    }

    fn open_folders(&mut self) -> Job<'a> {
        self.opening = true;
        let mut openings = Vec::new();
        for id in self.stack.split_off(self.stack.len().saturating_sub(DIRECTORIES)).into_iter().rev() {
            let Some(folder) = self.folders.get_mut(&id) else { continue };
            let is_made = folder.reading != Reading::Unmade;
            let from = match folder.reading {
                Reading::Asked(from) => from,
                _ => None,
            };
            let mode = self.ends.mode_of_directory(&folder.item);
            let identify = folder.parent.is_none() && self.ends.same && !is_made;
            openings.push(Opening { folder: id, item: folder.item.clone(), is_made, mode, from, identify });
        }
        let ends = self.ends;
        Box::pin(async move { Ok(Outcome::Opened(ends.open(openings).await?)) })
    }

    fn link(&mut self) -> Job<'a> {
        let links: Vec<_> = self.links.drain(..self.links.len().min(BATCH)).collect();
        self.copying += 1;
        let ends = self.ends;
        Box::pin(async move {
            let mut steps = Vec::new();
            for (first, Piece { item, .. }) in &links {
                if item.existing.is_some() {
                    steps.push(Step::Remove(item.destination.clone()));
                }
                steps.push(Step::HardLink { existing: first.clone(), new: item.destination.clone() });
            }
            let mut results = ends.to.execute_each(steps).await?.into_iter();
            let linked = links.into_iter().map(|(first, piece)| {
                let removed = piece.item.existing.as_ref().and_then(|_| results.next());
                let _ = removed; // if it failed, so does the link
                let result = results.next().map_or(Ok(()), |result| result.map(|_| ()));
                (piece, first, result)
            });
            Ok(Outcome::Linked(linked.collect()))
        })
    }

    fn close_folders(&mut self) -> Job<'a> {
        // Those that have waited for longest.
        let ids: Vec<_> = self.closing.drain(..self.closing.len().min(BATCH)).collect();
        let changes: Vec<_> = ids.iter().filter_map(|id| self.last_change(*id)).collect();
        let ends = self.ends;
        Box::pin(async move {
            let set = |(target, attributes): &(Target, NewAttributes)| Step::SetAttributes {
                target: target.clone(),
                attributes: attributes.clone(),
                follow: true,
            };
            let mut results = ends.to.execute_each(changes.iter().map(set).collect()).await?;
            for ((target, attributes), result) in changes.into_iter().zip(&mut results) {
                if let Err(error) = result
                    && may_do_without_owner(&attributes, error)
                {
                    let attributes = NewAttributes { owner: None, group: None, ..attributes };
                    let again = ends.to.execute_each(vec![set(&(target, attributes))]).await?.pop();
                    *result = again.unwrap_or(Ok(Done::Nothing));
                }
            }
            let results = results.into_iter().map(|result| result.map(|_| ()));
            Ok(Outcome::Closed(ids.into_iter().zip(results).collect()))
        })
    }

    /// What a directory is to get when nothing in it changes any more.
    fn last_change(&self, id: u64) -> Option<(Target, NewAttributes)> {
        let folder = self.folders.get(&id)?;
        let mut new = preserved(&folder.item, self.ends.options.preserve);
        if folder.mode_is_provisional && new.mode.is_none() {
            new.mode = Some(self.ends.final_mode(&folder.item));
        }
        Some((folder.item.destination.clone(), new))
    }

    fn settle(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Opened(opened) => {
                self.opening = false;
                // What could not be read yet comes first the next time.
                opened.into_iter().rev().for_each(|opened| self.opened(opened));
            }
            Outcome::Copied(pieces) => {
                self.copying -= 1;
                pieces.into_iter().for_each(|(piece, copied)| self.copied(&piece, copied));
            }
            Outcome::Large(large) => {
                let (piece, copied) = *large;
                self.copying_large -= 1;
                self.copied(&piece, copied);
            }
            Outcome::Linked(links) => {
                self.copying -= 1;
                for (piece, first, result) in links {
                    match result {
                        Ok(()) => self.copied(&piece, Ok(0)),
                        Err(error) => self.copied(&piece, Err((CopyAct::MakeHardLink(first), error))),
                    }
                }
            }
            Outcome::Closed(folders) => {
                for (id, result) in folders {
                    let item = self.folders.get(&id).map(|folder| folder.item.clone());
                    if let (Err(error), Some(item)) = (&result, item) {
                        self.fail(&item, &CopyAct::SetAttributes, Some(error));
                    }
                    self.leave(id);
                }
            }
        }
    }

    fn copied(&mut self, piece: &Piece, copied: Copied) {
        match copied {
            Ok(bytes) => self.watch.copied(&piece.item, bytes),
            Err((act, error)) => self.fail(&piece.item, &act, Some(&error)),
        }
        self.one_less(piece.folder);
    }

    fn opened(&mut self, opened: Opened) {
        let Opened { opening, made, page, identity: own } = opened;
        let id = opening.folder;
        let made = match made {
            Ok(made) => made,
            Err((act, error)) => {
                self.fail(&opening.item, &act, Some(&error));
                return self.leave(id);
            }
        };
        self.roots.extend(own.as_ref().and_then(identity));
        let Some(folder) = self.folders.get_mut(&id) else { return };
        if !opening.is_made {
            folder.reading = Reading::Asked(None);
            match made {
                Made::New => {
                    folder.mode_is_provisional = opening.mode != self.ends.final_mode(&opening.item);
                    self.watch.copied(&opening.item, 0);
                }
                Made::There(before) => folder.before = Some(before),
                Made::Before => {}
            }
        }
        match page {
            None => self.stack.push(id),
            Some(Ok(listed)) => self.listed(id, &opening.item, listed),
            Some(Err(error)) => {
                folder.complete();
                self.fail(&opening.item, &CopyAct::List, Some(&error));
            }
        }
        self.go_on(id);
    }

    fn listed(&mut self, id: u64, directory: &CopyItem, listed: Listed) {
        let item = |name: &bytes::Bytes, attributes: Attributes| CopyItem {
            argument: directory.argument,
            source: directory.source.join(name),
            destination: directory.destination.join(name),
            attributes,
            existing: None,
        };
        for (entry, error) in listed.broken {
            self.fail(&item(&entry.name, entry.attributes), &CopyAct::Find, Some(&error));
        }
        for entry in listed.page.entries {
            let mut item = item(&entry.name, entry.attributes);
            let before = self.folders.get(&id).and_then(|folder| folder.before.as_ref());
            item.existing = before.and_then(|before| before.get(&entry.name)).cloned();
            if self.watch.wants(&item) {
                self.take(item, Some(id));
            }
        }
        if let Some(folder) = self.folders.get_mut(&id) {
            match listed.page.next {
                Some(cookie) => folder.reading = Reading::At(cookie),
                None => folder.complete(),
            }
        }
    }

    /// Goes on with a directory if it is time to.
    fn go_on(&mut self, id: u64) {
        let Some(folder) = self.folders.get_mut(&id) else { return };
        match folder.reading {
            Reading::At(cookie) if folder.below <= AHEAD => {
                folder.reading = Reading::Asked(Some(cookie));
                self.stack.push(id);
            }
            Reading::Complete if folder.below == 0 => {
                if self.ends.options.preserve.any_attribute() || folder.mode_is_provisional {
                    self.closing.push(id);
                } else {
                    self.leave(id);
                }
            }
            _ => {}
        }
    }

    /// Nothing more is to be done for this directory.
    fn leave(&mut self, id: u64) {
        if let Some(folder) = self.folders.remove(&id) {
            self.one_less(folder.parent);
        }
    }

    fn one_less(&mut self, folder: Option<u64>) {
        if let Some(id) = folder
            && let Some(folder) = self.folders.get_mut(&id)
        {
            folder.below -= 1;
            self.go_on(id);
        }
    }
}

impl Ends<'_> {
    /// Permission bits that a directory is to have, if they are not those of the original.
    fn final_mode(&self, item: &CopyItem) -> u32 {
        item.attributes.mode.unwrap_or(0o777) & 0o1777 & !self.options.umask
    }

    /// Permission bits that a directory is made with: something has to be put into it.
    fn mode_of_directory(&self, item: &CopyItem) -> u32 {
        let mode = self.final_mode(item);
        if self.options.preserve.owner { mode & 0o700 | 0o700 } else { mode | 0o700 }
    }
}

/// What it adds to a batch.
fn weight(item: &CopyItem, ends: &Ends) -> u64 {
    let data = if is_content(item, ends.options) { item.attributes.size.unwrap_or(0) } else { 0 };
    data + BESIDE
}

fn identity(attributes: &Attributes) -> Option<Identity> {
    Some((attributes.file_system?, attributes.file_id?))
}
