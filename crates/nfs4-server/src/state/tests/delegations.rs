use super::*;
use crate::state::callback::{CallbackEnd, Notice, OutgoingCallback, SessionSlot, Way};

const R: u32 = Share::READ;
const W: u32 = Share::WRITE;
const OTHER_CONNECTION: ConnectionId = ConnectionId(2);

impl OutgoingCallback {
    pub(super) fn slot(&self) -> &SessionSlot {
        match &self.way {
            Way::Session(slot) => slot,
            other => panic!("{other:?} instead of a session"),
        }
    }
}

impl World {
    /// A client that can open files and be called back.
    pub(super) fn holder(&mut self, owner: &str) -> (ClientId, SessionId) {
        let (client, session) = self.connect(owner);
        self.state.reclaim_complete(client).unwrap();
        self.record(client);
        (client, session)
    }

    /// For reading.
    pub(super) fn delegate(&mut self, client: ClientId, number: u128) -> Result<StateId, Undelegated> {
        self.delegate_as(client, number, None)
    }

    /// For writing; the change attribute is 7.
    pub(super) fn delegate_to_write(
        &mut self,
        client: ClientId,
        number: u128,
    ) -> Result<StateId, Undelegated> {
        self.delegate_as(client, number, Some(7))
    }

    pub(super) fn delegate_as(
        &mut self,
        client: ClientId,
        number: u128,
        writing: Option<u64>,
    ) -> Result<StateId, Undelegated> {
        let request = wish(client, number, writing);
        self.state.delegate(&request, || OpenReference::new(()), self.now, &mut self.undo)
    }

    pub(super) fn reclaim(
        &mut self,
        client: ClientId,
        number: u128,
        writing: Option<u64>,
    ) -> Option<StateId> {
        let request = wish(client, number, writing);
        self.state.reclaim_delegation(&request, || OpenReference::new(()), self.now, &mut self.undo)
    }

    pub(super) fn change(&mut self, client: ClientId, number: u128) -> Result<(), Refusal> {
        self.state.begin_change(Some(client), file(number), self.now)
    }

    pub(super) fn callback(&mut self) -> OutgoingCallback {
        self.state.next_callback().unwrap()
    }

    pub(super) fn end(&mut self, callback: &OutgoingCallback, end: CallbackEnd) {
        self.state.end_callback(callback, end);
    }
}

pub(super) fn wish(client: ClientId, number: u128, writing: Option<u64>) -> DelegationRequest {
    DelegationRequest { client, file: file(number), by: USER, writing, given_by: None, own_changes: 0 }
}

/// A delegation of file 1 that was recalled, and its client, with its session, and another client.
fn recalled() -> (World, ClientId, SessionId, StateId, ClientId) {
    let mut world = world();
    let (a, session) = world.holder("a");
    let b = world.client("b");
    let id = world.delegate(a, 1).unwrap();
    assert_eq!(world.change(b, 1), Err(Refusal::Recalled(file(1))));
    (world, a, session, id, b)
}

#[test]
fn what_is_recalled_is_told_once_and_blocks_until_it_is_returned() {
    let (mut world, a, session, id, b) = recalled();
    let callback = world.callback();
    assert_eq!(callback.notice, Notice::Recall { id, file: file(1) });
    assert_eq!(
        (callback.slot().session, callback.slot().sequence, callback.connection),
        (session, 1, CONNECTION)
    );
    assert_eq!(world.change(b, 1), Err(Refusal::Recalled(file(1))));
    assert!(world.state.next_callback().is_none(), "told already");
    world.end(&callback, CallbackEnd::Answered(NfsStatus::Ok));
    assert!(world.state.next_callback().is_none());
    assert!(world.state.is_being_recalled(file(1)));
    world.state.return_delegation(a, &id, file(1)).unwrap();
    assert!(!world.state.is_being_recalled(file(1)));
    assert_eq!(world.change(b, 1), Ok(()));
    world.state.end_change(file(1));
    assert!(world.state.files.is_empty() && world.state.recalled.is_empty());
}

