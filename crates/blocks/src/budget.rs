use tokio::sync::{Semaphore, SemaphorePermit};

/// Payload bytes that may be in memory at a time (D11), counted in KiB. First come, first served.
pub(crate) struct Budget {
    total: u32,
    free: Semaphore,
}

impl Budget {
    pub fn new(bytes: u64) -> Budget {
        let total = u32::try_from(bytes >> 10).unwrap_or(u32::MAX >> 4).clamp(1, u32::MAX >> 4);
        Budget { total, free: Semaphore::new(total as usize) }
    }

    /// Waits until `bytes` are free. More than there ever are count as all of them, so that one huge block can
    /// pass alone.
    pub async fn reserve(&self, bytes: u64) -> SemaphorePermit<'_> {
        let units = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).min(self.total);
        #[allow(clippy::expect_used)]
        self.free.acquire_many(units).await.expect("the semaphore is never closed")
    }
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
}
