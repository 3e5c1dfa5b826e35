use std::fmt;
use std::fmt::Write as _;

use data_encoding::HEXLOWER;
use seal::KeyFileId;
use zeroize::Zeroizing;

use crate::CustodyError;
use crate::wording::{SHARE, decode, encode};

const FIELDS: [&str; 8] = ["kurma-key-share", "gateway", "id", "set", "share", "needed", "value", "checksum"];
const CHECKSUM_LEN: usize = 8;
/// What stands before the value in words.
const HEAD: usize = 4 + 3 + 2 + 16;
/// Far more than the value of a share has.
const MAX_VALUE: usize = 512;
/// Words in a line.
const COLUMNS: usize = 6;

/// Which shares belong together; prints as 8 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShareSet(pub [u8; 4]);

impl fmt::Display for ShareSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

/// One share of a key. Fewer than [`needed`](Share::needed) of them tell nothing about it.
#[derive(Clone, PartialEq, Eq)]
pub struct Share {
    /// Which split it is of.
    pub set: ShareSet,
    /// How many are enough.
    pub needed: u8,
    /// How many were made.
    pub total: u8,
    /// Which of them it is, from 1.
    pub number: u8,
    /// The gateway whose key it is of.
    pub gateway: u16,
    /// The key file that it is of.
    pub key: KeyFileId,
    /// Its values of the polynomials.
    pub value: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Share({} of {}, set {}, secret)", self.number, self.total, self.set)
    }
}

fn malformed(reason: impl Into<String>) -> CustodyError {
    CustodyError::Malformed(reason.into())
}

fn checksum(body: &str) -> String {
    HEXLOWER.encode(&blake3::hash(body.as_bytes()).as_bytes()[..CHECKSUM_LEN])
}

impl Share {
    /// As a text, which also has the words, for those who write it on paper.
    pub fn to_text(&self) -> Zeroizing<String> {
        let Share { set, needed, total, number, gateway, key, value } = self;
        let mut body = Zeroizing::new(String::with_capacity(1024));
        let value = Zeroizing::new(HEXLOWER.encode(value));
        // Writing to a string cannot fail.
        let _ = write!(
            body,
            "kurma-key-share = 1\ngateway = {gateway}\nid = {key}\nset = {set}\nshare = {number} of {total}\nneeded = {needed}\nvalue = {}\n",
            value.as_str()
        );
        let sum = checksum(&body);
        let mut text = Zeroizing::new(String::with_capacity(4096));
        let _ = write!(
            text,
            "# Share {number} of {total} of the key of a Kurma gateway. Any {needed} of them together are the key; fewer tell nothing.\n\
             # Put them together with: kurma key combine FILE... --to recovery.key\n{}checksum = {sum}\n\
             #\n# The same in words; they alone are enough:\n",
            body.as_str()
        );
        for (line, words) in self.words().chunks(COLUMNS).enumerate() {
            text.push('#');
            for (at, word) in words.iter().enumerate() {
                let _ = write!(text, " {:3} {word:<8}", line * COLUMNS + at + 1);
            }
            text.push('\n');
        }
        text
    }

