//! Making, linking, removing and moving objects.

use bytes::Bytes;
use file_system::limits::{FIRST_COOKIE, MAX_LINKS};
use file_system::permission::{may_add, may_move, may_remove, may_replace, require_regular};
use file_system::{
    Attributes, Authority, ChangeInfo, CreateKind, Created, Device, FileId, FileKind, FsError, FsResult,
    MAX_LINK_TARGET, Name, OpenCreate, Opened, SetAttributes, attribute_rules,
};
use ids::ObjectId;
use seal::FileKey;

use super::{VolumeTransaction, directory_parent};
use crate::row::{Inode, Special};

impl VolumeTransaction {
    pub(super) async fn make(
        &mut self,
        directory: FileId,
        name: &Name,
        kind: CreateKind,
        set: &SetAttributes,
    ) -> FsResult<Created> {
        self.searchable(directory).await?;
        if self.find(directory.object, name).await?.is_some() {
            return Err(FsError::Exists);
        }
        let none = Device::default();
        let (kind, device, target) = match kind {
            CreateKind::Directory => (FileKind::Directory, none, None),
            CreateKind::Symlink(target) => {
                if target.is_empty() || target.contains(&0) {
                    return Err(FsError::InvalidArgument);
                }
                if target.len() > MAX_LINK_TARGET {
                    return Err(FsError::NameTooLong);
                }
                (FileKind::Symlink, none, Some(target))
            }
            CreateKind::BlockDevice(device) => (FileKind::BlockDevice, device, None),
            CreateKind::CharacterDevice(device) => (FileKind::CharacterDevice, device, None),
            CreateKind::Fifo => (FileKind::Fifo, none, None),
            CreateKind::Socket => (FileKind::Socket, none, None),
        };
        let special = match kind {
            FileKind::Directory => {
                Special::Directory { parent: directory.object, next_cookie: FIRST_COOKIE, entries: 0 }
            }
            _ => Special::Other,
        };
        let mut attributes = self.newborn(directory, kind, device, set).await?;
        if let Some(target) = target {
            attributes.size = target.len() as u64;
            let row = [&[1][..], &target[..]].concat();
            self.meta.put(self.volume.keys.target(attributes.file.object), row.into());
        }
        let change = self.bear(directory, name, Inode::new(attributes.clone(), special))?;
        Ok(Created { attributes, change })
    }

    pub(super) async fn open_file(
        &mut self,
        directory: FileId,
        name: &Name,
        how: OpenCreate,
        set: &SetAttributes,
    ) -> FsResult<Opened> {
        let parent = self.searchable(directory).await?;
        let Some(entry) = self.find(directory.object, name).await? else {
            return self.make_file(directory, name, how, set).await;
        };
        let found = self.entry_inode(entry.object).await?;
        let mut attributes = found.attributes.clone();
        match how {
            OpenCreate::Guarded => return Err(FsError::Exists),
            OpenCreate::Exclusive(wanted) => match found.special {
                Special::File { verifier: Some(verifier), .. } if verifier == wanted => {}
                _ => return Err(FsError::Exists),
            },
            OpenCreate::Unchecked => {
                require_regular(&attributes)?;
                if set.size == Some(0) {
                    let cut = SetAttributes::with_size(0);
                    attributes = self.change_attributes(attributes.file, &cut, Authority::Opened).await?;
                }
            }
        }
        let change = ChangeInfo { before: parent.change, after: parent.change };
        Ok(Opened { attributes, created: false, change })
    }

    async fn make_file(
        &mut self,
        directory: FileId,
        name: &Name,
        how: OpenCreate,
        set: &SetAttributes,
    ) -> FsResult<Opened> {
        let attributes = self.newborn(directory, FileKind::Regular, Device::default(), set).await?;
        let object = attributes.file.object;
        let known = |object| self.objects.get(&object).map(|loaded| loaded.inode.special.clone());
        let policy = self.volume.policy_of_files_in(directory.object, known).await?;
        let policy = self.volume.variant(policy, object);
        let shift = self.volume.policy(policy)?.block_shift();
        let epoch = self.volume.wrapping_epoch(&mut *self.meta).await?;
        let key = FileKey::generate(&*self.volume.node.environment.entropy);
        let key = self.volume.wrap(object, &key, epoch)?;
        let verifier = match how {
            OpenCreate::Exclusive(verifier) => Some(verifier),
            _ => None,
        };
        self.meta.put(self.volume.keys.key(object), key.encode());
        let special = Special::File { policy, base: policy, shift, verifier };
        let change = self.bear(directory, name, Inode::new(attributes.clone(), special))?;
        Ok(Opened { attributes, created: true, change })
    }

