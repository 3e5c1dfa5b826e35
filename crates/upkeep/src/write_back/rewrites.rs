use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use cache::Ticket;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Rewrite;

/// Blocks of which nothing is dirty, and which are to be stored once more all the same. In memory: who offers them knows how to find them
/// again.
#[derive(Default)]
pub(crate) struct RewriteQueue {
    waiting: Mutex<VecDeque<(Rewrite, Ticket)>>,
    offered: Notify,
    refused: AtomicU64,
}

impl RewriteQueue {
    /// `ticket` is dropped when the block was stored and committed, or was tried, or need not be.
    pub fn offer(&self, rewrite: Rewrite, ticket: Ticket) {
        self.waiting.lock().push_back((rewrite, ticket));
        self.offered.notify_one();
    }

    /// One of them was tried and not stored.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were not stored since the last question.
    pub fn take_refused(&self) -> u64 {
        self.refused.swap(0, Ordering::Relaxed)
    }

    /// Up to `most`, oldest first.
    pub fn take(&self, most: usize) -> Vec<(Rewrite, Ticket)> {
        let mut waiting = self.waiting.lock();
        let most = most.min(waiting.len());
        waiting.drain(..most).collect()
    }

    /// Returns when something was offered.
    pub async fn offered(&self) {
        self.offered.notified().await;
    }
}
