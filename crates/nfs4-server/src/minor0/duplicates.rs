//! Requests that come again: a client that lost its connection repeats what was not answered (RFC 7530 §3.1.1), and
//! without sessions nothing but the transport tells a repetition from a new request.

use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use twox_hash::XxHash3_64;

use crate::state::Principal;

/// How long a reply is kept: longer than any client waits before it asks again.
const KEPT: Duration = Duration::from_secs(120);

/// Replies kept, and how many bytes they may have together, and one of them. What reads much is asked for again.
const REPLIES: usize = 8192;
const BYTES: usize = 16 << 20;
pub(crate) const REPLY_BYTES: usize = 64 << 10;

/// What a repetition shares with the request that it repeats. The port is part of it: clients that are to be protected
/// come back from the same one, and of two programs on one host neither may get what the other was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestKey {
    address: SocketAddr,
    xid: u32,
    /// Of who asks, and for what. All of it: a WRITE that is taken for another one is data lost.
    digest: u64,
}

impl RequestKey {
    pub fn new(address: SocketAddr, xid: u32, principal: &Principal, body: &[u8]) -> RequestKey {
        let mut hasher = XxHash3_64::with_seed(body.len() as u64);
        principal.hash(&mut hasher);
        hasher.write(body);
        RequestKey { address, xid, digest: hasher.finish() }
    }
}

/// One request; locked while it is being run. A repetition waits for the lock and finds the reply.
type Place = Arc<tokio::sync::Mutex<Option<Bytes>>>;

#[derive(Default)]
struct Table {
    places: HashMap<RequestKey, Place>,
    /// Those with a reply, oldest first: when it was kept, and how many bytes it has.
    kept: VecDeque<(RequestKey, Duration, usize)>,
    bytes: usize,
}

/// Replies to requests that changed something.
#[derive(Default)]
pub(crate) struct Duplicates {
    table: Mutex<Table>,
}

/// A request that runs. Dropping it without [`Running::keep`] forgets it.
pub(crate) struct Running<'a> {
    duplicates: &'a Duplicates,
    key: RequestKey,
    place: tokio::sync::OwnedMutexGuard<Option<Bytes>>,
    kept: bool,
}

impl Duplicates {
    /// Waits while the same request is being run, and returns the reply to it: `Err`. Otherwise the request is to be
    /// run.
    pub async fn enter(&self, key: RequestKey, now: Duration) -> Result<Running<'_>, Bytes> {
        let place = {
            let mut table = self.table.lock();
            table
                .forget(|table, kept| now > kept + KEPT || table.kept.len() > REPLIES || table.bytes > BYTES);
            table.places.entry(key).or_default().clone()
        };
        let place = place.lock_owned().await;
        match &*place {
            Some(reply) => Err(reply.clone()),
            None => Ok(Running { duplicates: self, key, place, kept: false }),
        }
    }
}

impl Table {
    /// Forgets replies as long as `enough` says so of the oldest.
    fn forget(&mut self, enough: impl Fn(&Table, Duration) -> bool) {
        while let Some((key, at, bytes)) = self.kept.front().copied()
            && enough(self, at)
        {
            self.kept.pop_front();
            self.bytes -= bytes;
            self.places.remove(&key);
        }
    }
}

impl Running<'_> {
    /// Keeps the reply, which has at most [`REPLY_BYTES`].
    pub fn keep(mut self, reply: &Bytes, now: Duration) {
        debug_assert!(reply.len() <= REPLY_BYTES, "too large to be kept");
        *self.place = Some(reply.clone());
        self.kept = true;
        let mut table = self.duplicates.table.lock();
        table.bytes += reply.len();
        table.kept.push_back((self.key, now, reply.len()));
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.duplicates.table.lock().places.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(port: u16, xid: u32, body: &[u8]) -> RequestKey {
        RequestKey::new(([127, 0, 0, 1], port).into(), xid, &Principal::Unix(7), body)
    }

    #[tokio::test]
    async fn a_repetition_gets_the_reply_and_nothing_else_does() {
        let duplicates = Duplicates::default();
        let request = key(700, 1, b"remove");
        let running = duplicates.enter(request, Duration::ZERO).await.unwrap_or_else(|_| panic!("new"));
        running.keep(&Bytes::from_static(b"removed"), Duration::ZERO);
        assert_eq!(duplicates.enter(request, KEPT).await.err(), Some(Bytes::from_static(b"removed")));
        let other = RequestKey::new(([127, 0, 0, 1], 700).into(), 1, &Principal::Unix(8), b"remove");
        for fresh in [key(701, 1, b"remove"), key(700, 2, b"remove"), key(700, 1, b"create"), other] {
            assert!(duplicates.enter(fresh, KEPT).await.is_ok());
        }
        let late = KEPT + Duration::from_nanos(1);
        assert!(duplicates.enter(request, late).await.is_ok(), "it is forgotten");
        assert!(duplicates.table.lock().places.is_empty());
    }

    #[tokio::test]
    async fn a_repetition_waits_for_the_request_that_runs() {
        let duplicates = Duplicates::default();
        let request = key(700, 1, b"remove");
        let running = duplicates.enter(request, Duration::ZERO).await.unwrap_or_else(|_| panic!("new"));
        let repetition = duplicates.enter(request, Duration::ZERO);
        let end = async {
            tokio::task::yield_now().await;
            running.keep(&Bytes::from_static(b"removed"), Duration::ZERO);
        };
        let (repetition, ()) = tokio::join!(repetition, end);
        assert_eq!(repetition.err(), Some(Bytes::from_static(b"removed")));
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded() {
        let duplicates = Duplicates::default();
        let large = Bytes::from(vec![0; REPLY_BYTES]);
        for xid in 0..1000 {
            let running = duplicates.enter(key(1, xid, b""), Duration::ZERO).await;
            running.unwrap_or_else(|_| panic!("new")).keep(&large, Duration::ZERO);
        }
        let table = duplicates.table.lock();
        assert!(table.bytes <= BYTES + REPLY_BYTES, "{}", table.bytes);
        assert_eq!(table.bytes / REPLY_BYTES, table.places.len());
    }
}
