//! Transactions: operations on files as reads and writes of rows.
//!
//! An operation reads and checks everything first and changes afterwards, so that one that fails has changed
//! nothing. Inodes are kept decoded and become rows at the commit.

mod attributes;
mod clones;
mod data;
mod directory;
mod entry;
mod names;
mod sparse;
mod xattrs;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use file_system::{
    Attributes, Authority, Caller, ChangeInfo, CommitMode, CreateKind, Created, DirectoryPage, Extent,
    FileId, FileKind, FsError, FsResult, Mode, Name, OpenCreate, Opened, Position, ReadData, SetAttributes,
    Space, Transaction, XattrMode, XattrName,
};
use ids::{ObjectId, ObjectNumber, Timestamp};
use meta::Priority;

pub(crate) use data::read_committed;
pub(crate) use entry::Entry;

use crate::error::meta_error;
use crate::node::advance_counter;
use crate::orphans::orphan_row;
use crate::row::{Inode, Special};
use crate::unsaved::Unsaved;
use crate::usage::Amount;
use crate::volume::Inner;

/// A transaction of a volume.
pub(crate) struct VolumeTransaction {
    volume: Arc<Inner>,
    caller: Caller,
    meta: Box<dyn meta::Transaction>,
    exclusive: bool,
    /// Objects looked at and changed.
    objects: HashMap<ObjectId, Loaded>,
    /// Content changed.
    unsaved: HashMap<ObjectId, Unsaved>,
    usage: Amount,
    /// Files whose data has changed.
    written: BTreeSet<ObjectId>,
    /// Leave to make data dirty; kept until the commit.
    admission: Option<cache::Admission>,
    /// Whether an operation ended with an error when it had changed rows already: nothing of the rest may be committed.
    broken: bool,
    /// Object numbers of an exclusive transaction.
    own_numbers: Range<u128>,
}

/// An object in the course of a transaction.
struct Loaded {
    inode: Inode,
    changed: bool,
}

impl VolumeTransaction {
    pub async fn begin(volume: Arc<Inner>, caller: Caller, mode: Mode) -> FsResult<VolumeTransaction> {
        if volume.record.read().doomed {
            return Err(FsError::Stale);
        }
        let exclusive = mode == Mode::Exclusive;
        let mode = if exclusive { meta::Mode::Exclusive } else { meta::Mode::Optimistic };
        let meta = volume.node.store.begin(mode).await.map_err(meta_error)?;
        Ok(VolumeTransaction {
            volume,
            caller,
            meta,
            exclusive,
            objects: HashMap::new(),
            unsaved: HashMap::new(),
            usage: Amount::default(),
            written: BTreeSet::new(),
            admission: None,
            broken: false,
            own_numbers: 0..0,
        })
    }

    fn now(&self) -> Timestamp {
        self.volume.node.environment.clock.wall()
    }

    async fn get(&mut self, key: &[u8]) -> FsResult<Option<Bytes>> {
        self.meta.get(key).await.map_err(meta_error)
    }

    /// The object of `file`; [`FsError::Stale`] when it is gone.
    async fn inode(&mut self, file: FileId) -> FsResult<&Inode> {
        if file.volume != self.volume.id {
            return Err(FsError::Stale);
        }
        self.load(file.object).await?;
        match self.objects.get(&file.object) {
            Some(loaded) => {
                let orphan = loaded.inode.attributes.links == 0;
                if orphan && !self.volume.references.is_held(file.object) {
                    return Err(FsError::Stale);
                }
                Ok(&loaded.inode)
            }
            None => Err(FsError::Stale),
        }
    }

    /// The object that an entry leads to, without a look at references.
    async fn entry_inode(&mut self, object: ObjectId) -> FsResult<&Inode> {
        self.load(object).await?;
        match self.objects.get(&object) {
            Some(loaded) => Ok(&loaded.inode),
            None => Err(self.lost(object)),
        }
    }

    /// An entry leads nowhere: a damaged store, or a view that would not commit anyway.
    fn lost(&self, object: ObjectId) -> FsError {
        FsError::Io(format!(
            "object {object} of volume {} is missing; run `kurma meta check`",
            self.volume.id
        ))
    }

    async fn load(&mut self, object: ObjectId) -> FsResult<()> {
        if !self.objects.contains_key(&object)
            && let Some(row) = self.get(&self.volume.keys.inode(object)).await?
        {
            let inode = self.volume.inode(object, &row)?;
            self.objects.insert(object, Loaded { inode, changed: false });
        }
        Ok(())
    }

