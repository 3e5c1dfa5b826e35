use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use environment::Entropy;
use ids::GatewayId;
use zeroize::Zeroizing;

use crate::secret::{KEY_LEN, derive, secret_key};
use crate::{GatewayKeyPair, KeyFileError, NodeKey};

const HEADING: &str = "\
# The key of a Kurma gateway. Whoever has this file can read everything that the gateway can read.
# Keep a copy of it away from the gateway: without it, nothing that is stored in the clouds can be opened.
";
/// The fields of version 1, in their order.
const FIELDS: [&str; 5] = ["kurma-key-file", "gateway", "id", "secret", "checksum"];
const CHECKSUM_LEN: usize = 8;

/// Which key file: a fingerprint of the gateway's public key. Prints as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyFileId(pub [u8; 16]);

impl fmt::Display for KeyFileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl FromStr for KeyFileId {
    type Err = String;

    fn from_str(text: &str) -> Result<KeyFileId, String> {
        let id = HEXLOWER.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        id.map(KeyFileId).ok_or_else(|| format!("{text:?} is not a key file id (32 hexadecimal digits)"))
    }
}

secret_key! {
    /// The one secret of a gateway.
    GatewaySecret
}

/// The contents of a gateway's key file: everything that a restore needs beside the clouds (decision D9).
///
/// As text, lines of `name = value`, with `#` comments and blank lines between them:
///
/// ```text
/// kurma-key-file = 1
/// gateway = 7
/// id = <32 hexadecimal digits: see KeyFileId>
/// secret = <64 hexadecimal digits>
/// checksum = <16 hexadecimal digits: BLAKE3 over the four lines above, each ended by one newline>
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFile {
    gateway: GatewayId,
    secret: GatewaySecret,
}

impl KeyFile {
    /// A new key for `gateway`.
    pub fn generate(gateway: GatewayId, entropy: &dyn Entropy) -> KeyFile {
        KeyFile { gateway, secret: GatewaySecret::generate(entropy) }
    }

    /// The gateway it belongs to.
    pub fn gateway(&self) -> GatewayId {
        self.gateway
    }

    /// Its fingerprint; data should record it, see [`KeyFile::check_owner`].
    pub fn id(&self) -> KeyFileId {
        self.gateway_keys().public().id()
    }

    /// The gateway's key pair.
    pub fn gateway_keys(&self) -> GatewayKeyPair {
        GatewayKeyPair::new(self.gateway, &derive(self.secret.as_bytes(), "kurma gateway x25519", &[]))
    }

    /// The key of the node named `node`; nodes of one gateway have different ones.
    pub fn node_key(&self, node: &str) -> NodeKey {
        NodeKey::from_bytes(*derive(self.secret.as_bytes(), "kurma node key", &[node.as_bytes()]))
    }

    /// A secret that all nodes of the gateway share, for the named purpose: authentication of file handles,
    /// metadata backups and the like.
    pub fn shared_secret(&self, purpose: &str) -> Zeroizing<[u8; KEY_LEN]> {
        derive(self.secret.as_bytes(), "kurma gateway shared secret", &[purpose.as_bytes()])
    }

    /// [`KeyFileError::WrongGateway`] unless this is the key file of `gateway` with the fingerprint `id`, which
    /// the caller found recorded in its data.
    pub fn check_owner(&self, gateway: GatewayId, id: KeyFileId) -> Result<(), KeyFileError> {
        if (self.gateway, self.id()) == (gateway, id) {
            return Ok(());
        }
        Err(KeyFileError::WrongGateway {
            file_gateway: self.gateway,
            file_id: self.id(),
            data_gateway: gateway,
            data_id: id,
        })
    }

    /// The text of the file.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut body = Zeroizing::new(String::with_capacity(256));
        let secret = Zeroizing::new(HEXLOWER.encode(self.secret.as_bytes()));
        // Writing to a string cannot fail.
        let _ = write!(
            body,
            "kurma-key-file = 1\ngateway = {}\nid = {}\nsecret = {}\n",
            self.gateway,
            self.id(),
            secret.as_str()
        );
        let sum = checksum(&body);
        let mut text = Zeroizing::new(String::with_capacity(HEADING.len() + body.len() + 40));
        let _ = writeln!(text, "{HEADING}{}checksum = {sum}", body.as_str());
        text
    }

    /// Reads what [`KeyFile::to_text`] wrote.
    pub fn parse(text: &str) -> Result<KeyFile, KeyFileError> {
        let malformed = |reason: String| KeyFileError::Malformed { reason };
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut values = [""; FIELDS.len()];
        for (field, value) in FIELDS.iter().zip(&mut values) {
            let line = lines.next().ok_or_else(|| malformed(format!("the line {field:?} is missing")))?;
            *value = line
                .split_once('=')
                .filter(|(name, _)| name.trim_end() == *field)
                .map(|(_, value)| value.trim_start())
                .ok_or_else(|| malformed(format!("expected a line \"{field} = ...\"")))?;
            if *field == FIELDS[0] && *value != "1" {
                return Err(KeyFileError::UnknownVersion { found: value.chars().take(20).collect() });
            }
        }
        if lines.next().is_some() {
            return Err(malformed("there is more after the checksum".to_owned()));
        }
        let [_, gateway, id, secret, sum] = values;
        let body = Zeroizing::new(format!(
            "kurma-key-file = 1\ngateway = {gateway}\nid = {id}\nsecret = {secret}\n"
        ));
        if checksum(&body) != sum {
            return Err(KeyFileError::Damaged { field: "checksum" });
        }
        let gateway = gateway
            .parse()
            .map_err(|_| malformed(format!("gateway {gateway:?} is not a number from 0 to 65535")))?;
        let key = KeyFile { gateway: GatewayId(gateway), secret: parse_secret(secret)? };
        if id.parse() != Ok(key.id()) {
            return Err(KeyFileError::Damaged { field: "id" });
        }
        Ok(key)
    }
}

