use super::*;

const RW: u32 = Share::READ | Share::WRITE;

fn new(open: StateId, owner: &str) -> Locker<'_> {
    Locker::New { open, owner: owner.as_bytes() }
}

/// RFC 8881 §9.1, §18.10.
#[test]
fn a_lock_excludes_other_owners_and_says_who_holds_it() {
    let mut world = world();
    let (a, b) = (world.client("a"), world.client("b"));
    let (open_a, open_b) = (world.open(a, "o", 1, RW, 0).unwrap(), world.open(b, "o", 1, RW, 0).unwrap());
    let first = world.lock(a, new(open_a, "l"), 1, (10, 10), true).unwrap().unwrap();
    assert_eq!(first.seqid, 1);
    let denied = world.lock(b, new(open_b, "l"), 1, (0, u64::MAX), false).unwrap().unwrap_err();
    assert_eq!((denied.range.offset(), denied.range.length(), denied.exclusive), (10, 10, true));
    assert_eq!((denied.owner.client, &*denied.owner.owner), (a, &b"l"[..]));
    assert_eq!(world.state.census().lock_owners, 1, "a refused lock leaves no state");

    // Another owner of the same client is another owner; the same one may change its own lock.
    assert!(world.lock(a, new(open_a, "m"), 1, (15, 1), false).unwrap().is_err());
    let second = world.lock(a, Locker::Known(first), 1, (12, 2), false).unwrap().unwrap();
    assert_eq!(second, StateId { seqid: 2, other: first.other });
    assert!(world.lock(b, new(open_b, "l"), 1, (12, 2), false).unwrap().is_ok());
    assert!(world.lock(b, new(open_b, "l"), 1, (14, 1), false).unwrap().is_err());

    let third = world.unlock(a, second, 1, 0, u64::MAX);
    assert_eq!(third.seqid, 3);
    assert!(world.lock(b, new(open_b, "l"), 1, (14, 1), true).unwrap().is_ok());
}

/// RFC 8881 §18.11.
#[test]
fn lockt_finds_what_would_be_in_the_way() {
    let mut world = world();
    let (a, b) = (world.client("a"), world.client("b"));
    let open = world.open(a, "o", 1, RW, 0).unwrap();
    world.lock(a, new(open, "l"), 1, (0, 5), false).unwrap().unwrap();
    let range = ByteRange::new(4, 1).unwrap();
    let test = |world: &World, client, owner: &str, exclusive| {
        world
            .state
            .test_lock(client, owner.as_bytes(), file(1), range, exclusive, world.now)
            .unwrap()
            .is_some()
    };
    assert!(!test(&world, b, "l", false));
    assert!(test(&world, b, "l", true));
    assert!(!test(&world, a, "l", true), "its own");
    assert!(test(&world, a, "m", true));
}

/// RFC 8881 §18.10.3.
#[test]
fn locks_need_an_open_for_what_they_protect() {
    let mut world = world();
    let a = world.client("a");
    let read = world.open(a, "r", 1, Share::READ, 0).unwrap();
    let write = world.open(a, "w", 1, Share::WRITE, 0).unwrap();
    assert_eq!(refused(world.lock(a, new(read, "l"), 1, (0, 1), true)), NfsStatus::OpenMode);
    assert_eq!(refused(world.lock(a, new(write, "l"), 1, (0, 1), false)), NfsStatus::OpenMode);
    assert_eq!(refused(world.lock(a, new(read, "l"), 2, (0, 1), false)), NfsStatus::BadStateId);
    let lock = world.lock(a, new(read, "l"), 1, (0, 1), false).unwrap().unwrap();
    assert_eq!(refused(world.lock(a, new(lock, "l"), 1, (0, 1), false)), NfsStatus::BadStateId, "no open");
    assert_eq!(
        refused(world.lock(a, Locker::Known(read), 1, (0, 1), false)),
        NfsStatus::BadStateId,
        "no lock"
    );
}

/// RFC 8881 §18.2.3: a lock does not outlive its open.
#[test]
fn close_releases_the_locks() {
    let mut world = world();
    let (a, b) = (world.client("a"), world.client("b"));
    let (open_a, open_b) = (world.open(a, "o", 1, RW, 0).unwrap(), world.open(b, "o", 1, RW, 0).unwrap());
    let lock = world.lock(a, new(open_a, "l"), 1, (0, 1), true).unwrap().unwrap();
    world.state.close(a, &open_a, file(1), &mut world.undo).unwrap();
    assert_eq!(world.state.test_state_id(a, &lock), NfsStatus::BadStateId);
    assert!(world.lock(b, new(open_b, "l"), 1, (0, 1), true).unwrap().is_ok());
}

