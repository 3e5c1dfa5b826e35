//! The one place where this crate touches a disk: key files are read and made while a gateway is set up or
//! started, before there is an environment to simulate.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use zeroize::Zeroizing;

use crate::{KeyFile, KeyFileError};

/// Far more than a key file with comments needs.
const MAX_LEN: u64 = 64 << 10;

/// Writes a new key file with mode 0600, durably. Never overwrites: [`KeyFileError::Exists`].
pub fn create_key_file(path: &Path, key: &KeyFile) -> Result<(), KeyFileError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => KeyFileError::Exists { path: path.to_owned() },
        _ => KeyFileError::Io { action: "create", path: path.to_owned(), source },
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(key.to_text().as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// Puts another key file in the place of one, durably: afterwards there is the one or the other. What the old one held is
/// overwritten, as far as the disk really writes where it is told to.
pub fn replace_key_file(path: &Path, key: &KeyFile) -> Result<(), KeyFileError> {
    let failed = |source: io::Error| KeyFileError::Io { action: "replace", path: path.to_owned(), source };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    match std::fs::remove_file(&new) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(failed(cause)),
        _ => {}
    }
    create_key_file(&new, key)?;
    let mut old = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
    std::fs::rename(&new, path).map_err(failed)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    let length = old.metadata().map_err(failed)?.len().min(MAX_LEN);
    old.write_all(&vec![0; length as usize]).and_then(|()| old.sync_all()).map_err(failed)
}

/// Reads a key file; refuses one that others than its owner can read ([`KeyFileError::TooOpen`]).
pub fn load_key_file(path: &Path) -> Result<KeyFile, KeyFileError> {
    let failed = |source: io::Error| KeyFileError::Io { action: "read", path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyFileError::TooOpen { path: path.to_owned(), mode });
    }
    let mut text = Zeroizing::new(String::with_capacity(1024));
    file.take(MAX_LEN).read_to_string(&mut text).map_err(failed)?;
    KeyFile::parse(&text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use environment::SystemEntropy;
    use ids::GatewayId;

    use super::*;

    #[test]
    fn a_key_file_is_private_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.key");
        let entropy = SystemEntropy::new();
        let key = KeyFile::generate(GatewayId(1), &entropy);
        create_key_file(&path, &key).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(load_key_file(&path).unwrap(), key);

        let other = KeyFile::generate(GatewayId(1), &entropy);
        assert!(matches!(create_key_file(&path, &other), Err(KeyFileError::Exists { .. })));
        assert_eq!(load_key_file(&path).unwrap(), key);
    }

    #[test]
    fn a_key_file_that_others_can_read_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.key");
        create_key_file(&path, &KeyFile::generate(GatewayId(1), &SystemEntropy::new())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = load_key_file(&path).unwrap_err().to_string();
        assert!(error.contains("chmod 600") && error.contains("640"), "{error}");
    }

    #[test]
    fn a_replaced_key_file_is_private_and_the_old_bytes_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.key");
        let entropy = SystemEntropy::new();
        let old = KeyFile::generate(GatewayId(1), &entropy);
        create_key_file(&path, &old).unwrap();
        let mut still_open = File::open(&path).unwrap();
        fs::write(folder.path().join("gateway.key.new"), "left over").unwrap();
        let new = old.with_next_opener(&entropy).unwrap();
        replace_key_file(&path, &new).unwrap();
        assert_eq!(load_key_file(&path).unwrap(), new);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let mut bytes = Vec::new();
        still_open.read_to_end(&mut bytes).unwrap();
        assert!(!bytes.is_empty() && bytes.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_missing_key_file_is_named() {
        let error = load_key_file(Path::new("/nowhere/gateway.key")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/gateway.key"), "{error}");
    }
}
