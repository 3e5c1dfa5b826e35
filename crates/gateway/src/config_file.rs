//! The configuration file as operators wrote it, changed in place: comments and order stay.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, value};

use crate::Config;
use crate::config::CloudConfig;
use crate::data_folder::write_durably;

/// The file that the gateway was started with.
pub(crate) struct ConfigFile {
    path: Option<PathBuf>,
    /// Changes wait for each other.
    alone: Mutex<()>,
}

impl ConfigFile {
    /// The file of a configuration, if it has one.
    pub fn of(config: &Config) -> ConfigFile {
        ConfigFile { path: config.file.clone(), alone: Mutex::default() }
    }

    /// Makes a relative path in the address of a cloud absolute, as reading the file does.
    pub fn resolve(&self, cloud: &mut CloudConfig) {
        if let Some(folder) = self.path.as_deref().and_then(Path::parent) {
            cloud.resolve(folder);
        }
    }

    /// Adds a cloud.
    ///
    /// # Errors
    /// The file cannot be written, or would not be right afterwards; it is as it was.
    pub fn add_cloud(&self, cloud: &CloudConfig) -> Result<(), String> {
        self.change(|document| {
            let mut table = Table::new();
            table["name"] = value(&cloud.name);
            table["url"] = value(&cloud.url);
            let usual = CloudConfig::new(&cloud.name, &cloud.url);
            if let Some(path) = &cloud.credentials {
                table["credentials"] = value(path.display().to_string());
            }
            if cloud.timeout != usual.timeout {
                table["timeout"] = value(cloud.timeout.to_string());
            }
            if let Some(concurrency) = cloud.concurrency {
                table["concurrency"] = value(concurrency as i64);
            }
            if let Some(requests) = cloud.requests_per_second {
                table["requests_per_second"] = value(i64::from(requests));
            }
            for (key, rate) in [("upload_rate", cloud.upload_rate), ("download_rate", cloud.download_rate)] {
                if let Some(rate) = rate {
                    table[key] = value(rate.to_string());
                }
            }
            if cloud.read_only {
                table["read_only"] = value(true);
            }
            if let Some(price) = &cloud.price {
                let said = price.named().into_iter().filter(|(_, price)| *price != 0.0);
                table["price"] = value(said.collect::<toml_edit::InlineTable>());
            }
            let clouds = document.entry("cloud").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
            match clouds {
                Item::ArrayOfTables(clouds) => clouds.push(table),
                _ => return Err("`cloud` is no list of [[cloud]] sections; write it as such".into()),
            }
            Ok(())
        })
    }

    /// Notes that a cloud takes nothing new.
    pub fn set_drained(&self, name: &str) -> Result<(), String> {
        self.change(|document| {
            let found =
                clouds(document).and_then(|clouds| clouds.iter_mut().find(|table| is_named(table, name)));
            let table = found.ok_or_else(|| format!("there is no [[cloud]] named {name:?}"))?;
            table["drained"] = value(true);
            Ok(())
        })
    }

    /// Names another cloud wherever a volume names this one.
    pub fn replace_in_volumes(&self, name: &str, by: &str) -> Result<(), String> {
        self.change(|document| {
            let volumes = document.get_mut("volume").and_then(Item::as_array_of_tables_mut);
            for volume in volumes.into_iter().flat_map(|volumes| volumes.iter_mut()) {
                if let Some(names) = volume.get_mut("clouds").and_then(Item::as_array_mut) {
                    replace(names, name, by);
                }
            }
            Ok(())
        })
    }

    /// Takes a cloud out.
    pub fn remove_cloud(&self, name: &str) -> Result<(), String> {
        self.change(|document| {
            if let Some(clouds) = clouds(document) {
                clouds.retain(|table| !is_named(table, name));
            }
            Ok(())
        })
    }

    fn change(&self, change: impl FnOnce(&mut DocumentMut) -> Result<(), String>) -> Result<(), String> {
        let Some(path) = &self.path else { return Err("the gateway has no configuration file".into()) };
        let _alone = self.alone.lock();
        let failed = |cause: &dyn std::fmt::Display| {
            format!("the configuration {} cannot be changed: {cause}", path.display())
        };
        // A link stays a link.
        let path = &path.canonicalize().map_err(|cause| failed(&cause))?;
        let text = std::fs::read_to_string(path).map_err(|cause| failed(&cause))?;
        let mut document: DocumentMut = text.parse().map_err(|cause: toml_edit::TomlError| failed(&cause))?;
        change(&mut document).map_err(|cause| failed(&cause))?;
        let changed = document.to_string();
        Config::parse(&changed, path).map_err(|cause| failed(&cause))?;
        if changed == text {
            return Ok(());
        }
        let permissions = std::fs::metadata(path).map_err(|cause| failed(&cause))?.permissions();
        write_durably(path, changed.as_bytes())
            .and_then(|()| std::fs::set_permissions(path, permissions))
            .map_err(|cause| failed(&cause))
    }
}

fn clouds(document: &mut DocumentMut) -> Option<&mut ArrayOfTables> {
    document.get_mut("cloud")?.as_array_of_tables_mut()
}

fn is_named(table: &Table, name: &str) -> bool {
    table.get("name").and_then(Item::as_str) == Some(name)
}

fn replace(names: &mut Array, name: &str, by: &str) {
    let known = names.iter().any(|known| known.as_str() == Some(by));
    let at = names.iter().position(|known| known.as_str() == Some(name));
    match at {
        // More names than the policy needs are fine, the same one twice is not.
        Some(at) if known => drop(names.remove(at)),
        Some(at) => drop(names.replace(at, by)),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# Mine.
[nfs]
lease = '90s' # as long as that

[[cloud]]
name = 'a'
url = 'dir:a' # the old disk

[[cloud]]
name = 'b'
url = 'dir:b'

[[volume]]
name = 'home'
policy = 'replicas:2'
clouds = ['a', 'b'] # both
";

    fn file(folder: &Path) -> ConfigFile {
        let path = folder.join("kurma.toml");
        std::fs::write(&path, TEXT).unwrap();
        ConfigFile::of(&Config::load(&path).unwrap())
    }

    #[test]
    fn what_an_operator_wrote_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(folder.path());
        let cloud = CloudConfig::new("c", "dir:c");
        file.add_cloud(&cloud).unwrap();
        file.set_drained("a").unwrap();
        file.replace_in_volumes("a", "c").unwrap();
        let text = std::fs::read_to_string(folder.path().join("kurma.toml")).unwrap();
        for kept in ["# Mine.", "lease = '90s' # as long as that", "url = 'dir:a' # the old disk", "# both"] {
            assert!(text.contains(kept), "{kept} is not in\n{text}");
        }
        let config = Config::load(&folder.path().join("kurma.toml")).unwrap();
        assert_eq!(config.volumes[0].clouds, ["c", "b"]);
        let clouds: Vec<_> = config.clouds.iter().map(|cloud| (&*cloud.name, cloud.drained)).collect();
        assert_eq!(clouds, [("a", true), ("b", false), ("c", false)]);
        file.remove_cloud("a").unwrap();
        assert_eq!(Config::load(&folder.path().join("kurma.toml")).unwrap().clouds.len(), 2);
    }

    #[test]
    fn a_change_that_breaks_the_file_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(folder.path());
        assert!(file.add_cloud(&CloudConfig::new("a", "dir:twice")).unwrap_err().contains("two clouds"));
        assert!(file.remove_cloud("b").unwrap_err().contains("there is no [[cloud]] named"));
        assert_eq!(std::fs::read_to_string(folder.path().join("kurma.toml")).unwrap(), TEXT);
    }
}
