use super::*;

/// RFC 8881 §18.35.4, in its order.
#[test]
fn exchange_id_follows_the_nine_cases() {
    // Case 1: a new owner.
    let mut world = world();
    let first = world.exchange("a", 1, USER, false).unwrap();
    assert!(!first.confirmed);

    // Case 4: an unconfirmed record is replaced, whoever asks.
    let second = world.exchange("a", 1, Principal::Nobody, false).unwrap();
    assert_ne!(second.client, first.client);
    assert_eq!(
        refused(world.create_session_as(first.client, first.sequence, USER)),
        NfsStatus::StaleClientId
    );

    // Case 7: nothing confirmed to update.
    assert_eq!(refused(world.exchange("a", 1, USER, true)), NfsStatus::NoEnt);

    // Case 2: the same incarnation asks again.
    let third = world.exchange("a", 1, USER, false).unwrap();
    world.create_session_as(third.client, third.sequence, USER).unwrap();
    let again = world.exchange("a", 1, USER, false).unwrap();
    assert_eq!((again.client, again.confirmed), (third.client, true));
    assert_eq!(again.sequence, third.sequence + 1);

    // Case 6: update. Case 8: of another incarnation. Case 9: by another principal.
    assert_eq!(world.exchange("a", 1, USER, true).unwrap().client, third.client);
    assert_eq!(refused(world.exchange("a", 2, USER, true)), NfsStatus::NotSame);
    assert_eq!(refused(world.exchange("a", 1, Principal::Nobody, true)), NfsStatus::Perm);

    // Case 3: another principal while the client has sessions.
    assert_eq!(refused(world.exchange("a", 1, Principal::Nobody, false)), NfsStatus::ClidInUse);

    // Case 5: the client restarted; the old one lives until the new one is confirmed.
    world.state.reclaim_complete(third.client).unwrap();
    world.record(third.client);
    let open = world.open(third.client, "o", 1, Share::READ, 0).unwrap();
    let reborn = world.exchange("a", 2, USER, false).unwrap();
    assert!(!reborn.confirmed && reborn.client != third.client);
    assert!(world.io(third.client, open, 1, false).is_ok());
    world.create_session_as(reborn.client, reborn.sequence, USER).unwrap();
    assert_eq!(world.state.census(), Census { clients: 1, sessions: 1, ..Census::default() });
}

#[test]
fn another_principal_takes_over_what_its_owner_has_left_behind() {
    let mut world = world();
    let (old, session) = world.connect("a");
    world.state.destroy_session(session, USER, CONNECTION, None).unwrap();
    assert_ne!(world.exchange("a", 1, Principal::Nobody, false).unwrap().client, old);

    let (old, _) = world.connect("b");
    world.outlast_leases();
    assert_eq!(world.exchange("b", 1, Principal::Nobody, false), Err(Refusal::Expired(old)));
    assert!(world.state.forget(old, world.now));
    assert!(world.exchange("b", 1, Principal::Nobody, false).is_ok());
}

#[test]
fn the_number_of_clients_is_bounded_and_the_longest_silent_one_goes_first() {
    let mut world = world_with(Limits { clients: 2, ..Limits::default() }, &[]);
    let (first, _) = world.connect("a");
    world.now += Duration::from_secs(1);
    world.connect("b");
    assert_eq!(refused(world.exchange("c", 1, USER, false)), NfsStatus::Delay);
    world.outlast_leases();
    assert_eq!(world.exchange("c", 1, USER, false), Err(Refusal::Expired(first)));
}

