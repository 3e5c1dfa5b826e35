//! Listing directories: one READDIR of many entries with their attributes, given to the kernel in its small pieces.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;
use fuser::{Errno, FileAttr, FileType, INodeNo};
use nfs4::{AttributeValues, NfsResOp, NfsStatus, Outcome, Verifier};
use nfs4_client::operations::{put_handle, read_directory};
use nfs4_client::{Client, ClientError};

use crate::answers::send;
use crate::attributes::{OF_ENTRIES, to_kernel};
use crate::core::Core;
use crate::errno::{Answer, errno};
use crate::inode::Inode;

/// Bytes of the first READDIR of a listing: most directories are small.
const FIRST: u32 = 64 << 10;

/// What the kernel calls the places behind `.` and `..`. Servers use neither as a cookie (RFC 8881 §18.23.3).
const BEHIND_SELF: u64 = 1;
const BEHIND_PARENT: u64 = 2;

/// A directory that the kernel has open.
pub(crate) struct Listing {
    pub inode: Arc<Inode>,
    pub client: Client,
    page: tokio::sync::Mutex<Page>,
}

/// The entries that were read last and are not yet given to the kernel.
#[derive(Default)]
struct Page {
    verifier: Verifier,
    /// The place of the first one.
    place: u64,
    entries: VecDeque<Entry>,
    is_last: bool,
    /// When it was read, by the clocks of the file system and of the machine.
    tick: u64,
    read: Duration,
    /// Bytes to ask for the next time.
    bytes: u32,
}

struct Entry {
    /// The place behind it.
    cookie: u64,
    name: Bytes,
    values: AttributeValues,
}

/// Takes an entry with the place behind it and its time to live; false if there is no more room.
pub(crate) trait Take: FnMut(&FileAttr, u64, &[u8], Duration) -> bool + Send {}

impl<F: FnMut(&FileAttr, u64, &[u8], Duration) -> bool + Send> Take for F {}

impl Listing {
    pub fn new(inode: Arc<Inode>, client: Client) -> Listing {
        Listing { inode, client, page: tokio::sync::Mutex::default() }
    }
}

impl Core {
    /// Gives the kernel entries from this place on, as many as it takes. `plus`: it is told of the files, as by a
    /// lookup of each.
    pub async fn list(
        self: &Arc<Core>,
        listing: &Listing,
        mut place: u64,
        plus: bool,
        mut take: impl Take,
    ) -> Answer<()> {
        let mut page = listing.page.lock().await;
        for (here, name, behind) in [(0, b".".as_slice(), BEHIND_SELF), (BEHIND_SELF, b"..", BEHIND_PARENT)] {
            if place == here {
                if !take(&itself(listing.inode.number), behind, name, Duration::ZERO) {
                    return Ok(());
                }
                place = behind;
            }
        }
        let mut given = place == BEHIND_PARENT;
        loop {
            let is_old = self.clock.monotonic().saturating_sub(page.read) > self.ttl();
            if page.place != place || page.bytes == 0 || is_old {
                page.entries.clear();
                page.is_last = false;
            }
            if page.entries.is_empty() {
                if page.is_last && page.place == place {
                    return Ok(());
                }
                // The kernel has something already, and asks again; so it need not wait for the rest.
                if given && place != BEHIND_PARENT {
                    return Ok(());
                }
                self.read_page(listing, &mut page, place).await?;
                if page.entries.is_empty() {
                    return Ok(());
                }
            }
            while let Some(entry) = page.entries.front() {
                if !self.give(listing, entry, page.tick, plus, &mut take).await? {
                    return Ok(());
                }
                given = true;
                place = entry.cookie;
                page.place = place;
                page.entries.pop_front();
            }
        }
    }

    /// Whether the kernel had room for it.
    async fn give(
        self: &Arc<Core>,
        listing: &Listing,
        entry: &Entry,
        tick: u64,
        plus: bool,
        take: &mut impl Take,
    ) -> Answer<bool> {
        let file_id = entry.values.fileid.unwrap_or(0);
        let (Some(handle), true) = (&entry.values.filehandle, plus) else {
            return Ok(take(&to_kernel(file_id, &entry.values), entry.cookie, &entry.name, Duration::ZERO));
        };
        let known = self.table.find(handle);
        let was_touched = match &known {
            Some(inode) => inode.writer.is_busy() || inode.touched.load(SeqCst) > tick,
            None => self.forgotten.load(SeqCst) > tick,
        };
        let inode = self.table.look_up([(handle, file_id)].into_iter()).remove(0); // as many as were asked for
        let attributes = match was_touched {
            false => self.told(&inode, &entry.values),
            true => match self.get_attributes(listing.client.clone(), inode.clone()).await {
                Ok(attributes) => attributes,
                Err(_) => {
                    // Removed meanwhile.
                    self.forget(inode.number, 1);
                    return Ok(true);
                }
            },
        };
        // A name that was removed or came from here meanwhile is not to be believed.
        let ttl = match listing.inode.touched.load(SeqCst) > tick {
            true => Duration::ZERO,
            false => self.ttl(),
        };
        let taken = take(&attributes, entry.cookie, &entry.name, ttl);
        if !taken {
            self.forget(inode.number, 1);
        }
        Ok(taken)
    }

    async fn read_page(&self, listing: &Listing, page: &mut Page, place: u64) -> Answer<()> {
        let (cookie, verifier) = match place {
            BEHIND_PARENT => (0, Verifier::default()),
            place => (place, page.verifier),
        };
        let bytes = page.bytes.clamp(FIRST, self.listing_bytes);
        let tick = self.tick();
        let read = read_directory(cookie, verifier, bytes, OF_ENTRIES);
        let mut answers = match send(&listing.client, &[put_handle(&listing.inode.handle), read]).await {
            Err(ClientError::Operation { status: NfsStatus::NotSame | NfsStatus::BadCookie, .. }) => {
                return Err(Errno::ESTALE);
            }
            answers => answers.map_err(|error| errno(&error))?,
        };
        let found = answers.find(|result| match result {
            NfsResOp::ReadDir(Outcome::Ok(found)) => Some(found),
            _ => None,
        })?;
        page.verifier = found.cookie_verifier;
        page.place = place;
        page.is_last = found.eof;
        page.tick = tick;
        page.read = self.clock.monotonic();
        page.bytes = bytes.saturating_mul(4);
        for entry in found.entries {
            let values = entry.attributes.values().map_err(|_| Errno::EIO)?;
            page.entries.push_back(Entry { cookie: entry.cookie, name: entry.name.0, values });
        }
        Ok(())
    }
}

/// `.` and `..`, of which the kernel takes no more than the name.
fn itself(number: u64) -> FileAttr {
    FileAttr {
        kind: FileType::Directory,
        ino: INodeNo(number),
        ..to_kernel(number, &AttributeValues::default())
    }
}
