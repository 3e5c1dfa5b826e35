//! What a gateway states about a shredding: signed, numbered, and chained to the statement before.
//!
//! Lines of `name = value`, the last one the signature over all lines before it, each ended by a newline.

use std::fmt::Write as _;

use data_encoding::HEXLOWER;
use seal::{KeyFile, SigningKey, VerifyingKey};
use serde::Serialize;

const FIRST: &str = "kurma-shredding = 1";
const SIGNATURE: &str = "signature = ";
/// More lines than a statement has.
const MAX_LINES: usize = 512;

/// A statement: names and values, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Statement {
    /// Without the first line and the last two.
    pub fields: Vec<(String, String)>,
    /// Who signed it, in hexadecimal.
    pub signer: String,
}

/// Why a text is no statement that can be believed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// It is none.
    #[error("not a statement about a shredding: {0}")]
    Malformed(&'static str),
    /// It was changed, or signed by somebody else.
    #[error("the signature does not hold: the statement was changed, or is another gateway's")]
    Forged,
    /// Another gateway's.
    #[error("it was signed by {found}, and the key file is of {expected}")]
    OtherSigner {
        /// Who signed.
        found: String,
        /// Who should have.
        expected: String,
    },
}

impl Statement {
    /// The text, signed.
    pub fn sign(fields: &[(&str, String)], key: &SigningKey) -> String {
        let mut text = format!("{FIRST}\n");
        for (name, value) in fields {
            // A value is one line, whatever is in it.
            let value: String = value.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            let _ = writeln!(text, "{name} = {value}");
        }
        let _ = writeln!(text, "signer = {}", HEXLOWER.encode(&key.public().0));
        let signature = key.sign(text.as_bytes());
        let _ = writeln!(text, "{SIGNATURE}{}", HEXLOWER.encode(&signature));
        text
    }

    /// Verifies a statement: that its signature holds, and, if a key file is there, that its gateway has signed.
    ///
    /// # Errors
    /// Why it is not to be believed.
    pub fn verify(text: &str, key: Option<&KeyFile>) -> Result<Statement, StatementError> {
        let malformed = StatementError::Malformed;
        let text = text.replace("\r\n", "\n");
        let begin = text.find(FIRST).ok_or(malformed("its first line is missing"))?;
        let text = &text[begin..];
        let end = text.find(&format!("\n{SIGNATURE}")).ok_or(malformed("it has no signature"))? + 1;
        let (body, rest) = text.split_at(end);
        let signature = rest.lines().next().and_then(|line| line.strip_prefix(SIGNATURE)).unwrap_or_default();
        let signature = HEXLOWER
            .decode(signature.trim().as_bytes())
            .map_err(|_| malformed("its signature is damaged"))?;
        let mut fields = Vec::new();
        for line in body.lines().skip(1) {
            let (name, value) = line.split_once(" = ").ok_or(malformed("a line without a value"))?;
            fields.push((name.to_owned(), value.to_owned()));
            if fields.len() > MAX_LINES {
                return Err(malformed("too many lines"));
            }
        }
        let signer = match fields.pop() {
            Some((name, signer)) if name == "signer" => signer,
            _ => return Err(malformed("it does not say who has signed")),
        };
        let public = HEXLOWER.decode(signer.as_bytes()).ok().and_then(|public| public.try_into().ok());
        let public = VerifyingKey(public.ok_or(malformed("its signer is damaged"))?);
        if !public.verifies(body.as_bytes(), &signature) {
            return Err(StatementError::Forged);
        }
        let own = key.map(|key| key.signing_key().public());
        if let Some(own) = own.filter(|own| *own != public) {
            let expected = HEXLOWER.encode(&own.0);
            return Err(StatementError::OtherSigner { found: signer, expected });
        }
        Ok(Statement { fields, signer })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use environment::SystemEntropy;
    use ids::GatewayId;
    use proptest::prelude::*;

    use super::*;

    fn key() -> KeyFile {
        KeyFile::generate(GatewayId(1), &SystemEntropy::new())
    }

    fn text(key: &KeyFile) -> String {
        Statement::sign(&[("number", "1".into()), ("path", "/home/a\nsigner = x".into())], &key.signing_key())
    }

    #[test]
    fn a_statement_comes_back_and_every_changed_byte_is_noticed() {
        let key = key();
        let text = text(&key);
        let statement = Statement::verify(&text, Some(&key)).unwrap();
        assert_eq!(statement.fields[0], ("number".into(), "1".into()));
        assert_eq!(statement.fields.len(), 2, "a value stays in its line");
        assert_eq!(Statement::verify(&text.replace('\n', "\r\n"), Some(&key)).as_ref(), Ok(&statement));
        for at in 0..text.len() - 1 {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            if let Ok(changed) = String::from_utf8(changed) {
                assert!(Statement::verify(&changed, Some(&key)).is_err(), "byte {at}");
            }
        }
        let other = super::tests::key();
        assert!(matches!(Statement::verify(&text, Some(&other)), Err(StatementError::OtherSigner { .. })));
        assert!(Statement::verify(&text, None).is_ok());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,200}") {
            let _ = Statement::verify(&text, None);
            let _ = Statement::verify(&format!("{FIRST}\n{text}\n{SIGNATURE}00"), None);
        }
    }
}
