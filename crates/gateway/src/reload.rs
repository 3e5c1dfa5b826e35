//! Reading the configuration again while clients are served.
//!
//! The file is checked as strictly as at a start, and with it the certificates and the keytab that it names; whatever is
//! wrong changes nothing. What can change without harm to running requests is then put in force at once, and for
//! everything else that differs it is said what would put it in force.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::Config;
use crate::config::{CloudConfig, ExportConfig, VolumeConfig, flatten};
use crate::node::{Node, name_mapping};
use crate::scans;

/// What a change of the configuration did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reloaded {
    /// Keys whose new values are in force.
    pub applied: Vec<String>,
    /// Keys whose new values are not.
    pub pending: Vec<Pending>,
}

/// A value that is not in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pending {
    /// Its key.
    pub key: String,
    /// What puts it in force.
    pub needs: String,
}

/// The certificates and the keytab, as a key of what was applied.
const SECRETS: &str = "contents of the files of nfs.tls and nfs.keytab";

const RESTART: &str = "restart the gateway";

impl Node {
    /// Reads the file again, and applies what can be applied. One at a time.
    ///
    /// # Errors
    /// There is no file, or something is wrong with it or with a file that it names; nothing has changed.
    pub async fn reload(&self) -> Result<Reloaded, String> {
        let _alone = self.reloading.lock().await;
        match self.try_reload() {
            Ok(reloaded) => {
                tracing::info!(applied = ?reloaded.applied, "the configuration was read again");
                for Pending { key, needs } in &reloaded.pending {
                    tracing::warn!(key, needs, "a changed value of the configuration is not in force");
                }
                Ok(reloaded)
            }
            Err(error) => {
                tracing::error!(error, "the configuration stays as it was");
                Err(error)
            }
        }
    }

    fn try_reload(&self) -> Result<Reloaded, String> {
        let file = self.config.file.as_ref().ok_or("the gateway has no configuration file")?;
        let new = Config::load(file).map_err(|error| error.to_string())?;
        let security = self.nfs_security.prepare(&new.nfs)?;
        let old = self.live.borrow().clone();
        let old = Arc::new(Config { clouds: self.clouds.configured(), ..Config::clone(&old) });
        let served = self.volume_names();
        if let Some(volume) = left_out(&old, &new, &served) {
            let file = file.display();
            return Err(format!(
                "{file}: volume {volume:?} is not there any more, and what its export demanded would go with it; put it back, or restart the gateway to do without"
            ));
        }
        let mut reloaded = differences(&old, &new, &served);

        let mut in_force = Config::clone(&old);
        in_force.nfs.tls = new.nfs.tls;
        in_force.nfs.keytab = new.nfs.keytab;
        let names = (new.nfs.names, new.nfs.domain);
        let renamed = names != (old.nfs.names, old.nfs.domain.clone());
        (in_force.nfs.names, in_force.nfs.domain) = names;
        in_force.log.level = new.log.level;
        in_force.upkeep.stop_wait = new.upkeep.stop_wait;
        in_force.scan = scans::reloaded(&old.scan, &new.scan);
        in_force.volumes = new.volumes;
        if self.nfs_security.apply(security)? {
            reloaded.applied.push(SECRETS.into());
        }
        if renamed {
            self.server.replace_names(name_mapping(&in_force.nfs, &self.environment));
        }
        let scan = in_force.scan.stage(in_force.cache.journal);
        self.live.send_replace(Arc::new(in_force));
        if let Err(error) = self.offer() {
            self.live.send_replace(old);
            return Err(error.to_string());
        }
        self.server.replace_security(self.nfs_security.offer());
        if let Some(shared) = &self.scan {
            shared.change(scan);
        }
        Ok(reloaded)
    }
}

/// A volume whose export is not the usual one, and which has no section any more: the file may be half written.
fn left_out<'a>(old: &Config, new: &Config, served: &'a [String]) -> Option<&'a String> {
    let usual = flatten(&ExportConfig::default());
    let demands =
        |name: &str| old.volumes.iter().any(|known| known.name == name && flatten(&known.export) != usual);
    served.iter().find(|name| demands(name) && !new.volumes.iter().any(|volume| volume.name == **name))
}

/// What becomes of every key in which the two differ. `served`: volumes that exist.
fn differences(old: &Config, new: &Config, served: &[String]) -> Reloaded {
    let mut reloaded = Reloaded::default();
    for key in different(&sections(old), &sections(new)) {
        if old.overridden.contains(&key) {
            continue;
        }
        match applies(&key) {
            true => reloaded.applied.push(key),
            false => reloaded.wait(key, RESTART),
        }
    }
    reloaded.clouds(&old.clouds, &new.clouds);
    reloaded.volumes(&old.volumes, &new.volumes, served);
    reloaded
}

