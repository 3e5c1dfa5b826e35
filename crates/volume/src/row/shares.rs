use std::collections::BTreeMap;

use blocks::SealId;
use bytes::Bytes;
use ids::{GatewayId, Version};

use super::{BadRow, CHUNK_BLOCKS, KeyRow, RowReader, RowWriter};

const FORMAT: u8 = 1;
/// With versions that are stored by several policies.
const FORMAT_POLICIES: u8 = 2;

/// Versions of which one row keeps books. A clone that would need more is refused.
pub(crate) const MAX_SHARES: usize = 32 * CHUNK_BLOCKS as usize;

/// The versions of the blocks of one chunk of a file that other blocks have taken over. Holds everything that is needed to
/// find and open them, so that it outlives the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShareRow {
    /// Of most of the versions: that of the file when the row was made.
    pub policy: u32,
    pub key: KeyRow,
    /// By index in the chunk, and version.
    pub shares: BTreeMap<(u64, Version), Share>,
}

/// One version that is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub creator: GatewayId,
    pub seal: SealId,
    /// Whether it is also what the block holds that it was stored for.
    pub own: bool,
    /// Blocks that have taken it over; at least 1.
    pub clones: u64,
    /// By which policy it is stored.
    pub policy: u32,
}

impl ShareRow {
    pub fn new(policy: u32, key: KeyRow) -> ShareRow {
        ShareRow { policy, key, shares: BTreeMap::new() }
    }

    /// Neighbours with the same version are alike most of the time: runs of them, in the order of versions.
    pub fn encode(&self) -> Bytes {
        let is_mixed = self.shares.values().any(|share| share.policy != self.policy);
        let mut row = RowWriter::new(if is_mixed { FORMAT_POLICIES } else { FORMAT });
        row.number(u64::from(self.policy));
        self.key.write(&mut row);
        let mut all: Vec<_> =
            self.shares.iter().map(|(&(index, version), share)| (version, index, share)).collect();
        all.sort_unstable_by_key(|&(version, index, _)| (version, index));
        let mut all = all.into_iter().peekable();
        let (mut at, mut before, mut seals) = (0_u64, 0_u64, Vec::new());
        while let Some((version, first, share)) = all.next() {
            let mut length = 1;
            while let Some(next) = all.peek()
                && *next == (version, first + length, share)
            {
                length += 1;
                all.next();
            }
            row.signed(first as i64 - at as i64).number(length - 1);
            row.signed(version.0.wrapping_sub(before) as i64).number(u64::from(share.creator.0));
            match seals.iter().position(|seal| *seal == share.seal) {
                Some(known) => row.number(known as u64 + 1),
                None => {
                    seals.push(share.seal);
                    row.number(0).fixed(&share.seal.0.to_be_bytes())
                }
            };
            row.byte(u8::from(share.own)).number(share.clones);
            if is_mixed {
                row.number(u64::from(share.policy));
            }
            (at, before) = (first + length, version.0);
        }
        row.finish()
    }

    pub fn decode(row: &[u8]) -> Result<ShareRow, BadRow> {
        let is_mixed = row.first() == Some(&FORMAT_POLICIES);
        let mut reader = RowReader::new(row, if is_mixed { FORMAT_POLICIES } else { FORMAT })?;
        let mut found = ShareRow::new(reader.number32()?, KeyRow::read(&mut reader)?);
        let (mut at, mut version, mut seals) = (0_u64, 0_u64, Vec::new());
        while !reader.is_empty() {
            let (first, more) = (at.wrapping_add(reader.signed()? as u64), reader.number()?);
            if first >= CHUNK_BLOCKS || more >= CHUNK_BLOCKS - first {
                return Err(BadRow("a shared block out of range"));
            }
            version = version.wrapping_add(reader.signed()? as u64);
            let creator = GatewayId(reader.number16()?);
            let seal = match reader.number()? {
                0 => {
                    seals.push(SealId(u64::from_be_bytes(reader.fixed()?)));
                    seals.last().copied()
                }
                known => usize::try_from(known - 1).ok().and_then(|known| seals.get(known).copied()),
            }
            .ok_or(BadRow("a seal id that is not there"))?;
            let own = reader.byte()?;
            let clones = reader.number()?;
            let policy = if is_mixed { reader.number32()? } else { found.policy };
            if own > 1 || clones == 0 {
                return Err(BadRow("a shared block that nobody shares"));
            }
            let share = Share { creator, seal, own: own == 1, clones, policy };
            for index in first..=first + more {
                if found.shares.insert((index, Version(version)), share).is_some() {
                    return Err(BadRow("a shared block twice"));
                }
            }
            if found.shares.len() > MAX_SHARES {
                return Err(BadRow("too many shared blocks"));
            }
            at = first + more + 1;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seal::{AccessorSetId, KeyEpoch, WrappedFileKey};

    use super::*;

    fn empty() -> ShareRow {
        let wrapped = [7; WrappedFileKey::LEN];
        ShareRow::new(4, KeyRow { accessors: AccessorSetId(1), epoch: KeyEpoch(2), wrapped })
    }

    proptest! {
        #[test]
        fn shares_come_back(
            shares in prop::collection::btree_map(
                (0..20_u64, prop_oneof![8 => 0_u64..4, 1 => any::<u64>()]),
                (0_u16..2, any::<bool>(), 1_u64..3, 4_u32..6), 0..60,
            ),
        ) {
            let mut row = empty();
            for ((index, version), (creator, own, clones, policy)) in shares {
                let seal = SealId(version % 3);
                let share = Share { creator: GatewayId(creator), seal, own, clones, policy };
                row.shares.insert((index, Version(version)), share);
            }
            prop_assert_eq!(ShareRow::decode(&row.encode()), Ok(row));
        }
    }

    #[test]
    fn the_shares_of_a_freshly_written_chunk_take_a_few_bytes() {
        let mut row = empty();
        let alone = row.encode().len();
        for index in 0..CHUNK_BLOCKS {
            let share = Share { creator: GatewayId(1), seal: SealId(5), own: true, clones: 1, policy: 4 };
            row.shares.insert((index, Version(1)), share);
        }
        assert!(row.encode().len() <= alone + 16);
    }

    #[test]
    fn a_row_with_a_block_out_of_range_is_refused() {
        let mut row = empty();
        let share = Share { creator: GatewayId(1), seal: SealId(5), own: true, clones: 1, policy: 4 };
        row.shares.insert((CHUNK_BLOCKS, Version(1)), share);
        assert!(ShareRow::decode(&row.encode()).is_err());
    }
}
