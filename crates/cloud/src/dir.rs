//! A directory of this machine as a cloud: a second disk, a mounted share, a test.
//!
//! Objects are files in two levels of directories named after the first and the second character of the object
//! (`/` becomes `+` in file names). A put writes a file in `.kurma-incoming`, makes it durable, renames it and
//! makes the rename durable. What a crash leaves there is never seen and is swept when the directory is opened.
//!
//! The directory plays the part of a remote store, so it is reached through the operating system and not through
//! the gateway's own `Disk`.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind as Io, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use environment::{Entropy, Environment};
use parking_lot::Mutex;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use tokio::sync::Semaphore;

use crate::contract::{clip, length_of};
use crate::{Cloud, CloudError, ErrorKind, MAX_LIST, MAX_OBJECT, ObjectName, Operation, PutMode};

/// Where files are written before they get their names. Its absence tells that the store is not mounted.
const INCOMING: &str = ".kurma-incoming";

/// Leftovers older than this are swept; younger ones may belong to another gateway that is writing now.
const LEFTOVER_SECONDS: i64 = 3600;

/// The driver.
pub struct Dir {
    cloud: Arc<str>,
    store: Arc<Store>,
    /// Blocking operations at a time. A permit is held until the operation really ends, so that a hanging mount
    /// holds at most so many threads.
    running: Arc<Semaphore>,
}

struct Store {
    root: PathBuf,
    entropy: Arc<dyn Entropy>,
    /// Fan-out directories that are known to be durable; bounded by the characters a name may begin with.
    made: Mutex<std::collections::HashSet<[u8; 2]>>,
}

impl Dir {
    /// Opens the existing, writable directory `root` for at most `concurrent` operations at a time.
    pub async fn open(
        env: &Environment,
        cloud: &str,
        root: &Path,
        concurrent: usize,
    ) -> Result<Dir, CloudError> {
        let store = Store { root: root.to_owned(), entropy: env.entropy.clone(), made: Mutex::default() };
        let running = Arc::new(Semaphore::new(concurrent.clamp(1, 512)));
        let dir = Dir { cloud: cloud.into(), store: Arc::new(store), running };
        let now = env.clock.wall().seconds;
        dir.run(Operation::Open, root.display().to_string(), move |store| store.prepare(now)).await?;
        Ok(dir)
    }

    async fn run<T: Send + 'static>(
        &self,
        operation: Operation,
        object: String,
        work: impl FnOnce(&Store) -> io::Result<T> + Send + 'static,
    ) -> Result<T, CloudError> {
        let error = |kind, cause: &dyn std::fmt::Display| {
            CloudError::new(kind, &self.cloud, operation, &object, cause)
        };
        let permit =
            self.running.clone().acquire_owned().await.map_err(|e| error(ErrorKind::Transient, &e))?;
        let store = self.store.clone();
        let done = tokio::task::spawn_blocking(move || {
            let result = work(&store).or_else(|error| store.explain(error));
            drop(permit);
            result
        });
        match done.await {
            Ok(result) => result.map_err(|cause| error(kind_of(&cause), &cause)),
            Err(broken) => Err(error(ErrorKind::Transient, &broken)),
        }
    }
}

fn kind_of(error: &io::Error) -> ErrorKind {
    match error.kind() {
        Io::NotFound => ErrorKind::NotFound,
        Io::AlreadyExists => ErrorKind::AlreadyExists,
        Io::PermissionDenied
        | Io::StorageFull
        | Io::QuotaExceeded
        | Io::ReadOnlyFilesystem
        | Io::NotADirectory
        | Io::InvalidInput
        | Io::Unsupported => ErrorKind::Refused,
        _ => ErrorKind::Transient,
    }
}

