use std::collections::VecDeque;

use vector_client::{AttributeSet, Attributes, Client, Done, Error, Kind, Step, Target};

use super::{Ls, order};
use crate::files::place::Place;
use crate::outcome::Failure;

/// Directories read at once, and entries of those not shown yet, about.
const AHEAD: usize = 256;
const ENTRIES: usize = 32_000;

/// Something to show.
pub struct Line {
    pub name: Vec<u8>,
    pub attributes: Attributes,
    /// Where a symbolic link leads, in the long form.
    pub link: Option<Vec<u8>>,
    /// What is there, if the symbolic link leads somewhere; to mark it.
    pub linked: Option<Attributes>,
    pub place: Place,
}

impl Line {
    pub fn new(name: Vec<u8>, attributes: Attributes, place: Place) -> Line {
        Line { name, attributes, link: None, linked: None, place }
    }
}

/// The entries of a directory, and why they are not all.
type Entries = Result<(Vec<Line>, Result<(), Error>), Error>;

struct Pending {
    place: Place,
    is_argument: bool,
    entries: Option<Entries>,
    /// The directories in it that are to be shown next, if it was read.
    below: Vec<Pending>,
}

/// Directories in the order in which they are shown.
pub struct Listing<'a> {
    ls: &'a Ls,
    wanted: AttributeSet,
    pending: VecDeque<Pending>,
    /// Entries that were read and not shown.
    held: usize,
}

impl Listing<'_> {
    pub fn new(ls: &Ls, json: bool, directories: Vec<Line>) -> Listing<'_> {
        let pending = |line: Line| Pending::new(line.place, true);
        let pending = directories.into_iter().map(pending).collect();
        Listing { ls, wanted: ls.wanted(json), pending, held: 0 }
    }

    /// The next directory, whether it was named, and its entries.
    pub async fn next(&mut self) -> Result<Option<(Place, bool, Entries)>, Failure> {
        match self.pending.front() {
            None => return Ok(None),
            Some(Pending { entries: None, .. }) => self.read().await?,
            Some(_) => {}
        }
        let Some(next) = self.pending.pop_front() else { return Ok(None) };
        let Pending { place, is_argument, entries, below } = next;
        below.into_iter().rev().for_each(|it| self.pending.push_front(it));
        let entries = entries.unwrap_or(Err(Error::Unsupported("listing")));
        self.held -= entries.as_ref().map_or(0, |(lines, _)| lines.len());
        Ok(Some((place, is_argument, entries)))
    }

    /// Reads the next directory, and with it those that come after it on the same server, unless there is a lot in them.
    async fn read(&mut self) -> Result<(), Failure> {
        let Some(first) = self.pending.front() else { return Ok(()) };
        let client = first.place.client.clone();
        let most = if self.held > ENTRIES { 1 } else { AHEAD };
        let mut asked = Vec::new();
        unread(self.pending.iter_mut(), &client, most, &mut asked);
        let targets = asked.iter().map(|pending| pending.place.target.clone()).collect();
        let mut walk = client.walk(targets, self.wanted, false);
        let mut read: Vec<Entries> = asked.iter().map(|_| Ok((Vec::new(), Ok(())))).collect();
        let (mut at, mut entries_read) = (0, 0);
        while let Some(found) = walk.next().await {
            let (Some(pending), Some(entries)) = (asked.get(at), read.get_mut(at)) else { break };
            entries_read += found.entries.as_ref().map_or(0, Vec::len);
            match (found.entries, &mut *entries) {
                (Ok(more), Ok((lines, _))) => lines.extend(
                    more.into_iter()
                        .filter(|it| is_shown(self.ls, &it.name))
                        .map(|it| Line::new(it.name.to_vec(), it.attributes, pending.place.join(&it.name))),
                ),
                (Err(error @ Error::Connection(_)), _) => return Err(Failure::failed(error)),
                (Err(error), Ok((lines, complete))) if !lines.is_empty() => *complete = Err(error),
                (Err(error), entries) => *entries = Err(error),
                _ => {}
            }
            at += usize::from(found.last);
            if found.last && self.held + entries_read > ENTRIES {
                break;
            }
        }
        asked.truncate(at);
        read.truncate(at);
        if self.ls.all {
            dots(self.wanted, &asked, &mut read, &client).await?;
        }
        let lines = read.iter_mut().flatten().flat_map(|(lines, _)| lines.iter_mut());
        follow(self.ls, self.wanted, &client, &mut lines.collect::<Vec<_>>()).await?;
        for (pending, mut entries) in asked.iter_mut().zip(read) {
            if let Ok((lines, _)) = &mut entries {
                order::sort(self.ls, lines);
                self.held += lines.len();
                pending.below = if self.ls.recursive { directories(lines) } else { Vec::new() };
            }
            pending.entries = Some(entries);
        }
        Ok(())
    }
}

impl Pending {
    fn new(place: Place, is_argument: bool) -> Pending {
        Pending { place, is_argument, entries: None, below: Vec::new() }
    }
}

