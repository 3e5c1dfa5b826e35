use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use ids::{ObjectId, Timestamp};
use tokio::sync::OwnedRwLockWriteGuard;

use super::Shared;
use super::content::{Content, PAGE};
use super::tree::{Body, Directory, Object, Tree};
use crate::limits::{FIRST_COOKIE, MAX_LINKS, MAX_XATTR_VALUE, MAX_XATTRS};
use crate::permission::{
    may_add, may_move, may_read, may_remove, may_replace, may_use_xattrs, may_write, require,
    require_directory, require_regular,
};
use crate::{
    Access, Attributes, Authority, Caller, ChangeInfo, CommitMode, CreateKind, Created, Device,
    DirectoryEntry, DirectoryPage, Extent, FileId, FileKind, FsError, FsResult, MAX_LINK_TARGET, Name,
    OpenCreate, Opened, Position, ReadData, SetAttributes, Space, Transaction, XattrMode, XattrName,
    attribute_rules, cloned_length,
};

/// A transaction on a private copy of the tree.
pub(super) struct MemoryTransaction {
    shared: Arc<Shared>,
    caller: Caller,
    version: u64,
    tree: Tree,
    changed: bool,
    turn: Option<OwnedRwLockWriteGuard<()>>,
}

impl MemoryTransaction {
    pub fn new(
        shared: Arc<Shared>,
        caller: Caller,
        version: u64,
        tree: Tree,
        turn: Option<OwnedRwLockWriteGuard<()>>,
    ) -> MemoryTransaction {
        MemoryTransaction { shared, caller, version, tree, changed: false, turn }
    }

    fn get(&self, file: FileId) -> FsResult<Arc<Object>> {
        if file.volume != self.shared.volume {
            return Err(FsError::Stale);
        }
        let object = self.tree.get(file.object)?;
        if object.attributes.links == 0 && !self.shared.is_referenced(file.object) {
            return Err(FsError::Stale);
        }
        Ok(object)
    }

    /// Runs one operation on a copy of the tree, which becomes the tree only if it succeeds.
    fn change<T>(&mut self, operation: impl FnOnce(&mut Operation) -> FsResult<T>) -> FsResult<T> {
        let mut run =
            Operation { tree: self.tree.clone(), caller: self.caller.clone(), now: self.shared.clock.wall() };
        let result = operation(&mut run)?;
        let (before, stored) = (self.tree.stored(), run.tree.stored());
        if stored > before && stored > self.shared.room {
            return Err(FsError::NoSpace);
        }
        self.tree = run.tree;
        self.changed = true;
        Ok(result)
    }

    fn entry(&self, directory: &Object, name: &Name) -> FsResult<Option<ObjectId>> {
        Ok(directory.directory()?.by_name.get(name).map(|&(id, _)| id))
    }
}

/// One changing operation under way.
struct Operation {
    tree: Tree,
    caller: Caller,
    now: Timestamp,
}

impl Operation {
    /// Makes an object and its entry.
    fn make(
        &mut self,
        directory: FileId,
        name: &Name,
        (kind, device, body): (FileKind, Device, Body),
        set: &SetAttributes,
        verifier: Option<[u8; 8]>,
    ) -> FsResult<Created> {
        let mut parent = self.tree.copy(directory.object)?;
        may_add(&parent.attributes, kind, &self.caller)?;
        if parent.attributes.links == 0 {
            return Err(FsError::NotFound);
        }
        let file = FileId { volume: directory.volume, object: self.tree.new_id() };
        let mut attributes =
            attribute_rules::newborn(file, kind, device, &parent.attributes, &self.caller, set, self.now)?;
        if let Body::Symlink(target) = &body {
            attributes.size = target.len() as u64;
        }
        let before = parent.attributes.change;
        parent.set_entry(name, file.object)?;
        if kind == FileKind::Directory {
            parent.attributes.links += 1;
        }
        attribute_rules::touch_content(&mut parent.attributes, self.now);
        let change = ChangeInfo { before, after: parent.attributes.change };
        self.tree.put(parent);
        self.tree.put(Object { verifier, ..Object::new(attributes.clone(), body) });
        Ok(Created { attributes, change })
    }

