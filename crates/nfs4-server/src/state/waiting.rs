//! Who waits for byte-range locks (RFC 8881 §9.6): a queue for each file, so that nobody is passed for ever.
//!
//! A LOCK with a waiting type that is denied gets a place in the queue, and keeps it as long as it is asked again: at the
//! pace that the client has shown, or, by a client that can be called back, now and then. Later requests for the same
//! bytes are denied as if it held the lock already: always when it could have it, and for [`DRAIN`] after it first came
//! when it could not yet, so that those who share a lock do not keep it from whoever wants it alone. Whoever holds what it
//! waits for is not stopped: the two would wait for each other.
//!
//! A client that can be called back is told when it is its turn (CB_NOTIFY_LOCK, §20.11), and has [`TURN`] to come.
//! Places are not kept over a restart (§9.6).

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use file_system::FileId;

use super::callback::Notice;
use super::range_lock::Held as HeldRange;
use super::undo::Undo;
use super::{ByteRange, LockOwner, Other, RangeLocks, State, UndoLog};

/// Places of one file; whoever finds none asks again as if there were no queue.
const PLACES: usize = 256;

/// How long later requests stand back for one that cannot have its lock yet.
const DRAIN: Duration = Duration::from_secs(30);

/// How long who was called has to come.
const TURN: Duration = Duration::from_secs(5);

/// Clients that expect to be called ask at least every 30 s; those that do not, twice as long after each time as before,
/// up to 30 s (both as Linux does).
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// What somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub owner: LockOwner,
    /// The open that it would lock by.
    pub open: Other,
    pub range: ByteRange,
    pub exclusive: bool,
}

impl Wanted {
    fn is_same(&self, other: &Wanted) -> bool {
        self.owner == other.owner && self.range == other.range && self.exclusive == other.exclusive
    }

    fn conflicts(&self, other: &Wanted) -> bool {
        self.owner != other.owner && self.range.overlaps(other.range) && (self.exclusive || other.exclusive)
    }