    /// In words.
    pub fn words(&self) -> Vec<&'static str> {
        let mut body = Zeroizing::new(Vec::with_capacity(HEAD + self.value.len()));
        body.extend_from_slice(&self.set.0);
        body.extend_from_slice(&[self.needed, self.total, self.number]);
        body.extend_from_slice(&self.gateway.to_be_bytes());
        body.extend_from_slice(&self.key.0);
        body.extend_from_slice(&self.value);
        encode(SHARE, &body)
    }

    /// Reads what [`Share::to_text`] wrote, or words.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Share, CustodyError> {
        match Share::is_text(text) {
            true => Share::of_text(text),
            false => Share::of_words(text),
        }
    }

    /// Whether a text is a share with its fields, or tries to be.
    pub fn is_text(text: &str) -> bool {
        text.lines().any(|line| line.trim_start().starts_with(FIELDS[0]))
    }

    fn of_text(text: &str) -> Result<Share, CustodyError> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut values = [""; FIELDS.len()];
        let mut body = Zeroizing::new(String::with_capacity(1024));
        for (field, value) in FIELDS.iter().zip(&mut values) {
            let line = lines.next().ok_or_else(|| malformed(format!("the line {field:?} is missing")))?;
            let found = line.split_once('=').filter(|(name, _)| name.trim_end() == *field);
            let (_, found) = found.ok_or_else(|| malformed(format!("expected a line \"{field} = ...\"")))?;
            *value = found.trim_start();
            if *field == FIELDS[0] && *value != "1" {
                let version: String = value.chars().take(20).collect();
                return Err(malformed(format!(
                    "version {version} is not supported; this program knows version 1"
                )));
            }
            if *field != FIELDS[7] {
                let _ = writeln!(body, "{field} = {value}");
            }
        }
        if lines.next().is_some() {
            return Err(malformed("there is more after the checksum"));
        }
        let [_, gateway, id, set, place, needed, value, sum] = values;
        if checksum(&body) != sum {
            let short = |text: &str| text.chars().take(20).collect();
            return Err(CustodyError::Damaged { set: short(set), number: short(place) });
        }
        let bad = |what: &str| malformed(format!("the line {what:?} makes no sense"));
        let (number, total) = place.split_once(" of ").ok_or_else(|| bad("share"))?;
        let set = HEXLOWER.decode(set.as_bytes()).ok().and_then(|set| set.try_into().ok());
        let share = Share {
            set: ShareSet(set.ok_or_else(|| bad("set"))?),
            needed: needed.parse().map_err(|_| bad("needed"))?,
            total: total.parse().map_err(|_| bad("share"))?,
            number: number.parse().map_err(|_| bad("share"))?,
            gateway: gateway.parse().map_err(|_| bad("gateway"))?,
            key: id.parse().map_err(|_| bad("id"))?,
            value: Zeroizing::new(HEXLOWER.decode(value.as_bytes()).map_err(|_| bad("value"))?),
        };
        share.checked()
    }

    fn of_words(text: &str) -> Result<Share, CustodyError> {
        let bytes = decode(SHARE, text)?;
        let (head, value) = bytes.split_first_chunk::<HEAD>().ok_or_else(|| malformed("too short"))?;
        let mut key = [0; 16];
        key.copy_from_slice(&head[9..]);
        let share = Share {
            set: ShareSet([head[0], head[1], head[2], head[3]]),
            needed: head[4],
            total: head[5],
            number: head[6],
            gateway: u16::from_be_bytes([head[7], head[8]]),
            key: KeyFileId(key),
            value: Zeroizing::new(value.to_vec()),
        };
        share.checked()
    }

    fn checked(self) -> Result<Share, CustodyError> {
        let counts = 2 <= self.needed && self.needed <= self.total;
        if !counts || self.number == 0 || self.number > self.total {
            return Err(malformed(format!(
                "it says that it is number {} of {}, of which {} are needed",
                self.number, self.total, self.needed
            )));
        }
        match self.value.len() {
            1..=MAX_VALUE => Ok(self),
            length => Err(malformed(format!("its value has {length} bytes"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share() -> Share {
        Share {
            set: ShareSet([1, 2, 3, 0xff]),
            needed: 2,
            total: 5,
            number: 4,
            gateway: 300,
            key: KeyFileId([9; 16]),
            value: Zeroizing::new((0..79).collect()),
        }
    }

    #[test]
    fn a_share_comes_back_from_its_text_and_from_its_words() {
        let share = share();
        assert_eq!(Share::parse(&share.to_text()).unwrap(), share);
        assert_eq!(Share::parse(&share.to_text().replace('\n', "\r\n\r\n")).unwrap(), share);
        assert_eq!(Share::parse(&share.words().join("\n")).unwrap(), share);
        assert!(!format!("{share:?}").contains("value"));
    }

    #[test]
    fn damage_and_newer_versions_are_told_apart() {
        let text = share().to_text();
        let damaged = text.replace("value = 00", "value = 01");
        assert!(matches!(Share::parse(&damaged), Err(CustodyError::Damaged { .. })));
        let newer = Share::parse(&text.replace("kurma-key-share = 1", "kurma-key-share = 2")).unwrap_err();
        assert!(newer.to_string().contains("version 2 is not supported"), "{newer}");
        let odd = Share { number: 6, ..share() };
        assert!(matches!(Share::parse(&odd.to_text()), Err(CustodyError::Malformed(_))));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,300}") {
            let _ = Share::parse(&text);
            let _ = Share::parse(&format!("kurma-key-share = 1\n{text}"));
        }
    }
}
