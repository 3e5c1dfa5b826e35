//! A directory as a cloud in which others have left files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cloud::{Cloud, ObjectName};
use environment::LocalDisk;

use crate::machine::{HandClock, block_on, environment};

/// Most files that one run makes.
const FILES: usize = 8;

/// Lines: the prefix, the name to go on after, then paths of files that somebody left.
pub(crate) fn directory(data: &[u8]) {
    let mut lines = data.split(|&byte| byte == b'\n');
    let prefix = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let after = lines.next().and_then(|line| ObjectName::new(std::str::from_utf8(line).ok()?).ok());
    let root = tempfile::tempdir().unwrap();
    block_on(async {
        let environment = environment(&HandClock::new(), Arc::new(LocalDisk), 1);
        let cloud = cloud::dir::Dir::open(&environment, "cloud", root.path(), 4, None).await.unwrap();
        let left: Vec<PathBuf> = lines.take(FILES).filter_map(|line| leave(root.path(), line)).collect();
        let listed = cloud.list(&prefix, after.as_ref(), 100).await.unwrap();
        let names: Vec<_> = listed.iter().map(|(name, _)| name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        assert!(listed.len() <= left.len());
        for (name, size) in &listed {
            assert!(name.as_str().starts_with(&prefix) && Some(name) > after.as_ref());
            assert_eq!(cloud.get(name, None).await.unwrap().len() as u64, *size, "{name}");
        }
        let few = cloud.list(&prefix, after.as_ref(), 1).await.unwrap();
        assert_eq!(few, listed[..listed.len().min(1)]);
    });
}

/// Makes a file of some bytes; nothing where that cannot be.
fn leave(root: &Path, line: &[u8]) -> Option<PathBuf> {
    let parts: Vec<&[u8]> = line.split(|&byte| byte == b'/').collect();
    let plain =
        |part: &&[u8]| !part.is_empty() && part.len() < 250 && !part.starts_with(b".") && !part.contains(&0);
    if parts.len() > 3 || !parts.iter().all(plain) {
        return None;
    }
    let path = parts.iter().fold(root.to_owned(), |path, part| path.join(OsStr::from_bytes(part)));
    std::fs::create_dir_all(path.parent()?).ok()?;
    std::fs::write(&path, &line[..line.len().min(7)]).ok()?;
    Some(path)
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        "\n\na/b/abc\na/b/ab+d\na/c/ac\nb/0/b0-_",
        "a\na0\na/0/a00\na/1/a1x\na/1/b\nfoo\na/UP/file",
        "a/\na/b\na/+/a+c\na/+/a+b+c\na/+/a++\n+/a/+a",
        "ab\n\na/b/ab\na/b/abc/\na/b\nx",
    ]
    .map(|seed| seed.as_bytes().to_vec())
    .into()
}
