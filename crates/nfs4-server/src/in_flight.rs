//! Requests that are being run or whose reply is not yet written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use onc_rpc::Reply;
use tokio::sync::Notify;

/// Counts them.
#[derive(Default)]
pub(crate) struct InFlight {
    count: AtomicUsize,
    /// Told when `count` falls to zero.
    none: Notify,
}

/// One of them, until it is dropped.
pub(crate) struct Request {
    in_flight: Arc<InFlight>,
}

impl InFlight {
    /// One more.
    pub fn begin(self: &Arc<InFlight>) -> Request {
        self.count.fetch_add(1, Ordering::SeqCst);
        Request { in_flight: self.clone() }
    }

    /// Returns when there is none.
    pub async fn none(&self) {
        loop {
            let none = self.none.notified();
            if self.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            none.await;
        }
    }
}

impl Request {
    /// The same reply; the request ends when its last byte is written, or the connection closed.
    pub fn until_written(self, reply: Reply) -> Reply {
        let Reply::Success(mut segments) = reply else { return reply };
        if let Some(last) = segments.pop() {
            segments.push(Bytes::from_owner(LastSegment { data: last, _request: self }));
        }
        Reply::Success(segments)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.in_flight.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.in_flight.none.notify_waiters();
        }
    }
}

struct LastSegment {
    data: Bytes,
    _request: Request,
}

impl AsRef<[u8]> for LastSegment {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_none(in_flight: &InFlight) -> bool {
        pin!(in_flight.none()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_request_ends_with_the_last_byte_of_its_reply() {
        let in_flight = Arc::new(InFlight::default());
        assert!(is_none(&in_flight));
        let request = in_flight.begin();
        let reply =
            request.until_written(Reply::Success(vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")]));
        assert!(!is_none(&in_flight));
        let Reply::Success(mut segments) = reply else { panic!("another reply") };
        assert_eq!(segments, ["a", "b"]);
        segments.remove(0);
        assert!(!is_none(&in_flight));
        segments.clear();
        assert!(is_none(&in_flight));
        drop(in_flight.begin().until_written(Reply::Drop));
        assert!(is_none(&in_flight));
    }
}
