//! What an export demands of a request, and what a request shows.

use std::fmt;

use nfs4::{GssService, SecInfo};
use onc_rpc::gss::Protection;
use onc_rpc::{Credential, Transport};

/// A way to say who makes a request, as SECINFO offers it (RFC 8881 §18.29).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// AUTH_NONE: nobody in particular.
    None,
    /// AUTH_SYS: whoever the client's machine says.
    Sys,
    /// RPCSEC_GSS with Kerberos, which proves who it is.
    Krb5,
    /// The same, with a checksum over arguments and results.
    Krb5i,
    /// The same, with arguments and results encrypted.
    Krb5p,
}

/// What an export demands of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsDemand {
    /// Nothing.
    #[default]
    Optional,
    /// TLS (RFC 9289).
    Required,
    /// TLS, and a certificate of the client.
    Mutual,
}

/// What an export demands of a request; others get `NFS4ERR_WRONGSEC`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportSecurity {
    /// The ways to say who it is that are taken, best first.
    pub flavors: Vec<Flavor>,
    /// How it has to come.
    pub tls: TlsDemand,
}

impl Default for ExportSecurity {
    /// AUTH_SYS and AUTH_NONE, on whatever connection.
    fn default() -> ExportSecurity {
        ExportSecurity { flavors: vec![Flavor::Sys, Flavor::None], tls: TlsDemand::Optional }
    }
}

/// What a request shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    flavor: Option<Flavor>,
    tls: TlsDemand,
}

impl Shown {
    pub fn new(credential: &Credential, transport: &Transport) -> Shown {
        Shown {
            flavor: match credential {
                Credential::None => Some(Flavor::None),
                Credential::Sys(_) => Some(Flavor::Sys),
                Credential::Gss(gss) => Some(match gss.protection {
                    Protection::None => Flavor::Krb5,
                    Protection::Integrity => Flavor::Krb5i,
                    Protection::Privacy => Flavor::Krb5p,
                }),
                Credential::Other(_) => None,
            },
            tls: match transport.tls() {
                None => TlsDemand::Optional,
                Some(peer) if peer.certificate.is_none() => TlsDemand::Required,
                Some(_) => TlsDemand::Mutual,
            },
        }
    }
}

/// As it is written into logs.
impl fmt::Display for Shown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flavor = match self.flavor {
            None => "an unknown flavor",
            Some(Flavor::None) => "AUTH_NONE",
            Some(Flavor::Sys) => "AUTH_SYS",
            Some(Flavor::Krb5) => "krb5",
            Some(Flavor::Krb5i) => "krb5i",
            Some(Flavor::Krb5p) => "krb5p",
        };
        let transport = match self.tls {
            TlsDemand::Optional => "in clear text",
            TlsDemand::Required => "by TLS without a client certificate",
            TlsDemand::Mutual => "by TLS with a client certificate",
        };
        write!(out, "{flavor} {transport}")
    }
}

impl ExportSecurity {
    /// Whether a request that shows this is taken.
    pub(crate) fn admits(&self, shown: Shown) -> bool {
        shown.tls >= self.tls && shown.flavor.is_some_and(|flavor| self.flavors.contains(&flavor))
    }

    /// What SECINFO says.
    pub(crate) fn sec_info(&self) -> Vec<SecInfo> {
        sec_info(&self.flavors)
    }
}

/// These flavors as SECINFO says them.
pub(crate) fn sec_info(flavors: &[Flavor]) -> Vec<SecInfo> {
    let kerberos = |service| SecInfo::Gss { oid: SecInfo::KERBEROS_5, qop: 0, service };
    let flavor = |flavor: &Flavor| match flavor {
        Flavor::None => SecInfo::NONE,
        Flavor::Sys => SecInfo::SYS,
        Flavor::Krb5 => kerberos(GssService::None),
        Flavor::Krb5i => kerberos(GssService::Integrity),
        Flavor::Krb5p => kerberos(GssService::Privacy),
    };
    flavors.iter().map(flavor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_must_show_what_the_export_demands_and_may_show_more() {
        let security = |flavors: &[Flavor], tls| ExportSecurity { flavors: flavors.to_vec(), tls };
        let shown = |flavor, tls| Shown { flavor: Some(flavor), tls };
        let demands = [TlsDemand::Optional, TlsDemand::Required, TlsDemand::Mutual];
        for (strictness, demand) in demands.into_iter().enumerate() {
            for (strength, tls) in demands.into_iter().enumerate() {
                let admitted = security(&[Flavor::Sys], demand).admits(shown(Flavor::Sys, tls));
                assert_eq!(admitted, strength >= strictness, "{tls:?} where {demand:?} is demanded");
            }
        }
        let kerberos = security(&[Flavor::Krb5i, Flavor::Krb5p], TlsDemand::Optional);
        assert!(kerberos.admits(shown(Flavor::Krb5p, TlsDemand::Optional)));
        assert!(!kerberos.admits(shown(Flavor::Krb5, TlsDemand::Mutual)), "weaker");
        assert!(!kerberos.admits(shown(Flavor::Sys, TlsDemand::Mutual)));
        assert!(!kerberos.admits(Shown { flavor: None, tls: TlsDemand::Mutual }));
        let kerberos = |service| SecInfo::Gss { oid: SecInfo::KERBEROS_5, qop: 0, service };
        assert_eq!(
            sec_info(&[Flavor::Krb5p, Flavor::Sys]),
            [kerberos(GssService::Privacy), SecInfo::SYS],
            "in the order of the configuration"
        );
    }
}
