use super::*;
use crate::overview::{Access, DelegationStanding, Holding, LockedBytes, OwnerText, Standing};

const READ: u32 = Share::READ;
const WRITE: u32 = Share::WRITE;

fn text(owner: &str) -> OwnerText {
    OwnerText(owner.as_bytes().into())
}

#[test]
fn clients_are_shown_page_by_page_in_the_order_of_their_ids() {
    let mut world = world();
    let mut known: Vec<ClientId> = (0..7).map(|n| world.client(&format!("client{n}"))).collect();
    known.sort_unstable();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = world.state.clients_behind(after, 3, world.now);
        assert_eq!(page.total, 7);
        assert!(page.clients.len() <= 3);
        seen.extend(page.clients.iter().map(|client| client.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, known);
    assert_eq!(world.state.clients_behind(None, 7, world.now).next, None, "a full page may be the last");
}

#[test]
fn a_client_is_active_courteous_or_expired() {
    let mut world = world();
    let (holder, idle) = (world.client("holder"), world.client("idle"));
    world.open(holder, "o", 1, READ, 0).unwrap();
    let standing = |world: &World, id| world.state.overview(id, world.now).unwrap().standing;
    world.now += LEASE / 3;
    let client = world.state.overview(holder, world.now).unwrap();
    assert_eq!((client.silent, client.lease_left), (LEASE / 3, LEASE - LEASE / 3));
    assert_eq!((client.opens, client.sessions, client.slots, client.busy_slots), (1, 1, 8, 0));
    assert_eq!((client.minor_version, client.confirmed), (Some(1), true));
    assert_eq!(standing(&world, idle), Standing::Active);
    world.outlast_leases();
    assert_eq!(standing(&world, holder), Standing::Courteous);
    assert_eq!(standing(&world, idle), Standing::Expired);
    assert_eq!(world.state.overview(holder, world.now).unwrap().lease_left, Duration::ZERO);
}

#[test]
fn what_a_client_holds_is_shown_page_by_page() {
    let mut world = world();
    let (a, b) = (world.client("a"), world.client("b"));
    let open = world.open(a, "opener", 1, READ | WRITE, WRITE).unwrap();
    let first = world.lock(a, Locker::New { open, owner: b"locker" }, 1, (10, 5), true).unwrap().unwrap();
    world.lock(a, Locker::Known(first), 1, (100, u64::MAX), false).unwrap().unwrap();
    let wish = DelegationRequest {
        client: a,
        file: file(2),
        by: USER,
        writing: None,
        given_by: None,
        own_changes: 0,
    };
    let reference = || OpenReference::new(());
    let delegation = world.state.delegate(&wish, reference, world.now, &mut world.undo).unwrap();
    let other = world.open(b, "opener", 3, READ, 0).unwrap();

    let page = world.state.held_behind(a, None, 10, world.now).unwrap();
    assert_eq!(page.next, None);
    let ids: Vec<Other> = page.held.iter().map(|held| held.id).collect();
    assert_eq!(ids, [open.other, first.other, delegation.other]);
    let deny = Access { read: false, write: true };
    let access = Access { read: true, write: true };
    let waits = Vec::new();
    assert_eq!(page.held[0].holding, Holding::Open { owner: text("opener"), access, deny, waits });
    let ranges = vec![
        LockedBytes { offset: 10, length: Some(5), exclusive: true },
        LockedBytes { offset: 100, length: None, exclusive: false },
    ];
    assert_eq!(page.held[1].holding, Holding::Locks { owner: text("locker"), ranges, more: 0 });
    assert_eq!(page.held[2].file, file(2));

    let standing = |world: &World| {
        let page = world.state.held_behind(a, Some(first.other), 10, world.now).unwrap();
        let [held] = &page.held[..] else { panic!("{page:?}") };
        let Holding::Delegation { write: false, standing } = held.holding else { panic!("{held:?}") };
        standing
    };
    assert_eq!(standing(&world), DelegationStanding::Held);
    assert!(world.state.begin_change(Some(b), file(2), world.now).is_err());
    world.now += Duration::from_secs(2);
    assert_eq!(standing(&world), DelegationStanding::Recalled(Duration::from_secs(2)));
    world.now += LEASE;
    world.state.revoke_overdue(world.now);
    assert_eq!(standing(&world), DelegationStanding::Revoked);
    assert_eq!(world.state.counts.delegations_revoked, 1);

    let page = world.state.held_behind(a, None, 1, world.now).unwrap();
    assert_eq!((page.held.len(), page.next), (1, Some(open.other)));
    assert_eq!(world.state.held_behind(b, None, 1, world.now).unwrap().held[0].id, other.other);
    assert!(world.state.held_behind(ClientId(1), None, 1, world.now).is_none());
}

#[test]
fn who_waits_for_a_lock_is_shown_with_what_it_wants_by_the_open_that_it_has() {
    let mut world = world();
    let (a, b) = (world.client("a"), world.client("b"));
    let held = world.open(a, "o", 1, READ | WRITE, 0).unwrap();
    world.lock(a, Locker::New { open: held, owner: b"holder" }, 1, (0, 10), true).unwrap().unwrap();
    let open = world.open(b, "o", 1, READ | WRITE, 0).unwrap();
    let waits = |world: &World, client| {
        let page = world.state.held_behind(client, None, 10, world.now).unwrap();
        let Holding::Open { waits, .. } = page.held[0].holding.clone() else { panic!("{page:?}") };
        waits
    };
    for (offset, waits) in [(0, true), (5, true), (7, false)] {
        let range = ByteRange::new(offset, 2).unwrap();
        let owner = format!("waiter {offset}");
        let locker = Locker::New { open, owner: owner.as_bytes() };
        let request =
            LockRequest { client: b, file: file(1), locker, range, exclusive: true, reclaim: false, waits };
        assert!(world.state.lock(&request, world.now, &mut world.undo).unwrap().is_err());
    }
    let wanted = |offset| {
        let range = LockedBytes { offset, length: Some(2), exclusive: true };
        (text(&format!("waiter {offset}")), range)
    };
    assert_eq!(waits(&world, b), [wanted(0), wanted(5)]);
    assert_eq!(waits(&world, a), []);
}

#[test]
fn many_locked_ranges_are_counted_and_not_shown() {
    let mut world = world();
    let a = world.client("a");
    let open = world.open(a, "o", 1, READ | WRITE, 0).unwrap();
    let mut locker = Locker::New { open, owner: b"l" };
    for n in 0..100 {
        locker = Locker::Known(world.lock(a, locker, 1, (n * 10, 1), true).unwrap().unwrap());
    }
    let page = world.state.held_behind(a, Some(open.other), 10, world.now).unwrap();
    let Holding::Locks { ranges, more, .. } = &page.held[0].holding else { panic!("{page:?}") };
    assert_eq!((ranges.len(), *more), (64, 36));
    assert_eq!(world.state.census().locks, 100);
}

#[test]
fn a_client_that_is_discarded_has_nothing_left_and_nobody_waits_for_it() {
    let mut world = world_with(Limits::default(), &["a"]);
    let (a, session) = world.connect("a");
    assert!(world.state.grace.is_active());
    let share = Share { access: READ, deny: 0 };
    world.claim(a, "o", 1, share, true).unwrap();
    world.state.shut_out(a);
    assert_eq!(world.enter(session, 0, 1).unwrap_err(), NfsStatus::BadSession);
    world.state.discard(a);
    assert_eq!(world.state.census(), Census::default());
    assert!(world.state.files.is_empty() && world.state.held.is_empty());
}

#[test]
fn slots_in_use_are_counted() {
    let mut world = world();
    let (a, session) = world.connect("a");
    for slot in 0..8 {
        assert!(matches!(world.enter(session, slot, 1), Ok(Entered::Run { .. })));
    }
    let busy = |world: &World| world.state.overview(a, world.now).unwrap().busy_slots;
    assert_eq!((busy(&world), world.state.counts.slots_exhausted), (8, 1));
    assert_eq!(world.enter(session, 3, 1).unwrap_err(), NfsStatus::Delay);
    assert_eq!(world.enter(session, 3, 2).unwrap_err(), NfsStatus::SeqMisordered);
    assert_eq!(world.state.counts.slot_in_use, 2);
    world.state.leave(session, 3, None, false, world.now);
    world.state.leave(session, 3, None, false, world.now);
    assert_eq!(busy(&world), 7);
    assert_eq!(world.state.counts.slots_exhausted, 1);
}
