use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use blocks::{BlockStore, CloudId, Relocated, Relocation};
use cloud::{Connection, Direction};
use environment::Environment;
use futures::future::BoxFuture;
use futures::stream::{StreamExt, iter};
use serde::Serialize;
use tokio::sync::Mutex;

use crate::{BlockVersion, MaintainedVolume, Pace, Upkeep, UpkeepError};

/// Blocks looked up at a time.
const BATCH: usize = 64;
/// Fragments moved at the same time.
const PARALLEL: usize = 8;
/// The pause between two passes that got nothing done.
const PAUSE: Duration = Duration::from_secs(10);
/// The first pause when all has moved and only garbage is waited for; each is twice as long as the one before, up to [`PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// How long superseded versions may need to leave the cloud after they are due.
const GRACE: Duration = Duration::from_secs(70);
/// Objects left behind that are counted.
const COUNTED: usize = 1000;

/// Empties a cloud: everything under some numbers moves to another one.
///
/// What is stored under the numbers goes to the new cloud by now, and is looked for in both ([`Connection::moving`]). Passes over all
/// blocks move what is still in the old one; what that has lost, or cannot be asked for, is rebuilt from the other clouds by the
/// repair queue: everything, if there is no way to it. It may be dropped anywhere, and another one goes on.
pub struct Drainer {
    /// Where all fragments are.
    pub blocks: Arc<BlockStore>,
    /// Clock of the machine.
    pub env: Environment,
    /// What moves.
    pub numbers: BTreeSet<CloudId>,
    /// Where it is; `None` when there is no way to that cloud any more.
    pub from: Option<Connection>,
    /// Where it is to be.
    pub to: Connection,
    /// Bytes to be copied in a second at most; 0 is no limit.
    pub rate: u64,
    /// How long garbage is kept, which has to leave the old cloud, too.
    pub gc_delay: Duration,
}

/// What only the owner of clouds and volumes can do.
#[async_trait]
pub trait DrainOwner<V: ?Sized>: Send + Sync {
    /// The upkeep of all volumes that may have something under the numbers.
    fn volumes(&self) -> Vec<Arc<Upkeep<V>>>;

    /// Whether both clouds have shown that they are two stores. Until then nothing is deleted.
    ///
    /// # Errors
    /// They are one, under two names, which the text says.
    async fn are_apart(&self) -> Result<bool, String>;

    /// Backs the metadata up, if that is to be done at all: nothing is deleted in the old cloud before a restore would look for it in both, and the
    /// old cloud is not given up before the new one has the backup, too (`to_the_new`).
    ///
    /// # Errors
    /// Why a restore may still need the old cloud.
    async fn back_up(&self, to_the_new: bool) -> Result<(), String>;

    /// How it is going.
    fn told(&self, progress: &DrainProgress);
}

/// How a drain is going.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DrainProgress {
    /// Fragments of current blocks that have been looked at in this pass.
    pub done: u64,
    /// Fragments of current blocks under the numbers.
    pub total: u64,
    /// Fragments copied so far.
    pub moved: u64,
    /// Bytes copied so far.
    pub bytes: u64,
    /// Fragments that are neither in the new cloud nor can be rebuilt at present.
    pub stuck: u64,
    /// Objects in the old cloud that no volume refers to.
    pub left_behind: u64,
    /// Why it does not go on.
    pub problem: Option<String>,
}

/// What a pass over all blocks did.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Pass {
    moved: u64,
    lost: u64,
    failed: u64,
    /// In the new cloud, and not to be deleted in the old one yet.
    late: u64,
    rebuilt: u64,
}

