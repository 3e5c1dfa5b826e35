//! The configuration file: TOML, strict.
//!
//! Unknown keys, wrong types and values out of range are errors that name file, line and key. Every value has a
//! default except the clouds and volumes themselves. Relative paths are relative to the folder of the file.

mod backup;
mod cost;
mod error;
mod export;
mod log;
mod machine;
mod nfs_limits;
mod origin;
mod owner_names;
mod protection;
mod quantity;
mod scan;
mod schema;
mod upkeep;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use backup::BackupConfig;
pub use cost::{Prefer, PriceConfig, ReadConfig};
pub use error::ConfigError;
pub use export::{ExportConfig, Squash};
pub use log::{LogConfig, LogFormat};
pub use nfs_limits::NfsLimitsConfig;
pub(crate) use origin::flatten;
pub use origin::{Origin, Setting};
pub use owner_names::OwnerNames;
pub use protection::{ExportTls, NfsTlsConfig, Sec};
pub use quantity::{ByteSize, Span};
pub use scan::{FailPolicy, InfectedFiles, ScanConfig};
pub use schema::schema;
pub use upkeep::UpkeepConfig;

/// The whole configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// This gateway.
    pub gateway: GatewayConfig,
    /// The NFS server.
    pub nfs: NfsConfig,
    /// The admin interface.
    pub admin: AdminConfig,
    /// Local storage of file data.
    pub cache: CacheConfig,
    /// The metadata store.
    pub meta: MetaConfig,
    /// Reading from clouds.
    pub read: ReadConfig,
    /// Work behind the scenes.
    pub upkeep: UpkeepConfig,
    /// Backups of the metadata in the clouds.
    pub backup: BackupConfig,
    /// A scanner for malware.
    pub scan: ScanConfig,
    /// What is told on standard error.
    pub log: LogConfig,
    /// Untrusted stores.
    #[serde(rename = "cloud")]
    pub clouds: Vec<CloudConfig>,
    /// Volumes to make when they are not there yet. An existing volume keeps its own policy.
    #[serde(rename = "volume")]
    pub volumes: Vec<VolumeConfig>,
    /// The file, if it was read from one.
    #[serde(skip)]
    pub file: Option<PathBuf>,
    /// Keys whose values the command line has set: what the file says of them does not count.
    #[serde(skip)]
    pub overridden: Vec<String>,
    /// This gateway goes on, whoever else does with the same identity (decision 33).
    #[serde(skip)]
    pub take_over: bool,
}

/// This gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayConfig {
    /// Number of the gateway among the sites of its tree, 1 to 65535; part of every object's identity and so
    /// never to be changed.
    pub id: u16,
    /// Folder of everything durable that has no place of its own in this file.
    pub data: PathBuf,
    /// The key file. Without it nothing can be read, by anybody: keep a copy elsewhere.
    pub key_file: PathBuf,
}

/// The NFS server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NfsConfig {
    /// Address and port.
    pub listen: SocketAddr,
    /// How long a silent client keeps its opens and locks.
    pub lease: Span,
    /// Whether clients may keep files to themselves until others want them (delegations).
    pub delegations: bool,
    /// The keytab with the keys of `nfs/HOST`, for clients with Kerberos. Without it they are refused.
    pub keytab: Option<PathBuf>,
    /// What users and groups are called on the wire.
    pub names: OwnerNames,
    /// The domain behind the names of users and groups, such as `example.org`.
    pub domain: Option<String>,
    /// Address and port of a built-in portmapper, such as `0.0.0.0:111`, for clients that insist on asking one. Without
    /// it there is none, and no client of NFSv4 needs one.
    pub portmapper: Option<SocketAddr>,
    /// TLS.
    pub tls: NfsTlsConfig,
    /// Bounds on what clients may have.
    pub limits: NfsLimitsConfig,
}

/// The admin interface. It takes the token that the running gateway leaves in its data folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// Address and port; loopback addresses only.
    pub listen: SocketAddr,
}

