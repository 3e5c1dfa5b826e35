//! Archives into trees: many members in one round trip, parents first.
//!
//! Symbolic links come last, and empty files have their places until then (docs/decisions/0038).

mod make;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::future::try_join_all;
use tar::EntryType;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use vector_client::{
    AttributeSet, Attributes, Creation, Descriptor, Done, Error, Kind, NewAttributes, Open, Owner, SetTime,
    Step, Target, Time, Write,
};

use super::archive;
use crate::files::place::Place;
use crate::files::quote::quoted_if_needed;
use crate::files::session::{Session, words};
use crate::outcome::Failure;
use crate::progress::Progress;
use make::Guess;

/// Members made at once, and bytes of those; bytes of one piece of a larger file, and how many are written at once.
const MEMBERS: usize = 512;
const BYTES: usize = 8 << 20;
const PART: usize = 1 << 20;
const PARTS: usize = 8;

/// Pieces between decompressing and writing.
const QUEUE: usize = 16;

/// How the records of files with holes begin.
const SPARSE: &[u8] = b"GNU.sparse.";

/// Bytes of what a symbolic link leads to at most, as in Linux.
const LINK: usize = 4095;

const IN_ITS_PLACE: &str = "something else of the archive has its place, or is on the way";

/// Directories that are known to be there.
const KNOWN: usize = 100_000;

enum Piece {
    Member(Member),
    Data(Bytes),
}

/// What the archive says of a member.
struct Member {
    path: Vec<u8>,
    kind: EntryType,
    link: Option<Vec<u8>>,
    mode: u32,
    user: u32,
    group: u32,
    modified: u64,
    size: u64,
    /// Its content is that of a file with holes and where they are, as pax writes it.
    is_sparse: bool,
}

/// What new objects get of what the archive says of them.
pub struct Manner {
    pub umask: u32,
    pub same_permissions: bool,
    pub same_owner: bool,
    pub same_time: bool,
    pub verbose: bool,
}

struct Unpacker<'a> {
    session: &'a mut Session,
    root: Place,
    manner: Manner,
    known: HashSet<Target>,
    steps: Vec<Step>,
    bytes: usize,
    /// Symbolic links, by their path. They come last, so that nothing is written through one; an empty file has their place until then.
    links: BTreeMap<Bytes, Link>,
    /// By what has their place, of which there may be further names.
    placeholders: HashMap<Identity, Placeholder>,
    /// How many links there were; the number of the next one.
    links_seen: usize,
    /// Hard links that are still to be made, if there were symbolic ones before.
    further_names: HashSet<Bytes>,
    /// What directories are to get when all is in them, by their path.
    directories: BTreeMap<Bytes, NewAttributes>,
    /// Whether the names of files are taken already, and those of directories.
    files: Guess,
    folders: Guess,
}

/// Whether this says that something has the name already. Some servers say it of symbolic links in other words.
fn is_in_the_way(error: &Error) -> bool {
    error.is_exists() || error.errno() == 40
}

/// A symbolic link to be made.
struct Link {
    number: usize,
    text: Bytes,
    attributes: NewAttributes,
    /// What has its place, once that is there. A later member may have replaced it.
    placeholder: Option<Identity>,
    /// Whether a later member has the same path.
    has_successor: bool,
}

struct Placeholder {
    names: Vec<Bytes>,
    text: Bytes,
    attributes: NewAttributes,
}

/// By what a placeholder is known again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Identity {
    mode: Option<u32>,
    size: Option<u64>,
    file: Option<(u64, (u64, u64))>,
}

impl Identity {
    const WANTED: AttributeSet = AttributeSet::MODE
        .with(AttributeSet::SIZE)
        .with(AttributeSet::FILE_ID)
        .with(AttributeSet::FILE_SYSTEM);

    /// For a name that may be a further one.
    const WANTED_OF_NAME: AttributeSet = Identity::WANTED.with(AttributeSet::LINKS);

    fn of(it: &Attributes) -> Identity {
        Identity { mode: it.mode, size: it.size, file: it.file_id.zip(it.file_system) }
    }
}