impl Drainer {
    /// Returns when nothing is left in the old cloud that anybody needs, and how many objects still are there, if that can be told.
    pub fn run<'a, V: MaintainedVolume + ?Sized>(
        &'a self,
        owner: &'a dyn DrainOwner<V>,
    ) -> BoxFuture<'a, u64> {
        Box::pin(self.empty(owner))
    }

    async fn empty<V: MaintainedVolume + ?Sized>(&self, owner: &dyn DrainOwner<V>) -> u64 {
        let clock = &*self.env.clock;
        let mut progress = DrainProgress::default();
        self.blocks.writes_ended().await;
        // Backups that look for fragments in the old cloud only must not be the newest when those are deleted there.
        while let Err(problem) = owner.back_up(false).await {
            self.stuck(owner, &mut progress, problem).await;
        }
        let pace = Mutex::new(Pace::new(self.rate, clock));
        // Since when nothing is left to be moved, and how long the next pause is.
        let mut clean = None;
        let mut apart = false;
        loop {
            // Configurations change over restarts, and clouds come back.
            if !apart && self.from.is_some() {
                match owner.are_apart().await {
                    Ok(are_apart) => apart = are_apart,
                    Err(problem) => {
                        self.stuck(owner, &mut progress, problem).await;
                        continue;
                    }
                }
            }
            progress.problem = None;
            let pass = match self.pass(owner, &mut progress, apart, &pace).await {
                Ok(pass) => pass,
                Err(problem) => {
                    self.stuck(owner, &mut progress, problem.to_string()).await;
                    clean = None;
                    continue;
                }
            };
            let now = clock.monotonic();
            clean = if pass == Pass::default() { clean.or(Some((now, FIRST_PAUSE))) } else { None };
            let left = (pass.lost + pass.failed).saturating_sub(pass.rebuilt);
            let is_going = pass.moved + pass.rebuilt > 0;
            progress.stuck = left;
            progress.problem = (left > 0 && !is_going).then(|| {
                format!("{left} fragments can neither be copied nor rebuilt at present; see `kurma status`")
            });
            owner.told(&progress);
            let Some((since, pause)) = clean else {
                if !is_going {
                    clock.sleep(PAUSE).await;
                }
                continue;
            };
            if let Err(problem) = owner.back_up(true).await {
                self.stuck(owner, &mut progress, problem).await;
                // Garbage that waited for the backup can leave only now.
                clean = None;
                continue;
            }
            let left_behind = self.left_behind().await;
            let waited = now.saturating_sub(since);
            let is_unknown = left_behind.is_none() && !waited.is_zero();
            if left_behind == Some(0) || is_unknown || waited > self.gc_delay + GRACE {
                return left_behind.unwrap_or(0);
            }
            progress.left_behind = left_behind.unwrap_or(0);
            owner.told(&progress);
            for volume in owner.volumes() {
                if let Err(error) = volume.garbage.once().await {
                    tracing::debug!(%error, "garbage of a cloud that is drained");
                }
            }
            clock.sleep(pause).await;
            clean = Some((since, PAUSE.min(pause * 2)));
        }
    }

    /// Tells why it does not go on, and waits a while.
    async fn stuck<V: ?Sized>(
        &self,
        owner: &dyn DrainOwner<V>,
        progress: &mut DrainProgress,
        problem: String,
    ) {
        progress.problem = Some(problem);
        owner.told(progress);
        self.env.clock.sleep(PAUSE).await;
    }

    /// Objects in the old cloud; `None` when there is none or it does not answer.
    async fn left_behind(&self) -> Option<u64> {
        let cloud = self.from.as_ref()?;
        if cloud.health().is_sick(Direction::Read) && !cloud.health().admits(Direction::Read) {
            return None;
        }
        cloud.list("", None, COUNTED).await.ok().map(|names| names.len() as u64)
    }

    /// Looks at every current block once.
    async fn pass<V: MaintainedVolume + ?Sized>(
        &self,
        owner: &dyn DrainOwner<V>,
        progress: &mut DrainProgress,
        delete: bool,
        pace: &Mutex<Pace>,
    ) -> Result<Pass, UpkeepError> {
        let volumes = owner.volumes();
        (progress.done, progress.total) = (0, 0);
        for volume in &volumes {
            progress.total += volume.count_blocks().await?;
        }
        owner.told(progress);
        let mut pass = Pass::default();
        // Also what the loop of repairs was faster with.
        let rebuilt = |volume: &Upkeep<V>| {
            let repaired = volume.repairer.repaired();
            let ours = repaired.iter().filter(|(cloud, _)| self.numbers.contains(cloud));
            ours.map(|(_, count)| count).sum::<u64>()
        };
        for upkeep in &volumes {
            let (before, mut after) = (rebuilt(upkeep), None);
            loop {
                let versions = upkeep.volume.stored_blocks(after, BATCH).await;
                let versions = versions.map_err(UpkeepError::volume("looking for what is to be moved"))?;
                let Some(last) = versions.last() else { break };
                after = Some(last.identity);
                let found = versions.len() as u64;
                let here = versions.into_iter().flat_map(|version| {
                    let places = version.placement.clouds().iter().zip(0..);
                    let here = places.filter(|(cloud, _)| self.numbers.contains(cloud));
                    let here: Vec<u8> = here.map(|(_, fragment)| fragment).collect();
                    here.into_iter().map(move |fragment| (version.clone(), fragment))
                });
                let here: Vec<(BlockVersion, u8)> = here.collect();
                let moves = iter(here).map(|(version, fragment)| async move {
                    let moved = self.relocate(&*upkeep.volume, &version, (fragment, delete), pace).await;
                    (version.identity, fragment, moved)
                });
                let mut moves = moves.buffer_unordered(PARALLEL);
                while let Some((id, fragment, moved)) = moves.next().await {
                    match moved {
                        Relocated::Moved { bytes: 0 } => {}
                        Relocated::Late { bytes: 0 } => pass.late += 1,
                        Relocated::Moved { bytes } | Relocated::Late { bytes } => {
                            pass.late += u64::from(matches!(moved, Relocated::Late { .. }));
                            pass.moved += 1;
                            progress.moved += 1;
                            progress.bytes += bytes;
                            owner.told(progress);
                        }
                        Relocated::Lost(fault) => {
                            pass.lost += 1;
                            tracing::debug!(%fault, block = %id, "to be rebuilt");
                            let (object, block, fragments) = (id.object, id.block, [fragment]);
                            let queued = upkeep.volume.queue_repair(object, block, id.version, &fragments);
                            queued.await.map_err(UpkeepError::volume("queueing a repair"))?;
                        }
                        Relocated::Failed(fault) => {
                            pass.failed += 1;
                            tracing::debug!(%fault, block = %id, "not moved yet");
                        }
                    }
                }
                progress.done += found;
                owner.told(progress);
            }
            if pass.lost > 0 {
                upkeep.repairer.retry_now();
                let _report = upkeep.repairer.once().await?;
                pass.rebuilt += rebuilt(upkeep).saturating_sub(before);
            }
        }
        Ok(pass)
    }

    async fn relocate<V: MaintainedVolume + ?Sized>(
        &self,
        volume: &V,
        version: &BlockVersion,
        (fragment, delete): (u8, bool),
        pace: &Mutex<Pace>,
    ) -> Relocated {
        let BlockVersion { identity, key, placement, seal, .. } = version;
        let relocation = Relocation { fragment, from: self.from.as_ref(), to: &self.to, delete };
        // What others have copied is due.
        pace.lock().await.wait(0, &*self.env.clock).await;
        let moved = self.blocks.relocate(key, identity, *seal, placement, relocation, volume).await;
        if let Relocated::Moved { bytes } | Relocated::Late { bytes } = moved {
            pace.lock().await.spend(bytes);
        }
        moved
    }
}
