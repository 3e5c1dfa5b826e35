use bytes::Bytes;
use ids::{BlockIndex, ObjectId};
use meta::Scan;

use crate::VolumeError;
use crate::keys::{Keys, ObjectRow};
use crate::row::{CHUNK_BLOCKS, Special};
use crate::volume::Volume;

/// Rows looked at at a time.
const ROWS: usize = 256;

/// How much of a file the clouds have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredEnd {
    /// The size of the file.
    pub size: u64,
    /// The byte behind the last one that is stored; 0 when nothing is.
    pub end: u64,
    /// Whether its last block could be read; otherwise `end` is the end of that block.
    pub certain: bool,
}

impl Volume {
    /// How far the content goes that is stored of a file, whatever is dirty. Fetches its last stored block, for nothing else tells how
    /// long that is. `None`: there is no such regular file.
    pub async fn stored_end(&self, object: ObjectId) -> Result<Option<StoredEnd>, VolumeError> {
        let inner = &self.inner;
        let mut transaction = inner.node.store.begin(meta::Mode::Optimistic).await?;
        let Some(file) = inner.file_rows(&mut *transaction, object).await? else { return Ok(None) };
        let Special::File { shift, .. } = file.inode.special else { return Ok(None) };
        let size = file.inode.attributes.size;
        let mut start = inner.keys.chunk(object, BlockIndex(0));
        let end = inner.keys.chunk(object, BlockIndex(u64::MAX));
        let end = Bytes::from([&end[..], &[0]].concat());
        let mut last = None;
        loop {
            let rows = transaction.scan(Scan { start: &start, end: &end, guard: None, limit: ROWS }).await?;
            for (key, row) in &rows {
                let Some((_, ObjectRow::Chunk(number))) = Keys::object_row(key) else { continue };
                let chunk = inner.chunk(object, Some(row))?;
                let stored = chunk.iter().filter(|(_, entry)| entry.is_stored());
                let stored = stored.map(|(index, entry)| (BlockIndex(number * CHUNK_BLOCKS + index), entry));
                last = stored.last().or(last);
            }
            match rows.last() {
                Some((key, _)) if rows.len() == ROWS => start = [&key[..], &[0]].concat().into(),
                _ => break,
            }
        }
        let Some((block, entry)) = last else { return Ok(Some(StoredEnd { size, end: 0, certain: true })) };
        let version = inner.stored_version(&mut *transaction, object, block, entry, &file).await?;
        drop(transaction);
        let loaded = version.load(&inner.node.blocks, self).await;
        let (length, certain) = match &loaded {
            Ok(loaded) => (loaded.plaintext.len() as u64, true),
            Err(error) => {
                tracing::warn!(%object, %block, %error, "nobody knows how long the last stored block is");
                (shift.bytes(), false)
            }
        };
        let end = shift.start_of(block).saturating_add(length.min(shift.bytes()));
        Ok(Some(StoredEnd { size, end, certain }))
    }
}
