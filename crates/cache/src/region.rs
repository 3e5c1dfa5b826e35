use std::cell::RefCell;
use std::io;
use std::io::IoSlice;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use environment::mutant::{Mutant, is_broken};
use environment::{Disk, DiskFile, Entropy};
use seal::{NodeKey, SegmentKey, TAG_LEN};

use crate::block_key::BlockKey;
use crate::memory::PIECE;

/// Of the clear header; the formats are on the front page of the crate.
const HEADER: u64 = 64;
const MAGIC: &[u8; 8] = b"KURMACCH";
const FORMAT: u32 = 3;
const TRAILER: u64 = 32;
const TRAILER_MAGIC: &[u8; 4] = b"KIDX";
/// An index entry: block key, offset 8, length 4.
const INDEX_ENTRY: usize = BlockKey::LEN + 12;
/// No index is larger; a longer one in a trailer is damage.
const INDEX_LIMIT: u32 = 256 << 20;
/// Blocks of a region at most.
pub(crate) const MOST_BLOCKS: u64 = INDEX_LIMIT as u64 / INDEX_ENTRY as u64;
const PURPOSE: &str = "cache";
const SEALED_PIECE: u64 = PIECE + TAG_LEN as u64;
/// Pieces that are read at once.
const AT_ONCE: u32 = 4;

thread_local! {
    /// For sealed pieces, [`AT_ONCE`] of them.
    static SEALED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A file of the disk tier. Blocks are appended until it is full, then its index; it is never rewritten. The salt is
/// fresh for every file, so a file offset is sealed at most once under its key.
pub(crate) struct Region {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    key: SegmentKey,
    /// An unlinked region is still readable by whoever holds it.
    retired: AtomicBool,
}

/// Where a block lies.
#[derive(Clone)]
pub(crate) struct Location {
    pub region: Arc<Region>,
    pub offset: u64,
    /// Of the plaintext.
    pub length: u32,
}

/// The blocks of a finished region.
pub(crate) type Index = Vec<(BlockKey, Location)>;

/// The region being filled, and what will be its index.
pub(crate) struct OpenRegion {
    pub region: Arc<Region>,
    pub end: u64,
    index: Vec<u8>,
}

/// Bytes that a block of `length` bytes takes.
pub(crate) fn sealed_length(length: u64) -> u64 {
    length + length.div_ceil(PIECE) * TAG_LEN as u64
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("region-{number:016x}"))
}

/// The number of the region that a file of the directory is.
pub(crate) fn number_of(path: &Path) -> Option<u64> {
    u64::from_str_radix(path.file_name()?.to_str()?.strip_prefix("region-")?, 16).ok()
}

impl OpenRegion {
    pub fn create(
        disk: &dyn Disk,
        entropy: &dyn Entropy,
        directory: &Path,
        number: u64,
        node_key: &NodeKey,
    ) -> io::Result<OpenRegion> {
        let path = path_of(directory, number);
        let created = OpenRegion::begin(disk, entropy, &path, number, node_key);
        if created.is_err() {
            // What is there of it would be in nobody's books. It may not even be there.
            let _ = disk.remove(&path);
        }
        created
    }

