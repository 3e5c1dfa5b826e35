use cloud::{Connection, Direction, ErrorKind, PutMode};
use environment::failpoint;
use seal::{BlockIdentity, FileKey};

use super::BlockStore;
use crate::target::Target;
use crate::{CurrentVersions, FragmentFault, Outcome, Placement, SealId};

/// What became of a fragment that was to change its cloud.
#[derive(Clone, Debug)]
#[must_use]
pub enum Relocated {
    /// It is in its new cloud, and in the old one no more.
    Moved {
        /// Bytes copied; 0 when it was there already.
        bytes: u64,
    },
    /// The old cloud does not have it as it was stored, or cannot be asked: it has to be repaired.
    Lost(FragmentFault),
    /// It is in its new cloud, and stays in the old one as long as it may be put there late ([`Limits::late_puts`](crate::Limits::late_puts)):
    /// it would come back after its deletion. Try again later.
    Late {
        /// Bytes copied; 0 when it was there already.
        bytes: u64,
    },
    /// The new cloud does not take it; try again later.
    Failed(FragmentFault),
}

/// Which fragment changes its cloud, and how.
#[derive(Clone, Copy)]
pub struct Relocation<'a> {
    /// Its number in the block.
    pub fragment: u8,
    /// Where it is; `None` when there is no way to that cloud any more.
    pub from: Option<&'a Connection>,
    /// Where it is to be.
    pub to: &'a Connection,
    /// Whether it may be deleted in the old cloud: only when that is proven to be another store than the new one.
    pub delete: bool,
}

impl BlockStore {
    /// Moves a fragment of a stored block version from one cloud to another: proves it, puts it, and only then deletes it.
    /// A copy that is there already is proved before the other one goes.
    ///
    /// What either cloud gives back changed is reported as its own. `versions` is asked before, and before anything is put.
    pub async fn relocate(
        &self,
        key: &FileKey,
        id: &BlockIdentity,
        seal: SealId,
        placement: &Placement,
        relocation: Relocation<'_>,
        versions: &(impl CurrentVersions + ?Sized),
    ) -> Relocated {
        let Relocation { fragment, from, to, delete } = relocation;
        let target = Target::new(key, id, seal, placement);
        let name = target.name_of(fragment);
        let is_late = delete && from.is_some_and(|from| from.gave_up_within(&name, self.limits.late_puts));
        let _room = self.budget.reserve_for_write(placement.usual_fragment()).await;
        let is_there = match to.head(&name).await {
            Ok(_) => {
                // Most have been moved by an earlier pass; only for what is in both clouds the copy has to be fetched.
                let Some(from) = from.filter(|_| delete) else { return Relocated::Moved { bytes: 0 } };
                if is_late {
                    return Relocated::Late { bytes: 0 };
                }
                if from.head(&name).await.is_err() {
                    return Relocated::Moved { bytes: 0 };
                }
                match target.fetch_bytes(to, fragment).await {
                    Ok(_) => true,
                    Err(FragmentFault::Unreachable(error)) => {
                        return Relocated::Failed(FragmentFault::Unreachable(error));
                    }
                    Err(fault) => {
                        self.report_changed(&target, fragment, to, &fault, versions).await;
                        false
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Relocated::Failed(FragmentFault::Unreachable(error)),
        };
        let Some(from) = from else { return Relocated::Lost(FragmentFault::NoSuchCloud) };
        let mut copied = 0;
        if !is_there {
            if from.health().is_sick(Direction::Read) && !from.health().admits(Direction::Read) {
                return Relocated::Lost(FragmentFault::Sick);
            }
            let bytes = match target.fetch_bytes(from, fragment).await {
                Ok(bytes) => bytes,
                Err(fault) => {
                    self.report_changed(&target, fragment, from, &fault, versions).await;
                    return Relocated::Lost(fault);
                }
            };
            copied = bytes.len() as u64;
            let _writing = self.writing();
            if !versions.is_current(id, seal).await {
                // It may be deleted by now, in both clouds.
                return Relocated::Moved { bytes: 0 };
            }
            if let Err(error) = to.put(&name, vec![bytes], PutMode::Overwrite).await {
                return Relocated::Failed(FragmentFault::Unreachable(error));
            }
            failpoint!("drain.copied");
        }
        if is_late {
            return Relocated::Late { bytes: copied };
        }
        if delete
            && !from.health().is_sick(Direction::Write)
            && let Err(error) = from.delete(&name).await
        {
            // The copy is what counts; whoever drains the old cloud sees that it is not empty.
            tracing::debug!(%error, "a moved fragment is left behind");
        }
        Relocated::Moved { bytes: copied }
    }

    /// Accuses a cloud of a fragment that came back changed. One that is missing is none: clouds that were lost are drained.
    async fn report_changed(
        &self,
        target: &Target<'_>,
        fragment: u8,
        cloud: &Connection,
        what: &FragmentFault,
        versions: &(impl CurrentVersions + ?Sized),
    ) {
        let changed = what.needs_repair() && !matches!(what, FragmentFault::Missing);
        if changed && versions.is_current(target.identity, target.seal).await {
            cloud.report_bad();
            self.accuse(target, fragment, cloud.name().clone(), what, Outcome::FoundByCheck);
        }
    }
}
