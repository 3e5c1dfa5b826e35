use blocks::{CloudId, Placement, Protection};
use bytes::Bytes;
use disperse::Scheme;
use ids::BlockShift;
use seal::Suite;

use super::{BadRow, RowReader, RowWriter};

const FORMAT: u8 = 1;
/// More clouds than any scheme has fragments.
const MAX_CLOUDS: u64 = 64;

/// How the blocks of a file are sealed and dispersed. Recorded with each file when it is made (`K33`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Replicas or erasure code, the clouds, and the block size (`K11`).
    pub placement: Placement,
    /// Encryption and padding.
    pub protection: Protection,
}

impl Policy {
    /// The size of blocks.
    pub fn block_shift(&self) -> BlockShift {
        self.placement.block_shift()
    }
}

pub(crate) fn encode_policy(policy: &Policy) -> Bytes {
    let Policy { placement, protection } = policy;
    let mut row = RowWriter::new(FORMAT);
    row.fixed(&placement.scheme().to_bytes()).byte(placement.block_shift().get());
    row.byte(match protection.suite {
        // What is convergent follows from the scheme.
        Suite::Aes256Gcm | Suite::Convergent => 1,
        Suite::IntegrityOnly => 2,
    });
    row.text(protection.padding.to_string().as_bytes()).number(placement.clouds().len() as u64);
    for cloud in placement.clouds() {
        row.number(u64::from(cloud.0));
    }
    row.finish()
}

pub(crate) fn decode_policy(row: &[u8]) -> Result<Policy, BadRow> {
    let mut reader = RowReader::new(row, FORMAT)?;
    let scheme = Scheme::from_bytes(reader.fixed()?).ok_or(BadRow("an unknown dispersal scheme"))?;
    let block_shift = BlockShift::new(reader.byte()?).ok_or(BadRow("a block size out of range"))?;
    let suite = match reader.byte()? {
        1 => Suite::Aes256Gcm,
        2 => Suite::IntegrityOnly,
        _ => return Err(BadRow("an unknown sealing suite")),
    };
    let padding = std::str::from_utf8(reader.text()?).map_err(|_| BadRow("a text that is not UTF-8"))?;
    let padding = padding.parse().map_err(|_| BadRow("an unknown padding"))?;
    let count = reader.number()?;
    if count > MAX_CLOUDS {
        return Err(BadRow("too many clouds"));
    }
    let clouds = (0..count).map(|_| Ok(CloudId(reader.number16()?))).collect::<Result<_, BadRow>>()?;
    reader.end()?;
    let placement = Placement::new(scheme, clouds, block_shift)
        .map_err(|_| BadRow("clouds that do not fit the scheme"))?;
    Ok(Policy { placement, protection: Protection { suite, padding } })
}

#[cfg(test)]
mod tests {
    use seal::Padding;

    use super::*;

    #[test]
    fn policies_come_back() {
        let clouds = vec![CloudId(3), CloudId(1), CloudId(2)];
        let placement = Placement::new("rs:2+1".parse().unwrap(), clouds, BlockShift::MAX).unwrap();
        for (suite, padding) in
            [(Suite::Aes256Gcm, Padding::Padme), (Suite::IntegrityOnly, Padding::Bucket(4096))]
        {
            let policy = Policy { placement: placement.clone(), protection: Protection { suite, padding } };
            assert_eq!(decode_policy(&encode_policy(&policy)), Ok(policy));
        }
    }
}