    /// For changes; the object has been looked at by this transaction.
    fn edit(&mut self, object: ObjectId) -> FsResult<&mut Inode> {
        match self.objects.get_mut(&object) {
            Some(loaded) => {
                loaded.changed = true;
                Ok(&mut loaded.inode)
            }
            None => Err(FsError::Stale),
        }
    }

    fn add(&mut self, inode: Inode) {
        let object = inode.attributes.file.object;
        self.usage += Amount { objects: 1, bytes: 0 };
        self.objects.insert(object, Loaded { inode, changed: true });
    }

    /// Replaces the attributes of an object, counting what it uses.
    fn set(&mut self, object: ObjectId, attributes: Attributes) -> FsResult<()> {
        let inode = self.edit(object)?;
        let grown = attributes.space_used as i64 - inode.attributes.space_used as i64;
        inode.attributes = attributes;
        self.usage.bytes += grown;
        Ok(())
    }

    async fn new_object(&mut self) -> FsResult<ObjectId> {
        let node = self.volume.node.clone();
        if !self.exclusive {
            return Ok(node.new_object().await?);
        }
        // Nobody else commits now, so a reservation of its own would wait for this very transaction.
        let number = match self.own_numbers.next().or_else(|| node.ids.take()) {
            Some(number) => number,
            None => {
                let mut batch = advance_counter(&mut *self.meta).await?;
                let first = batch.start;
                batch.start += 1;
                self.own_numbers = batch;
                first
            }
        };
        Ok(ObjectId { creator: node.gateway, number: ObjectNumber(number) })
    }

    /// Turns changed objects into rows. Returns those that are left without a name, and whether somebody holds them.
    fn write_objects(&mut self) -> Vec<(ObjectId, bool)> {
        let keys = self.volume.keys;
        let mut orphans = Vec::new();
        for (&object, Loaded { inode, .. }) in self.objects.iter().filter(|(_, loaded)| loaded.changed) {
            let kind = inode.attributes.kind;
            if inode.attributes.links > 0 {
                self.meta.put(keys.inode(object), inode.encode());
            } else if kind != FileKind::Regular
                && inode.xattrs == 0
                && !self.volume.references.is_held(object)
            {
                // Only regular files are opened, so everything else that nobody holds can go at once. A regular file
                // may be held by somebody whose transaction has not ended yet.
                for key in [keys.inode(object), keys.target(object), keys.orphan(object)] {
                    self.meta.delete(key);
                }
                self.usage += Amount { objects: -1, bytes: 0 };
            } else {
                self.meta.put(keys.inode(object), inode.encode());
                let held = self.volume.references.is_held(object);
                self.meta.put(keys.orphan(object), orphan_row(held));
                orphans.push((object, held));
            }
        }
        orphans
    }
}

/// What [`Inode::special`] of a directory says.
fn directory_parent(inode: &Inode) -> FsResult<ObjectId> {
    match inode.special {
        Special::Directory { parent, .. } => Ok(parent),
        _ => Err(FsError::NotDirectory),
    }
}

#[async_trait]
impl Transaction for VolumeTransaction {
    fn root(&self) -> FileId {
        self.volume.file(self.volume.root)
    }

    async fn attributes(&mut self, file: FileId) -> FsResult<Attributes> {
        Ok(self.inode(file).await?.attributes.clone())
    }

    async fn set_attributes(
        &mut self,
        file: FileId,
        set: &SetAttributes,
        authority: Authority,
    ) -> FsResult<Attributes> {
        self.change_attributes(file, set, authority).await
    }

    async fn lookup(&mut self, directory: FileId, name: &Name) -> FsResult<Attributes> {
        self.look_up(directory, name).await
    }

    async fn parent(&mut self, directory: FileId) -> FsResult<Attributes> {
        self.look_up_parent(directory).await
    }

    async fn create(
        &mut self,
        directory: FileId,
        name: &Name,
        kind: CreateKind,
        set: &SetAttributes,
    ) -> FsResult<Created> {
        self.make(directory, name, kind, set).await
    }

    async fn open_create(
        &mut self,
        directory: FileId,
        name: &Name,
        how: OpenCreate,
        set: &SetAttributes,
    ) -> FsResult<Opened> {
        self.open_file(directory, name, how, set).await
    }

    async fn link(&mut self, file: FileId, directory: FileId, name: &Name) -> FsResult<ChangeInfo> {
        self.add_link(file, directory, name).await
    }

