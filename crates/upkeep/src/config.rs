use std::time::Duration;

use crate::CleaningCosts;

/// Pace and bounds of the upkeep of one volume.
#[derive(Clone, Debug)]
pub struct UpkeepConfig {
    /// Plaintext bytes of blocks on their way to the clouds; sealed blocks and fragments come on top, up to twice
    /// as much again.
    pub in_flight: u64,
    /// Blocks that are sealed and no longer than this travel together in packs, unless they are full blocks of their file; 0 for
    /// none.
    pub longest_packed: u64,
    /// Bytes of a full pack.
    pub pack_size: u64,
    /// Blocks planned in one look at the metadata, and committed in one transaction.
    pub batch: usize,
    /// How often packs with much garbage are looked for and cleaned.
    pub clean_interval: Duration,
    /// Bytes of packs a second that cleaning reads at most.
    pub clean_rate: u64,
    /// When cleaning is worth it.
    pub cleaning: CleaningCosts,
    /// How often write-back looks for blocks that have rested; full and flushed blocks need no look.
    pub write_back_tick: Duration,
    /// How often garbage is collected. The delay before something becomes garbage is the volume's.
    pub garbage_interval: Duration,
    /// How often the repair queue is tried.
    pub repair_interval: Duration,
    /// Bytes a second that are moved at most from one policy to another; zero: no limit.
    pub migration_rate: u64,
    /// How often it is looked at the least whether files are to be moved so.
    pub migration_interval: Duration,
    /// How often removed files are taken apart at the least.
    pub reap_interval: Duration,
    /// How long after one that is known to be waiting.
    pub reap_rest: Duration,
    /// The first pause after a failure; it doubles with each further one.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

impl Default for UpkeepConfig {
    fn default() -> UpkeepConfig {
        UpkeepConfig {
            in_flight: 32 << 20,
            longest_packed: 256 << 10,
            pack_size: 4 << 20,
            batch: 128,
            clean_interval: Duration::from_secs(600),
            clean_rate: 4 << 20,
            cleaning: CleaningCosts::default(),
            write_back_tick: Duration::from_secs(1),
            garbage_interval: Duration::from_secs(60),
            repair_interval: Duration::from_secs(30),
            migration_rate: 32 << 20,
            migration_interval: Duration::from_secs(60),
            reap_interval: Duration::from_secs(10),
            reap_rest: Duration::from_millis(500),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
        }
    }
}
