use bytes::Bytes;
use disperse::Scheme;
use seal::{BlockIdentity, FileKey, SealOptions, SealedBlock, Suite, sealed_len};

use super::BlockStore;
use crate::target::Target;
use crate::{Placement, Protection, Redundancy, SealId, StoreError, Stored};

impl BlockStore {
    /// Seals the concatenation of `plaintext` as block version `id` and stores its fragments, in parallel.
    ///
    /// `id` and `seal` together must never have been stored with another content; see the crate's front page.
    /// Dropping the future cancels the requests.
    pub async fn store(
        &self,
        key: &FileKey,
        id: &BlockIdentity,
        seal: SealId,
        placement: &Placement,
        plaintext: &[Bytes],
        protection: Protection,
    ) -> Result<Stored, StoreError> {
        let target = Target::new(key, id, seal, placement);
        self.disperse(key, &target, plaintext, protection, Redundancy::Enough).await
    }

    /// Stores a block version as [`BlockStore::store`] does, but with all its fragments or not at all.
    pub async fn store_whole(
        &self,
        key: &FileKey,
        id: &BlockIdentity,
        seal: SealId,
        placement: &Placement,
        plaintext: &[Bytes],
        protection: Protection,
    ) -> Result<Stored, StoreError> {
        let target = Target::new(key, id, seal, placement);
        self.disperse(key, &target, plaintext, protection, Redundancy::Whole).await
    }

    pub(super) async fn disperse(
        &self,
        key: &FileKey,
        target: &Target<'_>,
        plaintext: &[Bytes],
        protection: Protection,
        redundancy: Redundancy,
    ) -> Result<Stored, StoreError> {
        let (id, placement) = (target.identity, target.placement);
        let length = checked_length(placement, plaintext, protection)?;
        if let Some(cloud) = placement.clouds().iter().find(|cloud| !self.clouds.contains_key(cloud)) {
            return Err(StoreError::NoSuchCloud { cloud: *cloud });
        }
        let _writing = self.writing();
        let scheme = placement.scheme();
        let sealed_len = sealed_len(length, protection.padding) as u64;
        let _room =
            self.budget.reserve_for_write(sealed_len * scheme.total() as u64 / scheme.needed() as u64).await;

        let sealed = self.seal(key, id, scheme, plaintext, protection).into_bytes();
        let fragments = target.split(&sealed, &*self.env.entropy);

        let (stored, faults) = self.put_all(target, &fragments, redundancy).await;
        let needed = self.least(scheme, redundancy);
        if stored.len() < needed {
            let (block, stored) = (Box::new(*id), stored.len());
            return Err(StoreError::TooFewStored { block, stored, needed, faults });
        }
        let missing: Vec<u8> = placement.fragments().filter(|fragment| !stored.contains(fragment)).collect();
        if !missing.is_empty() {
            tracing::warn!(block = %id, ?missing, ?faults, "degraded write");
        }
        let bytes = stored.iter().map(|fragment| fragments[usize::from(*fragment)].len() as u64).sum();
        Ok(Stored { missing, bytes })
    }

    /// Seals block version `id` as [`BlockStore::store`] does, to be put into a pack.
    pub fn seal_for_pack(
        &self,
        key: &FileKey,
        id: &BlockIdentity,
        placement: &Placement,
        plaintext: &[Bytes],
        protection: Protection,
    ) -> Result<SealedBlock, StoreError> {
        checked_length(placement, plaintext, protection)?;
        Ok(self.seal(key, id, placement.scheme(), plaintext, protection))
    }

    /// Under a random nonce and bound to its place, unless the scheme wants equal content to be sealed equally.
    fn seal(
        &self,
        key: &FileKey,
        id: &BlockIdentity,
        scheme: Scheme,
        plaintext: &[Bytes],
        Protection { suite, padding }: Protection,
    ) -> SealedBlock {
        let suite = match suite {
            Suite::IntegrityOnly => suite,
            Suite::Aes256Gcm | Suite::Convergent if scheme.is_convergent() => {
                return seal::seal_convergent(key.content_key(), plaintext, padding);
            }
            Suite::Aes256Gcm | Suite::Convergent => Suite::Aes256Gcm,
        };
        let options = SealOptions { suite, padding, time: self.env.clock.wall() };
        seal::seal(key, id, plaintext, &options, &*self.env.entropy)
    }

    /// Fragments without which a write has failed.
    pub(super) fn least(&self, scheme: Scheme, redundancy: Redundancy) -> usize {
        match redundancy {
            Redundancy::Enough => (scheme.needed() + self.limits.least_spare).min(scheme.total()),
            Redundancy::Whole => scheme.total(),
        }
    }
}

/// The length of the plaintext, if a block of this placement can have it.
fn checked_length(
    placement: &Placement,
    plaintext: &[Bytes],
    protection: Protection,
) -> Result<usize, StoreError> {
    let length: usize = plaintext.iter().map(Bytes::len).sum();
    let (padded, limit) = (protection.padding.padded_len(length) as u64, placement.longest_padded());
    match padded > limit || length as u64 > placement.block_shift().bytes() {
        true => Err(StoreError::TooLong { padded, limit }),
        false => Ok(length),
    }
}
