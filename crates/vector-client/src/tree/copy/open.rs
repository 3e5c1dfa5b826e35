//! Directories made at one end and read at the other.

use std::collections::HashMap;

use bytes::Bytes;

use super::batch::Ends;
use super::options::{CopyAct, CopyItem, Links};
use crate::listing::{Cookie, Directory, Entry, Page};
use crate::step::Step;
use crate::{AttributeSet, Attributes, Error, Kind, Target};

/// What has to be known of what is there already.
pub(super) const EXISTING: AttributeSet = AttributeSet::KIND
    .with(AttributeSet::FILE_ID)
    .with(AttributeSet::FILE_SYSTEM)
    .with(AttributeSet::SIZE)
    .with(AttributeSet::MODE)
    .with(AttributeSet::MODIFIED)
    .with(AttributeSet::CHANGED);

/// A directory to go on with.
pub(super) struct Opening {
    pub folder: u64,
    pub item: CopyItem,
    pub is_made: bool,
    pub mode: u32,
    pub from: Option<Cookie>,
    /// Whether to say which object the copy is.
    pub identify: bool,
}

/// What came of it.
pub(super) struct Opened {
    pub opening: Opening,
    /// Whether it is there now.
    pub made: Result<Made, (CopyAct, Error)>,
    /// A page of the source; nothing if there was no room in the answer.
    pub page: Option<Result<Listed, Error>>,
    /// Which object the copy is.
    pub identity: Option<Attributes>,
}

pub(super) enum Made {
    /// It was made before.
    Before,
    /// It is new.
    New,
    /// It was there, with this in it.
    There(HashMap<Bytes, Attributes>),
}

/// A page, and what in it leads nowhere.
pub(super) struct Listed {
    pub page: Page,
    pub broken: Vec<(Entry, Error)>,
}

impl Ends<'_> {
    pub async fn open(&self, openings: Vec<Opening>) -> Result<Vec<Opened>, Error> {
        let directories = openings.iter().map(|it| Directory {
            target: it.item.source.clone(),
            from: it.from,
            wanted: self.wanted(),
        });
        let directories = directories.collect();
        let pages = async { Ok::<_, Error>(self.from.backend.read_directories(directories).await) };
        let (made, pages) = if openings.iter().any(|opening| opening.identify) {
            // So that a directory that is copied into itself is found there.
            (self.make_directories(&openings).await?, pages.await?)
        } else {
            futures::try_join!(self.make_directories(&openings), pages)?
        };
        let identities = self.identities(&openings).await?;
        let mut listed = Vec::new();
        for (opening, page) in openings.iter().zip(pages) {
            listed.push(match page {
                Ok(page) => Ok(self.resolve(&opening.item.source, page).await?),
                Err(error @ Error::Connection(_)) => return Err(error),
                Err(error) => Err(error),
            });
        }
        let mut listed = listed.into_iter();
        let all = openings.into_iter().zip(made).zip(identities);
        let opened =
            all.map(|((opening, made), identity)| Opened { opening, made, page: listed.next(), identity });
        Ok(opened.collect())
    }

    /// Attributes that are asked for with the names.
    pub fn wanted(&self) -> AttributeSet {
        let preserve = self.options.preserve;
        let mut wanted = EXISTING;
        for (wish, attributes) in [
            (preserve.owner, AttributeSet::OWNER | AttributeSet::GROUP),
            (preserve.times, AttributeSet::ACCESSED),
            (preserve.links, AttributeSet::LINKS),
        ] {
            wanted = if wish { wanted | attributes } else { wanted };
        }
        wanted
    }

    async fn make_directories(
        &self,
        openings: &[Opening],
    ) -> Result<Vec<Result<Made, (CopyAct, Error)>>, Error> {
        let new = |opening: &&Opening| !opening.is_made && opening.item.existing.is_none();
        let step = |opening: &Opening| Step::MakeDirectory {
            target: opening.item.destination.clone(),
            mode: opening.mode,
        };
        let mut done =
            self.to.execute_each(openings.iter().filter(new).map(step).collect()).await?.into_iter();
        let mut made = Vec::new();
        let mut there = Vec::new();
        for opening in openings {
            if opening.is_made {
                made.push(Ok(Made::Before));
                continue;
            }
            let done = if opening.item.existing.is_none() { done.next() } else { None };
            made.push(match done {
                Some(Ok(_)) => Ok(Made::New),
                Some(Err(error)) if !error.is_exists() => Err((CopyAct::MakeDirectory, error)),
                _ => {
                    there.push((made.len(), opening.item.destination.clone()));
                    Ok(Made::There(HashMap::new()))
                }
            });
        }
        self.list_there(there, &mut made).await?;
        Ok(made)
    }

    async fn list_there(
        &self,
        there: Vec<(usize, Target)>,
        made: &mut [Result<Made, (CopyAct, Error)>],
    ) -> Result<(), Error> {
        if there.is_empty() {
            return Ok(());
        }
        let targets = there.iter().map(|(_, target)| target.clone()).collect();
        let mut walk = self.to.walk(targets, EXISTING, false);
        let mut at = 0;
        while let Some(found) = walk.next().await {
            let Some((index, _)) = there.get(at) else { break };
            match found.entries {
                Ok(entries) => {
                    if let Ok(Made::There(before)) = &mut made[*index] {
                        before.extend(entries.into_iter().map(|it| (it.name, it.attributes)));
                    }
                }
                Err(error @ Error::Connection(_)) => return Err(error),
                // It is something else meanwhile; or may be written to but not read, and then names are found one by one.
                Err(error) if error.errno() == 20 => made[*index] = Err((CopyAct::MakeDirectory, error)),
                Err(_) => {}
            }
            at += usize::from(found.last);
        }
        Ok(())
    }

    async fn identities(&self, openings: &[Opening]) -> Result<Vec<Option<Attributes>>, Error> {
        let wanted = openings.iter().filter(|opening| opening.identify);
        let targets = wanted.map(|opening| opening.item.destination.clone()).collect();
        let mut found = self.to.attributes_of_each(targets, EXISTING, true).await?.into_iter();
        let identity = |opening: &Opening| if opening.identify { found.next()?.ok() } else { None };
        Ok(openings.iter().map(identity).collect())
    }

    /// Attributes of what symbolic links lead to, if they are followed.
    async fn resolve(&self, directory: &Target, mut page: Page) -> Result<Listed, Error> {
        let mut broken = Vec::new();
        if self.options.links == Links::Follow {
            let is_link = |entry: &Entry| entry.attributes.is(Kind::SymbolicLink);
            let links = page.entries.iter().filter(|entry| is_link(entry));
            let targets = links.map(|entry| directory.join(&entry.name)).collect();
            let mut found = self.from.attributes_of_each(targets, self.wanted(), true).await?.into_iter();
            let mut entries = Vec::with_capacity(page.entries.len());
            for mut entry in page.entries {
                if !is_link(&entry) {
                    entries.push(entry);
                    continue;
                }
                match found.next() {
                    Some(Ok(attributes)) => {
                        entry.attributes = attributes;
                        entries.push(entry);
                    }
                    Some(Err(error)) => broken.push((entry, error)),
                    None => {}
                }
            }
            page.entries = entries;
        }
        Ok(Listed { page, broken })
    }
}
