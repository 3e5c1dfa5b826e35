//! A site is lost with all that was there but the key file, and another one begins with what the clouds have: what `kurma restore` does.

use std::collections::BTreeMap;
use std::time::Duration;

use backup::{BackupError, Chosen, Notes, State, Survey};
use file_system::{FileId, FileSystem};
use volume::Settled;

use super::Site;
use super::backups::{StoredState, is_left_out, keys, places};
use super::machine::Parts;
use crate::life::account::{Moment, Promise};

/// What was restored.
pub struct Restored {
    /// The state of this moment.
    pub instant: Moment,
    /// When that was done; of several, the first.
    done: Moment,
    /// What had been said before the loss.
    pub promise: Promise,
    /// Files that were not whole in the clouds.
    pub lost: BTreeMap<FileId, Settled>,
}

impl Restored {
    /// What this restore and the one before have done to those who have looked after neither: a backup that was made in between has what the
    /// first one left.
    pub fn after(self, before: &Restored) -> Restored {
        if self.instant < before.done {
            return self;
        }
        let Restored { instant, done, promise, ref lost } = *before;
        let lost = lost.iter().map(|(file, settled)| (*file, settled.clone())).chain(self.lost).collect();
        Restored { instant, done, promise, lost }
    }
}

/// Makes a disk out of nothing but the key file and the clouds. `None`: a cloud has given a part that it does not give again, and there is
/// nothing for it but another disk.
pub async fn restore(site: &Site, number: u64) -> Result<Option<Restored>, String> {
    let promise = site.record.promise();
    let parts = Parts::open(site, number);
    let (keys, places) = (keys(&site.key_file), places(&parts.connections, Duration::ZERO));
    let survey = Survey::of(&keys, &places).await;
    let mut problems = Vec::new();
    let chosen = Chosen::newest(&keys, (&survey, &places), None, &mut problems).await;
    problems.extend(survey.problems().into_iter().map(|(place, problem)| format!("{place}: {problem}")));
    site.world.trace().note(format_args!("restore: {problems:?}"), &[]);
    let Some(chosen) = chosen else {
        return Err(format!("nothing can be restored, although a backup was complete: {problems:?}"));
    };
    let instant = site.record.restored((chosen.head.id, chosen.mark.backup))?;
    site.world.trace().note(format_args!("restored: backup {} of event {instant}", chosen.mark.backup), &[]);
    let told = |error: &dyn std::fmt::Display| format!("a restore: {error}");
    let into = (&parts.store as &dyn meta::MetaStore, parts.journal_config.max_record);
    let unsaved = match chosen.load(&keys, &places, into, is_left_out).await {
        Err(BackupError::Gone) => return Ok(None),
        loaded => loaded.map_err(|error| told(&error))?,
    };
    volume::after_load(&parts.store, parts.env.clock.wall()).await.map_err(|error| told(&error))?;
    let state = State::restored(chosen.as_parent(), survey.known());
    StoredState(&parts.store).save(&state).await?;
    let _where_everything_is = parts.drains(site).await;
    let volumes = parts.volumes(site).await;
    let mut lost = BTreeMap::new();
    for unsaved in &unsaved {
        let Some(volume) = volumes.by_id(unsaved.volume) else { continue };
        let file = FileId { volume: FileSystem::volume(&volume), object: unsaved.object };
        let settled = volume.settle(file, &unsaved.ranges).await.map_err(|error| told(&error))?;
        lost.extend(settled.map(|settled| (file, settled)));
    }
    for volume in volumes.list() {
        let findings = volume.check().await.map_err(|error| told(&error))?;
        if !findings.is_empty() {
            return Err(format!("restored metadata contradict themselves: {findings:?}"));
        }
    }
    volumes.close().await.map_err(|error| told(&error))?;
    parts.close().await;
    Ok(Some(Restored { instant, done: site.world.now(), promise, lost }))
}