/// What comes out of the archive, and how far that is read.
struct Pieces {
    receiver: Receiver<Piece>,
    count: Arc<AtomicU64>,
    length: Option<u64>,
    progress: Progress,
}

impl Pieces {
    async fn next(&mut self) -> Option<Piece> {
        self.progress.set(self.count.load(Ordering::Relaxed), self.length, true);
        self.receiver.recv().await
    }
}

pub async fn unpack(
    session: &mut Session,
    archive: &OsStr,
    root: Place,
    manner: Manner,
) -> Result<(), Failure> {
    let (sender, receiver) = channel(QUEUE);
    let shown = quoted_if_needed(archive.as_bytes());
    let archive: OsString = archive.to_owned();
    let count = Arc::new(AtomicU64::new(0));
    let (progress, length) = (Progress::new("untar").unless(manner.verbose), archive::length(&archive));
    let pieces = Pieces { receiver, count: count.clone(), length, progress };
    let reader = tokio::task::spawn_blocking(move || read(&archive, count, &sender));
    let mut unpacker = Unpacker {
        session,
        root,
        manner,
        known: HashSet::new(),
        steps: Vec::new(),
        bytes: 0,
        links: BTreeMap::new(),
        placeholders: HashMap::new(),
        links_seen: 0,
        further_names: HashSet::new(),
        directories: BTreeMap::new(),
        files: Guess::default(),
        folders: Guess::default(),
    };
    unpacker.all(pieces).await?;
    let read = reader.await.map_err(Failure::failed)?;
    read.map_err(|error| Failure::failed(format_args!("untar: {shown}: {error}")))
}

/// Reads the archive, on a thread of its own; ends when nobody listens any more.
fn read(archive: &OsStr, count: Arc<AtomicU64>, pieces: &Sender<Piece>) -> io::Result<()> {
    let mut archive = tar::Archive::new(archive::open(archive, count)?);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let header = entry.header();
        let number =
            |value: io::Result<u64>| value.ok().and_then(|value| value.try_into().ok()).unwrap_or(65534);
        let kind = header.entry_type();
        let is_file = matches!(kind, EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse);
        let is_sparse = match entry.pax_extensions()? {
            Some(mut records) => {
                records.any(|record| record.is_ok_and(|it| it.key_bytes().starts_with(SPARSE)))
            }
            None => false,
        };
        let header = entry.header();
        let member = Member {
            is_sparse,
            kind,
            mode: header.mode()? & 0o7777,
            user: number(header.uid()),
            group: number(header.gid()),
            modified: header.mtime()?,
            path: entry.path_bytes().into_owned(),
            link: entry.link_name_bytes().map(|link| link.into_owned()),
            size: if is_file { entry.size() } else { 0 },
        };
        let mut left = member.size;
        if pieces.blocking_send(Piece::Member(member)).is_err() {
            return Ok(());
        }
        while left > 0 {
            let mut data = Vec::new();
            let count = (&mut entry).take(left.min(PART as u64)).read_to_end(&mut data)? as u64;
            if count == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            left -= count;
            if pieces.blocking_send(Piece::Data(data.into())).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// A path that stays below where it begins, without `.`; `None` if it does not.
fn safe(path: &[u8]) -> Option<Vec<u8>> {
    let mut names = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => return None,
            name if name.contains(&0) => return None,
            name => names.push(name),
        }
    }
    Some(names.join(&b'/'))
}