#[test]
fn nothing_is_delegated_while_it_is_changed_without_an_open() {
    let mut world = world();
    let (a, _) = world.holder("a");
    let b = world.client("b");
    world.change(b, 1).unwrap();
    world.state.mark_changing(file(1));
    world.state.end_change(file(1));
    assert_eq!(world.delegate(a, 1), Err(Undelegated::Contention));
    assert_eq!(world.delegate_to_write(a, 1), Err(Undelegated::Contention));
    world.state.end_change(file(1));
    assert!(world.delegate(a, 1).is_ok());
}

#[test]
fn opens_for_writing_and_those_that_forbid_reading_are_against_a_delegation() {
    for (access, deny, against) in [(R, 0, false), (W, 0, true), (R, R, true), (R, W, false)] {
        let mut world = world();
        let (a, _) = world.holder("a");
        let b = world.client("b");
        let open = world.open(b, "o", 1, access, deny).unwrap();
        assert_eq!(world.delegate(a, 1).is_err(), against, "{access} {deny}");
        world.state.close(b, &open, file(1), &mut world.undo).unwrap();
        if against {
            world.delegate(a, 1).unwrap();
        }
        let opened = world.open(b, "o", 1, access, deny);
        assert_eq!(opened.is_err(), against);
        if against {
            assert_eq!(opened, Err(Refusal::Recalled(file(1))));
        }
    }
}

#[test]
fn a_callback_that_is_not_answered_keeps_its_number_on_the_next_connection() {
    let (mut world, _, session, id, _) = recalled();
    let lost = world.callback();
    world.end(&lost, CallbackEnd::Lost);
    assert!(world.state.next_callback().is_none(), "no way left");
    let Ok(Entered::Run { status, .. }) = world.enter(session, 0, 1) else { panic!("not run") };
    assert_eq!(status.flags, 0x201, "the path is down");
    world.state.bind_connection(session, OTHER_CONNECTION, true).unwrap();
    let again = world.callback();
    assert_eq!((again.slot().sequence, again.connection), (1, OTHER_CONNECTION));
    assert_eq!(again.notice, lost.notice);
    world.end(&again, CallbackEnd::Refused(NfsStatus::Delay));
    let again = world.callback();
    assert_eq!((again.slot().sequence, again.attempts), (1, 1), "put off by the client");
    world.end(&again, CallbackEnd::Answered(NfsStatus::BadStateId));
    let again = world.callback();
    assert_eq!(
        (again.slot().sequence, &again.notice),
        (2, &Notice::Recall { id, file: file(1) }),
        "asked anew"
    );
}

#[test]
fn who_lost_count_is_called_from_the_beginning_and_then_not_at_all() {
    let (mut world, a, session, _, b) = recalled();
    let callback = world.callback();
    world.end(&callback, CallbackEnd::Answered(NfsStatus::Ok));
    world.delegate(a, 2).unwrap();
    assert!(world.change(b, 2).is_err());
    let callback = world.callback();
    assert_eq!(callback.slot().sequence, 2);
    world.end(&callback, CallbackEnd::Refused(NfsStatus::SeqMisordered));
    let callback = world.callback();
    assert_eq!(callback.slot().sequence, 1);
    world.end(&callback, CallbackEnd::Refused(NfsStatus::SeqMisordered));
    assert!(world.state.next_callback().is_none());
    let Ok(Entered::Run { status, .. }) = world.enter(session, 0, 1) else { panic!("not run") };
    assert_eq!(status.flags, 0x400, "a fault");
    assert_eq!(world.delegate(a, 3), Err(Undelegated::Resource));
    // Another session takes over.
    let other = world.create_session_as(a, 2, USER).unwrap().session;
    assert_eq!((world.callback().slot().session, world.delegate(a, 3).is_ok()), (other, true));
}

