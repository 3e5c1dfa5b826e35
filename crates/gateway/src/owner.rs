//! Which gateway a data folder belongs to: a small file, so that a wrong key or number is told before anything
//! is opened with it.

use std::path::Path;

use ids::GatewayId;
use seal::{KeyFile, KeyFileId, load_key_file};

use crate::StartError;
use crate::data_folder::{DataFolder, write_durably};

const FILE: &str = "owner";

/// Reads a key file; errors name it, once.
pub(crate) fn load_key(path: &Path) -> Result<KeyFile, StartError> {
    load_key_file(path).map_err(|cause| {
        let (cause, path) = (cause.to_string(), path.display().to_string());
        let named = if cause.contains(&path) { cause } else { format!("{path}: {cause}") };
        StartError::Configuration(named)
    })
}

/// Checks that the folder belongs to this gateway and key; a new folder is given to them.
pub(crate) fn check(
    folder: &DataFolder,
    key_path: &Path,
    key: &KeyFile,
    gateway: GatewayId,
) -> Result<(), StartError> {
    if key.gateway() != gateway {
        return Err(StartError::Configuration(format!(
            "gateway.id is {gateway}, but the key file {} belongs to gateway {}",
            key_path.display(),
            key.gateway()
        )));
    }
    let path = folder.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            let text = format!("gateway = {gateway}\nkey = {}\n", key.id());
            return write_durably(&path, text.as_bytes()).map_err(|cause| {
                StartError::Configuration(format!("cannot write {}: {cause}", path.display()))
            });
        }
        Err(cause) => {
            return Err(StartError::Configuration(format!("cannot read {}: {cause}", path.display())));
        }
    };
    let field = |name: &str| {
        text.lines()
            .filter_map(|line| line.split_once(" = "))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    };
    let owner: Option<(GatewayId, KeyFileId)> =
        (|| Some((GatewayId(field("gateway")?.parse().ok()?), field("key")?.parse().ok()?)))();
    let (owner, id) = owner.ok_or_else(|| {
        StartError::Configuration(format!(
            "{} is damaged: it must name gateway and key; restore it",
            path.display()
        ))
    })?;
    key.check_owner(owner, id)
        .map_err(|cause| StartError::Configuration(format!("{}: {cause}", key_path.display())))
}