    async fn remove(&mut self, directory: FileId, name: &Name) -> FsResult<ChangeInfo> {
        self.remove_name(directory, name).await
    }

    async fn rename(
        &mut self,
        from: FileId,
        from_name: &Name,
        to: FileId,
        to_name: &Name,
    ) -> FsResult<(ChangeInfo, ChangeInfo)> {
        self.move_name(from, from_name, to, to_name).await
    }

    async fn read_link(&mut self, file: FileId) -> FsResult<Bytes> {
        self.link_target(file).await
    }

    async fn read_directory(
        &mut self,
        directory: FileId,
        cookie: u64,
        limit: usize,
    ) -> FsResult<DirectoryPage> {
        self.list(directory, cookie, limit).await
    }

    async fn read(
        &mut self,
        file: FileId,
        offset: u64,
        length: u32,
        authority: Authority,
    ) -> FsResult<ReadData> {
        self.read_data(file, offset, length, authority).await
    }

    fn room(&self) -> u64 {
        self.volume.node.store.attachable().saturating_sub(self.meta.attached_bytes())
    }

    async fn write(&mut self, file: FileId, offset: u64, data: Bytes, authority: Authority) -> FsResult<()> {
        self.write_data(file, offset, data, authority).await
    }

    async fn extents(
        &mut self,
        file: FileId,
        range: Range<u64>,
        limit: usize,
        authority: Authority,
    ) -> FsResult<Vec<Extent>> {
        self.find_extents(file, range, limit, authority).await
    }

    async fn allocate(
        &mut self,
        file: FileId,
        offset: u64,
        length: u64,
        authority: Authority,
    ) -> FsResult<()> {
        self.reserve(file, offset, length, authority).await
    }

    async fn deallocate(
        &mut self,
        file: FileId,
        offset: u64,
        length: u64,
        authority: Authority,
    ) -> FsResult<()> {
        self.punch(file, offset, length, authority).await
    }

    async fn clone_unit(&mut self, file: FileId) -> FsResult<u64> {
        self.unit_of_clones(file).await
    }

    async fn clone_range(&mut self, from: Position, to: Position, length: u64, wait: bool) -> FsResult<()> {
        self.take_over(from, to, length, wait).await
    }

    async fn xattr(&mut self, file: FileId, name: &XattrName) -> FsResult<Bytes> {
        self.get_xattr(file, name).await
    }

    async fn set_xattr(
        &mut self,
        file: FileId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> FsResult<ChangeInfo> {
        self.put_xattr(file, name, value, mode).await
    }

    async fn remove_xattr(&mut self, file: FileId, name: &XattrName) -> FsResult<ChangeInfo> {
        self.delete_xattr(file, name).await
    }

    async fn xattrs(&mut self, file: FileId) -> FsResult<Vec<XattrName>> {
        self.list_xattrs(file).await
    }

    async fn space(&mut self) -> FsResult<Space> {
        const FILES: u64 = 1 << 40;
        let used = self.volume.usage.get();
        let capacity = self.volume.node.capacity;
        let free = capacity.saturating_sub(used.bytes as u64);
        Ok(Space {
            total_bytes: capacity,
            free_bytes: free,
            available_bytes: free,
            total_files: FILES,
            free_files: FILES.saturating_sub(used.objects as u64),
            clone_unit: self.volume.policy_of_new_files().block_shift().bytes() as u32,
        })
    }

    async fn commit(mut self: Box<Self>, mode: CommitMode) -> FsResult<()> {
        if self.broken {
            return Err(FsError::Io(
                "an operation failed half-way, as the log says; nothing is changed".into(),
            ));
        }
        let orphans = self.write_objects();
        let VolumeTransaction { volume, mut meta, usage, written, admission, .. } = *self;
        volume.usage.add_with(&mut *meta, volume.keys.usage(), usage);
        let committed = meta.commit(Priority::Client).await.map_err(meta_error)?;
        drop(admission);
        if !orphans.is_empty() {
            volume.references.orphaned(orphans.iter().map(|(object, _)| *object));
        }
        for (object, held) in orphans {
            if !held && volume.references.is_held(object) {
                volume.keep_orphan(object).await?;
            }
        }
        match mode {
            CommitMode::Visible => Ok(()),
            CommitMode::Durable => {
                let written: Vec<_> = written.into_iter().collect();
                volume.settle(committed, &written).await
            }
        }
    }
}
