//! The names of files, for people: a file does not know them, so they are looked for from the top.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use environment::Clock;
use file_system::{Caller, FileId, FileKind, FileSystem, FsError, Mode};
use nfs4_server::ClientId;
use parking_lot::Mutex;
use volume::Volume;

use crate::node::Node;

/// Directory entries that are looked at for one answer.
const ENTRIES: usize = 65_536;
/// Directory entries read at once.
const PAGE: usize = 256;
/// Tries of one page against changes under way.
const TRIES: usize = 4;

/// For so many clients the paths of what they hold are kept, and for so long: until the next page is asked for.
const KEPT: usize = 2;
const KEPT_FOR: Duration = Duration::from_secs(60);

type Paths = Arc<BTreeMap<FileId, String>>;

/// Paths of what clients hold that are shown page by page: they are looked for once, not for each page.
#[derive(Default)]
pub(crate) struct FoundPaths(Mutex<Vec<(ClientId, Duration, Paths)>>);

impl FoundPaths {
    fn keep(&self, client: ClientId, paths: Paths, now: Duration) {
        let mut kept = self.0.lock();
        kept.retain(|(other, since, _)| *other != client && now < *since + KEPT_FOR);
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push((client, now, paths));
    }

    fn get(&self, client: ClientId, now: Duration) -> Option<Paths> {
        let kept = self.0.lock();
        let found = kept.iter().find(|(other, since, _)| *other == client && now < *since + KEPT_FOR);
        found.map(|(.., paths)| paths.clone())
    }

    fn forget(&self, client: ClientId) {
        self.0.lock().retain(|(other, ..)| *other != client);
    }
}

/// A page of what a client holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Whether there is one before it.
    pub first: bool,
    /// Whether there is one behind it.
    pub last: bool,
}

impl Node {
    /// [`Node::paths_of`] for a page of what a client holds. With the first of several all that it holds is looked for.
    pub async fn paths_of_page(&self, client: ClientId, page: Shown, files: BTreeSet<FileId>) -> Paths {
        let now = Clock::monotonic(&*self.environment.clock);
        if page.first && !page.last {
            let paths = Arc::new(self.paths_of(self.files_of(client)).await);
            self.found_paths.keep(client, paths.clone(), now);
            return paths;
        }
        let known = if page.first { None } else { self.found_paths.get(client, now) };
        if page.last {
            self.found_paths.forget(client);
        }
        match known {
            Some(paths) => paths,
            None => Arc::new(self.paths_of(files).await),
        }
    }