    fn touched_object(&mut self, id: ObjectId, edit: impl FnOnce(&mut Object)) -> FsResult<ChangeInfo> {
        let mut object = self.tree.copy(id)?;
        let before = object.attributes.change;
        edit(&mut object);
        attribute_rules::touch(&mut object.attributes, self.now);
        let after = object.attributes.change;
        self.tree.put(object);
        Ok(ChangeInfo { before, after })
    }

    /// Takes one name from an object whose entry is gone already.
    fn drop_link(&mut self, id: ObjectId) -> FsResult<()> {
        self.touched_object(id, |object| {
            let is_directory = object.attributes.kind == FileKind::Directory;
            object.attributes.links = if is_directory { 0 } else { object.attributes.links - 1 };
        })?;
        Ok(())
    }

    /// Changes a directory's entries; `sub_directories` is added to its link count.
    fn edit_entries(
        &mut self,
        directory: FileId,
        sub_directories: i32,
        edit: impl FnOnce(&mut Object) -> FsResult<()>,
    ) -> FsResult<()> {
        let mut object = self.tree.copy(directory.object)?;
        edit(&mut object)?;
        object.attributes.links = object.attributes.links.saturating_add_signed(sub_directories);
        self.tree.put(object);
        Ok(())
    }

    fn touch_directory(&mut self, directory: FileId) -> FsResult<ChangeInfo> {
        let mut object = self.tree.copy(directory.object)?;
        let before = object.attributes.change;
        attribute_rules::touch_content(&mut object.attributes, self.now);
        let after = object.attributes.change;
        self.tree.put(object);
        Ok(ChangeInfo { before, after })
    }

    fn is_inside(&self, mut directory: ObjectId, ancestor: ObjectId) -> FsResult<bool> {
        loop {
            if directory == ancestor {
                return Ok(true);
            }
            match self.tree.get(directory)?.directory()?.parent {
                Some(parent) => directory = parent,
                None => return Ok(false),
            }
        }
    }
}

#[async_trait]
impl Transaction for MemoryTransaction {
    fn root(&self) -> FileId {
        FileId { volume: self.shared.volume, object: Tree::root() }
    }

    async fn attributes(&mut self, file: FileId) -> FsResult<Attributes> {
        Ok(self.get(file)?.attributes.clone())
    }

    async fn set_attributes(
        &mut self,
        file: FileId,
        set: &SetAttributes,
        authority: Authority,
    ) -> FsResult<Attributes> {
        let old = self.get(file)?;
        if set.is_empty() {
            return Ok(old.attributes.clone());
        }
        self.change(|run| {
            let mut object = Object::clone(&old);
            object.attributes = attribute_rules::set(&old.attributes, &run.caller, set, authority, run.now)?;
            if let Some(size) = set.size {
                let content = object.content_mut()?;
                content.cut(size);
                object.attributes.space_used = content.stored;
            }
            if set.accessed.is_some() || set.modified.is_some() {
                object.verifier = None;
            }
            let attributes = object.attributes.clone();
            run.tree.put(object);
            Ok(attributes)
        })
    }

    async fn lookup(&mut self, directory: FileId, name: &Name) -> FsResult<Attributes> {
        let object = self.get(directory)?;
        require_directory(&object.attributes)?;
        require(&object.attributes, &self.caller, Access::EXECUTE)?;
        let id = self.entry(&object, name)?.ok_or(FsError::NotFound)?;
        Ok(self.tree.get(id)?.attributes.clone())
    }