    /// Attributes of an object that is about to be made; all checks of the directory.
    async fn newborn(
        &mut self,
        directory: FileId,
        kind: FileKind,
        device: Device,
        set: &SetAttributes,
    ) -> FsResult<Attributes> {
        let (now, caller) = (self.now(), self.caller.clone());
        let parent = self.inode(directory).await?.attributes.clone();
        may_add(&parent, kind, &caller)?;
        if parent.links == 0 {
            return Err(FsError::NotFound);
        }
        let nowhere = FileId { volume: self.volume.id, object: self.volume.root };
        let mut born = attribute_rules::newborn(nowhere, kind, device, &parent, &caller, set, now)?;
        born.file.object = self.new_object().await?;
        Ok(born)
    }

    /// Puts a new object into its directory.
    fn bear(&mut self, directory: FileId, name: &Name, inode: Inode) -> FsResult<ChangeInfo> {
        let (object, kind) = (inode.attributes.file.object, inode.attributes.kind);
        self.put_entry(directory.object, name, object, None)?;
        if kind == FileKind::Directory {
            self.edit(directory.object)?.attributes.links += 1;
        }
        self.add(inode);
        self.touch_content(directory.object)
    }

    fn touch_content(&mut self, object: ObjectId) -> FsResult<ChangeInfo> {
        let now = self.now();
        let attributes = &mut self.edit(object)?.attributes;
        let before = attributes.change;
        attribute_rules::touch_content(attributes, now);
        Ok(ChangeInfo { before, after: attributes.change })
    }

    pub(super) fn touch(&mut self, object: ObjectId) -> FsResult<ChangeInfo> {
        let now = self.now();
        let attributes = &mut self.edit(object)?.attributes;
        let before = attributes.change;
        attribute_rules::touch(attributes, now);
        Ok(ChangeInfo { before, after: attributes.change })
    }

    pub(super) async fn add_link(
        &mut self,
        file: FileId,
        directory: FileId,
        name: &Name,
    ) -> FsResult<ChangeInfo> {
        if file.volume != directory.volume {
            return Err(FsError::CrossVolume);
        }
        let linked = self.inode(file).await?.attributes.clone();
        let parent = self.inode(directory).await?.attributes.clone();
        file_system::permission::require_directory(&parent)?;
        if linked.kind == FileKind::Directory {
            return Err(FsError::IsDirectory);
        }
        self.searchable(directory).await?;
        if self.find(directory.object, name).await?.is_some() {
            return Err(FsError::Exists);
        }
        may_add(&parent, linked.kind, &self.caller)?;
        if linked.links == 0 || parent.links == 0 {
            return Err(FsError::NotFound);
        }
        if linked.links >= MAX_LINKS {
            return Err(FsError::TooManyLinks);
        }
        self.edit(file.object)?.attributes.links += 1;
        self.touch(file.object)?;
        self.put_entry(directory.object, name, file.object, None)?;
        self.touch_content(directory.object)
    }

    pub(super) async fn remove_name(&mut self, directory: FileId, name: &Name) -> FsResult<ChangeInfo> {
        let caller = self.caller.clone();
        let parent = self.searchable(directory).await?;
        let entry = self.find(directory.object, name).await?.ok_or(FsError::NotFound)?;
        let victim = self.entry_inode(entry.object).await?;
        may_remove(&parent, &victim.attributes, &caller)?;
        let is_directory = victim.attributes.kind == FileKind::Directory;
        if !is_empty(victim) {
            return Err(FsError::NotEmpty);
        }
        self.delete_entry(directory.object, name, entry)?;
        if is_directory {
            self.drop_sub_directory(directory.object)?;
        }
        self.drop_link(entry.object)?;
        self.touch_content(directory.object)
    }

