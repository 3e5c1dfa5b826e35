use environment::failpoint;
use futures::future::join_all;
use seal::{BlockIdentity, FileKey};

use super::gather::Gathered;
use super::{BlockStore, FragmentState, Repaired, fault};
use crate::target::Target;
use crate::{CurrentVersions, Fault, FragmentFault, LoadError, Outcome, Placement, SealId};

impl BlockStore {
    /// Rebuilds `fragments` of a stored block version from the others and stores them again (`K63`, `K65`).
    ///
    /// May be repeated at will; what is good already is written again as it was. Fails when too few fragments are
    /// good.
    pub async fn repair(
        &self,
        key: &FileKey,
        id: &BlockIdentity,
        seal: SealId,
        placement: &Placement,
        fragments: &[u8],
        versions: &(impl CurrentVersions + ?Sized),
    ) -> Result<Repaired, LoadError> {
        let target = Target::new(key, id, seal, placement);
        let (needed, total) = (placement.scheme().needed(), placement.scheme().total());
        let bytes = placement.usual_fragment() * (needed + fragments.len()) as u64;
        let _room = self.budget.reserve_for_write(bytes).await;
        let Gathered { good, mut faults } = self.gather(&target, fragments).await;
        if good.len() < needed {
            return Err(self.unreadable(&target, good.len(), faults, versions).await);
        }
        // Rebuilding from fragments that do not open would give garbage a valid checksum.
        let only = good.first().filter(|_| good.len() == 1).cloned();
        let (_, mut good) = self.open_consistent(key, &target, good, &mut faults).await?;
        good.extend(only);
        faults.retain(|fault| !fragments.contains(&fault.fragment));
        let Some(bad) = self.report(&target, &faults, Outcome::ServedFromOthers, versions).await else {
            return Err(LoadError::Superseded { block: Box::new(*id) });
        };

        failpoint!("repair.before-put");
        let _writing = self.writing();
        if !versions.is_current(id, seal).await {
            // What is put now might come after its deletion.
            return Err(LoadError::Superseded { block: Box::new(*id) });
        }
        let (target, good) = (&target, &good);
        let existing = fragments.iter().copied().filter(|fragment| usize::from(*fragment) < total);
        let puts = existing.map(|fragment| async move {
            let cloud = self.cloud_of(target, fragment).ok_or(FragmentFault::NoSuchCloud);
            let rebuilt = target.rebuild(good, fragment);
            let stored = match (cloud, rebuilt) {
                (Ok(cloud), Some(rebuilt)) => {
                    target.put(cloud, fragment, &rebuilt).await.map_err(FragmentFault::Unreachable)
                }
                (Err(what), _) => Err(what),
                // Unreachable code by construction: enough fragments of one sealing rebuild every other.
                (Ok(_), None) => Err(FragmentFault::Missing),
            };
            stored.map(|()| fragment).map_err(|what| fault(target, fragment, what))
        });
        let mut done = Repaired { repaired: Vec::new(), failed: Vec::new(), bad };
        for result in join_all(puts).await {
            match result {
                Ok(fragment) => done.repaired.push(fragment),
                Err(fault) => done.failed.push(fault),
            }
        }
        if !done.repaired.is_empty() {
            tracing::info!(block = %id, fragments = ?done.repaired, "repaired");
        }
        Ok(done)
    }

    /// Fetches and proves every fragment of a stored block version; the states by fragment number. What is
    /// missing or bad is also reported as an incident. `None` when the version was superseded meanwhile.
    pub async fn verify(
        &self,
        key: &FileKey,
        id: &BlockIdentity,
        seal: SealId,
        placement: &Placement,
        versions: &(impl CurrentVersions + ?Sized),
    ) -> Option<Vec<FragmentState>> {
        let target = &Target::new(key, id, seal, placement);
        let total = placement.scheme().total() as u64;
        let _room = self.budget.reserve(placement.usual_fragment() * total).await;
        let checks = placement.fragments().map(|fragment| async move {
            match self.cloud_of(target, fragment) {
                Some(cloud) => target.fetch(cloud, fragment).await.map(|found| found.stored_len()),
                None => Err(FragmentFault::NoSuchCloud),
            }
        });
        let mut states = Vec::with_capacity(total as usize);
        let mut faults = Vec::new();
        for (fragment, result) in placement.fragments().zip(join_all(checks).await) {
            states.push(match result {
                Ok(bytes) => FragmentState::Good { bytes },
                Err(what) => {
                    faults.push(fault(target, fragment, what.clone()));
                    FragmentState::Faulty(what)
                }
            });
        }
        self.report(target, &faults, Outcome::FoundByCheck, versions).await?;
        Some(states)
    }

    /// Deletes all fragments of one sealing of a block version. Returns those that could not be deleted, or may be put
    /// late ([`Limits::late_puts`](crate::Limits::late_puts)); try again later.
    pub async fn delete(
        &self,
        key: &FileKey,
        id: &BlockIdentity,
        seal: SealId,
        placement: &Placement,
    ) -> Vec<Fault> {
        let target = &Target::new(key, id, seal, placement);
        let deletions = placement.fragments().map(|fragment| async move {
            let what = match self.cloud_of(target, fragment) {
                Some(cloud) => {
                    let name = target.name_of(fragment);
                    match cloud.since_given_up(&name) < self.limits.late_puts {
                        true => FragmentFault::PutLate,
                        false => FragmentFault::Unreachable(cloud.delete(&name).await.err()?),
                    }
                }
                None => FragmentFault::NoSuchCloud,
            };
            Some(fault(target, fragment, what))
        });
        join_all(deletions).await.into_iter().flatten().collect()
    }
}
