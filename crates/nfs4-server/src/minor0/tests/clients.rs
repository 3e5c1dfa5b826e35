use super::*;

/// §16.33.5, the first of the cases: nothing is known; §16.34.5.
#[test]
fn a_client_can_do_nothing_until_it_is_confirmed() {
    let mut world = world();
    let (id, confirm) = world.set_client_id("a", 1, USER).unwrap();
    assert_eq!(refused(world.state.admit_open(id, b"o", number(0), world.now)), NfsStatus::StaleClientId);
    assert_eq!(world.state.renew_client(id, world.now), Err(NfsStatus::StaleClientId));
    assert_eq!(refused(world.confirm((id, Verifier([99; 8])))), NfsStatus::StaleClientId);
    let stranger = world.state.confirm_client(id, confirm, OTHER_USER, world.now);
    assert_eq!(refused(stranger), NfsStatus::ClidInUse);
    world.confirm((id, confirm)).unwrap();
    world.confirm((id, confirm)).unwrap();
    assert_eq!(world.state.renew_client(id, world.now), Ok(()));
}

#[test]
fn an_unconfirmed_client_is_replaced_by_the_next_of_that_name() {
    let mut world = world();
    let first = world.set_client_id("a", 1, USER).unwrap();
    let second = world.set_client_id("a", 1, USER).unwrap();
    assert_ne!(first.0, second.0);
    assert_eq!(refused(world.confirm(first)), NfsStatus::StaleClientId);
    world.confirm(second).unwrap();
    assert_eq!(world.state.census().clients, 1);
}

#[test]
fn the_same_incarnation_changes_its_callback_and_keeps_its_state() {
    let mut world = world();
    let client = world.client("a");
    let open = world.confirmed_open(client, "o");
    let (same, confirm) = world.set_client_id("a", 1, USER).unwrap();
    assert_eq!(same, client);
    assert!(world.io(open).is_ok(), "before it is confirmed");
    world.confirm((same, confirm)).unwrap();
    assert!(world.io(open).is_ok(), "afterwards");
    world.confirm((same, confirm)).unwrap();
}

#[test]
fn a_client_that_restarted_loses_its_state_when_it_is_confirmed() {
    let mut world = world();
    let client = world.client("a");
    let open = world.confirmed_open(client, "o");
    let again = world.set_client_id("a", 2, USER).unwrap();
    assert_ne!(again.0, client);
    assert!(world.io(open).is_ok(), "anybody may say that he is this client");
    world.confirm(again).unwrap();
    assert_eq!(refused(world.io(open)), NfsStatus::Expired);
    assert_eq!(world.state.renew_client(client, world.now), Err(NfsStatus::Expired));
    assert_eq!(world.state.census().opens, 0);
}

#[test]
fn a_name_is_its_owners_while_he_has_state_and_a_lease() {
    let mut world = world();
    let client = world.client("a");
    assert!(world.set_client_id("a", 1, OTHER_USER).is_ok(), "there is nothing to lose");
    let open = world.confirmed_open(client, "o");
    assert_eq!(refused(world.set_client_id("a", 1, OTHER_USER)), NfsStatus::ClidInUse);
    world.now += LEASE + Duration::from_secs(1);
    assert_eq!(world.set_client_id("a", 1, OTHER_USER), Err(Refusal::Expired(client)));
    assert!(world.io(open).is_ok(), "it is back");
    assert_eq!(refused(world.set_client_id("a", 1, OTHER_USER)), NfsStatus::ClidInUse);
}

#[test]
fn who_took_the_name_before_the_owner_had_state_does_not_get_it_afterwards() {
    let mut world = world();
    let client = world.client("a");
    let (thief, confirm) = world.set_client_id("a", 1, OTHER_USER).unwrap();
    let open = world.confirmed_open(client, "o");
    let stolen = world.state.confirm_client(thief, confirm, OTHER_USER, world.now);
    assert_eq!(refused(stolen), NfsStatus::ClidInUse);
    assert!(world.io(open).is_ok());
}

