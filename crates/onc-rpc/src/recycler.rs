//! Memory of large records that is used again: fresh memory has to be cleared by the system, page by page, which takes longer than
//! to fill it from the network.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Records from this size on are worth it.
const LEAST: usize = 64 << 10;

/// Most bytes of memory that a record of so many bytes is in, if it has a buffer of its own, as from 64 KiB on: for who keeps data
/// that came with it.
pub fn record_memory(length: usize) -> usize {
    let rounded = length.checked_next_multiple_of(LEAST).unwrap_or(length);
    rounded.max(length.saturating_add(length / 8))
}

/// Buffers that nobody uses at the moment, up to a number of bytes.
#[derive(Debug)]
pub(crate) struct Recycler {
    most: usize,
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

/// Data that gives its memory back when nobody holds any of it.
struct Lent {
    data: Vec<u8>,
    from: Arc<Recycler>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.from.put(std::mem::take(&mut self.data));
    }
}

impl Recycler {
    pub fn new(most: usize) -> Recycler {
        Recycler { most, free: Mutex::default() }
    }

    /// An empty buffer for `length` bytes, of no more than [`record_memory`].
    pub fn buffer(&self, length: usize) -> Vec<u8> {
        if length < LEAST || self.most == 0 {
            return Vec::with_capacity(length);
        }
        let mut free = self.free();
        // What was used last is in the caches of the processor. One that is too large would be missed elsewhere, and hold more
        // than is known to who keeps what is in it.
        let fits = |buffer: &Vec<u8>| (length..=record_memory(length)).contains(&buffer.capacity());
        match free.buffers.iter().rposition(fits) {
            Some(at) => {
                let buffer = free.buffers.remove(at);
                free.bytes -= buffer.capacity();
                buffer
            }
            // A little more than asked for, so that records that differ in their headers fit as well.
            None => Vec::with_capacity(length.next_multiple_of(LEAST)),
        }
    }

    /// The data of a buffer from [`Recycler::buffer`], which comes back when it is not used any more.
    pub fn lend(self: &Arc<Recycler>, data: Vec<u8>) -> Bytes {
        if data.capacity() < LEAST || self.most == 0 {
            return data.into();
        }
        Bytes::from_owner(Lent { data, from: self.clone() })
    }

    fn put(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        if buffer.capacity() > self.most {
            return;
        }
        let mut free = self.free();
        // What has been of no use for longest makes room, as it may be of a size that nobody wants any more.
        while free.bytes + buffer.capacity() > self.most {
            free.bytes -= free.buffers.remove(0).capacity();
        }
        free.bytes += buffer.capacity();
        free.buffers.push(buffer);
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(recycler: &Arc<Recycler>, length: usize) -> Bytes {
        let mut buffer = recycler.buffer(length);
        assert!(buffer.is_empty() && buffer.capacity() >= length);
        buffer.resize(length, 7);
        recycler.lend(buffer)
    }

    #[test]
    fn memory_comes_back_when_the_last_piece_of_it_is_dropped() {
        let recycler = Arc::new(Recycler::new(1 << 20));
        let data = filled(&recycler, 100 << 10);
        let place = data.as_ptr();
        let piece = data.slice(1000..2000);
        drop(data);
        assert_eq!(recycler.free().bytes, 0);
        assert_eq!(piece, [7; 1000][..]);
        drop(piece);
        assert_eq!(recycler.free().bytes, 128 << 10);
        assert_eq!(filled(&recycler, 110 << 10).as_ptr(), place);
    }

    #[test]
    fn no_more_is_kept_than_said_and_nothing_that_is_small() {
        let recycler = Arc::new(Recycler::new(1 << 20));
        drop(filled(&recycler, LEAST - 1));
        assert_eq!(recycler.free().bytes, 0);
        let held: Vec<Bytes> = (0..40).map(|_| filled(&recycler, 64 << 10)).collect();
        drop(held);
        assert_eq!(recycler.free().bytes, 1 << 20);
        drop(filled(&recycler, 2 << 20));
        let free = recycler.free();
        assert_eq!((free.bytes, free.buffers.len()), (1 << 20, 16));
    }

    #[test]
    fn a_buffer_is_not_taken_for_much_less_than_it_holds() {
        let recycler = Arc::new(Recycler::new(8 << 20));
        drop(filled(&recycler, 4 << 20));
        for length in [65 << 10, 128 << 10, 2 << 20, 3 << 20] {
            assert!(recycler.buffer(length).capacity() <= record_memory(length));
        }
        assert_eq!(recycler.free().bytes, 4 << 20);
        assert!(recycler.buffer(3900 << 10).capacity() == 4 << 20 && recycler.free().bytes == 0);
    }

    #[test]
    fn what_was_not_wanted_for_longest_makes_room() {
        let recycler = Arc::new(Recycler::new(1 << 20));
        let held: Vec<Bytes> = (0..16).map(|_| filled(&recycler, 64 << 10)).collect();
        drop(held);
        drop(filled(&recycler, 512 << 10));
        let free = recycler.free();
        let sizes: Vec<usize> = free.buffers.iter().map(Vec::capacity).collect();
        assert_eq!((free.bytes, sizes.len(), sizes[8]), (1 << 20, 9, 512 << 10));
    }
}
