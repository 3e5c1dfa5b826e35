//! Emptying a cloud: everything under its numbers moves to another cloud.
//!
//! From the moment a drain begins, what is stored under the numbers of the cloud goes to the new cloud and is looked
//! for in both (`Connection::moving`). Passes over all blocks then move what is still in the old one; what the old
//! one has lost, or cannot be asked for, is rebuilt from the other clouds by the repair queue: everything, if it is not configured
//! any more. When the old one is empty
//! the numbers belong to the new one alone. A restart in between goes on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use blocks::{CloudId, Relocated, Relocation};
use cloud::{Connection, Direction};
use environment::failpoint;
use futures::stream::{StreamExt, iter};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use upkeep::Pace;

use crate::node::{Node, Served};
use crate::node_rows::{CloudRows, Place};

/// Blocks looked up at a time.
const BATCH: usize = 64;
/// Fragments moved at the same time.
const PARALLEL: usize = 8;
/// The pause between two passes that got nothing done.
const PAUSE: Duration = Duration::from_secs(10);
/// How long superseded versions may need to leave the cloud after they are due.
const GRACE: Duration = Duration::from_secs(70);
/// Objects left behind that are counted.
const COUNTED: usize = 1000;

/// How a drain is going.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct DrainState {
    /// The cloud that is emptied.
    pub from: String,
    /// Where its fragments go.
    pub to: String,
    /// Fragments of current blocks that have been looked at in this pass.
    pub done: u64,
    /// Fragments of current blocks under the numbers of the cloud.
    pub total: u64,
    /// Fragments copied so far.
    pub moved: u64,
    /// Bytes copied so far.
    pub bytes: u64,
    /// Fragments that are neither in the new cloud nor can be rebuilt at present.
    pub stuck: u64,
    /// Objects left behind that no volume refers to.
    pub left_behind: u64,
    /// The cloud is empty.
    pub finished: bool,
    /// Why it does not go on.
    pub problem: Option<String>,
}

impl DrainState {
    /// How much of the present pass is done.
    pub fn percent(&self) -> u64 {
        match (self.finished, self.total) {
            (true, _) => 100,
            (false, 0) => 0,
            (false, total) => (self.done * 100 / total).min(99),
        }
    }
}

/// A drain under way or just finished.
pub(crate) struct Drain {
    state: watch::Sender<DrainState>,
}

/// The drains since the start.
#[derive(Default)]
pub(crate) struct Drains(Mutex<Vec<Arc<Drain>>>);

impl Drain {
    /// How it is going; changes are told.
    pub fn watch(&self) -> watch::Receiver<DrainState> {
        self.state.subscribe()
    }

    fn is_finished(&self) -> bool {
        self.state.borrow().finished
    }

    fn update(&self, change: impl FnOnce(&mut DrainState)) {
        self.state.send_modify(change);
    }
}

impl Drains {
    /// The drain of a cloud.
    pub fn of(&self, cloud: &str) -> Option<Arc<Drain>> {
        self.0.lock().iter().rev().find(|drain| drain.state.borrow().from == cloud).cloned()
    }

    fn begin(&self, from: &str, to: &str) -> Arc<Drain> {
        let state = DrainState { from: from.into(), to: to.into(), ..DrainState::default() };
        let drain = Arc::new(Drain { state: watch::Sender::new(state) });
        let mut drains = self.0.lock();
        drains.retain(|drain| drain.state.borrow().from != from);
        drains.push(drain.clone());
        drain
    }
}

/// What a pass over all blocks did.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Pass {
    moved: u64,
    lost: u64,
    failed: u64,
    rebuilt: u64,
}

fn same_store(cloud: &str) -> String {
    format!("it is the same store as {cloud:?} under another name, and moving would delete what it moves")
}

/// Why a drain cannot begin.
#[derive(Debug)]
pub(crate) enum NoDrain {
    /// There is no such cloud.
    Unknown(String),
    /// Where should it all go?
    NoRoom(String),
    /// Something failed.
    Failed(String),
}

