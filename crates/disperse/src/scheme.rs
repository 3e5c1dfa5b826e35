use std::fmt;
use std::str::FromStr;

use crate::package;

const MAX_REPLICAS: u8 = 16;
const MAX_FRAGMENTS: u8 = 32;

/// How a block becomes fragments. Written as `replicas:n`, `rs:k+m`, `aont-rs:k+m` or `caont-rs:k+m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scheme {
    kind: Kind,
    needed: u8,
    total: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Replicas,
    ReedSolomon,
    AontRs,
    CaontRs,
}

/// Not the name of a dispersal scheme.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemeError {
    /// No scheme is written like that.
    #[error("{text:?} is not a dispersal scheme; {ALLOWED}")]
    Unknown {
        /// What was written.
        text: String,
    },
    /// A known scheme with impossible numbers.
    #[error("{text:?} is out of range; {ALLOWED}")]
    OutOfRange {
        /// What was written.
        text: String,
    },
}

const ALLOWED: &str = "use replicas:N with N from 1 to 16, rs:K+M with K at least 1, or aont-rs:K+M or caont-rs:K+M with K at least 2; K+M is at most 32";

impl Scheme {
    /// Length of [`Scheme::to_bytes`].
    pub const LEN: usize = 3;

    /// `copies` equal fragments, any one of which suffices; `None` unless 1 <= `copies` <= 16.
    pub fn replicas(copies: u8) -> Option<Scheme> {
        let allowed = (1..=MAX_REPLICAS).contains(&copies);
        allowed.then_some(Scheme { kind: Kind::Replicas, needed: 1, total: copies })
    }

    /// Reed-Solomon: any `data` of `data + parity` fragments suffice; `None` unless 1 <= `data` and
    /// `data + parity` <= 32.
    pub fn reed_solomon(data: u8, parity: u8) -> Option<Scheme> {
        let total = data.checked_add(parity).filter(|total| data >= 1 && *total <= MAX_FRAGMENTS)?;
        Some(Scheme { kind: Kind::ReedSolomon, needed: data, total })
    }

    /// Secret sharing: as [`Scheme::reed_solomon`], and fewer than `data` fragments say nothing of the content. `None`
    /// also for 1 `data`, where each fragment would say everything.
    pub fn aont_rs(data: u8, parity: u8) -> Option<Scheme> {
        let coded = Scheme::reed_solomon(data, parity).filter(|_| data >= 2)?;
        Some(Scheme { kind: Kind::AontRs, ..coded })
    }

    /// As [`Scheme::aont_rs`], where equal blocks have equal fragments for all who share a secret.
    pub fn caont_rs(data: u8, parity: u8) -> Option<Scheme> {
        Scheme::aont_rs(data, parity).map(|shared| Scheme { kind: Kind::CaontRs, ..shared })
    }

    /// Whether equal blocks have equal fragments, so that it pays to keep them once.
    pub fn is_convergent(self) -> bool {
        self.kind == Kind::CaontRs
    }

    /// Whether fragments show parts of the block as they are, so that these can be read alone.
    pub fn shows_parts(self) -> bool {
        matches!(self.kind, Kind::Replicas | Kind::ReedSolomon)
    }

    /// Whether every fragment is the block.
    pub fn is_replicated(self) -> bool {
        self.kind == Kind::Replicas
    }

    /// The length of the longest body of a fragment of a block of `block_len` bytes; [`HEADER_LEN`](crate::HEADER_LEN)
    /// comes in front of it.
    pub fn longest_body(self, block_len: u64) -> u64 {
        match self.kind {
            Kind::Replicas => block_len,
            Kind::ReedSolomon => block_len.div_ceil(u64::from(self.needed)),
            Kind::AontRs | Kind::CaontRs => package::shard_len(self.needed(), block_len),
        }
    }

    /// How many fragments bring the block back.
    pub fn needed(self) -> usize {
        usize::from(self.needed)
    }

    /// How many fragments there are.
    pub fn total(self) -> usize {
        usize::from(self.total)
    }

    /// How many fragments may be lost.
    pub fn spare(self) -> usize {
        self.total() - self.needed()
    }

