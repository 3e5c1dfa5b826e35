use bytes::Bytes;
use ids::{BlockIndex, ObjectId};
use meta::Scan;
use upkeep::BlockVersion;

use crate::VolumeError;
use crate::keys::{Keys, ObjectRow};
use crate::row::{CHUNK_BLOCKS, Chunk};
use crate::volume::Volume;

/// Rows looked at in one transaction.
const ROWS: usize = 1024;

impl Volume {
    /// Up to `limit` current block versions behind `after`, in the order of objects and blocks. Empty at the end.
    pub async fn stored_blocks(
        &self,
        after: Option<(ObjectId, BlockIndex)>,
        limit: usize,
    ) -> Result<Vec<BlockVersion>, VolumeError> {
        let inner = &self.inner;
        let (mut start, end) = inner.keys.objects();
        if let Some((object, block)) = after {
            start = inner.keys.chunk(object, block);
        }
        let is_behind = |object, block| after.is_none_or(|after| (object, block) > after);
        let mut found = Vec::new();
        loop {
            let mut transaction = inner.node.store.begin(meta::Mode::Optimistic).await?;
            let rows = transaction.scan(Scan { start: &start, end: &end, guard: None, limit: ROWS }).await?;
            for (key, row) in &rows {
                let Some((object, ObjectRow::Chunk(number))) = Keys::object_row(key) else { continue };
                let chunk = Chunk::decode(row).map_err(inner.damaged("the block map of object", object))?;
                let blocks = chunk.iter().filter(|(_, entry)| entry.is_stored());
                let blocks = blocks.map(|(index, entry)| (BlockIndex(number * CHUNK_BLOCKS + index), entry));
                let mut blocks = blocks.filter(|(block, _)| is_behind(object, *block)).peekable();
                if blocks.peek().is_none() {
                    continue;
                }
                let Some(file) = inner.file_rows(&mut *transaction, object).await? else { continue };
                for (block, entry) in blocks {
                    found.push(inner.block_version(object, block, entry, &file)?);
                    if found.len() >= limit {
                        return Ok(found);
                    }
                }
            }
            match rows.last() {
                Some((last, _)) if rows.len() == ROWS => start = Bytes::from([&last[..], &[0]].concat()),
                _ => return Ok(found),
            }
        }
    }
}
