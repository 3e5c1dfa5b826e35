use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use environment::{Disk, DiskFile};
use journal::testing::MemoryDisk;

use super::World;

/// Where a machine has its journal, and its disk cache.
pub const JOURNAL: &str = "/journal";
pub const CACHE: &str = "/cache";

/// What goes wrong at once.
const SECTOR: usize = 4096;

/// The disk of one machine: what was not synced is at the mercy of a power cut. All changes are traced.
///
/// The journal and the disk cache have a file system of their own, which can be full. (The metadata engine ends when its file system is full, unless a
/// thread of its own waits for room, which a simulated machine does not have.)
#[derive(Clone)]
pub struct SimDisk {
    platter: MemoryDisk,
    world: World,
    is_full: Arc<AtomicBool>,
    /// Milliseconds.
    latency: Arc<AtomicU64>,
}

impl SimDisk {
    pub fn new(platter: MemoryDisk, world: World) -> SimDisk {
        SimDisk { platter, world, is_full: Arc::default(), latency: Arc::default() }
    }

    pub fn platter(&self) -> &MemoryDisk {
        &self.platter
    }

    /// A file of the disk cache, if there is one, comes back with a wrong byte in every sector of it; `which` says which and where.
    pub fn rot(&self, which: u64) -> io::Result<()> {
        let files = self.platter.list(Path::new(CACHE))?;
        let Some(path) = files.get(which as usize % files.len().max(1)) else { return Ok(()) };
        self.note("rot of", path);
        let change = |byte: &mut u8| *byte ^= 1 << (which % 8);
        self.platter.damage(path, |bytes| {
            bytes.chunks_mut(SECTOR).for_each(|sector| sector.last_mut().map_or((), change))
        });
        Ok(())
    }

    /// Bytes of the files of the disk cache.
    pub fn cached(&self) -> io::Result<u64> {
        let files = self.platter.list(Path::new(CACHE))?;
        files.iter().map(|path| self.platter.open(path, false)?.length()).sum()
    }

    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Each batch of the journal takes so long from now on.
    pub fn set_latency(&self, latency: Duration) {
        self.latency.store(latency.as_millis() as u64, Ordering::Relaxed);
    }

    /// Nothing is wrong with it any more.
    pub fn heal(&self) {
        self.set_full(false);
        self.set_latency(Duration::ZERO);
    }

    /// Whether clients may lose patience by it.
    pub fn is_in_the_way(&self) -> bool {
        self.is_full() || self.latency() >= Duration::from_millis(100)
    }

    /// Whether nothing can be added to the journal.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    fn has_no_room(&self, path: &Path) -> bool {
        self.is_full() && (path.starts_with(JOURNAL) || path.starts_with(CACHE))
    }

    fn note(&self, what: &str, path: &Path) {
        self.world.trace().note(format_args!("disk {what} {}", path.display()), &[]);
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let file = self.platter.open(path, create)?;
        Ok(Box::new(SimFile { disk: self.clone(), path: path.to_owned(), file }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.note("remove", path);
        self.platter.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.note("rename", from);
        self.platter.rename(from, to)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.platter.list(directory)
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.platter.make_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.note("sync directory", path);
        self.platter.sync_directory(path)
    }

    fn latency(&self) -> Duration {
        Duration::from_millis(self.latency.load(Ordering::Relaxed))
    }
}

struct SimFile {
    disk: SimDisk,
    path: PathBuf,
    file: Box<dyn DiskFile>,
}

impl SimFile {
    fn check_room(&self, end: u64) -> io::Result<()> {
        match self.disk.has_no_room(&self.path) && end > self.file.length()? {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl DiskFile for SimFile {
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn read_exact_at_now(&self, out: &mut [u8], offset: u64) -> io::Result<bool> {
        self.read_exact_at(out, offset).map(|()| true)
    }

    fn write_all_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.check_room(offset + length as u64)?;
        let path = self.path.display();
        let trace = self.disk.world.trace();
        trace.note(format_args!("disk write {path} {length} bytes at {offset}"), &[]);
        parts.iter().for_each(|part| trace.hash_in(part));
        self.file.write_all_at(parts, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.note("sync", &self.path);
        self.file.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.check_room(length)?;
        self.disk.note("set length of", &self.path);
        self.file.set_length(length)
    }

    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.note("punch", &self.path);
        self.file.punch_hole(offset, length)
    }

    fn available(&self) -> io::Result<u64> {
        if self.disk.has_no_room(&self.path) { Ok(0) } else { self.file.available() }
    }
}
