use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use environment::mutant::{Mutant, is_broken};
use environment::{Disk, DiskFile, Environment};
use parking_lot::RwLock;
use seal::{NodeKey, SegmentKey};

use crate::layout::{CHUNK, CHUNK_AAD, Found, MARK, RunHeader, sealed_payload};
use crate::sealing::{TAG, open_in_place};
use crate::{JournalError, PayloadRef};

/// A preallocated file that segments live in, one after the other.
#[derive(Clone)]
pub(crate) struct SegmentFile {
    pub file: Arc<dyn DiskFile>,
    pub path: PathBuf,
    pub bytes: u64,
}

impl SegmentFile {
    /// Makes a file full of zeros that is durable, so that commits overwrite allocated blocks and never change
    /// the file's metadata. What a failure leaves is removed: on a full disk it would stand in everybody's way.
    pub(crate) fn create(
        disk: &dyn Disk,
        directory: &Path,
        index: u64,
        bytes: u64,
    ) -> io::Result<SegmentFile> {
        let path = directory.join(format!("segment-{index:08}.journal"));
        let file: Arc<dyn DiskFile> = disk.open(&path, true)?.into();
        let filled = SegmentFile::fill(&*file, bytes).and_then(|()| disk.sync_directory(directory));
        if let Err(cause) = filled {
            drop(file);
            // A leftover is removed at the next start.
            let _ = disk.remove(&path);
            return Err(cause);
        }
        Ok(SegmentFile { file, path, bytes })
    }

    fn fill(file: &dyn DiskFile, bytes: u64) -> io::Result<()> {
        const PIECE: usize = 1 << 20;
        let zeros = vec![0; PIECE];
        let mut at = 0;
        while at < bytes {
            let piece = &zeros[..PIECE.min((bytes - at) as usize)];
            file.write_all_at(&[IoSlice::new(piece)], at)?;
            at += piece.len() as u64;
        }
        file.sync_data()
    }

    /// The number in a segment file's name.
    pub(crate) fn index(path: &Path) -> Option<u64> {
        path.file_name()?.to_str()?.strip_prefix("segment-")?.strip_suffix(".journal")?.parse().ok()
    }
}

/// What a segment says behind everything in it, once the first batch of the next one is durable: that that was begun. It is missed from
/// then on.
pub(crate) struct Mark {
    pub segment: Arc<Segment>,
    /// The header of the next one.
    pub next: RunHeader,
}

impl Mark {
    /// In the file of the segment before the one with this header.
    pub(crate) fn in_file(file: &SegmentFile, next: &RunHeader) -> Mark {
        let segment = Arc::new(Segment::new(next.segment - 1));
        segment.set_file(file.clone());
        Mark { segment, next: next.clone() }
    }

    /// Whether it can be read there.
    pub(crate) fn is_there(&self, node_key: &NodeKey) -> bool {
        let (at, mut block) = (self.next.previous_end, vec![0; MARK as usize]);
        let is_read = self.segment.file().is_some_and(|file| file.file.read_exact_at(&mut block, at).is_ok());
        let found = RunHeader::decode(&block, node_key, at);
        is_read
            && matches!(found, Found::Header(found, _) if (RunHeader { salt: self.next.salt, ..found }) == self.next)
    }

    /// Writes it, durably. There is no room in a segment that was filled before room was kept.
    pub(crate) fn write(&self, environment: &Environment, node_key: &NodeKey) -> io::Result<()> {
        let at = self.next.previous_end;
        let Some(file) = self.segment.file().filter(|file| at + MARK <= file.bytes) else { return Ok(()) };
        // Under a key of its own: an earlier process may have been interrupted in writing something else to this place.
        let mut salt = [0; 32];
        environment.entropy.fill(&mut salt);
        let key = SegmentKey::derive(node_key, "journal", &salt);
        let mark = RunHeader { salt, ..self.next.clone() }.encode(&key, at);
        file.file.write_all_at(&[IoSlice::new(&mark[..MARK as usize])], at)?;
        if !is_broken(Mutant::SyncDropped) {
            file.file.sync_data()?;
        }
        Ok(())
    }
}

/// One use of a segment file, from its first batch until it is released.
pub(crate) struct Segment {
    pub sequence: u64,
    /// Given by the writer before its first write; until then everything in the segment is in the queue.
    file: OnceLock<SegmentFile>,
    /// First offset and key of each run, ascending.
    runs: RwLock<Vec<(u64, Arc<SegmentKey>)>>,
}

impl Segment {
    pub(crate) fn new(sequence: u64) -> Segment {
        Segment { sequence, file: OnceLock::new(), runs: RwLock::default() }
    }

    pub(crate) fn file(&self) -> Option<&SegmentFile> {
        self.file.get()
    }

    /// Gives the segment its file, once.
    pub(crate) fn set_file(&self, file: SegmentFile) {
        let _already_there = self.file.set(file);
    }

    /// Makes the key of a run known to readers. Idempotent.
    pub(crate) fn add_run(&self, start: u64, key: Arc<SegmentKey>) {
        let mut runs = self.runs.write();
        if let Err(place) = runs.binary_search_by_key(&start, |run| run.0) {
            runs.insert(place, (start, key));
        }
    }

    fn key_of(&self, offset: u64) -> Option<Arc<SegmentKey>> {
        let runs = self.runs.read();
        let after = runs.partition_point(|run| run.0 <= offset);
        Some(runs.get(after.checked_sub(1)?)?.1.clone())
    }

    /// Reads and verifies `length` bytes at `from` of a payload whose bytes are on the disk. Blocks.
    pub(crate) fn read(&self, place: PayloadRef, from: u32, length: u32) -> Result<Bytes, JournalError> {
        const STRIDE: u64 = CHUNK + TAG as u64;
        let (Some(file), Some(key)) = (self.file(), self.key_of(place.offset.into())) else {
            return Err(JournalError::NoSuchPayload { place });
        };
        let end = u64::from(place.offset) + sealed_payload(place.length.into());
        if end > file.bytes || u64::from(from) + u64::from(length) > place.length.into() {
            return Err(JournalError::NoSuchPayload { place });
        }
        if length == 0 {
            return Ok(Bytes::new());
        }
        let first = u64::from(from) / CHUNK;
        let last = (u64::from(from) + u64::from(length) - 1) / CHUNK;
        let plain_end = ((last + 1) * CHUNK).min(place.length.into());
        let plain_length = (plain_end - first * CHUNK) as usize;
        let mut offset = u64::from(place.offset) + first * STRIDE;
        let mut data = vec![0; plain_length + (last - first + 1) as usize * TAG];
        file.file
            .read_exact_at(&mut data, offset)
            .map_err(|cause| JournalError::Read { place, cause: Arc::new(cause) })?;
        let mut out = 0;
        for start in (0..data.len()).step_by(STRIDE as usize) {
            let end = data.len().min(start + STRIDE as usize);
            if open_in_place(&key, offset, CHUNK_AAD, &mut data[start..end]).is_none() {
                return Err(JournalError::DamagedPayload {
                    place,
                    what: "the authentication tag of a chunk",
                });
            }
            data.copy_within(start..end - TAG, out);
            out += end - TAG - start;
            offset += STRIDE;
        }
        data.truncate(out);
        let skip = (u64::from(from) - first * CHUNK) as usize;
        Ok(Bytes::from(data).slice(skip..skip + length as usize))
    }
}