    fn is_free(&self, locks: &RangeLocks<LockOwner>) -> bool {
        locks.conflict(&self.owner, self.range, self.exclusive).is_none()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Place {
    wanted: Wanted,
    /// When it was asked for first, and last.
    since: Duration,
    asked: Duration,
    /// From one time to the next.
    pause: Duration,
    /// The place is kept until then.
    until: Duration,
    /// Whether the client was told that it is its turn.
    called: bool,
}

/// The queue of one file.
#[derive(Debug, Default)]
struct Waiting(VecDeque<Place>);

impl Waiting {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    /// A request was denied, and will come again; `can_call` if its client is called when it is its turn. `room` is for
    /// one more place. Returns the place as it was before, if it had one.
    fn wait(&mut self, wanted: Wanted, can_call: bool, room: bool, now: Duration) -> Option<Place> {
        let until = |pause: Duration| match can_call {
            true => now + 2 * LONGEST_PAUSE + TURN,
            false => now + (2 * pause).clamp(SHORTEST_PAUSE, LONGEST_PAUSE) + SHORTEST_PAUSE,
        };
        if let Some(place) = self.find(&wanted) {
            let before = place.clone();
            if now > place.asked {
                (place.pause, place.asked) = (now - place.asked, now);
            }
            (place.until, place.called) = (until(place.pause), false);
            place.wanted.open = wanted.open;
            return Some(before);
        }
        if room && self.0.len() < PLACES {
            let pause = Duration::ZERO;
            self.0.push_back(Place {
                wanted,
                since: now,
                asked: now,
                pause,
                until: until(pause),
                called: false,
            });
        }
        None
    }

    fn find(&mut self, wanted: &Wanted) -> Option<&mut Place> {
        self.0.iter_mut().find(|place| place.wanted.is_same(wanted))
    }

    /// Takes out the places that `leaves` chooses, and says which they had.
    fn leave(&mut self, leaves: impl Fn(&Wanted) -> bool) -> Vec<(usize, Place)> {
        let (mut left, mut index) = (Vec::new(), 0);
        self.0.retain(|place| {
            let stays = !leaves(&place.wanted);
            if !stays {
                left.push((index, place.clone()));
            }
            index += 1;
            stays
        });
        left
    }

    /// Whom `wanted` has to stand back for, if nobody holds it.
    fn ahead(
        &self,
        wanted: &Wanted,
        locks: &RangeLocks<LockOwner>,
        now: Duration,
    ) -> Option<HeldRange<LockOwner>> {
        let before = self.0.iter().take_while(|place| !place.wanted.is_same(wanted));
        let first = before.map(|place| (place, &place.wanted)).find(|(place, first)| {
            now <= place.until
                && first.conflicts(wanted)
                && (first.is_free(locks)
                    || now <= place.since + DRAIN
                        && !locks.is_blocked_by(&wanted.owner, first.range, first.exclusive))
        });
        first.map(|(_, first)| HeldRange {
            range: first.range,
            exclusive: first.exclusive,
            owner: first.owner.clone(),
        })
    }

    /// Locks were given up, or time went by: drops those that did not come, and returns those whose turn it is now and
    /// that `can_call` says can be called.
    fn offer(
        &mut self,
        locks: &RangeLocks<LockOwner>,
        now: Duration,
        can_call: impl Fn(&LockOwner) -> bool,
    ) -> Vec<LockOwner> {
        self.0.retain(|place| now <= place.until);
        let turns: Vec<usize> = (0..self.0.len())
            .filter(|index| {
                let place = &self.0[*index];
                !place.called
                    && place.wanted.is_free(locks)
                    && self.ahead(&place.wanted, locks, now).is_none()
                    && can_call(&place.wanted.owner)
            })
            .collect();
        turns
            .into_iter()
            .map(|index| {
                let place = &mut self.0[index];
                (place.called, place.until) = (true, now + TURN);
                place.wanted.owner.clone()
            })
            .collect()
    }

    /// Whether the owner still waits to be called.
    fn is_called(&self, owner: &LockOwner) -> bool {
        self.0.iter().any(|place| place.called && place.wanted.owner == *owner)
    }
}

/// The queues of all files that somebody waits for.
#[derive(Debug, Default)]
pub(super) struct Queues {
    files: HashMap<FileId, Waiting>,
    /// Places in all of them.
    places: usize,
    /// Files whose locks changed since they were last offered.
    changed: HashSet<FileId>,
}

impl Queues {
    /// Whether nobody waits.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.places == 0
    }

    /// Changes the queue of a file, if there is one.
    fn change<T: Default>(&mut self, file: FileId, change: impl FnOnce(&mut Waiting) -> T) -> T {
        let Some(queue) = self.files.get_mut(&file) else { return T::default() };
        let before = queue.len();
        let changed = change(queue);
        self.places = self.places + queue.len() - before;
        // Who is behind those who left may have come to the front.
        self.changed.insert(file);
        if queue.is_empty() {
            self.files.remove(&file);
            self.changed.remove(&file);
        }
        changed
    }
}

impl State {
    /// For whom a request has to stand back that no lock forbids.
    pub(super) fn ahead_of(
        &self,
        file: FileId,
        wanted: &Wanted,
        now: Duration,
    ) -> Option<HeldRange<LockOwner>> {
        let queue = self.waiting.files.get(&file)?;
        match self.files.get(&file) {
            Some(state) => queue.ahead(wanted, &state.ranges, now),
            None => queue.ahead(wanted, &RangeLocks::default(), now),
        }
    }

    /// A LOCK was denied. Who does not wait for it has given up waiting as well (RFC 8881 §9.6).
    pub(super) fn lock_denied(
        &mut self,
        file: FileId,
        wanted: Wanted,
        waits: bool,
        now: Duration,
        undo: &mut UndoLog,
    ) {
        if !waits {
            return self.waits_no_more(file, &wanted.owner, wanted.range, undo);
        }
        let can_call = self.has_back_channel(wanted.owner.client);
        let room = self.waiting.places < self.config.limits.waiting_locks;
        self.waiting.files.entry(file).or_default();
        let asked = wanted.clone();
        let before = self.waiting.change(file, |queue| queue.wait(wanted, can_call, room, now));
        undo.push(Undo::Waits { file, wanted: asked, before });
    }

    /// The owner has what it wanted of `range`, or wants it no more.
    pub(super) fn waits_no_more(
        &mut self,
        file: FileId,
        owner: &LockOwner,
        range: ByteRange,
        undo: &mut UndoLog,
    ) {
        let leaves = |wanted: &Wanted| wanted.owner == *owner && wanted.range.overlaps(range);
        let places = self.waiting.change(file, |queue| queue.leave(leaves));
        if !places.is_empty() {
            undo.push(Undo::WaitsNoMore { file, places });
        }
    }

