use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use seal::ContentId;
use tokio::sync::OwnedMutexGuard;

/// What is being stored, by content: of blocks with the same, one is stored at a time, and the others share it then.
#[derive(Default)]
pub(super) struct Contents {
    under_way: Mutex<HashMap<ContentId, Weak<tokio::sync::Mutex<()>>>>,
}

/// Held while nobody else looks for this content, or stores it.
pub(super) type Storing = OwnedMutexGuard<()>;

impl Contents {
    /// Waits for those who store the same.
    pub async fn begin(&self, content: ContentId) -> Storing {
        let turn = {
            let mut under_way = self.under_way.lock();
            match under_way.get(&content).and_then(Weak::upgrade) {
                Some(turn) => turn,
                None => {
                    // As many as there are blocks in flight.
                    under_way.retain(|_, turn| turn.strong_count() > 0);
                    let turn = Arc::default();
                    under_way.insert(content, Arc::downgrade(&turn));
                    turn
                }
            }
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn equal_content_waits_and_other_content_does_not() {
        let contents = Contents::default();
        let id = |byte| ContentId::from_bytes([byte; ContentId::LEN]);
        let first = contents.begin(id(1)).await;
        drop(contents.begin(id(2)).await);
        assert!(contents.begin(id(1)).now_or_never().is_none());
        drop(first);
        drop(contents.begin(id(1)).await);
        assert_eq!(contents.under_way.lock().len(), 1, "what is over is forgotten");
    }
}
