//! `kurma meta check`: every invariant of a volume's rows.

mod packs;
mod tree;
mod versions;

use std::collections::{HashMap, HashSet};
use std::fmt;

use blocks::SealId;
use bytes::Bytes;
use file_system::{FileKind, Name};
use ids::{BlockIndex, GatewayId, ObjectId};
use meta::Scan;

use crate::VolumeError;
use crate::directories::read_directories;
use crate::keys::{self, KeyRange, Keys, ObjectRow};
use crate::row::{BlockEntry, CHUNK_BLOCKS, Chunk, Inode, KeyRow, MigratingRow, Origin, ScanMark, Special};
use crate::spread::read_spreads;
use crate::transaction::Entry;
use crate::volume::{Inner, Volume};

/// Rows looked at in one transaction.
const ROWS: usize = 4096;
/// Findings that are reported; more say nothing new.
const FINDINGS: usize = 1000;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where; `None` for the volume as a whole.
    pub object: Option<ObjectId>,
    /// What.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.object {
            Some(object) => write!(f, "object {object}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl Volume {
    /// Verifies every invariant of the volume's rows; returns up to 1,000 violations. Nobody commits meanwhile. Takes
    /// memory for every object and for every block that is shared (some 100 bytes).
    pub async fn check(&self) -> Result<Vec<Finding>, VolumeError> {
        let inner = &self.inner;
        // Holding an exclusive transaction keeps the state still; it is read by others.
        let still = inner.node.store.begin(meta::Mode::Exclusive).await?;
        let mut check = Check {
            inner,
            nodes: HashMap::new(),
            clones: HashMap::new(),
            migrating: HashSet::new(),
            marked: HashSet::new(),
            wanted: HashMap::new(),
            leaving: HashSet::new(),
            packed: Vec::new(),
            in_use: HashMap::new(),
            findings: Vec::new(),
            bytes: 0,
        };
        check.migrating().await?;
        check.scan_marks().await?;
        check.objects().await?;
        check.files_of_rows();
        check.packed().await?;
        check.shares().await?;
        check.directories().await?;
        check.orphans().await?;
        check.garbage().await?;
        check.contents().await?;
        check.packed_versions().await?;
        check.attempts().await?;
        check.tree();
        check.counters().await?;
        drop(still);
        Ok(check.findings)
    }
}

/// What is remembered of each object.
struct Node {
    kind: FileKind,
    links: u32,
    /// Names that lead here, and the last directory with one.
    names: u32,
    named_in: ObjectId,
    /// Directories: the one above, and those below.
    parent: ObjectId,
    directories: u32,
    has_inode: bool,
}

/// Rows of the object that is being read.
struct Current {
    object: ObjectId,
    inode: Option<Inode>,
    key: bool,
    target: Option<usize>,
    names: u64,
    cookies: u64,
    xattrs: u32,
    last_cookie: u64,
    stored_blocks: Option<BlockIndex>,
}

struct Check<'a> {
    inner: &'a Inner,
    nodes: HashMap<ObjectId, Node>,
    /// Blocks that refer to a version that was stored for another.
    clones: HashMap<Origin, u64>,
    /// Files that may be stored by several policies.
    migrating: HashSet<ObjectId>,
    /// Files that a scan has marked.
    marked: HashSet<ObjectId>,
    /// The policy of files that are stored by one, by what they share.
    wanted: HashMap<Origin, u32>,
    /// Versions that wait for their deletion, of policies that keep equal content once, or in packs.
    leaving: HashSet<Origin>,
    /// Versions in packs, and which sealing of each if that is known.
    packed: Vec<(Origin, Option<(GatewayId, SealId)>)>,
    /// Bytes of packs that are in use.
    in_use: HashMap<Origin, u64>,
    findings: Vec<Finding>,
    bytes: u64,
}

