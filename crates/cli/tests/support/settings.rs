use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use environment::SystemEntropy;
use ids::GatewayId;
use seal::{KeyFile, create_key_file};

/// Every way to disperse blocks over three clouds (`K62`).
pub const DISPERSALS: [&str; 4] = ["rs:2+1", "replicas:3", "aont-rs:2+1", "caont-rs:2+1"];

/// A configuration that a scenario writes itself: one volume `home` over all the clouds.
#[derive(Clone)]
pub struct Settings {
    /// Name and address.
    pub clouds: Vec<(String, String)>,
    /// Name of a cloud and its file of credentials.
    pub credentials: Vec<(String, PathBuf)>,
    pub cloud_timeout: &'static str,
    /// What every cloud charges, as in the file.
    pub cloud_price: Option<&'static str>,
    pub policy: &'static str,
    pub block_size: &'static str,
    pub lease: &'static str,
    pub memory: &'static str,
    pub journal: &'static str,
    pub disk: &'static str,
    pub write_back_wait: &'static str,
    pub gc_delay: &'static str,
    pub in_flight: &'static str,
    pub stop_wait: &'static str,
    /// `0B`: every block is an object in each cloud.
    pub longest_packed: &'static str,
    /// `0s` for none: they are objects in the clouds, too.
    pub backups: &'static str,
    /// Whether files may have access control lists.
    pub acls: bool,
}

impl Settings {
    /// Three directory clouds in `folder`/clouds, `rs:2+1`, small blocks, short waits.
    pub fn in_folder(folder: &Path) -> Settings {
        let clouds = ["a", "b", "c"].map(|name| {
            let path = folder.join("clouds").join(name);
            std::fs::create_dir_all(&path).unwrap();
            (name.to_owned(), format!("dir:{}", path.display()))
        });
        Settings {
            clouds: clouds.into(),
            credentials: Vec::new(),
            cloud_timeout: "30s",
            cloud_price: None,
            policy: "rs:2+1",
            block_size: "64KiB",
            lease: "90s",
            memory: "64MiB",
            journal: "128MiB",
            disk: "64MiB",
            write_back_wait: "100ms",
            gc_delay: "0s",
            in_flight: "16MiB",
            stop_wait: "60s",
            longest_packed: "256KiB",
            backups: "1m",
            acls: false,
        }
    }

    /// With another address for the cloud of this name.
    #[must_use]
    pub fn with_cloud(mut self, name: &str, url: String) -> Settings {
        self.clouds.iter_mut().find(|(known, _)| known == name).expect("a known cloud").1 = url;
        self
    }

    /// With a file of credentials for the cloud of this name.
    #[must_use]
    pub fn with_credentials(mut self, name: &str, file: PathBuf) -> Settings {
        self.credentials.push((name.into(), file));
        self
    }

    /// The file.
    pub fn text(&self) -> String {
        let mut text = format!(
            "[gateway]\nid = 1\ndata = \".\"\nkey_file = \"keys/gateway.key\"\n\
             [nfs]\nlease = \"{}\"\n\
             [cache]\nmemory = \"{}\"\njournal = \"{}\"\ndisk = \"{}\"\nwrite_back_wait = \"{}\"\n\
             [upkeep]\ngc_delay = \"{}\"\nin_flight = \"{}\"\nstop_wait = \"{}\"\nlongest_packed = \"{}\"\n\
             [backup]\ninterval = \"{}\"\n",
            self.lease,
            self.memory,
            self.journal,
            self.disk,
            self.write_back_wait,
            self.gc_delay,
            self.in_flight,
            self.stop_wait,
            self.longest_packed,
            self.backups
        );
        for (name, url) in &self.clouds {
            let timeout = self.cloud_timeout;
            write!(text, "[[cloud]]\nname = \"{name}\"\nurl = \"{url}\"\ntimeout = \"{timeout}\"\n").unwrap();
            if let Some(price) = self.cloud_price {
                writeln!(text, "price = {price}").unwrap();
            }
            if let Some((_, file)) = self.credentials.iter().find(|(known, _)| known == name) {
                writeln!(text, "credentials = {file:?}").unwrap();
            }
        }
        let names: Vec<String> = self.clouds.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        write!(
            text,
            "[[volume]]\nname = \"home\"\npolicy = \"{}\"\nclouds = [{}]\nblock_size = \"{}\"\n",
            self.policy,
            names.join(", "),
            self.block_size
        )
        .unwrap();
        if self.acls {
            text.push_str("export = { acls = true }\n");
        }
        text
    }

    /// Makes `data` a data folder with this configuration and, unless it has one, a new key.
    pub fn write(&self, data: &Path) {
        std::fs::create_dir_all(data.join("keys")).unwrap();
        let key = data.join("keys/gateway.key");
        if !key.exists() {
            create_key_file(&key, &KeyFile::generate(GatewayId(1), &SystemEntropy::new())).unwrap();
        }
        std::fs::write(data.join("kurma.toml"), self.text()).unwrap();
    }
}
