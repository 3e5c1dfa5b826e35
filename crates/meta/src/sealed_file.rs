use std::collections::HashMap;
use std::fmt;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use environment::{DISK_FULL_PAUSE, DiskFile, Entropy, is_disk_full};
use parking_lot::{Condvar, Mutex};
use redb::StorageBackend;
use seal::{NodeKey, SegmentKey, TAG_LEN};

/// A page of the engine, the unit that is sealed.
const PAGE: u64 = 4096;
/// Salt 32, counter 8, tag 16, zero 8.
const TRAILER: u64 = 64;
/// A sealed page in the file.
const STRIDE: u64 = PAGE + TRAILER;
/// The front block, and the engine's page 0 behind it.
const FRONT: u64 = 2 * PAGE;

const MAGIC: &[u8; 8] = b"KURMAMET";
const FORMAT: u32 = 1;
const PURPOSE: &str = "metadata";

/// Keys of earlier sessions that are kept ready.
const KEPT_KEYS: usize = 1024;

/// Bytes left on the disk below which nothing is begun that needs some.
const ROOM: u64 = 16 << 20;

/// Why a file cannot be used.
#[derive(Debug)]
pub(crate) enum Refused {
    Io(io::Error),
    WrongKey,
    Newer(u32),
    NotOurs,
}

/// The engine's file, sealed page by page under the node key (decision D6); the front page has the layout.
///
/// Page 0 of redb stays in clear: it holds the geometry and the two commit slots, no data, and redb relies on being
/// able to rewrite parts of it in place. All other pages are written to unused places and referred to only
/// after a sync, so a torn one is never needed.
pub(crate) struct SealedFile {
    file: Box<dyn DiskFile>,
    node_key: NodeKey,
    /// The key of this session, and the salt that makes it.
    salt: [u8; 32],
    key: SegmentKey,
    /// Pages sealed in this session.
    counter: AtomicU64,
    others: Mutex<HashMap<[u8; 32], Arc<SegmentKey>>>,
    /// Whether a page that does not verify is an error. While redb opens the file it looks at pages that a crash
    /// may have torn, and judges them by its own checksums.
    strict: AtomicBool,
    /// Whether a full disk is waited for.
    waits: Mutex<bool>,
    /// Whether one is, now.
    is_waiting: AtomicBool,
    stopped_waiting: Condvar,
}

impl SealedFile {
    /// Takes a file over; an empty one gets its front block.
    pub(crate) fn open(
        file: Box<dyn DiskFile>,
        node_key: &NodeKey,
        entropy: &dyn Entropy,
    ) -> Result<Arc<SealedFile>, Refused> {
        let mut salt = [0; 32];
        entropy.fill(&mut salt);
        let key = SegmentKey::derive(node_key, PURPOSE, &salt);
        let sealed = SealedFile {
            file,
            node_key: node_key.clone(),
            salt,
            key,
            counter: AtomicU64::new(0),
            others: Mutex::default(),
            strict: AtomicBool::new(false),
            waits: Mutex::new(false),
            is_waiting: AtomicBool::new(false),
            stopped_waiting: Condvar::new(),
        };
        if sealed.file.length().map_err(Refused::Io)? == 0 {
            sealed.write_front(entropy).map_err(Refused::Io)?;
        } else {
            sealed.check_front()?;
        }
        Ok(Arc::new(sealed))
    }

    /// From now on every page must verify.
    pub(crate) fn be_strict(&self) {
        self.strict.store(true, Ordering::Release);
    }

    /// From now on what does not fit on the disk waits until it does. An error would end redb for good, and nothing is lost
    /// meanwhile: the journal has it.
    pub(crate) fn wait_for_room(&self) {
        *self.waits.lock() = true;
    }

    /// From now on a full disk is an error.
    pub(crate) fn stop_waiting(&self) {
        *self.waits.lock() = false;
        self.stopped_waiting.notify_all();
    }

    /// Whether the disk has room for some more pages, and if not, that is waited out.
    pub(crate) fn has_room(&self) -> bool {
        !*self.waits.lock() || self.file.available().is_ok_and(|bytes| bytes >= ROOM)
    }

