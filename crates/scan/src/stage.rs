mod file_content;
mod judge;

use std::sync::Arc;
use std::time::Duration;

use cache::{BlockSnapshot, Cache, FileKey, HeldBack, Hold, Scope};
use ids::{ObjectId, VolumeId};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use upkeep::{Gate, MaintainedVolume};
use volume::{Marked, ScanState, Volume, VolumeError};

use crate::Shared;
use crate::queue::{Queue, Waiting};
use judge::Judged;

/// How often it is looked whether files that rest are due.
const TICK: Duration = Duration::from_millis(500);
/// Files that are looked at, at the same time, whether they need a scan.
const LOOKS: usize = 8;
/// Marks that are read at once.
const MARKS: usize = 1024;

/// The stage before the write-back of one volume.
pub struct Stage {
    pub(crate) volume: Arc<Volume>,
    id: VolumeId,
    cache: Cache,
    pub(crate) shared: Arc<Shared>,
    queue: Mutex<Queue>,
    submitted: Notify,
    stop: CancellationToken,
    tasks: Mutex<JoinSet<()>>,
}

/// How a volume stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageReport {
    /// What is kept from the clouds.
    pub held: HeldBack,
    /// Files that wait, or are being scanned.
    pub queued: u64,
    /// Files in quarantine.
    pub quarantined: u64,
    /// Files in which something was found, and which were only told of.
    pub reported: u64,
    /// Files that went on without a scan, and wait for one.
    pub unscanned: u64,
    /// Files whose quarantine an administrator has ended.
    pub released: u64,
}

/// What was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// A file from quarantine.
    Quarantine,
    /// A file that waited for its scan.
    Wait,
    /// A file that was only told of: that is forgotten.
    Mark,
    /// There was nothing to release.
    Nothing,
}

impl Gate for Stage {
    fn admits(&self, snapshot: &BlockSnapshot) -> bool {
        let file = snapshot.file();
        if self.volume.is_quarantined(file.object) {
            // What has no room here goes to the clouds, and stays in quarantine there.
            let is_kept = self.shared.kept.keeps(file, &self.cache);
            if is_kept {
                self.cache.hold_back(file, Hold::Kept);
            }
            return !is_kept;
        }
        if snapshot.may_pass() {
            return true;
        }
        // In this order: whoever is done with a file takes it out of the queue first.
        self.cache.hold_back(file, Hold::Waiting);
        let (now, is_due) = (self.shared.now(), !self.volume.is_open(file.object));
        if self.queue.lock().submit(file.object, now, is_due) {
            self.submitted.notify_one();
        }
        false
    }
}

impl Stage {
    /// Not yet running.
    pub fn new(volume: Arc<Volume>, cache: Cache, shared: Arc<Shared>) -> Arc<Stage> {
        Arc::new(Stage {
            id: MaintainedVolume::id(&*volume),
            volume,
            cache,
            shared,
            queue: Mutex::default(),
            submitted: Notify::new(),
            stop: CancellationToken::new(),
            tasks: Mutex::default(),
        })
    }

    /// Starts to scan. Once.
    pub fn start(self: &Arc<Self>) {
        let mut tasks = self.tasks.lock();
        let (one, two) = (self.clone(), self.clone());
        tasks.spawn(async move { one.run().await });
        tasks.spawn(async move { two.keep_rescanning().await });
    }

    /// Ends scans that are under way; what they were about is scanned after the next start.
    pub async fn stop(&self) {
        self.stop.cancel();
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        while tasks.join_next().await.is_some() {}
    }

    pub(crate) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    fn file(&self, object: ObjectId) -> FileKey {
        FileKey { volume: self.id, object }
    }

    async fn run(self: &Arc<Self>) {
        let clock = &*self.shared.environment.clock;
        // Apart, so that files which need no scan do not wait for those that do.
        let (mut looks, mut scans) = (JoinSet::new(), JoinSet::new());
        loop {
            let (has_to_scan, has_resting) = {
                let mut queue = self.queue.lock();
                while looks.len() < LOOKS
                    && let Some((object, waiting)) = queue.next()
                {
                    let stage = self.clone();
                    looks.spawn(async move { stage.proceed(object, waiting, false).await });
                }
                (queue.has_to_scan(), queue.has_resting())
            };
            tokio::select! {
                // What is under way ends with the set.
                () = self.stop.cancelled() => return,
                slot = self.shared.slots.clone().acquire_owned(), if has_to_scan => {
                    let next = self.queue.lock().next_to_scan();
                    if let Some((object, waiting)) = next {
                        let stage = self.clone();
                        scans.spawn(async move {
                            stage.proceed(object, waiting, true).await;
                            drop(slot);
                        });
                    }
                }
                Some(ended) = looks.join_next() => ended_well(ended),
                Some(ended) = scans.join_next() => ended_well(ended),
                () = self.submitted.notified() => {}
                () = clock.sleep(TICK), if has_resting => {
                    let (now, wait) = (self.shared.now(), self.shared.config().open_wait);
                    self.queue.lock().wake(|object, waiting| self.is_due(object, waiting, now, wait));
                }
            }
        }
    }

