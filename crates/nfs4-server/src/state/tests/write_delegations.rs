use super::*;
use crate::state::callback::{CallbackEnd, Notice};
use delegations::wish;

const R: u32 = Share::READ;
const W: u32 = Share::WRITE;

fn says(change: u64, size: u64) -> HolderSays {
    HolderSays { change, size }
}

impl World {
    fn size(&mut self, client: ClientId, asked: &[Question]) -> Result<Option<u64>, Refusal> {
        self.state.size_by_holder(Some(client), file(1), asked, self.now)
    }

    /// Somebody asks for the size, and has to wait.
    fn ask(&mut self, client: ClientId) -> Question {
        match self.size(client, &[]) {
            Err(Refusal::Asked(question)) => question,
            other => panic!("{other:?} instead of a question"),
        }
    }

    /// The question that is to be sent now, with its number, answered by the client.
    fn answer(&mut self, says: HolderSays) -> u64 {
        let callback = self.callback();
        let Notice::Ask { id, number, .. } = callback.notice else { panic!("{callback:?}") };
        self.end(&callback, CallbackEnd::Answered(NfsStatus::Ok));
        if self.state.is_news(&id.other, file(1), says) {
            self.state.end_change(file(1));
        }
        self.state.answered(id.other, number, says);
        number
    }
}

/// File 1 delegated to the first client for writing, which found 7 as its change attribute; and another client.
fn delegated() -> (World, ClientId, StateId, ClientId) {
    let mut world = world();
    let (a, _) = world.holder("a");
    let b = world.client("b");
    let id = world.delegate_to_write(a, 1).unwrap();
    (world, a, id, b)
}

#[test]
fn whoever_else_opens_reads_or_changes_the_file_waits_for_who_has_it_delegated_for_writing() {
    for access in [R, W, R | W] {
        let (mut world, a, id, b) = delegated();
        assert!(world.open(a, "o", 1, access, 0).is_ok(), "the holder");
        assert_eq!(world.open(b, "o", 1, access, 0), Err(Refusal::Recalled(file(1))), "{access}");
        assert_eq!(world.callback().notice, Notice::Recall { id, file: file(1) });
        world.state.return_delegation(a, &id, file(1)).unwrap();
        assert!(world.open(b, "o", 1, access, 0).is_ok());
    }
    let (mut world, a, _, b) = delegated();
    assert_eq!(world.state.recall_writers(Some(a), file(1), world.now), Ok(()), "the holder");
    let refused = Err(Refusal::Recalled(file(1)));
    assert_eq!(world.state.recall_writers(Some(b), file(1), world.now), refused);
    let (mut world, _, _, b) = delegated();
    assert_eq!(world.change(b, 1), refused);
    let (mut world, _, _, _) = delegated();
    assert_eq!(world.state.recall_writers(None, file(1), world.now), refused, "who has no sessions");
}

#[test]
fn who_reads_does_not_recall_what_is_delegated_for_reading() {
    let mut world = world();
    let (a, _) = world.holder("a");
    let b = world.client("b");
    world.delegate(a, 1).unwrap();
    assert_eq!(world.state.recall_writers(Some(b), file(1), world.now), Ok(()));
    assert!(world.open(b, "o", 1, R, 0).is_ok());
    assert_eq!(world.size(b, &[]), Ok(None), "nobody is asked either");
    assert!(world.state.next_callback().is_none());
}

#[test]
fn nothing_is_delegated_for_writing_while_another_client_has_the_file_open_or_delegated() {
    let mut world = world();
    let (a, _) = world.holder("a");
    let (b, _) = world.holder("b");
    let open = world.open(b, "o", 1, R, 0).unwrap();
    assert_eq!(world.delegate_to_write(a, 1), Err(Undelegated::Contention));
    let reading = world.delegate(b, 1).unwrap();
    world.state.close(b, &open, file(1), &mut world.undo).unwrap();
    assert_eq!(world.delegate_to_write(a, 1), Err(Undelegated::Contention));
    assert_eq!(world.delegate_to_write(b, 1), Err(Undelegated::Upgrade));
    world.state.return_delegation(b, &reading, file(1)).unwrap();
    world.open(a, "o", 1, R | W, 0).unwrap();
    world.open(a, "other owner", 1, R, 0).unwrap();
    world.delegate_to_write(a, 1).unwrap();
    assert_eq!(world.delegate_to_write(a, 1), Err(Undelegated::Resource), "once is enough");
    assert_eq!(world.delegate(a, 1), Err(Undelegated::Downgrade));
    assert_eq!(world.delegate(b, 1), Err(Undelegated::Contention));
    assert_eq!(world.delegate_to_write(b, 1), Err(Undelegated::Contention));
}

