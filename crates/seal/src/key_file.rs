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
/// The fields before those of a version, in their order.
const FIELDS: [&str; 4] = ["kurma-key-file", "gateway", "id", "secret"];
const OPENER: &str = "opener";
const CHECKSUM: &str = "checksum";
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
    /// What stays the same as long as the gateway lives.
    GatewaySecret
}

secret_key! {
    /// What opens epoch keys, and can be destroyed when a successor does.
    OpenerSecret
}

/// Where the key pair comes from that epoch keys are wrapped to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Openers {
    /// Version 1: from the gateway's secret, so that it cannot be destroyed alone.
    OfSecret,
    /// Version 2: an opener of its own, of this generation; while it is being replaced, also the next one.
    Own { generation: u32, opener: OpenerSecret, next: Option<OpenerSecret> },
}

/// The contents of a gateway's key file: everything that a restore needs beside the clouds (decision D9).
///
/// As text, lines of `name = value`, with `#` comments and blank lines between them:
///
/// ```text
/// kurma-key-file = 2
/// gateway = 7
/// id = <32 hexadecimal digits: see KeyFileId>
/// secret = <64 hexadecimal digits>
/// opener = 3 <64 hexadecimal digits>
/// checksum = <16 hexadecimal digits: BLAKE3 over the lines above, each ended by one newline>
/// ```
///
/// The *opener* is what the gateway's key pair comes from, and a number, its *generation*. While it is being replaced there is a
/// second line with the next one (decision 27). Version 1 had no opener: its key pair comes from the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFile {
    gateway: GatewayId,
    secret: GatewaySecret,
    openers: Openers,
}

impl KeyFile {
    /// A new key for `gateway`.
    pub fn generate(gateway: GatewayId, entropy: &dyn Entropy) -> KeyFile {
        let secret = GatewaySecret::generate(entropy);
        let opener = OpenerSecret::generate(entropy);
        KeyFile { gateway, secret, openers: Openers::Own { generation: 1, opener, next: None } }
    }

    /// The generation of the newest opener; 0 if it has none of its own.
    pub fn generation(&self) -> u32 {
        match &self.openers {
            Openers::OfSecret => 0,
            Openers::Own { generation, next, .. } => generation + u32::from(next.is_some()),
        }
    }

    /// The generation of the oldest opener that is still there; 0 if it has none of its own.
    pub fn oldest_generation(&self) -> u32 {
        match &self.openers {
            Openers::OfSecret => 0,
            Openers::Own { generation, .. } => *generation,
        }
    }

    /// The same with one more opener, if it has only one. `None` for a file of version 1, whose opener cannot be replaced.
    pub fn with_next_opener(&self, entropy: &dyn Entropy) -> Option<KeyFile> {
        let Openers::Own { generation, opener, next } = &self.openers else { return None };
        let next = next.clone().unwrap_or_else(|| OpenerSecret::generate(entropy));
        let openers = Openers::Own { generation: *generation, opener: opener.clone(), next: Some(next) };
        Some(KeyFile { openers, ..self.clone() })
    }

    /// The same with nothing but the newest opener.
    #[must_use]
    pub fn with_newest_opener(&self) -> KeyFile {
        let openers = match &self.openers {
            Openers::Own { generation, next: Some(next), .. } => {
                Openers::Own { generation: generation + 1, opener: next.clone(), next: None }
            }
            other => other.clone(),
        };
        KeyFile { openers, ..self.clone() }
    }

    /// The gateway it belongs to.
    pub fn gateway(&self) -> GatewayId {
        self.gateway
    }

    /// The same with nothing but the oldest opener.
    #[must_use]
    pub fn with_oldest_opener(&self) -> KeyFile {
        let openers = match &self.openers {
            Openers::Own { generation, opener, .. } => {
                Openers::Own { generation: *generation, opener: opener.clone(), next: None }
            }
            Openers::OfSecret => Openers::OfSecret,
        };
        KeyFile { openers, ..self.clone() }
    }

