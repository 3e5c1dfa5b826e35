//! Emptying a cloud: everything under its numbers moves to another cloud.
//!
//! From the moment a drain begins, what is stored under the numbers of the cloud goes to the new cloud and is looked
//! for in both (`Connection::moving`). A [`Drainer`] then moves what is still in the old one. When that is empty
//! the numbers belong to the new one alone. A restart in between goes on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use blocks::CloudId;
use cloud::{Connection, Direction};
use environment::failpoint;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use upkeep::{DrainOwner, DrainProgress, Drainer, Upkeep};
use volume::Volume;

use crate::node::{Node, Served};
use crate::node_rows::{CloudRows, Place};

/// The pause before what was moved is tried to be noted again.
const PAUSE: Duration = Duration::from_secs(10);

/// How a drain is going.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct DrainState {
    /// The cloud that is emptied.
    pub from: String,
    /// Where its fragments go.
    pub to: String,
    /// How far it is.
    #[serde(flatten)]
    pub progress: DrainProgress,
    /// The cloud is empty.
    pub finished: bool,
}

impl DrainState {
    /// How much of the present pass is done.
    pub fn percent(&self) -> u64 {
        let DrainProgress { done, total, .. } = self.progress;
        match (self.finished, total) {
            (true, _) => 100,
            (false, 0) => 0,
            (false, total) => (done * 100 / total).min(99),
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
            let problem = format!("{to:?} is not configured any more");
            drain.update(|state| state.progress.problem = Some(problem));
            return;
        };
        let drainer = Drainer {
            blocks: self.blocks.clone(),
            env: self.environment.clone(),
            numbers: self.clouds.numbers_in(&from),
            from: self.clouds.get(&from).map(|(_, old)| old),
            to: new,
            rate: self.config.upkeep.drain_rate.bytes(),
            gc_delay: self.config.upkeep.gc_delay.as_duration(),
        };
        let left_behind = drainer.run(&Draining { node: self, drain, drainer: &drainer }).await;
        self.finish(drain, &drainer.numbers, left_behind).await;
    }

    async fn finish(&self, drain: &Drain, numbers: &BTreeSet<CloudId>, left_behind: u64) {
        let (from, to) = {
            let state = drain.state.borrow();
            (state.from.clone(), state.to.clone())
        };
        failpoint!("drain.before-finish");
        let place = Place { from: None, to: to.clone() };
        // As long as that is not noted, all is looked for in both.
        while let Err(cause) = self.clouds.place(&self.store, &self.blocks, numbers, &place).await {
            tracing::warn!(cloud = from, %cause, "drained, but that cannot be noted yet");
            let problem = format!("everything is in {to:?}, but that cannot be noted: {cause}");
            drain.update(|state| state.progress.problem = Some(problem));
            self.environment.clock.sleep(PAUSE).await;
        }
        failpoint!("drain.finished");
        let noted = self.file.replace_in_volumes(&from, &to);
        if let Err(cause) = &noted {
            tracing::warn!(cloud = from, %cause, "drained, but not everything could be noted");
        }
        drain.update(|state| {
            state.progress.left_behind = left_behind;
            state.finished = true;
            state.progress.problem = noted.err();
        });
        tracing::info!(cloud = from, to, left_behind, "the cloud is drained");
    }
}

/// What a drain has to ask the gateway for.
struct Draining<'a> {
    node: &'a Node,
    drain: &'a Drain,
    drainer: &'a Drainer,
}

#[async_trait]
impl DrainOwner<Volume> for Draining<'_> {
    fn volumes(&self) -> Vec<Arc<Upkeep<Volume>>> {
        let is_here = |served: &Arc<Served>| {
            let policies = served.volume.policies();
            let mut clouds = policies.iter().flat_map(|policy| policy.placement.clouds());
            clouds.any(|cloud| self.drainer.numbers.contains(cloud))
        };
        let served = self.node.served().into_iter().filter(is_here);
        served.map(|served| served.upkeep.clone()).collect()
    }

    async fn are_apart(&self) -> Result<bool, String> {
        let Some(old) = &self.drainer.from else { return Ok(false) };
        match self.node.clouds.are_one(&self.drainer.to, old).await {
            Ok(Some(true)) => {
                let state = self.drain.state.borrow();
                Err(format!("{:?}: {}", state.to, same_store(&state.from)))
            }
            Ok(Some(false)) => Ok(true),
            Ok(None) | Err(_) => Ok(false),
        }
    }

    async fn back_up(&self, to_the_new: bool) -> Result<(), String> {
        if !self.node.config.backup.is_on() {
            return Ok(());
        }
        let status = self.node.back_up().await;
        let to = self.drain.state.borrow().to.clone();
        let is_drained = self.node.clouds.get(&to).is_none_or(|(config, _)| config.drained);
        match status.complete {
            false => Err("the metadata cannot be backed up at present".into()),
            true if !to_the_new || is_drained || status.has.contains(&to) => Ok(()),
            true => Err(format!("the backup of the metadata is not in {to:?} yet")),
        }
    }

    fn told(&self, progress: &DrainProgress) {
        self.drain.update(|state| state.progress = progress.clone());
    }
}

#[cfg(test)]
mod tests;