#[test]
fn a_delegation_for_writing_entitles_to_read_and_to_write() {
    let (world, a, id, b) = delegated();
    for write in [false, true] {
        assert_eq!(world.io(a, id, 1, write), Ok(IoGrant::Opened));
        assert_eq!(refused(world.io(a, id, 2, write)), NfsStatus::BadStateId);
        assert_eq!(refused(world.io(b, id, 1, write)), NfsStatus::BadStateId);
    }
    let both = Share { access: R | W, deny: 0 };
    assert_eq!(world.state.check_delegation(a, &id, file(1), both), Ok(USER));
}

#[test]
fn the_size_is_the_holders_as_soon_as_it_has_changed_something() {
    let (mut world, a, _, b) = delegated();
    assert_eq!(world.size(a, &[]), Ok(None), "the holder knows");
    let question = world.ask(b);
    assert!(!world.state.has_ended(&question));
    assert_eq!(world.answer(says(7, 5)), 1);
    assert!(world.state.has_ended(&question));
    assert_eq!(world.size(b, &[question]), Ok(None), "it has changed nothing");

    let question = world.ask(b);
    assert_eq!(world.answer(says(8, 5)), 2);
    assert_eq!(world.size(b, &[question]), Ok(Some(5)));
    assert_eq!(world.size(b, &[question]), Ok(Some(5)), "the same request may be run again");

    let question = world.ask(b);
    world.answer(says(7, 99));
    assert_eq!(world.size(b, &[question]), Ok(None), "it has sent everything");
    assert!(world.state.next_callback().is_none());
    assert!(!world.state.is_being_recalled(file(1)), "nothing was recalled");
}

#[test]
fn only_what_is_new_makes_the_file_look_changed() {
    let (mut world, _, id, b) = delegated();
    assert!(!world.state.is_news(&id.other, file(1), says(7, 0)));
    for (says, is_news) in
        [(says(8, 5), true), (says(8, 5), false), (says(8, 6), true), (says(9, 6), true), (says(7, 6), false)]
    {
        let question = world.ask(b);
        assert_eq!(world.state.is_news(&id.other, file(1), says), is_news, "{says:?}");
        if is_news {
            world.state.end_change(file(1));
        }
        world.answer(says);
        world.size(b, &[question]).unwrap();
    }
}

#[test]
fn many_that_ask_cause_one_question_and_who_comes_later_another() {
    let (mut world, _, _, b) = delegated();
    let (first, second) = (world.ask(b), world.ask(b));
    assert_eq!((first.number, second.number), (1, 2));
    assert_eq!(world.ask(b), second, "it has not begun yet");
    let early = world.callback();
    assert!(world.state.next_callback().is_none(), "one at a time");
    world.end(&early, CallbackEnd::Answered(NfsStatus::Ok));
    world.state.answered(first.delegation, 1, says(8, 1));
    assert_eq!(world.size(b, &[first]), Ok(Some(1)));
    assert_eq!(world.size(b, &[second]), Err(Refusal::Asked(second)), "the answer may be too old");
    assert_eq!(world.answer(says(8, 2)), 2);
    assert_eq!(world.size(b, &[second]), Ok(Some(2)));
    assert!(world.state.next_callback().is_none());
}

#[test]
fn who_does_not_answer_has_the_delegation_recalled() {
    let (mut world, a, id, b) = delegated();
    let (first, second) = (world.ask(b), world.ask(b));
    let callback = world.callback();
    world.state.not_answered(&id.other, 1);
    world.end(&callback, CallbackEnd::Lost);
    assert!(world.state.has_ended(&first) && world.state.has_ended(&second), "all that wait");
    assert_eq!(world.size(b, &[first]), Err(Refusal::Recalled(file(1))));
    assert_eq!(world.size(b, &[]), Err(Refusal::Recalled(file(1))), "it is not asked again");
    world.state.return_delegation(a, &id, file(1)).unwrap();
    assert_eq!(world.size(b, &[first]), Ok(None));
}

#[test]
fn who_cannot_be_called_has_the_delegation_recalled_at_once() {
    let (mut world, _, _, b) = delegated();
    world.state.connection_lost(CONNECTION);
    assert_eq!(world.size(b, &[]), Err(Refusal::Recalled(file(1))));
}

