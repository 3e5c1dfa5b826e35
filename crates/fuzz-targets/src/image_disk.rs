use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use environment::{Disk, DiskFile};
use parking_lot::Mutex;

use crate::tape::Tape;

type Content = Arc<Mutex<Vec<u8>>>;

/// Files in memory whose content can be taken, changed and put on another disk.
#[derive(Clone, Default)]
pub(crate) struct ImageDisk {
    files: Arc<Mutex<BTreeMap<PathBuf, Content>>>,
}

/// Files by path.
pub(crate) type Image = BTreeMap<PathBuf, Vec<u8>>;

/// Files grow to this size at most: a decoder that wants more has believed a length.
const MAX_FILE: u64 = 64 << 20;

impl ImageDisk {
    pub fn new(image: Image) -> ImageDisk {
        let files = image.into_iter().map(|(path, bytes)| (path, Arc::new(Mutex::new(bytes))));
        ImageDisk { files: Arc::new(Mutex::new(files.collect())) }
    }

    pub fn image(&self) -> Image {
        self.files.lock().iter().map(|(path, bytes)| (path.clone(), bytes.lock().clone())).collect()
    }
}

impl Disk for ImageDisk {
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut files = self.files.lock();
        if create {
            files.entry(path.to_owned()).or_default();
        }
        let content = files.get(path).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(ImageFile(content)))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.lock().remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files.lock();
        let content = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), content);
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self.files.lock().keys().filter(|path| path.parent() == Some(directory)).cloned().collect())
    }

    fn make_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
}

struct ImageFile(Content);

fn resize(bytes: &mut Vec<u8>, length: u64) {
    assert!(length <= MAX_FILE, "a file is to have {length} bytes");
    bytes.resize(length as usize, 0);
}

impl DiskFile for ImageFile {
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = self.0.lock();
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let end = start.checked_add(out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_all_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut bytes = self.0.lock();
        let mut at = offset;
        for part in parts {
            let end = at + part.len() as u64;
            if end > bytes.len() as u64 {
                resize(&mut bytes, end);
            }
            bytes[at as usize..end as usize].copy_from_slice(part);
            at = end;
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.lock().len() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        resize(&mut self.0.lock(), length);
        Ok(())
    }

    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()> {
        let mut bytes = self.0.lock();
        let end = (offset.saturating_add(length) as usize).min(bytes.len());
        if let Some(range) = bytes.get_mut(offset as usize..end) {
            range.fill(0);
        }
        Ok(())
    }
}

/// Blocks that damage comes in.
const UNIT: usize = 4096;

/// What a broken disk, a torn write or a meddler may do to files. `true` when something may have changed.
pub(crate) fn damage(image: &mut Image, tape: &mut Tape<'_>) -> bool {
    let Some(kind) = tape.next() else { return false };
    let paths: Vec<PathBuf> = image.keys().cloned().collect();
    let (Some(path), Some(other)) = (tape.pick(&paths), tape.pick(&paths)) else { return false };
    let donor = image[&other].clone();
    let Some(bytes) = image.get_mut(&path) else { return false };
    let unit = usize::from(tape.byte());
    let start = (unit * UNIT).min(bytes.len());
    let end = (start + UNIT).min(bytes.len());
    let length = bytes.len();
    match kind % 9 {
        // One byte, anywhere in a unit or counted from the end of the file.
        0 => {
            let at = start + usize::from(tape.byte()) * 16 + usize::from(tape.byte() % 16);
            let value = tape.byte();
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= value;
            }
        }
        1 => {
            let at = length.wrapping_sub(1 + unit);
            let value = tape.byte();
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= value;
            }
        }
        // A number of the file's header or of a unit's start.
        2 => {
            let at = start + usize::from(tape.byte() % 32) * 4;
            let number = tape.number().to_be_bytes();
            if let Some(range) = bytes.get_mut(at..at + 8) {
                range.copy_from_slice(&number);
            }
        }
        3 => bytes[start..end].fill(0),
        // A unit from elsewhere, perhaps torn.
        4 => {
            let from = usize::from(tape.byte()) * UNIT;
            let torn = UNIT - usize::from(tape.byte()) * 16;
            for at in 0..torn {
                if let (Some(byte), Some(new)) = (bytes.get_mut(start + at), donor.get(from + at)) {
                    *byte = *new;
                }
            }
        }
        5 => bytes.truncate(start + usize::from(tape.byte())),
        6 => bytes.resize(length + usize::from(tape.byte()) * 512, 0),
        7 => *bytes = donor,
        _ => {
            image.remove(&path);
        }
    }
    true
}
