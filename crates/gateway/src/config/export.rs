use nfs4_server::{ExportOptions, Location, Network};
use serde::{Deserialize, Serialize};

use super::protection::{ExportTls, Sec, export_security, usual_sec};

/// Whose requests are taken for the anonymous user's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Squash {
    /// Those that name no user.
    #[default]
    None,
    /// Also those of user 0; group 0 becomes the anonymous group.
    Root,
    /// Everybody's.
    All,
}

/// How NFS clients see a volume. In force at every start, also for volumes that exist already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExportConfig {
    /// Whose requests are taken for the anonymous user's.
    pub squash: Squash,
    /// The anonymous user.
    pub anonuid: u32,
    /// The anonymous user's only group.
    pub anongid: u32,
    /// Whether clients may change nothing.
    pub read_only: bool,
    /// Whether clients can see and set access control lists. Then programs such as `ls -l` ask for the list of every file.
    pub acls: bool,
    /// Whether names that are not UTF-8 are refused. Otherwise names are bytes, as they are on a local disk.
    pub utf8: bool,
    /// Where the volume is if it is on another server, such as `box2.example.org:/home`: clients are sent there. It is then
    /// neither made nor served here.
    pub referral: Vec<String>,
    /// Where clients may come from, such as `10.1.0.0/16`, `fd00::/8` or one address. For all others the volume does
    /// not exist. An address proves nothing about who has it: see docs/security.md.
    pub networks: Vec<String>,
    /// How clients may say who makes a request, best first.
    pub sec: Vec<Sec>,
    /// What is demanded of connections.
    pub tls: ExportTls,
    /// The machines, as `networks` names them, that are believed who their users are (`sys` and `none` of `sec`). Without
    /// this key the gateway's own, and all with a certificate where `tls` is `mutual`. From elsewhere only Kerberos is
    /// taken.
    pub trusted: Option<Vec<String>>,
}

impl Default for ExportConfig {
    fn default() -> ExportConfig {
        let ExportOptions { anonymous_uid, anonymous_gid, read_only, acls, utf8, networks, .. } =
            ExportOptions::default();
        ExportConfig {
            squash: Squash::None,
            anonuid: anonymous_uid,
            anongid: anonymous_gid,
            read_only,
            acls,
            utf8,
            referral: Vec::new(),
            networks: networks.iter().map(Network::to_string).collect(),
            sec: usual_sec(),
            tls: ExportTls::default(),
            trusted: None,
        }
    }
}

impl ExportConfig {
    /// As the server takes it.
    ///
    /// # Errors
    /// What is wrong with a network, or with what is demanded.
    pub fn options(&self) -> Result<ExportOptions, String> {
        let trusted = self.trusted.as_deref().map(networks).transpose()?;
        Ok(ExportOptions {
            squash: match self.squash {
                Squash::None => nfs4_server::Squash::None,
                Squash::Root => nfs4_server::Squash::Root,
                Squash::All => nfs4_server::Squash::All,
            },
            anonymous_uid: self.anonuid,
            anonymous_gid: self.anongid,
            read_only: self.read_only,
            acls: self.acls,
            utf8: self.utf8,
            referral: locations(&self.referral)?,
            networks: networks(&self.networks)?,
            security: export_security(&self.sec, self.tls, trusted)?,
        })
    }
}

fn locations(texts: &[String]) -> Result<Vec<Location>, String> {
    let locations = texts.iter().map(|location| location.parse::<Location>());
    locations.collect::<Result<_, _>>().map_err(|cause| cause.to_string())
}

fn networks(texts: &[String]) -> Result<Vec<Network>, String> {
    let networks = texts.iter().map(|network| network.parse::<Network>());
    networks.collect::<Result<_, _>>().map_err(|cause| cause.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Config;

    #[test]
    fn a_volume_that_is_elsewhere_needs_no_clouds_here() {
        let parse = |referral: &str| {
            let text = format!("[[volume]]\nname = 'far'\nexport = {{ referral = {referral} }}");
            Config::parse(&text, Path::new("k.toml"))
        };
        let config = parse("['box2.example.org:/far', '[fd00::7]:/far']").unwrap();
        let options = config.volumes[0].export.options().unwrap();
        let shown: Vec<_> = options.referral.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["box2.example.org:/far", "[fd00::7]:/far"]);
        assert!(parse("[]").unwrap_err().to_string().contains("needs 3 clouds"));
        assert!(parse("['box2']").unwrap_err().to_string().contains("volume[0].export: "));
    }
}