    fn begin(
        disk: &dyn Disk,
        entropy: &dyn Entropy,
        path: &Path,
        number: u64,
        node_key: &NodeKey,
    ) -> io::Result<OpenRegion> {
        let file = disk.open(path, true)?;
        let mut salt = [0; 32];
        entropy.fill(&mut salt);
        let mut header = [0; HEADER as usize];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&FORMAT.to_be_bytes());
        header[16..24].copy_from_slice(&number.to_be_bytes());
        header[24..56].copy_from_slice(&salt);
        file.set_length(0)?;
        file.write_all_at(&[IoSlice::new(&header)], 0)?;
        let key = SegmentKey::derive(node_key, PURPOSE, &salt);
        let region = Arc::new(Region { path: path.to_owned(), file, key, retired: AtomicBool::new(false) });
        Ok(OpenRegion { region, end: HEADER, index: Vec::new() })
    }

    /// Blocks so far.
    pub fn blocks(&self) -> u64 {
        (self.index.len() / INDEX_ENTRY) as u64
    }

    /// Seals a block onto the end.
    pub fn append(&mut self, block: BlockKey, bytes: &Bytes) -> io::Result<Location> {
        let length = u32::try_from(bytes.len()).map_err(|_| invalid("a block of 4 GiB or more"))?;
        let mut out = Vec::with_capacity(sealed_length(u64::from(length)) as usize);
        for (piece, chunk) in bytes.chunks(PIECE as usize).enumerate() {
            let (at, start) = (self.end + out.len() as u64, out.len());
            out.extend_from_slice(chunk);
            let tag = self.region.key.seal_at(at, &aad(block, piece as u32, length), &mut out[start..]);
            out.extend_from_slice(&tag);
        }
        let location = Location { region: Arc::clone(&self.region), offset: self.end, length };
        // Counted even when the write fails: the place was sealed once.
        self.end += out.len() as u64;
        self.region.file.write_all_at(&[IoSlice::new(&out)], location.offset)?;
        self.index.extend_from_slice(&block.to_bytes());
        self.index.extend_from_slice(&location.offset.to_be_bytes());
        self.index.extend_from_slice(&length.to_be_bytes());
        Ok(location)
    }

    /// Writes the index, with which the region survives a restart. Gives the length of the file.
    pub fn finish(mut self) -> io::Result<u64> {
        let length = u32::try_from(self.index.len()).map_err(|_| invalid("an index of 4 GiB or more"))?;
        let tag = self.region.key.seal_at(self.end, b"index", &mut self.index);
        let mut trailer = Vec::with_capacity(TRAILER as usize);
        trailer.extend_from_slice(&self.end.to_be_bytes());
        trailer.extend_from_slice(&length.to_be_bytes());
        trailer.extend_from_slice(&tag);
        trailer.extend_from_slice(TRAILER_MAGIC);
        self.region.file.write_all_at(&[IoSlice::new(&self.index), IoSlice::new(&trailer)], self.end)?;
        Ok(self.end + u64::from(length) + TRAILER)
    }
}

impl Region {
    /// Opens a finished region and gives its index. An error means that the file is of no use.
    pub fn open(disk: &dyn Disk, path: &Path, node_key: &NodeKey) -> io::Result<(Arc<Region>, Index)> {
        let file = disk.open(path, false)?;
        let mut header = [0; HEADER as usize];
        file.read_exact_at(&mut header, 0)?;
        let number = u64::from_be_bytes(array(&header[16..24])?);
        if &header[..8] != MAGIC || header[8..12] != FORMAT.to_be_bytes() || number_of(path) != Some(number) {
            return Err(invalid("not a cache region of this version"));
        }
        let key = SegmentKey::derive(node_key, PURPOSE, &array(&header[24..56])?);

        let end = file.length()?.checked_sub(TRAILER).ok_or_else(|| invalid("no trailer"))?;
        let mut trailer = [0; TRAILER as usize];
        file.read_exact_at(&mut trailer, end)?;
        let offset = u64::from_be_bytes(array(&trailer[..8])?);
        let length = u32::from_be_bytes(array(&trailer[8..12])?);
        let fits = offset.checked_add(u64::from(length)) == Some(end) && length <= INDEX_LIMIT;
        if &trailer[28..] != TRAILER_MAGIC || !fits {
            return Err(invalid("no index"));
        }
        let mut index = vec![0; length as usize];
        file.read_exact_at(&mut index, offset)?;
        key.open_at(offset, b"index", &mut index, &array(&trailer[12..28])?)
            .map_err(|_| invalid("the index does not verify"))?;

        let region = Arc::new(Region { path: path.to_owned(), file, key, retired: AtomicBool::new(false) });
        let mut entries = Vec::with_capacity(index.len() / INDEX_ENTRY);
        for entry in index.chunks_exact(INDEX_ENTRY) {
            let at = BlockKey::LEN;
            let place = Location {
                region: Arc::clone(&region),
                offset: u64::from_be_bytes(array(&entry[at..at + 8])?),
                length: u32::from_be_bytes(array(&entry[at + 8..])?),
            };
            entries.push((BlockKey::from_bytes(&array(&entry[..at])?), place));
        }
        Ok((region, entries))
    }

    /// Length of the file.
    pub fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    pub fn retire(&self, disk: &dyn Disk) {
        if !self.retired.swap(true, Ordering::AcqRel)
            && let Err(error) = disk.remove(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "a file of the disk cache could not be removed");
        }
    }
}