#[test]
fn a_silent_holder_is_not_asked_and_keeps_the_delegation() {
    let (mut world, a, id, b) = delegated();
    let question = world.ask(b);
    world.answer(says(8, 5));
    world.size(b, &[question]).unwrap();
    world.outlast_leases();
    assert_eq!(world.size(b, &[]), Ok(Some(5)), "what it said last");
    assert_eq!(world.state.test_state_id(a, &id), NfsStatus::Ok);
}

#[test]
fn a_question_ends_with_its_delegation() {
    let (mut world, a, id, b) = delegated();
    let question = world.ask(b);
    world.state.return_delegation(a, &id, file(1)).unwrap();
    assert!(world.state.has_ended(&question));
    assert_eq!(world.size(b, &[question]), Ok(None));
    assert!(world.state.next_callback().is_none(), "there is nothing to ask any more");
}

#[test]
fn the_record_of_a_client_goes_before_its_delegation_for_writing_is_revoked() {
    let (mut world, a, id, b) = delegated();
    assert!(world.change(b, 1).is_err());
    world.outlast_leases();
    assert_eq!(world.state.revoke_overdue(world.now), 0, "not without the record");
    assert_eq!(world.change(b, 1), Err(Refusal::Overdue(a)));
    assert_eq!(world.state.overdue_writers(world.now), [a]);
    world.unrecord(b"a");
    assert_eq!(world.state.revoke_writer(a, world.now), 1);
    assert_eq!(world.change(b, 1), Ok(()));
    assert_eq!(world.state.missing_record(a), None, "it must not have one");
    assert!(world.open(a, "o", 2, Share::READ, 0).is_ok(), "and needs none");
    assert_eq!(world.state.review_records(world.now), []);
    assert_eq!(world.state.overdue_writers(world.now), []);
    assert_eq!(world.state.test_state_id(a, &id), NfsStatus::DelegRevoked);

    assert_eq!(world.state.take_notice(a, &StateId { seqid: 1, other: [1; 12] }), Ok(()));
    assert_eq!(world.state.missing_record(a), None);
    assert_eq!(world.state.take_notice(a, &id), Err(Refusal::Unrecorded(a)), "it has something open");
    world.record(a);
    assert_eq!(world.state.take_notice(a, &id), Ok(()));
    world.state.free_state_id(a, &id, &mut world.undo).unwrap();
}

#[test]
fn who_returns_a_delegation_at_the_last_moment_is_not_late() {
    let (mut world, a, id, b) = delegated();
    assert!(world.change(b, 1).is_err());
    world.outlast_leases();
    assert_eq!(world.change(b, 1), Err(Refusal::Overdue(a)));
    world.state.return_delegation(a, &id, file(1)).unwrap();
    world.unrecord(b"a");
    assert_eq!(world.state.revoke_writer(a, world.now), 0);
    assert!(world.state.missing_record(a).is_some(), "it may have one again");
}

#[test]
fn who_goes_on_sending_what_it_wrote_is_not_late_within_reason() {
    let (mut world, a, _, b) = delegated();
    assert!(world.change(b, 1).is_err());
    let recalled = world.now;
    let mut sent = 0;
    while world.change(b, 1) == Err(Refusal::Recalled(file(1))) {
        world.now += LEASE / 2;
        world.state.clients.get_mut(&a).unwrap().renewed = world.now;
        world.state.sends(a, file(1), world.now);
        sent += 1;
    }
    assert_eq!(world.change(b, 1), Err(Refusal::Overdue(a)));
    assert_eq!(sent, 22, "ten leases, and one more of silence");
    assert!(world.now > recalled + 11 * LEASE - LEASE / 2);
}

#[test]
fn sending_for_one_file_or_by_another_client_helps_no_other() {
    let (mut world, a, _, b) = delegated();
    world.delegate_to_write(a, 2).unwrap();
    assert!(world.change(b, 1).is_err() && world.change(b, 2).is_err());
    world.now += LEASE / 2;
    world.state.sends(a, file(2), world.now);
    world.state.sends(b, file(1), world.now);
    world.now += LEASE / 2 + Duration::from_secs(1);
    world.state.clients.get_mut(&a).unwrap().renewed = world.now;
    assert_eq!(world.change(b, 1), Err(Refusal::Overdue(a)));
    assert_eq!(world.change(b, 2), Err(Refusal::Recalled(file(2))));
}

