//! The calls, each of as many elements as wanted.

use std::ops::Range;

use anyhow::{Result, ensure};
use bytes::Bytes;
use vector_client::{AttributeSet, Client, Copy, Kind, NewAttributes, Read, Write};

use crate::kernel::Kernel;

/// Bytes of each file.
const SIZE: usize = 4 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Read,
    Write,
    Open,
    GetAttributes,
    SetAttributes,
    Copy,
    ServerCopy,
    MakeDirectory,
    List,
    SymbolicLink,
    ReadLink,
    HardLink,
    Remove,
    Rename,
}

pub const CALLS: [Call; 14] = [
    Call::Read,
    Call::Write,
    Call::Open,
    Call::GetAttributes,
    Call::SetAttributes,
    Call::Copy,
    Call::ServerCopy,
    Call::MakeDirectory,
    Call::List,
    Call::SymbolicLink,
    Call::ReadLink,
    Call::HardLink,
    Call::Remove,
    Call::Rename,
];

/// Of symbolic links.
const TEXT: &str = "somewhere";

/// What is there before the call.
fn old(folder: &str, n: usize) -> String {
    format!("{folder}/old-{n}")
}

/// What the call makes.
fn new(folder: &str, n: usize) -> String {
    format!("{folder}/new-{n}")
}

fn content(fill: u8) -> Bytes {
    vec![fill; SIZE].into()
}