#[test]
fn an_owner_with_two_opens_keeps_its_locks_until_both_are_closed() {
    let mut world = world();
    let (a, b) = (world.client("a"), world.client("b"));
    let (one, two) = (world.open(a, "one", 1, RW, 0).unwrap(), world.open(a, "two", 1, RW, 0).unwrap());
    let open_b = world.open(b, "o", 1, RW, 0).unwrap();
    world.lock(a, new(one, "l"), 1, (0, 1), true).unwrap().unwrap();
    world.lock(a, new(two, "l"), 1, (5, 1), true).unwrap().unwrap();
    world.state.close(a, &one, file(1), &mut world.undo).unwrap();
    assert!(world.lock(b, new(open_b, "l"), 1, (0, 1), true).unwrap().is_err());
    world.state.close(a, &two, file(1), &mut world.undo).unwrap();
    assert!(world.lock(b, new(open_b, "l"), 1, (0, 6), true).unwrap().is_ok());
}

/// RFC 8881 §18.38.3.
#[test]
fn only_a_lock_owner_without_locks_is_freed() {
    let mut world = world();
    let a = world.client("a");
    let open = world.open(a, "o", 1, RW, 0).unwrap();
    assert_eq!(world.state.free_state_id(a, &open, &mut world.undo), Err(NfsStatus::LocksHeld));
    let lock = world.lock(a, new(open, "l"), 1, (0, 1), true).unwrap().unwrap();
    assert_eq!(world.state.free_state_id(a, &lock, &mut world.undo), Err(NfsStatus::LocksHeld));
    let lock = world.unlock(a, lock, 1, 0, 1);
    assert_eq!(world.state.free_state_id(a, &lock, &mut world.undo), Ok(()));
    assert_eq!(world.state.free_state_id(a, &lock, &mut world.undo), Err(NfsStatus::BadStateId));
}

#[test]
fn locks_of_an_expired_client_give_way() {
    let mut world = world();
    let (a, b) = (world.client("a"), world.client("b"));
    let (open_a, open_b) = (world.open(a, "o", 1, RW, 0).unwrap(), world.open(b, "o", 1, RW, 0).unwrap());
    world.lock(a, new(open_a, "l"), 1, (0, 1), true).unwrap().unwrap();
    world.outlast_leases();
    assert_eq!(world.lock(b, new(open_b, "l"), 1, (0, 1), true), Err(Refusal::Expired(a)));
    assert!(world.state.forget(a, world.now));
    assert!(world.lock(b, new(open_b, "l"), 1, (0, 1), true).unwrap().is_ok());
}

#[test]
fn locked_ranges_and_lock_owners_are_bounded() {
    let limits = Limits { locks_per_file: 4, locks: 6, lock_owners_per_client: 2, ..Limits::default() };
    let mut world = world_with(limits, &[]);
    let a = world.client("a");
    let open = world.open(a, "o", 1, RW, 0).unwrap();
    for owner in ["l", "m"] {
        world.lock(a, new(open, owner), 1, (0, 3), false).unwrap().unwrap();
    }
    assert_eq!(refused(world.lock(a, new(open, "n"), 1, (0, 1), false)), NfsStatus::Delay);
    let lock = world.lock(a, new(open, "l"), 1, (5, 3), false).unwrap().unwrap();
    assert_eq!(refused(world.lock(a, new(open, "l"), 1, (9, 1), false)), NfsStatus::Delay);

    // Over all files.
    world.state.config.limits.lock_owners_per_client = 9;
    let other = world.open(a, "o", 2, RW, 0).unwrap();
    world.lock(a, new(other, "l"), 2, (0, 1), false).unwrap().unwrap();
    world.state.config.limits.locks = 5;
    assert_eq!(refused(world.lock(a, new(other, "l"), 2, (9, 1), false)), NfsStatus::Delay);

    // What is given up never meets the limit unless it would split a range.
    world.state.config.limits.locks = 4;
    let split = ByteRange::new(6, 1).unwrap();
    assert_eq!(world.state.unlock(a, &lock, file(1), split, &mut world.undo), Err(NfsStatus::Delay));
    world.unlock(a, lock, 1, 0, u64::MAX);
    assert_eq!(world.state.locked_ranges, 2);
    world.state.close(a, &other, file(2), &mut world.undo).unwrap();
    assert_eq!(world.state.locked_ranges, 1);
    world.state.roll_back(&mut world.undo);
    assert_eq!(world.state.locked_ranges, 0);
}
