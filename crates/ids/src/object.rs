use std::fmt;
use std::str::FromStr;

use crate::GatewayId;

/// The number part of an [`ObjectId`], handed out by its creator and never reused (`K9`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectNumber(pub u128);

/// A file, directory, symbolic link or special node of a volume: unique over all gateways and for all time.
///
/// Prints as `creator-number` in hexadecimal and parses the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The gateway that made the object.
    pub creator: GatewayId,
    /// Its number there.
    pub number: ObjectNumber,
}

impl ObjectId {
    /// Length of [`ObjectId::to_bytes`].
    pub const LEN: usize = 18;

    /// Big-endian creator, then big-endian number: sorts like the id itself.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..2].copy_from_slice(&self.creator.0.to_be_bytes());
        out[2..].copy_from_slice(&self.number.0.to_be_bytes());
        out
    }

    /// The inverse of [`ObjectId::to_bytes`].
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> ObjectId {
        let mut number = [0; 16];
        number.copy_from_slice(&bytes[2..]);
        ObjectId {
            creator: GatewayId(u16::from_be_bytes([bytes[0], bytes[1]])),
            number: ObjectNumber(u128::from_be_bytes(number)),
        }
    }

    /// A 64-bit number for protocols that want one (`fileid`, `d_ino`): the creator in the top 16 bits, the low
    /// 48 bits of the number below. Unique until one gateway has made 2^48 objects; never used as an identity.
    pub fn file_number(self) -> u64 {
        (u64::from(self.creator.0) << 48) | (self.number.0 as u64 & ((1 << 48) - 1))
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.creator.0, self.number.0)
    }
}

impl FromStr for ObjectId {
    type Err = String;

    fn from_str(text: &str) -> Result<ObjectId, String> {
        let wrong = || format!("{text:?} is not an object id (expected CREATOR-NUMBER in hexadecimal)");
        let (creator, number) = text.split_once('-').ok_or_else(wrong)?;
        Ok(ObjectId {
            creator: GatewayId(u16::from_str_radix(creator, 16).map_err(|_| wrong())?),
            number: ObjectNumber(u128::from_str_radix(number, 16).map_err(|_| wrong())?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_text_round_trip() {
        let id = ObjectId { creator: GatewayId(0x1ff), number: ObjectNumber(u128::MAX - 5) };
        assert_eq!(ObjectId::from_bytes(id.to_bytes()), id);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("12".parse::<ObjectId>().is_err());
    }
}