impl Call {
    pub fn name(self) -> &'static str {
        match self {
            Call::Read => "vread",
            Call::Write => "vwrite",
            Call::Open => "vopen and vclose",
            Call::GetAttributes => "vgetattrs",
            Call::SetAttributes => "vsetattrs",
            Call::Copy => "vcopy",
            Call::ServerCopy => "vsscopy",
            Call::MakeDirectory => "vmkdir",
            Call::List => "vlistdir",
            Call::SymbolicLink => "vsymlink",
            Call::ReadLink => "vreadlink",
            Call::HardLink => "vhardlink",
            Call::Remove => "vremove",
            Call::Rename => "vrename",
        }
    }

    pub async fn prepare(self, client: &Client, folder: &str, count: usize) -> Result<()> {
        client.ensure_directory(folder, 0o755).await?;
        match self {
            Call::MakeDirectory | Call::SymbolicLink | Call::Write => {}
            Call::List => {
                client.vmkdir((0..count).map(|n| (old(folder, n).into(), 0o755)).collect()).await?;
                let write = |n| Write::whole(format!("{}/file", old(folder, n)), 0o644, Bytes::new());
                client.vwrite((0..count).map(write).collect()).await?;
            }
            Call::ReadLink => {
                let link = |n| (old(folder, n).into(), Bytes::from_static(TEXT.as_bytes()));
                client.vsymlink((0..count).map(link).collect()).await?;
            }
            _ => {
                let write = |n| Write::whole(old(folder, n), 0o644, content(b'o'));
                client.vwrite((0..count).map(write).collect()).await?;
            }
        }
        Ok(())
    }

    /// The elements `range`, by one call.
    pub async fn vector(self, client: &Client, folder: &str, range: Range<usize>) -> Result<()> {
        let count = range.len();
        let copy = |n| Copy::whole(old(folder, n), new(folder, n), 0o644);
        match self {
            Call::Read => {
                let read = |n| Read::new(old(folder, n), 0, SIZE as u64);
                let data = client.vread(range.map(read).collect()).await?;
                ensure!(data.iter().all(|it| it.len() == SIZE as u64), "a file is too short");
            }
            Call::Write => {
                let write = |n| Write { stable: true, ..Write::whole(new(folder, n), 0o644, content(b'n')) };
                client.vwrite(range.map(write).collect()).await?;
            }
            Call::Open => {
                let opened =
                    client.vopen_simple(range.map(|n| old(folder, n).into()).collect(), false, None).await?;
                client.vclose(opened).await?;
            }
            Call::GetAttributes => {
                let targets = range.map(|n| old(folder, n).into()).collect();
                let found = client.vgetattrs(targets, AttributeSet::STAT).await?;
                ensure!(found.iter().all(|it| it.size == Some(SIZE as u64)), "a file has another size");
            }
            Call::SetAttributes => {
                let change = |n| (old(folder, n).into(), NewAttributes::mode(0o600));
                client.vsetattrs(range.map(change).collect()).await?;
            }
            Call::Copy => drop(client.vcopy(range.map(copy).collect(), client).await?),
            Call::ServerCopy => drop(client.vsscopy(range.map(copy).collect()).await?),
            Call::MakeDirectory => {
                client.vmkdir(range.map(|n| (new(folder, n).into(), 0o755)).collect()).await?;
            }
            Call::List => {
                let (mut names, targets) = (0, range.map(|n| old(folder, n).into()).collect());
                client.vlistdir(targets, AttributeSet::STAT, false, |_, _| names += 1).await?;
                ensure!(names == count, "{names} names in {count} directories");
            }
            Call::SymbolicLink => {
                let link = |n| (new(folder, n).into(), Bytes::from_static(TEXT.as_bytes()));
                client.vsymlink(range.map(link).collect()).await?;
            }
            Call::ReadLink => {
                let texts = client.vreadlink(range.map(|n| old(folder, n).into()).collect()).await?;
                ensure!(texts.iter().all(|text| text == TEXT), "a link leads elsewhere");
            }
            Call::HardLink => {
                let link = |n| (old(folder, n).into(), new(folder, n).into());
                client.vhardlink(range.map(link).collect()).await?;
            }
            Call::Remove => {
                client.vremove(range.map(|n| old(folder, n).into()).collect()).await?;
            }
            Call::Rename => {
                let rename = |n| (old(folder, n).into(), new(folder, n).into());
                client.vrename(range.map(rename).collect()).await?;
            }
        }
        Ok(())
    }

    /// One element, as the Linux client does it.
    pub async fn alone(self, kernel: &Kernel, folder: &str, n: usize) -> Result<()> {
        let (old, new) = (old(folder, n), new(folder, n));
        match self {
            Call::Read => ensure!(kernel.read(&old).await? == SIZE as u64, "a file is too short"),
            Call::Write => kernel.write(&new, &content(b'n')).await?,
            Call::Open => kernel.open_and_close(&old).await?,
            Call::GetAttributes => kernel.stat(&old).await?,
            Call::SetAttributes => kernel.set_mode(&old, 0o600).await?,
            Call::Copy | Call::ServerCopy => kernel.copy(&old, &new).await?,
            Call::MakeDirectory => kernel.make_directory(&new).await?,
            Call::List => ensure!(kernel.list(&old).await?.len() == 1, "another number of names"),
            Call::SymbolicLink => kernel.symbolic_link(&new, TEXT).await?,
            Call::ReadLink => ensure!(kernel.read_link(&old).await? == TEXT, "a link leads elsewhere"),
            Call::HardLink => kernel.hard_link(&old, &new).await?,
            Call::Remove => kernel.remove(&old).await?,
            Call::Rename => kernel.rename(&old, &new).await?,
        }
        Ok(())
    }

    /// An error if it has not done what its name says.
    pub async fn check(self, client: &Client, folder: &str, count: usize) -> Result<()> {
        let names = client.list(folder, AttributeSet::STAT).await?;
        let is_new = |name: &[u8]| name.starts_with(b"new-");
        let made = names.iter().filter(|entry| is_new(&entry.name)).count();
        let kept = names.len() - made;
        let expected = match self {
            Call::Read | Call::Open | Call::GetAttributes | Call::SetAttributes | Call::List => (count, 0),
            Call::ReadLink => (count, 0),
            Call::Write | Call::MakeDirectory | Call::SymbolicLink | Call::Rename => (0, count),
            Call::Copy | Call::ServerCopy | Call::HardLink => (count, count),
            Call::Remove => (0, 0),
        };
        ensure!((kept, made) == expected, "{kept} old and {made} new names in {folder}");
        let is_right = |entry: &vector_client::Entry| match self {
            Call::MakeDirectory => entry.attributes.is(Kind::Directory),
            Call::SymbolicLink | Call::ReadLink => entry.attributes.is(Kind::SymbolicLink),
            Call::HardLink => entry.attributes.links == Some(2),
            Call::SetAttributes => entry.attributes.mode == Some(0o600),
            Call::List => true,
            _ => entry.attributes.size == Some(SIZE as u64),
        };
        ensure!(names.iter().all(is_right), "an object in {folder} is not what it should be");
        Ok(())
    }
}
