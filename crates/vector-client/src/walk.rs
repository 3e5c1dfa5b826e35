use std::collections::VecDeque;

use crate::listing::{Cookie, Directory, Entry, PageResult};
use crate::{AttributeSet, Client, Error, Kind, Target};

/// Directories asked for at once; those of them that are not asked for yet are remembered by their paths alone.
const AHEAD: usize = 2048;

/// Reads directories one after the other, a page at a time; with all below them, breadth first, if so wanted (V16).
///
/// Nothing is read before it is asked for by [`next`](Self::next), so memory does not grow with directories, but with
/// the number of directories at one depth.
pub struct Walk<'a> {
    client: &'a Client,
    wanted: AttributeSet,
    recursive: bool,
    hide_kind: bool,
    waiting: VecDeque<(Target, Option<Cookie>)>,
    /// Pages that came with those before them.
    ready: VecDeque<PageResult>,
}

/// Entries of one directory.
#[derive(Debug)]
pub struct Found {
    /// The directory.
    pub directory: Target,
    /// Some of its entries, in the order of the server; or why it cannot be read (any further).
    pub entries: Result<Vec<Entry>, Error>,
    /// Whether this is all there is to come of this directory.
    pub last: bool,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        client: &'a Client,
        directories: Vec<Target>,
        wanted: AttributeSet,
        recursive: bool,
    ) -> Walk<'a> {
        let hide_kind = recursive && !wanted.contains(AttributeSet::KIND);
        let wanted = if recursive { wanted | AttributeSet::KIND } else { wanted };
        let waiting = directories.into_iter().map(|target| (target, None)).collect();
        Walk { client, wanted, recursive, hide_kind, waiting, ready: VecDeque::new() }
    }

    /// The next entries; `None` when there are no more. A directory that cannot be read does not end the walk.
    pub async fn next(&mut self) -> Option<Found> {
        let goes_on = self.waiting.front()?.1.is_some();
        if goes_on {
            let page = self.ask(1).await.into_iter().next();
            self.ready.push_front(page.unwrap_or(Err(Error::Unsupported("going on with a directory"))));
        } else if self.ready.is_empty() {
            self.ready = self.ask(AHEAD).await.into();
        }
        let page = self.ready.pop_front()?;
        let (directory, _) = self.waiting.pop_front()?;
        let mut page = match page {
            Ok(page) => page,
            Err(error) => return Some(Found { directory, entries: Err(error), last: true }),
        };
        let last = page.next.is_none();
        if self.recursive {
            let below = page.entries.iter().filter(|entry| entry.attributes.is(Kind::Directory));
            self.waiting.extend(below.map(|entry| (directory.join(&entry.name), None)));
        }
        if self.hide_kind {
            page.entries.iter_mut().for_each(|entry| entry.attributes.kind = None);
        }
        if !last {
            self.waiting.push_front((directory.clone(), page.next));
        }
        Some(Found { directory, entries: Ok(page.entries), last })
    }

    async fn ask(&self, most: usize) -> Vec<PageResult> {
        let directories = self.waiting.iter().take(most).map(|(target, from)| Directory {
            target: target.clone(),
            from: *from,
            wanted: self.wanted,
        });
        self.client.backend.read_directories(directories.collect()).await
    }
}
