use super::*;

const READ: Share = Share { access: Share::READ, deny: 0 };

/// RFC 8881 §8.4.2.1.
#[test]
fn in_grace_known_clients_reclaim_and_nobody_else_gets_anything() {
    let mut world = world_with(Limits::default(), &["a", "b"]);
    let (a, _) = world.connect("a");
    let (c, _) = world.connect("c");
    assert!(world.state.census().in_grace);
    assert_eq!(refused(world.claim(a, "o", 1, READ, false)), NfsStatus::Grace);
    assert_eq!(refused(world.claim(c, "o", 1, READ, true)), NfsStatus::NoGrace, "it had nothing");
    assert_eq!(refused(world.io(c, StateId::ANONYMOUS, 1, false)), NfsStatus::Grace);
    let open = world.claim(a, "o", 1, READ, true).unwrap();
    assert_eq!(world.io(a, open, 1, false), Ok(IoGrant::Opened));
    let range = ByteRange::new(0, 1).unwrap();
    let locker = Locker::New { open, owner: b"l" };
    let lock = LockRequest {
        client: a,
        file: file(1),
        locker,
        range,
        exclusive: false,
        reclaim: true,
        waits: false,
    };
    assert!(world.state.lock(&lock, world.now, &mut world.undo).unwrap().is_ok());
    let fresh = LockRequest { reclaim: false, ..lock };
    assert_eq!(refused(world.state.lock(&fresh, world.now, &mut world.undo)), NfsStatus::Grace);
    assert_eq!(refused(world.state.test_lock(c, b"l", file(1), range, true, world.now)), NfsStatus::Grace);

    // §18.51.3: after RECLAIM_COMPLETE nothing more is reclaimed, and the others are still waited for.
    world.state.reclaim_complete(a).unwrap();
    assert_eq!(refused(world.claim(a, "o", 2, READ, true)), NfsStatus::NoGrace);
    assert_eq!(refused(world.claim(a, "o", 2, READ, false)), NfsStatus::Grace);

    let (b, _) = world.connect("b");
    world.state.reclaim_complete(b).unwrap();
    assert!(!world.state.census().in_grace, "everybody is back");
    assert!(world.claim(a, "o", 2, READ, false).is_ok());
}

#[test]
fn a_reclaim_that_conflicts_is_named_so() {
    let mut world = world_with(Limits::default(), &["a", "b"]);
    let ((a, _), (b, _)) = (world.connect("a"), world.connect("b"));
    world.claim(a, "o", 1, Share { access: 1, deny: 1 }, true).unwrap();
    assert_eq!(refused(world.claim(b, "o", 1, READ, true)), NfsStatus::ReclaimConflict);
}

#[test]
fn grace_ends_in_time_after_the_records_of_late_clients_are_gone() {
    let mut world = world_with(Limits::default(), &["late"]);
    let c = world.client("c");
    world.now += LEASE;
    assert_eq!(world.state.late_reclaimers(world.now).map(|late| late.len()), Some(1));
    assert_eq!(refused(world.claim(c, "o", 1, READ, false)), NfsStatus::Grace);
    world.state.end_grace();
    assert!(world.claim(c, "o", 1, READ, false).is_ok());
    let (late, _) = world.connect("late");
    assert_eq!(refused(world.claim(late, "o", 1, READ, true)), NfsStatus::NoGrace);
}

/// RFC 8881 §8.4.2.1: it may last longer while clients reclaim.
#[test]
fn grace_does_not_end_while_a_client_reclaims() {
    let mut world = world_with(Limits::default(), &["a"]);
    let (a, _) = world.connect("a");
    world.now = LEASE - Duration::from_secs(1);
    let open = world.claim(a, "o", 1, READ, true).unwrap();
    world.now = LEASE + Duration::from_secs(1);
    assert_eq!(world.state.late_reclaimers(world.now), None);
    let range = ByteRange::new(0, 1).unwrap();
    let locker = Locker::New { open, owner: b"l" };
    let lock = LockRequest {
        client: a,
        file: file(1),
        locker,
        range,
        exclusive: false,
        reclaim: true,
        waits: false,
    };
    assert!(world.state.lock(&lock, world.now, &mut world.undo).unwrap().is_ok());
    world.now = LEASE + Duration::from_secs(3);
    assert_eq!(world.state.late_reclaimers(world.now), None);
    world.now = LEASE + Duration::from_secs(4);
    assert_eq!(world.state.late_reclaimers(world.now).map(|late| late.len()), Some(1), "it has stopped");
}

#[test]
fn a_known_client_that_leaves_for_good_is_not_waited_for() {
    let mut world = world_with(Limits::default(), &["a"]);
    let (a, session) = world.connect("a");
    world.state.destroy_session(session, USER, CONNECTION, None).unwrap();
    world.state.destroy_client(a, USER).unwrap();
    assert!(!world.state.census().in_grace);
}

/// RFC 8881 §8.4.3: others may have changed what the client had delegated for writing, so it must not reclaim.
#[test]
fn who_has_not_taken_notice_of_a_revocation_is_not_recorded_by_reclaim_complete() {
    let mut world = world_with(Limits::default(), &["a"]);
    let (a, _) = world.connect("a");
    let wish = super::delegations::wish(a, 1, Some(7));
    let held = world.state.reclaim_delegation(&wish, || OpenReference::new(()), world.now, &mut world.undo);
    let held = held.unwrap();
    world.outlast_leases();
    world.unrecord(b"a");
    assert_eq!(world.state.revoke_writer(a, world.now), 1);
    world.state.reclaim_complete(a).unwrap();
    assert_eq!(world.state.missing_record(a), None);
    assert_eq!(world.state.take_notice(a, &held), Ok(()), "it has nothing to reclaim");
    assert!(world.state.missing_record(a).is_some());
}
