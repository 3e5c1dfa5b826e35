//! TLS and Kerberos for the NFS server, from the files that the configuration names.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use environment::Environment;
use kerberos::{Kerberos, Keytab};
use onc_rpc::Security;
use onc_rpc::gss::{GssLimits, GssServer, UnixUser, Users};
use onc_rpc::tls::{ClientCertificates, TlsServer};
use tokio::process::Command;
use zeroize::Zeroizing;

use crate::config::NfsConfig;

/// The service that clients ask a ticket for: `nfs/HOST@REALM`.
const SERVICE: &str = "nfs";

/// How often the files are looked at again.
const INTERVAL: Duration = Duration::from_secs(60);

/// What the NFS server offers, and where it comes from.
pub(crate) struct NfsSecurity {
    config: NfsConfig,
    tls: Option<Arc<TlsServer>>,
    kerberos: Option<Arc<Kerberos>>,
    gss: Option<Arc<GssServer>>,
}

/// The contents of the files; what is not configured is empty.
struct Files {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
    client_authorities: Option<Vec<u8>>,
    keytab: Zeroizing<Vec<u8>>,
}

impl NfsSecurity {
    /// Reads the files that the configuration names.
    ///
    /// # Errors
    /// Which file cannot be read, or what is wrong with it.
    pub fn load(config: &NfsConfig, environment: &Environment) -> Result<NfsSecurity, String> {
        let files = Files::read(config)?;
        let tls = match &config.tls.certificate {
            Some(_) => {
                let server = TlsServer::new(&files.certificate, &files.key, files.clients());
                Some(Arc::new(server.map_err(|error| format!("nfs.tls: {error}"))?))
            }
            None => None,
        };
        let (mut kerberos, mut gss) = (None, None);
        if config.keytab.is_some() {
            let keytab = files.keytab()?;
            let users = Arc::new(NameService { realms: keytab.realms() });
            let mechanism = Arc::new(Kerberos::new(SERVICE, keytab, environment.entropy.clone()));
            let server = GssServer::new(mechanism.clone(), users, environment.clone(), GssLimits::default());
            kerberos = Some(mechanism);
            gss = Some(Arc::new(server));
        }
        Ok(NfsSecurity { config: config.clone(), tls, kerberos, gss })
    }

    /// As the server takes it.
    pub fn offer(&self) -> Security {
        Security { tls: self.tls.clone(), tls_required: self.config.tls.required, gss: self.gss.clone() }
    }

    /// Takes up other certificates and keys when the files change, for connections and contexts made from then on. What
    /// cannot be used is told once, and changes nothing.
    pub async fn follow(&self, environment: &Environment) {
        let mut last = self.state();
        loop {
            environment.clock.sleep(INTERVAL).await;
            match self.refresh(&mut last) {
                None => {}
                Some(Ok(())) => tracing::info!("other certificates and keys of the NFS server are in use"),
                Some(Err(error)) => {
                    tracing::warn!(error, "certificates and keys of the NFS server stay as they were");
                }
            }
        }
    }

    /// What the files hold, or why they cannot be read.
    fn state(&self) -> Result<blake3::Hash, String> {
        Files::read(&self.config).map(|files| files.digest())
    }

    /// Uses the files if they differ from what they were at `last`.
    fn refresh(&self, last: &mut Result<blake3::Hash, String>) -> Option<Result<(), String>> {
        let files = Files::read(&self.config);
        let state = files.as_ref().map(Files::digest).map_err(String::clone);
        if state == *last {
            return None;
        }
        *last = state;
        Some(files.and_then(|files| self.replace(&files)))
    }

    fn replace(&self, files: &Files) -> Result<(), String> {
        if let Some(kerberos) = &self.kerberos {
            kerberos.replace_keytab(files.keytab()?);
        }
        match &self.tls {
            Some(tls) => tls
                .replace(&files.certificate, &files.key, files.clients())
                .map_err(|error| format!("nfs.tls: {error}")),
            None => Ok(()),
        }
    }
}

impl Files {
    fn read(config: &NfsConfig) -> Result<Files, String> {
        let content =
            |path: &Option<PathBuf>| path.as_deref().map(read).transpose().map(Option::unwrap_or_default);
        Ok(Files {
            certificate: content(&config.tls.certificate)?,
            key: content(&config.tls.key)?.into(),
            client_authorities: config.tls.client_authorities.as_deref().map(read).transpose()?,
            keytab: content(&config.keytab)?.into(),
        })
    }