    /// Whether the disk became full in the middle of something, and that is waited out.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Acquire)
    }

    fn with_room(&self, attempt: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let mut has_waited = false;
        loop {
            let result = attempt();
            let mut waits = self.waits.lock();
            let is_full = matches!(&result, Err(cause) if is_disk_full(cause));
            if !is_full || !*waits {
                if has_waited {
                    self.is_waiting.store(false, Ordering::Release);
                }
                if has_waited && result.is_ok() {
                    tracing::info!("the disk has room for the metadata store again");
                }
                return result;
            }
            if !std::mem::replace(&mut has_waited, true) {
                self.is_waiting.store(true, Ordering::Release);
                tracing::error!(
                    "the disk is full: the metadata store cannot grow, and changes wait as soon as the journal is full, too; \
                     free space on this disk"
                );
            }
            self.stopped_waiting.wait_for(&mut waits, DISK_FULL_PAUSE);
        }
    }

    fn write_front(&self, entropy: &dyn Entropy) -> io::Result<()> {
        let mut front = [0; PAGE as usize];
        front[..8].copy_from_slice(MAGIC);
        front[8..12].copy_from_slice(&FORMAT.to_be_bytes());
        entropy.fill(&mut front[16..48]);
        let tag = self.front_key(&front).seal_at(0, &front[..48], &mut []);
        front[48..64].copy_from_slice(&tag);
        self.file.write_all_at(&[IoSlice::new(&front)], 0)
    }

    fn check_front(&self) -> Result<(), Refused> {
        let mut front = [0; PAGE as usize];
        self.file.read_exact_at(&mut front, 0).map_err(Refused::Io)?;
        if &front[..8] != MAGIC {
            return Err(Refused::NotOurs);
        }
        let format = u32::from_be_bytes([front[8], front[9], front[10], front[11]]);
        if format > FORMAT {
            return Err(Refused::Newer(format));
        }
        let mut tag = [0; TAG_LEN];
        tag.copy_from_slice(&front[48..64]);
        self.front_key(&front).open_at(0, &front[..48], &mut [], &tag).map_err(|_| Refused::WrongKey)
    }

    fn front_key(&self, front: &[u8; PAGE as usize]) -> SegmentKey {
        let mut salt = [0; 32];
        salt.copy_from_slice(&front[16..48]);
        SegmentKey::derive(&self.node_key, PURPOSE, &salt)
    }

    fn key_of(&self, salt: [u8; 32]) -> Arc<SegmentKey> {
        let mut others = self.others.lock();
        if others.len() >= KEPT_KEYS && !others.contains_key(&salt) {
            others.clear();
        }
        others
            .entry(salt)
            .or_insert_with(|| Arc::new(SegmentKey::derive(&self.node_key, PURPOSE, &salt)))
            .clone()
    }

    /// Appends the sealed form of a page to `out`.
    fn seal(&self, page: u64, data: &[u8], out: &mut Vec<u8>) {
        let counter = self.counter.fetch_add(1, Ordering::Relaxed);
        let start = out.len();
        out.extend_from_slice(data);
        let tag = self.key.seal_at(counter, &page.to_be_bytes(), &mut out[start..]);
        out.extend_from_slice(&self.salt);
        out.extend_from_slice(&counter.to_be_bytes());
        out.extend_from_slice(&tag);
        out.resize(start + STRIDE as usize, 0);
    }

    /// Opens a sealed page into `out`. A page that was never written is zero.
    fn unseal(&self, page: u64, sealed: &[u8], out: &mut [u8]) -> io::Result<()> {
        let (data, trailer) = sealed.split_at(PAGE as usize);
        let mut salt = [0; 32];
        salt.copy_from_slice(&trailer[..32]);
        let mut counter = [0; 8];
        counter.copy_from_slice(&trailer[32..40]);
        let mut tag = [0; TAG_LEN];
        tag.copy_from_slice(&trailer[40..56]);
        if sealed.iter().all(|&byte| byte == 0) {
            out.fill(0);
            return Ok(());
        }
        let (position, aad) = (u64::from_be_bytes(counter), page.to_be_bytes());
        let opened = match salt == self.salt {
            true => self.key.open_into(position, &aad, data, &tag, out),
            false => self.key_of(salt).open_into(position, &aad, data, &tag, out),
        };
        if opened.is_err() {
            if self.strict.load(Ordering::Acquire) {
                let what = format!(
                    "page {page} does not verify: the file is damaged, or was changed by somebody else"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            out.fill(0);
        }
        Ok(())
    }

    /// Where a page other than the first lies.
    fn place(page: u64) -> u64 {
        FRONT + (page - 1) * STRIDE
    }

    /// Reads whole pages, not the first.
    fn read_pages(&self, first: u64, out: &mut [u8]) -> io::Result<()> {
        let count = out.len() as u64 / PAGE;
        let mut sealed = vec![0; (count * STRIDE) as usize];
        self.file.read_exact_at(&mut sealed, Self::place(first))?;
        let pages = sealed.chunks_exact(STRIDE as usize).zip(out.chunks_exact_mut(PAGE as usize));
        for (page, (sealed, out)) in (first..).zip(pages) {
            self.unseal(page, sealed, out)?;
        }
        Ok(())
    }

    /// Writes whole pages, not the first.
    fn write_pages(&self, first: u64, data: &[u8]) -> io::Result<()> {
        let mut sealed = Vec::with_capacity(data.len() / PAGE as usize * STRIDE as usize);
        for (page, data) in (first..).zip(data.chunks_exact(PAGE as usize)) {
            self.seal(page, data, &mut sealed);
        }
        self.with_room(|| self.file.write_all_at(&[IoSlice::new(&sealed)], Self::place(first)))
    }
}

/// The part of a range that lies in page 0, and the whole pages that cover the rest, as lengths of the first and range of the others.
fn split(offset: u64, length: usize) -> (usize, std::ops::Range<u64>) {
    let end = offset + length as u64;
    let in_first = PAGE.min(end).saturating_sub(offset) as usize;
    (in_first, (offset / PAGE).max(1)..end.div_ceil(PAGE).max(1))
}

impl StorageBackend for SealedFile {
    fn len(&self) -> io::Result<u64> {
        let length = self.file.length()?;
        Ok(match length.checked_sub(FRONT) {
            Some(pages) => PAGE + pages / STRIDE * PAGE,
            None => 0,
        })
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (in_first, pages) = split(offset, out.len());
        let (first, rest) = out.split_at_mut(in_first);
        if !first.is_empty() {
            self.file.read_exact_at(first, PAGE + offset)?;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let start = pages.start * PAGE;
        let skip = (offset + in_first as u64 - start) as usize;
        if skip == 0 && rest.len().is_multiple_of(PAGE as usize) {
            return self.read_pages(pages.start, rest);
        }
        let mut whole = vec![0; ((pages.end - pages.start) * PAGE) as usize];
        self.read_pages(pages.start, &mut whole)?;
        rest.copy_from_slice(&whole[skip..skip + rest.len()]);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if !length.is_multiple_of(PAGE) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the engine's file has whole pages only",
            ));
        }
        let physical = match length / PAGE {
            0 => PAGE,
            pages => Self::place(pages),
        };
        self.with_room(|| self.file.set_length(physical))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (in_first, pages) = split(offset, data.len());
        let (first, rest) = data.split_at(in_first);
        if !first.is_empty() {
            self.with_room(|| self.file.write_all_at(&[IoSlice::new(first)], PAGE + offset))?;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let skip = (offset + in_first as u64 - pages.start * PAGE) as usize;
        if skip == 0 && rest.len().is_multiple_of(PAGE as usize) {
            return self.write_pages(pages.start, rest);
        }
        let mut whole = vec![0; ((pages.end - pages.start) * PAGE) as usize];
        self.read_pages(pages.start, &mut whole)?;
        whole[skip..skip + rest.len()].copy_from_slice(rest);
        self.write_pages(pages.start, &whole)
    }
}

