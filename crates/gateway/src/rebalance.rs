//! Spreading files over more clouds than a block has fragments, so that each has its share (decision 31).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use blocks::{CloudId, Placement};
use serde::Serialize;
use volume::{Policy, Shift, Spread, Volume};

use crate::node::Node;

/// What a volume's files are to be spread over: each policy of new files, with its variants.
pub(crate) type Wanted = Vec<(Arc<Policy>, Vec<Policy>)>;

/// What a rebalancing would ask of a volume and its clouds.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Estimate {
    /// Files that would move.
    pub files: u64,
    /// Blocks of them, each stored once more.
    pub blocks: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// What that is for each cloud.
    pub clouds: BTreeMap<String, CloudEstimate>,
    /// What it would cost, by the prices of the configuration.
    pub money: f64,
}

/// What one cloud would have to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct CloudEstimate {
    /// Fragments that would be stored.
    pub put: u64,
    /// Fragments that would be fetched.
    pub get: u64,
    /// Fragments that would be deleted, later.
    pub delete: u64,
    /// Bytes to it.
    pub up_bytes: u64,
    /// Bytes from it.
    pub down_bytes: u64,
    /// What it would charge.
    pub money: f64,
}

/// The same policy over more clouds: as many variants as there are clouds, each beginning at another one, so that every cloud
/// is in equally many. With no more clouds than are needed there is one.
pub(crate) fn windows(policy: &Policy, clouds: &[CloudId]) -> Result<Vec<Policy>, String> {
    let Policy { placement, protection } = policy;
    let total = placement.scheme().total();
    let count = if clouds.len() > total { clouds.len() } else { 1 };
    let window = |first: usize| {
        let ring = clouds.iter().cycle().skip(first).take(total.min(clouds.len()));
        let placement = Placement::new(placement.scheme(), ring.copied().collect(), placement.block_shift());
        Ok(Policy { placement: placement.map_err(|cause| cause.to_string())?, protection: *protection })
    };
    (0..count).map(window).collect()
}

/// The clouds of a policy and its variants, in the order in which the variants begin.
pub(crate) fn ring(spread: &Spread) -> Vec<CloudId> {
    let firsts = spread.variants.iter().filter_map(|variant| variant.placement.clouds().first());
    let rest = spread.variants.iter().flat_map(|variant| variant.placement.clouds());
    let mut seen = BTreeSet::new();
    firsts.chain(rest).copied().filter(|cloud| seen.insert(*cloud)).collect()
}

impl Node {
    /// The clouds of the files that are made in a volume, by name: as many as a block has fragments, or more, over which files are spread.
    pub fn clouds_of_new_files(&self, volume: &Volume) -> Vec<String> {
        let policy = volume.policy();
        let spread = volume.spreads().into_iter().find(|spread| spread.policy == policy);
        let spread = spread.unwrap_or_else(|| Spread { policy: policy.clone(), variants: vec![policy] });
        ring(&spread).into_iter().map(|cloud| self.clouds.name_of(cloud)).collect()
    }

    /// What the files of a volume are to be spread over: all clouds that take new files. Those that have some keep their
    /// place, so that little moves.
    pub fn wanted_spread(&self, volume: &Volume) -> Result<Wanted, String> {
        let usable = self.clouds.for_new_files();
        let mut wanted = Wanted::new();
        for spread in volume.spreads() {
            if spread.policy.placement.scheme().is_convergent() {
                // Content is looked for among files of the same clouds: spread, it would be stored several times.
                continue;
            }
            let mut names = BTreeSet::new();
            let mut clouds = Vec::new();
            for number in ring(&spread) {
                let name = self.clouds.name_of(number);
                if usable.contains(&name) && names.insert(name) {
                    clouds.push(number);
                }
            }
            for name in &usable {
                if names.insert(name.clone()) {
                    clouds.push(self.clouds.number_for_new_files(name)?);
                }
            }
            let total = spread.policy.placement.scheme().total();
            if clouds.len() < total {
                let have = clouds.len();
                return Err(format!(
                    "volume {:?}: {} needs {total} clouds, and {have} take new files",
                    volume.name(),
                    spread.policy.placement.scheme()
                ));
            }
            let variants = windows(&spread.policy, &clouds)?;
            wanted.push((spread.policy, variants));
        }
        Ok(wanted)
    }

    /// Spreads what is made in a volume from now on, and has the rest moved.
    pub async fn rebalance(&self, volume: &Volume, wanted: Wanted) -> Result<(), String> {
        if wanted.is_empty() {
            return Ok(());
        }
        let spreads =
            wanted.into_iter().map(|(policy, variants)| (Policy::clone(&policy), variants)).collect();
        self.volumes.spread(&volume.name(), spreads).await.map_err(|cause| cause.to_string())?;
        volume.rebalance().await.map_err(|cause| cause.to_string())
    }

