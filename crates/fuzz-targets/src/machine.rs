//! A machine whose time and randomness are the same in every run.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use environment::{Clock, Disk, Entropy, Environment};
use ids::Timestamp;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Runs `future` on this thread; tasks that it leaves behind go on when the next one runs.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: Runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// Time that passes only when told to.
pub(crate) struct HandClock {
    now: watch::Sender<Duration>,
}

impl HandClock {
    pub fn new() -> Arc<HandClock> {
        Arc::new(HandClock { now: watch::Sender::new(Duration::from_secs(1000)) })
    }

    /// Lets time pass, and everybody act who waited for it.
    pub async fn advance(&self, by: Duration) {
        self.now.send_modify(|now| *now += by);
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl Clock for HandClock {
    fn wall(&self) -> Timestamp {
        let now = *self.now.borrow();
        Timestamp { seconds: 1_700_000_000 + now.as_secs() as i64, nanos: now.subsec_nanos() }
    }

    fn monotonic(&self) -> Duration {
        *self.now.borrow()
    }

    async fn sleep(&self, duration: Duration) {
        let mut now = self.now.subscribe();
        let until = now.borrow().saturating_add(duration);
        // Its sender lives as long as `self`.
        let _ = now.wait_for(|now| *now >= until).await;
    }
}

/// Randomness that is the same every time; differs by where it begins.
#[derive(Default)]
pub(crate) struct Counted(AtomicU64);

impl Counted {
    /// The randomness of process number `process`: two processes never draw the same.
    pub fn of(process: u32) -> Counted {
        Counted(AtomicU64::new(u64::from(process) << 32))
    }
}

impl Entropy for Counted {
    fn fill(&self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let number = self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            chunk.copy_from_slice(&mixed[..chunk.len()]);
        }
    }
}

/// The machine as process number `process` sees it.
pub(crate) fn environment(clock: &Arc<HandClock>, disk: Arc<dyn Disk>, process: u32) -> Environment {
    Environment { clock: clock.clone(), entropy: Arc::new(Counted::of(process)), disk }
}
