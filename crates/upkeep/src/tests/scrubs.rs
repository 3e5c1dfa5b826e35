//! Periods of scrubs: over crashes, at their rate, one after the other.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::small_volume::object;
use super::world::{BLOCK, World, content};
use crate::{ScrubCounts, ScrubNotes, ScrubPeriod, ScrubSchedule, VolumeFailure};

/// Notes that outlive a crash, all of them.
#[derive(Default)]
struct Notebook(Mutex<Vec<ScrubPeriod>>);

#[async_trait]
impl ScrubNotes for Notebook {
    async fn load(&self) -> Result<Option<ScrubPeriod>, VolumeFailure> {
        Ok(self.0.lock().last().cloned())
    }

    async fn save(&self, period: &ScrubPeriod) -> Result<(), VolumeFailure> {
        self.0.lock().push(period.clone());
        Ok(())
    }
}

impl Notebook {
    fn last(&self) -> ScrubPeriod {
        self.0.lock().last().cloned().unwrap()
    }

    fn ended(&self) -> Vec<ScrubPeriod> {
        self.0.lock().iter().filter(|period| period.ended.is_some()).cloned().collect()
    }
}

const DAY: Duration = Duration::from_secs(86_400);
/// Each block of `rs:2+1` takes three halves.
const SLOW: ScrubSchedule = ScrubSchedule { period: DAY, rate: BLOCK, sample: 100 };
const BLOCKS: u64 = 300;

async fn filled() -> World {
    let world = World::new();
    for number in 0..30 {
        world.volume.write(object(number), 0, content(number as u64, 9));
    }
    world.write_all().await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_scrub_goes_on_where_crashes_left_it() {
    let mut world = filled().await;
    let notes = Notebook::default();
    let mut looked = 0;
    for saved in 1..=2 {
        let scrubber = &world.upkeep.scrubber;
        let crash = async {
            while notes.0.lock().len() < saved {
                world.env.clock.sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            ended = scrubber.period(SLOW, &world.upkeep.repairer, &notes) => panic!("{ended:?}"),
            () = crash => {}
        }
        looked += scrubber.checked();
        world = world.restart();
    }
    assert!(notes.last().ended.is_none() && notes.last().report.blocks > 0);
    let period = world.upkeep.scrubber.period(SLOW, &world.upkeep.repairer, &notes).await.unwrap();
    looked += world.upkeep.scrubber.checked();
    assert_eq!(period.report.blocks, BLOCKS, "each is counted once");
    assert_eq!(period.report.total(), ScrubCounts { good: 3 * BLOCKS, ..ScrubCounts::default() });
    // A crash costs what was done after the last note.
    assert!((BLOCKS..BLOCKS + 2 * 64).contains(&looked), "{looked}");
    assert_eq!(notes.last(), period);
}

#[tokio::test(start_paused = true)]
async fn every_fragment_is_checked_once_in_a_period_and_what_is_found_is_counted_and_repaired() {
    let world = filled().await;
    let memory = world.clouds[1].inner();
    let names = memory.names();
    memory.poke(&names[0], None);
    memory.poke(&names[1], Some(bytes::Bytes::from_static(b"junk")));
    let (notes, stop) = (Arc::new(Notebook::default()), CancellationToken::new());
    let schedule = ScrubSchedule { rate: 0, ..SLOW };
    let begun = world.env.clock.wall().seconds;
    let (upkeep, kept, stopped) = (world.upkeep.clone(), notes.clone(), stop.clone());
    let running = tokio::spawn(async move {
        upkeep.scrubber.run(schedule, (&upkeep.repairer, &*kept), &stopped).await;
    });
    world.env.clock.sleep(3 * DAY - Duration::from_secs(3600)).await;
    let ended = notes.ended();
    assert_eq!(ended.iter().map(|period| (period.begun - begun) / 86_400).collect::<Vec<_>>(), [0, 1, 2]);
    let total = |at: usize| ended[at].report.total();
    assert_eq!(total(0), ScrubCounts { good: 3 * BLOCKS - 2, missing: 1, bad: 1, unreachable: 0 });
    assert_eq!((ended[0].repaired.values().sum::<u64>(), ended[0].left), (2, 0));
    assert_eq!((total(1).good, ended[1].repaired.values().sum::<u64>()), (3 * BLOCKS, 0));
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_kept_also_after_a_cloud_has_held_a_scrub_up() {
    let world = filled().await;
    world.set_all(cloud::Side::Reads, &cloud::Fault::Delay(Duration::from_secs(20)));
    let notes = Notebook::default();
    let clock = world.env.clock.clone();
    let watch = async {
        clock.sleep(Duration::from_secs(400)).await;
        let before = world.upkeep.scrubber.checked();
        world.set_all(cloud::Side::Reads, &cloud::Fault::None);
        clock.sleep(Duration::from_secs(60)).await;
        world.upkeep.scrubber.checked() - before
    };
    let (_, looked) = tokio::join!(world.upkeep.scrubber.period(SLOW, &world.upkeep.repairer, &notes), watch);
    // 40 blocks in a minute, and those that were on their way.
    assert!((30..60).contains(&looked), "{looked}");
}
