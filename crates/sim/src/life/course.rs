use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use environment::failpoint;
use environment::mutant::{Mutant, break_here};
use file_system::{Caller, FileId, FileSystem, FsError, FsResult, Mode};
use futures::future::join_all;
use journal::testing::MemoryDisk;
use volume::Settled;

use super::account::{Moment, Promise, SLOTS, Slot, Tree};
use super::client::Client;
use super::notices::Notices;
use super::operation::name_of;
use super::plan::{CLIENTS, EVIL, Phase, Plan, Trouble};
use super::remote::{NO_ANSWER, Remote};
use super::scene::{Scene, read_tree};
use super::tickets::Tickets;
use crate::site::Site;
use crate::site::audit;
use crate::site::death::{Death, End, OPERATION_BEGINS, left};
use crate::site::front::Front;
use crate::site::machine::Machine;
use crate::site::restore::{Restored, restore};
use crate::world::cloud::{Lie, Weather};
use crate::world::network::Reach;
use crate::world::trace::Trace;
use crate::world::{World, ambient, panics};

/// How long nothing may begin before all troubles are ended.
const STALL: Duration = Duration::from_secs(120);
/// How often in a row that may happen.
const STALLS: u32 = 20;
/// How long clients may feel what was in their way.
const AFTERMATH: Duration = Duration::from_secs(180);
/// Farther than all jumps of a life together, in milliseconds.
const FAR: i64 = 1000 * 86_400_000;
/// How often something is read again that must be readable.
const PATIENCE: u32 = 20;

/// How a life went that nothing was wrong with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Of everything that crossed a border of a machine, in order.
    pub hash: u64,
    pub events: u64,
    pub operations: u64,
    pub refused: u64,
    pub machines: u64,
    /// Deaths by point.
    pub deaths: BTreeMap<&'static str, u64>,
    pub incidents: u64,
    pub nonces: u64,
    /// Sites that burnt down, and files that were lost in part.
    pub restores: u64,
    pub lost: u64,
    /// Clouds that were emptied.
    pub emptied: u64,
    /// Blocks that the disk cache had, and some that were damaged there.
    pub from_disk: u64,
    pub decayed: u64,
    pub trace: Vec<String>,
}

/// What was violated, and what led there.
#[derive(Clone, Debug)]
pub struct Failure {
    pub what: String,
    pub last: String,
    /// Everything, if that was asked for.
    pub trace: Vec<String>,
}

/// Lives through a plan, in a thread of its own; with this promise broken.
pub fn live(plan: &Plan, broken: Option<Mutant>, is_whole: bool) -> Result<Report, Failure> {
    let trace = Trace::new(is_whole);
    let ended = ambient::in_a_thread(plan.seed, || {
        panics::catch();
        break_here(broken);
        let mut life = Life::new(plan, World::new(trace.clone()));
        for (number, phase) in plan.phases.iter().enumerate() {
            life.phase(number as u64, phase)?;
        }
        life.rest()
    });
    let fail = |what| Failure { what, last: trace.last(), trace: trace.whole() };
    match ended {
        Ok(Ok(report)) => Ok(report),
        Ok(Err(what)) => Err(fail(what)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(fail(format!("a panic: {}", text.unwrap_or_default())))
        }
    }
}

struct Life {
    site: Site,
    clients: [Client; CLIENTS],
    tickets: Tickets,
    notices: Notices,
    report: Report,
    /// What the next machine begins with, if it is not what the last one has left.
    restored: Option<Rc<Restored>>,
}

/// What clients see while a machine runs.
pub struct Stage<'a> {
    pub world: &'a World,
    pub machine: &'a Machine,
    pub fs: Arc<dyn FileSystem>,
    pub scene: Scene,
    pub tickets: &'a Tickets,
    pub notices: &'a Notices,
    front: Option<&'a Front>,
    remotes: Vec<Remote<'a>>,
    site: &'a Site,
    troubles: &'a [(u64, Trouble)],
    progress: &'a Progress,
    restored: Option<Rc<Restored>>,
}

/// How far a phase is.
#[derive(Default)]
struct Progress {
    begun: Cell<u64>,
    /// Troubles that have come.
    come: Cell<usize>,
    /// Some cloud has not been well since the machine was started.
    is_disturbed: Cell<bool>,
    /// When something last began or ceased to be in the way of clients.
    hindered: Cell<Duration>,
}

/// How a machine has ended, and what is on its disk.
enum Ended {
    /// As it was planned.
    AsPlanned(MemoryDisk),
    /// Before that.
    Died(MemoryDisk),
}