#[test]
fn what_is_reclaimed_for_writing_excludes_what_others_reclaim() {
    let mut world = world_with(Limits::default(), &["a", "b"]);
    let ((a, _), (b, _)) = (world.connect("a"), world.connect("b"));
    let id = world.reclaim(a, 1, Some(7)).unwrap();
    assert_eq!(world.reclaim(a, 1, Some(7)), Some(id), "once is enough");
    assert_eq!(world.reclaim(a, 1, None), None, "it is for writing");
    assert_eq!((world.reclaim(b, 1, Some(7)), world.reclaim(b, 1, None)), (None, None));
    assert!(world.state.is_being_recalled(file(1)));
    world.reclaim(b, 2, None).unwrap();
    assert_eq!(world.reclaim(a, 2, Some(7)), None);
    let share = Share { access: R, deny: 0 };
    world.claim(b, "o", 3, share, true).unwrap();
    assert_eq!(world.reclaim(a, 3, Some(7)), None);
}

#[test]
fn a_client_that_has_nearly_all_it_may_have_is_asked_for_half_of_it_once_in_a_lease() {
    let limits = Limits { delegations_per_client: 8, delegations: 100, ..Limits::default() };
    let mut world = world_with(limits, &[]);
    let (a, _) = world.holder("a");
    for number in 0..7 {
        world.delegate(a, number).unwrap();
        assert!(world.state.next_callback().is_none());
    }
    world.delegate(a, 7).unwrap();
    assert_eq!(world.delegate(a, 8), Err(Undelegated::Resource));
    let callback = world.callback();
    assert_eq!(callback.notice, Notice::RecallAny { keep: 4 });
    world.end(&callback, CallbackEnd::Answered(NfsStatus::Inval));
    assert!(world.state.next_callback().is_none(), "asked once, understood or not");
    world.now += LEASE;
    assert_eq!(world.delegate(a, 9), Err(Undelegated::Resource));
    assert_eq!(world.callback().notice, Notice::RecallAny { keep: 4 });
}

#[test]
fn when_all_together_have_nearly_too_many_who_has_most_is_asked() {
    let limits = Limits { delegations_per_client: 100, delegations: 8, ..Limits::default() };
    let mut world = world_with(limits, &[]);
    let (a, session) = world.holder("a");
    let (b, _) = world.holder("b");
    for number in 0..6 {
        world.delegate(a, number).unwrap();
    }
    world.delegate(b, 6).unwrap();
    assert!(world.state.next_callback().is_none());
    world.delegate(b, 7).unwrap();
    let callback = world.callback();
    assert_eq!((callback.slot().session, callback.notice), (session, Notice::RecallAny { keep: 3 }));
    assert!(world.state.next_callback().is_none());
}

#[test]
fn a_new_open_makes_way_for_the_delegation_and_comes_back_when_that_is_taken_back() {
    let mut world = world();
    let (a, _) = world.holder("a");
    let open = world.open(a, "o", 1, R | W, 0).unwrap();
    let mut undo = UndoLog::default();
    std::mem::swap(&mut undo, &mut world.undo);
    let delegation = {
        let state = &mut world.state;
        let id =
            state.delegate(&wish(a, 1, Some(7)), || OpenReference::new(()), world.now, &mut undo).unwrap();
        assert!(state.close_new(a, &open, &mut undo));
        id
    };
    assert_eq!(world.state.test_state_id(a, &open), NfsStatus::BadStateId);
    assert_eq!(world.io(a, delegation, 1, true), Ok(IoGrant::Opened));
    world.state.roll_back(&mut undo);
    assert!(world.state.files.is_empty() && world.state.held.is_empty());

    let open = world.open(a, "o", 1, R, 0).unwrap();
    let again = world.open(a, "o", 1, W, 0).unwrap();
    assert!(!world.state.close_new(a, &again, &mut undo), "another OPEN stands on it");
    assert_eq!(world.state.test_state_id(a, &StateId { seqid: 0, ..open }), NfsStatus::Ok);
}

#[test]
fn what_one_client_wrote_and_another_reads_is_delegated_to_the_reader_and_not_for_writing_for_a_while() {
    let mut world = world();
    let (writer, _) = world.holder("writer");
    let (reader, _) = world.holder("reader");
    let id = world.delegate_to_write(writer, 1).unwrap();
    let reads = world.state.recall_writers(Some(reader), file(1), world.now);
    assert_eq!(reads, Err(Refusal::Recalled(file(1))));
    world.state.return_delegation(writer, &id, file(1)).unwrap();
    assert_eq!(world.delegate_to_write(writer, 1), Err(Undelegated::Contention));
    let id = world.delegate(reader, 1).unwrap();
    assert_eq!(world.change(writer, 1), Err(Refusal::Recalled(file(1))));
    world.state.return_delegation(reader, &id, file(1)).unwrap();
    assert_eq!(world.delegate(reader, 1), Err(Undelegated::Contention), "it changes, too");
}
