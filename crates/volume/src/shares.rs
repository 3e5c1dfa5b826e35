//! Block versions that several blocks refer to: how many do, and what is left when the last one lets go.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use blocks::SealId;
use ids::{BlockIndex, GatewayId, ObjectId, Version};
use seal::BlockIdentity;
use upkeep::BlockVersion;

use crate::VolumeError;
use crate::row::{
    BlockEntry, CHUNK_BLOCKS, GarbageVersion, KeyRow, MAX_SHARES, Origin, Sealed, Share, ShareRow,
};
use crate::volume::Inner;

/// Rows kept decoded at a time.
const PAGES: usize = 64;

/// What has been done to shares in a transaction. [`ShareBook::finish`] turns it into rows.
pub(crate) struct ShareBook<'a> {
    volume: &'a Inner,
    pages: BTreeMap<(ObjectId, u64), Page>,
    /// By the object that it was stored for, and the policy.
    garbage: BTreeMap<(ObjectId, u32), Garbage>,
}

struct Page {
    row: Option<ShareRow>,
    changed: bool,
}

/// What nobody refers to any more, of one file, which may be gone.
struct Garbage {
    key: KeyRow,
    versions: Vec<GarbageVersion>,
}

/// What became of a version that a block does not refer to any more.
#[must_use]
pub(crate) enum Released {
    /// Others refer to it.
    Kept,
    /// It was never shared, or is not any more: the caller puts it into the garbage.
    Own(GarbageVersion),
    /// This was the last one; the book puts it into the garbage.
    Last(Origin),
}

/// The file that a block belongs to.
pub(crate) struct Owner<'a> {
    /// By which the version is stored.
    pub policy: u32,
    pub key: &'a KeyRow,
}

/// Place in a row of shares.
fn place(Origin { block, version, .. }: Origin) -> (u64, Version) {
    (block.0 % CHUNK_BLOCKS, version)
}