impl Unpacker<'_> {
    async fn all(&mut self, mut pieces: Pieces) -> Result<(), Failure> {
        while let Some(piece) = pieces.next().await {
            if let Piece::Member(member) = piece {
                self.member(member, &mut pieces).await?;
            }
        }
        self.flush().await?;
        let directories: Vec<_> = std::mem::take(&mut self.directories).into_iter().collect();
        let before = self.directories_at(directories.iter().map(|(path, _)| path)).await?;
        let mut after = None;
        if !self.links.is_empty() {
            self.make_links().await?;
            after = Some(self.directories_at(directories.iter().map(|(path, _)| path)).await?);
        }
        let is_there = |(at, before): (usize, &Option<_>)| {
            before.is_some() && after.as_ref().is_none_or(|after| after[at] == *before)
        };
        let same: Vec<bool> = before.iter().enumerate().map(is_there).collect();
        // Those inside first: permissions may not let anybody in afterwards.
        for ((path, attributes), same) in directories.into_iter().zip(same).rev() {
            let (target, follow) = (self.at(&path), path == self.root.target.path());
            if same {
                self.steps.push(Step::SetAttributes { target, attributes, follow });
            } else {
                let shown = quoted_if_needed(&self.root.show(&target));
                let what = format_args!("{shown}: Cannot change owner, mode or time: {IN_ITS_PLACE}");
                self.session.complain_with(2, what);
            }
        }
        self.flush().await
    }

    /// What has this path below the root.
    fn at(&self, path: &Bytes) -> Target {
        Target::at(self.root.target.base().clone(), path.clone())
    }

    /// Which directories these paths lead to, as far as they lead to any.
    async fn directories_at(
        &self,
        paths: impl Iterator<Item = &Bytes>,
    ) -> Result<Vec<Option<(u64, (u64, u64))>>, Failure> {
        let root = self.root.target.path();
        let (mut files, mut left): (Vec<_>, VecDeque<_>) = (Vec::new(), paths.collect());
        while !left.is_empty() {
            let part = left.iter().take(MEMBERS).map(|path| Step::GetAttributes {
                target: self.at(path),
                wanted: Identity::WANTED | AttributeSet::KIND,
                follow: *path == root,
            });
            let found = self.root.client.execute_each(part.collect()).await.map_err(Failure::failed)?;
            left.drain(..found.len());
            files.extend(found.into_iter().map(|found| match found {
                // A server that numbers no files tells at least that it is one.
                Ok(Done::Attributes(found)) if found.is(Kind::Directory) => {
                    Some(Identity::of(&found).file.unwrap_or_default())
                }
                _ => None,
            }));
        }
        Ok(files)
    }

    /// Makes the symbolic links whose place nothing else has taken.
    async fn make_links(&mut self) -> Result<(), Failure> {
        let mut links: Vec<_> = std::mem::take(&mut self.links).into_iter().collect();
        links.sort_unstable_by_key(|(_, link)| link.number);
        // As long as there is none of them, no path leads through one.
        let mut placed = Vec::new();
        for part in links.chunks(MEMBERS) {
            let places = part.iter().map(|(path, _)| self.at(path)).collect();
            let found = self.root.client.attributes_of_each(places, Identity::WANTED, false).await;
            for ((path, link), found) in part.iter().zip(found.map_err(Failure::failed)?) {
                let is_placed = link.placeholder.is_some();
                match found {
                    Ok(found) if link.placeholder == Some(Identity::of(&found)) => placed.push((path, link)),
                    Err(error) if is_placed => {
                        self.complain(&self.at(path), "Cannot create symlink", &error)?
                    }
                    Ok(_) if is_placed && !link.has_successor => {
                        let shown = quoted_if_needed(&self.root.show(&self.at(path)));
                        let what = format_args!("{shown}: Cannot create symlink: {IN_ITS_PLACE}");
                        self.session.complain_with(2, what);
                    }
                    _ => {}
                }
            }
        }
        let mut firsts = HashMap::new();
        for part in placed.chunks(MEMBERS) {
            for (path, link) in part {
                let target = self.at(path);
                if let Some(file) = link.placeholder.and_then(|it| it.file) {
                    if let Some(first) = firsts.get(&file) {
                        self.steps.push(Step::HardLink { existing: self.at(first), new: target });
                        continue;
                    }
                    firsts.insert(file, Bytes::clone(path));
                }
                self.steps.push(Step::MakeSymbolicLink { target: target.clone(), text: link.text.clone() });
                if link.attributes != NewAttributes::default() {
                    let attributes = link.attributes.clone();
                    self.steps.push(Step::SetAttributes { target, attributes, follow: false });
                }
            }
            self.make(true).await?;
        }
        Ok(())
    }

    /// Takes note that a later member has this path.
    fn succeed(&mut self, path: &Bytes) {
        if let Some(link) = self.links.get_mut(path) {
            link.has_successor = true;
        }
    }

    /// Keeps the place of a symbolic link.
    fn link(&mut self, target: Target, text: Bytes, attributes: NewAttributes) {
        let create = Some(Creation { mode: 0, exclusive: true });
        let empty = Write { create, follow: false, ..Write::new(&target, 0, Bytes::new()) };
        self.steps.push(Step::Write(empty));
        self.remember_link(target.path().clone(), text, attributes, None);
        self.steps.push(Step::GetAttributes { target, wanted: Identity::WANTED, follow: false });
    }

    fn remember_link(
        &mut self,
        path: Bytes,
        text: Bytes,
        attributes: NewAttributes,
        placeholder: Option<Identity>,
    ) {
        let number = self.links_seen;
        self.links_seen += 1;
        self.links.insert(path, Link { number, text, attributes, placeholder, has_successor: false });
    }

    /// Takes what is known of a placeholder that was just made, or of a further name of something.
    fn placed(&mut self, path: &Bytes, found: Identity, is_further_name: bool) {
        if found.file.is_none() {
            if let Some(link) = self.links.get_mut(path).filter(|_| !is_further_name) {
                link.placeholder = Some(found);
            }
        } else if is_further_name {
            let is_known = self.links.get(path).is_some_and(|link| link.placeholder == Some(found));
            let Some(placeholder) = self.placeholders.get_mut(&found).filter(|_| !is_known) else { return };
            placeholder.names.push(path.clone());
            let (text, attributes) = (placeholder.text.clone(), placeholder.attributes.clone());
            self.remember_link(path.clone(), text, attributes, Some(found));
        } else if let Some(link) = self.links.get_mut(path) {
            link.placeholder = Some(found);
            let (text, attributes) = (link.text.clone(), link.attributes.clone());
            let placeholder = Placeholder { names: vec![path.clone()], text, attributes };
            // What was known by the same before is gone.
            let gone = self.placeholders.insert(found, placeholder).map(|it| it.names).unwrap_or_default();
            for gone in gone.iter().filter(|gone| *gone != path) {
                if self.links.get(gone).is_some_and(|link| link.placeholder == Some(found)) {
                    self.links.remove(gone);
                }
            }
        }
    }

    /// Before a member of this name is taken, those before it of that name are made, if they may be symbolic links.
    async fn settle(&mut self, path: &Bytes) -> Result<(), Failure> {
        match self.links.contains_key(path) || self.further_names.contains(path) {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    async fn member(&mut self, member: Member, pieces: &mut Pieces) -> Result<(), Failure> {
        let Some(path) = safe(&member.path) else {
            let shown = quoted_if_needed(&member.path);
            self.session.complain_with(2, format_args!("{shown}: Member name contains '..'"));
            return skip(member.size, pieces).await;
        };
        if self.manner.verbose {
            self.session.say(quoted_if_needed(&member.path));
        }
        if member.is_sparse {
            let shown = quoted_if_needed(&member.path);
            let what = "a file with holes as pax archives have them; make the archive without --sparse, or with --format=gnu";
            self.session.complain_with(2, format_args!("{shown}: {what}; ignored"));
            return skip(member.size, pieces).await;
        }
        if path.is_empty() && !matches!(member.kind, EntryType::Directory | EntryType::XGlobalHeader) {
            let shown = quoted_if_needed(&member.path);
            let what = "is the directory itself in the archive, and no directory; ignored";
            self.session.complain_with(2, format_args!("{shown}: {what}"));
            return skip(member.size, pieces).await;
        }
        let target = if path.is_empty() { self.root.target.clone() } else { self.root.target.join(&path) };
        self.parents(&path).await?;
        let attributes = self.attributes(&member);
        match member.kind {
            EntryType::Directory => {
                if !path.is_empty() {
                    self.settle(target.path()).await?;
                    let link = self.links.remove(target.path());
                    if link.is_some_and(|link| link.placeholder.is_some()) {
                        self.steps.push(Step::Remove(target.clone()));
                    }
                    self.steps.push(Step::MakeDirectory { target: target.clone(), mode: 0o700 });
                    self.remember(target.clone());
                }
                self.directories.insert(target.path().clone(), attributes);
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                self.succeed(target.path());
                self.file(&member, target, attributes, pieces).await?;
            }
            EntryType::Symlink => {
                let text = Bytes::from(member.link.unwrap_or_default());
                self.settle(target.path()).await?;
                // It could not be made, but what is in the way would go.
                if text.is_empty() || text.len() > LINK || text.contains(&0) {
                    let shown = quoted_if_needed(&member.path);
                    let what = "Cannot create symlink: what it leads to is empty, or no path";
                    self.session.complain_with(2, format_args!("{shown}: {what}"));
                    return Ok(());
                }
                self.link(target, text, NewAttributes { mode: None, ..attributes });
            }
            EntryType::Link => match safe(&member.link.unwrap_or_default()) {
                Some(link) if link == path => {}
                Some(link) if !link.is_empty() => {
                    let existing = self.root.target.join(&link);
                    self.steps.push(Step::HardLink { existing, new: target.clone() });
                    if self.links_seen > 0 {
                        self.succeed(target.path());
                        self.further_names.insert(target.path().clone());
                        let wanted = Identity::WANTED_OF_NAME;
                        self.steps.push(Step::GetAttributes { target, wanted, follow: false });
                    }
                }
                _ => {
                    let shown = quoted_if_needed(&member.path);
                    self.session.complain_with(2, format_args!("{shown}: Link leads out of the directory"));
                }
            },
            EntryType::XGlobalHeader => {}
            _ => {
                let shown = quoted_if_needed(&member.path);
                self.session
                    .complain_with(2, format_args!("{shown}: neither file nor directory nor link; ignored"));
            }
        }
        match self.steps.len() >= MEMBERS || self.bytes >= BYTES {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    /// Attributes of the member, as far as this user may give them.
    fn attributes(&self, member: &Member) -> NewAttributes {
        let time = Time { seconds: member.modified.try_into().unwrap_or(i64::MAX), nanoseconds: 0 };
        let Manner { umask, same_permissions, same_owner, same_time, .. } = self.manner;
        let owner = |id| same_owner.then_some(Owner::Id(id));
        let mode = if same_permissions { member.mode } else { member.mode & 0o777 & !umask };
        NewAttributes {
            mode: Some(mode),
            owner: owner(member.user),
            group: owner(member.group),
            modified: same_time.then_some(SetTime::To(time)),
            ..NewAttributes::default()
        }
    }

    /// The mode to make a file with, if that leaves nothing to set when it is written.
    fn complete(&self, attributes: &NewAttributes) -> Option<u32> {
        let mode = attributes.mode.filter(|mode| *attributes == NewAttributes::mode(*mode))?;
        // A local system applies the umask, and writing takes away the right to run as the owner.
        (mode & (0o7000 | self.manner.umask) == 0 && mode & 0o600 == 0o600).then_some(mode)
    }

    fn remember(&mut self, directory: Target) {
        if self.known.len() >= KNOWN {
            self.known.clear();
        }
        self.known.insert(directory);
    }

    /// Makes the directories that the archive does not name.
    async fn parents(&mut self, path: &[u8]) -> Result<(), Failure> {
        let Some(end) = path.iter().rposition(|byte| *byte == b'/') else { return Ok(()) };
        let parent = self.root.target.join(&path[..end]);
        if self.known.contains(&parent) {
            return Ok(());
        }
        self.flush().await?;
        let made = self.root.client.ensure_directory(&parent, 0o777 & !self.manner.umask).await;
        match made {
            Ok(_) => self.remember(parent),
            Err(error @ Error::Connection(_)) => return Err(Failure::failed(error)),
            // The member itself fails then, and says so.
            Err(_) => {}
        }
        Ok(())
    }

    async fn file(
        &mut self,
        member: &Member,
        target: Target,
        attributes: NewAttributes,
        pieces: &mut Pieces,
    ) -> Result<(), Failure> {
        if member.size > PART as u64 {
            self.flush().await?;
            return self.large(member, target, attributes, pieces).await;
        }
        let mut content = Bytes::new();
        if member.size > 0 {
            let Some(Piece::Data(data)) = pieces.next().await else { return Ok(()) };
            content = data;
        }
        self.bytes += content.len();
        self.session.bytes += content.len() as u64;
        let complete = self.complete(&attributes);
        let create = Some(Creation { mode: complete.unwrap_or(0o600), exclusive: true });
        self.steps.push(Step::Write(Write { create, follow: false, ..Write::new(&target, 0, content) }));
        if complete.is_none() {
            self.steps.push(Step::SetAttributes { target, attributes, follow: false });
        }
        Ok(())
    }

    async fn large(
        &mut self,
        member: &Member,
        target: Target,
        attributes: NewAttributes,
        pieces: &mut Pieces,
    ) -> Result<(), Failure> {
        let client = self.root.client.clone();
        let create = Some(Creation { mode: 0o600, exclusive: true });
        let open = Open { create, follow: false, ..Open::write(&target) };
        let opened = match client.open(open.clone()).await {
            Err(error) if is_in_the_way(&error) => match client.vremove(vec![target.clone()]).await {
                Ok(_) => {
                    self.directories.remove(target.path());
                    client.open(open).await
                }
                Err(failure) => Err(failure.error),
            },
            opened => opened,
        };
        let file = match opened {
            Ok(file) => file,
            Err(error) => {
                self.complain(&target, "Cannot open", &error)?;
                return skip(member.size, pieces).await;
            }
        };
        let (mut start, mut parts, mut failed) = (0, Vec::new(), None);
        while start < member.size {
            let Some(Piece::Data(data)) = pieces.next().await else { break };
            let length = data.len() as u64;
            self.session.bytes += length;
            parts.push((start, data));
            start += length;
            if (parts.len() == PARTS || start == member.size) && failed.is_none() {
                let write = |(start, data): (u64, Bytes)| client.pwrite(file, start, data);
                failed = try_join_all(parts.drain(..).map(write)).await.err();
            }
            if failed.is_some() {
                parts.clear();
            }
        }
        let closed = self.close(file).await;
        if let Some(error) = failed.or(closed.err()) {
            return self.complain(&target, "Cannot write", &error);
        }
        self.steps.push(Step::SetAttributes { target, attributes, follow: false });
        Ok(())
    }

    async fn close(&self, file: Descriptor) -> Result<(), Error> {
        self.root.client.close_file(file).await
    }

    fn complain(&mut self, target: &Target, what: &str, error: &Error) -> Result<(), Failure> {
        if matches!(error, Error::Connection(_)) {
            return Err(Failure::failed(error));
        }
        let shown = quoted_if_needed(&self.root.show(target));
        self.session.complain_with(2, format_args!("{shown}: {what}: {}", words(error)));
        Ok(())
    }

    /// Makes what is on the list. What is in the way of something else than a directory is removed first.
    async fn flush(&mut self) -> Result<(), Failure> {
        self.further_names.clear();
        self.make(false).await
    }
}

/// Passes over the content of a member.
async fn skip(mut size: u64, pieces: &mut Pieces) -> Result<(), Failure> {
    while size > 0
        && let Some(Piece::Data(data)) = pieces.next().await
    {
        size = size.saturating_sub(data.len() as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_member_leads_out_of_the_directory() {
        for (path, expected) in [
            ("a/b", Some("a/b")),
            ("/etc/passwd", Some("etc/passwd")),
            ("./a//b/.", Some("a/b")),
            ("", Some("")),
            ("..", None),
            ("a/../../b", None),
            ("a\0b", None),
        ] {
            assert_eq!(safe(path.as_bytes()), expected.map(|it| it.as_bytes().to_vec()), "{path}");
        }
    }
}