    fn clients(&self) -> ClientCertificates<'_> {
        match &self.client_authorities {
            None => ClientCertificates::Ignored,
            Some(authorities) => ClientCertificates::Optional(authorities),
        }
    }

    fn keytab(&self) -> Result<Keytab, String> {
        let keytab = Keytab::read(&self.keytab).map_err(|error| format!("nfs.keytab: {error}"))?;
        if keytab.is_empty() {
            Err("nfs.keytab: no key of a supported type (AES)".into())
        } else {
            Ok(keytab)
        }
    }

    fn digest(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        let authorities = self.client_authorities.as_deref().unwrap_or_default();
        for content in [&self.certificate[..], &self.key[..], authorities, &self.keytab[..]] {
            hasher.update(blake3::hash(content).as_bytes());
        }
        hasher.finalize()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The users that this machine knows, from whatever its name service asks: `anna@REALM` is its user `anna`. Principals of
/// machines and services (`host/...`, `root/...`) are nobody, and so are those of other realms, where anybody may have
/// been given any name.
struct NameService {
    /// Those of the keytab.
    realms: Vec<String>,
}

#[async_trait]
impl Users for NameService {
    async fn user(&self, principal: &str) -> Option<UnixUser> {
        let (name, realm) = user_name(principal)?;
        if !self.realms.iter().any(|ours| ours == realm) {
            return None;
        }
        let uid = numbers("-u", name).await?.first().copied()?;
        let groups = numbers("-G", name).await?;
        Some(UnixUser { uid, gid: *groups.first()?, groups: groups.into() })
    }
}

/// The user that a principal may be, and its realm; only what `useradd` would take for a name.
fn user_name(principal: &str) -> Option<(&str, &str)> {
    let (name, realm) = principal.split_once('@')?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let usual =
        name.bytes().all(plain) && !name.starts_with('-') && name.bytes().any(|byte| !byte.is_ascii_digit());
    usual.then_some((name, realm))
}

/// What id(1) says, which asks the machine's name service also where this program is linked statically.
async fn numbers(option: &str, name: &str) -> Option<Vec<u32>> {
    let output = Command::new("id").args([option, "--", name]).kill_on_drop(true).output().await.ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_ascii_whitespace().map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use crate::config::NfsTlsConfig;

    use super::*;

    #[test]
    fn changed_files_are_taken_up_and_wrong_ones_are_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let issue = || {
            let made = rcgen::generate_simple_self_signed(["box.example".to_owned()]).unwrap();
            std::fs::write(path("key"), made.signing_key.serialize_pem()).unwrap();
            std::fs::write(path("certificate"), made.cert.pem()).unwrap();
        };
        issue();
        let tls = NfsTlsConfig {
            certificate: Some(path("certificate")),
            key: Some(path("key")),
            ..NfsTlsConfig::default()
        };
        let mut config = NfsConfig { tls, ..NfsConfig::default() };
        let environment = Environment::real();
        let security = NfsSecurity::load(&config, &environment).unwrap();
        assert!(security.offer().tls.is_some() && security.offer().gss.is_none());
        let mut last = security.state();
        assert_eq!(security.refresh(&mut last), None);
        issue();
        assert_eq!(security.refresh(&mut last), Some(Ok(())));
        std::fs::write(path("key"), "no key").unwrap();
        assert!(matches!(security.refresh(&mut last), Some(Err(_))));
        assert_eq!(security.refresh(&mut last), None, "said already");
        assert!(NfsSecurity::load(&config, &environment).is_err());
        std::fs::remove_file(path("key")).unwrap();
        assert!(matches!(security.refresh(&mut last), Some(Err(_))));
        issue();
        assert_eq!(security.refresh(&mut last), Some(Ok(())));
        config.keytab = Some(path("certificate"));
        let error = NfsSecurity::load(&config, &environment).err().unwrap();
        assert!(error.starts_with("nfs.keytab: "), "{error}");
    }

    #[tokio::test]
    async fn a_user_of_this_machine_is_found_with_his_groups_and_others_are_not() {
        let users = NameService { realms: vec!["EXAMPLE.ORG".into()] };
        let root = users.user("root@EXAMPLE.ORG").await.unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        for nobody in [
            "no-such-user@EXAMPLE.ORG",
            "root@OTHER.ORG",
            "host/box@EXAMPLE.ORG",
            "root\\@EXAMPLE.ORG@OTHER.ORG",
            "-u@EXAMPLE.ORG",
            "0@EXAMPLE.ORG",
            "@EXAMPLE.ORG",
            "root",
        ] {
            assert_eq!(users.user(nobody).await, None, "{nobody}");
        }
    }
}
