//! Files of one policy that are spread over more clouds than a block has fragments (decision 31).
//!
//! A policy may have *variants*: policies that differ from it by their clouds alone. Files that would get it get one of them instead,
//! by their number, so that each cloud has its share.

use std::collections::BTreeMap;
use std::sync::Arc;

use blocks::Placement;
use bytes::Bytes;
use environment::failpoint;
use ids::{BlockShift, ObjectId};
use meta::Scan;

use crate::VolumeError;
use crate::keys::Keys;
use crate::node::upkeep_transaction;
use crate::row::{BadRow, Policy, RowReader, RowWriter};
use crate::volume::{Inner, Volume};

const FORMAT: u8 = 1;
/// Variants of one policy.
pub(crate) const MAX_VARIANTS: usize = 64;

/// Variants by the number of the policy that they stand for.
pub(crate) type Spreads = BTreeMap<u32, Vec<u32>>;

/// A policy of new files, and what it is spread over.
#[derive(Clone, Debug)]
pub struct Spread {
    /// As it was set, for the volume or for directories.
    pub policy: Arc<Policy>,
    /// What files get; the policy itself when it is not spread.
    pub variants: Vec<Arc<Policy>>,
}

/// Files that would move to one set of clouds from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shift {
    /// How they are stored.
    pub from: Placement,
    /// How they would be.
    pub to: Placement,
    /// How many there are.
    pub files: u64,
    /// Blocks of them that are stored, at the most.
    pub blocks: u64,
    /// Bytes that they use.
    pub bytes: u64,
}

pub(crate) fn encode_spread(variants: &[u32]) -> Bytes {
    let mut row = RowWriter::new(FORMAT);
    for variant in variants {
        row.number(u64::from(*variant));
    }
    row.finish()
}

pub(crate) fn decode_spread(row: &[u8]) -> Result<Vec<u32>, BadRow> {
    let mut reader = RowReader::new(row, FORMAT)?;
    let mut variants = Vec::new();
    while !reader.is_empty() {
        variants.push(reader.number32()?);
        if variants.len() > MAX_VARIANTS {
            return Err(BadRow("too many variants of a policy"));
        }
    }
    match variants.is_empty() {
        true => Err(BadRow("a policy without variants")),
        false => Ok(variants),
    }
}

pub(crate) async fn read_spreads(
    keys: Keys,
    transaction: &mut dyn meta::Transaction,
) -> Result<Spreads, VolumeError> {
    let (start, end) = keys.spreads();
    let damaged = |cause| VolumeError::Damaged { what: "the variants of a policy".into(), cause };
    let mut spreads = Spreads::new();
    for (key, row) in
        transaction.scan(Scan { start: &start, end: &end, guard: None, limit: usize::MAX }).await?
    {
        let policy = Keys::policy_of(&key).ok_or_else(|| damaged(BadRow("a key of the wrong length")))?;
        spreads.insert(policy, decode_spread(&row).map_err(damaged)?);
    }
    Ok(spreads)
}

/// Whether files can move from one policy to the other by changing clouds alone, whatever their block size.
pub(crate) fn are_siblings(one: &Policy, other: &Policy) -> bool {
    one.placement.scheme() == other.placement.scheme() && one.protection == other.protection
}

/// Which of these a file gets. The highest of numbers that follow from file and clouds wins: whoever adds or takes away a variant moves only the
/// files that come to it or have to leave it.
fn choose<'a, T>(variants: impl Iterator<Item = (T, &'a Placement)>, object: ObjectId) -> Option<T> {
    let weight = |placement: &Placement| {
        let clouds = placement.clouds().iter();
        clouds.fold(mixed(object.number.0 as u64), |mix, cloud| mixed(mix ^ u64::from(cloud.0)))
    };
    variants.max_by_key(|(_, placement)| weight(placement)).map(|(variant, _)| variant)
}

/// The finalizer of SplitMix64: every bit depends on every bit.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

impl Volume {
    /// The policies of new files, of the volume and of its directories.
    pub fn spreads(&self) -> Vec<Spread> {
        let inner = &self.inner;
        let (policies, spreads) = (inner.policies.read(), inner.spreads.read());
        let mut numbers: Vec<u32> = inner.directories.read().values().copied().collect();
        numbers.push(inner.record.read().policy);
        numbers.sort_unstable();
        numbers.dedup();
        let spread = |number: u32| {
            let policy = policies.get(&number)?.clone();
            let variants = spreads.get(&number).into_iter().flatten();
            let mut variants: Vec<_> =
                variants.filter_map(|variant| policies.get(variant).cloned()).collect();
            if variants.is_empty() {
                variants.push(policy.clone());
            }
            Some(Spread { policy, variants })
        };
        numbers.into_iter().filter_map(spread).collect()
    }

