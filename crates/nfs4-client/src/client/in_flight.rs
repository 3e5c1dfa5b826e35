use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use super::shared::Shared;
use super::standing::Orphan;

/// What who waits for an exchange and the exchange itself know of each other.
#[derive(Debug, Default)]
pub(super) struct Courier {
    /// The request may have reached the server.
    sent: AtomicBool,
    /// It makes a difference whether the server executed it.
    changes: AtomicBool,
    /// Nobody waits any more.
    abandoned: AtomicBool,
}

impl Courier {
    /// Whether something may have been changed.
    pub fn is_doubtful(&self) -> bool {
        self.sent.load(Relaxed) && self.changes.load(Relaxed)
    }

    pub fn set_changes(&self, changes: bool) {
        self.changes.store(changes, Relaxed);
    }

    pub fn set_sent(&self, sent: bool) {
        self.sent.store(sent, Relaxed);
    }

    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Relaxed)
    }
}

/// A future that goes on as a task when it is dropped before its end, so that its slot comes back with a sequence id
/// that is known (RFC 8881 §2.10.6.2: a request is repeated until it is answered).
///
/// There are never more such tasks than slots. If it may have been sent and changes something, that is
/// [in doubt](super::standing::Standing) until it is over.
pub(super) struct InFlight<T: 'static> {
    future: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    courier: Arc<Courier>,
    shared: Arc<Shared>,
}

impl<T: 'static> InFlight<T> {
    pub fn new(
        future: impl Future<Output = T> + Send + 'static,
        courier: Arc<Courier>,
        shared: Arc<Shared>,
    ) -> InFlight<T> {
        InFlight { future: Some(Box::pin(future)), courier, shared }
    }
}

impl<T: 'static> Future for InFlight<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        let result = future.as_mut().poll(context);
        if result.is_ready() {
            self.future = None;
        }
        result
    }
}

impl<T: 'static> Drop for InFlight<T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            self.courier.abandoned.store(true, Relaxed);
            let orphan = self.courier.is_doubtful().then(|| self.shared.standing.orphan());
            self.shared.runtime.spawn(async move {
                future.await;
                orphan.into_iter().for_each(Orphan::over);
            });
        }
    }
}
