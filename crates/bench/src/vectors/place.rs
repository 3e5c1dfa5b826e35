//! Where a contender works, and what has to be there before and after.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use bytes::Bytes;
use vector_client::{AttributeSet, Client, Read, Write};

use super::page;
use super::workload::Workload;
use crate::personality::{Act, Personality};
use crate::tree::{Tree, check_gone};

/// Bytes that a program has in memory: larger files are read and written in several calls.
pub const AT_ONCE: usize = 16 << 20;

/// The folders of one contender in one repetition.
pub struct Place<'a> {
    /// What all contenders read.
    pub base: &'a str,
    /// What only this one uses.
    pub own: String,
    pub repetition: usize,
    pub tree: &'a Tree,
    /// Local: the archive of the tree, and that to be made of it.
    pub archive: PathBuf,
    pub packed: PathBuf,
}

/// How many files of this size a call is for.
pub fn at_once(size: usize, files: usize) -> usize {
    (AT_ONCE / size).clamp(1, files)
}

impl Place<'_> {
    pub fn file(&self, size: usize, n: usize) -> String {
        format!("{}/file-{size}-{n}", self.own)
    }

    pub fn again(&self, size: usize) -> String {
        format!("{}/again-{size}", self.own)
    }

    /// The tree that is there.
    pub fn original(&self) -> String {
        format!("{}/tree", self.base)
    }

    pub fn page(&self) -> String {
        format!("{}/page", self.base)
    }

    /// A tree of this repetition: a copy, links, what is unpacked, what is removed.
    pub fn made(&self, workload: Workload) -> String {
        let kind = match workload {
            Workload::Copy => "copy",
            Workload::Link => "links",
            Workload::Unpack { touch: false } => "unpacked",
            Workload::Unpack { touch: true } => "touched",
            _ => "removed",
        };
        format!("{}/{kind}-{}", self.own, self.repetition)
    }

    pub fn load(&self, personality: Personality) -> String {
        format!("{}/load-{}-{}", self.own, personality.threads, self.repetition)
    }

    /// What the bytes are that are written in this repetition.
    pub fn fill(&self) -> u8 {
        b'a' + self.repetition as u8 % 26
    }

    /// Makes what all contenders read.
    pub async fn make_common(client: &Client, base: &str, tree: &Tree) -> Result<()> {
        tree.make(client, &format!("{base}/tree")).await?;
        page::make(client, &format!("{base}/page")).await
    }

    /// Makes what the workload needs.
    pub async fn prepare(&self, client: &Client, workload: Workload) -> Result<()> {
        client.ensure_directory(self.own.as_str(), 0o755).await?;
        let first = self.repetition == 0;
        match workload {
            Workload::Read { files, size } if first => {
                let data = Bytes::from(vec![b'r'; size]);
                let write = |n| Write::whole(self.file(size, n), 0o644, data.clone());
                let names: Vec<usize> = (0..files).collect();
                for names in names.chunks(at_once(size, files)) {
                    client.vwrite(names.iter().copied().map(write).collect()).await?;
                }
            }
            Workload::Stat { files } if first => {
                let write = |n| Write::whole(self.file(1 << 10, n), 0o644, Bytes::from(vec![b's'; 1 << 10]));
                client.vwrite((0..files).map(write).collect()).await?;
            }
            Workload::ReadAgain { size, .. } if first => {
                client.vwrite(vec![Write::whole(self.again(size), 0o644, vec![b'g'; size])]).await?;
            }
            Workload::Unpack { .. } => {
                client.ensure_directory(self.made(workload), 0o755).await?;
            }
            Workload::Remove => self.tree.make(client, &self.made(workload)).await?,
            Workload::Load(personality) => {
                let folder = self.load(personality);
                client.ensure_directory(folder.as_str(), 0o755).await?;
                let data = Bytes::from(vec![b'l'; personality.largest()]);
                let write = |(name, size): &(String, usize)| {
                    Write::whole(format!("{folder}/{name}"), 0o644, data.slice(..*size))
                };
                for files in personality.set().chunks(64) {
                    client.vwrite(files.iter().map(write).collect()).await?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// An error if the workload has not done what its name says.
    pub async fn check(&self, client: &Client, workload: Workload) -> Result<()> {
        match workload {
            Workload::Write { files, size } => {
                for n in 0..files {
                    // The whole of some, the ends of the others.
                    let offset = if n % 50 == 0 { 0 } else { size as u64 - 1 };
                    let read = Read::new(self.file(size, n), offset, size as u64 + 1);
                    let data = client.vread(vec![read]).await?.remove(0);
                    ensure!(data.len() == size as u64 - offset, "file {n} of {size} bytes has another size");
                    let filled = data.pieces.iter().flatten().all(|byte| *byte == self.fill());
                    ensure!(filled, "file {n} of {size} bytes has another content");
                }
            }
            Workload::Copy | Workload::Unpack { .. } => self.tree.check(client, &self.made(workload)).await?,
            Workload::Link => {
                self.tree.check_links(client, &self.made(workload), &self.original()).await?;
            }
            Workload::Pack => self.tree.check_archive(&self.packed)?,
            Workload::Remove => check_gone(client, &self.made(workload)).await?,
            Workload::Load(personality) => self.check_load(client, personality).await?,
            // They have looked at what they got.
            Workload::Read { .. } | Workload::ReadAgain { .. } | Workload::Stat { .. } => {}
            Workload::List | Workload::Page => {}
        }
        Ok(())
    }

    /// All files are there that should be, with as many bytes as were ever written to them.
    async fn check_load(&self, client: &Client, personality: Personality) -> Result<()> {
        let mut expected: std::collections::BTreeMap<String, usize> = personality.set().into_iter().collect();
        for act in (0..personality.threads).flat_map(|thread| personality.rounds(thread)).flatten() {
            match act {
                Act::Create { name, size } => _ = expected.insert(name, size),
                Act::Append { name, size } => *expected.entry(name).or_default() += size,
                Act::Delete { name } => _ = expected.remove(&name),
                Act::Read { .. } | Act::Stat { .. } => {}
            }
        }
        let entries = client.list(self.load(personality), AttributeSet::SIZE).await?;
        ensure!(entries.len() == expected.len(), "{} files, not {}", entries.len(), expected.len());
        for entry in entries {
            let name = String::from_utf8(entry.name.to_vec())?;
            let size = entry.attributes.size.map(|size| size as usize);
            ensure!(size == expected.get(&name).copied(), "{name} has {size:?} bytes");
        }
        Ok(())
    }
}
