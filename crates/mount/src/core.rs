//! What all requests share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use environment::{Clock, Entropy};
use fuser::{Errno, FileAttr, FileType, INodeNo, Notifier};
use nfs4::{AttributeValues, FileHandle};
use parking_lot::RwLock;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::TaskTracker;

use crate::attributes::to_kernel;
use crate::callers::Callers;
use crate::delegations::Delegations;
use crate::directory::Listing;
use crate::errno::Answer;
use crate::inode::Inode;
use crate::opened::Opened;
use crate::options::Options;
use crate::table::Table;
use crate::write_behind::Dirty;

/// A mounted file system.
pub(crate) struct Core {
    pub options: Options,
    pub callers: Callers,
    pub table: Table,
    pub files: Handles<Opened>,
    pub listings: Handles<Listing>,
    pub dirty: Dirty,
    /// Whether something was not stored of files that are forgotten, and no write or fsync had said so.
    pub has_lost: AtomicBool,
    pub delegations: Delegations,
    /// Bytes of memory for data that is not stable.
    pub room: Arc<Semaphore>,
    pub settling: tokio::sync::Mutex<()>,
    /// Largest READ and WRITE.
    pub transfer: u32,
    /// Largest reply to READDIR.
    pub listing_bytes: u32,
    pub lock_freed: Arc<Notify>,
    /// Names the opens and lock owners of this mount.
    pub owners: AtomicU64,
    /// Steps with every change made here.
    pub ticks: AtomicU64,
    /// When files that are known by a name only were changed here last: as that was removed, or otherwise.
    pub removed: AtomicU64,
    pub renamed: AtomicU64,
    /// When a file that was changed here was forgotten last.
    pub forgotten: AtomicU64,
    pub notifier: OnceLock<Notifier>,
    pub runtime: Handle,
    pub tasks: TaskTracker,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
}

/// What the kernel has open, by the number it was given.
pub(crate) struct Handles<T> {
    open: RwLock<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Default for Handles<T> {
    fn default() -> Handles<T> {
        Handles { open: RwLock::default(), next: AtomicU64::new(1) }
    }
}

impl<T> Handles<T> {
    pub fn insert(&self, open: Arc<T>) -> u64 {
        let number = self.next.fetch_add(1, Relaxed);
        self.open.write().insert(number, open);
        number
    }

    pub fn get(&self, number: u64) -> Answer<Arc<T>> {
        self.open.read().get(&number).cloned().ok_or(Errno::EBADF)
    }

    pub fn remove(&self, number: u64) -> Option<Arc<T>> {
        self.open.write().remove(&number)
    }

    /// Everything, which is no longer open afterwards.
    pub fn take(&self) -> Vec<Arc<T>> {
        self.open.write().drain().map(|(_, open)| open).collect()
    }
}

impl Core {
    /// How long the kernel may believe what it is told.
    pub fn ttl(&self) -> Duration {
        self.options.attribute_timeout
    }

    pub fn tick(&self) -> u64 {
        self.ticks.load(SeqCst)
    }

    /// The file was changed from here: what was read of it before may be old.
    pub fn touch(&self, inode: &Inode) {
        inode.touched.fetch_max(self.ticks.fetch_add(1, SeqCst) + 1, SeqCst);
    }

    /// Something is being changed until this is dropped, however that ends.
    pub fn changing<'a>(&'a self, changed: Changed<'a>) -> Changing<'a> {
        Changing { core: self, changed }
    }

    /// The kernel is told of a file that was looked up.
    pub fn entry(self: &Arc<Core>, handle: &FileHandle, values: &AttributeValues) -> (Arc<Inode>, FileAttr) {
        let mut inodes = self.table.look_up([(handle, values.fileid.unwrap_or(0))].into_iter());
        let inode = inodes.remove(0); // as many as were asked for
        let attributes = self.told(&inode, values);
        (inode, attributes)
    }

    /// The kernel is told these attributes. If they are of a version that nobody here made, it has to forget its pages.
    pub fn told(self: &Arc<Core>, inode: &Arc<Inode>, values: &AttributeValues) -> FileAttr {
        let attributes = to_kernel(inode.number, values);
        self.tell(inode, attributes.kind, values.change);
        attributes
    }

    /// The kernel is told that the file is of this version.
    pub fn tell(self: &Arc<Core>, inode: &Arc<Inode>, kind: FileType, change: Option<u64>) {
        let mut known = inode.known.lock();
        known.told = change;
        let foreign = kind == FileType::RegularFile
            && known.cached.is_some()
            && known.cached != change
            && !inode.writer.is_busy();
        if foreign {
            known.cached = None;
            self.forget_pages(inode.clone(), change);
        }
    }

    /// Not at once: the kernel may have locked pages until it has the answer that is being made.
    pub fn forget_pages(self: &Arc<Core>, inode: Arc<Inode>, change: Option<u64>) {
        let core = self.clone();
        self.runtime.spawn(async move { core.forget_pages_now(&inode, change).await });
    }

    /// The kernel forgets its pages, unless it has none of before this version. Not for an answer that it has locked pages for.
    pub async fn forget_pages_now(self: &Arc<Core>, inode: &Arc<Inode>, change: Option<u64>) {
        let (core, number) = (self.clone(), inode.number);
        // The kernel may have to write some of them, which comes back here.
        let forgetting = self.runtime.spawn_blocking(move || {
            core.notifier.get().is_some_and(|notifier| notifier.inval_inode(INodeNo(number), 0, 0).is_ok())
        });
        if forgetting.await.unwrap_or(false) {
            let mut known = inode.known.lock();
            known.cached = known.cached.or(change);
        }
    }

    /// The kernel has to ask for the attributes again.
    pub fn forget_attributes(&self, inode: &Inode) {
        if let Some(notifier) = self.notifier.get()
            && let Err(error) = notifier.inval_inode(INodeNo(inode.number), -1, 0)
        {
            tracing::debug!(%error, "the kernel does not forget attributes");
        }
    }

    /// Whether something was not stored, and no write or fsync has said so.
    pub fn has_lost_silently(&self) -> bool {
        self.has_lost.load(SeqCst) || self.table.any(|inode| inode.writer.has_lost_silently())
    }

    /// The kernel has forgotten a file that it was told of so many times.
    pub fn forget(self: &Arc<Core>, number: u64, times: u64) {
        if let Some(inode) = self.table.forget(number, times) {
            self.has_lost.fetch_or(inode.writer.has_lost_silently(), SeqCst);
            self.give_back_of(&inode.handle);
            self.forgotten.fetch_max(inode.touched.load(SeqCst), SeqCst);
        }
    }
}

/// What a change from here may concern.
#[derive(Clone, Copy)]
pub(crate) enum Changed<'a> {
    File(&'a Inode),
    /// A file whose name is removed: one that is open, or has several names, as others are of no interest any more.
    Removed,
    /// Whichever file.
    Any,
    /// It is over.
    Nothing,
}

/// A change under way.
pub(crate) struct Changing<'a> {
    core: &'a Core,
    changed: Changed<'a>,
}

impl Changing<'_> {
    /// It was done, and concerns only this file.
    pub fn was(mut self, inode: &Inode) {
        self.core.touch(inode);
        self.changed = Changed::Nothing;
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let names = match self.changed {
            Changed::Nothing => return,
            Changed::File(inode) => return self.core.touch(inode),
            Changed::Removed => &self.core.removed,
            Changed::Any => &self.core.renamed,
        };
        names.fetch_max(self.core.ticks.fetch_add(1, SeqCst) + 1, SeqCst);
    }
}
