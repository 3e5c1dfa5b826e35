//! Keys as people keep them, and statements about keys that were destroyed. Whatever is accepted is what was written.

use std::sync::OnceLock;

use environment::Entropy;
use gateway::statement::{sign, verify};
use ids::GatewayId;
use key_custody::{Share, combine, key_of_words, split, words};
use seal::KeyFile;

use crate::machine::Counted;

fn key() -> &'static KeyFile {
    static KEY: OnceLock<KeyFile> = OnceLock::new();
    KEY.get_or_init(|| KeyFile::generate(GatewayId(3), &Counted::default()))
}

fn shares() -> &'static [Share] {
    static SHARES: OnceLock<Vec<Share>> = OnceLock::new();
    SHARES.get_or_init(|| {
        let entropy = Counted::default();
        entropy.next_u64();
        split(key(), 2, 3, &entropy).unwrap()
    })
}

/// Words of a key, or a share, as a text or in words. What is accepted comes back from its own text, and with another share of the set is
/// the key or nothing.
pub(crate) fn kept_key(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(found) = key_of_words(text) {
        assert_eq!(key_of_words(&words(&found).join(" ")).unwrap(), found);
    }
    if let Ok(share) = Share::parse(text) {
        assert_eq!(Share::parse(&share.to_text()).unwrap(), share);
        assert_eq!(Share::parse(&share.words().join(" ")).unwrap(), share);
        let other = shares().iter().find(|other| other.number != share.number).unwrap();
        if let Ok(made) = combine(&[share, other.clone()]) {
            assert_eq!(made, *key());
        }
    }
}

pub(crate) fn kept_key_seeds() -> Vec<Vec<u8>> {
    let share = &shares()[1];
    let texts = [words(key()).join(" "), share.to_text().to_string(), share.words().join("\n")];
    texts.map(String::into_bytes).into()
}

const KIND: &str = "kurma-shredding = 1";

/// A statement of a gateway. Only what was signed is believed.
pub(crate) fn statement(data: &[u8]) {
    static SIGNED: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(statement) = verify(KIND, text, Some(&key().signing_key().public())) {
        let signed = SIGNED.get_or_init(statement_seeds);
        let fields =
            signed.iter().map(|signed| verify(KIND, std::str::from_utf8(signed).unwrap(), None).unwrap());
        assert!(fields.into_iter().any(|signed| signed == statement), "a forgery was believed");
    }
    let _ = verify(KIND, text, None);
}

pub(crate) fn statement_seeds() -> Vec<Vec<u8>> {
    let fields =
        [("number", "1".to_owned()), ("what", "home/a b".to_owned()), ("previous", "none".to_owned())];
    vec![sign(KIND, &fields, &key().signing_key()).into_bytes()]
}