impl Node {
    /// The numbers that policies of files use, with those they are used together with.
    fn used_numbers(&self) -> Vec<(String, BTreeSet<CloudId>)> {
        let open = self.volumes.list().into_iter().chain(self.volumes.doomed());
        open.flat_map(|volume| {
            let name = volume.name();
            let policies = volume.policies().into_iter();
            policies.map(move |policy| (name.clone(), policy.placement.clouds().iter().copied().collect()))
        })
        .collect()
    }

    /// What refers to a cloud, in words; empty when nothing does.
    pub fn users_of(&self, cloud: &str) -> Vec<String> {
        let policies = self.used_numbers().into_iter();
        let mut users: BTreeSet<String> = policies
            .filter(|(_, numbers)| self.clouds.is_place(cloud, numbers))
            .map(|(volume, _)| format!("volume {volume:?}"))
            .collect();
        users.extend(
            self.clouds
                .moves()
                .into_iter()
                .filter(|(_, to)| to == cloud)
                .map(|(from, _)| format!("the drain of {from:?}")),
        );
        users.into_iter().collect()
    }

    /// Clouds that files refer to, and that the configuration does not have.
    pub fn unconfigured_clouds(&self) -> Vec<String> {
        let used: BTreeSet<CloudId> = self.used_numbers().into_iter().flat_map(|(_, used)| used).collect();
        self.clouds.unconfigured(&used).into_iter().collect()
    }

    /// Begins to empty a cloud, or joins who is at it. The new cloud is chosen unless `to` names it.
    pub async fn drain(self: &Arc<Self>, cloud: &str, to: Option<&str>) -> Result<Arc<Drain>, NoDrain> {
        let _alone = self.changing_clouds.lock().await;
        if let Some(drain) = self.drains.of(cloud).filter(|drain| !drain.is_finished()) {
            let goes_to = drain.state.borrow().to.clone();
            return match to.is_none_or(|to| to == goes_to) {
                true => Ok(drain),
                false => Err(NoDrain::NoRoom(format!(
                    "{cloud:?} is on its way to {goes_to:?} already; when it is there, that can be replaced"
                ))),
            };
        }
        let failed = |cause: &dyn std::fmt::Display| NoDrain::Failed(cause.to_string());
        let numbers = self.clouds.numbers_in(cloud);
        let together: Vec<BTreeSet<CloudId>> = self
            .used_numbers()
            .into_iter()
            .map(|(_, used)| used)
            .filter(|used| !used.is_disjoint(&numbers))
            .collect();
        let is_configured = self.clouds.get(cloud).is_some();
        if !is_configured && together.is_empty() {
            return Err(NoDrain::Unknown(cloud.to_owned()));
        }
        let target = match together.is_empty() {
            true => None,
            false => Some(self.tried(cloud, self.room_for(cloud, &numbers, &together, to)?).await?),
        };
        // In this order: a cloud that takes new files while its numbers move away would get another number. What a stop
        // in between leaves is told by `is_used`.
        if is_configured {
            self.file.set_drained(cloud).map_err(|cause| failed(&cause))?;
            self.clouds.drained(cloud);
        }
        failpoint!("drain.noted");
        let Some(target) = target else {
            // A stop may have come before the configuration was changed.
            let rows = CloudRows::load(&self.store).await.map_err(|cause| failed(&cause))?;
            if let Some(heir) = rows.heir(cloud) {
                self.file.replace_in_volumes(cloud, heir).map_err(|cause| failed(&cause))?;
            }
            let drain = self.drains.begin(cloud, "");
            drain.update(|state| state.finished = true);
            return Ok(drain);
        };
        let place = Place { from: Some(cloud.to_owned()), to: target };
        self.clouds
            .place(&self.store, &self.blocks, &numbers, &place)
            .await
            .map_err(|cause| failed(&cause))?;
        failpoint!("drain.begun");
        let drain = self.drains.begin(cloud, &place.to);
        self.spawn_drain(drain.clone());
        Ok(drain)
    }

    /// Whether policies of files still refer to what is in a cloud.
    pub fn is_used(&self, cloud: &str) -> bool {
        let numbers = self.clouds.numbers_in(cloud);
        self.used_numbers().iter().any(|(_, used)| !used.is_disjoint(&numbers))
    }