impl<'a> ShareBook<'a> {
    pub fn new(volume: &'a Inner) -> ShareBook<'a> {
        ShareBook { volume, pages: BTreeMap::new(), garbage: BTreeMap::new() }
    }

    /// The row of an origin. It is read also when there is none: whoever makes the first share of a version meets everybody
    /// who takes the version for his own.
    async fn page(
        &mut self,
        transaction: &mut dyn meta::Transaction,
        Origin { object, block, .. }: Origin,
    ) -> Result<&mut Page, VolumeError> {
        if self.pages.len() >= PAGES && !self.pages.contains_key(&(object, block.0 / CHUNK_BLOCKS)) {
            self.write(transaction);
        }
        match self.pages.entry((object, block.0 / CHUNK_BLOCKS)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(vacant) => {
                let row = transaction.get(&self.volume.keys.shares(object, block)).await?;
                let row = row.map(|row| ShareRow::decode(&row)).transpose();
                let row = row.map_err(self.volume.damaged("the shared blocks of object", object))?;
                Ok(vacant.insert(Page { row, changed: false }))
            }
        }
    }

    /// Whether others refer to the version of its own that a block has or had.
    pub async fn is_shared(
        &mut self,
        transaction: &mut dyn meta::Transaction,
        origin: Origin,
    ) -> Result<bool, VolumeError> {
        Ok(self.share(transaction, origin).await?.is_some())
    }

    /// What the books say of a version.
    pub async fn share(
        &mut self,
        transaction: &mut dyn meta::Transaction,
        origin: Origin,
    ) -> Result<Option<Share>, VolumeError> {
        let page = self.page(transaction, origin).await?;
        Ok(page.row.as_ref().and_then(|row| row.shares.get(&place(origin)).copied()))
    }

    /// Whether books can be kept of one more version.
    pub async fn has_room(
        &mut self,
        transaction: &mut dyn meta::Transaction,
        origin: Origin,
    ) -> Result<bool, VolumeError> {
        let page = self.page(transaction, origin).await?;
        Ok(page.row.as_ref().is_none_or(|row| row.shares.len() < MAX_SHARES))
    }

    /// Whether there is room for all blocks of a chunk of `object` that are not shared yet.
    pub async fn reserve(
        &mut self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        chunk: u64,
    ) -> Result<(), VolumeError> {
        let block = BlockIndex(chunk * CHUNK_BLOCKS);
        let page = self.page(transaction, Origin { object, block, version: Version::NONE }).await?;
        match &page.row {
            Some(row) if row.shares.len() + CHUNK_BLOCKS as usize > MAX_SHARES => {
                Err(VolumeError::TooManyShares { object })
            }
            _ => Ok(()),
        }
    }

    /// Whether the books know of a version that some block has taken over.
    pub async fn require(
        &mut self,
        transaction: &mut dyn meta::Transaction,
        origin: Origin,
    ) -> Result<(), VolumeError> {
        if self.is_shared(transaction, origin).await? { Ok(()) } else { Err(lost(origin)) }
    }

    /// One more block holds what is stored as `sealed`, which some block holds: that it was stored for, of the file `own`,
    /// or one that has taken it over. After [`ShareBook::reserve`] if it is the former.
    pub async fn take(
        &mut self,
        transaction: &mut dyn meta::Transaction,
        Sealed { origin, creator, seal }: Sealed,
        own: Option<Owner<'_>>,
    ) -> Result<(), VolumeError> {
        let page = self.page(transaction, origin).await?;
        let row = match (&mut page.row, &own) {
            (Some(row), _) => row,
            (none, Some(owner)) => none.insert(ShareRow::new(owner.policy, owner.key.clone())),
            (None, None) => return Err(lost(origin)),
        };
        match row.shares.entry(place(origin)) {
            Entry::Occupied(mut known) => {
                let share = known.get_mut();
                if (share.creator, share.seal, share.own) != (creator, seal, own.is_some() || share.own) {
                    return Err(lost(origin));
                }
                share.clones += 1;
            }
            Entry::Vacant(vacant) => {
                let policy = own.ok_or_else(|| lost(origin))?.policy;
                vacant.insert(Share { creator, seal, own: true, clones: 1, policy });
            }
        }
        page.changed = true;
        Ok(())
    }

    /// `block` of `object` does not hold what `entry` says any more.
    pub async fn release(
        &mut self,
        transaction: &mut dyn meta::Transaction,
        object: ObjectId,
        block: BlockIndex,
        entry: BlockEntry,
    ) -> Result<Released, VolumeError> {
        let Sealed { origin, creator, seal } = entry.sealed(object, block);
        let version = GarbageVersion { block: origin.block, version: origin.version, creator, seal };
        let page = self.page(transaction, origin).await?;
        let share = page.row.as_mut().and_then(|row| row.shares.get_mut(&place(origin)));
        let Some(share) = share else {
            if entry.origin.is_none() {
                return Ok(Released::Own(version));
            }
            // Damage; what is not known to be garbage stays in the clouds.
            tracing::error!(%object, %block, origin = %origin.object, "a shared block is not in the books; run `kurma meta check`");
            return Ok(Released::Kept);
        };
        match entry.origin {
            None => share.own = false,
            Some(_) => share.clones -= 1,
        }
        let Share { own, clones, policy, .. } = *share;
        page.changed = true;
        if clones > 0 {
            return Ok(Released::Kept);
        }
        let Some(row) = &mut page.row else { return Ok(Released::Kept) };
        row.shares.remove(&place(origin));
        if own {
            // The block that it was stored for has it for itself again.
            return Ok(Released::Kept);
        }
        let garbage = Garbage { key: row.key.clone(), versions: Vec::new() };
        self.garbage.entry((origin.object, policy)).or_insert(garbage).versions.push(version);
        Ok(Released::Last(origin))
    }

    /// Keeps books of a version that no block of its own holds, but so many others.
    pub async fn begin(
        &mut self,
        transaction: &mut dyn meta::Transaction,
        origin: Origin,
        creator: GatewayId,
        seal: SealId,
        owner: Owner<'_>,
        clones: u64,
    ) -> Result<(), VolumeError> {
        let page = self.page(transaction, origin).await?;
        let row = page.row.get_or_insert_with(|| ShareRow::new(owner.policy, owner.key.clone()));
        let policy = owner.policy;
        row.shares.insert(place(origin), Share { creator, seal, own: false, clones, policy });
        page.changed = true;
        Ok(())
    }

    /// So many more hold a version of which books are kept.
    pub async fn hold(
        &mut self,
        transaction: &mut dyn meta::Transaction,
        origin: Origin,
        more: u64,
    ) -> Result<(), VolumeError> {
        let page = self.page(transaction, origin).await?;
        let share = page.row.as_mut().and_then(|row| row.shares.get_mut(&place(origin)));
        share.ok_or_else(|| lost(origin))?.clones += more;
        page.changed = true;
        Ok(())
    }

    /// One of those that hold a version lets it go. Whether it was the last: then the version is garbage.
    pub async fn let_go(
        &mut self,
        transaction: &mut dyn meta::Transaction,
        origin: Origin,
    ) -> Result<bool, VolumeError> {
        let page = self.page(transaction, origin).await?;
        let share = page.row.as_mut().and_then(|row| row.shares.get_mut(&place(origin)));
        let Some(share) = share else {
            // Damage; what is not known to be garbage stays in the clouds.
            tracing::error!(pack = %origin.block, of = %origin.object, "a pack is not in the books; run `kurma meta check`");
            return Ok(false);
        };
        share.clones -= 1;
        let Share { creator, seal, clones, policy, .. } = *share;
        page.changed = true;
        let Some(row) = page.row.as_mut().filter(|_| clones == 0) else { return Ok(false) };
        row.shares.remove(&place(origin));
        let garbage = Garbage { key: row.key.clone(), versions: Vec::new() };
        let version = GarbageVersion { block: origin.block, version: origin.version, creator, seal };
        self.garbage.entry((origin.object, policy)).or_insert(garbage).versions.push(version);
        Ok(true)
    }

    /// Writes what has changed.
    pub async fn finish(mut self, transaction: &mut dyn meta::Transaction) -> Result<(), VolumeError> {
        self.write(transaction);
        for ((object, policy), Garbage { key, versions }) in self.garbage {
            self.volume.put_garbage(transaction, object, policy, &key, versions).await?;
        }
        Ok(())
    }

    fn write(&mut self, transaction: &mut dyn meta::Transaction) {
        for ((object, chunk), Page { row, changed }) in std::mem::take(&mut self.pages) {
            let key = self.volume.keys.shares(object, BlockIndex(chunk * CHUNK_BLOCKS));
            match row {
                _ if !changed => {}
                Some(row) if !row.shares.is_empty() => transaction.put(key, row.encode()),
                _ => transaction.delete(key),
            }
        }
    }
}

/// A block refers to something that nobody else knows of.
fn lost(Origin { object, block, version }: Origin) -> VolumeError {
    VolumeError::Missing {
        what: format!("the share of version {version} of block {block} of object {object}"),
    }
}

impl Inner {
    /// A version that is shared.
    pub async fn shared_version(
        &self,
        transaction: &mut dyn meta::Transaction,
        origin: Origin,
    ) -> Result<Option<BlockVersion>, VolumeError> {
        let row = self.share_of(transaction, origin).await?;
        let version =
            row.map(|(row, share)| self.named_version_of_share(&row, origin, &share)).transpose()?;
        version.map(|version| self.with_whole_key(version)).transpose()
    }

    /// What the books say of a version, and the row in which they do.
    pub async fn share_of(
        &self,
        transaction: &mut dyn meta::Transaction,
        origin: Origin,
    ) -> Result<Option<(ShareRow, Share)>, VolumeError> {
        let Some(row) = transaction.get(&self.keys.shares(origin.object, origin.block)).await? else {
            return Ok(None);
        };
        let row =
            ShareRow::decode(&row).map_err(self.damaged("the shared blocks of object", origin.object))?;
        let share = row.shares.get(&place(origin)).copied();
        Ok(share.map(|share| (row, share)))
    }

    /// As [`Inner::named_version`].
    pub fn named_version_of_share(
        &self,
        row: &ShareRow,
        Origin { object, block, version }: Origin,
        &Share { creator, seal, policy, .. }: &Share,
    ) -> Result<BlockVersion, VolumeError> {
        let epoch = self.epochs.of(seal);
        let identity = BlockIdentity { volume: self.id, object, block, version, creator, epoch };
        let key = self.key_or_names(object, &row.key, epoch)?;
        let placement = self.policy(policy)?.placement.clone().into();
        Ok(BlockVersion { identity, key, placement, seal, packed: None })
    }
}