    /// Its fingerprint, the same for all openers; data should record it, see [`KeyFile::check_owner`].
    pub fn id(&self) -> KeyFileId {
        match self.openers {
            Openers::OfSecret => self.gateway_keys().public().id(),
            Openers::Own { .. } => {
                let gateway = self.gateway.0.to_be_bytes();
                KeyFileId(*derive(self.secret.as_bytes(), "kurma key file id", &[&gateway]))
            }
        }
    }

    /// The gateway's key pair, of the newest opener; while that is being replaced, it opens what was wrapped to the one before, too.
    pub fn gateway_keys(&self) -> GatewayKeyPair {
        self.gateway_keys_of(self.generation())
    }

    /// As [`KeyFile::gateway_keys`], with the public key of this generation, if there is an opener of it.
    pub fn gateway_keys_of(&self, wanted: u32) -> GatewayKeyPair {
        let pair = |secret: &[u8; KEY_LEN]| {
            GatewayKeyPair::new(
                self.gateway,
                &derive(secret, "kurma gateway x25519", &[]),
                self.signing_key(),
            )
        };
        match &self.openers {
            Openers::OfSecret => pair(self.secret.as_bytes()),
            Openers::Own { opener, next: None, .. } => pair(opener.as_bytes()),
            Openers::Own { generation, opener, next: Some(next) } => {
                let (old, new) = (pair(opener.as_bytes()), pair(next.as_bytes()));
                if wanted == *generation { old.after(new) } else { new.after(old) }
            }
        }
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
        let mut body = Zeroizing::new(String::with_capacity(512));
        let hex = |secret: &[u8; KEY_LEN]| Zeroizing::new(HEXLOWER.encode(secret));
        let version = if self.openers == Openers::OfSecret { 1 } else { 2 };
        // Writing to a string cannot fail.
        let _ = write!(
            body,
            "kurma-key-file = {version}\ngateway = {}\nid = {}\nsecret = {}\n",
            self.gateway,
            self.id(),
            hex(self.secret.as_bytes()).as_str()
        );
        if let Openers::Own { generation, opener, next } = &self.openers {
            for (generation, opener) in (*generation..).zip([Some(opener), next.as_ref()]) {
                let Some(opener) = opener else { continue };
                let _ = writeln!(body, "{OPENER} = {generation} {}", hex(opener.as_bytes()).as_str());
            }
        }
        let sum = checksum(&body);
        let mut text = Zeroizing::new(String::with_capacity(HEADING.len() + body.len() + 40));
        let _ = writeln!(text, "{HEADING}{}{CHECKSUM} = {sum}", body.as_str());
        text
    }

    /// Reads what [`KeyFile::to_text`] wrote.
    pub fn parse(text: &str) -> Result<KeyFile, KeyFileError> {
        let malformed = |reason: String| KeyFileError::Malformed { reason };
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut lines = lines.peekable();
        let mut body = Zeroizing::new(String::with_capacity(512));
        let mut value = |field: &str| {
            let line = lines.next().ok_or_else(|| malformed(format!("the line {field:?} is missing")))?;
            let value = line
                .split_once('=')
                .filter(|(name, _)| name.trim_end() == field)
                .map(|(_, value)| value.trim_start())
                .ok_or_else(|| malformed(format!("expected a line \"{field} = ...\"")))?;
            if field != CHECKSUM {
                let _ = writeln!(body, "{field} = {value}");
            }
            let next = lines.peek().and_then(|line| line.split_once('='));
            Ok((value, next.is_some_and(|(name, _)| name.trim_end() == OPENER), lines.peek().is_none()))
        };
        let version = value(FIELDS[0])?.0;
        if !["1", "2"].contains(&version) {
            return Err(KeyFileError::UnknownVersion { found: version.chars().take(20).collect() });
        }
        let (gateway, id) = (value(FIELDS[1])?.0, value(FIELDS[2])?.0);
        let secret = value(FIELDS[3])?.0;
        let mut openers = Vec::new();
        if version == "2" {
            let (opener, more, _) = value(OPENER)?;
            openers.push(opener);
            if more {
                openers.push(value(OPENER)?.0);
            }
        }
        let (sum, _, is_last) = value(CHECKSUM)?;
        if !is_last {
            return Err(malformed("there is more after the checksum".to_owned()));
        }
        if checksum(&body) != sum {
            return Err(KeyFileError::Damaged { field: CHECKSUM });
        }
        let gateway = gateway
            .parse()
            .map_err(|_| malformed(format!("gateway {gateway:?} is not a number from 0 to 65535")))?;
        let secret = GatewaySecret::from_bytes(*parse_secret(secret, "the secret")?);
        let key = KeyFile { gateway: GatewayId(gateway), secret, openers: parse_openers(&openers)? };
        if id.parse() != Ok(key.id()) {
            return Err(KeyFileError::Damaged { field: "id" });
        }
        Ok(key)
    }

