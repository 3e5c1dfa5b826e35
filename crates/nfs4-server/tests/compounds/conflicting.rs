//! A file system that meets as many conflicts as it is told to.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use file_system::memory::MemoryFileSystem;
use file_system::{
    Attributes, Authority, Caller, ChangeInfo, CommitMode, CreateKind, Created, DirectoryPage, Extent,
    FileId, FileSystem, FsError, FsResult, Mode, Name, OpenCreate, OpenReference, Opened, Position, ReadData,
    SetAttributes, Space, Transaction, XattrMode, XattrName,
};
use ids::VolumeId;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedMutexGuard, Semaphore};

/// Wraps a file system. While a counter is above zero, what it names ends in a conflict and counts it down.
pub struct Conflicting {
    inner: Arc<MemoryFileSystem>,
    counters: Arc<Counters>,
    /// Locked by the one exclusive transaction.
    alone: Arc<tokio::sync::Mutex<()>>,
}

/// Holds up one OPEN just before it makes or cuts its file.
#[derive(Default)]
pub struct Gate {
    pub reached: Notify,
    pub open: Notify,
}

/// Holds up calls until each is let through.
pub struct Turnstile {
    arrived: Semaphore,
    free: Semaphore,
}

impl Turnstile {
    fn new() -> Arc<Turnstile> {
        Arc::new(Turnstile { arrived: Semaphore::new(0), free: Semaphore::new(0) })
    }

    /// One more call has come.
    pub async fn arrival(&self) {
        self.arrived.acquire().await.unwrap().forget();
    }

    pub fn let_through(&self, calls: usize) {
        self.free.add_permits(calls);
    }

    /// Holds up nobody any more, as good as.
    pub fn open(&self) {
        self.let_through(1 << 20);
    }

    async fn pass(&self) {
        self.arrived.add_permits(1);
        self.free.acquire().await.unwrap().forget();
    }
}

#[derive(Default)]
struct Counters {
    /// Commits to refuse.
    commits: AtomicU32,
    /// `attributes` calls to refuse.
    attributes: AtomicU32,
    /// Commits to let through before one fails with an I/O error; zero for none.
    io_error: AtomicU32,
    modes: Mutex<Vec<Mode>>,
    committed: Mutex<Vec<CommitMode>>,
    syncs: AtomicU32,
    gate: Mutex<Option<Arc<Gate>>>,
    reads: Mutex<Option<Arc<Turnstile>>>,
    visible: Mutex<Option<Arc<Turnstile>>>,
}

impl Conflicting {
    pub fn new(inner: Arc<MemoryFileSystem>) -> Conflicting {
        Conflicting { inner, counters: Arc::default(), alone: Arc::default() }
    }

    pub fn refuse_commits(&self, count: u32) {
        self.counters.commits.store(count, Ordering::SeqCst);
    }

    pub fn refuse_attributes(&self, count: u32) {
        self.counters.attributes.store(count, Ordering::SeqCst);
    }

    /// Holds up the next OPEN that makes or cuts a file.
    pub fn hold_next_open(&self) -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        *self.counters.gate.lock() = Some(gate.clone());
        gate
    }

    /// Holds up reads from now on.
    pub fn hold_reads(&self) -> Arc<Turnstile> {
        self.counters.reads.lock().insert(Turnstile::new()).clone()
    }

    /// Holds up commits from now on that need not be durable.
    pub fn hold_visible_commits(&self) -> Arc<Turnstile> {
        self.counters.visible.lock().insert(Turnstile::new()).clone()
    }

    /// What an exclusive transaction keeps locked.
    pub fn alone(&self) -> Arc<tokio::sync::Mutex<()>> {
        self.alone.clone()
    }

    /// Makes the next commit end with an I/O error.
    pub fn break_next_commit(&self) {
        self.counters.io_error.store(1, Ordering::SeqCst);
    }

    /// How transactions were begun since the last call.
    pub fn take_modes(&self) -> Vec<Mode> {
        std::mem::take(&mut self.counters.modes.lock())
    }

    /// How transactions were committed since the last call.
    pub fn take_commits(&self) -> Vec<CommitMode> {
        std::mem::take(&mut self.counters.committed.lock())
    }

    pub fn syncs(&self) -> u32 {
        self.counters.syncs.load(Ordering::SeqCst)
    }
}