#[test]
fn recalls_go_out_side_by_side_in_the_slots_that_the_client_has() {
    let mut world = world();
    let (a, _) = world.holder("a");
    let b = world.client("b");
    for number in 0..10 {
        world.delegate(a, number).unwrap();
        assert!(world.change(b, number).is_err());
    }
    let slots = channel().slots as usize;
    let sent: Vec<_> = std::iter::from_fn(|| world.state.next_callback()).collect();
    let numbers = |sent: &[OutgoingCallback]| {
        sent.iter().map(|sent| (sent.slot().slot, sent.slot().sequence)).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&sent), (0..slots as u32).map(|slot| (slot, 1)).collect::<Vec<_>>());
    assert_eq!(sent[5].slot().highest_slot, 5);
    world.end(&sent[3], CallbackEnd::Answered(NfsStatus::Ok));
    world.end(&sent[5], CallbackEnd::Answered(NfsStatus::Ok));
    let rest: Vec<_> = std::iter::from_fn(|| world.state.next_callback()).collect();
    assert_eq!(numbers(&rest), [(3, 2), (5, 2)]);
    let notices: Vec<_> = sent.iter().chain(&rest).map(|sent| &sent.notice).collect();
    assert!(notices.iter().enumerate().all(|(place, notice)| !notices[..place].contains(notice)));
}

#[test]
fn a_client_with_fewer_slots_than_it_said_is_called_in_those() {
    let mut world = world();
    let (a, _) = world.holder("a");
    let b = world.client("b");
    for number in 0..3 {
        world.delegate(a, number).unwrap();
        assert!(world.change(b, number).is_err());
    }
    let sent: Vec<_> = std::iter::from_fn(|| world.state.next_callback()).collect();
    world.end(&sent[1], CallbackEnd::Refused(NfsStatus::BadSlot));
    world.end(&sent[2], CallbackEnd::Refused(NfsStatus::BadSlot));
    assert!(world.state.next_callback().is_none());
    world.end(&sent[0], CallbackEnd::Answered(NfsStatus::Ok));
    for sequence in 2..4 {
        let again = world.callback();
        assert_eq!((again.slot().slot, again.slot().sequence), (0, sequence));
        assert!(world.state.next_callback().is_none());
        world.end(&again, CallbackEnd::Answered(NfsStatus::Ok));
    }
    assert!(world.state.next_callback().is_none(), "all three were told");
}

#[test]
fn a_session_that_is_destroyed_leaves_what_it_had_to_tell_to_the_others() {
    let (mut world, a, session, _, _) = recalled();
    let callback = world.callback();
    let other = world.create_session_as(a, 2, USER).unwrap().session;
    world.state.destroy_session(session, USER, CONNECTION, None).unwrap();
    world.end(&callback, CallbackEnd::Lost);
    let again = world.callback();
    assert_eq!((again.slot().session, again.notice), (other, callback.notice));
}

#[test]
fn the_client_is_told_which_reply_to_read_first_as_long_as_it_may_not_have_done_so() {
    for read in [false, true] {
        let mut world = world();
        let (a, session) = world.holder("a");
        let b = world.client("b");
        world.enter(session, 3, 1).unwrap();
        let request = RequestId { session, slot: 3, sequence: 1 };
        let wish = DelegationRequest { given_by: Some(request), ..wish(a, 1, None) };
        let (state, undo) = (&mut world.state, &mut world.undo);
        state.delegate(&wish, || OpenReference::new(()), world.now, undo).unwrap();
        world.state.leave(session, 3, None, false, world.now);
        if read {
            world.enter(session, 3, 2).unwrap();
        }
        assert!(world.change(b, 1).is_err());
        assert_eq!(world.callback().slot().referring, (!read).then_some(request));
    }
}