impl Store {
    /// Checks that the directory can be written to and sweeps what earlier crashes left.
    fn prepare(&self, now: i64) -> io::Result<()> {
        let about =
            |error: io::Error, what: &str| io::Error::new(Io::InvalidInput, format!("{what}: {error}"));
        let meta = std::fs::metadata(&self.root).map_err(|e| {
            about(e, "the directory must exist (a missing mount is not replaced by an empty one)")
        })?;
        if !meta.is_dir() {
            return Err(io::Error::new(Io::InvalidInput, "this is not a directory"));
        }
        let incoming = self.root.join(INCOMING);
        make_directory(&incoming).map_err(|e| about(e, "the directory must be writable"))?;
        let probe = self.write_incoming(&[]).map_err(|e| about(e, "the directory must be writable"))?;
        std::fs::remove_file(probe)?;
        sync_directory(&self.root)?;
        for entry in std::fs::read_dir(incoming)? {
            let entry = entry?;
            let modified = entry.metadata().and_then(|meta| meta.modified());
            let age = modified.ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            if age.is_some_and(|age| now - (age.as_secs() as i64) > LEFTOVER_SECONDS) {
                // Another gateway may sweep the same directory.
                std::fs::remove_file(entry.path())
                    .or_else(|e| if e.kind() == Io::NotFound { Ok(()) } else { Err(e) })?;
            }
        }
        Ok(())
    }

    /// A missing file in a missing store is not "no such object".
    fn explain<T>(&self, error: io::Error) -> io::Result<T> {
        if error.kind() == Io::NotFound && !self.root.join(INCOMING).is_dir() {
            let cause = format!("{} has gone; mount it again or restart the gateway", self.root.display());
            return Err(io::Error::new(Io::NotADirectory, cause));
        }
        Err(error)
    }

    fn path_of(&self, name: &ObjectName) -> PathBuf {
        let file = name.as_str().replace('/', "+");
        self.root.join(&file[..1]).join(&file[1..2]).join(&file)
    }

