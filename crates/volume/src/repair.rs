//! Fragments that are missing or bad and have to be stored anew (`K63`, `K65`).

use bytes::Bytes;
use ids::{BlockIndex, ObjectId, Version};
use meta::Scan;
use upkeep::{RepairRow, Repaired};

use crate::VolumeError;
use crate::garbage::behind;
use crate::keys::Keys;
use crate::node::upkeep_transaction;
use crate::row::{BadRow, Origin, RowReader, RowWriter};
use crate::volume::Volume;

const FORMAT: u8 = 1;

/// No scheme has more than 32 fragments.
pub(crate) fn fragment_mask(fragments: &[u8]) -> u32 {
    fragments.iter().fold(0, |mask, fragment| mask | 1_u32.checked_shl(u32::from(*fragment)).unwrap_or(0))
}

pub(crate) fn fragments_of(mask: u32) -> Vec<u8> {
    (0..32).filter(|fragment| mask & (1 << fragment) != 0).collect()
}

pub(crate) fn repair_row(mask: u32) -> Bytes {
    let mut row = RowWriter::new(FORMAT);
    row.number(u64::from(mask));
    row.finish()
}

pub(crate) fn decode_repair(row: &[u8]) -> Result<u32, BadRow> {
    let mut reader = RowReader::new(row, FORMAT)?;
    let mask = reader.number32()?;
    reader.end()?;
    Ok(mask)
}

impl Volume {
    /// Queues fragments of a block version that were found missing or bad, unless no block holds it any more.
    pub async fn queue_repair(
        &self,
        object: ObjectId,
        block: BlockIndex,
        version: Version,
        fragments: &[u8],
    ) -> Result<(), VolumeError> {
        let inner = &self.inner;
        let key = inner.keys.repair(object, block, version);
        let queued: Result<bool, VolumeError> = upkeep_transaction!(inner.node, |transaction| {
            if inner.held_sealing(transaction, Origin { object, block, version }).await?.is_none() {
                return Ok(false);
            }
            let known = match transaction.get(&key).await? {
                Some(row) => decode_repair(&row).map_err(inner.damaged("a repair of object", object))?,
                None => 0,
            };
            let mask = known | fragment_mask(fragments);
            if mask != known {
                transaction.put(key.clone(), repair_row(mask));
            }
            Ok(mask != known)
        });
        if queued? {
            inner.repair_queued.notify_one();
        }
        Ok(())
    }

    /// Up to `limit` rows of the repair queue behind the row `after`.
    pub async fn repairs(&self, after: Option<&Bytes>, limit: usize) -> Result<Vec<RepairRow>, VolumeError> {
        let inner = &self.inner;
        let (start, end) = inner.keys.repairs();
        let start = start.max(behind(after));
        upkeep_transaction!(inner.node, |transaction| {
            let mut repairs = Vec::new();
            for (row, value) in
                transaction.scan(Scan { start: &start, end: &end, guard: None, limit }).await?
            {
                let damaged =
                    |cause| VolumeError::Damaged { what: "an entry of the repair queue".into(), cause };
                let (object, block, version) =
                    Keys::repair_of(&row).ok_or_else(|| damaged(BadRow("a key of the wrong length")))?;
                let fragments = fragments_of(decode_repair(&value).map_err(damaged)?);
                let version = match inner.locate_in(transaction, object, block, version).await {
                    Err(VolumeError::Shredded { .. }) => None,
                    version => version?,
                };
                repairs.push(RepairRow { row, version, fragments });
            }
            Ok(repairs)
        })
    }

    /// Records of each row which of the fragments that it had, `before`, are `left` to be repaired. Others that were queued meanwhile stay;
    /// with none the row goes.
    pub async fn repaired(&self, rows: &[Repaired]) -> Result<(), VolumeError> {
        upkeep_transaction!(self.inner.node, |transaction| {
            for Repaired { row, before, left } in rows {
                // A row that went meanwhile stays gone: the version is no longer current.
                let Some(known) = transaction.get(row).await? else { continue };
                let damaged =
                    |cause| VolumeError::Damaged { what: "an entry of the repair queue".into(), cause };
                let known = decode_repair(&known).map_err(damaged)?;
                match known & !fragment_mask(before) | fragment_mask(left) {
                    0 => transaction.delete(row.clone()),
                    left => transaction.put(row.clone(), repair_row(left)),
                }
            }
            Ok(())
        })
    }

    /// Entries in the repair queue, up to `limit`.
    pub async fn repair_count(&self, limit: usize) -> Result<usize, VolumeError> {
        let (start, end) = self.inner.keys.repairs();
        let mut transaction = self.inner.node.store.begin(meta::Mode::Optimistic).await?;
        Ok(transaction.scan(Scan { start: &start, end: &end, guard: None, limit }).await?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_hold_every_fragment_a_scheme_can_have() {
        let all: Vec<u8> = (0..32).collect();
        assert_eq!(fragments_of(fragment_mask(&all)), all);
        assert_eq!(fragment_mask(&[40]), 0);
        assert_eq!(decode_repair(&repair_row(5)), Ok(5));
    }
}
