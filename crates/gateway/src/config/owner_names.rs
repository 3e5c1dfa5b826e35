use serde::{Deserialize, Serialize};

use super::NfsConfig;

/// What users and groups are called between the gateway and its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OwnerNames {
    /// By their numbers, which then mean the same everywhere.
    #[default]
    Numeric,
    /// By the names that this machine knows, with `domain`. Numbers are taken as well.
    System,
}

impl NfsConfig {
    /// What cannot be meant.
    pub(super) fn check_names(&self) -> Result<(), String> {
        match (&self.domain, self.names) {
            (None, OwnerNames::System) => {
                Err("`system` needs `domain`, the same that the clients have in /etc/idmapd.conf".into())
            }
            (Some(domain), _) if !is_domain(domain) => {
                Err(format!("{domain:?} is not a domain such as example.org"))
            }
            _ => Ok(()),
        }
    }
}

fn is_domain(text: &str) -> bool {
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=253).contains(&text.len()) && text.bytes().all(usual)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Config;

    #[test]
    fn names_need_a_domain() {
        let parse = |text: &str| Config::parse(&format!("[nfs]\n{text}"), Path::new("k.toml"));
        let config = parse("names = 'system'\ndomain = 'example.org'").unwrap();
        assert_eq!(
            (config.nfs.names, config.nfs.domain.as_deref()),
            (OwnerNames::System, Some("example.org"))
        );
        assert_eq!(Config::default().nfs.names, OwnerNames::Numeric);
        for wrong in ["names = 'system'", "domain = ''", "domain = 'a@b'", "domain = 'a b'"] {
            assert!(parse(wrong).unwrap_err().to_string().contains("nfs.names: "), "{wrong}");
        }
    }
}