    fn write_incoming(&self, parts: &[Bytes]) -> io::Result<PathBuf> {
        let path = self.root.join(INCOMING).join(format!("{:016x}", self.entropy.next_u64()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let written = parts.iter().try_for_each(|part| file.write_all(part)).and_then(|()| file.sync_data());
        match written {
            Ok(()) => Ok(path),
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }

    fn put(&self, name: &ObjectName, parts: &[Bytes], mode: PutMode) -> io::Result<()> {
        let target = self.path_of(name);
        let folder = target.parent().unwrap_or(&self.root);
        self.make_fan_out(folder, name)?;
        let incoming = self.write_incoming(parts)?;
        let rename = || match mode {
            PutMode::Overwrite => std::fs::rename(&incoming, &target),
            PutMode::Create => rename_new(&incoming, &target),
        };
        let renamed = rename().or_else(|error| {
            // Somebody emptied the store under us.
            if error.kind() != Io::NotFound {
                return Err(error);
            }
            self.made.lock().clear();
            self.make_fan_out(folder, name)?;
            rename()
        });
        if let Err(error) = renamed {
            let _ = std::fs::remove_file(&incoming);
            return Err(error);
        }
        sync_directory(folder)
    }

    /// Makes the two directories of `name` and makes them durable, once in the life of the process.
    fn make_fan_out(&self, folder: &Path, name: &ObjectName) -> io::Result<()> {
        let key = [name.as_str().as_bytes()[0], name.as_str().as_bytes()[1]];
        if self.made.lock().contains(&key) {
            return Ok(());
        }
        let first = folder.parent().unwrap_or(&self.root);
        make_directory(first)?;
        make_directory(folder)?;
        sync_directory(first)?;
        sync_directory(&self.root)?;
        self.made.lock().insert(key);
        Ok(())
    }

    fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> io::Result<Bytes> {
        let file = File::open(self.path_of(name))?;
        let range = clip(range, file.metadata()?.len());
        let length = range.end - range.start;
        if length > MAX_OBJECT {
            let cause = format!("{length} bytes are more than the {MAX_OBJECT} that an object may have");
            return Err(io::Error::new(Io::InvalidInput, cause));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, range.start)?;
        Ok(bytes.into())
    }

    fn delete(&self, name: &ObjectName) -> io::Result<()> {
        let path = self.path_of(name);
        match std::fs::remove_file(&path) {
            Ok(()) => sync_directory(path.parent().unwrap_or(&self.root)),
            Err(error) if error.kind() == Io::NotFound => {
                self.explain(error).or_else(|error| match error.kind() {
                    Io::NotFound => Ok(()),
                    _ => Err(error),
                })
            }
            Err(error) => Err(error),
        }
    }

    /// The fan-out keeps the order of names, so only the directories that matter are read.
    fn list(&self, prefix: &str, after: &str, limit: usize) -> io::Result<Vec<(ObjectName, u64)>> {
        let mut found = Vec::new();
        if limit == 0 {
            return Ok(found);
        }
        for first in self.folders(&self.root, "", prefix, after)? {
            for second in self.folders(&self.root.join(file_name(&first)), &first, prefix, after)? {
                let folder = self.root.join(file_name(&first)).join(file_name(&second[first.len()..]));
                let mut names = Vec::new();
                for entry in std::fs::read_dir(&folder)? {
                    let name = entry?
                        .file_name()
                        .to_str()
                        .and_then(|file| ObjectName::new(&file.replace('+', "/")).ok());
                    let wanted = |name: &ObjectName| {
                        name.as_str().starts_with(prefix)
                            && name.as_str() > after
                            && name.as_str().starts_with(&second)
                    };
                    names.extend(name.filter(wanted));
                }
                names.sort_unstable();
                for name in names {
                    match std::fs::metadata(self.path_of(&name)) {
                        Ok(meta) => found.push((name, meta.len())),
                        Err(error) if error.kind() == Io::NotFound => continue, // deleted meanwhile
                        Err(error) => return Err(error),
                    }
                    if found.len() == limit {
                        return Ok(found);
                    }
                }
            }
        }
        Ok(found)
    }

    /// Beginnings of names, one character longer than `so_far`, that have a directory in `parent` and may have
    /// names with `prefix` after `after`; sorted.
    fn folders(&self, parent: &Path, so_far: &str, prefix: &str, after: &str) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(parent)? {
            let entry = entry?;
            let file = entry.file_name();
            let Some(file) = file.to_str().filter(|file| file.len() == 1 && *file != ".") else { continue };
            let beginning = format!("{so_far}{}", file.replace('+', "/"));
            let shared = beginning.len().min(prefix.len());
            let may_match = beginning.as_bytes()[..shared] == prefix.as_bytes()[..shared];
            let may_follow = beginning.as_bytes() >= &after.as_bytes()[..after.len().min(beginning.len())];
            if may_match && may_follow && entry.file_type()?.is_dir() {
                found.push(beginning);
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}

fn file_name(part: &str) -> String {
    part.replace('/', "+")
}

fn make_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == Io::AlreadyExists => Ok(()),
        result => result,
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Renames unless the target exists, also where the file system has no such call.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        result => Ok(result?),
    }
}

#[async_trait]
impl Cloud for Dir {
    async fn put(&self, name: &ObjectName, parts: Vec<Bytes>, mode: PutMode) -> Result<(), CloudError> {
        if length_of(&parts) > MAX_OBJECT {
            return Err(CloudError::too_large(&self.cloud, Operation::Put, name, length_of(&parts)));
        }
        let owned = name.clone();
        self.run(Operation::Put, name.to_string(), move |store| store.put(&owned, &parts, mode)).await
    }

    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        let owned = name.clone();
        self.run(Operation::Get, name.to_string(), move |store| store.get(&owned, range)).await
    }

    async fn head(&self, name: &ObjectName) -> Result<u64, CloudError> {
        let owned = name.clone();
        let size = move |store: &Store| Ok(std::fs::metadata(store.path_of(&owned))?.len());
        self.run(Operation::Head, name.to_string(), size).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), CloudError> {
        let owned = name.clone();
        self.run(Operation::Delete, name.to_string(), move |store| store.delete(&owned)).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<Vec<(ObjectName, u64)>, CloudError> {
        let (owned, after) = (prefix.to_owned(), after.map(ToString::to_string).unwrap_or_default());
        let list = move |store: &Store| store.list(&owned, &after, limit.min(MAX_LIST));
        self.run(Operation::List, prefix.to_owned(), list).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    async fn open(path: &Path) -> Result<Dir, CloudError> {
        Dir::open(&Environment::real(), "cellar", path, 8).await
    }

    #[tokio::test]
    async fn a_directory_keeps_the_contract() {
        let folder = tempfile::tempdir().unwrap();
        conformance::run(&open(folder.path()).await.unwrap()).await;
    }

    #[tokio::test]
    async fn objects_survive_reopening() {
        let folder = tempfile::tempdir().unwrap();
        let name = ObjectName::new("a/b").unwrap();
        let cloud = open(folder.path()).await.unwrap();
        cloud.put(&name, vec!["x".into(), "y".into()], PutMode::Create).await.unwrap();
        drop(cloud);
        assert_eq!(open(folder.path()).await.unwrap().get(&name, None).await.unwrap(), "xy");
    }

    #[tokio::test]
    async fn a_missing_or_wrong_directory_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let missing = open(&folder.path().join("missing")).await.err().unwrap();
        assert_eq!(missing.kind(), ErrorKind::Refused);
        assert!(missing.to_string().contains("must exist"), "{missing}");
        std::fs::write(folder.path().join("file"), "").unwrap();
        let file = open(&folder.path().join("file")).await.err().unwrap();
        assert!(file.to_string().contains("not a directory"), "{file}");
    }

    #[tokio::test]
    async fn a_store_that_was_unmounted_is_not_mistaken_for_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("mount");
        std::fs::create_dir(&root).unwrap();
        let cloud = open(&root).await.unwrap();
        let name = ObjectName::new("name").unwrap();
        cloud.put(&name, vec!["x".into()], PutMode::Overwrite).await.unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        std::fs::create_dir(&root).unwrap(); // the bare mount point
        assert_eq!(cloud.get(&name, None).await.unwrap_err().kind(), ErrorKind::Refused);
        assert_eq!(cloud.delete(&name).await.unwrap_err().kind(), ErrorKind::Refused);
        assert_eq!(
            cloud.put(&name, vec![], PutMode::Overwrite).await.unwrap_err().kind(),
            ErrorKind::Refused
        );
    }

    #[tokio::test]
    async fn a_store_that_was_emptied_takes_objects_again() {
        let folder = tempfile::tempdir().unwrap();
        let cloud = open(folder.path()).await.unwrap();
        let name = ObjectName::new("name").unwrap();
        for mode in [PutMode::Overwrite, PutMode::Create] {
            cloud.put(&name, vec!["x".into()], PutMode::Overwrite).await.unwrap();
            std::fs::remove_dir_all(folder.path().join("n")).unwrap();
            cloud.put(&name, vec!["y".into()], mode).await.unwrap();
            assert_eq!(cloud.get(&name, None).await.unwrap(), "y");
        }
    }

    #[tokio::test]
    async fn old_leftovers_are_swept_at_open_and_young_ones_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let incoming = folder.path().join(INCOMING);
        std::fs::create_dir(&incoming).unwrap();
        let old = File::create(incoming.join("old")).unwrap();
        old.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000)).unwrap();
        File::create(incoming.join("young")).unwrap();
        let cloud = open(folder.path()).await.unwrap();
        let left: Vec<_> =
            std::fs::read_dir(&incoming).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["young"]);
        assert_eq!(cloud.list("", None, 10).await.unwrap(), []);
    }
}
