//! The folder that `kurma up` works in.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use environment::SystemEntropy;
use ids::GatewayId;
use rustix::fs::{FlockOperation, flock};
use seal::{KeyFile, create_key_file};

use crate::StartError;

/// Where a running gateway leaves the address of its admin interface, inside its data folder.
pub const ADMIN_ADDRESS_FILE: &str = "admin.address";

/// Where a running gateway leaves the token of its admin interface, inside its data folder.
pub const ADMIN_TOKEN_FILE: &str = "admin.token";

const FIRST_CONFIG: &str = "\
# A gateway on this machine alone. `kurma config show` prints every value, `kurma config schema` describes them.

[gateway]
id = 1
data = \".\"
key_file = \"keys/gateway.key\"

[nfs]
listen = \"127.0.0.1:2049\"

[admin]
listen = \"127.0.0.1:9460\"

[[cloud]]
name = \"a\"
url = \"dir:clouds/a\"

[[cloud]]
name = \"b\"
url = \"dir:clouds/b\"

[[cloud]]
name = \"c\"
url = \"dir:clouds/c\"

[[volume]]
name = \"home\"
policy = \"rs:2+1\"
clouds = [\"a\", \"b\", \"c\"]
tier = \"local\"
";

/// Makes `folder` a gateway's data folder on its first use: configuration, keys and three directory clouds. Does
/// nothing when the configuration is there, which is written last.
pub fn prepare_data_folder(folder: &Path) -> Result<(), StartError> {
    let config = folder.join("kurma.toml");
    if config.exists() {
        return Ok(());
    }
    let cannot = |what: &Path, cause: &dyn std::fmt::Display| {
        StartError::Configuration(format!("cannot make {}: {cause}", what.display()))
    };
    let holds_data = ["meta", "journal"].iter().any(|part| folder.join(part).exists());
    if holds_data {
        return Err(StartError::Configuration(format!(
            "{} holds a gateway's data and no kurma.toml; put the configuration back",
            folder.display()
        )));
    }
    for part in ["keys", "clouds/a", "clouds/b", "clouds/c"] {
        let path = folder.join(part);
        make_private(&path).map_err(|cause| cannot(&path, &cause))?;
    }
    let key = folder.join("keys/gateway.key");
    if !key.exists() {
        create_key_file(&key, &KeyFile::generate(GatewayId(1), &SystemEntropy::new()))
            .map_err(|cause| cannot(&key, &cause))?;
    }
    write_durably(&config, FIRST_CONFIG.as_bytes()).map_err(|cause| cannot(&config, &cause))
}

pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file so that it is whole or not there at all, also after a crash.
pub(crate) fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// A data folder that no other process works in, until this is dropped.
pub(crate) struct DataFolder {
    path: PathBuf,
    _lock: File,
}

impl DataFolder {
    /// Locks the folder, making it if need be.
    pub fn open(path: &Path) -> Result<DataFolder, StartError> {
        let cannot = |cause: &dyn std::fmt::Display| {
            StartError::Configuration(format!("cannot use the data folder {}: {cause}", path.display()))
        };
        make_private(path).map_err(|cause| cannot(&cause))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("lock"))
            .map_err(|cause| cannot(&cause))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|cause| match cause {
            rustix::io::Errno::WOULDBLOCK => cannot(&"another gateway is running on it"),
            other => cannot(&io::Error::from(other)),
        })?;
        Ok(DataFolder { path: path.to_owned(), _lock: lock })
    }

    pub fn join(&self, part: &str) -> PathBuf {
        self.path.join(part)
    }

    /// Leaves the admin address for commands that know only the folder.
    pub fn publish_admin(&self, address: &str) -> io::Result<()> {
        std::fs::write(self.join(ADMIN_ADDRESS_FILE), format!("{address}\n"))
    }

    /// Leaves the token of the admin interface where only the owner of the folder can read it; returns where.
    pub fn publish_token(&self, token: &str) -> io::Result<PathBuf> {
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.join(ADMIN_TOKEN_FILE);
        match std::fs::remove_file(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        writeln!(file, "{token}")?;
        path.canonicalize()
    }

    pub fn withdraw_admin(&self) {
        // A leftover only makes a command say that nobody answers there.
        let _ = std::fs::remove_file(self.join(ADMIN_ADDRESS_FILE));
    }
}
