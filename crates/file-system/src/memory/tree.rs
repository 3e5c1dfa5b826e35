use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use ids::{GatewayId, ObjectId, ObjectNumber, Timestamp, VolumeId};
use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use super::content::Content;
use crate::limits::FIRST_COOKIE;
use crate::{Attributes, Device, FileId, FileKind, FsError, FsResult, Name, XattrName, attribute_rules};

/// All objects. Cloning shares everything.
#[derive(Clone)]
pub(super) struct Tree {
    objects: RedBlackTreeMapSync<ObjectId, Arc<Object>>,
    /// Objects without a name that may still be referenced.
    orphans: RedBlackTreeSetSync<ObjectId>,
    /// Of all copies of the tree: a number is used once, also when its transaction is dropped.
    last_number: Arc<AtomicU64>,
    /// Bytes of all content.
    stored: u64,
}

/// One object.
#[derive(Clone)]
pub(super) struct Object {
    pub attributes: Attributes,
    pub body: Body,
    pub xattrs: BTreeMap<XattrName, Bytes>,
    /// Verifier of the exclusive creation, until the times are set.
    pub verifier: Option<[u8; 8]>,
}

/// What objects of different kinds hold.
#[derive(Clone)]
pub(super) enum Body {
    File(Content),
    Directory(Directory),
    Symlink(Bytes),
    Special,
}

/// Entries of a directory.
#[derive(Clone)]
pub(super) struct Directory {
    pub parent: Option<ObjectId>,
    pub by_name: RedBlackTreeMapSync<Name, (ObjectId, u64)>,
    pub by_cookie: RedBlackTreeMapSync<u64, Name>,
    pub next_cookie: u64,
}

impl Tree {
    pub fn new(volume: VolumeId, now: Timestamp) -> Tree {
        let mut tree = Tree {
            objects: Default::default(),
            orphans: Default::default(),
            last_number: Arc::default(),
            stored: 0,
        };
        let attributes = Attributes {
            file: FileId { volume, object: tree.new_id() },
            kind: FileKind::Directory,
            mode: 0o755,
            links: 2,
            uid: 0,
            gid: 0,
            acl: None,
            size: attribute_rules::directory_size(0),
            space_used: 0,
            device: Device::default(),
            accessed: now,
            modified: now,
            changed: now,
            created: now,
            change: attribute_rules::next_change(0, now),
            quarantined: false,
        };
        tree.put(Object::new(attributes, Body::Directory(Directory::new(None))));
        tree
    }

    pub fn root() -> ObjectId {
        ObjectId { creator: GatewayId(1), number: ObjectNumber(1) }
    }

    pub fn set_root_mode(&mut self, mode: u32) {
        if let Some(root) = self.objects.get_mut(&Self::root()) {
            Arc::make_mut(root).attributes.mode = mode;
        }
    }

    pub fn new_id(&self) -> ObjectId {
        let number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        ObjectId { creator: GatewayId(1), number: ObjectNumber(number.into()) }
    }

    pub fn get(&self, id: ObjectId) -> FsResult<Arc<Object>> {
        self.objects.get(&id).cloned().ok_or(FsError::Stale)
    }

    /// A copy to change and [`Tree::put`] back.
    pub fn copy(&self, id: ObjectId) -> FsResult<Object> {
        Ok(Object::clone(&*self.get(id)?))
    }

    pub fn put(&mut self, object: Object) {
        let id = object.attributes.file.object;
        if object.attributes.links == 0 {
            self.orphans.insert_mut(id);
        }
        self.stored = self.stored - self.stored_of(id) + object.attributes.space_used;
        self.objects.insert_mut(id, Arc::new(object));
    }

    fn stored_of(&self, id: ObjectId) -> u64 {
        self.objects.get(&id).map_or(0, |object| object.attributes.space_used)
    }

    /// Bytes of all content.
    pub fn stored(&self) -> u64 {
        self.stored
    }

    /// Forgets the orphans that nobody holds; which they were.
    pub fn drop_orphans(&mut self, is_referenced: impl Fn(ObjectId) -> bool) -> Vec<ObjectId> {
        let gone: Vec<ObjectId> = self.orphans.iter().copied().filter(|&id| !is_referenced(id)).collect();
        for id in &gone {
            self.stored -= self.stored_of(*id);
            self.orphans.remove_mut(id);
            self.objects.remove_mut(id);
        }
        gone
    }
}

impl Object {
    pub fn new(attributes: Attributes, body: Body) -> Object {
        Object { attributes, body, xattrs: BTreeMap::new(), verifier: None }
    }

    pub fn directory(&self) -> FsResult<&Directory> {
        match &self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(FsError::NotDirectory),
        }
    }

    pub fn directory_mut(&mut self) -> FsResult<&mut Directory> {
        match &mut self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(FsError::NotDirectory),
        }
    }

    pub fn content_mut(&mut self) -> FsResult<&mut Content> {
        match &mut self.body {
            Body::File(content) => Ok(content),
            _ => Err(FsError::WrongKind),
        }
    }

    /// Adds or redirects a name; a redirected name keeps its cookie.
    pub fn set_entry(&mut self, name: &Name, target: ObjectId) -> FsResult<()> {
        let directory = self.directory_mut()?;
        let cookie = match directory.by_name.get(name) {
            Some(&(_, cookie)) => cookie,
            None => {
                directory.next_cookie += 1;
                directory.next_cookie - 1
            }
        };
        directory.by_name.insert_mut(name.clone(), (target, cookie));
        directory.by_cookie.insert_mut(cookie, name.clone());
        self.show_size()
    }

    pub fn remove_entry(&mut self, name: &Name) -> FsResult<()> {
        let directory = self.directory_mut()?;
        let cookie = directory.by_name.get(name).map(|&(_, cookie)| cookie).ok_or(FsError::NotFound)?;
        directory.by_name.remove_mut(name);
        directory.by_cookie.remove_mut(&cookie);
        self.show_size()
    }

    fn show_size(&mut self) -> FsResult<()> {
        let entries = self.directory()?.by_name.size() as u64;
        self.attributes.size = attribute_rules::directory_size(entries);
        Ok(())
    }
}

impl Directory {
    pub fn new(parent: Option<ObjectId>) -> Directory {
        Directory {
            parent,
            by_name: Default::default(),
            by_cookie: Default::default(),
            next_cookie: FIRST_COOKIE,
        }
    }
}