    /// Nothing will be locked by this open any more. Who opens the file again is behind all others.
    pub(super) fn waits_no_more_by(&mut self, file: FileId, open: &Other) {
        self.waiting.change(file, |queue| drop(queue.leave(|wanted| wanted.open == *open)));
    }

    /// A place was not taken after all, or not taken again.
    pub(super) fn restore_place(&mut self, file: FileId, wanted: &Wanted, before: Option<Place>) {
        self.waiting.change(file, |queue| match before {
            None => drop(queue.leave(|other| other.is_same(wanted))),
            Some(before) => {
                if let Some(place) = queue.find(wanted) {
                    *place = before;
                }
            }
        });
    }

    /// These places were not left after all.
    pub(super) fn restore_places(&mut self, file: FileId, places: Vec<(usize, Place)>) {
        self.waiting.files.entry(file).or_default();
        self.waiting.change(file, |queue| {
            for (index, place) in places {
                queue.0.insert(index.min(queue.len()), place);
            }
        });
    }

    /// Locks of the file were given, or given up.
    pub(super) fn locks_changed(&mut self, file: FileId) {
        if self.waiting.files.contains_key(&file) {
            self.waiting.changed.insert(file);
        }
    }

    /// Calls those whose turn it is now because locks were given up.
    pub fn offer_changed_locks(&mut self, now: Duration) {
        for file in std::mem::take(&mut self.waiting.changed) {
            self.offer_locks(file, now);
        }
    }

    /// The same because time went by. To be called every few seconds.
    pub fn offer_all_locks(&mut self, now: Duration) {
        let files: Vec<FileId> = self.waiting.files.keys().copied().collect();
        files.into_iter().for_each(|file| self.offer_locks(file, now));
        self.waiting.changed.clear();
    }

    fn offer_locks(&mut self, file: FileId, now: Duration) {
        let Some(mut queue) = self.waiting.files.remove(&file) else { return };
        let (nobody, before) = (RangeLocks::default(), queue.len());
        let locks = self.files.get(&file).map_or(&nobody, |state| &state.ranges);
        let turns = queue.offer(locks, now, |owner| self.has_back_channel(owner.client));
        self.waiting.places = self.waiting.places + queue.len() - before;
        if !queue.is_empty() {
            self.waiting.files.insert(file, queue);
        }
        for owner in turns {
            self.notify(owner.client, Notice::LockFree { file, owner });
        }
    }

    /// What is waited for by an open.
    pub(super) fn waits_by(&self, file: FileId, open: Other) -> impl Iterator<Item = &Wanted> {
        let places = self.waiting.files.get(&file).into_iter().flat_map(|queue| &queue.0);
        places.map(|place| &place.wanted).filter(move |wanted| wanted.open == open)
    }

    /// Whether it is the turn of this owner still.
    pub(super) fn is_called(&self, file: FileId, owner: &LockOwner) -> bool {
        self.waiting.files.get(&file).is_some_and(|queue| queue.is_called(owner))
    }
}

#[cfg(test)]
mod tests {
    use nfs4::ClientId;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn owner(number: u64) -> LockOwner {
        LockOwner { client: ClientId(number), owner: [1].into() }
    }

    fn wanted(number: u64, range: (u64, u64), exclusive: bool) -> Wanted {
        let range = ByteRange::new(range.0, range.1).unwrap();
        Wanted { owner: owner(number), open: [number as u8; 12], range, exclusive }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(100 + seconds)
    }

    fn locked(wanted: &Wanted) -> RangeLocks<LockOwner> {
        let mut locks = RangeLocks::default();
        locks.set(&wanted.owner, wanted.range, wanted.exclusive);
        locks
    }

    fn who(held: Option<HeldRange<LockOwner>>) -> Option<u64> {
        held.map(|held| held.owner.client.0)
    }

    #[test]
    fn the_first_that_waits_is_not_passed_by_a_later_one() {
        let mut waiting = Waiting::default();
        let mut locks = locked(&wanted(1, (0, 10), true));
        let (second, third) = (wanted(2, (0, 5), true), wanted(3, (2, 1), false));
        waiting.wait(second.clone(), false, true, at(0));
        waiting.wait(third.clone(), false, true, at(0));
        locks.clear_all(&owner(1));
        assert_eq!(who(waiting.ahead(&third, &locks, at(1))), Some(2));
        assert_eq!(who(waiting.ahead(&wanted(4, (4, 9), false), &locks, at(1))), Some(2), "a stranger");
        assert_eq!(who(waiting.ahead(&wanted(4, (5, 9), true), &locks, at(1))), None, "other bytes");
        assert_eq!(who(waiting.ahead(&second, &locks, at(1))), None);
        locks.set(&owner(2), second.range, true);
        let left = waiting.leave(|wanted| wanted.owner == owner(2));
        assert_eq!((left.len(), left[0].0, waiting.len()), (1, 0, 1));
        locks.clear_all(&owner(2));
        assert_eq!(who(waiting.ahead(&third, &locks, at(1))), None);
    }

