//! Byte-range locks (§9.1-§9.5, §18.10-§18.12): a cell for each byte that is ever locked alone, and one for all behind
//! them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use nfs4::{ClientId, LockDenied, LockType, NfsStatus, StateId};

use super::opens::{READ, WRITE, same};
use super::{File, Other, Specification, Verdict};
use crate::step::By;

/// Bytes with a cell of their own.
pub const BYTES: u64 = 12;
const CELLS: usize = BYTES as usize + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Free,
    Shared,
    Exclusive,
}

/// What a lock state id names: a lock-owner, and the open that it locks by.
#[derive(Debug)]
pub struct LockState {
    pub client: ClientId,
    pub owner: u8,
    pub file: File,
    pub open: Other,
    pub seqid: u32,
}

/// Who was denied a lock, and asks again.
#[derive(Debug)]
struct Waiting {
    file: File,
    owner: (ClientId, u8),
    exclusive: bool,
    cells: Range<usize>,
    asked: Duration,
}

/// Nobody waits for longer without asking again.
const PATIENCE: Duration = Duration::from_secs(65);

#[derive(Default)]
pub struct Locks {
    pub states: BTreeMap<Other, LockState>,
    waiting: Vec<Waiting>,
    cells: BTreeMap<(File, ClientId, u8), [Cell; CELLS]>,
}

impl Locks {
    pub fn holds(&self, lock: &LockState) -> bool {
        let held = self.cells.get(&(lock.file, lock.client, lock.owner));
        held.is_some_and(|cells| cells.iter().any(|cell| *cell != Cell::Free))
    }

    pub fn drop_client(&mut self, client: ClientId) {
        self.states.retain(|_, lock| lock.client != client);
        self.cells.retain(|(_, whose, _), _| *whose != client);
        self.waiting.retain(|waiting| waiting.owner.0 != client);
    }

    /// The locks made by an open end, unless their owner has locked the file by another one as well.
    pub fn drop_open(&mut self, open: &Other) {
        let gone: Vec<Other> =
            self.states.iter().filter(|(_, lock)| lock.open == *open).map(|(other, _)| *other).collect();
        gone.into_iter().for_each(|other| self.drop_state(&other));
    }

    pub fn drop_state(&mut self, other: &Other) {
        let Some(gone) = self.states.remove(other) else { return };
        let whose = |lock: &LockState| (lock.file, lock.client, lock.owner);
        if !self.states.values().any(|lock| whose(lock) == whose(&gone)) {
            self.cells.remove(&whose(&gone));
        }
    }
}

/// Which cells a range is (§18.10.3).
pub fn cells(offset: u64, length: u64) -> Result<Range<usize>, NfsStatus> {
    match length {
        0 => Err(NfsStatus::Inval),
        u64::MAX => Ok(offset as usize..CELLS),
        _ => match offset.checked_add(length) {
            None => Err(NfsStatus::Inval),
            Some(end) => {
                assert!(end <= BYTES, "no cells for {offset}+{length}");
                Ok(offset as usize..end as usize)
            }
        },
    }
}