    /// Has all files move that are on other clouds than they would get if they were made now, and differ in nothing else; but not those that share
    /// blocks with others, which would be stored several times. Returns when that is durable; the rest is done in the background, and goes on after a restart.
    pub async fn rebalance(&self) -> Result<(), VolumeError> {
        let inner = &self.inner;
        let noted: Result<(), VolumeError> = upkeep_transaction!(inner.node, |transaction| {
            let key = inner.keys.migration(inner.root);
            let known = transaction.get(&key).await?;
            transaction.put(key, crate::migration::asked(known.as_deref(), true));
            Ok(())
        });
        noted?;
        failpoint!("spread.begun");
        inner.migration.begun.notify_one();
        Ok(())
    }

    /// What would move if these policies had these variants.
    pub async fn shifts(&self, wanted: &[(Arc<Policy>, Vec<Policy>)]) -> Result<Vec<Shift>, VolumeError> {
        self.inner.shifts(wanted).await
    }
}

impl Inner {
    /// What a file gets that would get `policy`.
    pub fn variant(&self, policy: u32, object: ObjectId) -> u32 {
        let spreads = self.spreads.read();
        let Some(variants) = spreads.get(&policy) else { return policy };
        let policies = self.policies.read();
        let known = variants.iter().filter_map(|number| Some((*number, &policies.get(number)?.placement)));
        choose(known, object).unwrap_or(policy)
    }
}

/// What a look for files that would move has found.
pub(crate) struct Count<'a> {
    wanted: &'a [(Arc<Policy>, Vec<Policy>)],
    pub shifts: Vec<Shift>,
}

impl<'a> Count<'a> {
    pub fn new(wanted: &'a [(Arc<Policy>, Vec<Policy>)]) -> Count<'a> {
        Count { wanted, shifts: Vec::new() }
    }

    /// What a file would get that is stored by `old` and would get `policy`, if that is something else.
    fn destination(&self, object: ObjectId, old: &Policy, policy: &Arc<Policy>) -> Option<&'a Policy> {
        let (_, variants) = self.wanted.iter().find(|(wanted, _)| wanted == policy)?;
        let new = choose(variants.iter().map(|variant| (variant, &variant.placement)), object)?;
        let stays = old.placement.clouds() == new.placement.clouds();
        (are_siblings(old, new) && !stays).then_some(new)
    }

    /// Whether a file would move.
    pub fn would_move(&self, object: ObjectId, old: &Policy, policy: &Arc<Policy>) -> bool {
        self.destination(object, old, policy).is_some()
    }

    /// Counts it.
    pub fn add(
        &mut self,
        object: ObjectId,
        (old, policy): (&Policy, &Arc<Policy>),
        (shift, bytes): (BlockShift, u64),
    ) {
        let Some(new) = self.destination(object, old, policy) else { return };
        let (from, to) = (&old.placement, &new.placement);
        let at = self.shifts.iter().position(|known| (&known.from, &known.to) == (from, to));
        let at = at.unwrap_or_else(|| {
            self.shifts.push(Shift { from: from.clone(), to: to.clone(), files: 0, blocks: 0, bytes: 0 });
            self.shifts.len() - 1
        });
        let known = &mut self.shifts[at];
        known.files += 1;
        known.blocks += shift.blocks_in(bytes);
        known.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use blocks::CloudId;
    use ids::{GatewayId, ObjectNumber};

    use super::*;

    fn windows(clouds: u16) -> Vec<Placement> {
        let window = |first: u16| {
            let ids = (first..first + 3).map(|cloud| CloudId(cloud % clouds)).collect();
            Placement::new("rs:2+1".parse().unwrap(), ids, BlockShift::MIN).unwrap()
        };
        (0..clouds).map(window).collect()
    }

    fn chosen(variants: &[Placement], number: u128) -> usize {
        let object = ObjectId { creator: GatewayId(1), number: ObjectNumber(number) };
        choose(variants.iter().enumerate(), object).unwrap()
    }

    #[test]
    fn clouds_get_equal_shares_and_files_stay_that_need_not_move() {
        const FILES: u128 = 10_000;
        let (four, five) = (windows(4), windows(5));
        let mut shares = [0_u64; 5];
        let mut stayed = 0;
        for number in 0..FILES {
            let (before, after) = (&four[chosen(&four, number)], &five[chosen(&five, number)]);
            after.clouds().iter().for_each(|cloud| shares[usize::from(cloud.0)] += 1);
            stayed += u64::from(before == after);
        }
        for share in shares {
            assert!((5_700..6_300).contains(&share), "{shares:?}");
        }
        // Two windows are among the four and the five: a file stays there when one of them wins over all seven.
        assert!((2_600..3_100).contains(&stayed), "{stayed}");
    }

    #[test]
    fn variants_come_back() {
        for variants in [vec![7], vec![1, 900, 3]] {
            assert_eq!(decode_spread(&encode_spread(&variants)), Ok(variants));
        }
        assert!(decode_spread(&encode_spread(&[])).is_err());
        assert!(decode_spread(&encode_spread(&[1; MAX_VARIANTS + 1])).is_err());
    }
}
