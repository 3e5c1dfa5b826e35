use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::Environment;
use journal::{Journal, Lsn, Priority, Recovery};
use parking_lot::Mutex;
use tokio::sync::{Notify, RwLock};

use crate::applier::{Applier, ApplyQueue};
use crate::changes::Changes;
use crate::engine::{Engine, Write};
use crate::overlay::Overlay;
use crate::redb_engine::RedbEngine;
use crate::snapshot::LocalSnapshot;
use crate::transaction::{Exclusive, LocalTransaction};
use crate::versions::VersionTable;
use crate::{CommitObserver, MetaError, MetaStore, Mode, ReplayedAttachment, Snapshot, Transaction, batch};

/// Sizes and limits of an embedded store.
#[derive(Debug, Clone)]
pub struct LocalConfig {
    /// Memory for pages of the engine's file, in bytes.
    pub cache: usize,
    /// Committed and not yet applied, in bytes of memory: the applier starts at a sixteenth of this, and commits
    /// wait for it beyond this.
    pub overlay: u64,
    /// Bytes of metadata between two checkpoints.
    pub checkpoint_bytes: u64,
    /// Time between two checkpoints, when there was anything to do.
    pub checkpoint_interval: Duration,
    /// How long a durable transaction may wait to be applied.
    pub apply_interval: Duration,
    /// Most keys that a transaction may write.
    pub max_writes: usize,
    /// Most keys that a transaction may read.
    pub max_reads: usize,
    /// Run the engine on the calling task instead of the pool of blocking threads: for a deterministic simulated
    /// process.
    pub inline: bool,
    /// Memory for the keys that [`Instant::changed`] tells, in bytes; without any it never knows.
    pub changes: usize,
    /// Wait when the disk is full, and say so, instead of ending with an error. Not with `inline`.
    pub waits_for_room: bool,
}

impl Default for LocalConfig {
    fn default() -> LocalConfig {
        LocalConfig {
            cache: 256 << 20,
            overlay: 64 << 20,
            checkpoint_bytes: 64 << 20,
            checkpoint_interval: Duration::from_secs(10),
            apply_interval: Duration::from_millis(50),
            max_writes: 1 << 16,
            max_reads: 1 << 20,
            inline: false,
            changes: 0,
            waits_for_room: true,
        }
    }
}

/// The store of a node that stands alone: optimistic transactions in memory, the journal for durability, redb for
/// everything that has been in the journal long enough. Cheap to clone.
#[derive(Clone)]
pub struct LocalStore {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

/// How an embedded store is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The last transaction that is visible.
    pub published: Lsn,
    /// The last one that is durable.
    pub durable: Lsn,
    /// The last one that the engine has.
    pub applied: Lsn,
    /// Visible and not yet in the engine, in bytes of memory.
    pub overlay: u64,
    /// Commits that were refused because something read had changed.
    pub conflicts: u64,
    /// The engine cannot grow, and waits until the disk has room.
    pub disk_full: bool,
}

/// What transactions and the applier share.
pub(crate) struct Shared {
    pub config: LocalConfig,
    pub environment: Environment,
    pub journal: Journal,
    pub engine: Arc<dyn Engine>,
    pub observer: Arc<dyn CommitObserver>,
    pub versions: VersionTable,
    pub overlay: Overlay,
    /// Commits wait here for exclusive transactions: a commit holds it shared, an exclusive transaction alone.
    pub gate: Arc<RwLock<()>>,
    /// Whose turn it is to be exclusive; upkeep does not queue behind clients that wait for space.
    client_turn: Arc<tokio::sync::Mutex<()>>,
    upkeep_turn: Arc<tokio::sync::Mutex<()>>,
    /// The commit lock, and what waits to be applied.
    pub queue: Mutex<ApplyQueue>,
    /// Nothing beyond this is applied for the moment: somebody wants to see the engine as it is then. Set and read under
    /// the lock of `queue`.
    pub hold: Mutex<Option<Lsn>>,
    instant_turn: tokio::sync::Mutex<()>,
    pub changes: Changes,
    /// Work for the applier.
    pub work: Notify,
    /// The applier has made room.
    pub room: Notify,
    pub conflicts: AtomicU64,
    stopped: AtomicBool,
    /// The applier waits until the disk has room.
    pub disk_full: AtomicBool,
    /// The applier has ended.
    pub ended: Notify,
    pub has_ended: AtomicBool,
}

impl Shared {
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.engine.stop_waiting();
        self.work.notify_one();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Waits until nobody else can commit, with space for the largest record set aside before: who keeps others
    /// out must not wait for space that only their commits can free.
    async fn exclusive(&self, priority: Priority) -> Result<Exclusive, MetaError> {
        let turn = match priority {
            Priority::Client => &self.client_turn,
            _ => &self.upkeep_turn,
        };
        // One at a time, so that those who queue here do not hold space.
        let turn = turn.clone().lock_owned().await;
        let reservation = self.journal.reserve(self.journal.max_record(), priority).await?;
        Ok(Exclusive { reservation, gate: self.gate.clone().write_owned().await, turn })
    }