impl Specification {
    pub(super) fn judge_conflict(
        &self,
        (client, owner): (ClientId, u8),
        file: File,
        exclusive: bool,
        (offset, length): (u64, u64),
        verdict: &mut Verdict,
    ) -> bool {
        let range = match cells(offset, length) {
            Ok(range) => range,
            Err(status) => {
                verdict.refuse(status);
                return false;
            }
        };
        let mut denied = false;
        for ((held_file, holder, name), held) in &self.locks.cells {
            let conflicts = |cell: &Cell| *cell == Cell::Exclusive || exclusive && *cell == Cell::Shared;
            if *held_file == file
                && (*holder, *name) != (client, owner)
                && held[range.clone()].iter().any(conflicts)
            {
                if self.is_expired(*holder) {
                    verdict.in_the_way.insert(*holder);
                } else {
                    denied = true;
                }
            }
        }
        if denied {
            verdict.refuse(NfsStatus::Denied);
        }
        denied
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn judge_lock(
        &self,
        client: ClientId,
        by: &By,
        file: File,
        exclusive: bool,
        reclaim: bool,
        range: (u64, u64),
        verdict: &mut Verdict,
    ) {
        let (open, _, owner) = match self.locker(client, by, file) {
            Ok(locker) => locker,
            Err(status) => {
                verdict.refuse(status);
                return verdict.refuse_unless(cells(range.0, range.1).map(drop));
            }
        };
        let needed = if exclusive { WRITE } else { READ };
        if open.access & needed == 0 {
            verdict.refuse(NfsStatus::OpenMode);
        }
        if self.judge_conflict((client, owner), file, exclusive, range, verdict) && reclaim {
            verdict.refuse(NfsStatus::ReclaimConflict);
        }
        if !reclaim && self.waits_before((client, owner), file, exclusive, range).next().is_some() {
            verdict.may_refuse(NfsStatus::Denied);
        }
    }

    /// Who waits for a lock that keeps `asker` from this one.
    fn waits_before(
        &self,
        asker: (ClientId, u8),
        file: File,
        exclusive: bool,
        (offset, length): (u64, u64),
    ) -> impl Iterator<Item = &Waiting> {
        let wanted = cells(offset, length).unwrap_or_default();
        self.locks.waiting.iter().filter(move |waiting| {
            (waiting.file, waiting.owner != asker) == (file, true)
                && (exclusive || waiting.exclusive)
                && waiting.cells.start < wanted.end
                && wanted.start < waiting.cells.end
                && self.now <= waiting.asked + PATIENCE
        })
    }

    /// The server has denied a lock (§9.6).
    pub fn denied(
        &mut self,
        owner: (ClientId, u8),
        file: File,
        (exclusive, waits): (bool, bool),
        (offset, length): (u64, u64),
    ) {
        let (now, cells) = (self.now, cells(offset, length).expect("it was judged"));
        self.locks.waiting.retain(|waiting| {
            now <= waiting.asked + PATIENCE
                && (waiting.file != file || waiting.owner != owner || waiting.cells != cells)
        });
        if waits {
            self.locks.waiting.push(Waiting { file, owner, exclusive, cells, asked: now });
        }
    }

    /// Whether that lock is there, and in the way, or somebody waits for it.
    pub fn check_denied(
        &self,
        asker: (ClientId, u8),
        file: File,
        exclusive: bool,
        range: (u64, u64),
        denied: &LockDenied,
    ) -> Result<(), String> {
        let wrong = || Err(format!("no such lock is in the way: {denied:?}"));
        let [name] = denied.owner.owner[..] else { return wrong() };
        let holder = (denied.owner.client, name);
        let is_write = denied.lock_type == LockType::Write;
        let mut before = self.waits_before(asker, file, exclusive, range);
        if before.any(|waiting| {
            (waiting.owner, waiting.exclusive) == (holder, is_write)
                && cells(denied.offset, denied.length).as_ref() == Ok(&waiting.cells)
        }) {
            return Ok(());
        }
        let Some(held) = self.locks.cells.get(&(file, holder.0, holder.1)) else { return wrong() };
        let (Ok(theirs), Ok(wanted)) = (cells(denied.offset, denied.length), cells(range.0, range.1)) else {
            return wrong();
        };
        let kind = if is_write { Cell::Exclusive } else { Cell::Shared };
        let is_there = held[theirs.clone()].iter().all(|cell| *cell == kind);
        let overlaps = theirs.start < wanted.end && wanted.start < theirs.end;
        if is_there && overlaps && (exclusive || is_write) && holder != asker { Ok(()) } else { wrong() }
    }

    /// The owner of a lock that is asked for.
    pub fn asker(&self, client: ClientId, by: &By, file: File) -> Option<(ClientId, u8)> {
        self.locker(client, by, file).ok().map(|(_, _, owner)| (client, owner))
    }

    pub(super) fn locked(
        &mut self,
        client: ClientId,
        by: &By,
        file: File,
        exclusive: bool,
        (offset, length): (u64, u64),
        id: StateId,
    ) -> Result<(), String> {
        let (_, open, owner) = self.locker(client, by, file).expect("it was judged");
        let cells = cells(offset, length).expect("it was judged");
        let kind = if exclusive { Cell::Exclusive } else { Cell::Shared };
        let overlaps = |other: &Range<usize>| other.start < cells.end && cells.start < other.end;
        self.locks.waiting.retain(|waiting| {
            (waiting.file, waiting.owner) != (file, (client, owner)) || !overlaps(&waiting.cells)
        });
        let held = self.locks.cells.entry((file, client, owner)).or_insert([Cell::Free; CELLS]);
        held[cells].fill(kind);
        let known = |lock: &LockState| (lock.open, lock.owner) == (open, owner);
        let known = self.locks.states.iter().find(|(_, lock)| known(lock)).map(|(other, _)| *other);
        if let Some(other) = known {
            let lock = self.locks.states.get_mut(&other).expect("just found");
            lock.seqid += 1;
            return same(id, other, lock.seqid);
        }
        if !self.is_new(&id.other) || id.is_special() || id.seqid != 1 {
            return Err(format!("{id:?} is no name for a new lock-owner"));
        }
        self.locks.states.insert(id.other, LockState { client, owner, file, open, seqid: 1 });
        Ok(())
    }

    pub(super) fn unlocked(
        &mut self,
        id: &StateId,
        (offset, length): (u64, u64),
        new: StateId,
    ) -> Result<(), String> {
        let lock = self.locks.states.get_mut(&id.other).expect("it was judged");
        if let Some(held) = self.locks.cells.get_mut(&(lock.file, lock.client, lock.owner)) {
            held[cells(offset, length).expect("it was judged")].fill(Cell::Free);
        }
        lock.seqid += 1;
        same(new, id.other, lock.seqid)
    }
}