    async fn parent(&mut self, directory: FileId) -> FsResult<Attributes> {
        let object = self.get(directory)?;
        require_directory(&object.attributes)?;
        require(&object.attributes, &self.caller, Access::EXECUTE)?;
        let parent = object.directory()?.parent.ok_or(FsError::NotFound)?;
        Ok(self.get(FileId { object: parent, ..directory })?.attributes.clone())
    }

    async fn create(
        &mut self,
        directory: FileId,
        name: &Name,
        kind: CreateKind,
        set: &SetAttributes,
    ) -> FsResult<Created> {
        let parent = self.get(directory)?;
        require_directory(&parent.attributes)?;
        require(&parent.attributes, &self.caller, Access::EXECUTE)?;
        if self.entry(&parent, name)?.is_some() {
            return Err(FsError::Exists);
        }
        let (kind, device, body) = match kind {
            CreateKind::Directory => {
                let body = Body::Directory(Directory::new(Some(directory.object)));
                (FileKind::Directory, Device::default(), body)
            }
            CreateKind::Symlink(target) => {
                if target.is_empty() || target.contains(&0) {
                    return Err(FsError::InvalidArgument);
                }
                if target.len() > MAX_LINK_TARGET {
                    return Err(FsError::NameTooLong);
                }
                (FileKind::Symlink, Device::default(), Body::Symlink(target))
            }
            CreateKind::BlockDevice(device) => (FileKind::BlockDevice, device, Body::Special),
            CreateKind::CharacterDevice(device) => (FileKind::CharacterDevice, device, Body::Special),
            CreateKind::Fifo => (FileKind::Fifo, Device::default(), Body::Special),
            CreateKind::Socket => (FileKind::Socket, Device::default(), Body::Special),
        };
        self.change(|run| run.make(directory, name, (kind, device, body), set, None))
    }

    async fn open_create(
        &mut self,
        directory: FileId,
        name: &Name,
        how: OpenCreate,
        set: &SetAttributes,
    ) -> FsResult<Opened> {
        let parent = self.get(directory)?;
        require_directory(&parent.attributes)?;
        require(&parent.attributes, &self.caller, Access::EXECUTE)?;
        let Some(id) = self.entry(&parent, name)? else {
            let verifier = match how {
                OpenCreate::Exclusive(verifier) => Some(verifier),
                _ => None,
            };
            let body = Body::File(Content::default());
            let made = self.change(|run| {
                run.make(directory, name, (FileKind::Regular, Device::default(), body), set, verifier)
            })?;
            return Ok(Opened { attributes: made.attributes, created: true, change: made.change });
        };
        let object = self.tree.get(id)?;
        let mut attributes = object.attributes.clone();
        match how {
            OpenCreate::Guarded => return Err(FsError::Exists),
            OpenCreate::Exclusive(verifier) if object.verifier != Some(verifier) => {
                return Err(FsError::Exists);
            }
            OpenCreate::Exclusive(_) => {}
            OpenCreate::Unchecked => {
                require_regular(&attributes)?;
                if set.size == Some(0) {
                    let cut = SetAttributes::with_size(0);
                    attributes = self.set_attributes(attributes.file, &cut, Authority::Opened).await?;
                }
            }
        }
        let unchanged = parent.attributes.change;
        Ok(Opened { attributes, created: false, change: ChangeInfo { before: unchanged, after: unchanged } })
    }

    async fn link(&mut self, file: FileId, directory: FileId, name: &Name) -> FsResult<ChangeInfo> {
        if file.volume != directory.volume {
            return Err(FsError::CrossVolume);
        }
        let object = self.get(file)?;
        let parent = self.get(directory)?;
        require_directory(&parent.attributes)?;
        if object.attributes.kind == FileKind::Directory {
            return Err(FsError::IsDirectory);
        }
        require(&parent.attributes, &self.caller, Access::EXECUTE)?;
        if self.entry(&parent, name)?.is_some() {
            return Err(FsError::Exists);
        }
        may_add(&parent.attributes, object.attributes.kind, &self.caller)?;
        if object.attributes.links == 0 || parent.attributes.links == 0 {
            return Err(FsError::NotFound);
        }
        if object.attributes.links >= MAX_LINKS {
            return Err(FsError::TooManyLinks);
        }
        self.change(|run| {
            run.touched_object(file.object, |object| object.attributes.links += 1)?;
            run.edit_entries(directory, 0, |parent| parent.set_entry(name, file.object))?;
            run.touch_directory(directory)
        })
    }

