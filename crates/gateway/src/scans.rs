//! Scanning for malware, for administrators: how it goes, which files are held back or marked, and what becomes of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::scan::{Release, Scanner, Shared};
use file_system::{Caller, CommitMode, FileId, FileSystem, FsError, Mode, Name};
use ids::ObjectId;
use serde_json::{Value, json};
use volume::{ScanState, VolumeError};

use crate::Config;
use crate::config::ScanConfig;
use crate::node::{Node, Served};

/// Marks read at once.
const PAGE: usize = 1024;
/// Tries of a removal against changes under way.
const TRIES: usize = 16;

/// What the stages of all volumes share; `None`: nothing is scanned.
pub(crate) fn shared(config: &Config, environment: &environment::Environment) -> Option<Arc<Shared>> {
    let scan = &config.scan;
    let scanner = Scanner::new(scan.scanner()?, scan.timeout.as_duration(), environment.clock.clone());
    Some(Shared::new(scanner, scan.stage(config.cache.journal), environment.clone()))
}

/// The part of a new configuration that can be put in force while files are scanned.
pub(crate) fn reloaded(old: &ScanConfig, new: &ScanConfig) -> ScanConfig {
    let ScanConfig { infected, fail, largest, open_wait, rescan, .. } = new.clone();
    ScanConfig { infected, fail, largest, open_wait, rescan, ..old.clone() }
}

/// A file that a scan has to do with.
pub(crate) struct ScannedFile {
    pub served: Arc<Served>,
    pub object: ObjectId,
}

impl Node {
    /// How scanning goes.
    pub async fn scan_status(&self) -> Result<Value, VolumeError> {
        let mut volumes = Vec::new();
        for served in self.served() {
            let Some(stage) = &served.scan else {
                // What was found before holds all the same.
                let quarantined = served.volume.quarantined();
                if quarantined > 0 {
                    volumes.push(json!({ "volume": served.volume.name(), "quarantined": quarantined }));
                }
                continue;
            };
            let report = stage.report().await?;
            volumes.push(json!({
                "volume": served.volume.name(),
                "waiting": report.queued,
                "waiting_bytes": report.held.waiting_bytes,
                "quarantined": report.quarantined,
                "quarantined_bytes": report.held.kept_bytes,
                "reported": report.reported,
                "unscanned": report.unscanned,
                "released": report.released,
            }));
        }
        let Some(shared) = &self.scan else { return Ok(json!({ "on": false, "volumes": volumes })) };
        let (health, counts, config) = (shared.health(), shared.counts(), self.live.borrow().scan.clone());
        Ok(json!({
            "on": true,
            "scanner": shared.scanner().address().to_string(),
            "state": if health.is_away { "away" } else { "good" },
            "last_error": health.last_error,
            "infected": config.infected,
            "fail": config.fail,
            "volumes": volumes,
            "since_start": {
                "clean": counts.clean,
                "infected": counts.infected,
                "failed": counts.failed,
                "too_large": counts.too_large,
                "passed_unscanned": counts.passed,
                "bytes": counts.bytes,
            },
        }))
    }

    /// What needs attention.
    pub fn scan_attention(&self, status: &Value) -> Vec<String> {
        let sum = |key: &str| {
            let volumes = status["volumes"].as_array().into_iter().flatten();
            volumes.filter_map(|volume| volume[key].as_u64()).sum::<u64>()
        };
        let mut attention = Vec::new();
        let quarantined = sum("quarantined");
        if quarantined > 0 {
            let off = if status["on"] == false { ", and scanning is turned off" } else { "" };
            attention.push(format!("{quarantined} files are in quarantine{off}: `kurma scan list`"));
        }
        if status["state"] == "away" {
            let (scanner, error) = (status["scanner"].as_str(), status["last_error"].as_str());
            let (scanner, error) = (scanner.unwrap_or(""), error.unwrap_or(""));
            attention.push(match status["fail"] == "open" {
                true => format!("the scanner {scanner} is away, and files go to the clouds without a scan: {error}"),
                false => format!(
                    "the scanner {scanner} is away, and changed files wait for it; when the journal is full, writers will: {error}"
                ),
            });
        }
        let (waiting, journal) = (sum("waiting_bytes"), self.config.cache.journal.bytes());
        if waiting > journal / 4 {
            attention.push(format!(
                "files that wait for a scan take more than a quarter of the journal: mend the scanner, set scan.fail = \"open\" and run \
                 `kurma config reload`, or let some go with `kurma scan release` ({waiting} bytes)"
            ));
        }
        attention
    }

