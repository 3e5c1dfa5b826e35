use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use journal::{Lsn, Priority};

use crate::engine::View;
use crate::{MAX_KEY, MetaError, MetaStore, Mode, Snapshot};

/// A view of the engine and how far it goes.
pub(crate) struct LocalSnapshot {
    pub view: Arc<dyn View>,
    pub lsn: Lsn,
}

#[async_trait]
impl Snapshot for LocalSnapshot {
    fn lsn(&self) -> Lsn {
        self.lsn
    }

    async fn rows(
        &mut self,
        start: &[u8],
        end: &[u8],
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, MetaError> {
        let mut rows = Vec::new();
        if limit > 0 {
            self.view.scan(start, end, &mut |key, value| {
                rows.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
                rows.len() < limit
            })?;
        }
        Ok(rows)
    }
}

/// Rows that [`copy_rows`] puts into one transaction.
const ROWS_AT_ONCE: usize = 512;

/// Copies all rows of one store into another, empty one: the way from one engine to another. Returns their number. Not one
/// transaction: a copy that was interrupted is started again with an empty store.
pub async fn copy_rows(from: &dyn MetaStore, to: &dyn MetaStore) -> Result<u64, MetaError> {
    let mut snapshot = from.snapshot().await?;
    let mut start = Bytes::new();
    let end = [u8::MAX; MAX_KEY + 1];
    let mut copied = 0;
    loop {
        let rows = snapshot.rows(&start, &end, ROWS_AT_ONCE).await?;
        let Some((last, _)) = rows.last() else { return Ok(copied) };
        start = [last, &[0][..]].concat().into();
        copied += rows.len() as u64;
        let mut transaction = to.begin(Mode::Optimistic).await?;
        for (key, value) in rows {
            transaction.put(key, value);
        }
        transaction.commit(Priority::Client).await?.durable().await?;
    }
}