    /// All that it is, with the newest opener alone: for paper and for shares of it.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(128));
        bytes.push(if self.openers == Openers::OfSecret { 1 } else { 2 });
        bytes.extend_from_slice(&self.gateway.0.to_be_bytes());
        bytes.extend_from_slice(self.secret.as_bytes());
        if let Openers::Own { opener, next, .. } = &self.openers {
            bytes.extend_from_slice(&self.generation().to_be_bytes());
            bytes.extend_from_slice(next.as_ref().unwrap_or(opener).as_bytes());
        }
        bytes
    }

    /// Reads what [`KeyFile::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<KeyFile, KeyFileError> {
        let malformed = || KeyFileError::Malformed { reason: "bytes of another length".to_owned() };
        let (&version, rest) = bytes.split_first().ok_or_else(malformed)?;
        if !(1..=2).contains(&version) {
            return Err(KeyFileError::UnknownVersion { found: version.to_string() });
        }
        let (gateway, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
        let (secret, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
        let openers = match (version, rest.split_first_chunk()) {
            (1, _) if rest.is_empty() => Openers::OfSecret,
            (2, Some((generation, opener))) => {
                let generation = u32::from_be_bytes(*generation);
                let opener = OpenerSecret::from_bytes(opener.try_into().map_err(|_| malformed())?);
                if generation == 0 || generation == u32::MAX {
                    return Err(KeyFileError::Damaged { field: OPENER });
                }
                Openers::Own { generation, opener, next: None }
            }
            _ => return Err(malformed()),
        };
        let gateway = GatewayId(u16::from_be_bytes(*gateway));
        Ok(KeyFile { gateway, secret: GatewaySecret::from_bytes(*secret), openers })
    }
}

fn parse_openers(lines: &[&str]) -> Result<Openers, KeyFileError> {
    let malformed = |reason: &str| KeyFileError::Malformed { reason: reason.to_owned() };
    let mut parsed = Vec::with_capacity(lines.len());
    for line in lines {
        let (generation, secret) = line.split_once(' ').unwrap_or_default();
        let generation: u32 =
            generation.parse().map_err(|_| malformed("an opener does not begin with its generation"))?;
        parsed.push((generation, OpenerSecret::from_bytes(*parse_secret(secret, "an opener")?)));
    }
    let mut parsed = parsed.into_iter();
    let Some((generation, opener)) = parsed.next() else { return Ok(Openers::OfSecret) };
    let next = parsed.next();
    let follows = next.as_ref().is_none_or(|(next, _)| generation.checked_add(1) == Some(*next));
    if generation == 0 || generation == u32::MAX || !follows {
        return Err(malformed("the generations of its openers do not follow each other"));
    }
    Ok(Openers::Own { generation, opener, next: next.map(|(_, opener)| opener) })
}

