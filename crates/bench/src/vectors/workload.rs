//! What is done.

use crate::personality::{PERSONALITIES, Personality};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// Files of this size, made or replaced.
    Write { files: usize, size: usize },
    /// Files of this size, whole, for the first time.
    Read { files: usize, size: usize },
    /// One file so many times, each time opened and closed, after a first time that does not count.
    ReadAgain { size: usize, times: usize },
    /// Attributes of files, by name.
    Stat { files: usize },
    /// `ls -lR`
    List,
    /// `cp -r`
    Copy,
    /// `cp -rs`
    Link,
    /// `tar -c` into a local file.
    Pack,
    /// `tar -x` of a local file; or `tar -xmo`, which leaves times and owners as they come.
    Unpack { touch: bool },
    /// `rm -rf`
    Remove,
    /// A page, and all it refers to.
    Page,
    /// A server's load, as Filebench has it.
    Load(Personality),
}

/// Sizes of files, and how many.
const FILES: [(usize, usize); 5] =
    [(1000, 1 << 10), (1000, 16 << 10), (500, 128 << 10), (100, 1 << 20), (12, 16 << 20)];

/// Sizes of files that are read again, and how often.
const AGAIN: [(usize, usize); 3] = [(256 << 10, 64), (1 << 20, 64), (16 << 20, 16)];

pub fn all(shrink: usize) -> Vec<Workload> {
    let mut all = Vec::new();
    for (files, size) in FILES {
        let files = (files / shrink).max(2);
        all.extend([Workload::Write { files, size }, Workload::Read { files, size }]);
        if size == 1 << 10 {
            all.push(Workload::Stat { files });
        }
    }
    all.extend(AGAIN.map(|(size, times)| Workload::ReadAgain { size, times: (times / shrink).max(4) }));
    all.extend([Workload::List, Workload::Copy, Workload::Link, Workload::Pack]);
    all.extend([false, true].map(|touch| Workload::Unpack { touch }));
    all.extend([Workload::Remove, Workload::Page]);
    all.extend(PERSONALITIES.map(|personality| Workload::Load(personality.shrunk(shrink))));
    all
}

impl Workload {
    pub fn name(self) -> String {
        match self {
            Workload::Write { files, size } => format!("write {files} files of {}", bytes(size)),
            Workload::Read { files, size } => format!("read {files} files of {}", bytes(size)),
            Workload::ReadAgain { size, times } => {
                format!("read a file of {} again, {times} times", bytes(size))
            }
            Workload::Stat { files } => format!("stat {files} files"),
            Workload::List => "ls -lR".into(),
            Workload::Copy => "cp -r".into(),
            Workload::Link => "cp -rs".into(),
            Workload::Pack => "tar".into(),
            Workload::Unpack { touch: false } => "untar".into(),
            Workload::Unpack { touch: true } => "untar -m -o".into(),
            Workload::Remove => "rm -rf".into(),
            Workload::Page => "page of 96 objects".into(),
            Workload::Load(personality) => personality.name.into(),
        }
    }

    /// The plot that it is in.
    pub fn group(self) -> &'static str {
        match self {
            Workload::Write { .. } => "write",
            Workload::Read { .. } | Workload::Stat { .. } => "read",
            Workload::ReadAgain { .. } | Workload::Page | Workload::Load(_) => "servers",
            _ => "tree",
        }
    }
}

fn bytes(size: usize) -> String {
    match size {
        size if size < 1 << 20 => format!("{} KiB", size >> 10),
        size => format!("{} MiB", size >> 20),
    }
}
