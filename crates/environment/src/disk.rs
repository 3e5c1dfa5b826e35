use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Durable files of one machine. All calls block; callers on an async runtime use a thread of their own.
pub trait Disk: Send + Sync {
    /// Opens `path` for reading and writing, creating it (mode 0600) when `create` is set.
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>>;

    /// Removes a file. Durable after [`Disk::sync_directory`] of its parent.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Replaces `to` by `from`. Durable after [`Disk::sync_directory`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// The files of a directory, in no particular order.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;

    /// Makes a directory and its missing ancestors (mode 0700), durably; not an error when it is there.
    fn make_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, removals and renames in `path` durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// How long a journal whose writer is a task waits before it writes: a simulated disk is slow without keeping a thread for so long.
    fn latency(&self) -> Duration {
        Duration::ZERO
    }
}

/// One open file. Positions are byte offsets from the start; there is no cursor.
pub trait DiskFile: Send + Sync {
    /// Reads exactly `out.len()` bytes; `UnexpectedEof` when the file is shorter.
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()>;

    /// As [`DiskFile::read_exact_at`], but only if that needs no wait for the disk, as when the bytes are in the page
    /// cache; `false` when it would, with nothing said of `out`. For reads on a task that must not block.
    fn read_exact_at_now(&self, out: &mut [u8], offset: u64) -> io::Result<bool> {
        let _ = (out, offset);
        Ok(false)
    }

    /// Writes all of `parts`, one after the other, from `offset`.
    fn write_all_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()>;

    /// Makes all completed writes durable, with the metadata that is needed to read them back.
    fn sync_data(&self) -> io::Result<()>;

    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Cuts or extends the file (with a hole).
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Gives the space of a range back to the file system; the range reads as zeros afterwards.
    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Bytes that the file system has left for us, as far as it can tell.
    fn available(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }
}

/// The file systems of this machine.
pub struct LocalDisk;

impl Disk for LocalDisk {
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(create)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        Ok(Box::new(LocalFile { file }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        let make = |path: &Path| std::fs::DirBuilder::new().mode(0o700).create(path);
        make_directories(path, &Path::is_dir, &make, &|parent| self.sync_directory(parent))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// From the outside in, each name durable before anything is made below it: a file that was synced must not be lost with
/// the directory that it lies in.
fn make_directories(
    path: &Path,
    is_there: &dyn Fn(&Path) -> bool,
    make: &dyn Fn(&Path) -> io::Result<()>,
    sync: &dyn Fn(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let parent = match path.parent() {
        None => return Ok(()), // the root
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
    };
    if is_there(path) {
        // Made by a process that may have been killed before it synced. Whoever may not look at the parent did not
        // make it.
        let _ = sync(parent);
        return Ok(());
    }
    if parent != Path::new(".") && !is_there(parent) {
        make_directories(parent, is_there, make, sync)?;
    }
    match make(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !is_there(path) => Err(error),
        _ => sync(parent),
    }
}

struct LocalFile {
    file: File,
}

impl DiskFile for LocalFile {
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn read_exact_at_now(&self, out: &mut [u8], offset: u64) -> io::Result<bool> {
        use rustix::io::{Errno, ReadWriteFlags, preadv2};
        let length = out.len();
        match preadv2(&self.file, &mut [IoSliceMut::new(out)], offset, ReadWriteFlags::NOWAIT) {
            Ok(read) => Ok(read == length),
            // Not there, or a file system that cannot tell.
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn write_all_at(&self, parts: &[IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        let mut parts = parts.to_vec();
        let mut rest = &mut parts[..];
        IoSlice::advance_slices(&mut rest, 0); // drops leading empty parts
        while !rest.is_empty() {
            // Linux accepts at most 1,024 parts a call (IOV_MAX).
            let batch = &rest[..rest.len().min(1024)];
            let written = match rustix::io::pwritev(&self.file, batch, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            offset += written as u64;
            IoSlice::advance_slices(&mut rest, written);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()> {
        use rustix::fs::FallocateFlags;
        Ok(rustix::fs::fallocate(
            &self.file,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            offset,
            length,
        )?)
    }

    fn available(&self) -> io::Result<u64> {
        let space = rustix::fs::fstatvfs(&self.file)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_directory_and_each_new_one_above_it_is_synced_in_its_parent() {
        use std::cell::RefCell;
        let log = RefCell::new(vec!["/".to_owned(), "/a".to_owned()]);
        let is_there = |path: &Path| log.borrow().contains(&path.display().to_string());
        let make = |path: &Path| {
            log.borrow_mut().push(path.display().to_string());
            Ok(())
        };
        let sync = |path: &Path| {
            log.borrow_mut().push(format!("sync {}", path.display()));
            Ok(())
        };
        make_directories(Path::new("/a/b/c"), &is_there, &make, &sync).unwrap();
        assert_eq!(log.borrow()[2..], ["/a/b", "sync /a", "/a/b/c", "sync /a/b"]);
        make_directories(Path::new("/a/b/c"), &is_there, &make, &sync).unwrap();
        assert_eq!(log.borrow()[6..], ["sync /a/b"]);
        let refuse = |_: &Path| Err(io::ErrorKind::PermissionDenied.into());
        assert!(make_directories(Path::new("/x"), &is_there, &refuse, &sync).is_err());
    }

    #[test]
    fn directories_are_made_with_their_ancestors_and_may_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        for _ in 0..2 {
            LocalDisk.make_directory(&path).unwrap();
            assert!(path.is_dir());
        }
        std::fs::write(folder.path().join("file"), b"").unwrap();
        assert!(LocalDisk.make_directory(&folder.path().join("file")).is_err());
    }

    #[test]
    fn vectored_writes_land_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = LocalDisk.open(&path, true).unwrap();
        let many = vec![b"ab".as_slice(); 1500];
        let mut parts: Vec<_> = many.iter().map(|p| IoSlice::new(p)).collect();
        parts.insert(0, IoSlice::new(b""));
        file.write_all_at(&parts, 3).unwrap();
        assert_eq!(file.length().unwrap(), 3003);
        let mut out = [0; 4];
        file.read_exact_at(&mut out, 2999).unwrap();
        assert_eq!(&out, b"abab");
        let mut at_once = [0; 4];
        if file.read_exact_at_now(&mut at_once, 2999).unwrap() {
            assert_eq!(&at_once, b"abab");
        }
        assert!(!file.read_exact_at_now(&mut at_once, 3000).unwrap(), "there is no fourth byte");
        file.punch_hole(3, 2).unwrap();
        file.read_exact_at(&mut out, 3).unwrap();
        assert_eq!(&out, b"\0\0ab");
        assert_eq!(file.read_exact_at(&mut out, 3000).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
