//! The tree that is listed, copied, packed, unpacked and removed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use vector_client::{AttributeSet, Client, Kind, Read, Write};

/// Directories of it, files in each of them, and bytes of each: the shape of a source tree (kurma.md §3.12).
const SHAPE: (usize, usize, usize) = (200, 15, 8 << 10);

/// Files written or read at once.
const AT_ONCE: usize = 512;

pub struct Tree {
    directories: usize,
}

/// What is in it, by its path from the root of the tree.
pub enum Object {
    Directory(String),
    File(String),
}

impl Tree {
    pub fn of(shrink: usize) -> Tree {
        Tree { directories: (SHAPE.0 / shrink).max(4) }
    }

    /// Everything below the root, directories before what is in them.
    pub fn objects(&self) -> impl Iterator<Item = Object> {
        let folder = |n: usize| match n {
            0 => String::new(),
            n if n % 3 == 0 => format!("d{}/e{n}/", n - 2),
            n => format!("d{n}/"),
        };
        (0..self.directories).flat_map(move |n| {
            let here = folder(n);
            let itself = (n > 0).then(|| Object::Directory(here.trim_end_matches('/').to_owned()));
            let files = (0..SHAPE.1).map(move |file| Object::File(format!("{here}f{file}")));
            itself.into_iter().chain(files)
        })
    }

    /// What is in a file.
    pub fn content(name: &str) -> Bytes {
        name.bytes().chain([b'\n']).cycle().take(SHAPE.2).collect()
    }

    /// Makes it, with its root.
    pub async fn make(&self, client: &Client, root: &str) -> Result<()> {
        client.ensure_directory(root, 0o755).await?;
        let (mut directories, mut writes) = (Vec::new(), Vec::new());
        for object in self.objects() {
            match object {
                Object::Directory(name) => directories.push((format!("{root}/{name}").into(), 0o755)),
                Object::File(name) => {
                    writes.push(Write::whole(format!("{root}/{name}"), 0o644, Tree::content(&name)));
                }
            }
        }
        client.vmkdir(directories).await?;
        for writes in writes.chunks(AT_ONCE) {
            client.vwrite(writes.to_vec()).await?;
        }
        Ok(())
    }

    /// An error if it is not all there, with nothing else.
    pub async fn check(&self, client: &Client, root: &str) -> Result<()> {
        self.check_names(client, root, Kind::File).await?;
        let names: Vec<String> = self.files().collect();
        for names in names.chunks(AT_ONCE) {
            let read = |name: &String| Read::new(format!("{root}/{name}"), 0, SHAPE.2 as u64 + 1);
            let data = client.vread(names.iter().map(read).collect()).await?;
            for (name, data) in names.iter().zip(data) {
                ensure!(data.into_bytes() == Tree::content(name), "{root}/{name} has another content");
            }
        }
        Ok(())
    }

    /// An error if it is not all there as symbolic links to the files of `original`.
    pub async fn check_links(&self, client: &Client, root: &str, original: &str) -> Result<()> {
        self.check_names(client, root, Kind::SymbolicLink).await?;
        let names: Vec<String> = self.files().collect();
        let links = names.iter().map(|name| format!("{root}/{name}").into()).collect();
        for (name, text) in names.iter().zip(client.vreadlink(links).await?) {
            ensure!(text == format!("{original}/{name}"), "{root}/{name} leads to {text:?}");
        }
        Ok(())
    }

    fn files(&self) -> impl Iterator<Item = String> {
        self.objects().filter_map(|object| match object {
            Object::Directory(_) => None,
            Object::File(name) => Some(name),
        })
    }

    async fn check_names(&self, client: &Client, root: &str, file: Kind) -> Result<()> {
        let expected = self.objects().map(|object| match object {
            Object::Directory(name) => (format!("{root}/{name}"), Some(Kind::Directory)),
            Object::File(name) => (format!("{root}/{name}"), Some(file)),
        });
        let mut found = BTreeMap::new();
        let list = client.vlistdir(vec![root.into()], AttributeSet::KIND, true, |directory, entry| {
            found.insert(directory.join(&entry.name).to_string(), entry.attributes.kind);
        });
        list.await?;
        let expected: BTreeMap<_, _> = expected.collect();
        ensure!(found == expected, "{root} has {} names, not {}", found.len(), expected.len());
        Ok(())
    }

    /// Writes it into an archive.
    pub fn archive(&self, file: &Path) -> Result<()> {
        let mut builder = tar::Builder::new(io::BufWriter::new(File::create(file)?));
        for object in self.objects() {
            let mut header = tar::Header::new_gnu();
            match object {
                Object::Directory(name) => {
                    header.set_entry_type(tar::EntryType::Directory);
                    header.set_mode(0o755);
                    header.set_size(0);
                    builder.append_data(&mut header, name, io::empty())?;
                }
                Object::File(name) => {
                    let data = Tree::content(&name);
                    header.set_mode(0o644);
                    header.set_size(data.len() as u64);
                    builder.append_data(&mut header, name, &data[..])?;
                }
            }
        }
        builder.into_inner()?.flush()?;
        Ok(())
    }

    /// An error if an archive does not have all of it; before the paths there may be others, which end in `/tree`.
    pub fn check_archive(&self, file: &Path) -> Result<()> {
        let mut archive = tar::Archive::new(io::BufReader::new(File::open(file)?));
        let mut found = BTreeMap::new();
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = String::from_utf8(entry.path_bytes().into_owned())?;
            let name = format!("/{path}");
            let Some((_, name)) = name.trim_end_matches('/').split_once("/tree/") else { continue };
            let mut data = Vec::new();
            entry.read_to_end(&mut data)?;
            let is_file = entry.header().entry_type().is_file();
            found.insert(name.to_owned(), is_file.then(|| Bytes::from(data)));
        }
        let expected = self.objects().map(|object| match object {
            Object::Directory(name) => (name, None),
            Object::File(name) => {
                let content = Tree::content(&name);
                (name, Some(content))
            }
        });
        let expected: BTreeMap<_, _> = expected.collect();
        ensure!(found == expected, "{}: another tree, of {} names", file.display(), found.len());
        Ok(())
    }
}

/// Whether nothing of this name is there.
pub async fn check_gone(client: &Client, path: &str) -> Result<()> {
    let there = client.exists(path).await.context("asking for what was removed")?;
    ensure!(!there, "{path} is there yet");
    Ok(())
}
