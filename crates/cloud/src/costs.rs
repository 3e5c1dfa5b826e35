use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::Operation;

/// What a provider may charge for, since the start of the process, as the driver's operations ask for it: with the
/// tries that failed, without what a driver does beside them (signing in, the further pages of a listing).
///
/// Providers charge requests by class and bytes by direction; storage itself is not counted here.
#[derive(Debug, Default)]
pub struct Costs {
    changes: AtomicU64,
    reads: AtomicU64,
    deletes: AtomicU64,
    uploaded: AtomicU64,
    downloaded: AtomicU64,
}

/// A copy of [`Costs`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CostCounts {
    /// Puts and listings: the dear class of most providers.
    pub writing_requests: u64,
    /// Gets and heads: the cheap class.
    pub reading_requests: u64,
    /// Deletes, which most give for free.
    pub deleting_requests: u64,
    /// Bytes of payload that were sent, or would have been had the try not failed.
    pub uploaded_bytes: u64,
    /// Bytes of payload that came.
    pub downloaded_bytes: u64,
}

impl Costs {
    /// A try begins, with so many bytes to send.
    pub(crate) fn begin(&self, operation: Operation, upload: u64) {
        let class = match operation {
            Operation::Put | Operation::List => &self.changes,
            Operation::Delete => &self.deletes,
            Operation::Open | Operation::Get | Operation::Head => &self.reads,
        };
        class.fetch_add(1, Ordering::Relaxed);
        self.uploaded.fetch_add(upload, Ordering::Relaxed);
    }

    /// So many bytes came.
    pub(crate) fn came(&self, bytes: u64) {
        self.downloaded.fetch_add(bytes, Ordering::Relaxed);
    }

    /// As of now.
    pub fn counts(&self) -> CostCounts {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CostCounts {
            writing_requests: value(&self.changes),
            reading_requests: value(&self.reads),
            deleting_requests: value(&self.deletes),
            uploaded_bytes: value(&self.uploaded),
            downloaded_bytes: value(&self.downloaded),
        }
    }
}