    #[test]
    fn who_does_not_come_again_at_its_pace_loses_its_place() {
        let mut waiting = Waiting::default();
        let (free, late) = (RangeLocks::default(), wanted(3, (0, 1), true));
        let first = wanted(2, (0, 1), true);
        let mut now = at(0);
        // As Linux asks: after 1, 2, 4, 8, 16, 30, 30 seconds.
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            waiting.wait(first.clone(), false, true, now);
            now += pause * SECOND;
            assert_eq!(who(waiting.ahead(&late, &free, now)), Some(2), "after {pause} s");
        }
        now += 2 * SECOND;
        assert_eq!(who(waiting.ahead(&late, &free, now)), None);
        assert!(waiting.offer(&free, now, |_| true).is_empty() && waiting.is_empty());
    }

    #[test]
    fn who_is_called_has_five_seconds_to_come() {
        let mut waiting = Waiting::default();
        let mut locks = locked(&wanted(1, (0, 10), true));
        for number in [2, 3] {
            waiting.wait(wanted(number, (0, 1), true), true, true, at(0));
        }
        assert!(waiting.offer(&locks, at(50), |_| true).is_empty(), "it is not free");
        locks.clear_all(&owner(1));
        assert_eq!(waiting.offer(&locks, at(50), |_| true), [owner(2)]);
        assert!(waiting.offer(&locks, at(55), |_| true).is_empty(), "it was called");
        assert!(waiting.is_called(&owner(2)) && !waiting.is_called(&owner(3)));
        assert_eq!(waiting.offer(&locks, at(55) + SECOND / 2, |_| true), [owner(3)], "the next");
        assert_eq!(waiting.len(), 1);
    }

    #[test]
    fn those_who_share_are_called_together_and_nobody_behind_one_who_is_not() {
        let mut waiting = Waiting::default();
        for (number, exclusive) in [(2, false), (3, false), (4, true), (5, false)] {
            waiting.wait(wanted(number, (0, 9), exclusive), true, true, at(0));
        }
        let free = RangeLocks::default();
        assert_eq!(waiting.offer(&free, at(1), |_| true), [owner(2), owner(3)]);
    }

    #[test]
    fn those_who_share_a_lock_stand_back_for_a_while_for_who_wants_it_alone() {
        let mut waiting = Waiting::default();
        let shared = wanted(1, (0, 10), false);
        let locks = locked(&shared);
        let alone = wanted(2, (0, 10), true);
        for second in (0..=40).step_by(2) {
            waiting.wait(alone.clone(), true, true, at(second));
        }
        let later = wanted(3, (0, 10), false);
        assert_eq!(who(waiting.ahead(&later, &locks, at(30))), Some(2));
        assert_eq!(who(waiting.ahead(&later, &locks, at(31))), None, "a lock that is held for long");
        assert_eq!(who(waiting.ahead(&shared, &locks, at(1))), None, "who holds what it waits for");
    }

    #[test]
    fn a_queue_is_bounded() {
        let mut waiting = Waiting::default();
        for number in 0..2 * PLACES as u64 {
            waiting.wait(wanted(number, (0, 1), true), true, true, at(0));
        }
        assert_eq!(waiting.len(), PLACES);
        waiting.wait(wanted(9, (0, 1), true), true, true, at(1));
        assert_eq!(waiting.len(), PLACES);
        let mut waiting = Waiting::default();
        waiting.wait(wanted(1, (0, 1), true), true, false, at(0));
        assert!(waiting.is_empty(), "no room");
    }

    #[test]
    fn who_closes_the_file_or_asks_without_waiting_waits_no_more() {
        let mut waiting = Waiting::default();
        for number in [2, 3] {
            waiting.wait(wanted(number, (0, 1), true), true, true, at(0));
        }
        waiting.leave(|wanted| wanted.open == [2; 12]);
        assert_eq!(waiting.len(), 1);
        waiting.leave(|wanted| wanted.owner == owner(3));
        assert!(waiting.is_empty());
    }
}
