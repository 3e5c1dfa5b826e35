//! Which content is stored, so that equal blocks are stored once (`K32`, decision 23).
//!
//! The rows here say where to look, and nothing else: a version that they name is shared only if some block holds it, which
//! the block map and the books of shares say. So a row that is late, or missing, costs space and never data.

use blocks::SealId;
use ids::ObjectId;
use seal::{BlockIdentity, ContentId};

use crate::VolumeError;
use crate::node::upkeep_transaction;
use crate::row::{
    Content, GarbageRow, GarbageVersion, KeyRow, Origin, Sealed, decode_stored_as, encode_stored_as,
};
use crate::shares::{Owner, ShareBook};
use crate::volume::{Inner, Volume};

/// Versions whose content is forgotten in one transaction.
const VERSIONS: usize = 256;

/// A stored version that some block holds.
pub(crate) struct HeldContent {
    pub sealed: Sealed,
    /// The policy and key of its file, if no books are kept of it yet.
    file: Option<(u32, KeyRow)>,
}

impl HeldContent {
    /// For [`ShareBook::take`].
    pub fn owner(&self) -> Option<Owner<'_>> {
        self.file.as_ref().map(|(policy, key)| Owner { policy: *policy, key })
    }
}

impl Volume {
    /// A version with this content that `object` may share.
    pub async fn find_content(
        &self,
        object: ObjectId,
        content: ContentId,
    ) -> Result<Option<(BlockIdentity, SealId)>, VolumeError> {
        let inner = &self.inner;
        let mut transaction = inner.node.store.begin(meta::Mode::Optimistic).await?;
        let Some(file) = inner.file_rows(&mut *transaction, object).await? else { return Ok(None) };
        let content = Content { policy: file.policy_id, id: content };
        let mut book = ShareBook::new(inner);
        let Some(held) = inner.held_content(&mut *transaction, &mut book, content).await? else {
            return Ok(None);
        };
        let Origin { object, block, version } = held.sealed.origin;
        let (volume, creator, epoch) = (inner.id, held.sealed.creator, inner.epochs.of(held.sealed.seal));
        let identity = BlockIdentity { volume, object, block, version, creator, epoch };
        Ok(Some((identity, held.sealed.seal)))
    }
}

impl Inner {
    /// The version that a content is stored as, if some block holds it and one more may.
    ///
    /// Reads the origin's chunk and books, so that whoever lets go of the version meets this transaction there.
    pub async fn held_content(
        &self,
        transaction: &mut dyn meta::Transaction,
        book: &mut ShareBook<'_>,
        content: Content,
    ) -> Result<Option<HeldContent>, VolumeError> {
        let Some(row) = transaction.get(&self.keys.content(content)).await? else { return Ok(None) };
        let damaged = |cause| VolumeError::Damaged { what: "a content that is stored".into(), cause };
        let sealed = decode_stored_as(&row).map_err(damaged)?;
        self.held_version(transaction, book, sealed, content.policy).await
    }

    /// A version, if some block holds it and one more may, and if it is stored by this policy.
    pub async fn held_version(
        &self,
        transaction: &mut dyn meta::Transaction,
        book: &mut ShareBook<'_>,
        sealed: Sealed,
        policy: u32,
    ) -> Result<Option<HeldContent>, VolumeError> {
        let Origin { object, block, version } = sealed.origin;
        if let Some(share) = book.share(transaction, sealed.origin).await? {
            let is_same = (share.creator, share.seal, share.policy) == (sealed.creator, sealed.seal, policy);
            return Ok(is_same.then_some(HeldContent { sealed, file: None }));
        }
        let entry = self.block_entry(transaction, object, block).await?;
        let held = entry.filter(|entry| {
            entry.is_own(version) && (entry.creator, entry.seal) == (sealed.creator, sealed.seal)
        });
        let Some(entry) = held else { return Ok(None) };
        if !book.has_room(transaction, sealed.origin).await? {
            return Ok(None);
        }
        // Whoever sends the file to another policy touches this row.
        transaction.get(&self.keys.cut(object)).await?;
        // And whoever puts its key under another one, or destroys it, this one.
        let Some(key) = self.key_row(transaction, object).await? else { return Ok(None) };
        // Beside the transaction, so that there is no conflict with those who write to the file.
        let mut beside = self.node.store.begin(meta::Mode::Optimistic).await?;
        let file = self.file_rows(&mut *beside, object).await?;
        let file = file.filter(|file| file.policy_of(entry) == policy);
        Ok(file.map(|_| HeldContent { sealed, file: Some((policy, key)) }))
    }

    /// Later blocks with this content may share `sealed`.
    pub fn put_content(&self, transaction: &mut dyn meta::Transaction, content: Content, sealed: Sealed) {
        transaction.put(self.keys.content(content), encode_stored_as(sealed));
        transaction.put(self.keys.content_of(sealed.origin), content.encode());
    }

    /// Forgets what the versions of a row of garbage hold.
    pub async fn forget_contents(
        &self,
        GarbageRow { object, policy, versions, .. }: GarbageRow,
    ) -> Result<(), VolumeError> {
        if !self.policy(policy)?.placement.scheme().is_convergent() {
            return Ok(());
        }
        for part in versions.chunks(VERSIONS) {
            let forgotten: Result<(), VolumeError> = upkeep_transaction!(self.node, |transaction| {
                for &GarbageVersion { block, version, creator, seal } in part {
                    let origin = Origin { object, block, version };
                    self.forget_content(transaction, Sealed { origin, creator, seal }).await?;
                }
                Ok(())
            });
            forgotten?;
        }
        Ok(())
    }

    async fn forget_content(
        &self,
        transaction: &mut dyn meta::Transaction,
        garbage: Sealed,
    ) -> Result<(), VolumeError> {
        let origin = garbage.origin;
        let of = self.keys.content_of(origin);
        let Some(row) = transaction.get(&of).await? else { return Ok(()) };
        let content = Content::decode(&row).map_err(self.damaged("the content of object", origin.object))?;
        let stored_as = self.keys.content(content);
        // Another version with this content may have come into its place.
        let named = transaction.get(&stored_as).await?.and_then(|row| decode_stored_as(&row).ok());
        match named {
            Some(sealed) if sealed == garbage => transaction.delete(stored_as),
            // The garbage is of an attempt of a process that died; the next one has used the number again, and this is about that.
            Some(sealed) if sealed.origin == origin => return Ok(()),
            _ => {}
        }
        transaction.delete(of);
        Ok(())
    }
}