/// Local storage of file data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CacheConfig {
    /// Memory for file data, dirty and clean. By default a quarter of what the machine has, or the control group (cgroup) allows.
    pub memory: ByteSize,
    /// Journal: what may be acknowledged and not yet in the clouds.
    pub journal: ByteSize,
    /// Clean data kept on the local disk, sealed.
    pub disk: ByteSize,
    /// How long a block rests after its last change before it goes to the clouds; a full one rests for a fifth of it.
    pub write_back_wait: Span,
    /// Largest readahead of one stream.
    pub readahead: ByteSize,
}

/// The metadata store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetaConfig {
    /// Which engine keeps the metadata.
    pub engine: MetaEngine,
}

/// Engines of the metadata store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MetaEngine {
    /// Inside the process, one node.
    Embedded,
}

/// One untrusted store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CloudConfig {
    /// Short name: letters, digits, `-`, `_`. Names the cloud for good: what is stored is found by it.
    pub name: String,
    /// `dir:PATH`, `s3://BUCKET/PREFIX?endpoint=URL&region=NAME`, `azure://ACCOUNT/CONTAINER/PREFIX`,
    /// `gcs://BUCKET/PREFIX`, `sftp://USER@HOST:PORT/PATH`, `webdavs://HOST/PATH` or `swift://CONTAINER/PREFIX?auth=URL`.
    pub url: String,
    /// A file with the credentials of this cloud alone, which only its owner may read (mode 600). Without it, those of
    /// the environment or of the provider's standard chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<PathBuf>,
    /// How long one request may take.
    #[serde(default = "default_timeout")]
    pub timeout: Span,
    /// Requests at the same time, some of which are kept for reads; by default [`CloudUrl::usual_concurrency`](cloud::CloudUrl::usual_concurrency).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// Requests that are begun in a second. Without it there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
    /// Bytes that go there in a second. Without it there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_rate: Option<ByteSize>,
    /// Bytes that come from there in a second. Without it there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download_rate: Option<ByteSize>,
    /// Whatever is there is read; nothing is written or deleted, by no part of the gateway.
    #[serde(default)]
    pub read_only: bool,
    /// Nothing new goes here; set by `kurma cloud drain`. Take it away to use the cloud again.
    #[serde(default)]
    pub drained: bool,
    /// What the provider charges, for `kurma cost` and for `read.prefer = "cost"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceConfig>,
}

impl CloudConfig {
    /// With the defaults.
    pub fn new(name: &str, url: &str) -> CloudConfig {
        CloudConfig {
            name: name.into(),
            url: url.into(),
            credentials: None,
            timeout: default_timeout(),
            concurrency: None,
            requests_per_second: None,
            upload_rate: None,
            download_rate: None,
            read_only: false,
            drained: false,
            price: None,
        }
    }

    pub(crate) fn resolve(&mut self, folder: &Path) {
        if let Some(path) = self.url.strip_prefix("dir:") {
            let path = folder.join(path.strip_prefix("//").unwrap_or(path));
            self.url = format!("dir://{}", path.display());
        }
        if let Some(path) = &mut self.credentials {
            *path = folder.join(&path);
        }
    }
}

/// A volume to make at start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeConfig {
    /// Name under the root of the export.
    pub name: String,
    /// `replicas:N`, `rs:K+M`, `aont-rs:K+M` or `caont-rs:K+M`.
    #[serde(default = "default_policy")]
    pub policy: String,
    /// Clouds by name, as many as the policy needs, in order of fragments; or more: files are spread over them. Empty: the first
    /// ones of the file.
    #[serde(default)]
    pub clouds: Vec<String>,
    /// Block size of new files, a power of two from 64 KiB to 16 MiB.
    #[serde(default = "default_block_size")]
    pub block_size: ByteSize,
    /// What must hold before a stable write is answered.
    #[serde(default)]
    pub tier: Tier,
    /// Authenticate and do not encrypt.
    #[serde(default)]
    pub integrity_only: bool,
    /// How NFS clients see it.
    #[serde(default)]
    pub export: ExportConfig,
}

/// Acknowledgement tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Nothing; for tests only: a crash loses what was acknowledged.
    Memory,
    /// Durable in the local journal.
    #[default]
    Local,
    /// Enough fragments in the clouds.
    Cloud,
}

