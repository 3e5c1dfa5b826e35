//! A directory of this machine as a cloud: a second disk, a mounted share, a test.
//!
//! Objects are files in two levels of directories named after the first and the second character of the object
//! (`/` becomes `+` in file names). A put writes a file in `.kurma-incoming`, makes it durable, renames it and
//! makes the rename durable. What a crash leaves there is never seen, and is swept when the directory is opened and every hour.
//!
//! A directory may be a disk or a share that comes and goes. What was set up once is never set up again by itself:
//! a bare mount point stays bare, everything that is asked of it fails, and once the store is back it is looked at
//! as at the start. The file `.kurma-cloud` tells which store it is ([`Marker`]), so that two of them that changed
//! places are noticed.
//!
//! The directory plays the part of a remote store, so it is reached through the operating system and not through
//! the gateway's own `Disk`.

mod leftovers;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind as Io, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use environment::{Entropy, Environment};
use parking_lot::Mutex;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use tokio::sync::Semaphore;

use crate::contract::{clip, length_of};
use crate::fan_out::{self, INCOMING, file_name};
use crate::limited::of_writes;
use crate::{Cloud, CloudError, Direction, ErrorKind, MAX_LIST, MAX_OBJECT, ObjectName, Operation, PutMode};
use leftovers::Leftovers;

/// Which stores this directory is: a line for each gateway that uses it.
const MARKERS: &str = ".kurma-cloud";

/// The longest file of markers that is read.
const MAX_MARKERS: u64 = 64 << 10;

/// Tells a store from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Means nothing to anybody else.
    pub id: [u8; 16],
    /// Whether the store has been used before: then it is only looked at, and may be out of reach at the start. A
    /// new store must be there, and is set up.
    pub known: bool,
}

impl Marker {
    fn line(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.id))
    }
}

/// The driver.
pub struct Dir {
    cloud: Arc<str>,
    store: Arc<Store>,
    /// Blocking operations at a time. A permit is held until the operation really ends, so that a hanging mount
    /// holds at most so many threads.
    running: Arc<Semaphore>,
    /// Of those the writes, so that hanging ones leave places for reads.
    writing: Arc<Semaphore>,
}

struct Store {
    root: PathBuf,
    entropy: Arc<dyn Entropy>,
    /// Fan-out directories that are known to be durable; bounded by the characters a name may begin with.
    made: Mutex<std::collections::HashSet<[u8; 2]>>,
    marker: Option<Marker>,
    leftovers: Leftovers,
    /// The store was not there when it was last looked for.
    gone: AtomicBool,
}