fn parse_secret(text: &str) -> Result<GatewaySecret, KeyFileError> {
    let mut bytes = Zeroizing::new([0; KEY_LEN]);
    let good = text.len() == 2 * KEY_LEN
        && HEXLOWER.decode_mut(text.as_bytes(), &mut *bytes).is_ok_and(|len| len == KEY_LEN);
    if !good {
        let reason = "the secret is not 64 hexadecimal digits".to_owned();
        return Err(KeyFileError::Malformed { reason });
    }
    Ok(GatewaySecret::from_bytes(*bytes))
}

fn checksum(body: &str) -> String {
    HEXLOWER.encode(&blake3::hash(body.as_bytes()).as_bytes()[..CHECKSUM_LEN])
}

#[cfg(test)]
mod tests {
    use environment::SystemEntropy;
    use proptest::prelude::*;

    use super::*;

    fn fixed() -> KeyFile {
        KeyFile { gateway: GatewayId(7), secret: GatewaySecret::from_bytes([0x11; 32]) }
    }

    #[test]
    fn text_round_trips_also_with_windows_line_ends_and_spaces() {
        let key = KeyFile::generate(GatewayId(300), &SystemEntropy::new());
        let text = key.to_text();
        assert_eq!(KeyFile::parse(&text).unwrap(), key);
        assert_eq!(KeyFile::parse(&text.replace('\n', " \r\n\r\n")).unwrap(), key);
    }

    #[test]
    fn the_text_and_the_keys_of_version_1_never_change() {
        let text = fixed().to_text();
        assert!(text.ends_with("\nchecksum = 0288540f6e8c316a\n"), "{}", text.as_str());
        assert_eq!(fixed().id().to_string(), "ccf91610a4cbefe630ddbe2a41168b59");
        let node = "41df2c6e905a1718bfef0032f8f17076671aad7b9a42eddf99e198a4d1b49f29";
        assert_eq!(HEXLOWER.encode(fixed().node_key("a").as_bytes()), node);
        let shared = "76f322f7860b5ff8b53c6c1b3f5642be743772f827d02b7a48f03990f24c5e94";
        assert_eq!(HEXLOWER.encode(&*fixed().shared_secret("a")), shared);
    }

    #[test]
    fn the_key_file_of_another_gateway_is_named_in_the_error() {
        let other = KeyFile::generate(GatewayId(8), &SystemEntropy::new());
        assert!(fixed().check_owner(GatewayId(7), fixed().id()).is_ok());
        let error = fixed().check_owner(GatewayId(8), other.id()).unwrap_err().to_string();
        assert!(error.contains("belongs to gateway 7"), "{error}");
        assert!(error.contains("says gateway 8"), "{error}");
        assert!(error.contains(&other.id().to_string()), "{error}");
    }

    #[test]
    fn keys_for_different_nodes_and_purposes_differ() {
        let key = fixed();
        assert_ne!(key.node_key("a"), key.node_key("b"));
        assert_ne!(key.shared_secret("a"), key.shared_secret("b"));
        assert_ne!(&*key.shared_secret("a"), key.node_key("a").as_bytes());
    }

    #[test]
    fn a_newer_version_and_foreign_files_are_told_apart_from_damage() {
        let newer = fixed().to_text().replace("kurma-key-file = 1", "kurma-key-file = 2");
        assert!(
            matches!(KeyFile::parse(&newer), Err(KeyFileError::UnknownVersion { found }) if found == "2")
        );
        assert!(matches!(KeyFile::parse("-----BEGIN KEY-----"), Err(KeyFileError::Malformed { .. })));
        assert!(matches!(KeyFile::parse(""), Err(KeyFileError::Malformed { .. })));
        let swapped = fixed().to_text().replace("gateway = 7", "gateway = 8");
        assert!(matches!(KeyFile::parse(&swapped), Err(KeyFileError::Damaged { field: "checksum" })));
    }

    #[test]
    fn debug_output_shows_no_secret() {
        assert!(!format!("{:?}", fixed()).contains("11"));
    }

    proptest! {
        #[test]
        fn any_changed_character_of_the_fields_is_noticed(at: prop::sample::Index, to in "[0-9a-z]") {
            let text = fixed().to_text();
            let start = HEADING.len();
            let at = start + at.index(text.len() - start - 1);
            prop_assume!(text.as_bytes()[at] != to.as_bytes()[0] && text.as_bytes()[at] != b' ');
            let mut changed = text.to_string();
            changed.replace_range(at..=at, &to);
            prop_assert!(KeyFile::parse(&changed).is_err());
        }

        #[test]
        fn arbitrary_text_never_panics(text in "\\PC{0,300}") {
            prop_assert!(KeyFile::parse(&text).is_err());
        }
    }
}