    /// Files that a client holds something of: not more than there are names to look through.
    fn files_of(&self, client: ClientId) -> BTreeSet<FileId> {
        let (mut files, mut after) = (BTreeSet::new(), None);
        while files.len() < ENTRIES
            && let Some(page) = self.server.held_by(client, after, ENTRIES)
        {
            files.extend(page.held.iter().map(|held| held.file));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        files
    }

    /// A path (the volume first) for each of these files that is found among the first 65,536 names, directories nearer
    /// to the root first.
    pub async fn paths_of(&self, mut wanted: BTreeSet<FileId>) -> BTreeMap<FileId, String> {
        let (mut found, mut left) = (BTreeMap::new(), ENTRIES);
        for served in self.served() {
            let volume = FileSystem::volume(&*served.volume);
            if wanted.iter().any(|file| file.volume == volume) {
                look_through(&served.volume, &mut wanted, &mut found, &mut left).await;
            }
        }
        found
    }
}

/// Looks for these files from the top of a volume, at `left` names at most.
pub(crate) async fn look_through(
    volume: &Volume,
    wanted: &mut BTreeSet<FileId>,
    found: &mut BTreeMap<FileId, String>,
    left: &mut usize,
) {
    let (served, volume) = (volume, FileSystem::volume(volume));
    let top = format!("/{}", served.name());
    let Ok(transaction) = served.begin(&Caller::root(), Mode::Optimistic).await else { return };
    let mut folders = VecDeque::from([(transaction.root(), top)]);
    drop(transaction);
    while let Some((folder, path)) = folders.pop_front() {
        let mut cookie = 0;
        loop {
            // What cannot be read has no names to show.
            let Ok(page) = page(served, folder, cookie).await else { break };
            for entry in &page.entries {
                if *left == 0 || !wanted.iter().any(|file| file.volume == volume) {
                    return;
                }
                *left -= 1;
                cookie = entry.cookie;
                let file = entry.attributes.file;
                let path = || format!("{path}/{}", printable(entry.name.as_bytes()));
                if wanted.remove(&file) {
                    found.insert(file, path());
                }
                if entry.attributes.kind == FileKind::Directory {
                    folders.push_back((file, path()));
                }
            }
            if page.end {
                break;
            }
        }
    }
}

async fn page(volume: &Volume, folder: FileId, cookie: u64) -> Result<file_system::DirectoryPage, FsError> {
    let mut tries = 0;
    loop {
        let mut transaction = volume.begin(&Caller::root(), Mode::Optimistic).await?;
        tries += 1;
        match transaction.read_directory(folder, cookie, PAGE).await {
            Err(FsError::Conflict) if tries < TRIES => {}
            page => return page,
        }
    }
}

/// A name that does no harm to a terminal.
fn printable(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let escaped = |char: char| match char.is_control() {
        true => char.escape_default().to_string(),
        false => char.to_string(),
    };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use file_system::{CommitMode, CreateKind, Name, SetAttributes};

    use super::*;
    use crate::test_node;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn files_are_found_wherever_they_are_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let node = test_node::open(folder.path(), &["a", "b", "c"]).await;
        let volume = node.served()[0].volume.clone();
        let mut transaction = volume.begin(&Caller::root(), Mode::Optimistic).await.unwrap();
        let root = transaction.root();
        let name = |text: &'static str| Name::new(text).unwrap();
        let set = SetAttributes::with_mode(0o755);
        let made = transaction.create(root, &name("d\u{7}"), CreateKind::Directory, &set).await.unwrap();
        let inside = made.attributes.file;
        let made = transaction.create(inside, &name("f"), CreateKind::Directory, &set).await.unwrap();
        let file = made.attributes.file;
        transaction.commit(CommitMode::Durable).await.unwrap();
        let gone = FileId { object: ids::ObjectId { number: ids::ObjectNumber(77), ..file.object }, ..file };
        let found = node.paths_of([file, gone].into()).await;
        assert_eq!(found, BTreeMap::from([(file, "/home/d\\u{7}/f".into())]));

        // What was found for the first page is what the others show.
        let (client, now) = (ClientId(1), Clock::monotonic(&*node.environment.clock));
        let kept: Paths = Arc::new(BTreeMap::from([(file, "/home/once".into())]));
        node.found_paths.keep(client, kept.clone(), now);
        for last in [false, true] {
            let shown = node.paths_of_page(client, Shown { first: false, last }, [file].into()).await;
            assert_eq!(shown, kept);
        }
        let shown = node.paths_of_page(client, Shown { first: false, last: true }, [file].into()).await;
        assert_eq!(*shown, found, "that was the last page");
        let shown = node.paths_of_page(client, Shown { first: true, last: true }, [file].into()).await;
        assert_eq!(*shown, found);
    }

    #[test]
    fn paths_are_kept_for_a_minute_and_for_few_clients() {
        let (found, paths) = (FoundPaths::default(), Paths::default());
        let seconds = Duration::from_secs;
        for client in 1..=KEPT as u64 + 1 {
            found.keep(ClientId(client), paths.clone(), seconds(client));
        }
        assert!(found.get(ClientId(1), seconds(6)).is_none(), "the oldest made room");
        assert!(found.get(ClientId(2), seconds(61)).is_some());
        assert!(found.get(ClientId(2), seconds(62)).is_none());
        found.forget(ClientId(2));
        assert!(found.get(ClientId(2), seconds(6)).is_none());
    }
}