    /// Takes one name from an object whose entry is gone already.
    fn drop_link(&mut self, object: ObjectId) -> FsResult<()> {
        self.touch(object)?;
        let attributes = &mut self.edit(object)?.attributes;
        let is_directory = attributes.kind == FileKind::Directory;
        attributes.links = if is_directory { 0 } else { attributes.links.saturating_sub(1) };
        if is_directory {
            self.meta.delete(self.volume.keys.directory_policy(object));
        }
        Ok(())
    }

    /// Takes the link of a sub-directory from a directory.
    fn drop_sub_directory(&mut self, directory: ObjectId) -> FsResult<()> {
        let links = &mut self.edit(directory)?.attributes.links;
        *links = links.saturating_sub(1);
        Ok(())
    }

    pub(super) async fn move_name(
        &mut self,
        from: FileId,
        from_name: &Name,
        to: FileId,
        to_name: &Name,
    ) -> FsResult<(ChangeInfo, ChangeInfo)> {
        if from.volume != to.volume {
            return Err(FsError::CrossVolume);
        }
        let caller = self.caller.clone();
        self.inode(from).await?;
        self.inode(to).await?;
        let source = self.searchable(from).await?;
        let target = self.searchable(to).await?;
        let entry = self.find(from.object, from_name).await?.ok_or(FsError::NotFound)?;
        let moved = self.entry_inode(entry.object).await?.attributes.clone();
        may_move(&source, &moved, &target, &caller)?;
        if target.links == 0 {
            return Err(FsError::NotFound);
        }
        let replaced = self.find(to.object, to_name).await?;
        if replaced.is_some_and(|replaced| replaced.object == entry.object) {
            let same = |change| ChangeInfo { before: change, after: change };
            return Ok((same(source.change), same(target.change)));
        }
        let is_directory = moved.kind == FileKind::Directory;
        if is_directory && self.is_inside(to.object, entry.object).await? {
            return Err(FsError::InvalidArgument);
        }
        if let Some(replaced) = replaced {
            let victim = self.entry_inode(replaced.object).await?;
            may_replace(&target, &moved, &victim.attributes, is_empty(victim), &caller)?;
        }
        self.delete_entry(from.object, from_name, entry)?;
        self.put_entry(to.object, to_name, entry.object, replaced)?;
        if let Some(replaced) = replaced {
            self.drop_link(replaced.object)?;
        }
        if is_directory {
            self.drop_sub_directory(from.object)?;
            // The replaced directory took its link with it.
            if replaced.is_none() {
                self.edit(to.object)?.attributes.links += 1;
            }
            if let Special::Directory { parent, .. } = &mut self.edit(entry.object)?.special {
                *parent = to.object;
            }
        }
        self.touch(entry.object)?;
        let first = self.touch_content(from.object)?;
        let second = if from == to { first } else { self.touch_content(to.object)? };
        Ok((first, second))
    }

    /// Whether `directory` is `ancestor` or below it.
    async fn is_inside(&mut self, mut directory: ObjectId, ancestor: ObjectId) -> FsResult<bool> {
        loop {
            if directory == ancestor {
                return Ok(true);
            }
            let parent = directory_parent(self.entry_inode(directory).await?)?;
            if parent == directory {
                return Ok(false);
            }
            directory = parent;
        }
    }

    pub(super) async fn link_target(&mut self, file: FileId) -> FsResult<Bytes> {
        if self.inode(file).await?.attributes.kind != FileKind::Symlink {
            return Err(FsError::InvalidArgument);
        }
        let row = self.get(&self.volume.keys.target(file.object)).await?;
        row.filter(|row| row.first() == Some(&1))
            .map(|row| row.slice(1..))
            .ok_or_else(|| self.lost(file.object))
    }
}

/// Not a directory with entries.
fn is_empty(inode: &Inode) -> bool {
    !matches!(inode.special, Special::Directory { entries: 1.., .. })
}
