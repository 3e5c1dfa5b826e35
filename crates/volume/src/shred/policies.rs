//! By which policies the clouds have something of what is to be shredded: a file that was moved from one to another may have left blocks
//! of the first one there (decision 28), and a key that is destroyed hides only what was sealed under it.

use std::collections::BTreeSet;

use ids::{BlockIndex, ObjectId};
use seal::Suite;

use super::Shredding;
use crate::VolumeError;
use crate::keys::{KeyRange, Keys, ObjectRow};
use crate::row::{AttemptRow, BadRow, GarbageRow};
use crate::shares::ShareBook;
use crate::volume::Inner;

impl Inner {
    /// Whether the key of a file alone opens what is stored of it by this policy, or the keys of the volume, if all of it goes.
    pub(super) fn can_be_shredded(
        &self,
        object: ObjectId,
        policy: u32,
        is_volume: bool,
    ) -> Result<(), VolumeError> {
        let policy = self.policy(policy)?;
        if policy.protection.suite == Suite::IntegrityOnly {
            return Err(VolumeError::NotSealed { object });
        }
        if !is_volume && policy.placement.scheme().is_convergent() {
            return Err(VolumeError::SharedKey { object });
        }
        Ok(())
    }

    /// The policies of blocks of a file that is on its way from one to another, and of what was on its way to the clouds.
    pub(super) async fn policies_of_blocks(&self, object: ObjectId) -> Result<BTreeSet<u32>, VolumeError> {
        let mut found = BTreeSet::new();
        let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
        let mut range = Some(self.keys.attempts_of(object));
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (_, row) in &rows {
                let row = AttemptRow::decode(row);
                let row = row.map_err(self.damaged("the attempts to store blocks of object", object))?;
                found.extend(row.policy);
            }
            range = more;
        }
        if transaction.get(&self.keys.migrating(object)).await?.is_none() {
            return Ok(found);
        }
        let mut book = ShareBook::new(self);
        let mut range: Option<KeyRange> = Some(self.keys.chunks(object, BlockIndex(0)..BlockIndex(u64::MAX)));
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (key, row) in &rows {
                let Some((_, ObjectRow::Chunk(_))) = Keys::object_row(key) else { continue };
                for (_, entry) in self.chunk(object, Some(row))?.iter() {
                    found.extend(entry.policy);
                    if let Some(origin) = entry.origin {
                        found.extend(book.share(&mut *transaction, origin).await?.map(|share| share.policy));
                    }
                }
            }
            range = more;
        }
        Ok(found)
    }

    /// What waits for its deletion is in the clouds, too.
    pub(super) async fn garbage_can_be_shredded(
        &self,
        Shredding { files, ghosts, is_volume, .. }: &Shredding,
    ) -> Result<(), VolumeError> {
        let mut range = Some(self.keys.garbage_until(None));
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (_, row) in &rows {
                let damaged =
                    |cause: BadRow| VolumeError::Damaged { what: "an entry of the garbage".into(), cause };
                let GarbageRow { object, policy, .. } = GarbageRow::decode(row).map_err(damaged)?;
                if files.contains(&object) || ghosts.contains(&object) {
                    self.can_be_shredded(object, policy, *is_volume)?;
                }
            }
            range = more;
        }
        Ok(())
    }
}