    /// What that would take.
    pub async fn estimate(&self, volume: &Volume, wanted: &Wanted) -> Result<Estimate, String> {
        let shifts = volume.shifts(wanted).await.map_err(|cause| cause.to_string())?;
        let mut estimate = Estimate::default();
        for shift in &shifts {
            self.add_shift(shift, &mut estimate);
        }
        for (name, cloud) in &mut estimate.clouds {
            let prices = self.clouds.get(name).and_then(|(config, _)| config.price).unwrap_or_default();
            cloud.money = cloud.put as f64 * prices.put
                + cloud.get as f64 * prices.get
                + cloud.delete as f64 * prices.delete
                + cloud.down_bytes as f64 / 1e9 * prices.egress_gb;
            estimate.money += cloud.money;
        }
        Ok(estimate)
    }

    /// A block that moves is fetched from as many clouds as are needed, stored in all new ones, and deleted later in all old ones.
    fn add_shift(&self, shift: &Shift, estimate: &mut Estimate) {
        let Shift { from, to, files, blocks, bytes } = shift;
        estimate.files += files;
        estimate.blocks += blocks;
        estimate.bytes += bytes;
        let needed = from.scheme().needed();
        let fragments = bytes / needed.max(1) as u64;
        for (at, cloud) in from.clouds().iter().enumerate() {
            let cloud = estimate.clouds.entry(self.clouds.name_of(*cloud)).or_default();
            cloud.delete += blocks;
            if at < needed {
                cloud.get += blocks;
                cloud.down_bytes += fragments;
            }
        }
        for cloud in to.clouds() {
            let cloud = estimate.clouds.entry(self.clouds.name_of(*cloud)).or_default();
            cloud.put += blocks;
            cloud.up_bytes += fragments;
        }
    }
}

#[cfg(test)]
mod tests {
    use blocks::Protection;
    use ids::BlockShift;

    use super::*;
    use crate::test_node;

    fn policy(clouds: &[u16]) -> Policy {
        let clouds = clouds.iter().copied().map(CloudId).collect();
        let placement = Placement::new("rs:2+1".parse().unwrap(), clouds, BlockShift::MIN).unwrap();
        Policy { placement, protection: Protection::default() }
    }

    #[test]
    fn every_cloud_is_in_equally_many_windows_and_adding_one_keeps_some() {
        let ids = |clouds: std::ops::RangeInclusive<u16>| clouds.map(CloudId).collect::<Vec<_>>();
        let base = policy(&[1, 2, 3]);
        assert_eq!(windows(&base, &ids(1..=3)).unwrap(), std::slice::from_ref(&base));
        let (four, five) = (windows(&base, &ids(1..=4)).unwrap(), windows(&base, &ids(1..=5)).unwrap());
        assert_eq!(four[0], base, "what lies there stays");
        for cloud in ids(1..=5) {
            assert_eq!(five.iter().filter(|window| window.placement.clouds().contains(&cloud)).count(), 3);
        }
        assert!(five.starts_with(&four[..2]));
        let variants = four.into_iter().map(Arc::new).collect();
        assert_eq!(ring(&Spread { policy: Arc::new(base.clone()), variants }), ids(1..=4));
        assert!(windows(&base, &ids(1..=2)).is_err());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_new_cloud_is_put_behind_the_old_ones_and_one_that_takes_nothing_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let node = test_node::open(folder.path(), &["a", "b", "c", "d", "e"]).await;
        let home = node.served()[0].volume.clone();
        let clouds = |wanted: &Wanted| {
            let variants = wanted[0].1.iter().map(|policy| policy.placement.clouds()[0]);
            variants.map(|cloud| node.clouds.name_of(cloud)).collect::<Vec<_>>()
        };
        node.clouds.drained("d");
        let wanted = node.wanted_spread(&home).unwrap();
        assert_eq!(clouds(&wanted), ["a", "b", "c", "e"]);
        node.rebalance(&home, wanted).await.unwrap();
        assert_eq!(clouds(&node.wanted_spread(&home).unwrap()), ["a", "b", "c", "e"], "again the same");
        node.clouds.drained("a");
        assert_eq!(node.wanted_spread(&home).unwrap()[0].1.len(), 1, "three are left for three fragments");
        node.clouds.drained("b");
        assert!(node.wanted_spread(&home).unwrap_err().contains("needs 3 clouds, and 2"));
        node.stop.cancel();
    }
}