/// §9.5, and courtesy: what nobody wants is kept.
#[test]
fn a_silent_client_keeps_what_nobody_wants_and_learns_that_it_lost_the_rest() {
    let mut world = world();
    let (a, b) = (world.client("a"), world.client("b"));
    let all = Share { access: 3, deny: 3 };
    let open = world.open(a, "o", 0, all, false).unwrap();
    assert_eq!(refused(world.open(b, "o", 0, BOTH, false)), NfsStatus::ShareDenied);
    world.now += LEASE + Duration::from_secs(1);
    assert_eq!(world.state.renew_client(b, world.now), Ok(()));
    assert_eq!(world.open(b, "o", 1, BOTH, false), Err(Refusal::Expired(a)));
    assert!(world.state.forget(a, world.now));
    world.open(b, "o", 2, BOTH, false).unwrap();
    assert_eq!(world.state.renew_client(a, world.now), Err(NfsStatus::Expired));
    assert_eq!(refused(world.admit(&open, 1, Standing::Unconfirmed)), NfsStatus::Expired);
}

#[test]
fn every_use_of_a_state_id_renews_the_lease() {
    let mut world = world();
    let client = world.client("a");
    let open = world.confirmed_open(client, "o");
    for _ in 0..3 {
        world.now += LEASE;
        assert!(world.io(open).is_ok());
    }
    assert!(!world.state.forget(client, world.now));
}

#[test]
fn clients_of_sessions_and_of_4_0_do_not_meet_under_one_name() {
    use crate::state::ExchangeId;
    let mut world = world();
    let client = world.client("a");
    let open = world.confirmed_open(client, "o");
    let verifier = Verifier([1; 8]);
    let request = ExchangeId { owner: b"a", verifier, principal: USER, update: false };
    let other = world.state.exchange_id(&request, world.now).unwrap();
    assert!(!other.confirmed && other.client != client);
    let key = crate::minor0::record_key(b"a");
    let forged = ExchangeId { owner: &key, verifier, principal: USER, update: false };
    assert!(!world.state.exchange_id(&forged, world.now).unwrap().confirmed);
    assert_eq!(world.state.destroy_client(client, USER), Err(NfsStatus::StaleClientId));
    assert!(world.io(open).is_ok());
    assert_eq!(world.state.renew_client(other.client, world.now), Err(NfsStatus::Expired));
}

#[test]
fn state_ids_say_why_they_are_refused() {
    let mut world = world();
    let client = world.client("a");
    let open = world.confirmed_open(client, "o");
    let other = |change: fn(&mut StateId)| {
        let mut id = open;
        change(&mut id);
        id
    };
    let cases = [
        (other(|id| id.seqid -= 1), NfsStatus::OldStateId),
        (other(|id| id.seqid = 0), NfsStatus::OldStateId),
        (other(|id| id.seqid += 1), NfsStatus::BadStateId),
        (other(|id| id.other[0] ^= 1), NfsStatus::StaleStateId),
        (other(|id| id.other[11] ^= 64), NfsStatus::BadStateId),
        (other(|id| id.other[4] ^= 64), NfsStatus::BadStateId),
        (StateId::CURRENT, NfsStatus::BadStateId),
        (StateId::INVALID, NfsStatus::BadStateId),
    ];
    for (id, status) in cases {
        assert_eq!(refused(world.io(id)), status, "{id:?}");
    }
}

#[test]
fn a_state_id_gives_rights_to_who_opened_the_file_alone() {
    let mut world = world();
    let client = world.client("a");
    let open = world.confirmed_open(client, "o");
    let lock = world.first_lock(&open, client, "l", (2, 0));
    for id in [open, lock] {
        assert_eq!(world.io(id), Ok(IoGrant::Opened));
        assert_eq!(world.io_as(id, OTHER_USER), Ok(IoGrant::Anonymous));
    }
}
