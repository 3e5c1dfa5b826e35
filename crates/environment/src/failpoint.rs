//! Named places where a crash test kills the process.
//!
//! [`failpoint!`](crate::failpoint!) compiles to nothing in release builds. In all others the process
//! sends itself SIGKILL when it passes the point that the variable `KURMA_FAILPOINT` names, in the form `NAME` or
//! `NAME:N` (the N-th time, counted from 1). No destructor runs, no buffer is flushed; standard error says `failpoint NAME`.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Every point with what has and has not happened when it is passed. A point that is not listed here cannot be
/// named in the code.
pub const POINTS: &[(&str, &str)] = &[
    ("journal.before-write", "a batch is sealed, nothing of it is on the disk"),
    ("journal.torn-write", "half of a batch's bytes are on the disk"),
    ("journal.before-sync", "a batch is written and not yet durable"),
    ("journal.after-sync", "a batch is durable and nobody has been told"),
    ("journal.segment-ended", "a segment says that the next one is begun, and nobody has been told"),
    ("journal.before-recycle", "segments are free by the books and not yet reused"),
    ("recovery.tail-found", "the end of the journal is found, and what is in it not yet made durable"),
    ("recovery.before-apply", "the journal is read again, its last transactions are not in the engine"),
    ("recovery.applied", "all of the journal is in the engine, and nobody has been let in"),
    ("meta.before-apply", "durable transactions are not yet in the engine"),
    ("meta.before-checkpoint", "the engine is about to make its state durable"),
    ("meta.after-checkpoint", "the engine is durable and the journal not yet trimmed"),
    ("meta.before-move", "the dirty data of the oldest segment is read and not yet appended again"),
    ("meta.after-move", "dirty data is durable in two segments, the older one is not yet released"),
    ("writeback.before-put", "blocks are chosen, no fragment is stored"),
    ("writeback.between-puts", "some fragments of a block are stored"),
    ("writeback.before-commit", "all fragments are stored, no version is committed"),
    ("writeback.after-commit", "versions are committed, dirty data is not yet clean"),
    ("pack.before-put", "a pack is noted, no fragment of it is stored"),
    ("pack.before-commit", "all fragments of a pack are stored, none of its blocks is committed"),
    ("pack.between-commits", "some blocks of a pack are committed, others are not"),
    ("pack.before-settle", "the last block of a pack is committed, the pack is still noted"),
    ("gc.before-delete", "superseded fragments are about to be deleted"),
    ("gc.before-commit", "fragments are deleted, the queue entry is still there"),
    ("gc.between-packs", "garbage has let go of its packs, the queue entry is still there"),
    (
        "clean.before-put",
        "blocks are read from packs with much garbage, their new pack is noted and not stored",
    ),
    ("clean.before-commit", "blocks are stored in a new pack, the metadata name the old one"),
    ("clean.between-commits", "some blocks have moved to their new pack, others have not"),
    ("clean.before-settle", "all blocks have moved to their new pack, which is still noted"),
    ("backup.before-object", "a part of a metadata backup is sealed, no cloud has it"),
    ("backup.before-head", "all parts of a metadata backup are stored, no cloud has its head"),
    ("backup.after-head", "clouds have the head of a metadata backup, the gateway has noted nothing"),
    ("repair.before-put", "a good fragment is rebuilt and not yet stored"),
    ("repair.before-commit", "the fragment is stored, the queue entry is still there"),
    ("reap.before-commit", "an unlinked object is about to be taken apart"),
    ("drain.noted", "a cloud is noted to take nothing new, everything is still there"),
    ("drain.begun", "what is in a cloud is on its way to another one, nothing has moved"),
    ("drain.copied", "a fragment is in both clouds"),
    ("drain.before-finish", "the old cloud is empty, everything is still looked for there, too"),
    ("drain.finished", "the old cloud is done with, the configuration still has volumes on it"),
    ("spread.begun", "files are to be spread over other clouds, none of them has been looked at"),
    ("keys.before-epoch", "a new epoch of keys is about to be committed"),
    ("keys.after-epoch", "a new epoch of keys is durable, no key of a file is under it"),
    ("keys.before-rewrap", "keys of files are about to be committed under the present epoch key"),
    (
        "keys.before-retire",
        "all keys of files are under the present epoch key, the earlier ones are still there",
    ),
    ("keys.after-retire", "the earlier epoch keys are gone"),
    ("shred.after-opener", "the key file has the next opener, nothing is shredded"),
    ("shred.before-keys", "keys of files are about to be destroyed"),
    ("shred.after-keys", "keys of files are destroyed, copies of them are in backups under an old epoch key"),
    ("shred.before-switch", "old epoch keys are gone, the others are not under the next opener"),
    ("shred.after-switch", "all epoch keys are under the next opener, the old one is still there"),
    ("shred.before-destroy", "a backup under the next opener is safe, the old one is still there"),
    ("shred.after-destroy", "the old opener is gone, nobody has been told"),
    ("migration.before-send", "some files are about to get another policy"),
    ("migration.sent", "some files have another policy, the rest is still to be found"),
    ("migration.found", "all files have their policy, and are still being looked for by the books"),
    ("migration.offered", "blocks are chosen that are to be stored by another policy"),
    ("migration.before-finish", "nothing of some files is left to be moved, and nobody has noted that"),
    ("migration.finished", "some files are moved, and noted to be"),
    ("restore.loaded", "all rows of a backup are loaded, what of the files is lost is still in their sizes"),
    ("restore.before-end", "what is lost is cut and told, the folder does not count yet"),
    ("clients.before-record", "a client is confirmed in memory and not yet on disk"),
    ("compound.before-commit", "an atomic compound is run and nothing of it is committed"),
    ("compound.after-commit", "an atomic compound is durable and not yet answered"),
];