/// Whether a value outside of the lists can change while the gateway runs.
fn applies(key: &str) -> bool {
    let keys = ["log.level", "upkeep.stop_wait", "nfs.keytab", "nfs.names", "nfs.domain"];
    let of_scans = ["scan.infected", "scan.fail", "scan.largest", "scan.open_wait", "scan.rescan"];
    keys.contains(&key) || of_scans.contains(&key) || key.starts_with("nfs.tls.")
}

impl Reloaded {
    fn wait(&mut self, key: String, needs: &str) {
        self.pending.push(Pending { key, needs: needs.into() });
    }

    fn clouds(&mut self, old: &[CloudConfig], new: &[CloudConfig]) {
        for cloud in new {
            let name = &cloud.name;
            match old.iter().find(|known| known.name == *name) {
                None => self.wait(format!("cloud.{name}"), RESTART),
                Some(known) => {
                    for key in different(&flatten(known), &flatten(cloud)) {
                        self.wait(format!("cloud.{name}.{key}"), RESTART);
                    }
                }
            }
        }
        for gone in old.iter().filter(|known| !new.iter().any(|cloud| cloud.name == known.name)) {
            self.wait(format!("cloud.{}", gone.name), "restart the gateway, or `kurma cloud remove`");
        }
    }

    fn volumes(&mut self, old: &[VolumeConfig], new: &[VolumeConfig], served: &[String]) {
        let usual = ExportConfig::default();
        let export = |volumes: &[VolumeConfig], name: &str| {
            let volume = volumes.iter().find(|volume| volume.name == name);
            flatten(volume.map_or(&usual, |volume| &volume.export))
        };
        // A volume that is elsewhere need not be here.
        let elsewhere = |volumes: &[VolumeConfig]| -> BTreeSet<String> {
            let elsewhere = volumes.iter().filter(|volume| !volume.export.referral.is_empty());
            elsewhere.map(|volume| volume.name.clone()).collect()
        };
        let mut offered: BTreeSet<String> = served.iter().cloned().collect();
        offered.extend(elsewhere(old).into_iter().chain(elsewhere(new)));
        for name in &offered {
            for key in different(&export(old, name), &export(new, name)) {
                self.applied.push(format!("volume.{name}.export.{key}"));
            }
        }
        for volume in new {
            let name = &volume.name;
            if !served.contains(name) && !volume.export.referral.is_empty() {
                continue;
            }
            if !served.contains(name) {
                let needs = "restart the gateway, which then makes it, or `kurma volume create`";
                self.wait(format!("volume.{name}"), needs);
                continue;
            }
            let Some(known) = old.iter().find(|known| known.name == *name) else { continue };
            let keys = different(&flatten(known), &flatten(volume)).into_iter();
            for key in keys.filter(|key| !key.starts_with("export.")) {
                let needs = "`kurma volume set`: a volume that exists keeps its own";
                self.wait(format!("volume.{name}.{key}"), needs);
            }
        }
    }
}

/// Everything but the lists.
fn sections(config: &Config) -> Vec<(String, Value)> {
    flatten(&Config { clouds: Vec::new(), volumes: Vec::new(), ..config.clone() })
}