fn parse_secret(text: &str, what: &str) -> Result<Zeroizing<[u8; KEY_LEN]>, KeyFileError> {
    let mut bytes = Zeroizing::new([0; KEY_LEN]);
    let good = text.len() == 2 * KEY_LEN
        && HEXLOWER.decode_mut(text.as_bytes(), &mut *bytes).is_ok_and(|len| len == KEY_LEN);
    if !good {
        return Err(KeyFileError::Malformed { reason: format!("{what} is not 64 hexadecimal digits") });
    }
    Ok(bytes)
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
        let secret = GatewaySecret::from_bytes([0x11; 32]);
        KeyFile { gateway: GatewayId(7), secret, openers: Openers::OfSecret }
    }

    fn fixed_of_version_2() -> KeyFile {
        let opener = OpenerSecret::from_bytes([0x22; 32]);
        KeyFile { openers: Openers::Own { generation: 3, opener, next: None }, ..fixed() }
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
    fn the_keys_of_version_2_never_change() {
        let key = fixed_of_version_2();
        assert_eq!(KeyFile::parse(&key.to_text()).unwrap(), key);
        assert_eq!((key.generation(), key.oldest_generation()), (3, 3));
        let same = fixed();
        assert_eq!(key.node_key("a"), same.node_key("a"));
        assert_eq!(key.shared_secret("a"), same.shared_secret("a"));
        assert_ne!(key.id(), same.id());
        assert_ne!(key.gateway_keys().public(), same.gateway_keys().public());
    }

    #[test]
    fn an_opener_is_replaced_in_two_steps_and_all_else_stays() {
        let entropy = SystemEntropy::new();
        let old = KeyFile::generate(GatewayId(9), &entropy);
        let both = old.with_next_opener(&entropy).unwrap();
        assert_eq!(both.with_next_opener(&entropy), Some(both.clone()), "there is no third one");
        assert_eq!((both.oldest_generation(), both.generation()), (1, 2));
        assert_eq!(KeyFile::parse(&both.to_text()).unwrap(), both);
        let new = both.with_newest_opener();
        assert_eq!((new.oldest_generation(), new.generation()), (2, 2));
        assert_eq!((new.id(), new.node_key("journal")), (old.id(), old.node_key("journal")));
        assert_eq!(new.gateway_keys().public(), both.gateway_keys().public());
        assert_eq!(both.with_oldest_opener(), old);
        assert_eq!(both.gateway_keys_of(1).public(), old.gateway_keys().public());
        assert_ne!(new.gateway_keys().public(), old.gateway_keys().public());
        assert_eq!(KeyFile::from_bytes(&both.to_bytes()).unwrap(), new, "paper has the newest one only");
        assert!(fixed().with_next_opener(&entropy).is_none());
    }

    #[test]
    fn bytes_come_back_and_others_are_refused() {
        for key in [fixed(), fixed_of_version_2()] {
            let bytes = key.to_bytes();
            assert_eq!(KeyFile::from_bytes(&bytes).unwrap(), key);
            assert!(KeyFile::from_bytes(&bytes[..bytes.len() - 1]).is_err());
            assert!(KeyFile::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        }
        assert!(matches!(KeyFile::from_bytes(&[3; 71]), Err(KeyFileError::UnknownVersion { .. })));
        let mut none = fixed_of_version_2().to_bytes();
        none[35..39].fill(0);
        assert!(KeyFile::from_bytes(&none).is_err());
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
        let newer = fixed().to_text().replace("kurma-key-file = 1", "kurma-key-file = 3");
        assert!(
            matches!(KeyFile::parse(&newer), Err(KeyFileError::UnknownVersion { found }) if found == "3")
        );
        let two = fixed_of_version_2().to_text();
        assert!(KeyFile::parse(&two.replace("opener = 3", "opener = 0")).is_err());
        assert!(KeyFile::parse(&two.replace("opener = 3", "pener = 3")).is_err());
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
        fn any_changed_character_of_the_fields_is_noticed(
            second in any::<bool>(), at: prop::sample::Index, to in "[0-9a-z]",
        ) {
            let text = if second { fixed_of_version_2().to_text() } else { fixed().to_text() };
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
