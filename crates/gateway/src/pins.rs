//! Files that are kept in the cache: what leaves it is fetched again, a few blocks at a time.

use std::sync::Arc;
use std::time::Duration;

use file_system::{Caller, FileId, FileKind, FileSystem, FsError, Mode, Name, Transaction};
use ids::BlockIndex;
use tokio_util::sync::CancellationToken;

use crate::node::{Node, Served};
use crate::node_rows::{pinned, set_pinned};

/// How often kept files are looked at.
const INTERVAL: Duration = Duration::from_secs(20);
/// Blocks looked at in one go.
pub(crate) const STEP: u64 = 64;
/// Directory entries read at once.
const PAGE: usize = 256;
/// Files that one request may mean.
const MAX_FILES: usize = 1 << 20;
/// Tries against changes under way.
const TRIES: usize = 16;

/// A regular file and its size in bytes.
pub(crate) type FoundFile = (Arc<Served>, FileId, u64);

impl Node {
    /// The regular file at `path` (the volume first), or all of them below the directory there. Links are not followed.
    pub async fn files_at(&self, path: &str) -> Result<Option<Vec<FoundFile>>, String> {
        let path = path.trim_start_matches('/');
        let (name, inner) = path.split_once('/').unwrap_or((path, ""));
        let served = self.served().into_iter().find(|served| served.volume.name() == name);
        let Some(served) = served else { return Ok(None) };
        for _ in 0..TRIES {
            match walk(&served, inner).await {
                Err(FsError::Conflict) => {}
                Err(FsError::NotFound | FsError::NotDirectory) => return Ok(None),
                Err(error) => return Err(error.to_string()),
                Ok(files) => {
                    let files = files.into_iter().map(|(file, size)| (served.clone(), file, size));
                    return Ok(Some(files.collect()));
                }
            }
        }
        Err(format!("/{path} changes all the time; try again"))
    }

    /// The size of a file in bytes; `None` when it is gone.
    pub async fn size_of(&self, served: &Served, file: FileId) -> Option<u64> {
        let mut transaction = served.volume.begin(&Caller::root(), Mode::Optimistic).await.ok()?;
        transaction.attributes(file).await.ok().map(|attributes| attributes.size)
    }

    /// Keeps pinned files in the cache, until `stop`.
    pub async fn keep_pinned(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.environment.clock.sleep(INTERVAL) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                listed = self.warm_pinned() => if let Err(error) = listed {
                    tracing::warn!(%error, "it cannot be found out which files are pinned");
                },
            }
        }
    }

    /// Brings every pinned file back into the cache; one that does not come keeps no other from it.
    async fn warm_pinned(&self) -> Result<(), String> {
        for file in pinned(&self.store).await.map_err(|cause| cause.to_string())? {
            if let Err(error) = self.warm_file(file).await {
                let (volume, object) = (file.volume, file.object);
                tracing::warn!(%volume, %object, %error, "a pinned file could not be brought back into the cache");
            }
        }
        Ok(())
    }

    async fn warm_file(&self, file: FileId) -> Result<(), String> {
        let volumes = self.served();
        let served = volumes.iter().find(|served| FileSystem::volume(&*served.volume) == file.volume);
        let mut next = Some(BlockIndex(0));
        while let Some(first) = next {
            let warmed = match served {
                Some(served) => served.volume.warm(file.object, first, STEP).await,
                None => Ok(None),
            };
            match warmed.map_err(|cause| cause.to_string())? {
                Some(warmed) => next = warmed.next,
                None => {
                    // The file is gone.
                    set_pinned(&self.store, &[file], false).await.map_err(|cause| cause.to_string())?;
                    next = None;
                }
            }
        }
        Ok(())
    }
}

async fn walk(served: &Served, path: &str) -> Result<Vec<(FileId, u64)>, FsError> {
    let begin = async || served.volume.begin(&Caller::root(), Mode::Optimistic).await;
    let mut transaction: Box<dyn Transaction> = begin().await?;
    let root = transaction.root();
    let mut at = transaction.attributes(root).await?;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let name = Name::new(part.to_owned()).map_err(|_| FsError::NotFound)?;
        at = transaction.lookup(at.file, &name).await?;
    }
    let mut files = Vec::new();
    let mut folders = Vec::new();
    match at.kind {
        FileKind::Regular => files.push((at.file, at.size)),
        FileKind::Directory => folders.push(at.file),
        _ => return Err(FsError::NotFound),
    }
    while let Some(folder) = folders.pop() {
        let mut cookie = 0;
        loop {
            // A transaction for each page: a tree of any size is not one instant.
            transaction = begin().await?;
            let page = transaction.read_directory(folder, cookie, PAGE).await?;
            for entry in &page.entries {
                cookie = entry.cookie;
                match entry.attributes.kind {
                    FileKind::Regular => files.push((entry.attributes.file, entry.attributes.size)),
                    FileKind::Directory => folders.push(entry.attributes.file),
                    _ => {}
                }
            }
            if files.len() + folders.len() > MAX_FILES {
                return Err(FsError::Unavailable(format!(
                    "there are more than {MAX_FILES} files; take parts"
                )));
            }
            if page.end {
                break;
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use ids::{GatewayId, ObjectId, ObjectNumber};
    use meta::{KeyBuilder, MetaStore, Priority, Scan};

    use super::*;
    use crate::test_node;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_pinned_file_that_cannot_be_read_keeps_no_other_from_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let node = test_node::open(folder.path(), &["a", "b", "c"]).await;
        let volume = &node.served()[0].volume;
        let bad = volume.begin(&Caller::root(), Mode::Optimistic).await.unwrap().root();
        let gone = ObjectId { creator: GatewayId(u16::MAX), number: ObjectNumber(9) };
        let gone = FileId { volume: bad.volume, object: gone };
        set_pinned(&node.store, &[bad, gone], true).await.unwrap();
        assert_eq!(pinned(&node.store).await.unwrap(), [bad, gone]);
        // The rows of all objects, which is the root; and the row of a file's key beside its inode's.
        let (start, end) = KeyBuilder::new(0x10).prefix_range();
        let mut transaction = node.store.begin(meta::Mode::Optimistic).await.unwrap();
        let scan = Scan { start: &start, end: &end, guard: None, limit: 100 };
        for (key, _) in transaction.scan(scan).await.unwrap() {
            if let Some((0x01, object)) = key.split_last() {
                transaction.put([object, &[0x02]].concat().into(), Bytes::from_static(b"?"));
            }
        }
        transaction.commit(Priority::Client).await.unwrap().durable().await.unwrap();
        node.warm_pinned().await.unwrap();
        assert_eq!(pinned(&node.store).await.unwrap(), [bad], "the one behind was looked at");
    }
}
