//! Whoever reads a delegated file from front to back finds the next part in memory.
//!
//! Only what is promised may be handed out without asking, so only then is it worth having before it is wanted.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::watch;

use super::Nfs;
use super::open_files::OpenFile;
use crate::step::{Read, Step};

/// The first part that is read ahead, and the longest, in bytes.
const WINDOW: (u64, u64) = (128 << 10, 8 << 20);

/// The part of the memory that one file may be read ahead by: another reader's part must not push it out before it is read.
const SHARE: u64 = 8;

/// Parts that are being read ahead at once, of all files.
pub(super) const AT_ONCE: usize = 16;

/// How a descriptor is read.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Where it goes on if it is read from front to back.
    next: u64,
    window: u64,
    /// Up to where it was read ahead.
    until: u64,
    /// What is on its way, and tells when it is there.
    coming: Option<(Range<u64>, watch::Receiver<()>)>,
}

impl Ahead {
    /// Takes note of a READ; what is to be read ahead because of it, which includes what it reads itself. At most so many bytes, of
    /// a file of this size, as far as is known.
    fn note(&mut self, read: &Read, most: u64, size: u64) -> Option<Range<u64>> {
        let end = read.offset.saturating_add(read.length);
        let goes_on = read.offset == self.next && read.offset > 0;
        self.next = end;
        if !goes_on {
            (self.window, self.until) = (0, 0);
            return None;
        }
        let is_coming = self.coming.as_ref().is_some_and(|(_, done)| done.has_changed().is_ok());
        let has_enough = self.until.saturating_sub(end) >= self.window / 2 && self.window > 0;
        if is_coming || has_enough {
            return None;
        }
        self.window = (self.window * 2).max(read.length).clamp(WINDOW.0.min(most), most);
        let start = self.until.max(read.offset);
        self.until = end.saturating_add(self.window).min(size);
        (start < self.until).then_some(start..self.until)
    }

    /// Tells when that is there of which a READ wants some.
    fn coming_for(&self, read: &Read) -> Option<watch::Receiver<()>> {
        let (range, done) = self.coming.as_ref()?;
        let end = read.offset.saturating_add(read.length);
        (range.start < end && read.offset < range.end).then(|| done.clone())
    }
}

impl Nfs {
    /// Reads ahead, if this is one READ that goes on where the last one ended, and waits for what it wants if that is on its way.
    pub(super) async fn read_ahead(&self, steps: &[Step]) {
        let ([Step::Read(read)], Some(cache)) = (steps, &self.cache) else { return };
        let Some(file) = read.target.descriptor().and_then(|it| self.files.get(it).ok()) else { return };
        if self.promises.stamp(file.open.handle()).is_none() {
            return;
        }
        let most = WINDOW.1.min(cache.capacity() / SHARE);
        if read.length > most {
            return;
        }
        // If it has grown, whoever comes to its end finds out.
        let size = cache.size_of(file.open.handle()).unwrap_or(u64::MAX);
        let range = file.ahead.lock().note(read, most, size);
        if let Some(range) = range {
            self.fetch(&file, read, range);
        }
        let coming = file.ahead.lock().coming_for(read);
        if let Some(mut done) = coming {
            // Ends when the sender is dropped.
            let _ = done.changed().await;
        }
    }

    /// Has this read by a task of its own. What fails is asked for again by whoever wants it.
    fn fetch(&self, file: &Arc<OpenFile>, read: &Read, range: Range<u64>) {
        let (Ok(permit), Some(nfs)) = (self.fetches.clone().try_acquire_owned(), self.me.upgrade()) else {
            file.ahead.lock().until = range.start;
            return;
        };
        let (offset, length) = (range.start, range.end - range.start);
        let step = Step::Read(Read { offset, length, ..read.clone() });
        let (done, waiting) = watch::channel(());
        file.ahead.lock().coming = Some((range, waiting));
        // Not where the caller is: that may not go on before it is wanted.
        self.runtime.spawn(async move {
            let _ = nfs.do_all(vec![step]).await;
            drop((done, permit));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(ahead: &mut Ahead, offset: u64, length: u64) -> Option<Range<u64>> {
        ahead.note(&Read::new("x", offset, length), WINDOW.1, u64::MAX)
    }

    #[test]
    fn the_window_doubles_up_to_its_bound() {
        let mut ahead = Ahead::default();
        assert_eq!(note(&mut ahead, 0, 4096), None, "one read is none from front to back");
        let (mut at, mut windows) = (4096, Vec::new());
        while at < 100 << 20 {
            if let Some(range) = note(&mut ahead, at, 4096) {
                assert!(range.start >= at && range.end == at + 4096 + ahead.window, "{range:?} at {at}");
                windows.push(ahead.window);
            }
            assert!(ahead.until >= at + 4096, "it is never behind");
            at += 4096;
        }
        assert_eq!(windows[..4], [128 << 10, 256 << 10, 512 << 10, 1 << 20]);
        assert!(windows[6..].iter().all(|window| *window == WINDOW.1));
    }

    #[test]
    fn nothing_is_read_beyond_the_end() {
        let mut ahead = Ahead::default();
        let mut note = |offset, length| ahead.note(&Read::new("x", offset, length), WINDOW.1, 200_000);
        assert_eq!(note(0, 4096), None);
        assert_eq!(note(4096, 4096), Some(4096..8192 + WINDOW.0));
        assert_eq!(note(8192, 100_000), Some(8192 + WINDOW.0..200_000));
        for at in (108_192..210_000).step_by(4096) {
            assert_eq!(note(at, 4096), None, "{at}");
        }
    }

    #[test]
    fn what_is_on_its_way_is_for_those_who_want_some_of_it() {
        let (_done, waiting) = watch::channel(());
        let ahead = Ahead { coming: Some((100..200, waiting)), ..Ahead::default() };
        let waits = |offset, length| ahead.coming_for(&Read::new("x", offset, length)).is_some();
        assert!(waits(0, 101) && waits(199, 1) && waits(150, u64::MAX) && waits(0, u64::MAX));
        assert!(!waits(0, 100) && !waits(200, 1) && !waits(u64::MAX - 1, 10) && !waits(u64::MAX, u64::MAX));
    }

    #[test]
    fn whoever_jumps_begins_anew() {
        let mut ahead = Ahead::default();
        note(&mut ahead, 0, 10);
        assert!(note(&mut ahead, 10, 10).is_some());
        assert_eq!(note(&mut ahead, 1000, 10), None);
        assert_eq!(ahead.window, 0);
        assert_eq!(note(&mut ahead, 1010, 10), Some(1010..1020 + WINDOW.0));
    }
}
