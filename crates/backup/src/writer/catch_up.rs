use cloud::PutMode;

use super::{Stand, Writer};
use crate::survey::proved;
use crate::{BackupError, Head, Place};

/// Objects that a cloud which was down is given at a time.
const CAUGHT_UP: usize = 64;

impl Writer {
    /// Gives clouds that lack something of the chain a part of it, from whichever has that, and the head again to those where an older one may
    /// have come late, or where it is gone: it is known here. Returns whether there is more to do that can be done.
    pub async fn catch_up(&mut self, places: &[Place]) -> bool {
        let Some(head) = self.head.clone() else { return false };
        let current = |stand: &Stand| stand.backup == Some(head.mark().backup);
        // What is not right there is not taken; so who has all of it is only asked first.
        let (whole, others): (Vec<Place>, Vec<Place>) =
            places.iter().cloned().partition(|place| self.stands.get(&place.name).is_some_and(current));
        let sources: Vec<Place> = whole.into_iter().chain(others).collect();
        let head_name = self.keys.head_name(head.branch);
        let mut more = false;
        for place in places {
            let Some(mut stand) = self.stands.get(&place.name).copied() else { continue };
            let has_it = current(&stand) && (!stand.unsure || place.may_come_late(&head_name));
            if has_it || !self.vetted.contains(&place.name) {
                continue;
            }
            let done = self.bring(&head, place, &mut stand, &sources).await;
            if let Err(cause) = &done {
                tracing::debug!(cloud = place.name, %cause, "does not take the backup yet");
            }
            more |= done.is_ok() && !current(&stand);
            self.stands.insert(place.name.clone(), stand);
        }
        more
    }

    async fn bring(
        &self,
        head: &Head,
        place: &Place,
        stand: &mut Stand,
        sources: &[Place],
    ) -> Result<(), BackupError> {
        let refused = |cause: cloud::CloudError| BackupError::NoCloud(cause.to_string());
        for at in (stand.objects..head.objects.len()).take(CAUGHT_UP) {
            let found = proved(&self.keys, head, at, sources).await;
            let sealed = found.map_err(|_| BackupError::Damaged("an object of the present chain"))?;
            let entry = &head.objects[at];
            let name = self.keys.object_name(&head.id, entry.start, entry.number);
            place.cloud.put(&name, vec![sealed], PutMode::Overwrite).await.map_err(refused)?;
            stand.objects = at + 1;
        }
        if stand.objects == head.objects.len() {
            let sealed = self.keys.seal_head(head, &*self.environment.entropy);
            let name = self.keys.head_name(head.branch);
            let unsure = place.may_come_late(&name);
            place.cloud.put(&name, vec![sealed], PutMode::Overwrite).await.map_err(refused)?;
            (stand.backup, stand.unsure) = (Some(head.mark().backup), unsure);
        }
        Ok(())
    }
}
