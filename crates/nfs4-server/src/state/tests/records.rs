//! A client has a durable record as long as it holds something, and for a short time after that (RFC 8881 §8.4.2.1, §8.4.3).

use super::*;
use crate::recording::REST;

impl World {
    /// The record of an owner is removed.
    pub(super) fn unrecord(&mut self, owner: &[u8]) {
        self.state.begin_removal(owner);
        self.state.removed(owner);
    }

    fn unused(&self) -> Vec<Arc<[u8]>> {
        self.state.unused_records(REST, self.now)
    }

    /// A client that never had a record.
    fn fresh(&mut self, owner: &str) -> ClientId {
        let (client, _) = self.connect(owner);
        self.state.reclaim_complete(client).unwrap();
        client
    }
}

#[test]
fn nothing_is_granted_before_the_record_is_durable() {
    let mut world = world();
    let a = world.fresh("a");
    assert!(!world.state.may_have_record(b"a"), "it has nothing yet");
    assert_eq!(world.open(a, "o", 1, Share::READ, 0), Err(Refusal::Unrecorded(a)));
    assert_eq!(world.delegate(a, 1), Err(Undelegated::Resource));
    assert_eq!(world.state.check_claim(a, false), Err(Refusal::Unrecorded(a)));
    let owner = world.state.missing_record(a).unwrap();
    world.state.begin_record(&owner, world.now);
    assert_eq!(world.open(a, "o", 1, Share::READ, 0), Err(Refusal::Unrecorded(a)), "it is being written");
    world.state.recorded(&owner);
    assert_eq!(world.state.missing_record(a), None);
    assert!(world.open(a, "o", 1, Share::READ, 0).is_ok());
}

#[test]
fn a_record_is_of_no_use_some_time_after_the_last_thing_was_held() {
    let mut world = world();
    let a = world.client("a");
    let open = world.open(a, "o", 1, Share::READ, 0).unwrap();
    world.now += 3 * LEASE;
    assert_eq!(world.unused(), [], "it holds something, however silent it is");
    assert_eq!(world.state.review_records(world.now), []);
    world.state.close(a, &open, file(1), &mut world.undo).unwrap();
    world.now += REST - Duration::from_secs(1);
    assert_eq!(world.unused(), []);
    world.now += Duration::from_secs(1);
    assert_eq!(world.unused(), [b"a"[..].into()]);
    assert!(world.state.is_unused_record(b"a", REST, world.now));
}

#[test]
fn who_opens_and_closes_between_two_looks_keeps_its_record() {
    let mut world = world();
    let a = world.client("a");
    for _ in 0..3 {
        world.now += REST - Duration::from_secs(1);
        let open = world.open(a, "o", 1, Share::READ, 0).unwrap();
        world.state.close(a, &open, file(1), &mut world.undo).unwrap();
        assert_eq!(world.unused(), []);
    }
}

/// The record is being removed when its client comes back: it gets nothing before it has a new one.
#[test]
fn who_comes_back_while_its_record_is_removed_waits_for_a_new_one() {
    let mut world = world();
    let a = world.client("a");
    world.now += LEASE;
    world.state.begin_removal(b"a");
    assert_eq!(world.open(a, "o", 1, Share::READ, 0), Err(Refusal::Unrecorded(a)));
    assert!(world.state.may_have_record(b"a"));
    world.state.removed(b"a");
    assert_eq!(world.open(a, "o", 1, Share::READ, 0), Err(Refusal::Unrecorded(a)));
    world.record(a);
    assert!(world.open(a, "o", 1, Share::READ, 0).is_ok());
    assert!(!world.state.is_unused_record(b"a", Duration::ZERO, world.now));
}

/// What was closed comes back when its compound is taken back, and by then the record may be gone.
#[test]
fn what_is_held_without_a_record_is_found_out() {
    let mut world = world();
    let a = world.client("a");
    let open = world.open(a, "o", 1, Share::READ, 0).unwrap();
    world.undo.keep();
    world.state.close(a, &open, file(1), &mut world.undo).unwrap();
    world.now += LEASE;
    world.unrecord(b"a");
    world.state.roll_back(&mut world.undo);
    assert_eq!(world.state.review_records(world.now), [a]);
    world.record(a);
    assert_eq!(world.state.review_records(world.now), []);
}

#[test]
fn who_may_still_reclaim_keeps_its_record() {
    let mut world = world_with(Limits::default(), &["a"]);
    world.now += 2 * LEASE;
    assert_eq!(world.unused(), []);
    let (a, _) = world.connect("a");
    world.state.reclaim_complete(a).unwrap();
    assert_eq!(world.unused(), [b"a"[..].into()], "it had nothing");
}

/// The records of who is late are removed one after the other, and meanwhile he may come back.
#[test]
fn who_is_late_reclaims_nothing_more_when_its_record_goes_and_is_safe_again_by_reclaim_complete() {
    let mut world = world_with(Limits::default(), &["a", "b"]);
    let (a, _) = world.connect("a");
    let read = Share { access: Share::READ, deny: 0 };
    world.claim(a, "o", 1, read, true).unwrap();
    world.now += 2 * LEASE;
    assert!(world.state.is_late(b"a") && world.state.is_late(b"b"));
    world.state.begin_removal(b"a");
    assert_eq!(refused(world.claim(a, "o", 2, read, true)), NfsStatus::NoGrace);
    world.state.removed(b"a");
    assert_eq!(refused(world.claim(a, "o", 2, read, true)), NfsStatus::NoGrace);
    world.state.end_grace();
    assert_eq!(world.state.review_records(world.now), [], "not before it is done");
    assert_eq!(world.state.reclaim_complete(a), Err(Refusal::Unrecorded(a)));
    world.record(a);
    world.state.reclaim_complete(a).unwrap();
    assert!(!world.state.is_late(b"a"));
}
