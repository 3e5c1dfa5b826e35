//! Which clouds are asked, in what order, and after what wait others as well.

use std::collections::VecDeque;
use std::time::Duration;

use cloud::{Connection, Direction, Forecast, ObjectName};

use super::{BlockStore, fault};
use crate::target::Target;
use crate::{Fault, FragmentFault, Preference};

/// A cloud that may be asked for a fragment.
struct Candidate<'s> {
    fragment: u8,
    cloud: &'s Connection,
    /// Asked when all others have been.
    last: (bool, bool),
    forecast: Forecast,
}

impl Candidate<'_> {
    /// Compared from the first to the last; smaller is better.
    fn rank(&self, preference: Preference, size: u64) -> [f64; 5] {
        let (avoided, sick) = self.last;
        let flag = |is: bool| f64::from(u8::from(is));
        let (late, price) = match preference {
            Preference::Speed => (false, 0.0),
            Preference::Cost { bound } if self.forecast.slow > bound.as_secs_f64() => (true, 0.0),
            Preference::Cost { .. } => {
                (false, self.cloud.prices().map_or(0.0, |prices| prices.of_reading(size)))
            }
        };
        [flag(avoided), flag(sick), flag(late), price, self.forecast.expected]
    }
}

impl BlockStore {
    /// The fragments in the order in which to ask for `size` bytes of them: well clouds before sick ones, then by what is
    /// preferred. What costs the same is asked of the fastest.
    pub(super) fn ranked<'s>(
        &'s self,
        target: &Target<'_>,
        size: u64,
        avoid: &[u8],
        faults: &mut Vec<Fault>,
    ) -> VecDeque<(u8, &'s Connection)> {
        let mut ranked = Vec::with_capacity(target.placement.scheme().total());
        for fragment in target.placement.fragments() {
            let Some(cloud) = self.cloud_of(target, fragment) else {
                faults.push(fault(target, fragment, FragmentFault::NoSuchCloud));
                continue;
            };
            let health = cloud.health();
            let sick = health.is_sick(Direction::Read);
            if sick && health.admits(Direction::Read) {
                probe(cloud.clone(), target.name_of(fragment));
            }
            let (last, forecast) =
                ((avoid.contains(&fragment), sick), health.forecast(Direction::Read, size));
            let candidate = Candidate { fragment, cloud, last, forecast };
            ranked.push((candidate.rank(self.limits.preference, size), candidate));
        }
        let by_rank = |left: &[f64; 5], right: &[f64; 5]| {
            let pairs = left.iter().zip(right).map(|(left, right)| left.total_cmp(right));
            pairs.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        };
        ranked.sort_by(|left, right| by_rank(&left.0, &right.0));
        ranked.into_iter().map(|(_, candidate)| (candidate.fragment, candidate.cloud)).collect()
    }

    /// After what time others are asked as well for `size` bytes, when the first `chosen` of `ranked` have been asked and any
    /// `needed` of them all suffice: when those chosen should be done, with what is pending there.
    pub(super) fn hedge_after(
        &self,
        size: u64,
        ranked: &VecDeque<(u8, &Connection)>,
        chosen: usize,
        needed: usize,
    ) -> Duration {
        let usual = |cloud: &Connection| match cloud.health().p95(Direction::Read, size) {
            Some(_) => cloud.health().forecast(Direction::Read, size).slow,
            None => self.limits.first_hedge.as_secs_f64(),
        };
        let slowest = ranked.iter().take(chosen).map(|(_, cloud)| usual(cloud)).fold(0.0, f64::max);
        let slowest = Duration::try_from_secs_f64(slowest).unwrap_or(Duration::MAX);
        let (wait, longest) = match self.limits.preference {
            Preference::Speed => (slowest, self.limits.longest_hedge),
            Preference::Cost { bound } => {
                // Others cost more: as late as they can still be in time.
                let rest = ranked.iter().skip(chosen).take(needed);
                let expected = |cloud: &Connection| cloud.health().forecast(Direction::Read, size).expected;
                let latest = rest.map(|(_, cloud)| expected(cloud)).fold(0.0, f64::max);
                let latest = bound.saturating_sub(Duration::try_from_secs_f64(latest).unwrap_or(bound));
                (slowest.max(latest), self.limits.longest_hedge.max(bound))
            }
        };
        wait.min(longest).max(self.limits.shortest_hedge)
    }

    /// After what time a cloud that has to answer, since no other can stand in for it any more, is asked once more: after two of three of
    /// its answers, not after nineteen of twenty, which would cost a read more often than where others can stand in. `None`: nothing is known of
    /// it, or requests are to be saved.
    pub(super) fn again_after(&self, size: u64, cloud: &Connection) -> Option<Duration> {
        if self.limits.preference != Preference::Speed {
            return None;
        }
        cloud.health().p95(Direction::Read, size)?;
        let late = cloud.health().forecast(Direction::Read, size).late;
        Some(Duration::try_from_secs_f64(late).ok()?.max(self.limits.shortest_hedge))
    }

    /// Whether a cloud that alone suffices for `size` bytes is so slow that `needed` of the others are asked instead.
    pub(super) fn is_too_slow_alone(
        &self,
        size: u64,
        alone: usize,
        ranked: &VecDeque<(u8, &Connection)>,
        needed: usize,
    ) -> bool {
        let forecast = |cloud: &Connection| cloud.health().forecast(Direction::Read, size);
        let Some((_, cloud)) = ranked.get(alone) else { return true };
        let own = forecast(cloud);
        let well = ranked.iter().filter(|(_, other)| !other.health().is_sick(Direction::Read));
        let mut others: Vec<f64> = well.map(|(_, other)| forecast(other).expected).collect();
        others.sort_unstable_by(f64::total_cmp);
        let Some(together) = others.get(needed.saturating_sub(1)) else { return false };
        // They make more work for everybody, so they have to be clearly faster.
        let slower = own.expected > 2.0 * together + self.limits.shortest_hedge.as_secs_f64();
        match self.limits.preference {
            Preference::Speed => slower,
            Preference::Cost { bound } => slower && own.slow > bound.as_secs_f64(),
        }
    }
}

/// Finds out in the background whether a sick cloud answers again, so that no read has to wait for it.
fn probe(cloud: Connection, name: ObjectName) {
    tokio::spawn(async move { cloud.head(&name).await });
}