impl From<Tier> for volume::Tier {
    fn from(tier: Tier) -> volume::Tier {
        match tier {
            Tier::Memory => volume::Tier::Memory,
            Tier::Local => volume::Tier::Local,
            Tier::Cloud => volume::Tier::Cloud,
        }
    }
}

impl From<volume::Tier> for Tier {
    fn from(tier: volume::Tier) -> Tier {
        match tier {
            volume::Tier::Memory => Tier::Memory,
            volume::Tier::Local => Tier::Local,
            volume::Tier::Cloud => Tier::Cloud,
        }
    }
}

impl Default for GatewayConfig {
    fn default() -> Self {
        GatewayConfig { id: 1, data: PathBuf::from("."), key_file: PathBuf::from("keys/gateway.key") }
    }
}

impl Default for NfsConfig {
    fn default() -> Self {
        NfsConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 2049)),
            lease: Span::from_secs(90),
            delegations: true,
            keytab: None,
            names: OwnerNames::default(),
            domain: None,
            portmapper: None,
            tls: NfsTlsConfig::default(),
            limits: NfsLimitsConfig::default(),
        }
    }
}

impl Default for AdminConfig {
    fn default() -> Self {
        AdminConfig { listen: SocketAddr::from(([127, 0, 0, 1], 9460)) }
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        CacheConfig {
            memory: machine::share_of_memory(),
            journal: ByteSize::mib(1024),
            disk: ByteSize::mib(8 << 10),
            write_back_wait: Span::from_secs(5),
            readahead: ByteSize::mib(16),
        }
    }
}

impl Default for MetaConfig {
    fn default() -> Self {
        MetaConfig { engine: MetaEngine::Embedded }
    }
}

fn default_timeout() -> Span {
    Span::from_secs(30)
}

fn default_policy() -> String {
    "rs:2+1".into()
}

fn default_block_size() -> ByteSize {
    ByteSize::mib(1)
}

