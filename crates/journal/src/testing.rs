//! A disk in memory that forgets what was not synced, for crash tests.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use environment::{Disk, DiskFile, Environment};
use parking_lot::Mutex;

/// A [`Disk`] in memory. Writes reach its "platter" at a sync; [`MemoryDisk::crash`] keeps any part of the others.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<Contents>>,
}

#[derive(Default)]
struct Contents {
    files: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    /// Writes, syncs and changes of names so far.
    operations: u64,
    /// No operation has an effect once this many were done.
    power_cut_at: Option<u64>,
    /// No file can become longer.
    full: bool,
    /// The next sync fails, and forgets what it should have written, as Linux does.
    fail_next_sync: bool,
}

#[derive(Clone, Default)]
struct Inode {
    /// What readers see.
    current: Vec<u8>,
    /// What survives for certain.
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(offset, data) => {
                let end = *offset as usize + data.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*offset as usize..end].copy_from_slice(data);
            }
            Change::Length(length) => bytes.resize(*length as usize, 0),
        }
    }
}

/// A small generator of numbers that only have to look arbitrary.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % sides
    }
}

/// Smallest unit that a disk writes whole, most of the time.
const SECTOR: usize = 512;

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    /// An environment with this disk, and the machine's clock and entropy.
    pub fn environment(&self) -> Environment {
        Environment { disk: Arc::new(self.clone()), ..Environment::real() }
    }

    /// What is there after a power failure: everything synced, and of the rest whatever `seed` selects, sector by
    /// sector, at times half a sector. The old disk goes on without effect on the new one.
    pub fn crash(&self, seed: u64) -> MemoryDisk {
        let state = self.state.lock();
        let mut dice = Dice(seed ^ 0x9e37_79b9_7f4a_7c15);
        let keep_all = dice.roll(8) == 0;
        let mut files = Vec::new();
        for file in &state.files {
            let mut bytes = file.durable.clone();
            for change in &file.unsynced {
                match change {
                    Change::Write(offset, data) if !keep_all => {
                        for (index, sector) in data.chunks(SECTOR).enumerate() {
                            let kept = match dice.roll(5) {
                                0 | 1 => sector.len(),
                                2 => dice.roll(sector.len() as u64) as usize,
                                _ => continue,
                            };
                            let offset = offset + (index * SECTOR) as u64;
                            Change::Write(offset, sector[..kept].to_vec()).apply(&mut bytes);
                        }
                    }
                    change if keep_all || dice.roll(2) == 0 => change.apply(&mut bytes),
                    _ => {}
                }
            }
            files.push(Inode { current: bytes.clone(), durable: bytes, unsynced: Vec::new() });
        }
        let mut names = BTreeMap::new();
        for path in state.names.keys().chain(state.durable_names.keys()) {
            let (new, old) = (state.names.get(path), state.durable_names.get(path));
            let kept = if keep_all || dice.roll(2) == 0 { new } else { old };
            if let Some(&file) = kept {
                names.insert(path.clone(), file);
            }
        }
        let contents = Contents { files, durable_names: names.clone(), names, ..Contents::default() };
        MemoryDisk { state: Arc::new(Mutex::new(contents)) }
    }

    /// What another process finds after this one was killed: everything that was written.
    pub fn kill(&self) -> MemoryDisk {
        let state = self.state.lock();
        let contents = Contents {
            files: state.files.clone(),
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            ..Contents::default()
        };
        MemoryDisk { state: Arc::new(Mutex::new(contents)) }
    }

    /// After `operations` more writes, syncs and changes of names every further one fails and has no effect.
    pub fn cut_power_after(&self, operations: u64) {
        let mut state = self.state.lock();
        state.power_cut_at = Some(state.operations + operations);
    }

    /// From now on, or no longer, no file can grow.
    pub fn set_full(&self, full: bool) {
        self.state.lock().full = full;
    }

    /// Lets the next sync fail; what it should have written stays visible and is never written.
    pub fn fail_next_sync(&self) {
        self.state.lock().fail_next_sync = true;
    }

    /// The files with their contents, as readers see them.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let state = self.state.lock();
        state.names.iter().map(|(path, &file)| (path.clone(), state.files[file].current.clone())).collect()
    }

    /// Changes bytes of a file behind everybody's back, durably.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut [u8])) {
        let mut state = self.state.lock();
        if let Some(&file) = state.names.get(path) {
            let file = &mut state.files[file];
            change(&mut file.current);
            file.durable = file.current.clone();
        }
    }
}

impl Contents {
    fn operate(&mut self) -> io::Result<()> {
        if self.power_cut_at.is_some_and(|at| self.operations >= at) {
            return Err(io::Error::other("the power is gone"));
        }
        self.operations += 1;
        Ok(())
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state.lock();
        let file = match state.names.get(path) {
            Some(&file) => file,
            None if create => {
                state.operate()?;
                state.files.push(Inode::default());
                let file = state.files.len() - 1;
                state.names.insert(path.to_owned(), file);
                file
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Box::new(MemoryFile { disk: self.clone(), file }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.operate()?;
        state.names.remove(path).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.operate()?;
        let file = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.state.lock();
        Ok(state.names.keys().filter(|path| path.parent() == Some(directory)).cloned().collect())
    }

    fn make_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.operate()?;
        let inside = |name: &PathBuf| name.parent() == Some(path);
        let current: Vec<_> = state
            .names
            .iter()
            .filter(|(name, _)| inside(name))
            .map(|(name, &file)| (name.clone(), file))
            .collect();
        state.durable_names.retain(|name, _| !inside(name));
        state.durable_names.extend(current);
        Ok(())
    }
}

struct MemoryFile {
    disk: MemoryDisk,
    file: usize,
}

impl MemoryFile {
    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        state.operate()?;
        let full = state.full;
        let file = &mut state.files[self.file];
        let end = match &change {
            Change::Write(offset, data) => offset + data.len() as u64,
            Change::Length(length) => *length,
        };
        if full && end > file.current.len() as u64 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        change.apply(&mut file.current);
        file.unsynced.push(change);
        Ok(())
    }
}

impl DiskFile for MemoryFile {
    fn available(&self) -> io::Result<u64> {
        Ok(if self.disk.state.lock().full { 0 } else { u64::MAX })
    }

    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.disk.state.lock();
        let bytes = &state.files[self.file].current;
        let bytes =
            bytes.get(offset as usize..offset as usize + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn write_all_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.change(Change::Write(offset, parts.iter().map(|part| &part[..]).collect::<Vec<_>>().concat()))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        state.operate()?;
        let fail = std::mem::take(&mut state.fail_next_sync);
        let file = &mut state.files[self.file];
        let unsynced = std::mem::take(&mut file.unsynced);
        if fail {
            return Err(io::Error::other("the disk failed"));
        }
        for change in unsynced {
            change.apply(&mut file.durable);
        }
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.state.lock().files[self.file].current.len() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.change(Change::Length(length))
    }

    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()> {
        self.change(Change::Write(offset, vec![0; length as usize]))
    }
}