impl Life {
    fn new(plan: &Plan, world: World) -> Life {
        let site = Site::new(plan.seed, plan.setup.clone(), world);
        let clients = std::array::from_fn(|number| Client { number, ..Client::default() });
        Life {
            site,
            clients,
            tickets: Tickets::default(),
            notices: Notices::default(),
            report: Report::default(),
            restored: None,
        }
    }

    /// One phase, on as many machines as it takes.
    fn phase(&mut self, number: u64, phase: &Phase) -> Result<(), String> {
        self.clients.iter_mut().for_each(|client| client.begun = 0);
        let progress = Progress::default();
        let mut point = phase.point;
        loop {
            let seed = self.site.seed ^ (number << 32) ^ self.report.machines;
            self.report.machines += 1;
            let disk = self.site.disk.platter().clone();
            let death = point.map(|point| Death::at(point, &self.site.world, &disk, seed));
            let ended = self.machine(phase, &progress, death.as_ref(), seed)?;
            drop(death);
            let (platter, how, is_over) = match ended {
                Ended::AsPlanned(platter) => (platter, phase.end, true),
                Ended::Died(platter) => {
                    let died = point.take();
                    if let Some(point) = died {
                        *self.report.deaths.entry(point.name).or_default() += 1;
                    }
                    (platter, died.map_or(phase.end, |point| point.how), false)
                }
            };
            // Whoever has no backup yet is spared.
            if how == End::Burn && self.site.record.is_any() {
                self.burn()?;
            } else {
                self.site.left(platter);
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// The site burns down, and another one begins with what the clouds have.
    fn burn(&mut self) -> Result<(), String> {
        let world = self.site.world.clone();
        self.site.burn(self.report.machines);
        self.report.restores += 1;
        let mut restored = None;
        for _ in 0..PATIENCE {
            self.report.machines += 1;
            let (site, number) = (&self.site, world.start());
            restored = in_a_runtime(&world, async {
                site.clouds.iter().for_each(|cloud| cloud.recover());
                tokio::select! {
                    biased;
                    () = world.ended() => Err(world.violation().unwrap_or_default()),
                    restored = restore(site, number) => restored,
                }
            })?;
            if restored.is_some() {
                break;
            }
            // What `kurma restore` asks for then.
            self.site.left(MemoryDisk::new());
        }
        let restored = restored.ok_or("no restore comes to its end")?;
        self.report.lost += restored.lost.len() as u64;
        let restored = match self.restored.take() {
            Some(before) => restored.after(&before),
            None => restored,
        };
        self.restored = Some(Rc::new(restored));
        self.site.left(self.site.disk.platter().kill());
        Ok(())
    }

    /// One machine, from its start to its end.
    fn machine(
        &mut self,
        phase: &Phase,
        progress: &Progress,
        death: Option<&Death>,
        seed: u64,
    ) -> Result<Ended, String> {
        let Life { site, clients, tickets, notices, report, restored } = self;
        let (world, disk) = (site.world.clone(), site.disk.platter().clone());
        let number = world.start();
        in_a_runtime(&world, async {
            let life = async {
                site.clouds.iter().for_each(|cloud| cloud.recover());
                site.disk.heal();
                // What it lies about may be all that there is of what another cloud did not take before.
                progress.is_disturbed.set(site.clouds.iter().any(|cloud| cloud.weather() != Weather::Fair));
                progress.hindered.set(world.time().now());
                let machine = Machine::start(site, number).await;
                let front = Front::open(site, &machine, number).await;
                let stage = Stage::set(site, &machine, front.as_ref(), (tickets, notices), progress).await?;
                let stage = Stage { troubles: &phase.troubles, restored: restored.clone(), ..stage };
                audit::tell_owners(&site.clouds, &machine.drains.places(), &machine.volume)
                    .await
                    .map_err(|error| error.to_string())?;
                stage.resume(clients).await;
                *restored = None;
                let work =
                    clients.iter_mut().zip(&phase.steps).map(|(client, steps)| client.work(steps, &stage));
                tokio::select! {
                    _ = join_all(work) => {}
                    () = stage.watch_progress() => {}
                }
                machine.check_bounds();
                report.incidents += machine.incidents.0.load(std::sync::atomic::Ordering::Relaxed);
                let usage = machine.cache.usage();
                report.from_disk += usage.disk_hits;
                report.decayed += usage.bad_disk_blocks;
                if phase.end == End::Stop {
                    drop(stage);
                    if let Some(front) = front {
                        front.stop().await;
                    }
                    machine.stop().await;
                    return Ok::<_, String>(left(&disk, phase.end, seed));
                }
                world.die("as planned");
                // Before anything is dropped, which might still write.
                Ok(left(&disk, phase.end, seed))
            };
            let ended = tokio::select! {
                biased;
                () = world.ended() => None,
                ended = life => Some(ended?),
            };
            match (world.violation(), death.and_then(Death::left), ended) {
                (Some(what), ..) => Err(what),
                (None, Some(platter), _) => Ok(Ended::Died(platter)),
                (None, None, Some(platter)) => Ok(Ended::AsPlanned(platter)),
                (None, None, None) => Err("a machine died of nothing".to_owned()),
            }
        })
    }

    /// All troubles end; what must be there in the end is there, and nothing else.
    fn rest(mut self) -> Result<Report, String> {
        // Wherever the clock was: all that waits for a time is due.
        self.site.clouds.iter().for_each(|cloud| cloud.hurry());
        self.site.world.time().jump(FAR);
        let progress = Progress::default();
        self.report.machines += 1;
        let Life { site, clients, tickets, notices, report, restored } = &mut self;
        let world = site.world.clone();
        let number = world.start();
        in_a_runtime(&world, async {
            let life = async {
                heal(site, None, &progress);
                let machine = Machine::start(site, number).await;
                let front = Front::open(site, &machine, number).await;
                let stage = Stage::set(site, &machine, front.as_ref(), (tickets, notices), &progress).await?;
                let stage = Stage { restored: restored.clone(), ..stage };
                stage.resume(clients).await;
                *restored = None;
                audit::come_to_rest(site, &machine).await?;
                audit::check_metadata(&machine.volume).await?;
                audit::check_clouds(site, &machine).await?;
                let in_use = machine.drains.places().in_use();
                report.emptied =
                    (0..site.setup.clouds).filter(|cloud| !in_use.contains(cloud)).count() as u64;
                machine.cache.drop_clean().await;
                for client in clients.iter() {
                    client.check(&stage).await;
                }
                machine.check_bounds();
                drop(stage);
                if let Some(front) = front {
                    front.stop().await;
                }
                machine.stop().await;
                Ok::<(), String>(())
            };
            tokio::select! {
                biased;
                () = world.ended() => {}
                ended = life => ended?,
            }
            world.violation().map_or(Ok(()), Err)
        })?;
        report.operations = clients.iter().map(|client| client.operations).sum();
        report.refused = clients.iter().map(|client| client.refused).sum();
        report.nonces = site.inspector.lock().seen() as u64;
        let trace = site.world.trace();
        (report.hash, report.events, report.trace) = (trace.hash(), trace.events(), trace.whole());
        Ok(self.report)
    }
}

/// Runs what happens on one machine; its tasks end with it, wherever they are.
fn in_a_runtime<T>(world: &World, life: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let ended = runtime.block_on(async {
        let ended = life.await;
        world.time().stop();
        ended
    });
    drop(runtime);
    match panics::first() {
        Some(panic) => Err(format!("a panic: {panic}")),
        None => ended,
    }
}

/// All troubles end.
fn heal(site: &Site, front: Option<&Front>, progress: &Progress) {
    site.clouds.iter().for_each(|cloud| cloud.set(Weather::Fair));
    site.disk.heal();
    if let Some(front) = front {
        front.network.set(Reach::Near);
    }
    progress.is_disturbed.set(false);
    progress.hindered.set(site.world.time().now());
}

impl<'a> Stage<'a> {
    async fn set(
        site: &'a Site,
        machine: &'a Machine,
        front: Option<&'a Front>,
        (tickets, notices): (&'a Tickets, &'a Notices),
        progress: &'a Progress,
    ) -> Result<Stage<'a>, String> {
        let (world, fs) = (&site.world, machine.fs());
        let scene = Scene::set(&*fs).await.map_err(|error| format!("the directories: {error}"))?;
        let remotes =
            front.iter().flat_map(|front| (0..CLIENTS).map(|number| Remote::new(number, world, front)));
        let remotes = remotes.collect();
        Ok(Stage {
            world,
            machine,
            fs,
            scene,
            tickets,
            notices,
            front,
            remotes,
            site,
            troubles: &[],
            progress,
            restored: None,
        })
    }

    /// How this client gets at its files, if that is over the network.
    pub fn remote(&self, client: usize) -> Option<&Remote<'a>> {
        self.remotes.get(client)
    }

    /// What is there is what can be there.
    async fn resume(&self, clients: &mut [Client]) {
        for client in clients {
            client.resume(self).await;
        }
        let (tickets, shared, is_remote) = (self.tickets, self.scene.shared, self.front.is_some());
        let (fs, restored) = (&*self.fs, self.restored.as_deref());
        let resume = async || match restored {
            None => tickets.resume(fs, shared, is_remote).await,
            Some(Restored { instant, lost, .. }) => {
                let is_lost = |file| lost.contains_key(&file);
                tickets.resume_restored(fs, shared, is_remote, (*instant, is_lost), self.world).await
            }
        };
        match self.patiently(resume).await {
            _ if self.world.is_dead() => {}
            Ok(Ok(())) => {}
            Ok(Err(what)) => self.world.violate(format!("after a restart or restore, {what}")),
            Err(error) => self.world.violate(format!("tickets after a restart: {error}")),
        }
        if self.front.is_some() {
            let resume = async || {
                let is_lost = restored.map(|restored| move |file: FileId| restored.lost.contains_key(&file));
                self.notices.resume(fs, shared, is_lost).await
            };
            match self.patiently(resume).await {
                _ if self.world.is_dead() => {}
                Ok(Ok(())) => {}
                Ok(Err(what)) => self.world.violate(format!("after a restart or restore, {what}")),
                Err(error) => self.world.violate(format!("the notice after a restart: {error}")),
            }
        }
        if let Err(what) = audit::check_metadata(&self.machine.volume).await
            && !self.world.is_dead()
        {
            self.world.violate(what);
        }
        self.fs.end_of_claims();
    }

    /// What the gateway has said of backups.
    pub fn promise(&self) -> Promise {
        match self.site.setup.backups {
            Some(_) => self.site.record.promise(),
            // Nothing is ever restored.
            None => Promise { backed_up: Some(Moment::MAX), flushed: None },
        }
    }

    /// If this machine was restored: what had been said before the loss.
    pub fn restored_promise(&self) -> Option<Promise> {
        self.restored.as_ref().map(|restored| restored.promise)
    }

    /// If this machine was restored: the instant, and which files of a client are not whole since then.
    pub async fn restored(&self, client: usize) -> Option<FsResult<(Moment, BTreeMap<Slot, Settled>)>> {
        let Restored { instant, lost, .. } = self.restored.as_deref()?;
        let find = async || {
            let mut tx = self.fs.begin(&Caller::root(), Mode::Optimistic).await?;
            let mut found = BTreeMap::new();
            for slot in 0..SLOTS as Slot {
                match tx.lookup(self.scene.own[client].0, &name_of(slot)).await {
                    Ok(attributes) => {
                        found.extend(lost.get(&attributes.file).map(|lost| (slot, lost.clone())))
                    }
                    Err(FsError::NotFound) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok((*instant, found))
        };
        Some(self.patiently(find).await)
    }

    /// One more operation begins.
    pub fn tick(&self) {
        let begun = self.progress.begun.get() + 1;
        self.progress.begun.set(begun);
        failpoint::pass(OPERATION_BEGINS);
        while let Some((at, trouble)) = self.troubles.get(self.progress.come.get())
            && *at <= begun
        {
            self.progress.come.set(self.progress.come.get() + 1);
            self.come(*trouble);
        }
        if begun.is_multiple_of(64) {
            self.tickets.told(self.promise());
            self.machine.check_bounds();
            if let Some(Err(what)) = self.front.map(Front::check_bounds) {
                self.world.violate(what);
            }
            if self.site.clouds[usize::from(EVIL)].weather() == Weather::Lying(Lie::Swapped) {
                let (clouds, volume) = (self.site.clouds.clone(), self.machine.volume.clone());
                let places = self.machine.drains.places();
                drop(tokio::spawn(async move { audit::tell_owners(&clouds, &places, &volume).await }));
            }
        }
    }

    fn come(&self, trouble: Trouble) {
        self.world.trace().note(format_args!("{trouble:?}"), &[]);
        self.progress.hindered.set(self.world.time().now());
        let upkeep = self.machine.upkeep.clone();
        match trouble {
            Trouble::Cloud(cloud, weather) => {
                self.progress.is_disturbed.set(self.progress.is_disturbed.get() || weather != Weather::Fair);
                self.site.clouds[usize::from(cloud)].set(weather);
            }
            Trouble::Rot => {
                self.progress.is_disturbed.set(true);
                self.site.clouds[usize::from(EVIL)].rot();
            }
            Trouble::Jump(millis) => {
                // Garbage is deleted by the clock on the wall: nothing may be late by that.
                self.site.clouds.iter().for_each(|cloud| cloud.hurry());
                self.world.time().jump(millis);
            }
            Trouble::Network(reach) => self.front.iter().for_each(|front| front.network.set(reach)),
            Trouble::Cut => self.front.iter().for_each(|front| front.network.cut()),
            Trouble::DiskFull(is_full) => self.site.disk.set_full(is_full),
            Trouble::DiskSlow(millis) => self.site.disk.set_latency(Duration::from_millis(millis)),
            Trouble::DiskRot(which) => self.site.disk.rot(which).expect("a disk in memory lists its files"),
            Trouble::DropMemory => self.machine.cache.drop_memory(),
            Trouble::Flush => self.machine.flush(),
            Trouble::BackUp => self.machine.back_up(),
            Trouble::Scrub => drop(tokio::spawn(async move { upkeep.scrubber.once(100, 0).await })),
            Trouble::Move(scheme) => self.machine.move_files(scheme),
            Trouble::Rotate => self.machine.rotate_keys(),
            Trouble::Drain(number) => self.machine.drain(number),
        }
    }

    /// Ends all troubles when nobody can go on; never returns.
    async fn watch_progress(&self) {
        let (mut seen, mut stalls) = (self.progress.begun.get(), 0);
        loop {
            self.machine.env.clock.sleep(STALL).await;
            stalls = if self.progress.begun.get() == seen { stalls + 1 } else { 0 };
            seen = self.progress.begun.get();
            if stalls > 0 {
                self.world.trace().note("nobody goes on: all troubles end", &[]);
                let is_disturbed = self.progress.is_disturbed.get();
                heal(self.site, self.front, self.progress);
                self.progress.is_disturbed.set(is_disturbed);
            }
            if stalls > STALLS {
                self.world.violate("nobody goes on although nothing is wrong".to_owned());
            }
        }
    }

    /// Whether something is in the way of clients, or was until a short time ago, with the start of the machine. They have more patience than that.
    fn is_hindered(&self) -> bool {
        let is_weather = self.site.clouds.iter().any(|cloud| cloud.weather() != Weather::Fair);
        let is_far = self.front.is_some_and(|front| front.network.reach() != Reach::Near);
        let since = self.world.time().now().saturating_sub(self.progress.hindered.get());
        is_weather || is_far || self.site.disk.is_in_the_way() || since < AFTERMATH
    }

    /// Errors that a client may meet while clouds are not well, or while space is short.
    pub fn check_excuse(&self, error: &FsError) {
        let is_excused = match error {
            FsError::Unavailable(what) if what.starts_with(NO_ANSWER) => self.is_hindered(),
            FsError::Conflict | FsError::Unavailable(_) => true,
            FsError::Io(_) => self.progress.is_disturbed.get(),
            _ => false,
        };
        if !is_excused {
            self.world.violate(format!("a client met: {error}"));
        }
    }

    /// The files of a client, as soon as they can be had.
    pub async fn read_tree_patiently(&self, client: usize) -> FsResult<Tree> {
        self.patiently(async || self.read_tree(client).await).await
    }

    /// The files of a client.
    pub async fn read_tree(&self, client: usize) -> FsResult<Tree> {
        match self.remote(client) {
            Some(remote) => remote.read_tree().await,
            None => read_tree(&*self.fs, self.scene.own[client]).await,
        }
    }

    /// What can be read as soon as clouds can be had: again and again, at last with all of them well.
    async fn patiently<T>(&self, read: impl AsyncFn() -> FsResult<T>) -> FsResult<T> {
        for _ in 0..PATIENCE {
            match read().await {
                Err(FsError::Unavailable(_) | FsError::Conflict | FsError::Io(_)) => {}
                other => return other,
            }
            self.machine.env.clock.sleep(Duration::from_secs(10)).await;
        }
        heal(self.site, self.front, self.progress);
        self.progress.is_disturbed.set(true);
        for _ in 0..PATIENCE {
            match read().await {
                Err(FsError::Unavailable(_)) => {}
                other => return other,
            }
            self.machine.env.clock.sleep(Duration::from_secs(10)).await;
        }
        let last = read().await;
        if let Err(FsError::Unavailable(what)) = &last
            && !self.world.is_dead()
        {
            self.world.violate(format!("nobody can read although nothing is wrong: {what}"));
        }
        last
    }
}
