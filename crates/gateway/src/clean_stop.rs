//! The mark of a stop that left nothing in the journal which the metadata store and the clouds do not have.
//!
//! With it a gateway starts without its old journal; without it a missing journal is a loss, and is told. The mark
//! lies beside the metadata store, goes where a copy of it goes, and is gone while a gateway runs.

use std::io::ErrorKind;
use std::path::PathBuf;

use journal::Lsn;

use crate::StartError;
use crate::data_folder::{DataFolder, write_durably};

/// Where the mark is, or would be.
fn place(folder: &DataFolder) -> PathBuf {
    folder.join("meta/clean-stop")
}

/// The number of the first record of a journal that does not exist yet.
///
/// # Errors
/// There is a metadata store, and the journal that belongs to it is gone.
pub(crate) fn first_record(folder: &DataFolder, has_journal: bool) -> Result<Lsn, StartError> {
    let path = place(folder);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let last = text.trim().strip_prefix("last = ").and_then(|number| number.parse().ok());
            let last: u64 = last.ok_or_else(|| {
                StartError::Configuration(format!(
                    "{} is damaged; if the journal is in its place, remove it",
                    path.display()
                ))
            })?;
            Ok(Lsn(last + 1))
        }
        Err(cause) if cause.kind() == ErrorKind::NotFound => {
            let has_store =
                std::fs::read_dir(folder.join("meta")).is_ok_and(|mut files| files.next().is_some());
            if has_store && !has_journal {
                return Err(StartError::Configuration(format!(
                    "the journal is missing: {} has no segment that is in use, and the gateway was not stopped in order before; put the journal back, for it holds what was acknowledged last",
                    folder.join("journal").display()
                )));
            }
            Ok(Lsn(1))
        }
        Err(cause) => Err(StartError::Configuration(format!("cannot read {}: {cause}", path.display()))),
    }
}

/// Removes the mark: from now on the journal is needed.
pub(crate) fn clear(folder: &DataFolder) -> Result<(), StartError> {
    let path = place(folder);
    let removed = match std::fs::remove_file(&path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        Err(cause) => Err(cause),
        Ok(()) => std::fs::File::open(folder.join("meta")).and_then(|folder| folder.sync_all()),
    };
    removed.map_err(|cause| StartError::Configuration(format!("cannot remove {}: {cause}", path.display())))
}

/// Leaves the mark: everything up to the record `last` is in the metadata store and in the clouds.
pub(crate) fn leave(folder: &DataFolder, last: Lsn) -> std::io::Result<()> {
    write_durably(&place(folder), format!("last = {}\n", last.0).as_bytes())
}