    async fn remove(&mut self, directory: FileId, name: &Name) -> FsResult<ChangeInfo> {
        let parent = self.get(directory)?;
        require_directory(&parent.attributes)?;
        require(&parent.attributes, &self.caller, Access::EXECUTE)?;
        let id = self.entry(&parent, name)?.ok_or(FsError::NotFound)?;
        let victim = self.tree.get(id)?;
        may_remove(&parent.attributes, &victim.attributes, &self.caller)?;
        let is_directory = victim.attributes.kind == FileKind::Directory;
        if is_directory && !victim.directory()?.by_name.is_empty() {
            return Err(FsError::NotEmpty);
        }
        self.change(|run| {
            run.edit_entries(directory, -i32::from(is_directory), |parent| parent.remove_entry(name))?;
            run.drop_link(id)?;
            run.touch_directory(directory)
        })
    }

    async fn rename(
        &mut self,
        from: FileId,
        from_name: &Name,
        to: FileId,
        to_name: &Name,
    ) -> FsResult<(ChangeInfo, ChangeInfo)> {
        if from.volume != to.volume {
            return Err(FsError::CrossVolume);
        }
        let (source, target) = (self.get(from)?, self.get(to)?);
        for directory in [&source, &target] {
            require_directory(&directory.attributes)?;
            require(&directory.attributes, &self.caller, Access::EXECUTE)?;
        }
        let id = self.entry(&source, from_name)?.ok_or(FsError::NotFound)?;
        let moved = self.tree.get(id)?;
        may_move(&source.attributes, &moved.attributes, &target.attributes, &self.caller)?;
        if target.attributes.links == 0 {
            return Err(FsError::NotFound);
        }
        let is_directory = moved.attributes.kind == FileKind::Directory;
        let replaced = self.entry(&target, to_name)?;
        if replaced == Some(id) {
            let same = |o: &Object| ChangeInfo { before: o.attributes.change, after: o.attributes.change };
            return Ok((same(&source), same(&target)));
        }
        self.change(|run| {
            if is_directory && run.is_inside(to.object, id)? {
                return Err(FsError::InvalidArgument);
            }
            if let Some(replaced) = replaced {
                let victim = run.tree.get(replaced)?;
                let empty = victim.directory().is_ok_and(|d| d.by_name.is_empty());
                may_replace(&target.attributes, &moved.attributes, &victim.attributes, empty, &run.caller)?;
                run.drop_link(replaced)?;
                if is_directory {
                    run.edit_entries(to, -1, |_| Ok(()))?;
                }
            }
            run.edit_entries(from, -i32::from(is_directory), |source| source.remove_entry(from_name))?;
            run.edit_entries(to, i32::from(is_directory), |target| target.set_entry(to_name, id))?;
            run.touched_object(id, |object| {
                if let Body::Directory(directory) = &mut object.body {
                    directory.parent = Some(to.object);
                }
            })?;
            let first = run.touch_directory(from)?;
            let second = if from == to { first } else { run.touch_directory(to)? };
            Ok((first, second))
        })
    }

