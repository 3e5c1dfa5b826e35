//! TLS and Kerberos for the NFS server, from the files that the configuration names.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use environment::Environment;
use kerberos::{Kerberos, Keytab};
use onc_rpc::Security;
use onc_rpc::gss::{GssLimits, GssServer};
use onc_rpc::tls::{ClientCertificates, TlsServer};
use parking_lot::{Mutex, RwLock};
use zeroize::Zeroizing;

use crate::config::NfsConfig;
use crate::name_service::{KerberosUsers, SystemNames};

/// The service that clients ask a ticket for: `nfs/HOST@REALM`.
const SERVICE: &str = "nfs";

/// How often the files are looked at again.
const INTERVAL: Duration = Duration::from_secs(60);

/// What the NFS server offers, and where it comes from.
pub(crate) struct NfsSecurity {
    environment: Environment,
    offered: Mutex<Offered>,
}

struct Offered {
    config: NfsConfig,
    /// What the files held when they were last looked at, or why they could not be read.
    seen: Result<blake3::Hash, String>,
    tls: Option<Arc<TlsServer>>,
    kerberos: Option<Krb5>,
}

/// Kerberos, with what changes with the keytab.
struct Krb5 {
    mechanism: Arc<Kerberos>,
    users: Arc<KerberosUsers>,
    gss: Arc<GssServer>,
}

/// The contents of the files; what is not configured is empty.
struct Files {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
    client_authorities: Option<Vec<u8>>,
    keytab: Zeroizing<Vec<u8>>,
}

/// What is about to be offered: read and found to be good.
pub(crate) struct Prepared {
    config: NfsConfig,
    files: Files,
    tls: Option<TlsServer>,
    keytab: Option<Keytab>,
}

impl NfsSecurity {
    /// Reads the files that the configuration names.
    ///
    /// # Errors
    /// Which file cannot be read, or what is wrong with it.
    pub fn load(config: &NfsConfig, environment: &Environment) -> Result<NfsSecurity, String> {
        let prepared = Prepared::new(config, Files::read(config)?)?;
        let nothing =
            Offered { config: config.clone(), seen: Ok(prepared.files.digest()), tls: None, kerberos: None };
        let security = NfsSecurity { environment: environment.clone(), offered: Mutex::new(nothing) };
        security.apply(prepared)?;
        Ok(security)
    }

    /// As the server takes it.
    pub fn offer(&self) -> Security {
        let offered = self.offered.lock();
        Security {
            tls: offered.tls.clone(),
            tls_required: offered.config.tls.required,
            gss: offered.kerberos.as_ref().map(|kerberos| kerberos.gss.clone()),
        }
    }

    /// Reads the files that another configuration names; changes nothing.
    ///
    /// # Errors
    /// Which file cannot be read, or what is wrong with it.
    pub fn prepare(&self, config: &NfsConfig) -> Result<Prepared, String> {
        Prepared::new(config, Files::read(config)?)
    }

    /// Uses other certificates and keys from now on; says whether they are others. Connections and security contexts stay.
    /// What is offered may be something else then: [`NfsSecurity::offer`].
    pub fn apply(&self, prepared: Prepared) -> Result<bool, String> {
        self.offered.lock().replace(prepared, &self.environment)
    }

    /// Takes up other certificates and keys when the files change, for connections and contexts made from then on. What
    /// cannot be used is told once, and changes nothing.
    pub async fn follow(&self) {
        loop {
            self.environment.clock.sleep(INTERVAL).await;
            match self.refresh() {
                None => {}
                Some(Ok(_)) => tracing::info!("other certificates and keys of the NFS server are in use"),
                Some(Err(error)) => {
                    tracing::warn!(error, "certificates and keys of the NFS server stay as they were");
                }
            }
        }
    }

    /// Uses the files if they differ from what they were when they were last looked at.
    fn refresh(&self) -> Option<Result<bool, String>> {
        let mut offered = self.offered.lock();
        let files = Files::read(&offered.config);
        let seen = files.as_ref().map(Files::digest).map_err(String::clone);
        if seen == offered.seen {
            return None;
        }
        offered.seen = seen;
        let prepared = files.and_then(|files| Prepared::new(&offered.config, files));
        Some(prepared.and_then(|prepared| offered.replace(prepared, &self.environment)))
    }
}

