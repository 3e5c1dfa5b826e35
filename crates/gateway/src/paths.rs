//! The names of files, for people: a file does not know them, so they are looked for from the top.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use file_system::{Caller, FileId, FileKind, FileSystem, FsError, Mode};

use crate::node::{Node, Served};

/// Directory entries that are looked at for one answer.
const ENTRIES: usize = 65_536;
/// Directory entries read at once.
const PAGE: usize = 256;
/// Tries of one page against changes under way.
const TRIES: usize = 4;

impl Node {
    /// A path (the volume first) for each of these files that is found among the first 65,536 names, directories nearer
    /// to the root first.
    pub async fn paths_of(&self, mut wanted: BTreeSet<FileId>) -> BTreeMap<FileId, String> {
        let (mut found, mut left) = (BTreeMap::new(), ENTRIES);
        for served in self.served() {
            let volume = FileSystem::volume(&*served.volume);
            if wanted.iter().any(|file| file.volume == volume) {
                look_through(&served, &mut wanted, &mut found, &mut left).await;
            }
        }
        found
    }
}

async fn look_through(
    served: &Served,
    wanted: &mut BTreeSet<FileId>,
    found: &mut BTreeMap<FileId, String>,
    left: &mut usize,
) {
    let volume = FileSystem::volume(&*served.volume);
    let top = format!("/{}", served.volume.name());
    let Ok(transaction) = served.volume.begin(&Caller::root(), Mode::Optimistic).await else { return };
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

async fn page(served: &Served, folder: FileId, cookie: u64) -> Result<file_system::DirectoryPage, FsError> {
    let mut tries = 0;
    loop {
        let mut transaction = served.volume.begin(&Caller::root(), Mode::Optimistic).await?;
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
    }
}