/// The directories among these, to be shown one after the other.
fn directories(lines: &[Line]) -> Vec<Pending> {
    let is_below =
        |line: &&Line| line.attributes.is(Kind::Directory) && !matches!(&line.name[..], b"." | b"..");
    lines.iter().filter(is_below).map(|line| Pending::new(line.place.clone(), false)).collect()
}

/// The next directories on this server that are not read yet, as far as they are known.
fn unread<'a>(
    pending: impl Iterator<Item = &'a mut Pending>,
    client: &Client,
    most: usize,
    asked: &mut Vec<&'a mut Pending>,
) {
    for it in pending {
        if asked.len() >= most {
            return;
        }
        if it.entries.is_some() {
            unread(it.below.iter_mut(), client, most, asked);
        } else if it.place.client.is_same(client) {
            asked.push(it);
        }
    }
}

fn is_shown(ls: &Ls, name: &[u8]) -> bool {
    ls.all || ls.almost_all || !name.starts_with(b".")
}

/// `.` and `..`, which NFS does not list.
async fn dots(
    wanted: AttributeSet,
    asked: &[&mut Pending],
    read: &mut [Entries],
    client: &Client,
) -> Result<(), Failure> {
    let names: [&[u8]; 2] = [b".", b".."];
    let places = asked.iter().flat_map(|pending| names.map(|name| pending.place.join(name)));
    let places: Vec<Place> = places.collect();
    let needs_attributes = wanted != AttributeSet::NONE;
    let mut found = Vec::new();
    if needs_attributes {
        let targets = places.iter().map(|place| place.target.clone()).collect();
        found = client.attributes_of_each(targets, wanted, false).await.map_err(Failure::failed)?;
    }
    let mut found = found.into_iter();
    for (entries, places) in read.iter_mut().zip(places.chunks(2)) {
        for (place, name) in places.iter().zip(names) {
            let attributes = found.next().and_then(Result::ok).unwrap_or_default();
            if let Ok((lines, _)) = entries {
                lines.push(Line::new(name.to_vec(), attributes, place.clone()));
            }
        }
    }
    Ok(())
}

/// Attributes of places on any servers.
pub async fn attributes(
    places: &[Place],
    wanted: AttributeSet,
    follow: bool,
) -> Result<Vec<Result<Attributes, Error>>, Failure> {
    let mut found: Vec<Option<Result<Attributes, Error>>> = places.iter().map(|_| None).collect();
    while let Some(first) = found.iter().position(Option::is_none) {
        let client = &places[first].client;
        let mine: Vec<usize> = (first..places.len())
            .filter(|index| found[*index].is_none() && places[*index].client.is_same(client))
            .collect();
        let targets: Vec<Target> = mine.iter().map(|index| places[*index].target.clone()).collect();
        let answers = client.attributes_of_each(targets, wanted, follow).await.map_err(Failure::failed)?;
        for (index, answer) in mine.into_iter().zip(answers) {
            found[index] = Some(answer);
        }
    }
    Ok(found.into_iter().flatten().collect())
}

/// Where the symbolic links among these lead.
pub async fn links(ls: &Ls, lines: &mut [Line]) -> Result<(), Failure> {
    for line in lines {
        let client = line.place.client.clone();
        follow(ls, AttributeSet::NONE, &client, &mut [line]).await?;
    }
    Ok(())
}

/// With -L, puts what links lead to into their place; in the long form, reads where they lead.
async fn follow(
    ls: &Ls,
    wanted: AttributeSet,
    client: &Client,
    lines: &mut [&mut Line],
) -> Result<(), Failure> {
    let is_link = |line: &&mut &mut Line| line.attributes.is(Kind::SymbolicLink);
    if ls.dereference && wanted != AttributeSet::NONE {
        let mut links: Vec<_> = lines.iter_mut().filter(is_link).collect();
        let targets = links.iter().map(|line| line.place.target.clone()).collect();
        let found = client.attributes_of_each(targets, wanted, true).await.map_err(Failure::failed)?;
        for (line, found) in links.iter_mut().zip(found) {
            if let Ok(found) = found {
                line.attributes = found;
            }
        }
    }
    let mut links: Vec<_> = lines.iter_mut().filter(is_link).collect();
    if ls.group_directories_first || ls.is_long() && ls.classify {
        let targets = links.iter().map(|line| line.place.target.clone()).collect();
        let wanted = AttributeSet::KIND | AttributeSet::MODE;
        let found = client.attributes_of_each(targets, wanted, true).await.map_err(Failure::failed)?;
        for (line, found) in links.iter_mut().zip(found) {
            line.linked = found.ok();
        }
    }
    if !ls.is_long() {
        return Ok(());
    }
    let steps = links.iter().map(|line| Step::ReadLink(line.place.target.clone())).collect();
    let found = client.execute_each(steps).await.map_err(Failure::failed)?;
    for (line, found) in links.iter_mut().zip(found) {
        if let Ok(Done::Link(text)) = found {
            line.link = Some(text.to_vec());
        }
    }
    Ok(())
}