impl fmt::Debug for SealedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealedFile")
    }
}

/// What redb owns; the engine keeps the file to make it strict.
#[derive(Debug)]
pub(crate) struct SharedFile(pub Arc<SealedFile>);

impl StorageBackend for SharedFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use environment::{Disk, SystemEntropy};
    use journal::testing::MemoryDisk;
    use proptest::prelude::*;

    use super::*;

    const PATH: &str = "/file";

    fn open(disk: &MemoryDisk, key: u8) -> Result<Arc<SealedFile>, Refused> {
        let file = disk.open(Path::new(PATH), true).unwrap();
        let sealed = SealedFile::open(file, &NodeKey::from_bytes([key; 32]), &SystemEntropy::new())?;
        sealed.be_strict();
        Ok(sealed)
    }

    #[derive(Debug, Clone)]
    enum Step {
        Write(usize, usize, u8),
        Length(u64),
        Reopen,
    }

    fn step() -> impl Strategy<Value = Step> {
        // Whole pages often, anything else at times.
        let place = prop_oneof![3 => (0usize..8).prop_map(|page| page * PAGE as usize), 1 => 0usize..30_000];
        prop_oneof![
            6 => (place.clone(), place, any::<u8>()).prop_map(|(at, length, fill)| Step::Write(at, length, fill)),
            2 => (0u64..12).prop_map(Step::Length),
            1 => Just(Step::Reopen),
        ]
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_plain_file(steps in prop::collection::vec(step(), 1..30), at in 0usize..40_000, length in 0usize..20_000) {
            let disk = MemoryDisk::new();
            let mut file = open(&disk, 1).unwrap();
            let mut model: Vec<u8> = Vec::new();
            for step in steps {
                match step {
                    Step::Write(at, length, fill) => {
                        let length = length.min(model.len().saturating_sub(at));
                        if length > 0 {
                            let data: Vec<u8> = (0..length).map(|i| fill.wrapping_add(i as u8)).collect();
                            file.write(at as u64, &data).unwrap();
                            model[at..at + length].copy_from_slice(&data);
                        }
                    }
                    Step::Length(pages) => {
                        file.set_len(pages * PAGE).unwrap();
                        model.resize((pages * PAGE) as usize, 0);
                    }
                    Step::Reopen => file = open(&disk, 1).unwrap(),
                }
                prop_assert_eq!(file.len().unwrap(), model.len() as u64);
            }
            let mut all = vec![0; model.len()];
            file.read(0, &mut all).unwrap();
            prop_assert!(all == model);
            let at = at.min(model.len());
            let length = length.min(model.len() - at);
            let mut part = vec![0; length];
            file.read(at as u64, &mut part).unwrap();
            prop_assert!(part == model[at..at + length]);
        }
    }

    #[test]
    fn data_is_not_in_clear_and_a_changed_or_moved_page_is_noticed() {
        let disk = MemoryDisk::new();
        let file = open(&disk, 1).unwrap();
        file.set_len(4 * PAGE).unwrap();
        for page in 1..4 {
            file.write(page * PAGE, &b"the canary sings".repeat(256)).unwrap();
        }
        let bytes = disk.files()[0].1.clone();
        assert!(!bytes.windows(8).any(|window| window == b"e canary"));
        let mut out = [0; PAGE as usize];
        let second = (FRONT + STRIDE) as usize;
        disk.damage(Path::new(PATH), |bytes| bytes[second + 100] ^= 1);
        assert_eq!(file.read(2 * PAGE, &mut out).unwrap_err().kind(), io::ErrorKind::InvalidData);
        disk.damage(Path::new(PATH), |bytes| bytes.copy_within(FRONT as usize..second, second));
        assert!(file.read(2 * PAGE, &mut out).is_err(), "page 1 in the place of page 2");
        assert!(file.read(3 * PAGE, &mut out).is_ok());
    }

    #[test]
    fn a_wrong_key_a_newer_format_and_foreign_files_are_refused() {
        let disk = MemoryDisk::new();
        drop(open(&disk, 1).unwrap());
        assert!(open(&disk, 1).is_ok());
        assert!(matches!(open(&disk, 2), Err(Refused::WrongKey)));
        disk.damage(Path::new(PATH), |bytes| bytes[11] = 2);
        assert!(matches!(open(&disk, 1), Err(Refused::Newer(2))));
        disk.damage(Path::new(PATH), |bytes| bytes[0] = 0);
        assert!(matches!(open(&disk, 1), Err(Refused::NotOurs)));
    }
}