/// RFC 8881 §18.50.3.
#[test]
fn destroy_clientid_wants_no_sessions_and_no_state() {
    let mut world = world();
    let (client, session) = world.connect("a");
    assert_eq!(world.state.destroy_client(client, USER), Err(NfsStatus::ClientIdBusy));
    world.state.reclaim_complete(client).unwrap();
    world.record(client);
    let open = world.open(client, "o", 1, Share::READ, 0).unwrap();
    world.state.destroy_session(session, USER, CONNECTION, None).unwrap();
    assert_eq!(world.state.destroy_client(client, USER), Err(NfsStatus::ClientIdBusy));
    world.state.close(client, &open, file(1), &mut world.undo).unwrap();
    let stranger = Principal::Unix(1);
    assert_eq!(world.state.destroy_client(client, stranger), Err(NfsStatus::WrongCred));
    assert_eq!(world.state.destroy_client(client, USER).unwrap().as_deref(), Some(&b"a"[..]));
    assert_eq!(world.state.destroy_client(client, USER), Err(NfsStatus::StaleClientId));
    let unconfirmed = world.exchange("b", 1, USER, false).unwrap().client;
    assert_eq!(world.state.destroy_client(unconfirmed, USER), Ok(None), "it never had a record");
}

/// RFC 8881 §8.3, and courtesy beyond it.
#[test]
fn an_expired_client_keeps_its_state_until_somebody_wants_it() {
    let mut world = world();
    let (a, b) = (world.client("a"), world.client("b"));
    world.open(a, "o", 1, Share::WRITE, Share::WRITE).unwrap();
    assert_eq!(refused(world.open(b, "o", 1, Share::WRITE, 0)), NfsStatus::ShareDenied);
    world.outlast_leases();
    assert_eq!(world.open(b, "o", 1, Share::WRITE, 0), Err(Refusal::Expired(a)));
    assert_eq!(world.io(b, StateId::ANONYMOUS, 1, true), Err(Refusal::Expired(a)));
    assert_eq!(world.state.record_of(a).as_deref(), Some(&b"a"[..]));
    assert!(world.state.forget(a, world.now));
    assert!(world.open(b, "o", 1, Share::WRITE, 0).is_ok());
}

/// A client that holds nothing has at least its session, which a program that rests for long wants to go on with.
#[test]
fn silent_clients_are_overdue_at_once_unconfirmed_and_after_the_courtesy_confirmed() {
    let mut world = world();
    let unconfirmed = world.exchange("new", 1, USER, false).unwrap().client;
    let (idle, session) = world.connect("idle");
    assert_eq!(world.state.overdue(world.now), []);
    world.outlast_leases();
    assert_eq!(world.state.overdue(world.now), [unconfirmed]);
    assert!(world.state.forget(unconfirmed, world.now));
    world.now += COURTESY - Duration::from_secs(2);
    assert!(world.enter(session, 0, 1).is_ok(), "it goes on as if nothing had been");
    world.state.leave(session, 0, None, false, world.now);
    world.outlast_leases();
    world.now += COURTESY;
    assert_eq!(world.state.overdue(world.now), [idle]);
}

#[test]
fn a_silent_client_makes_room_when_the_opens_of_all_are_at_their_limit() {
    let mut world = world_with(Limits { states: 1, ..Limits::default() }, &[]);
    let a = world.client("a");
    world.now += Duration::from_secs(1);
    let b = world.client("b");
    world.open(a, "o", 1, Share::READ, 0).unwrap();
    assert_eq!(refused(world.open(b, "o", 2, Share::READ, 0)), NfsStatus::Delay);
    world.now += LEASE;
    assert_eq!(world.open(b, "o", 2, Share::READ, 0), Err(Refusal::Expired(a)));
}

#[test]
fn sequence_renews_the_lease_and_a_running_request_keeps_it() {
    let mut world = world();
    let (client, session) = world.connect("a");
    world.now += LEASE;
    world.enter(session, 0, 1).unwrap();
    world.outlast_leases();
    assert!(!world.state.forget(client, world.now), "its request is still running");
    world.state.leave(session, 0, None, false, world.now);
    world.now += LEASE;
    assert!(!world.state.forget(client, world.now));
    world.outlast_leases();
    assert!(world.state.forget(client, world.now));
    assert_eq!(world.enter(session, 0, 2).unwrap_err(), NfsStatus::BadSession);
}
