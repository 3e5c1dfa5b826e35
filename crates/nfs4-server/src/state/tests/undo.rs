use super::*;

const RW: u32 = Share::READ | Share::WRITE;

#[test]
fn a_new_open_is_taken_back() {
    let mut world = world();
    let a = world.client("a");
    let id = world.open(a, "o", 1, RW, RW).unwrap();
    world.state.roll_back(&mut world.undo);
    assert_eq!(world.state.test_state_id(a, &id), NfsStatus::BadStateId);
    assert!(world.state.files.is_empty() && world.undo.is_empty());
}

#[test]
fn an_open_and_a_lock_owner_that_another_compound_has_used_stay_when_they_are_taken_back() {
    let mut world = world();
    let a = world.client("a");
    world.open(a, "o", 1, Share::READ, 0).unwrap();
    let mut log = std::mem::take(&mut world.undo);
    let open = world.open(a, "o", 1, RW, 0).unwrap();
    world.state.roll_back(&mut log);
    assert_eq!(world.io(a, open, 1, true), Ok(IoGrant::Opened));

    world.lock(a, Locker::New { open, owner: b"l" }, 1, (0, 9), true).unwrap().unwrap();
    log = std::mem::take(&mut world.undo);
    let lock = world.lock(a, Locker::New { open, owner: b"l" }, 1, (20, 9), true).unwrap().unwrap();
    world.state.roll_back(&mut log);
    assert_eq!(world.state.test_state_id(a, &lock), NfsStatus::Ok);
}

#[test]
fn an_upgrade_and_a_downgrade_are_taken_back() {
    let mut world = world();
    let a = world.client("a");
    let id = world.open(a, "o", 1, Share::READ, 0).unwrap();
    world.undo.keep();
    let upgraded = world.open(a, "o", 1, Share::WRITE, 0).unwrap();
    let read = Share { access: Share::READ, deny: 0 };
    world.state.downgrade(a, &upgraded, file(1), read, &mut world.undo).unwrap();
    world.state.roll_back(&mut world.undo);
    assert_eq!(world.io(a, id, 1, false), Ok(IoGrant::Opened));
    assert_eq!(refused(world.io(a, id, 1, true)), NfsStatus::OpenMode);
}

#[test]
fn what_came_after_an_upgrade_stays_when_it_is_taken_back() {
    let mut world = world();
    let a = world.client("a");
    world.open(a, "o", 1, Share::READ, 0).unwrap();
    world.undo.keep();
    world.open(a, "o", 1, Share::WRITE, 0).unwrap();
    let mut log = std::mem::take(&mut world.undo);
    let newest = world.open(a, "o", 1, Share::WRITE, 0).unwrap();
    world.state.roll_back(&mut log);
    assert_eq!(world.io(a, newest, 1, true), Ok(IoGrant::Opened));
}

#[test]
fn a_close_is_taken_back_with_its_locks() {
    let mut world = world();
    let (a, b) = (world.client("a"), world.client("b"));
    let open = world.open(a, "o", 1, RW, 0).unwrap();
    let open_b = world.open(b, "o", 1, RW, 0).unwrap();
    let lock = world.lock(a, Locker::New { open, owner: b"l" }, 1, (0, 9), true).unwrap().unwrap();
    world.undo.keep();
    world.state.close(a, &open, file(1), &mut world.undo).unwrap();
    world.state.roll_back(&mut world.undo);
    assert_eq!(world.io(a, open, 1, true), Ok(IoGrant::Opened));
    assert_eq!(world.state.test_state_id(a, &lock), NfsStatus::Ok);
    assert!(world.lock(b, Locker::New { open: open_b, owner: b"l" }, 1, (3, 1), true).unwrap().is_err());
    world.state.close(a, &open, file(1), &mut world.undo).unwrap();
    assert!(world.lock(b, Locker::New { open: open_b, owner: b"l" }, 1, (3, 1), true).unwrap().is_ok());
}

#[test]
fn locks_and_unlocks_are_taken_back() {
    let mut world = world();
    let (a, b) = (world.client("a"), world.client("b"));
    let open = world.open(a, "o", 1, RW, 0).unwrap();
    let open_b = world.open(b, "o", 1, RW, 0).unwrap();
    let first = world.lock(a, Locker::New { open, owner: b"l" }, 1, (0, 1), true).unwrap().unwrap();
    world.undo.keep();
    let freed = world.unlock(a, first, 1, 0, 1);
    world.state.free_state_id(a, &freed, &mut world.undo).unwrap();
    world.lock(a, Locker::New { open, owner: b"m" }, 1, (5, 1), true).unwrap().unwrap();
    world.state.roll_back(&mut world.undo);
    assert_eq!(world.state.test_state_id(a, &first), NfsStatus::Ok);
    let b_locks = |world: &mut World, range| {
        world.lock(b, Locker::New { open: open_b, owner: b"l" }, 1, range, true).unwrap().is_ok()
    };
    assert!(!b_locks(&mut world, (0, 1)));
    assert!(b_locks(&mut world, (5, 1)));
}

#[test]
fn a_client_that_is_gone_gets_nothing_back() {
    let mut world = world();
    let a = world.client("a");
    let open = world.open(a, "o", 1, RW, 0).unwrap();
    world.undo.keep();
    world.state.close(a, &open, file(1), &mut world.undo).unwrap();
    world.outlast_leases();
    assert!(world.state.forget(a, world.now));
    world.state.roll_back(&mut world.undo);
    assert_eq!(world.state.census(), Census::default());
    assert!(world.state.files.is_empty());
}

#[test]
fn a_lock_owner_whose_client_is_gone_is_not_given_back() {
    let mut world = world();
    let a = world.client("a");
    let open = world.open(a, "o", 1, RW, 0).unwrap();
    world.lock(a, Locker::New { open, owner: b"l" }, 1, (0, 9), true).unwrap().unwrap();
    let lock = world.lock(a, Locker::New { open, owner: b"l" }, 1, (20, 9), true).unwrap().unwrap();
    let lock = world.unlock(a, lock, 1, 0, u64::MAX);
    world.undo.keep();
    world.state.free_state_id(a, &lock, &mut world.undo).unwrap();
    world.state.discard(a);
    world.state.roll_back(&mut world.undo);
    assert_eq!(world.state.census(), Census::default());
}
