use super::*;

const WHOLE: Duration = Duration::from_secs(90);

/// §9.6.2, §9.6.3.
#[test]
fn in_grace_known_clients_reclaim_until_its_end() {
    let mut world = world_with(Limits::default(), &["a"]);
    let (a, stranger) = (world.client("a"), world.client("b"));
    assert_eq!(refused(world.open(a, "new", 0, BOTH, false)), NfsStatus::Grace);
    assert_eq!(refused(world.open(stranger, "o", 0, BOTH, true)), NfsStatus::NoGrace);
    assert_eq!(refused(world.io(StateId::ANONYMOUS)), NfsStatus::Grace);
    let open = world.open(a, "o", 5, BOTH, true).unwrap();
    world.state.has_reclaimed(a);
    assert!(world.io(open).is_ok(), "a reclaim confirms its owner");
    world.open(a, "o", 6, BOTH, true).unwrap();

    world.now += WHOLE;
    assert_eq!(world.state.late_reclaimers(world.now), Some(Vec::new()), "it keeps its record");
    world.state.end_grace();
    assert_eq!(refused(world.open(a, "o", 7, BOTH, true)), NfsStatus::NoGrace);
    world.open(a, "o", 8, BOTH, false).unwrap();
}

#[test]
fn who_came_back_and_reclaimed_nothing_is_late() {
    let mut world = world_with(Limits::default(), &["a"]);
    let a = world.client("a");
    world.now += WHOLE;
    let late = world.state.late_reclaimers(world.now).unwrap();
    assert_eq!(late, [crate::minor0::record_key(b"a")]);
    world.state.end_grace();
    assert_eq!(refused(world.open(a, "o", 0, BOTH, true)), NfsStatus::NoGrace);
}

#[test]
fn ids_from_before_the_restart_are_stale() {
    let mut world = world();
    let old = ClientId(6 << 32 | 1);
    assert_eq!(world.state.renew_client(old, world.now), Err(NfsStatus::StaleClientId));
    assert_eq!(refused(world.confirm((old, Verifier([1; 8])))), NfsStatus::StaleClientId);
    let id = StateId { seqid: 1, other: [0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0, 2] };
    assert_eq!(refused(world.io(id)), NfsStatus::StaleStateId);
}