#[test]
fn a_delegation_that_is_not_returned_for_a_lease_is_revoked_and_stays_known() {
    let (mut world, a, session, id, b) = recalled();
    world.now += LEASE;
    world.enter(session, 0, 1).unwrap();
    assert_eq!(world.state.revoke_overdue(world.now), 0);
    world.now += Duration::from_nanos(1);
    assert_eq!(world.state.revoke_overdue(world.now), 1);
    assert_eq!(world.state.revoke_overdue(world.now), 0);
    assert_eq!(world.change(b, 1), Ok(()));
    assert!(world.state.next_callback().is_none(), "there is nothing to tell any more");
    assert_eq!(world.state.test_state_id(a, &id), NfsStatus::DelegRevoked);
    world.undo.keep();
    world.state.free_state_id(a, &id, &mut world.undo).unwrap();
    assert_eq!(world.state.test_state_id(a, &id), NfsStatus::BadStateId);
    world.state.roll_back(&mut world.undo);
    assert_eq!(world.state.test_state_id(a, &id), NfsStatus::DelegRevoked);
    world.state.destroy_session(session, USER, CONNECTION, Some(session)).unwrap();
    world.state.leave(session, 0, None, false, world.now);
    world.state.destroy_client(a, USER).unwrap();
    assert_eq!(world.state.census().delegations, 0, "revoked state keeps no client");
}

#[test]
fn a_client_that_is_silent_since_a_recall_loses_what_was_recalled_and_nothing_else() {
    let (mut world, a, _, id, b) = recalled();
    let other = world.delegate(a, 2).unwrap();
    world.outlast_leases();
    assert_eq!(world.change(b, 1), Ok(()));
    assert_eq!(world.state.test_state_id(a, &id), NfsStatus::DelegRevoked);
    assert_eq!(world.state.test_state_id(a, &other), NfsStatus::Ok);
}

#[test]
fn a_client_whose_lease_runs_out_between_recall_and_revocation_is_not_forgotten() {
    let mut world = world();
    let (a, _) = world.holder("a");
    let b = world.client("b");
    let (id, other) = (world.delegate(a, 1).unwrap(), world.delegate(a, 2).unwrap());
    world.now += LEASE / 2;
    assert_eq!(world.change(b, 1), Err(Refusal::Recalled(file(1))));
    world.now += LEASE;
    assert_eq!(world.change(b, 1), Err(Refusal::Recalled(file(1))), "a lease since the recall");
    world.now += Duration::from_nanos(1);
    assert_eq!(world.change(b, 1), Ok(()));
    assert_eq!(world.state.test_state_id(a, &id), NfsStatus::DelegRevoked);
    assert_eq!(world.state.test_state_id(a, &other), NfsStatus::Ok);
}

#[test]
fn a_silent_client_is_forgotten_with_its_delegations_by_who_is_in_conflict() {
    let mut world = world();
    let (a, _) = world.holder("a");
    let b = world.client("b");
    world.delegate(a, 1).unwrap();
    world.outlast_leases();
    assert_eq!(world.change(b, 1), Err(Refusal::Expired(a)));
    assert!(world.state.forget(a, world.now));
    assert_eq!(world.change(b, 1), Ok(()));
    assert_eq!(world.state.census().delegations, 0);
}

#[test]
fn delegations_are_bounded() {
    let limits = Limits { delegations_per_client: 2, delegations: 3, ..Limits::default() };
    let mut world = world_with(limits, &[]);
    let (a, _) = world.holder("a");
    let (b, _) = world.holder("b");
    let first = world.delegate(a, 1).unwrap();
    assert_eq!(world.delegate(a, 1), Err(Undelegated::Resource), "once is enough");
    world.delegate(a, 2).unwrap();
    assert_eq!(world.delegate(a, 3), Err(Undelegated::Resource));
    world.delegate(b, 3).unwrap();
    assert_eq!(world.delegate(b, 4), Err(Undelegated::Resource), "all clients together");
    world.state.return_delegation(a, &first, file(1)).unwrap();
    assert!(world.delegate(b, 4).is_ok());
}

#[test]
fn what_is_reclaimed_is_to_be_returned_within_a_lease() {
    let mut world = world_with(Limits::default(), &["a"]);
    let (a, _) = world.connect("a");
    let reclaimed = world.reclaim(a, 1, None).unwrap();
    assert_eq!(world.reclaim(a, 1, None), Some(reclaimed), "once is enough");
    assert_eq!(world.state.revoke_overdue(world.now), 0);
    world.now += LEASE + Duration::from_nanos(1);
    assert_eq!(world.state.revoke_overdue(world.now), 1);
}