    /// Waits while too much is committed and not yet applied.
    pub(crate) async fn wait_for_applier(&self) -> Result<(), MetaError> {
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            {
                let queue = self.queue.lock();
                queue.check()?;
                if queue.bytes() <= self.config.overlay {
                    return Ok(());
                }
            }
            room.await;
        }
    }
}

impl LocalStore {
    /// Opens the store in `directory`, on a journal that has just been opened, and replays what the journal
    /// holds. The observer gets the attachments of all its records. Blocks; must be called on a tokio runtime.
    ///
    /// The engine's file is sealed under the node key of the journal.
    ///
    /// The journal belongs to the store from then on: nobody else appends to it or releases it.
    pub fn open(
        environment: Environment,
        directory: &Path,
        config: LocalConfig,
        journal: Journal,
        recovery: Recovery,
        observer: Arc<dyn CommitObserver>,
    ) -> Result<LocalStore, MetaError> {
        environment.disk.make_directory(directory).map_err(|cause| MetaError::Engine {
            what: "making the directory",
            cause: format!("{}: {cause}", directory.display()),
        })?;
        let engine = RedbEngine::open(
            &environment,
            &directory.join("metadata.redb"),
            journal.node_key(),
            config.cache,
        )?;
        let last = Lsn(recovery.next_lsn().0 - 1);
        replay(&engine, recovery, &*observer)?;
        if config.waits_for_room && !config.inline {
            engine.wait_for_room();
        }
        let overlay = Overlay::new(engine.view()?, last);
        let seed = environment.entropy.next_u64();
        let now = environment.clock.monotonic();
        let changes = Changes::new(config.changes);
        let shared = Arc::new(Shared {
            config,
            environment,
            journal,
            engine: Arc::new(engine),
            observer,
            versions: VersionTable::new(seed),
            overlay,
            gate: Arc::default(),
            client_turn: Arc::default(),
            upkeep_turn: Arc::default(),
            queue: Mutex::default(),
            hold: Mutex::default(),
            instant_turn: tokio::sync::Mutex::default(),
            changes,
            work: Notify::new(),
            room: Notify::new(),
            conflicts: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            disk_full: AtomicBool::new(false),
            ended: Notify::new(),
            has_ended: AtomicBool::new(false),
        });
        tokio::spawn(Applier::new(shared.clone(), now).run());
        Ok(LocalStore { handle: Arc::new(Handle { shared }) })
    }

    /// The journal under the store; for reading payloads.
    pub fn journal(&self) -> &Journal {
        &self.handle.shared.journal
    }

    /// How the store is doing.
    pub fn status(&self) -> Status {
        let shared = &self.handle.shared;
        let (published, applied) = {
            let layers = shared.overlay.read();
            (layers.published, layers.viewed)
        };
        Status {
            published,
            durable: shared.journal.durable_lsn(),
            applied,
            overlay: shared.queue.lock().bytes(),
            conflicts: shared.conflicts.load(Ordering::Relaxed),
            disk_full: shared.disk_full.load(Ordering::Acquire) || shared.engine.is_waiting(),
        }
    }

    /// Why the store has stopped, if it has by itself.
    pub fn failed(&self) -> Option<MetaError> {
        self.handle.shared.queue.lock().check().err().filter(|error| !matches!(error, MetaError::Closed))
    }

    /// The last transaction that is visible.
    pub fn published(&self) -> Lsn {
        self.handle.shared.overlay.read().published
    }

    /// All rows as they are now, durable. `look` is called at that very instant, while nobody can commit: what it sees
    /// of the attachments' books is what belongs to these rows. It must not call the store, and be quick.
    pub async fn instant(&self, look: &mut (dyn FnMut(Lsn) + Send)) -> Result<Instant, MetaError> {
        let shared = &self.handle.shared;
        let _alone = shared.instant_turn.lock().await;
        let target = {
            let queue = shared.queue.lock();
            queue.check()?;
            let published = shared.overlay.read().published;
            look(published);
            *shared.hold.lock() = Some(published);
            published
        };
        let _held = Held(shared);
        shared.journal.durable(target).await?;
        shared.work.notify_one();
        loop {
            let moved = shared.room.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            {
                let layers = shared.overlay.read();
                if layers.viewed == target {
                    let snapshot = LocalSnapshot { view: layers.view.clone(), lsn: target };
                    // Nothing more is applied before the hold ends, so it belongs to the snapshot.
                    return Ok(Instant { snapshot: Box::new(snapshot), changed: shared.changes.take() });
                }
                if layers.viewed > target {
                    return Err(MetaError::Closed); // a stop does not wait
                }
            }
            shared.queue.lock().check()?;
            moved.await;
        }
    }

    /// What the last [`LocalStore::instant`] told is stored somewhere: it is not told again.
    pub fn stored(&self) {
        self.handle.shared.changes.stored();
    }

    /// What is stored is safe: it was [changed](LocalStore::has_changed) long ago.
    pub fn saved(&self) {
        self.handle.shared.changes.saved();
    }

