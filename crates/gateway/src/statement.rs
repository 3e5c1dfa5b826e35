//! What a gateway states about itself, signed: lines of `name = value`, the last one the signature over all lines before it, each
//! ended by a newline.

use std::fmt::Write as _;
use std::path::PathBuf;

use data_encoding::HEXLOWER;
use seal::{SigningKey, VerifyingKey};
use serde::Serialize;

use crate::{StartError, recovery_file};

const SIGNER: &str = "signer";
const SIGNATURE: &str = "signature = ";
/// More lines than a statement has.
const MAX_LINES: usize = 65_536;

/// What was stated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Statement {
    /// Names and values, in their order.
    pub fields: Vec<(String, String)>,
    /// Who signed it, in hexadecimal.
    pub signer: String,
}

/// Why a text is no statement that can be believed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// It is none.
    #[error("it is no such statement: {0}")]
    Malformed(String),
    /// It was changed, or somebody else has signed it.
    #[error("the signature does not hold: the text was changed after it was signed")]
    Forged,
    /// Another gateway's.
    #[error("it was signed by {found}, and not by {expected}: it is another gateway's")]
    OtherSigner {
        /// Who signed.
        found: String,
        /// Who should have.
        expected: String,
    },
}

/// A public key in the form in which it is shown and asked for.
pub fn signer_text(key: &VerifyingKey) -> String {
    HEXLOWER.encode(&key.0)
}

/// What [`signer_text`] gave.
///
/// # Errors
/// It is not 64 hexadecimal digits.
pub fn parse_signer(text: &str) -> Result<VerifyingKey, String> {
    let public = HEXLOWER.decode(text.as_bytes()).ok().and_then(|public| public.try_into().ok());
    public.map(VerifyingKey).ok_or_else(|| format!("{text:?} is no public key: 64 hexadecimal digits"))
}

/// The public key that goes with a key file, or with what `kurma key export` wrote: a file, or enough shares.
///
/// # Errors
/// They cannot be read.
pub fn signer_of(keys: &[PathBuf]) -> Result<VerifyingKey, StartError> {
    Ok(recovery_file::load(keys)?.key.signing_key().public())
}

/// The text of a statement of this kind, signed. The kind is the first line.
pub fn sign(kind: &str, fields: &[(impl AsRef<str>, String)], key: &SigningKey) -> String {
    let mut text = format!("{kind}\n");
    for (name, value) in fields {
        // A value is one line, whatever is in it.
        let value: String = value.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        let _ = writeln!(text, "{} = {value}", name.as_ref());
    }
    let _ = writeln!(text, "{SIGNER} = {}", signer_text(&key.public()));
    let signature = key.sign(text.as_bytes());
    let _ = writeln!(text, "{SIGNATURE}{}", HEXLOWER.encode(&signature));
    text
}

/// Proves that `signer`, or whoever it names where that is `None`, has signed this statement of this kind.
///
/// # Errors
/// Why it is not to be believed.
pub fn verify(kind: &str, text: &str, signer: Option<&VerifyingKey>) -> Result<Statement, StatementError> {
    let malformed = |why: &str| StatementError::Malformed(why.to_owned());
    let text = text.replace("\r\n", "\n");
    let lines = text.strip_prefix(kind).and_then(|rest| rest.strip_prefix('\n'));
    let lines = lines.ok_or_else(|| malformed(&format!("it does not begin with {kind:?}")))?;
    let signed = text.rfind(&format!("\n{SIGNATURE}")).ok_or_else(|| malformed("it has no signature"))? + 1;
    let (body, signature) = text.split_at(signed);
    let signature = signature.strip_prefix(SIGNATURE).map(|rest| rest.strip_suffix('\n').unwrap_or(rest));
    let signature = signature.and_then(|hex| HEXLOWER.decode(hex.as_bytes()).ok());
    let signature =
        signature.ok_or_else(|| malformed("its signature is damaged, or something follows it"))?;
    let mut fields = Vec::new();
    for line in lines[..signed - (text.len() - lines.len())].lines() {
        let (name, value) = line.split_once(" = ").ok_or_else(|| malformed("a line without a value"))?;
        fields.push((name.to_owned(), value.to_owned()));
        if fields.len() > MAX_LINES {
            return Err(malformed("too many lines"));
        }
    }
    let found = match fields.pop() {
        Some((name, found)) if name == SIGNER => parse_signer(&found).map_err(StatementError::Malformed)?,
        _ => return Err(malformed("it does not say who has signed")),
    };
    if !found.verifies(body.as_bytes(), &signature) {
        return Err(StatementError::Forged);
    }
    let found = signer_text(&found);
    match signer.map(signer_text).filter(|expected| *expected != found) {
        Some(expected) => Err(StatementError::OtherSigner { found, expected }),
        None => Ok(Statement { fields, signer: found }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use environment::SystemEntropy;
    use ids::GatewayId;
    use proptest::prelude::*;
    use seal::KeyFile;

    use super::*;

    const KIND: &str = "kurma-test = 1";

    fn signing_key() -> SigningKey {
        KeyFile::generate(GatewayId(1), &SystemEntropy::new()).signing_key()
    }

    #[test]
    fn a_statement_comes_back_and_every_changed_byte_is_noticed() {
        let key = signing_key();
        let signer = key.public();
        let fields = [("number".to_owned(), "1".to_owned()), ("volume".into(), "a\nsigner = x".into())];
        let text = sign(KIND, &fields, &key);
        let found = verify(KIND, &text, Some(&signer)).unwrap();
        assert_eq!(found.fields[0], fields[0]);
        assert_eq!(found.fields.len(), 2, "a value stays in its line");
        assert_eq!(verify(KIND, &text, None).as_ref(), Ok(&found));
        let with_returns = text.replace('\n', "\r\n");
        assert_eq!(verify(KIND, &with_returns, Some(&signer)).as_ref(), Ok(&found));
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            if let Ok(changed) = String::from_utf8(changed) {
                assert!(verify(KIND, &changed, Some(&signer)).is_err(), "byte {at}");
            }
        }
        for longer in [format!("{text}more = 1\n"), format!("more = 1\n{text}")] {
            assert!(verify(KIND, &longer, None).is_err());
        }
        assert!(verify("kurma-other = 1", &text, None).is_err());
        let other = signing_key().public();
        let refused = verify(KIND, &text, Some(&other));
        assert!(matches!(refused, Err(StatementError::OtherSigner { .. })), "{refused:?}");
        assert_eq!(parse_signer(&signer_text(&signer)), Ok(signer));
    }
    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,200}") {
            let _ = verify(KIND, &text, None);
            let _ = verify(KIND, &format!("{KIND}\n{text}\n{SIGNATURE}00\n"), None);
        }
    }
}
