use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use ids::{BlockIndex, GatewayId, ObjectId, Version};
use seal::{BlockIdentity, KeyEpoch};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{ScrubReport, Scrubber, Step};
use crate::pace::Pace;
use crate::{MaintainedVolume, Repairer, UpkeepError, VolumeFailure};

/// How often it is noted how far a period is. What was checked after that is checked again after a kill.
const SAVE: Duration = Duration::from_secs(60);
/// The wall clock may jump: it is looked at so often at the least while nothing is due.
const LOOK: Duration = Duration::from_secs(600);

/// How often all fragments are checked, and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubSchedule {
    /// From the beginning of one period to that of the next; zero for never.
    pub period: Duration,
    /// Bytes a second that are fetched at most; zero: no limit.
    pub rate: u64,
    /// Percent of the blocks that are checked, chosen anew in each period.
    pub sample: u8,
}

/// One check of all fragments of a volume, as far as it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubPeriod {
    /// When it began, in seconds since 1970.
    pub begun: i64,
    /// When it had come to the last block.
    pub ended: Option<i64>,
    /// Percent of the blocks that it checks.
    pub sample: u8,
    /// What it has found.
    pub report: ScrubReport,
    /// Fragments stored anew meanwhile, by cloud, whoever had found that they were needed.
    pub repaired: BTreeMap<u16, u64>,
    /// Blocks that still lacked fragments at its end.
    pub left: u64,
    /// The last block that was looked at.
    after: Option<At>,
}

/// A place in the order of block versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct At {
    object: String,
    block: u64,
    version: u64,
}

/// Where it is noted how far a period is.
#[async_trait]
pub trait ScrubNotes: Send + Sync {
    /// What was noted last.
    async fn load(&self) -> Result<Option<ScrubPeriod>, VolumeFailure>;

    /// Notes it durably, instead of what was noted before.
    async fn save(&self, period: &ScrubPeriod) -> Result<(), VolumeFailure>;
}

impl At {
    fn of(identity: &BlockIdentity) -> At {
        let BlockIdentity { object, block, version, .. } = identity;
        At { object: object.to_string(), block: block.0, version: version.0 }
    }
}

impl ScrubPeriod {
    /// One that has just begun.
    pub fn begin(now: i64, sample: u8) -> ScrubPeriod {
        ScrubPeriod { begun: now, sample, ..ScrubPeriod::default() }
    }

    /// A whole check that was made at once.
    pub fn whole(begun: i64, ended: i64, sample: u8, report: ScrubReport) -> ScrubPeriod {
        ScrubPeriod { begun, ended: Some(ended), sample, report, ..ScrubPeriod::default() }
    }
}

impl<V: MaintainedVolume + ?Sized> Scrubber<V> {
    /// Checks all blocks once in every period, until `stop`; returns at once when there is none. A period that a stop or a kill
    /// interrupted goes on.
    pub async fn run(
        &self,
        schedule: ScrubSchedule,
        (repairer, notes): (&Repairer<V>, &dyn ScrubNotes),
        stop: &CancellationToken,
    ) {
        if schedule.period.is_zero() {
            return;
        }
        loop {
            // Safe to drop anywhere: what is not noted is done again.
            let result = tokio::select! {
                () = stop.cancelled() => return,
                result = self.period(schedule, repairer, notes) => result,
            };
            if let Err(error) = result {
                tracing::warn!(volume = %self.volume.id(), %error, "a scrub stopped; it goes on later");
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = self.env.clock.sleep(SAVE) => {}
                }
            }
        }
    }

    /// Waits until a period is due, unless one is under way, and sees it through.
    pub async fn period(
        &self,
        schedule: ScrubSchedule,
        repairer: &Repairer<V>,
        notes: &dyn ScrubNotes,
    ) -> Result<ScrubPeriod, UpkeepError> {
        let clock = &*self.env.clock;
        let mut period = self.due(schedule, notes).await?;
        let mut pace = Pace::new(schedule.rate, clock);
        let (mut saved, mut repaired) = (clock.monotonic(), repairer.repaired());
        loop {
            let Step { report, last } = self.step(self.place(&period)?, period.sample, &mut pace).await?;
            period.report.add(&report);
            let is_last = last.is_none();
            if let Some(last) = last {
                period.after = Some(At::of(&last));
            }
            if !is_last && clock.monotonic().saturating_sub(saved) < SAVE {
                continue;
            }
            if is_last {
                // What was found last is being repaired.
                repairer.once().await?;
                period.left = repairer.queued().await?;
                period.ended = Some(clock.wall().seconds);
                period.after = None;
            }
            let now = repairer.repaired();
            for (cloud, count) in &now {
                let fresh = count - repaired.get(cloud).copied().unwrap_or(0);
                *period.repaired.entry(cloud.0).or_default() += fresh;
            }
            (saved, repaired) = (clock.monotonic(), now);
            notes.save(&period).await.map_err(UpkeepError::volume("noting how far a scrub is"))?;
            if is_last {
                tracing::info!(volume = %self.volume.id(), blocks = period.report.blocks, found = ?period.report.total(), "scrubbed");
                return Ok(period);
            }
        }
    }

    /// What is under way, or a new period when it is due.
    async fn due(&self, schedule: ScrubSchedule, notes: &dyn ScrubNotes) -> Result<ScrubPeriod, UpkeepError> {
        let clock = &*self.env.clock;
        let failed = UpkeepError::volume("looking how far a scrub is");
        let known = notes.load().await.map_err(failed)?;
        let Some(known) = known else {
            return Ok(ScrubPeriod::begin(clock.wall().seconds, schedule.sample));
        };
        if known.ended.is_none() {
            return Ok(known);
        }
        loop {
            let now = clock.wall().seconds;
            let next = known.begun.saturating_add(schedule.period.as_secs() as i64);
            // A clock that was wrong must not put the next one off for ever.
            if now >= next || now < known.begun {
                return Ok(ScrubPeriod::begin(now, schedule.sample));
            }
            clock.sleep(Duration::from_secs((next - now) as u64).min(LOOK)).await;
        }
    }

    fn place(&self, period: &ScrubPeriod) -> Result<Option<BlockIdentity>, UpkeepError> {
        let Some(at) = &period.after else { return Ok(None) };
        let object: ObjectId = at
            .object
            .parse()
            .map_err(|cause: String| UpkeepError::volume("looking how far a scrub is")(cause.into()))?;
        // Only the place in the order counts.
        Ok(Some(BlockIdentity {
            volume: self.volume.id(),
            object,
            block: BlockIndex(at.block),
            version: Version(at.version),
            creator: GatewayId(0),
            epoch: KeyEpoch(0),
        }))
    }
}