    /// The first of these clouds that takes and returns objects, and is not `cloud` under another name.
    async fn tried(&self, cloud: &str, candidates: Vec<String>) -> Result<String, NoDrain> {
        let mut problems = Vec::new();
        for name in candidates {
            let Some((_, new)) = self.clouds.get(&name) else { continue };
            let tried = async {
                self.clouds.probe(&new).await?;
                let Some((_, old)) = self.clouds.get(cloud) else { return Ok(()) };
                match self.clouds.are_one(&new, &old).await? {
                    Some(true) => Err(same_store(cloud)),
                    Some(false) | None => Ok(()),
                }
            };
            match tried.await {
                Ok(()) => return Ok(name),
                Err(problem) => problems.push(format!("{name:?} cannot take it: {problem}")),
            }
        }
        Err(NoDrain::Failed(problems.join("; ")))
    }

    /// Goes on with what a stop interrupted.
    pub fn resume_drains(self: &Arc<Self>) {
        for (from, to) in self.clouds.moves() {
            self.spawn_drain(self.drains.begin(&from, &to));
        }
    }

    /// Clouds that can take what is under `numbers`, the best first: none of their fragments may belong to the same blocks.
    fn room_for(
        &self,
        cloud: &str,
        numbers: &BTreeSet<CloudId>,
        together: &[BTreeSet<CloudId>],
        wanted: Option<&str>,
    ) -> Result<Vec<String>, NoDrain> {
        let conflict = |name: &str| {
            together.iter().any(|used| {
                let others: BTreeSet<CloudId> = used.difference(numbers).copied().collect();
                self.clouds.is_place(name, &others)
            })
        };
        let usable = self.clouds.for_new_files();
        if let Some(wanted) = wanted {
            return match usable.iter().any(|name| name == wanted) && wanted != cloud {
                false => Err(NoDrain::NoRoom(format!("{wanted:?} is no cloud that takes new fragments"))),
                true if conflict(wanted) => Err(NoDrain::NoRoom(format!(
                    "{wanted:?} already holds fragments of the same blocks; two of them in one cloud would be lost together"
                ))),
                true => Ok(vec![wanted.to_owned()]),
            };
        }
        let used = self.used_numbers();
        let cost = |name: &String| {
            let load = used.iter().filter(|(_, numbers)| self.clouds.is_place(name, numbers)).count();
            let sick = |connection: &Connection| {
                let health = connection.health();
                health.is_sick(Direction::Read) || health.is_sick(Direction::Write)
            };
            (self.clouds.get(name).is_some_and(|(_, connection)| sick(&connection)), load)
        };
        let fits = usable.into_iter().filter(|name| name != cloud && !conflict(name));
        let mut fits: Vec<String> = fits.collect();
        fits.sort_by_cached_key(cost);
        match fits.is_empty() {
            false => Ok(fits),
            true => Err(NoDrain::NoRoom(format!(
                "no other cloud can take what is in {cloud:?}: each already holds other fragments of the same blocks. Add one with `kurma cloud add`, then drain again"
            ))),
        }
    }

