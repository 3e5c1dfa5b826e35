//! Trees into archives: reading goes on while what was read is compressed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use bytes::{Buf, Bytes};
use futures::{StreamExt, stream};
use tar::{EntryType, Header};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use vector_client::{
    AttributeSet, Attributes, Client, Done, Error, Kind, Open, Owner, Read as ReadStep, Step,
};

use super::archive::{Compression, Output};
use crate::files::exclude::Excluded;
use crate::files::people::People;
use crate::files::place::{Place, joined, trimmed};
use crate::files::quote::quoted_if_needed;
use crate::files::session::{Session, words};
use crate::outcome::{Failure, hint};
use crate::progress::Progress;

/// Directories read at once; files and bytes of those read at once; bytes of one read of a larger file.
const DIRECTORIES: usize = 128;
const FILES: usize = 512;
const BYTES: u64 = 8 << 20;
const PART: u64 = 1 << 20;
const PARTS: usize = 8;

/// As long as so many entries wait, no directory is read ahead.
const ENTRIES: usize = 20_000;

/// Pieces between reading and compressing.
const QUEUE: usize = 64;

/// What the archive is made of.
enum Piece {
    Member { header: Box<Header>, name: Vec<u8>, link: Option<Vec<u8>>, size: u64 },
    Data(Bytes),
}

/// An object that goes into the archive next.
struct Waiting {
    name: Vec<u8>,
    place: Place,
    attributes: Attributes,
    /// Its first name in the archive, if it has one.
    first: Option<Vec<u8>>,
}

/// A directory that is to go into the archive, with what is in it if that was read ahead.
struct Pending {
    directory: Waiting,
    entries: Option<Vec<Waiting>>,
    /// The directories in it.
    below: Vec<Pending>,
}

/// Which object it is.
type Identity = ((u64, u64), u64);

/// Of what may have further names.
fn identity(it: &Attributes) -> Option<Identity> {
    let own = it.file_system.zip(it.file_id);
    own.filter(|_| it.links.unwrap_or(1) > 1 && !it.is(Kind::Directory))
}

/// What goes into an archive, with all below.
pub struct Root {
    place: Place,
    /// Its name there.
    name: Vec<u8>,
}

impl Root {
    /// Named by the last of its names.
    pub fn named_by(place: Place) -> Root {
        let name = match place.name() {
            b"" | b".." => b".".to_vec(),
            name => name.to_vec(),
        };
        Root { place, name }
    }

    /// Named as it is below a directory.
    pub fn below(directory: &Place, file: &OsStr) -> Result<Root, Failure> {
        let (bytes, name) = (file.as_bytes(), trimmed(file.as_bytes()));
        let leads_out = bytes.starts_with(b"/") || name.split(|byte| *byte == b'/').any(|it| it == b"..");
        if leads_out || bytes.starts_with(b"nfs://") || name.is_empty() {
            let shown = quoted_if_needed(bytes);
            let words = "with -C, give a path below the directory";
            return Err(Failure::usage(format_args!("tar: {shown}: {words}")));
        }
        Ok(Root { place: directory.join(name), name: name.to_vec() })
    }
}

/// How an archive is written.
pub struct Manner {
    pub compression: Compression,
    pub excluded: Excluded,
    /// Say what goes into it.
    pub verbose: bool,
}

struct Packer<'a> {
    session: &'a mut Session,
    client: Client,
    pieces: Sender<Piece>,
    people: People,
    manner: &'a Manner,
    progress: Progress,
    waiting: Vec<Waiting>,
    bytes: u64,
    seen: HashMap<Identity, Vec<u8>>,
}

/// Whether the archive can still be written.
struct Closed;

pub async fn pack(
    session: &mut Session,
    archive: &OsStr,
    manner: Manner,
    roots: Vec<Root>,
) -> Result<(), Failure> {
    let compression = manner.compression;
    let (sender, receiver) = channel(QUEUE);
    let shown = quoted_if_needed(archive.as_bytes());
    let archive: OsString = archive.to_owned();
    let writer = tokio::task::spawn_blocking(move || write(&archive, compression, receiver));
    let packed = async {
        for run in roots.chunk_by(|a, b| a.place.client.is_same(&b.place.client)) {
            let mut packer = Packer {
                session: &mut *session,
                client: run[0].place.client.clone(),
                pieces: sender.clone(),
                people: People::known(),
                manner: &manner,
                progress: Progress::new("tar").unless(manner.verbose),
                waiting: Vec::new(),
                bytes: 0,
                seen: HashMap::new(),
            };
            match packer.trees(run).await? {
                Ok(()) => {}
                Err(Closed) => break,
            }
        }
        Ok::<(), Failure>(())
    };
    let packed = packed.await;
    drop(sender);
    let written = writer.await.map_err(Failure::failed)?;
    written.map_err(|error| Failure::failed(format_args!("tar: {shown}: {error}")))?;
    packed
}

