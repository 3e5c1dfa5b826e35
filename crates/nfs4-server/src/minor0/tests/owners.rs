use super::*;

/// §16.18.5.
#[test]
fn an_open_is_worth_nothing_until_its_owner_is_confirmed() {
    let mut world = world();
    let client = world.client("a");
    let open = world.open(client, "o", 7, BOTH, false).unwrap();
    assert_eq!(refused(world.io(open)), NfsStatus::BadStateId);
    assert_eq!(refused(world.admit(&open, 8, Standing::Confirmed)), NfsStatus::BadStateId);
    let turn = turn(world.admit(&open, 8, Standing::Unconfirmed));
    let confirmed = world.state.rename_open(&open.other).unwrap();
    world.state.settle(&turn, answer("confirmed"), Effect::Confirmed, world.now);
    assert_eq!(confirmed.seqid, open.seqid + 1);
    assert!(world.io(confirmed).is_ok());
    assert_eq!(refused(world.admit(&confirmed, 9, Standing::Unconfirmed)), NfsStatus::BadStateId);
    world.open(client, "o", 9, BOTH, false).unwrap();
}

#[test]
fn an_owner_that_was_never_confirmed_begins_anew_and_its_open_is_gone() {
    let mut world = world();
    let client = world.client("a");
    let first = world.open(client, "o", 7, BOTH, false).unwrap();
    assert_eq!(
        world.state.admit_open(client, b"o", number(7), world.now),
        Ok(Admitted::Again(answer("opened"))),
        "a repetition"
    );
    let second = world.open(client, "o", 3, BOTH, false).unwrap();
    assert_ne!(first.other, second.other);
    assert_eq!(world.state.census().opens, 1);
    assert_eq!(refused(world.admit(&first, 8, Standing::Unconfirmed)), NfsStatus::BadStateId);
}

/// §9.1.9.
#[test]
fn what_comes_again_gets_its_answer_and_what_comes_out_of_order_nothing() {
    let mut world = world();
    let client = world.client("a");
    let open = world.confirmed_open(client, "o");
    assert_eq!(
        world.admit(&open, 1, Standing::Unconfirmed),
        Ok(Admitted::Again(answer("confirmed"))),
        "though it is confirmed by now"
    );
    assert_eq!(refused(world.admit(&open, 0, Standing::Confirmed)), NfsStatus::BadSeqId);
    assert_eq!(refused(world.admit(&open, 3, Standing::Confirmed)), NfsStatus::BadSeqId);
    assert_eq!(
        refused(world.state.admit_open(client, b"o", number(3), world.now)),
        NfsStatus::BadSeqId,
        "all operations of an owner are counted together"
    );
    let turn = turn(world.admit(&open, 2, Standing::Confirmed));
    assert_eq!(refused(world.admit(&open, 2, Standing::Confirmed)), NfsStatus::Resource, "it is being run");
    world.state.give_back(&turn);
    world.close(&open, 2);
}

/// §9.1.10: what is closed leaves no state id behind, only the owner.
#[test]
fn a_repeated_close_gets_its_answer_until_the_owner_goes_on() {
    let mut world = world();
    let client = world.client("a");
    let open = world.confirmed_open(client, "o");
    world.close(&open, 2);
    assert_eq!(world.state.census().opens, 0);
    assert_eq!(world.admit(&open, 2, Standing::Confirmed), Ok(Admitted::Again(answer("closed"))));
    assert_eq!(refused(world.admit(&open, 3, Standing::Confirmed)), NfsStatus::BadStateId);
    world.open(client, "o", 3, BOTH, false).unwrap();
    assert_eq!(refused(world.admit(&open, 2, Standing::Confirmed)), NfsStatus::BadStateId);
}

/// §9.9, §16.16.5: unlike in later versions.
#[test]
fn an_owners_own_denial_counts() {
    let mut world = world();
    let client = world.client("a");
    world.confirmed_open(client, "o");
    let deny = Share { access: 1, deny: 2 };
    assert_eq!(refused(world.open(client, "o", 2, deny, false)), NfsStatus::ShareDenied);
    world.open(client, "o", 3, Share { access: 1, deny: 0 }, false).unwrap();
}

#[test]
fn an_owner_that_only_failed_to_run_is_not_kept() {
    let mut world = world();
    let client = world.client("a");
    let first = turn(world.state.admit_open(client, b"o", number(5), world.now));
    world.state.give_back(&first);
    assert!(world.state.minor0.by_id[&client].open_owners.is_empty());
}

#[test]
fn owners_without_opens_go_when_room_is_needed_and_a_lease_is_over() {
    let mut world = world();
    let client = world.client("a");
    let kept = world.confirmed_open(client, "kept");
    let owners = |world: &World| world.state.minor0.by_id[&client].open_owners.len();
    for name in 0..2000 {
        let turn = turn(world.state.admit_open(client, format!("{name}").as_bytes(), number(0), world.now));
        world.state.settle(&turn, answer("refused"), Effect::Nothing, world.now);
        world.now += Duration::from_secs(1);
        assert!(owners(&world) < 500, "after {name}");
    }
    assert!(owners(&world) >= LEASE.as_secs() as usize, "who may yet ask again is kept");
    assert!(world.io(kept).is_ok());
}