impl Location {
    /// Reads and opens consecutive pieces, which then share their memory; those beyond the end of the block are left out.
    pub fn read_run(&self, block: BlockKey, pieces: Range<u32>) -> io::Result<Vec<(u32, Bytes)>> {
        let file = &self.region.file;
        let read = |sealed: &mut [u8], position| file.read_exact_at(sealed, position).map(|()| true);
        Ok(self.read_with(block, pieces, read)?.unwrap_or_default())
    }

    /// As [`Location::read_run`], but `None` when that would have to wait for the disk.
    pub fn read_run_now(&self, block: BlockKey, pieces: Range<u32>) -> io::Result<Option<Vec<(u32, Bytes)>>> {
        let file = &self.region.file;
        self.read_with(block, pieces, |sealed, position| file.read_exact_at_now(sealed, position))
    }

    /// Sealed pieces come into memory that is used again and again, stays in the processor's caches, and need not be cleared.
    fn read_with(
        &self,
        block: BlockKey,
        pieces: Range<u32>,
        read: impl Fn(&mut [u8], u64) -> io::Result<bool>,
    ) -> io::Result<Option<Vec<(u32, Bytes)>>> {
        let first = pieces.start;
        let mut opened = Vec::with_capacity(self.sealed_bytes(&pieces));
        let is_here = SEALED.with_borrow_mut(|memory| -> io::Result<bool> {
            for start in pieces.clone().step_by(AT_ONCE as usize) {
                let length = self.sealed_bytes(&(start..pieces.end.min(start + AT_ONCE)));
                memory.resize(memory.len().max(length), 0);
                let sealed = &mut memory[..length];
                if !read(sealed, self.position(start))? {
                    return Ok(false);
                }
                for (piece, sealed) in (start..).zip(sealed.chunks_mut(SEALED_PIECE as usize)) {
                    let (content, tag) = sealed.split_at_mut(sealed.len().saturating_sub(TAG_LEN));
                    let (position, aad) = (self.position(piece), aad(block, piece, self.length));
                    let is_ours = self.region.key.open_at(position, &aad, content, &array(tag)?).is_ok();
                    if !is_ours && !is_broken(Mutant::DiskUnverified) {
                        return Err(invalid("a piece does not verify"));
                    }
                    opened.extend_from_slice(content);
                }
            }
            Ok(true)
        })?;
        if !is_here {
            return Ok(None);
        }
        let opened = Bytes::from(opened);
        let starts = (0..opened.len()).step_by(PIECE as usize);
        let piece = |start: usize| opened.slice(start..opened.len().min(start + PIECE as usize));
        Ok(Some((first..).zip(starts.map(piece)).collect()))
    }

    /// Where the sealed piece begins.
    fn position(&self, piece: u32) -> u64 {
        self.offset + u64::from(piece) * SEALED_PIECE
    }

    /// Of those pieces that the block has.
    fn sealed_bytes(&self, pieces: &Range<u32>) -> usize {
        let end = self.position(pieces.end).min(self.offset + sealed_length(u64::from(self.length)));
        end.saturating_sub(self.position(pieces.start)) as usize
    }

    /// Reads and opens the block.
    pub fn read_whole(&self, block: BlockKey) -> io::Result<Bytes> {
        let mut out = Vec::with_capacity(self.length as usize);
        let all = 0..u64::from(self.length).div_ceil(PIECE) as u32;
        self.read_run(block, all)?.iter().for_each(|(_, bytes)| out.extend_from_slice(bytes));
        Ok(Bytes::from(out))
    }
}

fn array<const N: usize>(bytes: &[u8]) -> io::Result<[u8; N]> {
    bytes.try_into().map_err(|_| invalid("a field of the wrong length"))
}

/// What a sealed piece is bound to.
fn aad(block: BlockKey, piece: u32, length: u32) -> [u8; BlockKey::LEN + 8] {
    let mut out = [0; BlockKey::LEN + 8];
    out[..BlockKey::LEN].copy_from_slice(&block.to_bytes());
    out[BlockKey::LEN..BlockKey::LEN + 4].copy_from_slice(&piece.to_be_bytes());
    out[BlockKey::LEN + 4..].copy_from_slice(&length.to_be_bytes());
    out
}
