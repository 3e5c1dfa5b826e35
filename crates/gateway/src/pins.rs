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
                warmed = self.warm_pinned() => if let Err(error) = warmed {
                    tracing::warn!(%error, "pinned files could not be brought back into the cache");
                },
            }
        }
    }

    async fn warm_pinned(&self) -> Result<(), String> {
        let volumes = self.served();
        for file in pinned(&self.store).await.map_err(|cause| cause.to_string())? {
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
