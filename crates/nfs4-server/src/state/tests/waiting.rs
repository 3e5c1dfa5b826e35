//! Waiting for locks: RFC 8881 §9.6 and §20.11.

use super::*;

const RW: u32 = Share::READ | Share::WRITE;

/// Clients with the same file open, the first of which has locked all of it.
struct Queue {
    world: World,
    opens: Vec<(ClientId, StateId)>,
    held: StateId,
}

fn queue(clients: &[&str]) -> Queue {
    let mut world = world();
    let opens: Vec<_> = clients
        .iter()
        .map(|name| {
            let client = world.client(name);
            (client, world.open(client, "o", 1, RW, 0).unwrap())
        })
        .collect();
    let (holder, open) = opens[0];
    let held = world.lock(holder, by(&open), 1, (0, u64::MAX), true).unwrap().unwrap();
    Queue { world, opens, held }
}

fn by(open: &StateId) -> Locker<'static> {
    Locker::New { open: *open, owner: b"l" }
}

impl Queue {
    /// One client asks for the first bytes, and waits for them; says who is in the way.
    fn ask(&mut self, index: usize, exclusive: bool) -> Option<ClientId> {
        let (client, open) = self.opens[index];
        let range = ByteRange::new(0, 10).unwrap();
        let locker = by(&open);
        let request =
            LockRequest { client, file: file(1), locker, range, exclusive, reclaim: false, waits: true };
        let asked = self.world.state.lock(&request, self.world.now, &mut self.world.undo).unwrap();
        asked.err().map(|held| held.owner.client)
    }

    fn unlock(&mut self) {
        self.world.unlock(self.opens[0].0, self.held, 1, 0, u64::MAX);
        self.world.state.offer_changed_locks(self.world.now);
    }

    /// Who is called, in no order.
    fn called(&mut self) -> Vec<ClientId> {
        let mut called = Vec::new();
        while let Some(callback) = self.world.state.next_callback() {
            let Notice::LockFree { file: at, owner } = &callback.notice else { panic!("{callback:?}") };
            assert_eq!((*at, &owner.owner[..]), (file(1), &b"l"[..]));
            called.push(owner.client);
            self.world.state.end_callback(&callback, CallbackEnd::Answered(NfsStatus::Ok));
        }
        called
    }

    fn pass(&mut self, seconds: u64) {
        self.world.now += Duration::from_secs(seconds);
        self.world.state.offer_all_locks(self.world.now);
    }
}

#[test]
fn the_first_that_waits_is_called_and_gets_the_lock_before_others() {
    let mut queue = queue(&["holder", "first", "second", "passer"]);
    let (holder, first) = (queue.opens[0].0, queue.opens[1].0);
    assert_eq!((queue.ask(1, true), queue.ask(2, true)), (Some(holder), Some(holder)));
    assert!(queue.called().is_empty());
    queue.unlock();
    assert_eq!(queue.called(), [first]);
    // Neither who came later nor who does not wait gets it meanwhile.
    assert_eq!(queue.ask(2, true), Some(first));
    let (passer, open) = queue.opens[3];
    let denied = queue.world.lock(passer, by(&open), 1, (5, 1), false).unwrap().unwrap_err();
    assert_eq!((denied.owner.client, denied.exclusive, denied.range.length()), (first, true, 10));
    assert_eq!(queue.ask(1, true), None);
    assert_eq!(queue.ask(2, true), Some(first), "it holds it now");
}

#[test]
fn who_does_not_come_when_it_is_called_is_passed() {
    let mut queue = queue(&["holder", "first", "second"]);
    queue.ask(1, true);
    queue.ask(2, true);
    queue.unlock();
    let (first, second) = (queue.opens[1].0, queue.opens[2].0);
    assert_eq!(queue.called(), [first]);
    queue.pass(5);
    assert!(queue.called().is_empty());
    queue.pass(1);
    assert_eq!(queue.called(), [second]);
    assert_eq!(queue.ask(2, true), None);
}

/// A compound that has to be run again finds the queue as it was before.
#[test]
fn places_are_taken_and_left_with_the_compound() {
    let mut queue = queue(&["holder", "first", "second"]);
    let (first, second) = (queue.opens[1].0, queue.opens[2].0);
    queue.world.undo.keep();
    queue.ask(1, true);
    queue.world.state.roll_back(&mut queue.world.undo);
    assert!(queue.world.state.waiting.is_empty());
    for index in [1, 2] {
        queue.ask(index, true);
        queue.world.undo.keep();
    }
    queue.unlock();
    assert_eq!(queue.called(), [first]);
    queue.world.undo.keep();
    assert_eq!(queue.ask(1, true), None);
    queue.world.state.roll_back(&mut queue.world.undo);
    assert_eq!(queue.ask(2, true), Some(first), "it is before the other again");
    queue.world.undo.keep();
    assert_eq!(queue.ask(1, true), None);
    queue.world.undo.keep();
    queue.world.state.drop_client(first);
    assert_eq!(queue.ask(2, true), None);
    assert_eq!(queue.world.state.census().clients, 2, "{second:?} and the holder");
    assert!(queue.world.state.waiting.is_empty());
}