impl Dir {
    /// Opens the existing, writable directory `root` for at most `concurrent` operations at a time. One that its
    /// marker says is known may be missing: then everything fails until it is back.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`]: it is missing, cannot be written to, or is another store than the marker says.
    pub async fn open(
        env: &Environment,
        cloud: &str,
        root: &Path,
        concurrent: usize,
        marker: Option<Marker>,
    ) -> Result<Dir, CloudError> {
        let store = Store {
            root: root.to_owned(),
            entropy: env.entropy.clone(),
            made: Mutex::default(),
            marker,
            leftovers: Leftovers::new(env.clock.clone()),
            gone: AtomicBool::new(false),
        };
        let concurrent = concurrent.clamp(1, 512);
        let running = Arc::new(Semaphore::new(concurrent));
        let writing = Arc::new(Semaphore::new(of_writes(concurrent)));
        let dir = Dir { cloud: cloud.into(), store: Arc::new(store), running, writing };
        let opened = dir.run(Operation::Open, root.display().to_string(), Store::open).await;
        match opened {
            Err(_) if dir.store.gone.load(Ordering::Acquire) => Ok(dir),
            opened => opened.map(|()| dir),
        }
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
        let closed = |closed| error(ErrorKind::Transient, &closed);
        let write = match Direction::of(operation) {
            Direction::Read => None,
            Direction::Write => Some(self.writing.clone().acquire_owned().await.map_err(closed)?),
        };
        let permit = self.running.clone().acquire_owned().await.map_err(closed)?;
        let store = self.store.clone();
        let done = tokio::task::spawn_blocking(move || {
            let result = store.require().and_then(|()| work(&store)).or_else(|error| store.explain(error));
            drop((permit, write));
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
    /// Looks at a store that has been used before, sets up a new one.
    fn open(&self) -> io::Result<()> {
        if self.marker.is_some_and(|marker| marker.known) {
            self.look()?;
        }
        self.prepare()
    }

    /// Looks for a store that was gone.
    fn require(&self) -> io::Result<()> {
        if !self.gone.load(Ordering::Acquire) {
            return Ok(());
        }
        self.look()?;
        self.made.lock().clear();
        self.gone.store(false, Ordering::Release);
        Ok(())
    }

    /// Whether the store that was set up is there, and is the one it should be.
    fn look(&self) -> io::Result<()> {
        if !self.root.join(INCOMING).is_dir() {
            self.gone.store(true, Ordering::Release);
            return Err(self.missing());
        }
        let (Some(marker), known) = (self.marker, self.markers()?) else { return Ok(()) };
        if known.is_empty() || known.lines().any(|line| line == marker.line()) {
            return Ok(());
        }
        let cause = format!(
            "{} is the store of another cloud; were two mounts exchanged? Mount the right one there",
            self.root.display()
        );
        Err(io::Error::new(Io::InvalidInput, cause))
    }

    fn missing(&self) -> io::Error {
        let cause = format!(
            "{0} has gone or is not mounted; mount it again. If an empty disk takes its place, make the directory {0}/{INCOMING} in it",
            self.root.display()
        );
        io::Error::new(Io::NotADirectory, cause)
    }

    /// The lines of the file of markers; empty without one.
    fn markers(&self) -> io::Result<String> {
        let mut text = String::new();
        match File::open(self.root.join(MARKERS)) {
            Ok(file) => file.take(MAX_MARKERS).read_to_string(&mut text)?,
            Err(error) if error.kind() == Io::NotFound => 0,
            Err(error) => return Err(error),
        };
        Ok(text)
    }

    /// Writes the marker unless it is there.
    fn mark(&self) -> io::Result<()> {
        let Some(marker) = self.marker else { return Ok(()) };
        let known = self.markers()?;
        if known.lines().any(|line| line == marker.line()) {
            return Ok(());
        }
        let new = self.write_incoming(&[known.into(), format!("{}\n", marker.line()).into()])?;
        std::fs::rename(new, self.root.join(MARKERS))
    }

    /// Checks that the directory can be written to and sweeps what earlier crashes left.
    fn prepare(&self) -> io::Result<()> {
        let about =
            |error: io::Error, what: &str| io::Error::new(Io::InvalidInput, format!("{what}: {error}"));
        let meta = std::fs::metadata(&self.root).map_err(|e| {
            about(e, "the directory must exist (a missing mount is not replaced by an empty one)")
        })?;
        if !meta.is_dir() {
            return Err(io::Error::new(Io::InvalidInput, "this is not a directory"));
        }
        make_directory(&self.root.join(INCOMING)).map_err(|e| about(e, "the directory must be writable"))?;
        self.mark().map_err(|e| about(e, "the directory must be writable"))?;
        let probe = self.write_incoming(&[]).map_err(|e| about(e, "the directory must be writable"))?;
        let swept = self.leftovers.sweep(&probe);
        std::fs::remove_file(probe)?;
        sync_directory(&self.root)?;
        swept
    }

    /// A missing file in a missing store is not "no such object".
    fn explain<T>(&self, error: io::Error) -> io::Result<T> {
        if error.kind() == Io::NotFound && !self.root.join(INCOMING).is_dir() {
            self.gone.store(true, Ordering::Release);
            return Err(self.missing());
        }
        Err(error)
    }

    fn path_of(&self, name: &ObjectName) -> PathBuf {
        self.root.join(fan_out::steps(name).join("/"))
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
        // First of all, because it fails in a bare mount point, which must stay bare.
        let incoming = self.write_incoming(parts)?;
        self.leftovers.sweep_when_due(&incoming);
        let rename = || match mode {
            PutMode::Overwrite => std::fs::rename(&incoming, &target),
            PutMode::Create => rename_new(&incoming, &target),
        };
        let renamed = self.make_fan_out(folder, name).and_then(|()| rename()).or_else(|error| {
            // Somebody emptied the store under us.
            if error.kind() != Io::NotFound || !incoming.exists() {
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
                    let name = entry?.file_name().to_str().and_then(fan_out::object_of);
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
            let beginning = file.to_str().and_then(|file| fan_out::beginning(so_far, file, prefix, after));
            if let Some(beginning) = beginning
                && entry.file_type()?.is_dir()
            {
                found.push(beginning);
            }
        }
        found.sort_unstable();
        Ok(found)
    }
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
        Dir::open(&Environment::real(), "cellar", path, 8, None).await
    }

    async fn marked(path: &Path, id: u8, known: bool) -> Result<Dir, CloudError> {
        let marker = Marker { id: [id; 16], known };
        Dir::open(&Environment::real(), "cellar", path, 8, Some(marker)).await
    }

    #[tokio::test]
    async fn a_known_store_that_is_missing_is_waited_for_and_its_mount_point_stays_bare() {
        let folder = tempfile::tempdir().unwrap();
        let (root, aside) = (folder.path().join("mount"), folder.path().join("aside"));
        std::fs::create_dir(&root).unwrap();
        let name = ObjectName::new("name").unwrap();
        let put = |cloud: Dir, name: ObjectName| async move {
            (cloud.put(&name, vec!["x".into()], PutMode::Overwrite).await, cloud)
        };
        put(marked(&root, 1, false).await.unwrap(), name.clone()).await.0.unwrap();
        std::fs::rename(&root, &aside).unwrap();
        let (missing, cloud) = put(marked(&root, 1, true).await.unwrap(), name.clone()).await;
        assert!(missing.unwrap_err().to_string().contains("not mounted"));
        assert!(!root.exists(), "a missing directory is not made");
        std::fs::create_dir(&root).unwrap(); // the bare mount point
        let (bare, cloud) = put(cloud, name.clone()).await;
        assert_eq!(bare.unwrap_err().kind(), ErrorKind::Refused);
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
        std::fs::remove_dir(&root).unwrap();
        std::fs::rename(&aside, &root).unwrap();
        assert_eq!(cloud.get(&name, None).await.unwrap(), "x");
    }

    #[tokio::test]
    async fn a_store_in_the_place_of_another_is_refused_at_the_start_and_later() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two, aside) =
            (folder.path().join("one"), folder.path().join("two"), folder.path().join("aside"));
        std::fs::create_dir(&one).unwrap();
        std::fs::create_dir(&two).unwrap();
        marked(&one, 1, false).await.unwrap();
        marked(&two, 2, false).await.unwrap();
        let other = marked(&two, 1, true).await.err().unwrap();
        assert!(other.to_string().contains("another cloud"), "{other}");
        let cloud = marked(&one, 1, true).await.unwrap();
        let name = ObjectName::new("name").unwrap();
        std::fs::rename(&one, &aside).unwrap();
        assert_eq!(cloud.head(&name).await.unwrap_err().kind(), ErrorKind::Refused);
        std::fs::rename(&two, &one).unwrap();
        let exchanged = cloud.head(&name).await.unwrap_err();
        assert!(exchanged.to_string().contains("another cloud"), "{exchanged}");
        std::fs::rename(&one, &two).unwrap();
        std::fs::rename(&aside, &one).unwrap();
        assert_eq!(cloud.head(&name).await.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn several_gateways_may_share_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        marked(folder.path(), 1, false).await.unwrap();
        marked(folder.path(), 2, false).await.unwrap();
        marked(folder.path(), 1, true).await.unwrap();
        marked(folder.path(), 2, true).await.unwrap();
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

    #[tokio::test(start_paused = true)]
    async fn leftovers_that_have_become_old_are_swept_within_the_hour() {
        use std::time::Duration;
        let folder = tempfile::tempdir().unwrap();
        let cloud = Dir::open(&crate::test_environment(), "cellar", folder.path(), 8, None).await.unwrap();
        let path = folder.path().join(INCOMING).join("left");
        let left = File::create(&path).unwrap();
        let created = left.metadata().unwrap().modified().unwrap();
        let name = ObjectName::new("name").unwrap();
        // Looked for after so many minutes more, when it is so many minutes old.
        for (more, age, is_there) in [(61, 50, true), (59, 70, true), (2, 70, false)] {
            tokio::time::advance(Duration::from_secs(60 * more)).await;
            left.set_modified(created - Duration::from_secs(60 * age)).unwrap();
            cloud.put(&name, vec!["x".into()], PutMode::Overwrite).await.unwrap();
            assert_eq!(path.exists(), is_there, "{more} {age}");
        }
        assert_eq!(cloud.get(&name, None).await.unwrap(), "x");
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