    /// Whether a file is to be scanned now: it is closed, was open for long enough, or somebody waits.
    fn is_due(&self, object: ObjectId, waiting: &Waiting, now: Duration, open_wait: Duration) -> bool {
        if now < waiting.until {
            return false;
        }
        waiting.failures > 0
            || waiting.found_in_older > 0
            || now.saturating_sub(waiting.since) >= open_wait
            || !self.volume.is_open(object)
            || self.cache.is_waited_for(self.file(object))
            || self.cache.is_crowded(self.id)
    }

    /// Decides about a file, with a scan only if there is a slot for it.
    async fn proceed(&self, object: ObjectId, waiting: Waiting, has_slot: bool) {
        let file = self.file(object);
        // Asked first: the scan sees all of this.
        let up_to = self.cache.applied_up_to();
        let judged = match self.cache.dirty_bytes(Scope::File(file)) {
            0 => Judged::Passes,
            _ => self.judge(object, waiting.found_in_older, has_slot).await,
        };
        let now = self.shared.now();
        let mut queue = self.queue.lock();
        match judged {
            Judged::NeedsScan => queue.needs_scan(object),
            Judged::Later(why) => queue.put_back(object, waiting.failed(now, why)),
            Judged::Changed => {
                let found_in_older = waiting.found_in_older + 1;
                queue.put_back(object, Waiting { found_in_older, ..waiting });
            }
            Judged::Passes => {
                queue.remove(object);
                drop(queue);
                self.cache.let_through(file, up_to);
            }
            Judged::Quarantined => {
                queue.remove(object);
                drop(queue);
                match self.shared.kept.keeps(file, &self.cache) {
                    true => self.cache.hold_back(file, Hold::Kept),
                    false => self.cache.let_through(file, up_to),
                }
            }
        }
    }

    /// Lets a file go on as it is now, whatever was or would be found in it; durable.
    ///
    /// # Errors
    /// The metadata cannot be changed.
    pub async fn release(&self, object: ObjectId) -> Result<Release, VolumeError> {
        let file = self.file(object);
        if self.volume.release_from_quarantine(object).await? {
            self.shared.kept.forget(file);
            self.cache.let_through(file, self.cache.applied_up_to());
            tracing::warn!(volume = self.volume.name(), %object, "a file was released from quarantine");
            return Ok(Release::Quarantine);
        }
        if !self.is_waiting(object) {
            return match self.volume.scan_mark(object).await?.is_some() {
                true => self.volume.mark_clean(object).await.map(|()| Release::Mark),
                false => Ok(Release::Nothing),
            };
        }
        let up_to = self.cache.applied_up_to();
        let Some(target) = self.volume.scan_target(object).await? else { return Ok(Release::Nothing) };
        let why = "released before it was scanned";
        match self.volume.mark_scanned(object, target.change, ScanState::Released, why).await? {
            Marked::Done | Marked::Released => {
                self.cache.let_through(file, up_to);
                self.queue.lock().hurry(object);
                self.submitted.notify_one();
                Ok(Release::Wait)
            }
            Marked::Changed | Marked::Gone => Ok(Release::Nothing),
        }
    }

    /// How the volume stands. Looks at every file that is dirty or marked.
    ///
    /// # Errors
    /// The metadata cannot be read.
    pub async fn report(&self) -> Result<StageReport, VolumeError> {
        let mut report = StageReport {
            held: self.cache.held_back(self.id),
            queued: self.queue.lock().len() as u64,
            ..StageReport::default()
        };
        let mut after = None;
        loop {
            let marks = self.volume.scan_marks(after, MARKS).await?;
            for (_, mark) in &marks {
                *match mark.state {
                    ScanState::Unscanned => &mut report.unscanned,
                    ScanState::Reported => &mut report.reported,
                    ScanState::Quarantined => &mut report.quarantined,
                    ScanState::Released => &mut report.released,
                } += 1;
            }
            match marks.last() {
                Some((last, _)) if marks.len() == MARKS => after = Some(*last),
                _ => return Ok(report),
            }
        }
    }

    /// Whether a file waits for its scan, or is being scanned.
    pub fn is_waiting(&self, object: ObjectId) -> bool {
        self.queue.lock().has(object)
    }

    /// Files that wait, up to so many: since how long, and why if they were tried before.
    pub fn waiting(&self, most: usize) -> Vec<(ObjectId, Duration, Option<String>)> {
        let (queue, now) = (self.queue.lock(), self.shared.now());
        let files = queue.files().take(most);
        files.map(|(object, file)| (object, now.saturating_sub(file.since), file.why.clone())).collect()
    }
}

fn ended_well(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a scan ended by itself; its file waits for the next start");
    }
}
