//! Data that was dirty at the instant of the backup, and so is gone: the files are brought into a state that they can be in,
//! and named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use backup::Unsaved;
use cache::Cache;
use environment::Environment;
use file_system::{Authority, Caller, CommitMode, FileId, FileSystem, FsError, Mode, SetAttributes};
use meta::LocalStore;
use seal::KeyFile;
use serde::Serialize;
use volume::{StoredEnd, Volume, Volumes, VolumesOptions};

use super::wrong;
use crate::clouds::Clouds;
use crate::data_folder::DataFolder;
use crate::keys::keys_in_force;
use crate::paths::look_through;
use crate::{Config, StartError};

/// Tries of a change against others; there are none.
const TRIES: usize = 4;

/// A file with data that was nowhere but on the lost machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostData {
    /// The volume first; the object for a file without a name.
    pub path: String,
    /// Its size at the instant of the backup.
    pub size_was: u64,
    /// Its size now: what had been appended and not stored is cut off.
    pub size: u64,
    /// Whether the size now is certain to be that of what was stored.
    pub certain: bool,
    /// The ranges that were lost. Inside of the file they read as what had been stored before.
    pub ranges: Vec<(u64, u64)>,
}

/// Brings files with unsaved data into order; the number of all objects, the files, and what a check of the metadata found.
pub(super) async fn settle(
    config: &Config,
    environment: &Environment,
    folder: &DataFolder,
    key: &KeyFile,
    (store, cache, clouds): (&LocalStore, &Cache, &Clouds),
    unsaved: &[Unsaved],
) -> Result<(u64, Vec<LostData>, Vec<String>), StartError> {
    let limits = blocks::IncidentLogLimits::default();
    let incidents =
        blocks::IncidentLog::open(&environment.disk, &folder.join("tamper.log"), limits).map_err(wrong)?;
    let blocks =
        blocks::BlockStore::new(environment, clouds.numbered(), incidents, blocks::Limits::default());
    let volumes = Volumes::open(VolumesOptions {
        environment: environment.clone(),
        keys: Arc::new(keys_in_force(key, store).await?),
        store: Arc::new(store.clone()),
        cache: cache.clone(),
        blocks: Arc::new(blocks),
        gc_delay: config.upkeep.gc_delay.as_duration(),
        capacity: 0,
    })
    .await
    .map_err(wrong)?;
    let (mut objects, mut lost, mut findings) = (0, Vec::new(), Vec::new());
    for volume in volumes.list() {
        let id = FileSystem::volume(&volume);
        let of_volume: Vec<&Unsaved> = unsaved.iter().filter(|unsaved| unsaved.volume == id).collect();
        let mut wanted: BTreeSet<FileId> =
            of_volume.iter().map(|unsaved| FileId { volume: id, object: unsaved.object }).collect();
        let (mut paths, mut left) = (BTreeMap::new(), usize::MAX);
        if !wanted.is_empty() {
            look_through(&volume, &mut wanted, &mut paths, &mut left).await;
        }
        for unsaved in of_volume {
            let file = FileId { volume: id, object: unsaved.object };
            let path = paths
                .get(&file)
                .cloned()
                .unwrap_or_else(|| format!("object {} (without a name)", unsaved.object));
            lost.extend(settle_file(&volume, file, unsaved, path).await?);
        }
        let found = volume.check().await.map_err(wrong)?;
        objects += volume.usage().0;
        findings.extend(found.iter().map(|finding| format!("{}: {finding}", volume.name())));
    }
    volumes.close().await.map_err(wrong)?;
    lost.sort_by(|one, other| one.path.cmp(&other.path));
    Ok((objects, lost, findings))
}

/// The size that a file had before what is unsaved was appended.
pub(super) fn saved_size(stored: StoredEnd, unsaved: &Unsaved) -> u64 {
    let tail = unsaved.ranges.iter().find(|range| range.end >= stored.size && range.start < stored.size);
    tail.map_or(stored.size, |tail| tail.start.max(stored.end.min(stored.size)))
}

async fn settle_file(
    volume: &Volume,
    file: FileId,
    unsaved: &Unsaved,
    path: String,
) -> Result<Option<LostData>, StartError> {
    let Some(stored) = volume.stored_end(file.object).await.map_err(wrong)? else { return Ok(None) };
    let size = saved_size(stored, unsaved);
    // What lies behind the end in the last stored block may be of before a cut, and the zeros that covered it are gone: a cut
    // makes them anew.
    let failed = |cause: FsError| wrong(format!("{path}: {cause:?}"));
    set_size(volume, file, size.max(stored.size) + 1).await.map_err(failed)?;
    set_size(volume, file, size).await.map_err(failed)?;
    let inside = |range: &&std::ops::Range<u64>| range.start < stored.size;
    let ranges = unsaved.ranges.iter().filter(inside);
    let ranges: Vec<_> = ranges.map(|range| (range.start, range.end.min(stored.size))).collect();
    let lost = LostData { path, size_was: stored.size, size, certain: stored.certain, ranges };
    // Zeros behind the end are nothing that anybody had written.
    Ok((!lost.ranges.is_empty()).then_some(lost))
}

async fn set_size(volume: &Volume, file: FileId, size: u64) -> Result<(), FsError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let done = async {
            let mut transaction = volume.begin(&Caller::root(), Mode::Optimistic).await?;
            let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
            transaction.set_attributes(file, &set, Authority::Opened).await?;
            // The close of the store makes it durable; the tier `cloud` would wait for a write-back that nobody does here.
            transaction.commit(CommitMode::Visible).await
        };
        match done.await {
            Err(FsError::Conflict) if tries < TRIES => {}
            done => return done.map(drop),
        }
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // ranges are what is meant
mod tests {
    use ids::{ObjectId, VolumeId};

    use super::*;

    #[test]
    fn what_was_appended_and_not_stored_is_cut_off_and_nothing_else() {
        let saved = |size: u64, end: u64, ranges: &[std::ops::Range<u64>]| {
            let object = ObjectId::from_bytes([0; ObjectId::LEN]);
            let unsaved = Unsaved { volume: VolumeId(1), object, ranges: ranges.to_vec() };
            saved_size(StoredEnd { size, end, certain: true }, &unsaved)
        };
        assert_eq!(saved(300, 0, &[0..300]), 0, "never stored");
        assert_eq!(saved(300, 100, &[100..300]), 100, "appended");
        assert_eq!(saved(300, 100, &[50..300]), 100, "the end was overwritten, too");
        assert_eq!(saved(300, 300, &[50..300]), 300, "overwritten only");
        assert_eq!(saved(300, 300, &[50..90]), 300, "in the middle");
        assert_eq!(saved(1100, 100, &[1000..1100]), 1000, "appended behind a hole");
        assert_eq!(saved(10, 64, &[10..64]), 10, "zeros behind a cut");
        assert_eq!(saved(10, 64, &[5..64]), 10);
    }
}