impl Config {
    /// Reads and checks a file; relative paths in it become absolute.
    ///
    /// # Errors
    /// Everything that is wrong with the file, with line and key where there is one.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        let mut config = Config::parse(&text, path)?;
        config.resolve(path.parent().unwrap_or(Path::new("")));
        config.file = Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        Ok(config)
    }

    /// Parses and checks `text`; `path` is for messages only.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let config: Config =
            toml::from_str(text).map_err(|cause| ConfigError::from_toml(path, text, &cause))?;
        config.check(path, text)?;
        Ok(config)
    }

    fn resolve(&mut self, folder: &Path) {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        self.gateway.data = folder.join(&self.gateway.data);
        self.gateway.key_file = folder.join(&self.gateway.key_file);
        self.nfs.keytab = self.nfs.keytab.as_ref().map(|keytab| folder.join(keytab));
        self.nfs.tls.resolve(&folder);
        for cloud in &mut self.clouds {
            cloud.resolve(&folder);
        }
    }

    fn check(&self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let wrong = |key: &str, why: String| Err(ConfigError::value(path, text, key, why));
        if self.gateway.id == 0 {
            return wrong("gateway.id", "must be 1 to 65535".into());
        }
        if !self.admin.listen.ip().is_loopback() {
            return wrong(
                "admin.listen",
                format!(
                    "{} is not a loopback address; the admin interface is for this machine only",
                    self.admin.listen
                ),
            );
        }
        let lease = self.nfs.lease.as_duration().as_secs();
        if !(10..=3600).contains(&lease) {
            return wrong("nfs.lease", format!("{} is not between 10s and 1h", self.nfs.lease));
        }
        self.nfs.tls.check().or_else(|why| wrong("nfs.tls", why))?;
        self.nfs.check_names().or_else(|why| wrong("nfs.names", why))?;
        self.nfs.limits.check().or_else(|why| wrong("nfs.limits", why))?;
        for (key, size, least) in [
            ("cache.memory", self.cache.memory, 16),
            ("cache.journal", self.cache.journal, 64),
            ("cache.disk", self.cache.disk, 0),
            ("upkeep.in_flight", self.upkeep.in_flight, 4),
        ] {
            if size < ByteSize::mib(least) {
                return wrong(key, format!("{size} is too small: at least {least}MiB"));
            }
        }
        self.upkeep.check().or_else(|(key, why)| wrong(&format!("upkeep.{key}"), why))?;
        self.backup.check().or_else(|(key, why)| wrong(&format!("backup.{key}"), why))?;
        self.scan.check(self.cache.journal).or_else(|(key, why)| wrong(&format!("scan.{key}"), why))?;
        self.log.check().or_else(|why| wrong("log.level", why))?;
        let is_name = |name: &str| {
            !name.is_empty()
                && name.len() <= 64
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_' || b == b'.')
                && !name.starts_with('.')
        };
        for (at, cloud) in self.clouds.iter().enumerate() {
            let key = format!("cloud[{at}].name");
            if !is_name(&cloud.name) {
                return wrong(
                    &key,
                    format!("{:?} is not a name: letters, digits, '-', '_', '.'", cloud.name),
                );
            }
            if self.clouds[..at].iter().any(|other| other.name == cloud.name) {
                return wrong(&key, format!("there are two clouds named {:?}", cloud.name));
            }
            if cloud.concurrency == Some(0) {
                return wrong(&format!("cloud[{at}].concurrency"), "must be at least 1".into());
            }
            let rates = [
                ("requests_per_second", cloud.requests_per_second.map(u64::from)),
                ("upload_rate", cloud.upload_rate.map(ByteSize::bytes)),
                ("download_rate", cloud.download_rate.map(ByteSize::bytes)),
            ];
            if let Some((rate, _)) = rates.iter().find(|(_, rate)| *rate == Some(0)) {
                let why = "must be at least 1; leave it out for no limit".into();
                return wrong(&format!("cloud[{at}].{rate}"), why);
            }
            // A path may hold what an address may not.
            if !cloud.url.starts_with("dir:")
                && let Err(why) = cloud::CloudUrl::parse(&cloud.url)
            {
                return wrong(&format!("cloud[{at}].url"), why.to_string());
            }
            if cloud.credentials.is_some() && cloud.url.starts_with("dir:") {
                let why = "a directory of this machine takes no credentials".into();
                return wrong(&format!("cloud[{at}].credentials"), why);
            }
        }
        self.check_costs().or_else(|(key, why)| wrong(&key, why))?;
        for (at, volume) in self.volumes.iter().enumerate() {
            self.check_volume(volume, at, &is_name)
                .or_else(|(key, why)| wrong(&format!("volume[{at}].{key}"), why))?;
        }
        Ok(())
    }

    fn check_volume(
        &self,
        volume: &VolumeConfig,
        at: usize,
        is_name: &dyn Fn(&str) -> bool,
    ) -> Result<(), (&'static str, String)> {
        if !is_name(&volume.name) {
            return Err(("name", format!("{:?} is not a name: letters, digits, '-', '_', '.'", volume.name)));
        }
        if self.volumes[..at].iter().any(|other| other.name == volume.name) {
            return Err(("name", format!("there are two volumes named {:?}", volume.name)));
        }
        let scheme: disperse::Scheme =
            volume.policy.parse().map_err(|error| ("policy", format!("{:?}: {error}", volume.policy)))?;
        for name in &volume.clouds {
            if !self.clouds.iter().any(|cloud| cloud.name == *name) {
                return Err(("clouds", format!("there is no [[cloud]] named {name:?}")));
            }
        }
        let usable = self.clouds.iter().filter(|cloud| !cloud.drained).count();
        let clouds = if volume.clouds.is_empty() { usable } else { volume.clouds.len() };
        // A volume that is elsewhere is not made here.
        if clouds < scheme.total() && volume.export.referral.is_empty() {
            return Err((
                "policy",
                format!("{} needs {} clouds, there are {clouds}", volume.policy, scheme.total()),
            ));
        }
        volume.export.options().map_err(|why| ("export", why))?;
        ids::BlockShift::from_bytes(volume.block_size.bytes()).ok_or_else(|| {
            ("block_size", format!("{} is not a power of two from 64KiB to 16MiB", volume.block_size))
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
