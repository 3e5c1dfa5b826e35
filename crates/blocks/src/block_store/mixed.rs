use disperse::VerifiedFragment;
use futures::future::join_all;
use seal::{BlockIdentity, FileKey, OpenError, OpenedBlock, SealedBlock};

use super::{BlockStore, fault};
use crate::target::Target;
use crate::{Fault, FragmentFault, LoadError};

/// Sets of fragments that are tried; enough for every set of 10 out of 12 and of all smaller common schemes.
const MOST_TRIES: usize = 66;

impl BlockStore {
    /// Opens the block that `good` fragments make, as many as are needed. Should they be of several sealings of the
    /// same content, gets the other fragments too and looks for a set that opens; those that do not belong to it
    /// become faults. Also returns the fragments that were used, unless one alone makes the block (a second
    /// reference to it would cost a copy).
    pub(super) async fn open_consistent(
        &self,
        key: &FileKey,
        target: &Target<'_>,
        good: Vec<VerifiedFragment>,
        faults: &mut Vec<Fault>,
    ) -> Result<(OpenedBlock, Vec<VerifiedFragment>), LoadError> {
        let kept = if good.len() > 1 { good.clone() } else { Vec::new() };
        match open(key, target.identity, good) {
            Ok(block) => Ok((block, kept)),
            Err(_) if kept.len() > 1 => self.open_mixed(key, target, kept, faults).await,
            Err(cause) => Err(LoadError::NotOpened { block: Box::new(*target.identity), cause }),
        }
    }

    async fn open_mixed(
        &self,
        key: &FileKey,
        target: &Target<'_>,
        mut have: Vec<VerifiedFragment>,
        faults: &mut Vec<Fault>,
    ) -> Result<(OpenedBlock, Vec<VerifiedFragment>), LoadError> {
        let known = |fragment: &u8| {
            have.iter().any(|good| good.index() == *fragment)
                || faults.iter().any(|fault| fault.fragment == *fragment)
        };
        let rest: Vec<u8> = target.placement.fragments().filter(|fragment| !known(fragment)).collect();
        let fetches = rest.into_iter().map(|fragment| async move {
            match self.cloud_of(target, fragment) {
                Some(cloud) => {
                    target.fetch(cloud, fragment).await.map_err(|what| fault(target, fragment, what))
                }
                None => Err(fault(target, fragment, FragmentFault::NoSuchCloud)),
            }
        });
        for result in join_all(fetches).await {
            match result {
                Ok(good) => have.push(good),
                Err(fault) => faults.push(fault),
            }
        }
        let mut cause = OpenError::Forged;
        for set in sets(have.len(), target.placement.scheme().needed()).take(MOST_TRIES) {
            let chosen: Vec<VerifiedFragment> = set.iter().map(|at| have[*at].clone()).collect();
            match open(key, target.identity, chosen.clone()) {
                Ok(block) => {
                    let strange = have.iter().filter(|other| !target.fits(&chosen, other));
                    faults.extend(
                        strange.map(|other| fault(target, other.index(), FragmentFault::OtherSealing)),
                    );
                    return Ok((block, chosen));
                }
                Err(error) => cause = error,
            }
        }
        Err(LoadError::NotOpened { block: Box::new(*target.identity), cause })
    }
}

/// Joins and opens.
fn open(
    key: &FileKey,
    id: &BlockIdentity,
    fragments: Vec<VerifiedFragment>,
) -> Result<OpenedBlock, OpenError> {
    let mixed = OpenError::Malformed { what: "fragments of several sealings" };
    let is_convergent = fragments.first().is_some_and(|fragment| fragment.scheme().is_convergent());
    let sealed = SealedBlock::from_untrusted(disperse::join(fragments).map_err(|_| mixed)?);
    if is_convergent && sealed.is_convergent() {
        // Its place is proven by the fragments, whose checksums are over identity and seal id.
        return seal::open_convergent(key.content_key(), sealed);
    }
    seal::open(key, id, sealed)
}

/// All sets of `size` numbers below `total`, each sorted, in lexicographic order.
fn sets(total: usize, size: usize) -> impl Iterator<Item = Vec<usize>> {
    let first: Option<Vec<usize>> = (size <= total).then(|| (0..size).collect());
    std::iter::successors(first, move |last| {
        let at = (0..size).rev().find(|at| last[*at] < total - size + at)?;
        let mut next = last.clone();
        next[at] += 1;
        for later in at + 1..size {
            next[later] = next[later - 1] + 1;
        }
        Some(next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_comes_once() {
        let all: Vec<_> = sets(4, 2).collect();
        assert_eq!(all, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]);
        assert_eq!(sets(12, 10).count(), MOST_TRIES);
        assert_eq!((sets(3, 3).count(), sets(2, 3).count()), (1, 0));
    }
}
