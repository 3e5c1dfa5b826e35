//! How NFS traffic is protected, and how clients prove who they are.

use std::path::{Path, PathBuf};

use nfs4_server::{ExportSecurity, Flavor, Network, TlsDemand};
use serde::{Deserialize, Serialize};

/// A way for clients to say who makes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sec {
    /// Not at all: such requests are the anonymous user's.
    None,
    /// The client's word for it (AUTH_SYS).
    Sys,
    /// Kerberos.
    Krb5,
    /// Kerberos, with checksums over everything.
    Krb5i,
    /// Kerberos, with everything encrypted.
    Krb5p,
}

/// What a volume demands of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExportTls {
    /// Nothing.
    #[default]
    Optional,
    /// TLS.
    Required,
    /// TLS, and a certificate of the client.
    Mutual,
}

/// The default for `sec`.
pub(super) fn usual_sec() -> Vec<Sec> {
    vec![Sec::Sys, Sec::None]
}

/// As the server takes it.
pub(super) fn export_security(
    sec: &[Sec],
    tls: ExportTls,
    trusted: Option<Vec<Network>>,
) -> Result<ExportSecurity, String> {
    if sec.is_empty() {
        return Err("`sec` is empty: nobody could use the volume".into());
    }
    let flavor = |sec: &Sec| match sec {
        Sec::None => Flavor::None,
        Sec::Sys => Flavor::Sys,
        Sec::Krb5 => Flavor::Krb5,
        Sec::Krb5i => Flavor::Krb5i,
        Sec::Krb5p => Flavor::Krb5p,
    };
    let trusted = match (trusted, tls) {
        (Some(trusted), _) => trusted,
        (None, ExportTls::Mutual) => vec![Network::ALL_V4, Network::ALL_V6],
        (None, _) => ExportSecurity::default().trusted,
    };
    let tls = match tls {
        ExportTls::Optional => TlsDemand::Optional,
        ExportTls::Required => TlsDemand::Required,
        ExportTls::Mutual => TlsDemand::Mutual,
    };
    Ok(ExportSecurity { flavors: sec.iter().map(flavor).collect(), tls, trusted })
}

/// TLS for all of NFS (RFC 9289), by PEM files. Without a certificate it is not offered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NfsTlsConfig {
    /// Refuse every client that does not use it.
    pub required: bool,
    /// The server's certificate, and what links it to its authority.
    pub certificate: Option<PathBuf>,
    /// The private key to it.
    pub key: Option<PathBuf>,
    /// The authorities of clients' certificates. With them clients may show one.
    pub client_authorities: Option<PathBuf>,
}

impl NfsTlsConfig {
    /// Makes relative paths absolute.
    pub(super) fn resolve(&mut self, folder: &Path) {
        for path in [&mut self.certificate, &mut self.key, &mut self.client_authorities].into_iter().flatten()
        {
            *path = folder.join(&*path);
        }
    }

    /// What cannot be meant.
    pub(super) fn check(&self) -> Result<(), String> {
        match (&self.certificate, &self.key) {
            (Some(_), None) => Err("`certificate` needs `key`, the private key to it".into()),
            (None, Some(_)) => Err("`key` needs `certificate`".into()),
            (None, None) if self.required || self.client_authorities.is_some() => {
                Err("TLS needs `certificate` and `key`".into())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn what_volumes_demand_and_the_server_offers_is_read() {
        let text = "[nfs]\nkeytab = 'nfs.keytab'\n[nfs.tls]\nrequired = true\ncertificate = 'c.pem'\nkey = 'k.pem'\n\
                    [[cloud]]\nname = 'a'\nurl = 'dir:a'\n[[volume]]\nname = 'v'\npolicy = 'replicas:1'\n\
                    [volume.export]\nsec = ['krb5p', 'sys']\ntls = 'mutual'\n";
        let config = Config::parse(text, Path::new("k.toml")).unwrap();
        assert!(config.nfs.tls.required && config.nfs.keytab.is_some());
        let security = config.volumes[0].export.options().unwrap().security;
        assert_eq!(security.flavors, [Flavor::Krb5p, Flavor::Sys]);
        assert_eq!(security.tls, TlsDemand::Mutual);
    }

    #[test]
    fn halves_of_tls_are_refused() {
        for wrong in ["required = true", "certificate = 'c'", "key = 'k'", "client_authorities = 'a'"] {
            let error = Config::parse(&format!("[nfs.tls]\n{wrong}\n"), Path::new("k.toml")).unwrap_err();
            assert!(error.to_string().contains("nfs.tls: "), "{error}");
        }
        assert!(export_security(&[], ExportTls::Optional, None).is_err());
    }

    #[test]
    fn this_machine_is_trusted_or_who_has_a_certificate_or_who_is_named() {
        let trusted = |export: &str| {
            let text = format!(
                "[[cloud]]\nname = 'a'\nurl = 'dir:a'\n[[volume]]\nname = 'v'\npolicy = 'replicas:1'\nexport = {{ {export} }}"
            );
            let config = Config::parse(&text, Path::new("k.toml")).map_err(|error| error.to_string())?;
            Ok::<_, String>(config.volumes[0].export.options().unwrap().security.trusted)
        };
        let loopback = vec![Network::LOOPBACK_V4, Network::LOOPBACK_V6];
        assert_eq!(trusted(""), Ok(loopback.clone()));
        assert_eq!(trusted("tls = 'required'"), Ok(loopback));
        assert_eq!(trusted("tls = 'mutual'"), Ok(vec![Network::ALL_V4, Network::ALL_V6]));
        let named = Ok(vec!["10.1.0.0/16".parse().unwrap()]);
        assert_eq!(trusted("tls = 'mutual', trusted = ['10.1.0.0/16']"), named);
        assert_eq!(trusted("trusted = []"), Ok(Vec::new()));
        assert!(trusted("trusted = ['lan']").unwrap_err().contains("volume[0].export: "));
    }
}
