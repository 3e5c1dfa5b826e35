//! Data that was dirty at the instant of the backup, and so is gone: the files are brought into a state that they can be in,
//! and named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use backup::Unsaved;
use cache::Cache;
use environment::Environment;
use file_system::{FileId, FileSystem};
use meta::LocalStore;
use seal::KeyFile;
use serde::Serialize;
use volume::{Settled, Volumes, VolumesOptions};

use super::wrong;
use crate::clouds::Clouds;
use crate::data_folder::DataFolder;
use crate::keys::keys_in_force;
use crate::paths::look_through;
use crate::{Config, StartError};

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

impl LostData {
    fn of(path: String, Settled { size_was, size, certain, ranges }: Settled) -> LostData {
        let ranges = ranges.into_iter().map(|range| (range.start, range.end)).collect();
        LostData { path, size_was, size, certain, ranges }
    }
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
            let settled = volume.settle(file, &unsaved.ranges).await;
            let settled = settled.map_err(|cause| wrong(format!("{path}: {cause:?}")))?;
            lost.extend(settled.map(|settled| LostData::of(path, settled)));
        }
        let found = volume.check().await.map_err(wrong)?;
        objects += volume.usage().0;
        findings.extend(found.iter().map(|finding| format!("{}: {finding}", volume.name())));
    }
    volumes.close().await.map_err(wrong)?;
    lost.sort_by(|one, other| one.path.cmp(&other.path));
    Ok((objects, lost, findings))
}