#[test]
fn a_client_has_so_many_owners_and_no_more() {
    let mut world = world_with(Limits { opens_per_client: 10, ..Limits::default() }, &[]);
    let client = world.client("a");
    for name in 0..10 {
        let turn = turn(world.state.admit_open(client, &[name], number(0), world.now));
        world.state.settle(&turn, answer("refused"), Effect::Nothing, world.now);
    }
    assert_eq!(refused(world.state.admit_open(client, &[10], number(0), world.now)), NfsStatus::Resource);
}

#[test]
fn all_clients_together_have_so_many_owners_and_idle_ones_make_room() {
    let mut world = world_with(Limits { states: 8, ..Limits::default() }, &[]);
    let (a, b) = (world.client("a"), world.client("b"));
    for name in 0..8 {
        let turn = turn(world.state.admit_open(a, &[name], number(0), world.now));
        world.state.settle(&turn, answer("refused"), Effect::Nothing, world.now);
    }
    assert_eq!(refused(world.state.admit_open(b, b"o", number(0), world.now)), NfsStatus::Resource);
    world.now += LEASE + Duration::from_secs(1);
    world.confirmed_open(b, "o");
    assert_eq!(world.state.minor0.by_id[&a].open_owners.len(), 0);
}

#[test]
fn what_was_closed_is_forgotten_with_its_owner() {
    let mut world = world();
    let client = world.client("a");
    for name in 0..500 {
        let open = world.confirmed_open(client, &name.to_string());
        world.close(&open, 2);
        world.now += Duration::from_secs(1);
    }
    let client = &world.state.minor0.by_id[&client];
    assert!(client.closed.len() <= client.open_owners.len(), "{}", client.closed.len());
    assert!(client.open_owners.len() < 400, "{}", client.open_owners.len());
}

/// §9.1.9, §16.10.5: LOCK on an open is counted by the open-owner, and by the lock-owner if that is known.
#[test]
fn a_lock_owner_counts_from_its_first_lock_on() {
    let mut world = world();
    let client = world.client("a");
    let open = world.confirmed_open(client, "o");
    let lock = world.first_lock(&open, client, "l", (2, 40));
    assert_eq!(
        world.admit_first_lock(&open, client, "l", (2, 40)),
        Ok(Admitted::Again(answer("locked"))),
        "by the open-owner"
    );
    let lock_of = |world: &mut World, seqid| {
        world.state.admit_by_state(&lock, OwnerKind::Lock, number(seqid), Standing::Confirmed, world.now)
    };
    assert_eq!(refused(lock_of(&mut world, 42)), NfsStatus::BadSeqId);
    assert_eq!(refused(lock_of(&mut world, 40)), NfsStatus::BadSeqId, "another operation had that number");
    let turn = turn(lock_of(&mut world, 41));
    world.state.settle(&turn, answer("again"), Effect::Nothing, world.now);
    assert_eq!(lock_of(&mut world, 41), Ok(Admitted::Again(answer("again"))));
    assert_eq!(refused(world.admit_first_lock(&open, client, "l", (3, 40))), NfsStatus::BadSeqId);
    assert_eq!(refused(world.admit(&lock, 3, Standing::Confirmed)), NfsStatus::BadStateId, "no open");
    // The open-owner's turn was given back.
    let again = world.first_lock(&open, client, "l", (3, 42));
    assert_eq!(again.other, lock.other);
}

#[test]
fn a_lock_owner_begins_anew_when_the_opens_it_locked_by_are_closed() {
    let mut world = world();
    let client = world.client("a");
    let open = world.confirmed_open(client, "o");
    world.first_lock(&open, client, "l", (2, 40));
    world.close(&open, 3);
    let open = world.open(client, "o", 4, BOTH, false).unwrap();
    world.first_lock(&open, client, "l", (5, 0));
}

#[test]
fn a_lock_is_on_an_open_of_the_same_client() {
    let mut world = world();
    let (a, b) = (world.client("a"), world.client("b"));
    let open = world.confirmed_open(a, "o");
    assert_eq!(refused(world.admit_first_lock(&open, b, "l", (2, 0))), NfsStatus::BadStateId);
    let nobody = ClientId(1);
    assert_eq!(refused(world.admit_first_lock(&open, nobody, "l", (2, 0))), NfsStatus::StaleClientId);
    world.first_lock(&open, a, "l", (2, 0));
}

/// §16.37.
#[test]
fn a_lock_owner_is_released_when_it_holds_nothing() {
    let mut world = world();
    let client = world.client("a");
    let open = world.confirmed_open(client, "o");
    let lock = world.first_lock(&open, client, "l", (2, 0));
    let release = |world: &mut World| world.state.release_lock_owner(client, b"l", world.now);
    assert_eq!(release(&mut world), Err(NfsStatus::LocksHeld));
    world.unlock(client, &lock);
    assert_eq!(release(&mut world), Ok(()));
    assert_eq!(world.state.census().lock_owners, 0);
    assert_eq!(release(&mut world), Ok(()), "there is nothing to release");
    let stale = world.state.release_lock_owner(ClientId(1), b"l", world.now);
    assert_eq!(stale, Err(NfsStatus::StaleClientId));
    world.first_lock(&open, client, "l", (3, 7));
}
