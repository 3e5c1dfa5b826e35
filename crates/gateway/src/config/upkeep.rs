use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ByteSize, Span};

/// Less would be one scrub after the other.
const LEAST_SCRUB_PERIOD: Duration = Duration::from_secs(60);

/// Work behind the scenes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UpkeepConfig {
    /// Bytes a second that `kurma cloud drain` and `replace` copy from one cloud to another, at most; 0: no limit.
    pub drain_rate: ByteSize,
    /// How long a superseded or deleted block stays in the clouds.
    pub gc_delay: Span,
    /// Bytes that write-back, repair and scrub may have in flight together.
    pub in_flight: ByteSize,
    /// Fragments beyond those needed to read a block with which a write to the clouds is done, up to all that the policy has; what is
    /// missing then is repaired. With more, data waits in the journal while clouds are away.
    pub least_spare: u8,
    /// Blocks that are no longer than this when sealed share objects in the clouds, unless they are full blocks of their file; 0 for
    /// none. At most a quarter of `pack_size`.
    pub longest_packed: ByteSize,
    /// Bytes a second that `kurma volume migrate` moves from one policy to another, at most; 0: no limit.
    pub migration_rate: ByteSize,
    /// Bytes of such an object when it is full, before it is dispersed: 1MiB to 16MiB.
    pub pack_size: ByteSize,
    /// All fragments are fetched and proved once in this time; 0: only by `kurma scrub`. At least 1m.
    pub scrub_period: Span,
    /// Bytes a second that are fetched for that, at most, for each volume; 0: no limit.
    pub scrub_rate: ByteSize,
    /// Percent of the blocks that are looked at in a period, chosen anew each time.
    pub scrub_sample: u8,
    /// How long a stop waits for dirty data to reach the clouds.
    pub stop_wait: Span,
}

impl UpkeepConfig {
    /// The wrong key, and what is wrong with it.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let (packed, pack, in_flight) = (self.longest_packed, self.pack_size, self.in_flight);
        let period = self.scrub_period.as_duration();
        if !period.is_zero() && period < LEAST_SCRUB_PERIOD {
            return Err(("scrub_period", format!("{} is less than 1m", self.scrub_period)));
        }
        if !(1..=100).contains(&self.scrub_sample) {
            return Err(("scrub_sample", format!("{} is not between 1 and 100", self.scrub_sample)));
        }
        if !(ByteSize::mib(1)..=ByteSize::mib(16)).contains(&pack) {
            return Err(("pack_size", format!("{pack} is not between 1MiB and 16MiB")));
        }
        if pack > in_flight {
            return Err((
                "pack_size",
                format!(
                    "{pack} is more than may be in flight: lower it, or raise upkeep.in_flight ({in_flight})"
                ),
            ));
        }
        if packed.bytes() > pack.bytes() / 4 {
            return Err((
                "longest_packed",
                format!(
                    "{packed} is more than a quarter of upkeep.pack_size ({pack}): lower it, or raise that"
                ),
            ));
        }
        Ok(())
    }
}

impl Default for UpkeepConfig {
    fn default() -> Self {
        UpkeepConfig {
            drain_rate: ByteSize::mib(32),
            gc_delay: Span::from_secs(600),
            in_flight: ByteSize::mib(64),
            least_spare: 0,
            longest_packed: ByteSize::kib(256),
            pack_size: ByteSize::mib(4),
            migration_rate: ByteSize::mib(32),
            scrub_period: Span::from_secs(0),
            scrub_rate: ByteSize::mib(8),
            scrub_sample: 100,
            stop_wait: Span::from_secs(30),
        }
    }
}