    fn spawn_drain(self: &Arc<Self>, drain: Arc<Drain>) {
        let node = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = node.stop.cancelled() => {}
                () = node.run_drain(&drain) => {}
            }
        });
    }

    async fn run_drain(&self, drain: &Drain) {
        let (from, to) = {
            let state = drain.state.borrow();
            (state.from.clone(), state.to.clone())
        };
        let Some((_, new)) = self.clouds.get(&to) else {
            drain.update(|state| state.problem = Some(format!("{to:?} is not configured any more")));
            return;
        };
        let old = self.clouds.get(&from).map(|(_, old)| old);
        let numbers = self.clouds.numbers_in(&from);
        self.blocks.writes_ended().await;
        // Backups that look for fragments in the old cloud only must not be the newest when those are deleted there.
        while self.config.backup.is_on() && !self.back_up().await.complete {
            drain.update(|state| state.problem = Some("the metadata cannot be backed up at present".into()));
            self.environment.clock.sleep(PAUSE).await;
        }
        let clock = &*self.environment.clock;
        let pace = tokio::sync::Mutex::new(Pace::new(self.config.upkeep.drain_rate.bytes(), clock));
        let mut clean_since = None;
        let mut apart = false;
        loop {
            // Configurations change over restarts, and clouds come back: until both have shown that they are two stores,
            // nothing is deleted.
            if !apart && let Some(old) = &old {
                match self.clouds.are_one(&new, old).await {
                    Ok(Some(true)) => {
                        let problem = format!("{to:?}: {}", same_store(&from));
                        drain.update(|state| state.problem = Some(problem));
                        self.environment.clock.sleep(PAUSE).await;
                        continue;
                    }
                    Ok(Some(false)) => apart = true,
                    Ok(None) | Err(_) => {}
                }
            }
            let passed = self.pass(drain, &numbers, (old.as_ref(), &new), apart, &pace).await;
            let now = self.environment.clock.monotonic();
            let pass = match passed {
                Ok(pass) => pass,
                Err(problem) => {
                    drain.update(|state| state.problem = Some(problem));
                    self.environment.clock.sleep(PAUSE).await;
                    continue;
                }
            };
            let is_clean = pass == Pass::default();
            clean_since = if is_clean { clean_since.or(Some(now)) } else { None };
            let left = (pass.lost + pass.failed).saturating_sub(pass.rebuilt);
            let progress = pass.moved + pass.rebuilt > 0;
            drain.update(|state| {
                state.stuck = left;
                state.problem = (left > 0 && !progress).then(|| {
                    format!(
                        "{left} fragments can neither be copied nor rebuilt at present; see `kurma status`"
                    )
                });
            });
            if let Some(since) = clean_since {
                if let Some(problem) = self.not_backed_up(&to).await {
                    drain.update(|state| state.problem = Some(problem));
                    self.environment.clock.sleep(PAUSE).await;
                    continue;
                }
                let left_behind = self.left_behind(old.as_ref()).await;
                let waited = now.saturating_sub(since);
                let patience = self.config.upkeep.gc_delay.as_duration() + GRACE;
                if left_behind == Some(0) || (left_behind.is_none() && !waited.is_zero()) || waited > patience
                {
                    return self.finish(drain, &numbers, left_behind.unwrap_or(0)).await;
                }
                drain.update(|state| state.left_behind = left_behind.unwrap_or(0));
                for served in self.served() {
                    if let Err(error) = served.upkeep.garbage.once().await {
                        tracing::debug!(%error, "garbage of a cloud that is drained");
                    }
                }
                self.environment.clock.sleep(Duration::from_secs(1)).await;
            } else if !progress {
                self.environment.clock.sleep(PAUSE).await;
            }
        }
    }

    /// Why a restore may still need the old cloud, if it may: what the newest backup refers to has to be in the new one, and the
    /// backup itself, too.
    async fn not_backed_up(&self, to: &str) -> Option<String> {
        if !self.config.backup.is_on() {
            return None;
        }
        let status = self.back_up().await;
        let is_drained = self.clouds.get(to).is_none_or(|(config, _)| config.drained);
        match status.complete {
            false => Some("the metadata cannot be backed up at present".into()),
            true if is_drained || status.has.iter().any(|name| name == to) => None,
            true => Some(format!("the backup of the metadata is not in {to:?} yet")),
        }
    }

    /// Objects in a cloud; `None` when there is none or it does not answer.
    async fn left_behind(&self, cloud: Option<&Connection>) -> Option<u64> {
        let cloud = cloud?;
        if cloud.health().is_sick(Direction::Read) && !cloud.health().admits(Direction::Read) {
            return None;
        }
        cloud.list("", None, COUNTED).await.ok().map(|names| names.len() as u64)
    }

    async fn finish(&self, drain: &Drain, numbers: &BTreeSet<CloudId>, left_behind: u64) {
        let (from, to) = {
            let state = drain.state.borrow();
            (state.from.clone(), state.to.clone())
        };
        failpoint!("drain.before-finish");
        let place = Place { from: None, to: to.clone() };
        let placed = self.clouds.place(&self.store, &self.blocks, numbers, &place).await;
        failpoint!("drain.finished");
        let noted =
            placed.map_err(|cause| cause.to_string()).and_then(|()| self.file.replace_in_volumes(&from, &to));
        if let Err(cause) = &noted {
            tracing::warn!(cloud = from, %cause, "drained, but not everything could be noted");
        }
        drain.update(|state| {
            state.left_behind = left_behind;
            state.finished = true;
            state.problem = noted.err();
        });
        tracing::info!(cloud = from, to, left_behind, "the cloud is drained");
    }

    /// Looks at every current block once.
    async fn pass(
        &self,
        drain: &Drain,
        numbers: &BTreeSet<CloudId>,
        (from, to): (Option<&Connection>, &Connection),
        delete: bool,
        pace: &tokio::sync::Mutex<Pace>,
    ) -> Result<Pass, String> {
        let served = self.served().into_iter().filter(|served| {
            let policies = served.volume.policies();
            policies
                .iter()
                .any(|policy| policy.placement.clouds().iter().any(|cloud| numbers.contains(cloud)))
        });
        let served: Vec<Arc<Served>> = served.collect();
        let mut total = 0;
        for served in &served {
            total += self.count_blocks(served).await?;
        }
        drain.update(|state| (state.done, state.total) = (0, total));
        let mut pass = Pass::default();
        // Also what the loop of repairs was faster with.
        let rebuilt = |served: &Served| {
            let repaired = served.upkeep.repairer.repaired();
            repaired.iter().filter(|(cloud, _)| numbers.contains(cloud)).map(|(_, count)| count).sum::<u64>()
        };
        for served in &served {
            let (before, mut after) = (rebuilt(served), None);
            loop {
                let versions =
                    served.volume.stored_blocks(after, BATCH).await.map_err(|cause| cause.to_string())?;
                let Some(last) = versions.last() else { break };
                after = Some(last.identity);
                let found = versions.len() as u64;
                let moves = versions.into_iter().flat_map(|version| {
                    let places = version.placement.clouds().iter().enumerate();
                    let here: Vec<u8> =
                        places.filter(|(_, cloud)| numbers.contains(cloud)).map(|(at, _)| at as u8).collect();
                    here.into_iter().map(move |fragment| (version.clone(), fragment))
                });
                let moves: Vec<_> = moves.collect();
                let mut moves = iter(moves)
                    .map(|(version, fragment)| async move {
                        let upkeep::BlockVersion { identity, key, placement, seal, .. } = &version;
                        let relocation = Relocation { fragment, from, to, delete };
                        let volume = &*served.volume;
                        // What others have copied is due.
                        pace.lock().await.wait(0, &*self.environment.clock).await;
                        let moved =
                            self.blocks.relocate(key, identity, *seal, placement, relocation, volume).await;
                        if let Relocated::Moved { bytes } = moved {
                            pace.lock().await.spend(bytes);
                        }
                        (version, fragment, moved)
                    })
                    .buffer_unordered(PARALLEL);
                while let Some((version, fragment, moved)) = moves.next().await {
                    match moved {
                        Relocated::Moved { bytes: 0 } => {}
                        Relocated::Moved { bytes } => {
                            pass.moved += 1;
                            drain.update(|state| {
                                state.moved += 1;
                                state.bytes += bytes;
                            });
                        }
                        Relocated::Lost(fault) => {
                            pass.lost += 1;
                            tracing::debug!(%fault, block = %version.identity, "to be rebuilt");
                            let id = version.identity;
                            let fragments = [fragment];
                            let queue =
                                served.volume.queue_repair(id.object, id.block, id.version, &fragments);
                            let queued = queue.await;
                            queued.map_err(|cause| cause.to_string())?;
                        }
                        Relocated::Failed(fault) => {
                            pass.failed += 1;
                            tracing::debug!(%fault, block = %version.identity, "not moved yet");
                        }
                    }
                }
                drain.update(|state| state.done += found);
            }
            if pass.lost > 0 {
                served.upkeep.repairer.retry_now();
                let _report = served.upkeep.repairer.once().await.map_err(|cause| cause.to_string())?;
                pass.rebuilt += rebuilt(served).saturating_sub(before);
            }
        }
        Ok(pass)
    }

    /// Current blocks of a volume.
    pub async fn count_blocks(&self, served: &Served) -> Result<u64, String> {
        let (mut total, mut after) = (0, None);
        loop {
            let versions =
                served.volume.stored_blocks(after, 4096).await.map_err(|cause| cause.to_string())?;
            let Some(last) = versions.last() else { return Ok(total) };
            after = Some(last.identity);
            total += versions.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests;