    /// Whether a row may have changed since the last instant that is [safe](LocalStore::saved). Whoever sees a row in a
    /// transaction and is told that it has not, knows that it was there at that instant.
    pub fn has_changed(&self, key: &[u8]) -> bool {
        // In this order: a write is noted before it leaves the overlay.
        let waits = self.handle.shared.overlay.read().get(key).is_some();
        waits || self.handle.shared.changes.has(key)
    }

    /// The last transaction that the engine has.
    pub fn applied(&self) -> Lsn {
        self.handle.shared.engine.applied()
    }

    /// Applies everything durable, makes the engine durable, and closes its file. Nothing works afterwards. To be
    /// called before the directory is opened again in the same process; so is [`Journal::close`], or a thread may still be making a
    /// segment that the next one to open it takes for its own.
    pub async fn close(&self) -> Result<(), MetaError> {
        let shared = &self.handle.shared;
        shared.stop();
        loop {
            let ended = shared.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if shared.has_ended.load(Ordering::Acquire) {
                return match shared.queue.lock().check() {
                    Err(MetaError::Closed) | Ok(()) => Ok(()),
                    Err(error) => Err(error),
                };
            }
            ended.await;
        }
    }
}

/// All rows at one instant.
pub struct Instant {
    /// The rows.
    pub snapshot: Box<dyn Snapshot>,
    /// The keys that have changed since the last instant that is [stored](LocalStore::stored), ascending; `None` when nobody
    /// knows: at first, and when they are too many.
    pub changed: Option<Vec<Bytes>>,
}

/// Lets the applier go on when it is dropped.
struct Held<'a>(&'a Shared);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        *self.0.hold.lock() = None;
        self.0.work.notify_one();
    }
}

/// [`MetaStore::attachable`] is a multiple of this, if it is not less.
const ATTACHED_IN: u64 = 64 << 10;

/// Metadata that is applied at once during a replay, in bytes.
const REPLAY_BYTES: usize = 4 << 20;

fn replay(engine: &dyn Engine, recovery: Recovery, observer: &dyn CommitObserver) -> Result<(), MetaError> {
    let applied = engine.applied();
    let next = recovery.next_lsn();
    if next <= applied {
        return Err(MetaError::Apart { applied, journal: format!("ends before record {}", next.0) });
    }
    let mut expected = None;
    let mut writes: Vec<Write> = Vec::new();
    let (mut bytes, mut last) = (0, applied);
    for record in recovery {
        let record = record?;
        if expected.is_none() && record.lsn > applied.next() {
            return Err(MetaError::Apart {
                applied,
                journal: format!("begins with record {}", record.lsn.0),
            });
        }
        expected = Some(record.lsn.next());
        if record.lsn > applied {
            bytes += record.body.len();
            writes.extend(batch::decode(record.lsn, &record.body)?);
            last = record.lsn;
        }
        if !record.attachments.is_empty() {
            let attachments = record.attachments.into_iter();
            let attachments =
                attachments.map(|a| ReplayedAttachment { descriptor: a.descriptor, place: a.place });
            observer.replay(record.lsn, attachments.collect());
        }
        if bytes > REPLAY_BYTES {
            engine.apply(&mut writes.iter(), last, false)?;
            writes.clear();
            bytes = 0;
        }
    }
    if expected.is_none() && next != applied.next() {
        return Err(MetaError::Apart { applied, journal: format!("goes on with record {}", next.0) });
    }
    if last > applied {
        environment::failpoint!("recovery.before-apply");
        engine.apply(&mut writes.iter(), last, true)?;
    }
    environment::failpoint!("recovery.applied");
    Ok(())
}

#[async_trait]
impl MetaStore for LocalStore {
    async fn begin(&self, mode: Mode) -> Result<Box<dyn Transaction>, MetaError> {
        let shared = self.handle.shared.clone();
        let exclusive = match mode {
            Mode::Optimistic => None,
            Mode::Exclusive => Some(shared.exclusive(Priority::Client).await?),
            Mode::ExclusiveUpkeep => Some(shared.exclusive(Priority::Upkeep).await?),
        };
        Ok(Box::new(LocalTransaction::new(shared, exclusive)))
    }

    fn attachable(&self) -> u64 {
        // The rest is for rows, descriptors and tags. In whole pieces, so that what is written in parts meets the
        // boundaries of blocks.
        let most = self.handle.shared.journal.max_record() / 16 * 15;
        if most < ATTACHED_IN { most } else { most / ATTACHED_IN * ATTACHED_IN }
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, MetaError> {
        let shared = &self.handle.shared;
        let target = self.published();
        shared.journal.durable(target).await?;
        shared.work.notify_one();
        loop {
            let moved = shared.room.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            {
                let layers = shared.overlay.read();
                if layers.viewed >= target {
                    return Ok(Box::new(LocalSnapshot { view: layers.view.clone(), lsn: layers.viewed }));
                }
            }
            shared.queue.lock().check()?;
            moved.await;
        }
    }
}