/// Keys whose values differ, in their order.
fn different(old: &[(String, Value)], new: &[(String, Value)]) -> Vec<String> {
    let old: BTreeMap<&str, &Value> = old.iter().map(|(key, value)| (&**key, value)).collect();
    let changed = new.iter().filter(|(key, value)| old.get(&**key) != Some(&value));
    changed.map(|(key, _)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::test_node;

    const START: &str = "[nfs]\nlease = '45s'\n\
        [[cloud]]\nname = 'a'\nurl = 'dir:a'\n[[cloud]]\nname = 'b'\nurl = 'dir:b'\n\
        [[volume]]\nname = 'v'\npolicy = 'replicas:1'\n[[volume]]\nname = 'w'\npolicy = 'replicas:1'\n";

    fn parsed(text: &str) -> Config {
        Config::parse(text, Path::new("k.toml")).unwrap()
    }

    fn told(text: &str) -> (Vec<String>, Vec<String>) {
        let served = ["v".to_owned(), "w".to_owned()];
        let Reloaded { applied, pending } = differences(&parsed(START), &parsed(text), &served);
        (applied, pending.into_iter().map(|pending| pending.key).collect())
    }

    #[test]
    fn every_difference_is_in_force_or_named() {
        let nothing: &[String] = &[];
        assert_eq!(told(START), (nothing.to_vec(), nothing.to_vec()));
        let cases = [
            ("lease = '45s'", "lease = '60s'", "", "nfs.lease"),
            ("lease = '45s'", "", "", "nfs.lease"),
            ("[nfs]", "[log]\nlevel = 'info'\nformat = 'json'\n[nfs]", "log.level", "log.format"),
            ("[nfs]", "[upkeep]\nstop_wait = '1s'\n[nfs]", "upkeep.stop_wait", ""),
            (
                "[nfs]",
                "[nfs.tls]\ncertificate = 'c'\nkey = 'k'\n[nfs]",
                "nfs.tls.certificate nfs.tls.key",
                "",
            ),
            ("[nfs]", "[nfs]\nkeytab = 'k'", "nfs.keytab", ""),
            ("[nfs]", "[nfs]\nnames = 'system'\ndomain = 'example.org'", "nfs.names nfs.domain", ""),
            ("[[cloud]]\nname = 'b'\nurl = 'dir:b'\n", "", "", "cloud.b"),
            ("'dir:b'", "'dir:c'", "", "cloud.b.url"),
            ("name = 'b'", "name = 'c'", "", "cloud.c cloud.b"),
            ("name = 'w'", "name = 'x'", "", "volume.x"),
            ("name = 'w'", "name = 'w'\nblock_size = '64KiB'", "", "volume.w.block_size"),
            (
                "name = 'w'",
                "name = 'w'\nexport = { read_only = true, acls = true }",
                "volume.w.export.read_only volume.w.export.acls",
                "",
            ),
            ("[[volume]]\nname = 'v'\npolicy = 'replicas:1'\n", "", "", ""),
            (
                "name = 'w'",
                "name = 'far'\npolicy = 'replicas:1'\nexport = { referral = ['box:/far'] }\n[[volume]]\nname = 'w'",
                "volume.far.export.referral",
                "",
            ),
        ];
        for (from, to, applied, pending) in cases {
            let changed = START.replacen(from, to, 1);
            assert_ne!(changed, START);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let (now, later) = told(&changed);
            let sorted = |mut keys: Vec<String>| {
                keys.sort();
                keys
            };
            assert_eq!(
                (sorted(now), sorted(later)),
                (sorted(words(applied)), sorted(words(pending))),
                "{to}"
            );
        }
    }

    #[test]
    fn what_the_command_line_said_is_not_compared_with_the_file() {
        let mut old = parsed(START);
        old.nfs.listen = "127.0.0.1:9".parse().unwrap();
        old.overridden = vec!["nfs.listen".into()];
        assert_eq!(differences(&old, &parsed(START), &[]).applied, Vec::<String>::new());
        let keys: Vec<_> = differences(&old, &parsed(START), &["v".into(), "w".into()]).pending;
        assert_eq!(keys, []);
    }

    #[test]
    fn no_export_loses_what_it_demands_because_a_file_is_half_written() {
        let (old, served) =
            (parsed(&format!("{START}export = {{ squash = 'all' }}\n")), ["v".into(), "w".into()]);
        let without = |name| parsed(&START.replace(&format!("name = '{name}'"), "name = 'x'"));
        assert_eq!(left_out(&old, &without("w"), &served), Some(&"w".to_owned()));
        assert_eq!(left_out(&old, &parsed(""), &served), Some(&"w".to_owned()));
        assert_eq!(left_out(&old, &without("v"), &served), None, "it demands nothing");
        assert_eq!(left_out(&old, &parsed(START), &served), None, "as it says");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_reload_puts_in_force_what_it_says_and_a_bad_file_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let node = test_node::open(folder.path(), &["a", "b", "c"]).await;
        let file = folder.path().join("kurma.toml");
        let good = std::fs::read_to_string(&file).unwrap();
        assert_eq!(node.reload().await, Ok(Reloaded::default()));
        let changed = format!("[upkeep]\nstop_wait = '7s'\n{good}export = {{ read_only = true }}\n");
        std::fs::write(&file, &changed).unwrap();
        let reloaded = node.reload().await.unwrap();
        assert_eq!(reloaded.applied, ["upkeep.stop_wait", "volume.home.export.read_only"]);
        assert_eq!(reloaded.pending, []);
        assert_eq!(node.reload().await, Ok(Reloaded::default()), "it is in force");
        for bad in [
            changed.replace("read_only", "readonly"),
            format!("[nfs.tls]\ncertificate = 'missing'\nkey = 'missing'\n{good}"),
            format!("[nfs]\nkeytab = 'kurma.toml'\n{good}"),
            "= 1".into(),
        ] {
            std::fs::write(&file, &bad).unwrap();
            let before = node.live.borrow().clone();
            assert!(node.reload().await.is_err(), "{bad}");
            assert!(Arc::ptr_eq(&before, &node.live.borrow()), "{bad}");
        }
        std::fs::write(&file, format!("[nfs]\nlease = '60s'\n{good}")).unwrap();
        for _ in 0..2 {
            let reloaded = node.reload().await.unwrap();
            let pending: Vec<_> = reloaded.pending.iter().map(|pending| pending.key.as_str()).collect();
            assert_eq!(pending, ["nfs.lease"], "until the restart");
        }
        assert!(!node.live.borrow().volumes[0].export.read_only);
    }
}