fn count_down(counter: &AtomicU32) -> bool {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

#[async_trait]
impl FileSystem for Conflicting {
    fn volume(&self) -> VolumeId {
        self.inner.volume()
    }

    async fn begin(&self, caller: &Caller, mode: Mode) -> FsResult<Box<dyn Transaction>> {
        self.counters.modes.lock().push(mode);
        let alone = match mode {
            Mode::Optimistic => None,
            Mode::Exclusive => Some(self.alone.clone().lock_owned().await),
        };
        let inner = self.inner.begin(caller, mode).await?;
        Ok(Box::new(ConflictingTransaction { inner, counters: self.counters.clone(), _alone: alone }))
    }

    fn reference(&self, file: FileId) -> OpenReference {
        self.inner.reference(file)
    }

    async fn sync(&self, file: FileId) -> FsResult<()> {
        self.counters.syncs.fetch_add(1, Ordering::SeqCst);
        self.inner.sync(file).await
    }

    fn write_verifier(&self) -> [u8; 8] {
        self.inner.write_verifier()
    }
}

struct ConflictingTransaction {
    inner: Box<dyn Transaction>,
    counters: Arc<Counters>,
    _alone: Option<OwnedMutexGuard<()>>,
}

#[async_trait]
impl Transaction for ConflictingTransaction {
    async fn commit(self: Box<Self>, mode: CommitMode) -> FsResult<()> {
        if count_down(&self.counters.commits) {
            return Err(FsError::Conflict);
        }
        if count_down(&self.counters.io_error) {
            return Err(FsError::Io("broken by the test".to_owned()));
        }
        let held = self.counters.visible.lock().clone().filter(|_| mode == CommitMode::Visible);
        if let Some(held) = held {
            held.pass().await;
        }
        self.counters.committed.lock().push(mode);
        self.inner.commit(mode).await
    }

    async fn attributes(&mut self, file: FileId) -> FsResult<Attributes> {
        if count_down(&self.counters.attributes) {
            return Err(FsError::Conflict);
        }
        self.inner.attributes(file).await
    }

    // Everything else as it is.

    fn root(&self) -> FileId {
        self.inner.root()
    }

    async fn set_attributes(
        &mut self,
        file: FileId,
        set: &SetAttributes,
        by: Authority,
    ) -> FsResult<Attributes> {
        self.inner.set_attributes(file, set, by).await
    }

    async fn lookup(&mut self, directory: FileId, name: &Name) -> FsResult<Attributes> {
        self.inner.lookup(directory, name).await
    }

    async fn parent(&mut self, directory: FileId) -> FsResult<Attributes> {
        self.inner.parent(directory).await
    }

    async fn create(
        &mut self,
        at: FileId,
        name: &Name,
        kind: CreateKind,
        set: &SetAttributes,
    ) -> FsResult<Created> {
        self.inner.create(at, name, kind, set).await
    }

    async fn open_create(
        &mut self,
        at: FileId,
        name: &Name,
        how: OpenCreate,
        set: &SetAttributes,
    ) -> FsResult<Opened> {
        let gate = self.counters.gate.lock().take();
        if let Some(gate) = gate {
            gate.reached.notify_one();
            gate.open.notified().await;
        }
        self.inner.open_create(at, name, how, set).await
    }

    async fn link(&mut self, file: FileId, directory: FileId, name: &Name) -> FsResult<ChangeInfo> {
        self.inner.link(file, directory, name).await
    }

    async fn remove(&mut self, directory: FileId, name: &Name) -> FsResult<ChangeInfo> {
        self.inner.remove(directory, name).await
    }

    async fn rename(
        &mut self,
        from: FileId,
        from_name: &Name,
        to: FileId,
        to_name: &Name,
    ) -> FsResult<(ChangeInfo, ChangeInfo)> {
        self.inner.rename(from, from_name, to, to_name).await
    }

    async fn read_link(&mut self, file: FileId) -> FsResult<Bytes> {
        self.inner.read_link(file).await
    }

    async fn read_directory(
        &mut self,
        directory: FileId,
        cookie: u64,
        limit: usize,
    ) -> FsResult<DirectoryPage> {
        self.inner.read_directory(directory, cookie, limit).await
    }

    async fn read(&mut self, file: FileId, offset: u64, length: u32, by: Authority) -> FsResult<ReadData> {
        let held = self.counters.reads.lock().clone();
        if let Some(held) = held {
            held.pass().await;
        }
        self.inner.read(file, offset, length, by).await
    }

    async fn write(&mut self, file: FileId, offset: u64, data: Bytes, by: Authority) -> FsResult<()> {
        self.inner.write(file, offset, data, by).await
    }

    async fn extents(
        &mut self,
        file: FileId,
        range: Range<u64>,
        limit: usize,
        by: Authority,
    ) -> FsResult<Vec<Extent>> {
        self.inner.extents(file, range, limit, by).await
    }

    async fn allocate(&mut self, file: FileId, offset: u64, length: u64, by: Authority) -> FsResult<()> {
        self.inner.allocate(file, offset, length, by).await
    }

    async fn deallocate(&mut self, file: FileId, offset: u64, length: u64, by: Authority) -> FsResult<()> {
        self.inner.deallocate(file, offset, length, by).await
    }

    async fn clone_unit(&mut self, file: FileId) -> FsResult<u64> {
        self.inner.clone_unit(file).await
    }

    async fn clone_range(&mut self, from: Position, to: Position, length: u64, wait: bool) -> FsResult<()> {
        self.inner.clone_range(from, to, length, wait).await
    }

    async fn xattr(&mut self, file: FileId, name: &XattrName) -> FsResult<Bytes> {
        self.inner.xattr(file, name).await
    }

    async fn set_xattr(
        &mut self,
        file: FileId,
        name: &XattrName,
        value: Bytes,
        how: XattrMode,
    ) -> FsResult<ChangeInfo> {
        self.inner.set_xattr(file, name, value, how).await
    }

    async fn remove_xattr(&mut self, file: FileId, name: &XattrName) -> FsResult<ChangeInfo> {
        self.inner.remove_xattr(file, name).await
    }

    async fn xattrs(&mut self, file: FileId) -> FsResult<Vec<XattrName>> {
        self.inner.xattrs(file).await
    }

    async fn space(&mut self) -> FsResult<Space> {
        self.inner.space().await
    }
}