impl Check<'_> {
    fn find(&mut self, object: impl Into<Option<ObjectId>>, what: impl Into<String>) {
        if self.findings.len() < FINDINGS {
            self.findings.push(Finding { object: object.into(), what: what.into() });
        }
    }

    /// All rows of a range, in pages.
    async fn page(
        &self,
        (start, end): &KeyRange,
    ) -> Result<(Vec<(Bytes, Bytes)>, Option<KeyRange>), VolumeError> {
        let mut transaction = self.inner.node.store.begin(meta::Mode::Optimistic).await?;
        let rows = transaction.scan(Scan { start, end, guard: None, limit: ROWS }).await?;
        let next = match rows.last() {
            Some((last, _)) if rows.len() == ROWS => Some(([&last[..], &[0]].concat().into(), end.clone())),
            _ => None,
        };
        Ok((rows, next))
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, VolumeError> {
        Ok(self.inner.node.store.begin(meta::Mode::Optimistic).await?.get(key).await?)
    }

    async fn objects(&mut self) -> Result<(), VolumeError> {
        let mut range = Some(self.inner.keys.objects());
        let mut current: Option<Current> = None;
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (key, row) in rows {
                let Some((object, kind)) = Keys::object_row(&key) else {
                    self.find(None, "a row of unknown kind");
                    continue;
                };
                if current.as_ref().is_none_or(|current| current.object != object) {
                    if let Some(done) = current.take() {
                        self.object_done(done);
                    }
                    current = Some(Current::new(object));
                }
                if let Some(current) = &mut current {
                    self.row(current, kind, &row).await?;
                }
            }
            range = more;
        }
        if let Some(done) = current {
            self.object_done(done);
        }
        Ok(())
    }

    /// Before the objects.
    async fn migrating(&mut self) -> Result<(), VolumeError> {
        let mut range = Some(self.inner.keys.all_migrating());
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (key, row) in rows {
                match (Keys::orphan_of(&key), MigratingRow::decode(&row)) {
                    (Some(object), Ok(_)) => drop(self.migrating.insert(object)),
                    _ => self.find(None, "the row of a file that is being migrated is damaged"),
                }
            }
            range = more;
        }
        Ok(())
    }

    /// Before the objects.
    async fn scan_marks(&mut self) -> Result<(), VolumeError> {
        let mut range = Some(self.inner.keys.scan_marks());
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (key, row) in rows {
                match (Keys::orphan_of(&key), ScanMark::decode(&row)) {
                    (Some(object), Ok(_)) => drop(self.marked.insert(object)),
                    _ => self.find(None, "the row of a scan is damaged"),
                }
            }
            range = more;
        }
        Ok(())
    }

    /// After the objects.
    fn files_of_rows(&mut self) {
        let is_file = |object: &&ObjectId| {
            self.nodes.get(object).is_some_and(|node| node.has_inode && node.kind == FileKind::Regular)
        };
        let lost: Vec<ObjectId> = self.migrating.iter().filter(|object| !is_file(object)).copied().collect();
        let unmarked: Vec<ObjectId> = self.marked.iter().filter(|object| !is_file(object)).copied().collect();
        lost.into_iter().for_each(|object| self.find(object, "is being migrated, and is no file"));
        unmarked.into_iter().for_each(|object| self.find(object, "is marked by a scan, and is no file"));
    }

    async fn row(&mut self, current: &mut Current, kind: ObjectRow, row: &Bytes) -> Result<(), VolumeError> {
        let object = current.object;
        match kind {
            ObjectRow::Inode => match self.inner.inode(object, row) {
                Ok(inode) => current.inode = Some(inode),
                Err(error) => self.find(object, error.to_string()),
            },
            ObjectRow::Key => {
                current.key = true;
                let opened = KeyRow::decode(row)
                    .map_err(self.inner.damaged("the key of object", object))
                    .and_then(|key| self.inner.open_names(object, &key));
                if let Err(error) = opened {
                    self.find(object, error.to_string());
                }
            }
            ObjectRow::Target => current.target = Some(row.len().saturating_sub(1)),
            ObjectRow::Xattr(_) => current.xattrs += 1,
            ObjectRow::Name(name) => self.name(current, &name, row).await?,
            ObjectRow::Cookie(cookie) => {
                current.cookies += 1;
                current.last_cookie = cookie;
                if Entry::decode_listed(row).is_err() {
                    self.find(object, format!("the entry with cookie {cookie} is damaged"));
                }
            }
            ObjectRow::Chunk(number) => match Chunk::decode(row) {
                Ok(chunk) => {
                    let policies = current.inode.as_ref().and_then(|inode| match inode.special {
                        Special::File { policy, base, .. } => Some((policy, base)),
                        _ => None,
                    });
                    for (index, entry) in chunk.iter() {
                        let block = BlockIndex(number * CHUNK_BLOCKS + index);
                        if let Some((policy, base)) = policies.filter(|_| entry.is_stored()) {
                            self.policy_of_block(object, block, entry, policy, base);
                        }
                        if entry.is_stored() {
                            current.stored_blocks = Some(block);
                        }
                        if let Some(policy) = entry.policy
                            && self.inner.policy(policy).is_err()
                        {
                            self.find(object, format!("policy {policy} of block {block} does not exist"));
                        }
                        if let Some(origin) = entry.origin {
                            *self.clones.entry(origin).or_default() += 1;
                        } else if entry.is_stored() && entry.version.0 == 0 {
                            self.find(object, format!("block {block} is stored without a version"));
                        }
                    }
                }
                Err(error) => self.find(object, format!("chunk {number} of the block map: {error}")),
            },
        }
        Ok(())
    }

    /// A file that is not being migrated is stored by its policy, and by no other.
    fn policy_of_block(
        &mut self,
        object: ObjectId,
        block: BlockIndex,
        entry: BlockEntry,
        policy: u32,
        base: u32,
    ) {
        if self.migrating.contains(&object) {
            return;
        }
        let stored_by = match entry.origin {
            Some(origin) => *self.wanted.entry(origin).or_insert(policy),
            None => entry.policy.unwrap_or(base),
        };
        if stored_by != policy {
            self.find(
                object,
                format!("block {block} is stored by policy {stored_by}, the file has {policy}"),
            );
        }
    }

    async fn name(&mut self, current: &mut Current, name: &Bytes, row: &Bytes) -> Result<(), VolumeError> {
        let directory = current.object;
        current.names += 1;
        let text = String::from_utf8_lossy(name).into_owned();
        let Ok(entry) = Entry::decode(row) else {
            self.find(directory, format!("the entry {text:?} is damaged"));
            return Ok(());
        };
        let listed = self.get(&self.inner.keys.cookie(directory, entry.cookie)).await?;
        let expected = Name::new(name.clone()).map(|name| (entry.object, name));
        if listed.map(|row| Entry::decode_listed(&row)) != expected.ok().map(Ok) {
            self.find(
                directory,
                format!("the entry {text:?} is listed otherwise under its cookie {}", entry.cookie),
            );
        }
        let node = self.node(entry.object);
        node.names += 1;
        node.named_in = directory;
        Ok(())
    }

    fn node(&mut self, object: ObjectId) -> &mut Node {
        let root = self.inner.root;
        self.nodes.entry(object).or_insert(Node {
            kind: FileKind::Regular,
            links: 0,
            names: 0,
            named_in: root,
            parent: root,
            directories: 0,
            has_inode: false,
        })
    }

    fn object_done(&mut self, current: Current) {
        let object = current.object;
        let Some(inode) = current.inode else {
            self.find(object, "rows without an inode");
            return;
        };
        let attributes = &inode.attributes;
        self.bytes += attributes.space_used;
        if current.xattrs != inode.xattrs {
            self.find(
                object,
                format!("{} extended attributes, its row says {}", current.xattrs, inode.xattrs),
            );
        }
        if let Some(acl) = &attributes.acl
            && (acl.mode() != attributes.mode & 0o777 || attributes.kind == FileKind::Symlink)
        {
            let follows = acl.mode();
            self.find(
                object,
                format!("mode {:o} beside an access control list of {follows:o}", attributes.mode),
            );
        }
        let node = self.node(object);
        (node.kind, node.links, node.has_inode) = (attributes.kind, attributes.links, true);
        match inode.special {
            Special::File { policy, base, shift, .. } => {
                if !current.key {
                    self.find(object, "a file without a key");
                }
                for policy in [policy, base] {
                    if self.inner.policy(policy).is_err() {
                        self.find(object, format!("policy {policy} does not exist"));
                    }
                }
                let end = shift.blocks_in(attributes.size);
                if let Some(block) = current.stored_blocks.filter(|block| block.0 >= end) {
                    self.find(
                        object,
                        format!("block {block} is stored beyond the size of {} bytes", attributes.size),
                    );
                }
                if attributes.space_used > attributes.size {
                    self.find(object, format!("{} bytes used of {}", attributes.space_used, attributes.size));
                }
            }
            Special::Directory { parent, next_cookie, entries } => {
                self.node(object).parent = parent;
                if entries != current.names || entries != current.cookies {
                    let Current { names, cookies, .. } = current;
                    self.find(
                        object,
                        format!("{entries} entries in its row, {names} by name, {cookies} by cookie"),
                    );
                }
                if current.cookies > 0 && current.last_cookie >= next_cookie {
                    self.find(
                        object,
                        format!("cookie {} is not below the next, {next_cookie}", current.last_cookie),
                    );
                }
            }
            Special::Other => {
                let target = (attributes.kind == FileKind::Symlink).then_some(attributes.size as usize);
                if target != current.target {
                    self.find(object, format!("a target of {:?} bytes, expected {target:?}", current.target));
                }
            }
        }
        let is_directory = attributes.kind == FileKind::Directory;
        if !is_directory && current.names + current.cookies > 0 {
            self.find(object, "entries in something that is no directory");
        }
        if attributes.kind != FileKind::Regular && (current.key || current.stored_blocks.is_some()) {
            self.find(object, "a key or blocks of something that is no regular file");
        }
    }

    /// After the objects: policies are of directories that are there.
    async fn directories(&mut self) -> Result<(), VolumeError> {
        let mut transaction = self.inner.node.store.begin(meta::Mode::Optimistic).await?;
        let directories = match read_directories(self.inner.keys, &mut *transaction).await {
            Err(error @ VolumeError::Damaged { .. }) => {
                self.find(None, error.to_string());
                return Ok(());
            }
            directories => directories?,
        };
        let spreads = match read_spreads(self.inner.keys, &mut *transaction).await {
            Err(error @ VolumeError::Damaged { .. }) => {
                self.find(None, error.to_string());
                return Ok(());
            }
            spreads => spreads?,
        };
        for (policy, variants) in spreads {
            if let Some(lost) =
                variants.iter().chain([&policy]).find(|number| self.inner.policy(**number).is_err())
            {
                self.find(None, format!("policy {lost}, a variant of policy {policy}, does not exist"));
            }
        }
        for (object, policy) in directories {
            let node = self.nodes.get(&object);
            if !node.is_some_and(|node| node.has_inode && node.kind == FileKind::Directory) {
                self.find(object, "a policy of a directory that does not exist");
            }
            if self.inner.policy(policy).is_err() {
                self.find(object, format!("policy {policy} of this directory does not exist"));
            }
        }
        Ok(())
    }

    async fn orphans(&mut self) -> Result<(), VolumeError> {
        let mut marked = 0;
        let mut range = Some(self.inner.keys.orphans());
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for object in rows.iter().filter_map(|(key, _)| Keys::orphan_of(key)) {
                marked += 1;
                match self.nodes.get(&object) {
                    Some(node) if node.has_inode && node.links == 0 => {}
                    Some(node) if node.has_inode => {
                        let links = node.links;
                        self.find(object, format!("marked as an orphan, with {links} links"));
                    }
                    _ => self.find(object, "marked as an orphan, and does not exist"),
                }
            }
            range = more;
        }
        let unnamed = self.nodes.values().filter(|node| node.has_inode && node.links == 0).count();
        if unnamed != marked {
            self.find(None, format!("{unnamed} objects without links, {marked} marked as orphans"));
        }
        Ok(())
    }

    async fn counters(&mut self) -> Result<(), VolumeError> {
        let gateway = self.inner.node.gateway;
        let own = self.nodes.keys().filter(|object| object.creator == gateway);
        let last = own.map(|object| object.number.0).max().unwrap_or(0);
        let counter = self.get(&keys::next_object()).await?;
        let next = counter.and_then(|row| Some(u128::from_be_bytes(row[..].try_into().ok()?))).unwrap_or(0);
        if last >= next {
            self.find(None, format!("the object counter is at {next}, object {last} exists already"));
        }
        let usage = self.inner.usage.get();
        let objects = self.nodes.values().filter(|node| node.has_inode).count();
        if (usage.objects, usage.bytes) != (objects as i64, self.bytes as i64) {
            let (found, bytes) = (usage.objects, usage.bytes);
            let really = self.bytes;
            self.find(
                None,
                format!(
                    "the usage says {found} objects with {bytes} bytes, there are {objects} with {really}"
                ),
            );
        }
        Ok(())
    }
}

impl Current {
    fn new(object: ObjectId) -> Current {
        Current {
            object,
            inode: None,
            key: false,
            target: None,
            names: 0,
            cookies: 0,
            xattrs: 0,
            last_cookie: 0,
            stored_blocks: None,
        }
    }
}