#[test]
fn who_shares_the_lock_is_called_together() {
    let mut queue = queue(&["holder", "first", "second", "third"]);
    for (index, exclusive) in [(1, false), (2, false), (3, true)] {
        queue.ask(index, exclusive);
    }
    queue.unlock();
    let mut called = queue.called();
    called.sort_unstable();
    assert_eq!(called, [queue.opens[1].0, queue.opens[2].0]);
}

/// A client that cannot be called asks now and then, as those of 4.0 do.
#[test]
fn who_cannot_be_called_keeps_its_place_by_asking() {
    let mut queue = queue(&["holder", "asks", "later"]);
    let (asks, _) = queue.opens[1];
    let session = queue.world.state.clients[&asks].sessions[0];
    queue.world.state.bind_connection(session, CONNECTION, false).unwrap();
    for pause in [1, 2, 4, 8, 16] {
        assert!(queue.ask(1, true).is_some());
        queue.pass(pause);
    }
    assert!(queue.ask(1, true).is_some());
    queue.unlock();
    assert!(queue.called().is_empty());
    queue.pass(20);
    assert_eq!(queue.ask(2, true), Some(asks), "it is expected within 31 s");
    assert_eq!(queue.ask(1, true), None);
}

#[test]
fn a_client_that_asks_no_more_is_not_waited_for() {
    let mut queue = queue(&["holder", "first", "second"]);
    queue.ask(1, true);
    // It asks once more without waiting: it has given up (§9.6).
    let (client, open) = queue.opens[1];
    assert!(queue.world.lock(client, by(&open), 1, (0, 10), true).unwrap().is_err());
    queue.unlock();
    assert!(queue.called().is_empty());
    assert_eq!(queue.ask(2, true), None);
    assert!(queue.world.state.waiting.is_empty());
}

#[test]
fn who_closes_the_file_or_is_forgotten_waits_no_more() {
    let mut queue = queue(&["holder", "closes", "silent", "last"]);
    for index in 1..4 {
        queue.ask(index, true);
    }
    let (client, open) = queue.opens[1];
    queue.world.state.close(client, &open, file(1), &mut queue.world.undo).unwrap();
    queue.world.state.drop_client(queue.opens[2].0);
    queue.unlock();
    assert_eq!(queue.called(), [queue.opens[3].0]);
}

#[test]
fn what_is_unlocked_by_the_end_of_a_client_is_offered_as_well() {
    let mut queue = queue(&["holder", "first"]);
    queue.ask(1, true);
    queue.world.state.drop_client(queue.opens[0].0);
    queue.pass(1);
    assert_eq!(queue.called(), [queue.opens[1].0]);
}

#[test]
fn places_are_bounded() {
    let mut queue = queue(&["holder", "first", "second"]);
    queue.world.state.config.limits.waiting_locks = 1;
    queue.ask(1, true);
    queue.ask(2, true);
    queue.unlock();
    queue.called();
    assert_eq!(queue.ask(1, true), None);
    queue.world.state.drop_client(queue.opens[1].0);
    assert_eq!(queue.ask(2, true), None);
    assert!(queue.world.state.waiting.is_empty(), "nothing is left");
}

/// RFC 8881 §9.5: an upgrade is a lock like any other, and waits like it; its own lock is not in its way.
#[test]
fn two_that_share_a_lock_and_want_it_alone_are_told_so() {
    let mut queue = queue(&["holder", "first", "second"]);
    queue.unlock();
    assert_eq!((queue.ask(1, false), queue.ask(2, false)), (None, None));
    let (first, second) = (queue.opens[1].0, queue.opens[2].0);
    assert_eq!(queue.ask(1, true), Some(second), "the lock that it has stays as it is");
    assert_eq!(queue.ask(2, true), Some(first), "that is for the two to find out");
    let (client, open) = queue.opens[2];
    let lock = queue.world.lock(client, by(&open), 1, (20, 1), false).unwrap().unwrap();
    queue.world.unlock(client, lock, 1, 0, 10);
    queue.world.state.offer_changed_locks(queue.world.now);
    assert_eq!(queue.called(), [first]);
    assert_eq!(queue.ask(1, true), None);
    // And down again: others may share it at once.
    queue.world.state.waits_no_more_by(file(1), &queue.opens[2].1.other);
    assert_eq!(queue.ask(1, false), None);
    assert_eq!(queue.ask(2, false), None);
}
