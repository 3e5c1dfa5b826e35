use futures::future::join_all;
use futures::stream::{StreamExt, iter};

use super::{Notes, Numbers, PARALLEL, Writer};
use crate::survey::GAP;
use crate::{BackupError, Place};

impl Writer {
    /// To be called when the newest backup is safe: what no head names any more is deleted, from the clouds that have that
    /// backup; from the others later. So are objects that may still be put late, and everything in clouds where an older head may be: it would
    /// name what is gone.
    pub async fn collect(
        &mut self,
        (places, all): (&[Place], &[String]),
        notes: &dyn Notes,
    ) -> Result<(), BackupError> {
        let Some(head) = &self.head else { return Ok(()) };
        let (start, first) = (self.state.start(), head.objects.first().map_or(0, |object| object.number));
        let backup = head.mark().backup;
        let mut gone = Vec::new();
        for numbers in &mut self.state.numbers {
            let to = if numbers.start == start { first } else { numbers.to };
            if numbers.from < to {
                gone.push(Numbers { to, ..*numbers });
                numbers.from = to;
            }
        }
        self.state.numbers.retain(|numbers| numbers.start == start || !numbers.is_empty());
        if !gone.is_empty() {
            gone.into_iter().for_each(|numbers| self.retire(numbers, all));
            self.save(notes).await?;
        }
        // Numbers that are retired one by one lie inside of others that are retired later: deleting twice is harmless. And this may be dropped
        // anywhere, so what is retired stays so meanwhile.
        let mut retired = self.state.retired.clone();
        for place in places {
            let stand = self.stands.get(&place.name);
            if !stand.is_some_and(|stand| stand.backup == Some(backup) && !stand.unsure) {
                continue;
            }
            for retired in retired.iter_mut().filter(|retired| retired.places.contains(&place.name)) {
                let Numbers { start, from, to } = retired.numbers;
                let names = (from..to).map(|number| self.keys.object_name(&self.state.id, start, number));
                let names: Vec<_> = names.collect();
                if names.iter().any(|name| place.may_come_late(name)) {
                    continue;
                }
                let deletions =
                    names.iter().map(|name| async move { place.cloud.delete(name).await.is_ok() });
                let deletions = iter(deletions.collect::<Vec<_>>()).buffer_unordered(PARALLEL);
                if deletions.fold(true, |all, done| async move { all && done }).await {
                    retired.places.retain(|name| *name != place.name);
                }
            }
        }
        retired.retain(|retired| !retired.places.is_empty());
        if retired != self.state.retired {
            self.state.retired = retired;
            self.save(notes).await?;
        }
        Ok(())
    }

    /// Takes all that it has made out of a cloud that is not to have backups any more; true when nothing is left there. Nothing
    /// of it may be needed.
    pub async fn leave(&mut self, place: &Place) -> bool {
        let mut names = self.own_names();
        let retired = self.state.retired.iter().map(|retired| retired.numbers);
        for Numbers { start, from, to } in self.state.numbers.iter().copied().chain(retired) {
            names.extend((from..to).map(|number| self.keys.object_name(&self.state.id, start, number)));
        }
        self.stands.remove(&place.name);
        // The head first: without its objects it would be a lie.
        for part in names.chunks(PARALLEL) {
            let deleted = join_all(part.iter().map(|name| place.cloud.delete(name))).await;
            if deleted.iter().any(Result::is_err) {
                return false;
            }
        }
        true
    }

    /// Its head and its claim, and the signpost to them.
    fn own_names(&self) -> Vec<cloud::ObjectName> {
        let branch = self.state.branch;
        let mut names = vec![self.keys.head_name(branch), self.keys.claim_name(branch)];
        names.extend((branch >= GAP).then(|| self.keys.signpost_name()));
        names
    }

    /// Names of all objects that it has made and not deleted, of its head, and of its claim.
    pub fn names(&self) -> Vec<cloud::ObjectName> {
        let mut names = self.own_names();
        let retired = self.state.retired.iter().map(|retired| retired.numbers);
        for Numbers { start, from, to } in self.state.numbers.iter().copied().chain(retired) {
            names.extend((from..to).map(|number| self.keys.object_name(&self.state.id, start, number)));
        }
        names
    }
}
