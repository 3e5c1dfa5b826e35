//! How and when the process dies in each round.

use std::sync::LazyLock;
use std::time::Duration;

use environment::failpoint;

use crate::support::Random;

/// The points of this scenario. Clouds are replaced and added, keys shredded, which takes files away, and gateways restored in scenarios
/// of their own (`healing.rs`, `keys`, `restore`).
pub static POINTS: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    let elsewhere = |name: &str| {
        ["drain.", "spread.", "shred.", "restore."].iter().any(|family| name.starts_with(family))
    };
    failpoint::POINTS.iter().copied().filter(|(name, _)| !elsewhere(name)).collect()
});

/// Those that a transaction passes on its way to be durable: each has to be met with one under way (T6).
pub const COMMIT_PATH: [&str; 7] = [
    "compound.before-commit",
    "journal.before-write",
    "journal.torn-write",
    "journal.before-sync",
    "journal.after-sync",
    "meta.before-apply",
    "compound.after-commit",
];

#[derive(Debug, Clone)]
pub enum Plan {
    /// SIGKILL after so much load.
    AnyMoment(Duration),
    /// At the n-th pass of a point.
    Point { name: &'static str, nth: u64 },
}

/// Three quarters of the rounds at points, every one at least once, the others at any moment, in random order.
pub fn plans(rounds: usize, random: &mut Random) -> Vec<Plan> {
    let mut plans: Vec<Plan> = (0..rounds)
        .map(|round| match POINTS.get(round % (2 * POINTS.len())).or(POINTS.get(round % POINTS.len())) {
            Some(&(name, _)) if round < (rounds * 3 / 4).max(POINTS.len()) => {
                Plan::Point { name, nth: 1 + random.below(often(name)) }
            }
            _ => any_moment(random),
        })
        .collect();
    for at in (1..plans.len()).rev() {
        plans.swap(at, random.below(at as u64 + 1) as usize);
    }
    plans
}

/// At some moment under load.
pub fn any_moment(random: &mut Random) -> Plan {
    Plan::AnyMoment(Duration::from_millis(20 + random.below(1200)))
}

/// How many passes a short load is sure to make.
pub fn often(name: &str) -> u64 {
    match name.split('.').next() {
        // Once in a segment.
        Some("journal") if ["journal.segment-ended", "journal.before-recycle"].contains(&name) => 1,
        Some("journal") => 150,
        Some("writeback") => 10,
        Some("gc") => 4,
        _ => 1,
    }
}
