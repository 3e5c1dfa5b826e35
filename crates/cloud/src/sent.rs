use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

tokio::task_local! {
    static WATCHED: Sent;
}

/// When an operation left the gateway, for who wants to know how long a cloud has had it: until then it waits for a place
/// ([`Limited`](crate::Limited)), or for the rates that are allowed ([`Throttled`](crate::Throttled)).
#[derive(Clone, Debug, Default)]
pub struct Sent(Arc<OnceLock<Duration>>);

impl Sent {
    /// The monotonic time at which it was sent; the first, if it was repeated after a failure. `None`: it waits.
    pub fn at(&self) -> Option<Duration> {
        self.0.get().copied()
    }

    /// Runs `operation`, one of a [`Connection`](crate::Connection), and notes when it is sent.
    pub async fn watch<T>(&self, operation: impl Future<Output = T>) -> T {
        WATCHED.scope(self.clone(), operation).await
    }

    /// What runs now is sent.
    pub(crate) fn note(now: Duration) {
        let _ = WATCHED.try_with(|sent| sent.0.set(now));
    }
}