/// The next directories that are not read yet, as far as they are known.
fn unread<'a>(pending: impl Iterator<Item = &'a mut Pending>, most: usize, asked: &mut Vec<&'a mut Pending>) {
    for it in pending {
        if asked.len() >= most {
            return;
        }
        match it.entries {
            Some(_) => unread(it.below.iter_mut(), most, asked),
            None => asked.push(it),
        }
    }
}

/// Writes the archive, on a thread of its own.
fn write(archive: &OsStr, compression: Compression, mut pieces: Receiver<Piece>) -> io::Result<()> {
    let mut builder = tar::Builder::new(Output::create(archive, compression)?);
    while let Some(piece) = pieces.blocking_recv() {
        let Piece::Member { mut header, name, link, size } = piece else {
            return Err(io::Error::other("data without a member"));
        };
        if let Some(link) = link.filter(|link| header.set_link_name_literal(link).is_err()) {
            append_long(&mut builder, EntryType::GNULongLink, &link)?;
            start(&mut header.as_old_mut().linkname, &link);
        }
        // Names as they are: `./a` is another one than `a`.
        if name.len() > header.as_old().name.len() {
            append_long(&mut builder, EntryType::GNULongName, &name)?;
        }
        start(&mut header.as_old_mut().name, &name);
        header.set_cksum();
        let mut content = Content { pieces: &mut pieces, left: size, piece: Bytes::new() };
        builder.append(&header, &mut content)?;
    }
    builder.into_inner()?.finish()
}

/// What does not fit into the header of the next member.
fn append_long(builder: &mut tar::Builder<Output>, kind: EntryType, text: &[u8]) -> io::Result<()> {
    let mut header = Header::new_gnu();
    start(&mut header.as_old_mut().name, b"././@LongLink");
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(text.len() as u64 + 1);
    header.set_cksum();
    builder.append(&header, [text, &[0]].concat().as_slice())
}

/// As much of it as fits.
fn start(field: &mut [u8], text: &[u8]) {
    field.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
}

/// The content of a member, as it comes.
struct Content<'a> {
    pieces: &'a mut Receiver<Piece>,
    left: u64,
    piece: Bytes,
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left > 0 && self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(Piece::Data(data)) => self.piece = data,
                _ => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            }
        }
        let count = buffer.len().min(self.piece.len()).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.piece.copy_to_slice(&mut buffer[..count]);
        self.left -= count as u64;
        Ok(count)
    }
}