impl Offered {
    fn replace(&mut self, prepared: Prepared, environment: &Environment) -> Result<bool, String> {
        let Prepared { config, files, tls, keytab } = prepared;
        match (&self.tls, tls) {
            // In its place, for the sake of connections that are about to ask for it.
            (Some(known), Some(_)) => known
                .replace(&files.certificate, &files.key, files.clients())
                .map_err(|error| format!("nfs.tls: {error}"))?,
            (_, tls) => self.tls = tls.map(Arc::new),
        }
        match (&self.kerberos, keytab) {
            (Some(known), Some(keytab)) => {
                *known.users.realms.write() = keytab.realms();
                known.mechanism.replace_keytab(keytab);
            }
            (known, keytab) => {
                // Connections that were made before still offer it: no new context comes of that.
                if let Some(known) = known {
                    known.mechanism.replace_keytab(Keytab::default());
                }
                self.kerberos = keytab.map(|keytab| Krb5::new(keytab, environment));
            }
        }
        let seen = Ok(files.digest());
        let differs = self.seen != seen;
        (self.config, self.seen) = (config, seen);
        Ok(differs)
    }
}

impl Prepared {
    fn new(config: &NfsConfig, files: Files) -> Result<Prepared, String> {
        let tls = config.tls.certificate.as_ref().map(|_| {
            let server = TlsServer::new(&files.certificate, &files.key, files.clients());
            server.map_err(|error| format!("nfs.tls: {error}"))
        });
        let keytab = config.keytab.as_ref().map(|_| files.keytab());
        let (tls, keytab) = (tls.transpose()?, keytab.transpose()?);
        Ok(Prepared { config: config.clone(), files, tls, keytab })
    }
}

impl Krb5 {
    fn new(keytab: Keytab, environment: &Environment) -> Krb5 {
        let names = Arc::new(SystemNames::new(environment.clock.clone()));
        let users = Arc::new(KerberosUsers { realms: RwLock::new(keytab.realms()), names });
        let mechanism = Arc::new(Kerberos::new(SERVICE, keytab, environment.entropy.clone()));
        let (environment, limits) = (environment.clone(), GssLimits::default());
        let gss = Arc::new(GssServer::new(mechanism.clone(), users.clone(), environment, limits));
        Krb5 { mechanism, users, gss }
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
        assert_eq!(security.refresh(), None);
        issue();
        assert_eq!(security.refresh().map(|used| used.is_ok()), Some(true));
        std::fs::write(path("key"), "no key").unwrap();
        assert!(matches!(security.refresh(), Some(Err(_))));
        assert_eq!(security.refresh(), None, "said already");
        assert!(NfsSecurity::load(&config, &environment).is_err());
        std::fs::remove_file(path("key")).unwrap();
        assert!(matches!(security.refresh(), Some(Err(_))));
        issue();
        assert_eq!(security.refresh().map(|used| used.is_ok()), Some(true));
        let certified = config.clone();
        config.keytab = Some(path("certificate"));
        let error = NfsSecurity::load(&config, &environment).err().unwrap();
        assert!(error.starts_with("nfs.keytab: "), "{error}");
        assert!(security.prepare(&config).is_err());

        let offered = || security.offer().tls.map(|tls| Arc::as_ptr(&tls));
        let before = offered();
        assert_eq!(security.apply(security.prepare(&certified).unwrap()), Ok(false), "the same files");
        issue();
        assert_eq!(security.apply(security.prepare(&certified).unwrap()), Ok(true));
        assert_eq!((security.refresh(), offered()), (None, before), "in its place, and not once more");
        security.apply(security.prepare(&NfsConfig::default()).unwrap()).unwrap();
        assert!(security.offer().tls.is_none());
        security.apply(security.prepare(&certified).unwrap()).unwrap();
        assert!(security.offer().tls.is_some());
    }

    /// With one key of `nfs/box@REALM`, for AES-256.
    fn keytab() -> Vec<u8> {
        let text = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
        let mut entry = [&[0, 2][..], &text("REALM"), &text("nfs"), &text("box")].concat();
        entry.extend([0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 18, 0, 32]);
        entry.extend([7; 32]);
        [&[5, 2][..], &(entry.len() as u32).to_be_bytes(), &entry].concat()
    }

    #[test]
    fn no_context_is_made_with_a_keytab_that_is_not_configured_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keytab");
        std::fs::write(&path, keytab()).unwrap();
        let kerberos = NfsConfig { keytab: Some(path), ..NfsConfig::default() };
        let security = NfsSecurity::load(&kerberos, &Environment::real()).unwrap();
        // As connections that were made before have it.
        let before = security.offered.lock().kerberos.as_ref().unwrap().mechanism.clone();
        assert!(before.has_keys());
        security.apply(security.prepare(&NfsConfig::default()).unwrap()).unwrap();
        assert!(security.offer().gss.is_none() && !before.has_keys());
        security.apply(security.prepare(&kerberos).unwrap()).unwrap();
        let after = security.offered.lock().kerberos.as_ref().unwrap().mechanism.clone();
        assert!(security.offer().gss.is_some() && after.has_keys() && !before.has_keys());
    }
}