    /// A fixed-width encoding: kind, needed, total.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let kind = match self.kind {
            Kind::Replicas => 1,
            Kind::ReedSolomon => 2,
            Kind::AontRs => 3,
            Kind::CaontRs => 4,
        };
        [kind, self.needed, self.total]
    }

    /// The inverse of [`Scheme::to_bytes`]; `None` for anything that it does not return.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Option<Scheme> {
        match bytes {
            [1, 1, copies] => Scheme::replicas(copies),
            [2, data, total] => Scheme::reed_solomon(data, total.checked_sub(data)?),
            [3, data, total] => Scheme::aont_rs(data, total.checked_sub(data)?),
            [4, data, total] => Scheme::caont_rs(data, total.checked_sub(data)?),
            _ => None,
        }
    }

    pub(crate) fn kind(self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (needed, spare) = (self.needed, self.spare());
        match self.kind {
            Kind::Replicas => write!(f, "replicas:{}", self.total),
            Kind::ReedSolomon => write!(f, "rs:{needed}+{spare}"),
            Kind::AontRs => write!(f, "aont-rs:{needed}+{spare}"),
            Kind::CaontRs => write!(f, "caont-rs:{needed}+{spare}"),
        }
    }
}

impl FromStr for Scheme {
    type Err = SchemeError;

    fn from_str(text: &str) -> Result<Scheme, SchemeError> {
        let unknown = || SchemeError::Unknown { text: excerpt(text) };
        let out_of_range = || SchemeError::OutOfRange { text: excerpt(text) };
        let (name, numbers) = text.split_once(':').ok_or_else(unknown)?;
        let coded: fn(u8, u8) -> Option<Scheme> = match name {
            "replicas" => {
                return Scheme::replicas(number(numbers).ok_or_else(unknown)?).ok_or_else(out_of_range);
            }
            "rs" => Scheme::reed_solomon,
            "aont-rs" => Scheme::aont_rs,
            "caont-rs" => Scheme::caont_rs,
            _ => return Err(unknown()),
        };
        let (data, parity) = numbers.split_once('+').ok_or_else(unknown)?;
        let data = number(data).ok_or_else(unknown)?;
        coded(data, number(parity).ok_or_else(unknown)?).ok_or_else(out_of_range)
    }
}

/// A decimal number without sign; numbers too large for any scheme become 255.
fn number(text: &str) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u8::MAX))
}

/// Error messages repeat what was written, but not pages of it.
fn excerpt(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_allowed_scheme_round_trips_as_text_and_bytes() {
        let replicas = (1..=16).map(|n| Scheme::replicas(n).unwrap());
        let coded = (1..=32).flat_map(|k| (0..=32 - k).map(move |m| Scheme::reed_solomon(k, m).unwrap()));
        let shared = (2..=32).flat_map(|k| {
            (0..=32 - k)
                .flat_map(move |m| [Scheme::aont_rs(k, m), Scheme::caont_rs(k, m)].map(Option::unwrap))
        });
        for scheme in replicas.chain(coded).chain(shared) {
            assert_eq!(scheme.to_string().parse(), Ok(scheme));
            assert_eq!(Scheme::from_bytes(scheme.to_bytes()), Some(scheme));
            assert_eq!(scheme.needed() + scheme.spare(), scheme.total());
        }
    }

    #[test]
    fn impossible_numbers_are_out_of_range() {
        for text in [
            "replicas:0",
            "replicas:17",
            "replicas:99999",
            "rs:0+1",
            "rs:30+3",
            "rs:255+255",
            "rs:256+0",
            "aont-rs:1+2",
            "caont-rs:30+3",
        ] {
            assert!(matches!(text.parse::<Scheme>(), Err(SchemeError::OutOfRange { .. })), "{text}");
        }
    }

    #[test]
    fn bad_text_gets_a_list_of_what_is_allowed() {
        for text in [
            "",
            "rs",
            "rs:",
            "rs:3",
            "rs:3+",
            "rs:+1",
            "rs:3+-1",
            "RS:3+1",
            "replicas:",
            "replicas:+3",
            "r-4",
            "aont:3+1",
            "caont-rs:3",
        ] {
            let error = text.parse::<Scheme>().unwrap_err();
            assert!(matches!(error, SchemeError::Unknown { .. }), "{text}");
            assert!(error.to_string().contains("replicas:N"), "{error}");
        }
    }

    #[test]
    fn impossible_bytes_are_no_scheme() {
        let impossible = [
            [0, 1, 1],
            [1, 2, 3],
            [1, 1, 0],
            [1, 1, 17],
            [2, 0, 1],
            [2, 3, 2],
            [2, 3, 33],
            [3, 1, 2],
            [5, 2, 3],
        ];
        for bytes in impossible {
            assert_eq!(Scheme::from_bytes(bytes), None, "{bytes:?}");
        }
    }
}
