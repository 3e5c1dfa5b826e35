use tokio::sync::{Semaphore, SemaphorePermit};

/// Payload bytes that may be in memory at a time (D11), counted in KiB. First come, first served; a quarter is kept for reads, which
/// do not stand behind a line of writes.
pub(crate) struct Budget {
    total: u32,
    free: Semaphore,
    of_writes: u32,
    writing: Semaphore,
}

/// Bytes that are taken until it is dropped.
pub(crate) struct Reserved<'a> {
    _writing: Option<SemaphorePermit<'a>>,
    _taken: SemaphorePermit<'a>,
}

impl Budget {
    pub fn new(bytes: u64) -> Budget {
        let total = u32::try_from(bytes >> 10).unwrap_or(u32::MAX >> 4).clamp(1, u32::MAX >> 4);
        let of_writes = (total - total / 4).max(1);
        Budget {
            total,
            free: Semaphore::new(total as usize),
            of_writes,
            writing: Semaphore::new(of_writes as usize),
        }
    }

    /// Waits until `bytes` are free. More than there ever are count as all of them, so that one huge block can
    /// pass alone.
    pub async fn reserve(&self, bytes: u64) -> Reserved<'_> {
        Reserved { _writing: None, _taken: take(&self.free, units(bytes).min(self.total)).await }
    }

    /// As [`Budget::reserve`], for a write: of all bytes that there are for writes.
    pub async fn reserve_for_write(&self, bytes: u64) -> Reserved<'_> {
        let units = units(bytes).min(self.of_writes);
        let writing = Some(take(&self.writing, units).await);
        Reserved { _writing: writing, _taken: take(&self.free, units).await }
    }
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

async fn take(semaphore: &Semaphore, units: u32) -> SemaphorePermit<'_> {
    #[allow(clippy::expect_used)]
    semaphore.acquire_many(units).await.expect("the semaphore is never closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_does_not_fit_waits_and_the_oversized_passes_alone() {
        let budget = Budget::new(10 << 10);
        let first = budget.reserve(8 << 10).await;
        assert!(futures::FutureExt::now_or_never(budget.reserve(3 << 10)).is_none());
        drop(first);
        let huge = budget.reserve(1 << 40).await;
        assert!(futures::FutureExt::now_or_never(budget.reserve(1)).is_none());
        drop(huge);
        drop(budget.reserve(1).await);
    }

    #[tokio::test]
    async fn reads_do_not_stand_behind_writes() {
        let budget = Budget::new(16 << 10);
        let first = budget.reserve_for_write(1 << 40).await;
        let mut second = Box::pin(budget.reserve_for_write(1 << 40));
        assert!(futures::FutureExt::now_or_never(&mut second).is_none());
        drop(budget.reserve(4 << 10).await);
        drop(first);
        drop(second.await);
    }
}