impl Packer<'_> {
    /// Each directory is followed by all that is in it, as readers expect it who give a directory its time when they have left it.
    async fn trees(&mut self, roots: &[Root]) -> Result<Result<(), Closed>, Failure> {
        let targets = roots.iter().map(|root| root.place.target.clone()).collect();
        let found = self.client.attributes_of_each(targets, AttributeSet::STAT, false).await;
        for (Root { place, name }, found) in roots.iter().zip(found.map_err(Failure::failed)?) {
            let attributes = match found {
                Ok(attributes) => attributes,
                Err(error) => {
                    self.complain(place, "Cannot stat", &error);
                    continue;
                }
            };
            let is_directory = attributes.is(Kind::Directory);
            if self.manner.excluded.holds_any_of(name) {
                continue;
            }
            let object = Waiting { name: name.clone(), place: place.clone(), attributes, first: None };
            let sent = if is_directory { self.tree(object).await? } else { self.take(object).await? };
            if sent.is_err() {
                return Ok(sent);
            }
        }
        self.flush().await
    }

    async fn tree(&mut self, root: Waiting) -> Result<Result<(), Closed>, Failure> {
        let mut pending = VecDeque::from([Pending { directory: root, entries: None, below: Vec::new() }]);
        let mut held = 0;
        while let Some(next) = pending.front() {
            if next.entries.is_none() {
                held += self.read_ahead(&mut pending, ENTRIES.saturating_sub(held)).await?;
            }
            let Some(Pending { directory, entries, below }) = pending.pop_front() else { break };
            if self.take(directory).await?.is_err() {
                return Ok(Err(Closed));
            }
            for object in entries.unwrap_or_default() {
                held -= 1;
                if self.take(object).await?.is_err() {
                    return Ok(Err(Closed));
                }
            }
            below.into_iter().rev().for_each(|it| pending.push_front(it));
        }
        Ok(Ok(()))
    }

    /// Reads the next directory, and further ones as long as no more than `room` other objects are in them; how many that are.
    async fn read_ahead(&mut self, pending: &mut VecDeque<Pending>, room: usize) -> Result<usize, Failure> {
        let mut asked = Vec::new();
        unread(pending.iter_mut(), if room == 0 { 1 } else { DIRECTORIES }, &mut asked);
        let targets = asked.iter().map(|it| it.directory.place.target.clone()).collect();
        let client = self.client.clone();
        let mut walk = client.walk(targets, AttributeSet::STAT, false);
        let (mut at, mut count) = (0, 0);
        while let Some(found) = walk.next().await {
            let Some(pending) = asked.get_mut(at) else { break };
            at += usize::from(found.last);
            let entries = pending.entries.get_or_insert_default();
            match found.entries {
                Ok(more) => {
                    for entry in more {
                        let name = joined(&pending.directory.name, &entry.name);
                        if self.manner.excluded.holds(&name) {
                            continue;
                        }
                        let object = Waiting {
                            name,
                            place: pending.directory.place.join(&entry.name),
                            attributes: entry.attributes,
                            first: None,
                        };
                        if object.attributes.is(Kind::Directory) {
                            pending.below.push(Pending {
                                directory: object,
                                entries: None,
                                below: Vec::new(),
                            });
                        } else {
                            entries.push(object);
                            count += 1;
                        }
                    }
                }
                Err(error @ Error::Connection(_)) => return Err(Failure::failed(error)),
                Err(error) => self.complain_of_listed(&pending.directory.place, &error),
            }
            if found.last && count > room {
                break;
            }
        }
        Ok(count)
    }

    fn complain(&mut self, place: &Place, what: &str, error: &Error) {
        let shown = quoted_if_needed(&place.shown);
        self.session.complain_with(2, format_args!("{shown}: {what}: {}", words(error)));
    }

    /// Of what was listed in a directory: that it is gone is no failure, as it is none to GNU tar.
    fn complain_of_listed(&mut self, place: &Place, error: &Error) {
        if error.is_not_found() {
            let shown = quoted_if_needed(&place.shown);
            self.session.complain(format_args!("{shown}: File removed before we read it"));
        } else {
            self.complain(place, "Cannot open", error);
        }
    }

    /// What could not be read is not in the archive, and no other name can be a link to it.
    fn forget(&mut self, it: &Attributes) {
        if let Some(own) = identity(it) {
            self.seen.remove(&own);
        }
    }

    /// Puts an object on the list of those that go into the archive next.
    async fn take(&mut self, mut object: Waiting) -> Result<Result<(), Closed>, Failure> {
        let it = &object.attributes;
        if !matches!(it.kind, Some(Kind::Directory | Kind::File | Kind::SymbolicLink | Kind::Fifo)) {
            let shown = quoted_if_needed(&object.place.shown);
            self.session.complain(format_args!("{shown}: neither file nor directory nor link; ignored"));
            return Ok(Ok(()));
        }
        let own = identity(it);
        object.first = own.and_then(|own| self.seen.get(&own).cloned());
        if let (Some(own), None) = (own, &object.first) {
            self.seen.insert(own, object.name.clone());
        }
        let size = it.size.filter(|_| it.is(Kind::File)).unwrap_or(0);
        if size > PART && object.first.is_none() {
            if self.flush().await?.is_err() {
                return Ok(Err(Closed));
            }
            return self.large(object.name, &object.place, &object.attributes, size).await;
        }
        self.bytes += size;
        self.waiting.push(object);
        match self.waiting.len() >= FILES || self.bytes >= BYTES {
            true => self.flush().await,
            false => Ok(Ok(())),
        }
    }

    /// Reads what is on the list, in one go.
    async fn flush(&mut self) -> Result<Result<(), Closed>, Failure> {
        self.bytes = 0;
        let waiting = std::mem::take(&mut self.waiting);
        let step = |it: &&Waiting| match it.attributes.kind {
            Some(Kind::SymbolicLink) => Step::ReadLink(it.place.target.clone()),
            _ => Step::Read(ReadStep::new(&it.place.target, 0, it.attributes.size.unwrap_or(0))),
        };
        let is_read = |it: &&Waiting| match it.attributes.kind {
            Some(Kind::SymbolicLink) => it.first.is_none(),
            Some(Kind::File) => it.first.is_none() && it.attributes.size != Some(0),
            _ => false,
        };
        let steps = waiting.iter().filter(is_read).map(|it| step(&it)).collect();
        let mut read = self.client.execute_each(steps).await.map_err(Failure::failed)?.into_iter();
        // Names whose content could not be read, and further names of the same files.
        let (mut missing, mut again) = (HashSet::new(), Vec::new());
        for it in waiting {
            let done = if is_read(&&it) { read.next() } else { None };
            if it.first.as_ref().is_some_and(|first| missing.contains(first)) {
                again.push(it);
                continue;
            }
            let Waiting { name, place, attributes, first } = it;
            let sent = match (done, first) {
                (_, Some(first)) => {
                    let header = self.header(&attributes, EntryType::Link, 0);
                    self.member(header, name, Some(first), 0).await
                }
                (Some(Ok(Done::Link(text))), _) => {
                    let header = self.header(&attributes, EntryType::Symlink, 0);
                    self.member(header, name, Some(text.to_vec()), 0).await
                }
                (Some(Ok(Done::Read(data))), _) => {
                    let size = data.len();
                    let header = self.header(&attributes, EntryType::Regular, size);
                    let mut sent = self.member(header, name, None, size).await;
                    for piece in data.pieces {
                        sent = if sent.is_ok() { self.data(piece).await } else { sent };
                    }
                    sent
                }
                (Some(Err(error)), _) => {
                    self.complain_of_listed(&place, &error);
                    self.forget(&attributes);
                    missing.insert(name);
                    Ok(())
                }
                _ => {
                    let (kind, name) = match attributes.kind {
                        Some(Kind::Directory) => (EntryType::Directory, [&name[..], b"/"].concat()),
                        Some(Kind::Fifo) => (EntryType::Fifo, name),
                        _ => (EntryType::Regular, name),
                    };
                    let header = self.header(&attributes, kind, 0);
                    self.member(header, name, None, 0).await
                }
            };
            if sent.is_err() {
                return Ok(Err(Closed));
            }
        }
        for it in again {
            if Box::pin(self.take(it)).await?.is_err() {
                return Ok(Err(Closed));
            }
        }
        match self.waiting.is_empty() {
            true => Ok(Ok(())),
            false => Box::pin(self.flush()).await,
        }
    }

    /// A member has the size that was said before; what is missing then is zeros.
    async fn large(
        &mut self,
        name: Vec<u8>,
        place: &Place,
        it: &Attributes,
        size: u64,
    ) -> Result<Result<(), Closed>, Failure> {
        let client = self.client.clone();
        let file = match client.open(Open::read(&place.target)).await {
            Ok(file) => file,
            Err(error @ Error::Connection(_)) => return Err(Failure::failed(error)),
            Err(error) => {
                self.complain_of_listed(place, &error);
                self.forget(it);
                return Ok(Ok(()));
            }
        };
        let header = self.header(it, EntryType::Regular, size);
        let mut sent = self.member(header, name, None, size).await;
        let mut left = size;
        let parts =
            (0..size).step_by(PART as usize).map(|start| client.pread(file, start, PART.min(size - start)));
        let mut parts = stream::iter(parts).buffered(PARTS);
        while let Some(part) = parts.next().await {
            match part {
                Ok(data) => {
                    for piece in data.pieces {
                        left -= piece.len() as u64;
                        sent = if sent.is_ok() { self.data(piece).await } else { sent };
                    }
                }
                Err(error) => {
                    self.complain(place, "Read error", &error);
                    break;
                }
            }
        }
        drop(parts);
        if left > 0 && sent.is_ok() {
            let shown = quoted_if_needed(&place.shown);
            self.session.complain(format_args!("{shown}: File shrank by {left} bytes; padding with zeros"));
        }
        while left > 0 && sent.is_ok() {
            let zeros = left.min(PART);
            sent = self.data(vec![0; zeros as usize].into()).await;
            left -= zeros;
        }
        // It was only read.
        let _ = client.close_file(file).await;
        Ok(sent)
    }

    async fn member(
        &mut self,
        header: Header,
        name: Vec<u8>,
        link: Option<Vec<u8>>,
        size: u64,
    ) -> Result<(), Closed> {
        if self.manner.verbose {
            hint(quoted_if_needed(&name));
        }
        let header = Box::new(header);
        self.pieces.send(Piece::Member { header, name, link, size }).await.map_err(|_| Closed)
    }

    async fn data(&mut self, data: Bytes) -> Result<(), Closed> {
        self.session.bytes += data.len() as u64;
        self.progress.set(self.session.bytes, None, true);
        self.pieces.send(Piece::Data(data)).await.map_err(|_| Closed)
    }

    fn header(&self, it: &Attributes, kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_gnu();
        let id = |owner: &Option<Owner>| match owner {
            Some(Owner::Id(id)) => u64::from(*id),
            // Nobody: the name counts.
            _ => 65534,
        };
        header.set_entry_type(kind);
        header.set_mode(it.mode.unwrap_or(0o644));
        header.set_uid(id(&it.owner));
        header.set_gid(id(&it.group));
        header.set_mtime(it.modified.map_or(0, |time| u64::try_from(time.seconds).unwrap_or(0)));
        header.set_size(size);
        // Names that do not fit are left out: the numbers are there.
        if let Ok(name) = self.people.user(it.owner.as_ref()) {
            let _ = header.set_username(&name);
        }
        if let Ok(name) = self.people.group(it.group.as_ref()) {
            let _ = header.set_groupname(&name);
        }
        header
    }
}
