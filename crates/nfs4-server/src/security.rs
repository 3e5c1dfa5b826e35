//! What an export demands of a request, and what a request shows.

use std::fmt;
use std::net::IpAddr;

use nfs4::{GssService, SecInfo};
use onc_rpc::gss::Protection;
use onc_rpc::{Credential, Transport};

use crate::Network;

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
    /// Whose word is taken for who their users are (AUTH_SYS), or that it does not matter (AUTH_NONE). Everybody else
    /// has to prove it.
    pub trusted: Vec<Network>,
}

impl Default for ExportSecurity {
    /// AUTH_SYS and AUTH_NONE, on whatever connection, from this machine.
    fn default() -> ExportSecurity {
        ExportSecurity {
            flavors: vec![Flavor::Sys, Flavor::None],
            tls: TlsDemand::Optional,
            trusted: vec![Network::LOOPBACK_V4, Network::LOOPBACK_V6],
        }
    }
}

/// What a request shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    flavor: Option<Flavor>,
    tls: TlsDemand,
    address: IpAddr,
}

/// What a request lacks that an export demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lack {
    Flavor,
    Trust,
    Tls,
    Certificate,
}

impl Shown {
    pub fn new(credential: &Credential, transport: &Transport, address: IpAddr) -> Shown {
        Shown {
            address,
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

impl Shown {
    /// Whether it came without TLS.
    pub fn is_clear(&self) -> bool {
        self.tls == TlsDemand::Optional
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

/// As it is written into logs.
impl fmt::Display for Lack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Lack::Flavor => "the export takes others (`sec`)",
            Lack::Trust => "the export does not trust this address (`trusted`)",
            Lack::Tls => "the export demands TLS (`tls`)",
            Lack::Certificate => "the export demands a client certificate (`tls`)",
        })
    }
}

impl Flavor {
    /// Whether it proves anything.
    fn is_proof(self) -> bool {
        !matches!(self, Flavor::None | Flavor::Sys)
    }
}

impl ExportSecurity {
    /// What a request lacks that shows this; nothing if it is taken.
    pub(crate) fn lack(&self, shown: Shown) -> Option<Lack> {
        match shown.flavor {
            Some(flavor) if self.flavors.contains(&flavor) => {
                if !flavor.is_proof() && !self.trusts(shown.address) {
                    return Some(Lack::Trust);
                }
            }
            _ => return Some(Lack::Flavor),
        }
        match self.tls {
            demand if shown.tls >= demand => None,
            TlsDemand::Mutual if shown.tls == TlsDemand::Required => Some(Lack::Certificate),
            _ => Some(Lack::Tls),
        }
    }

    /// Whether a request that shows this is taken.
    pub(crate) fn admits(&self, shown: Shown) -> bool {
        self.lack(shown).is_none()
    }

    /// Whether something that is taken now is not taken by `other`.
    pub(crate) fn is_stricter_in(&self, other: &ExportSecurity) -> bool {
        self.flavors.iter().any(|flavor| !other.flavors.contains(flavor))
            || self.trusted.iter().any(|network| !other.trusted.contains(network))
            || self.tls < other.tls
    }

    /// Whether clients at this address are believed who their users are.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(address))
    }

    /// The ways for clients at this address to say who they are.
    pub(crate) fn flavors_for(&self, address: IpAddr) -> impl Iterator<Item = Flavor> {
        let trusted = self.trusts(address);
        self.flavors.iter().copied().filter(move |flavor| trusted || flavor.is_proof())
    }

    /// What SECINFO says to clients at this address: what is refused there is not offered (RFC 8881 §2.6.3.1).
    pub(crate) fn sec_info(&self, address: IpAddr) -> Vec<SecInfo> {
        sec_info(self.flavors_for(address))
    }
}

/// These flavors as SECINFO says them.
pub(crate) fn sec_info(flavors: impl IntoIterator<Item = Flavor>) -> Vec<SecInfo> {
    let kerberos = |service| SecInfo::Gss { oid: SecInfo::KERBEROS_5, qop: 0, service };
    let flavor = |flavor| match flavor {
        Flavor::None => SecInfo::NONE,
        Flavor::Sys => SecInfo::SYS,
        Flavor::Krb5 => kerberos(GssService::None),
        Flavor::Krb5i => kerberos(GssService::Integrity),
        Flavor::Krb5p => kerberos(GssService::Privacy),
    };
    flavors.into_iter().map(flavor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn only_trusted_addresses_are_believed_who_their_users_are() {
        let security = |trusted: &[&str]| ExportSecurity {
            flavors: vec![Flavor::Krb5, Flavor::Sys, Flavor::None],
            trusted: trusted.iter().map(|network| network.parse().unwrap()).collect(),
            ..Default::default()
        };
        let usual = ExportSecurity { trusted: ExportSecurity::default().trusted, ..security(&[]) };
        let cases = [
            (&usual, "127.3.2.1", true),
            (&usual, "::1", true),
            (&usual, "::ffff:127.0.0.1", true),
            (&usual, "10.0.0.1", false),
            (&usual, "192.168.1.1", false),
            (&usual, "fe80::1", false),
            (&security(&["10.0.0.0/8"]), "10.0.0.1", true),
            (&security(&["10.0.0.0/8"]), "127.0.0.1", false),
            (&security(&[]), "127.0.0.1", false),
        ];
        for (security, address, trusted) in cases {
            let address: IpAddr = address.parse().unwrap();
            let lack =
                |flavor| security.lack(Shown { flavor: Some(flavor), tls: TlsDemand::Mutual, address });
            let expected = if trusted { None } else { Some(Lack::Trust) };
            assert_eq!((lack(Flavor::Sys), lack(Flavor::None)), (expected, expected), "{address}");
            assert_eq!(lack(Flavor::Krb5), None, "what is proved needs no trust");
            let offered = security.sec_info(address);
            assert_eq!(offered.contains(&SecInfo::SYS), trusted, "{address}");
            assert_eq!(offered.len(), if trusted { 3 } else { 1 }, "{address}");
        }
    }

    #[test]
    fn a_request_must_show_what_the_export_demands_and_may_show_more() {
        let security =
            |flavors: &[Flavor], tls| ExportSecurity { flavors: flavors.to_vec(), tls, ..Default::default() };
        let shown = |flavor, tls| Shown { flavor: Some(flavor), tls, address: HERE };
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
        assert!(!kerberos.admits(Shown { flavor: None, tls: TlsDemand::Mutual, address: HERE }));
        let kerberos = |service| SecInfo::Gss { oid: SecInfo::KERBEROS_5, qop: 0, service };
        assert_eq!(
            sec_info([Flavor::Krb5p, Flavor::Sys]),
            [kerberos(GssService::Privacy), SecInfo::SYS],
            "in the order of the configuration"
        );
    }
}
