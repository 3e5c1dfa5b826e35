use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes, written `512`, `64KiB`, `1GiB` (powers of 1024) or `10MB` (powers of 1000).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

const SIZE_UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
];

impl ByteSize {
    /// So many times 1,024 bytes.
    pub const fn kib(kib: u64) -> ByteSize {
        ByteSize(kib << 10)
    }

    /// So many times 1,048,576 bytes.
    pub const fn mib(mib: u64) -> ByteSize {
        ByteSize(mib << 20)
    }

    /// So many bytes.
    pub const fn from_bytes(bytes: u64) -> ByteSize {
        ByteSize(bytes)
    }

    /// The number.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        let wrong = || format!("{text:?} is not a size; write for example 64KiB, 1GiB or 10MB");
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = text[digits.len()..].trim();
        let number: u64 = digits.trim().parse().map_err(|_| wrong())?;
        let factor = match unit {
            "" | "B" => 1,
            unit => SIZE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1,
        };
        number.checked_mul(factor).map(ByteSize).ok_or_else(|| format!("{text} is more than 16EiB"))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SIZE_UNITS[..4].iter().find(|(_, factor)| self.0 != 0 && self.0.is_multiple_of(*factor)) {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A length of time, written `500ms`, `5s`, `10m` or `1h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(Duration);

const SPAN_UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Span {
    /// So many seconds.
    pub const fn from_secs(seconds: u64) -> Span {
        Span(Duration::from_secs(seconds))
    }

    /// The length.
    pub const fn as_duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let wrong = || format!("{text:?} is not a duration; write for example 500ms, 5s, 10m or 1h");
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = SPAN_UNITS.iter().find(|(name, _)| *name == &text[digits.len()..]).ok_or_else(wrong)?;
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        let millis = number.checked_mul(unit.1).ok_or_else(|| format!("{text} is too long"))?;
        Ok(Span(Duration::from_millis(millis)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis() as u64;
        match SPAN_UNITS.iter().find(|(_, factor)| millis != 0 && millis.is_multiple_of(*factor)) {
            Some((unit, factor)) => write!(f, "{}{unit}", millis / factor),
            None => write!(f, "0s"),
        }
    }
}

macro_rules! as_text {
    ($type:ty, $example:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "examples": [$example] })
            }
        }
    };
}

as_text!(ByteSize, "64MiB");
as_text!(Span, "10m");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_binary_and_decimal_units() {
        for (text, bytes) in
            [("0", 0), ("512", 512), ("64KiB", 65_536), ("1GiB", 1 << 30), ("10MB", 10_000_000)]
        {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for bad in ["", "1kib", "1.5GiB", "-1", "GiB", "99999999999999TiB", "1 GiB x"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
        assert_eq!(ByteSize::mib(1024).to_string(), "1GiB");
    }

    #[test]
    fn durations_take_four_units() {
        for (text, millis) in [("500ms", 500), ("5s", 5_000), ("10m", 600_000), ("1h", 3_600_000), ("0s", 0)]
        {
            assert_eq!(text.parse(), Ok(Span(Duration::from_millis(millis))), "{text}");
        }
        for bad in ["", "5", "5 s", "1d", "-1s", "99999999999999999h"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
        assert_eq!(Span::from_secs(90).to_string(), "90s");
    }
}