    async fn read_link(&mut self, file: FileId) -> FsResult<Bytes> {
        match &self.get(file)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(FsError::InvalidArgument),
        }
    }

    async fn read_directory(
        &mut self,
        directory: FileId,
        cookie: u64,
        limit: usize,
    ) -> FsResult<DirectoryPage> {
        let object = self.get(directory)?;
        require_directory(&object.attributes)?;
        require(&object.attributes, &self.caller, Access::READ)?;
        let entries = object.directory()?;
        if cookie != 0 && !(FIRST_COOKIE..entries.next_cookie).contains(&cookie) {
            return Err(FsError::BadCookie);
        }
        let mut rest = entries.by_cookie.range(cookie + 1..);
        let mut page = DirectoryPage::default();
        for (&cookie, name) in rest.by_ref().take(limit.max(1)) {
            let id = self.entry(&object, name)?.ok_or(FsError::NotFound)?;
            let attributes = self.tree.get(id)?.attributes.clone();
            page.entries.push(DirectoryEntry { cookie, name: name.clone(), attributes });
        }
        page.end = rest.next().is_none();
        Ok(page)
    }

    async fn read(
        &mut self,
        file: FileId,
        offset: u64,
        length: u32,
        authority: Authority,
    ) -> FsResult<ReadData> {
        let object = self.get(file)?;
        require_regular(&object.attributes)?;
        may_read(&object.attributes, &self.caller, authority)?;
        let size = object.attributes.size;
        let end = offset.saturating_add(u64::from(length)).min(size);
        let segments = match &object.body {
            Body::File(content) if offset < end => content.read(offset, end),
            _ => Vec::new(),
        };
        Ok(ReadData { segments, end_of_file: end == size || offset >= size })
    }

    async fn write(&mut self, file: FileId, offset: u64, data: Bytes, authority: Authority) -> FsResult<()> {
        let old = self.get(file)?;
        require_regular(&old.attributes)?;
        may_write(&old.attributes, &self.caller, authority)?;
        if data.is_empty() {
            return Ok(());
        }
        self.change(|run| {
            let length = data.len() as u64;
            let mut object = Object::clone(&old);
            object.attributes =
                attribute_rules::written(&old.attributes, &run.caller, offset, length, run.now)?;
            let content = object.content_mut()?;
            content.write(offset, &data);
            object.attributes.space_used = content.stored;
            run.tree.put(object);
            Ok(())
        })
    }

    async fn extents(
        &mut self,
        file: FileId,
        range: Range<u64>,
        limit: usize,
        authority: Authority,
    ) -> FsResult<Vec<Extent>> {
        let object = self.get(file)?;
        require_regular(&object.attributes)?;
        may_read(&object.attributes, &self.caller, authority)?;
        let end = range.end.min(object.attributes.size);
        match &object.body {
            Body::File(content) if range.start < end => Ok(content.extents(range.start..end, limit)),
            _ => Ok(Vec::new()),
        }
    }

    async fn allocate(
        &mut self,
        file: FileId,
        offset: u64,
        length: u64,
        authority: Authority,
    ) -> FsResult<()> {
        let old = self.get(file)?;
        require_regular(&old.attributes)?;
        may_write(&old.attributes, &self.caller, authority)?;
        if length == 0 {
            return Err(FsError::InvalidArgument);
        }
        self.change(|run| {
            let mut object = Object::clone(&old);
            object.attributes =
                attribute_rules::written(&old.attributes, &run.caller, offset, length, run.now)?;
            run.tree.put(object);
            Ok(())
        })
    }

    async fn deallocate(
        &mut self,
        file: FileId,
        offset: u64,
        length: u64,
        authority: Authority,
    ) -> FsResult<()> {
        let old = self.get(file)?;
        require_regular(&old.attributes)?;
        may_write(&old.attributes, &self.caller, authority)?;
        if length == 0 {
            return Err(FsError::InvalidArgument);
        }
        let range = offset..offset.saturating_add(length).min(old.attributes.size);
        if range.is_empty() {
            return Ok(());
        }
        self.change(|run| {
            let mut object = Object::clone(&old);
            object.attributes = attribute_rules::punched(&old.attributes, &run.caller, run.now);
            let content = object.content_mut()?;
            content.punch(range);
            object.attributes.space_used = content.stored;
            run.tree.put(object);
            Ok(())
        })
    }

    async fn clone_unit(&mut self, file: FileId) -> FsResult<u64> {
        require_regular(&self.get(file)?.attributes)?;
        Ok(PAGE)
    }

    async fn clone_range(&mut self, from: Position, to: Position, length: u64, _wait: bool) -> FsResult<()> {
        let source = self.get(from.file)?;
        require_regular(&source.attributes)?;
        may_read(&source.attributes, &self.caller, from.authority)?;
        let old = self.get(to.file)?;
        require_regular(&old.attributes)?;
        may_write(&old.attributes, &self.caller, to.authority)?;
        let length = cloned_length(PAGE, (&from, &source.attributes), (&to, &old.attributes), length)?;
        if length == 0 {
            return Ok(());
        }
        self.change(|run| {
            let mut object = Object::clone(&old);
            object.attributes =
                attribute_rules::written(&old.attributes, &run.caller, to.offset, length, run.now)?;
            let content = object.content_mut()?;
            if let Body::File(source) = &source.body {
                content.take(source, from.offset, to.offset, length);
            }
            object.attributes.space_used = content.stored;
            run.tree.put(object);
            Ok(())
        })
    }

    async fn xattr(&mut self, file: FileId, name: &XattrName) -> FsResult<Bytes> {
        let object = self.get(file)?;
        may_use_xattrs(&object.attributes, &self.caller, Access::READ)?;
        object.xattrs.get(name).cloned().ok_or(FsError::NoXattr)
    }

    async fn set_xattr(
        &mut self,
        file: FileId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> FsResult<ChangeInfo> {
        let object = self.get(file)?;
        may_use_xattrs(&object.attributes, &self.caller, Access::WRITE)?;
        if value.len() > MAX_XATTR_VALUE {
            return Err(FsError::XattrTooLarge);
        }
        match (object.xattrs.contains_key(name), mode) {
            (true, XattrMode::Create) => return Err(FsError::Exists),
            (false, XattrMode::Replace) => return Err(FsError::NoXattr),
            (false, _) if object.xattrs.len() >= MAX_XATTRS => return Err(FsError::NoSpace),
            _ => {}
        }
        self.change(|run| {
            run.touched_object(file.object, |object| {
                object.xattrs.insert(name.clone(), value);
            })
        })
    }

    async fn remove_xattr(&mut self, file: FileId, name: &XattrName) -> FsResult<ChangeInfo> {
        let object = self.get(file)?;
        may_use_xattrs(&object.attributes, &self.caller, Access::WRITE)?;
        if !object.xattrs.contains_key(name) {
            return Err(FsError::NoXattr);
        }
        self.change(|run| {
            run.touched_object(file.object, |object| {
                object.xattrs.remove(name);
            })
        })
    }

    async fn xattrs(&mut self, file: FileId) -> FsResult<Vec<XattrName>> {
        let object = self.get(file)?;
        may_use_xattrs(&object.attributes, &self.caller, Access::READ)?;
        Ok(object.xattrs.keys().cloned().collect())
    }

    async fn space(&mut self) -> FsResult<Space> {
        const FILES: u64 = 1 << 40;
        let left = self.shared.room.saturating_sub(self.tree.stored());
        Ok(Space {
            total_bytes: self.shared.room,
            free_bytes: left,
            available_bytes: left,
            total_files: FILES,
            free_files: FILES,
            clone_unit: PAGE as u32,
        })
    }

    async fn commit(self: Box<Self>, _mode: CommitMode) -> FsResult<()> {
        if !self.changed {
            return Ok(());
        }
        let _turn = match self.turn {
            Some(_) => None,
            None => Some(self.shared.turn.clone().read_owned().await),
        };
        self.shared.replace(self.version, self.tree)
    }
}