    /// Files that wait for a scan or are marked, each with its name if that is found; up to `most`.
    pub async fn scanned_files(&self, most: usize) -> Result<Vec<Value>, VolumeError> {
        let (mut rows, mut files) = (Vec::new(), BTreeSet::new());
        for served in self.served() {
            let (name, id) = (served.volume.name(), FileSystem::volume(&*served.volume));
            let mut after = None;
            while rows.len() < most {
                let marks = served.volume.scan_marks(after, PAGE.min(most - rows.len())).await?;
                let Some((last, _)) = marks.last() else { break };
                after = Some(*last);
                for (object, mark) in marks {
                    let file = FileId { volume: id, object };
                    files.insert(file);
                    let time = mark.time.seconds as f64 + f64::from(mark.time.nanos) / 1e9;
                    let row = json!({ "volume": name, "object": object.to_string(), "state": mark.state.to_string(),
                                      "found": mark.found, "time": time });
                    rows.push((file, row));
                }
            }
            let waiting = served.scan.as_ref().map(|stage| stage.waiting(most - rows.len().min(most)));
            for (object, since, why) in waiting.into_iter().flatten() {
                let file = FileId { volume: id, object };
                files.insert(file);
                let row = json!({ "volume": name, "object": object.to_string(), "state": "waiting", "found": why,
                                  "waiting_seconds": since.as_secs_f64() });
                rows.push((file, row));
            }
        }
        let paths = self.paths_of(files).await;
        let named = rows.into_iter().map(|(file, mut row)| {
            row["path"] = json!(paths.get(&file));
            row
        });
        Ok(named.collect())
    }

    /// The file that is meant: by its path, the volume first, or its object.
    pub async fn scanned_file(&self, text: &str) -> Result<Option<ScannedFile>, VolumeError> {
        if let Some((name, inner)) = text.strip_prefix('/').and_then(|path| path.split_once('/')) {
            let Some(served) = self.served().into_iter().find(|served| served.volume.name() == name) else {
                return Ok(None);
            };
            let object = served.volume.object_at(inner).await?;
            return Ok(object.map(|object| ScannedFile { served, object }));
        }
        let Ok(object) = text.parse::<ObjectId>() else { return Ok(None) };
        for served in self.served() {
            let is_waiting = || served.scan.as_ref().is_some_and(|stage| stage.is_waiting(object));
            if served.volume.scan_mark(object).await?.is_some() || is_waiting() {
                return Ok(Some(ScannedFile { served, object }));
            }
        }
        Ok(None)
    }

    /// Lets a file go on as it is now.
    pub async fn release_scanned(&self, file: &ScannedFile) -> Result<Release, VolumeError> {
        let ScannedFile { served, object } = file;
        match &served.scan {
            Some(stage) => stage.release(*object).await,
            // Nothing is scanned any more; what was found before holds all the same.
            None => match served.volume.release_from_quarantine(*object).await? {
                true => Ok(Release::Quarantine),
                false => {
                    let is_marked = served.volume.scan_mark(*object).await?.is_some();
                    served.volume.mark_clean(*object).await?;
                    Ok(if is_marked { Release::Mark } else { Release::Nothing })
                }
            },
        }
    }

    /// Removes a name of a file in which something was found; how many names are left.
    pub async fn remove_scanned(&self, path: &str) -> Result<u32, String> {
        if !path.starts_with('/') {
            return Err(format!("{path:?} is no path; write the volume first, as in /home/file"));
        }
        let missing = || format!("there is no file {path:?}");
        let file = self.scanned_file(path).await.map_err(|error| error.to_string())?.ok_or_else(missing)?;
        let ScannedFile { served, object } = file;
        let mark = served.volume.scan_mark(object).await.map_err(|error| error.to_string())?;
        let is_found = |state| matches!(state, ScanState::Quarantined | ScanState::Reported);
        if !mark.is_some_and(|mark| is_found(mark.state)) {
            return Err(format!("nothing was found in {path:?}; remove it as any other file"));
        }
        let inner = path.trim_start_matches('/').split_once('/').map_or("", |(_, inner)| inner);
        let (folder, name) = inner.rsplit_once('/').unwrap_or(("", inner));
        let folder =
            served.volume.object_at(folder).await.map_err(|error| error.to_string())?.ok_or_else(missing)?;
        let volume = FileSystem::volume(&*served.volume);
        let (folder, file) = (FileId { volume, object: folder }, FileId { volume, object });
        let name = Name::new(name.to_owned()).map_err(|error| error.to_string())?;
        for _ in 0..TRIES {
            match remove(&served, folder, &name, file).await {
                Err(FsError::Conflict) => {}
                Ok(left) => {
                    tracing::warn!(path, "a file in which malware was found was removed");
                    return Ok(left);
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(FsError::Conflict.to_string())
    }
}

async fn remove(served: &Served, folder: FileId, name: &Name, file: FileId) -> Result<u32, FsError> {
    let mut transaction = served.volume.begin(&Caller::root(), Mode::Optimistic).await?;
    let found = transaction.lookup(folder, name).await?;
    if found.file != file {
        return Err(FsError::Conflict);
    }
    transaction.remove(folder, name).await?;
    transaction.commit(CommitMode::Durable).await?;
    Ok(found.links.saturating_sub(1))
}
