//! What a client was told, and what the server may show after a crash.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::support::difference;

/// Block size of the volume, in bytes.
const BLOCK: usize = 64 << 10;

/// Names and contents that one client has been promised. Cheap to clone.
#[derive(Clone, Default)]
pub struct Model {
    /// By path below the volume's root.
    pub names: BTreeMap<String, Object>,
    pub files: BTreeMap<u32, File>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    Directory,
    Link(String),
    File(u32),
}

/// A file: what is stable, and the changes since the first one that may still be lost.
#[derive(Clone, Default)]
pub struct File {
    base: Bytes,
    log: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write { offset: u64, data: Bytes, stable: bool },
    Resize(u64),
}

/// What the server shows.
#[derive(Default)]
pub struct Seen {
    pub names: BTreeMap<String, SeenObject>,
    /// Contents by file id.
    pub contents: HashMap<u64, Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenObject {
    Directory,
    Link(String),
    File { id: u64, links: u32 },
}

impl File {
    pub fn new(base: Bytes) -> File {
        File { base, log: Vec::new() }
    }

    pub fn write(&mut self, offset: u64, data: Bytes, stable: bool) {
        self.change(Change::Write { offset, data, stable });
    }

    pub fn resize(&mut self, size: u64) {
        self.change(Change::Resize(size));
    }

    fn change(&mut self, change: Change) {
        self.log.push(change);
        if self.unstable() == 0 {
            self.commit();
        }
    }

    /// Everything so far is stable now.
    pub fn commit(&mut self) {
        self.base = self.without(0);
        self.log.clear();
    }

    /// Writes that may be lost.
    pub fn unstable(&self) -> usize {
        self.log.iter().filter(|change| matches!(change, Change::Write { stable: false, .. })).count()
    }

    pub fn size(&self) -> u64 {
        self.without(0).len() as u64
    }

    /// The content when those unstable writes are lost whose bits are set in `lost`.
    fn without(&self, lost: u64) -> Bytes {
        if self.log.is_empty() {
            return self.base.clone();
        }
        let mut content = self.base.to_vec();
        let mut unstable = 0;
        for change in &self.log {
            match change {
                Change::Write { offset, data, stable } => {
                    if !stable {
                        unstable += 1;
                        if lost & (1 << (unstable - 1)) != 0 {
                            continue;
                        }
                    }
                    let end = *offset as usize + data.len();
                    content.resize(content.len().max(end), 0);
                    content[*offset as usize..end].copy_from_slice(data);
                }
                Change::Resize(size) => content.resize(*size as usize, 0),
            }
        }
        content.into()
    }

    /// Whether the file may hold `found` after a crash; whether anything was lost. What was never committed may be
    /// lost block by block.
    fn explain(&self, found: &Bytes) -> Result<bool, String> {
        if self.log.is_empty() && self.base == *found {
            return Ok(false);
        }
        let possible: Vec<Bytes> = (0..1 << self.unstable()).map(|lost| self.without(lost)).collect();
        let of_block = |content: &Bytes, start: usize| {
            let end = (start + BLOCK).min(found.len());
            let mut block = content.get(start..end.min(content.len())).unwrap_or_default().to_vec();
            block.resize(end - start, 0);
            block
        };
        let explained = possible.iter().any(|content| content.len() == found.len())
            && (0..found.len()).step_by(BLOCK).all(|start| {
                possible.iter().any(|content| of_block(content, start) == of_block(found, start))
            });
        if explained {
            return Ok(possible[0] != *found);
        }
        let difference = difference(&possible[0], found).unwrap_or_default();
        Err(format!("{difference} ({} unstable writes)", self.unstable()))
    }
}

impl Model {
    /// What the client may rely on from now on if `seen` is a state that the promises allow, and whether uncommitted
    /// data was lost; otherwise what is wrong.
    pub fn explain(&self, seen: &Seen) -> Result<(Model, bool), String> {
        if let Some(path) = self.names.keys().find(|path| !seen.names.contains_key(*path)) {
            return Err(format!("{path} is gone"));
        }
        let mut ids: HashMap<u32, u64> = HashMap::new();
        let mut after = Model::default();
        let mut lost = false;
        for (path, object) in &seen.names {
            let expected = self.names.get(path).ok_or_else(|| format!("{path} has appeared"))?;
            let same = match (expected, object) {
                (Object::Directory, SeenObject::Directory) => true,
                (Object::Link(expected), SeenObject::Link(found)) => expected == found,
                (Object::File(number), SeenObject::File { id, links }) => {
                    let names = self.names.values().filter(|other| *other == expected).count();
                    if names as u32 != *links {
                        return Err(format!("{path} has {links} links instead of {names}"));
                    }
                    if *ids.entry(*number).or_insert(*id) != *id {
                        return Err(format!("{path} is not the file that it was linked to"));
                    }
                    let content = &seen.contents[id];
                    let file = &self.files[number];
                    lost |= file.explain(content).map_err(|what| format!("{path}: {what}"))?;
                    after.files.insert(*number, File::new(content.clone()));
                    true
                }
                _ => false,
            };
            if !same {
                return Err(format!("{path} is {object:?} instead of {expected:?}"));
            }
            after.names.insert(path.clone(), expected.clone());
        }
        if ids.len() != seen.contents.len() {
            return Err("two names of different files are one file".into());
        }
        Ok((after, lost))
    }

    /// Forgets files without a name.
    pub fn sweep(&mut self) {
        let named: Vec<u32> = self.names.values().filter_map(Object::file).collect();
        self.files.retain(|number, _| named.contains(number));
    }

    /// Renames what lies below `from`, too.
    pub fn rename(&mut self, from: &str, to: &str) {
        let inside = format!("{from}/");
        let moved: Vec<String> =
            self.names.keys().filter(|path| *path == from || path.starts_with(&inside)).cloned().collect();
        for path in moved {
            if let Some(object) = self.names.remove(&path) {
                self.names.insert(format!("{to}{}", &path[from.len()..]), object);
            }
        }
        self.sweep();
    }

    pub fn is_empty_directory(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        self.names.get(path) == Some(&Object::Directory)
            && !self.names.keys().any(|other| other.starts_with(&inside))
    }
}

impl Object {
    pub fn file(&self) -> Option<u32> {
        match self {
            Object::File(number) => Some(*number),
            _ => None,
        }
    }
}