/// Marks a place where a crash test may kill the process.
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {{
        const _: () = assert!($crate::failpoint::is_listed($name), "failpoint missing from POINTS");
        $crate::failpoint::pass($name);
    }};
}

/// Whether `name` is one of [`POINTS`]; evaluated at compile time by the macro.
pub const fn is_listed(name: &str) -> bool {
    let mut at = 0;
    while at < POINTS.len() {
        let (left, right) = (POINTS[at].0.as_bytes(), name.as_bytes());
        let mut same = left.len() == right.len();
        let mut i = 0;
        while same && i < left.len() {
            same = left[i] == right[i];
            i += 1;
        }
        if same {
            return true;
        }
        at += 1;
    }
    false
}

/// Passes a point; called by the macro.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn pass(_name: &str) {}

/// Passes a point; called by the macro.
#[cfg(debug_assertions)]
pub fn pass(name: &str) {
    use std::io::Write;
    use std::sync::atomic::{AtomicU64, Ordering};

    static PASSED: AtomicU64 = AtomicU64::new(0);
    WATCHER.with_borrow_mut(|watcher| watcher.iter_mut().for_each(|watcher| watcher(name)));
    if let Some((armed, nth)) = armed()
        && armed == name
        && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *nth
    {
        let _ = writeln!(std::io::stderr(), "failpoint {name}");
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        std::process::abort();
    }
}

type Watcher = Box<dyn FnMut(&str)>;

thread_local! {
    static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
}

/// Has `watcher` told of every point that this thread passes, before anything else happens there: for tests whose whole world
/// runs in one thread, and who end it by keeping what is on the disk at that moment. `watcher` passes no point itself.
/// Nothing is told in release builds.
pub fn watch(watcher: impl FnMut(&str) + 'static) -> Watching {
    WATCHER.set(Some(Box::new(watcher)));
    Watching(PhantomData)
}

/// Points are told of until this is dropped, in the thread where that was asked for.
#[must_use = "nothing is told after it is dropped"]
pub struct Watching(PhantomData<*const ()>);

impl Drop for Watching {
    fn drop(&mut self) {
        WATCHER.set(None);
    }
}

/// Whether `name` is the armed point: lets the code prepare a state that only a crash can leave, such as half
/// of a write, before it passes the point.
pub fn is_armed(name: &str) -> bool {
    cfg!(debug_assertions) && armed().as_ref().is_some_and(|(armed, _)| armed == name)
}

fn armed() -> &'static Option<(String, u64)> {
    static ARMED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    ARMED.get_or_init(|| {
        let text = std::env::var("KURMA_FAILPOINT").ok()?;
        let (name, nth) = text.split_once(':').unwrap_or((&text, "1"));
        Some((name.to_owned(), nth.parse().unwrap_or(1)))
    })
}
