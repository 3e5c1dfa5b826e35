//! Whether nobody else goes on with the same identity.

use cloud::{CloudError, ErrorKind, PutMode};
use futures::future::join_all;

use super::{Notes, Writer};
use crate::survey::GAP;
use crate::{BackupError, Claim, Place, Rival, Survey, Who};

/// What a look at one cloud has shown.
enum Looked {
    Alone,
    Rival(Rival),
    Failed(CloudError),
}

impl Writer {
    /// Looks whether somebody else goes on with this branch, or with one that comes from it, and says in all clouds that do not know it yet
    /// that this one does. Returns the clouds that nobody else was seen in.
    ///
    /// What others claim before this begins is seen in every cloud that is returned; and whoever claims later finds all backups there that
    /// were made before. So what is asked for after a backup keeps from deleting what somebody else needs who was restored from an earlier one.
    ///
    /// # Errors
    /// [`BackupError::Rival`]; or the notes cannot be kept.
    pub async fn hold(&mut self, places: &[Place], notes: &dyn Notes) -> Result<Vec<String>, BackupError> {
        let own = match self.claim {
            Some(claim) => claim,
            None => self.new_claim(notes).await?,
        };
        let looked = join_all(places.iter().map(|place| self.look(place, &own))).await;
        let mut held = Vec::new();
        for (place, looked) in places.iter().zip(looked) {
            match looked {
                Looked::Alone => held.push(place.name.clone()),
                Looked::Rival(rival) => return Err(rival.into()),
                Looked::Failed(cause) => {
                    tracing::debug!(cloud = place.name, %cause, "does not say who else goes on");
                }
            }
        }
        if !self.state.known.is_empty() && !held.is_empty() {
            // Whoever this one was restored from may have made a backup before it could see the claim.
            if let Some(rival) = Survey::of(&self.keys, places).await.rival_of(Some(&self.state)) {
                return Err(rival.into());
            }
            self.state.known.clear();
            self.save(notes).await?;
        }
        self.vetted.extend(held.iter().cloned());
        Ok(held)
    }

    async fn new_claim(&mut self, notes: &dyn Notes) -> Result<Claim, BackupError> {
        self.state.starts += 1;
        self.save(notes).await?;
        let claim = Claim {
            gateway: self.keys.gateway(),
            branch: self.state.branch,
            id: self.state.id,
            starts: self.state.starts,
            start: self.state.start(),
            time: self.environment.clock.wall(),
        };
        self.claim = Some(claim);
        Ok(claim)
    }

    async fn look(&self, place: &Place, own: &Claim) -> Looked {
        let branches = own.branch..=own.branch.saturating_add(GAP);
        let asked = branches.map(|branch| async move {
            match place.cloud.get(&self.keys.claim_name(branch), None).await {
                Ok(sealed) => Ok((branch, Some(sealed))),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok((branch, None)),
                Err(error) => Err(error),
            }
        });
        let mut is_claimed = false;
        for found in join_all(asked).await {
            let (branch, sealed) = match found {
                Ok((branch, Some(sealed))) => (branch, sealed),
                Ok((_, None)) => continue,
                Err(error) => return Looked::Failed(error),
            };
            let claim = match self.keys.open_claim(branch, sealed) {
                Ok(claim) => claim,
                Err(error) => {
                    // A cloud that changes claims can as well withhold them.
                    tracing::warn!(cloud = place.name, branch, %error, "a claim that cannot be read");
                    continue;
                }
            };
            let is = match claim.id == own.id {
                false => Some(Who::Successor),
                true if (claim.starts, claim.start) == (own.starts, own.start) => None,
                true => (claim.starts >= own.starts).then_some(Who::Copy),
            };
            if let Some(is) = is {
                let (place, time) = (place.name.clone(), claim.time);
                return Looked::Rival(Rival { place, branch, time, is });
            }
            is_claimed |= claim == *own;
        }
        let signpost = match self.signpost(place).await {
            Ok(signpost) => signpost,
            Err(error) => return Looked::Failed(error),
        };
        if let Some(newer) = signpost.filter(|it| it.branch >= own.branch && it.id != own.id) {
            let (place, branch, time) = (place.name.clone(), newer.branch, newer.time);
            return Looked::Rival(Rival { place, branch, time, is: Who::Successor });
        }
        let is_signed = own.branch < GAP || signpost == Some(*own);
        match self.vet(place).await {
            Looked::Alone if !is_claimed || !is_signed => {}
            looked => return looked,
        }
        if !is_signed {
            let sealed = self.keys.seal_signpost(own, &*self.environment.entropy);
            let put = place.cloud.put(&self.keys.signpost_name(), vec![sealed], PutMode::Overwrite).await;
            if let Err(error) = put {
                return Looked::Failed(error);
            }
        }
        let sealed = self.keys.seal_claim(own, &*self.environment.entropy);
        let put = place.cloud.put(&self.keys.claim_name(own.branch), vec![sealed], PutMode::Overwrite).await;
        put.map_or_else(Looked::Failed, |()| Looked::Alone)
    }

    /// The claim of the newest branch that a cloud knows, if it can be read.
    async fn signpost(&self, place: &Place) -> Result<Option<Claim>, CloudError> {
        match place.cloud.get(&self.keys.signpost_name(), None).await {
            Ok(sealed) => Ok(self.keys.open_signpost(sealed).ok()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Looks at the head of the branch in a cloud that nothing is known of yet.
    async fn vet(&self, place: &Place) -> Looked {
        if self.vetted.contains(&place.name) {
            return Looked::Alone;
        }
        let branch = self.state.branch;
        let sealed = match place.cloud.get(&self.keys.head_name(branch), None).await {
            Ok(sealed) => sealed,
            Err(error) if error.kind() == ErrorKind::NotFound => return Looked::Alone,
            Err(error) => return Looked::Failed(error),
        };
        let Ok(head) = self.keys.open_head(branch, sealed) else { return Looked::Alone };
        let is = match head.id == self.state.id {
            false => Who::Successor,
            true if head.mark().backup >= self.first_backup => Who::Copy,
            true => return Looked::Alone,
        };
        Looked::Rival(Rival { place: place.name.clone(), branch, time: head.mark().time, is })
    }
}
