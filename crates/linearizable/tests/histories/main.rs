//! The checker against histories whose verdict is known otherwise.

#![allow(clippy::unwrap_used)] // tests, helpers included

mod brute_force;
mod cell;
mod generated;

use std::time::Duration;

use linearizable::{End, Failure, check};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use brute_force::{explains, is_linearizable};
use cell::{Answer, Call, Cell, CellOperation, History, answer_with, answered, answered_at, lost, spoil};
use generated::{Choices, choices, history_of_a_run};

#[track_caller]
fn violation(history: &History) -> linearizable::Violation {
    match check(&Cell, history) {
        Err(Failure::Violation(violation)) => violation,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_linearizable() {
    assert_eq!(check(&Cell, &[]).unwrap().order, []);
}

#[test]
fn operations_at_the_same_time_may_have_any_order() {
    // |------- Write(1) -------|
    //  |------ Write(2) ------|
    //    |- 2 -|   |- 1 -|
    let history = [
        answered(0, 0, Call::Write(1), 9, Answer::Done),
        answered(1, 1, Call::Write(2), 8, Answer::Done),
        answered(2, 2, Call::Read, 3, Answer::Value(2)),
        answered(2, 4, Call::Read, 5, Answer::Value(1)),
    ];
    assert_eq!(check(&Cell, &history).unwrap().order, [1, 2, 0, 3]);
}

#[test]
fn two_clients_that_see_two_writes_in_different_orders_are_found() {
    let history = vec![
        answered(0, 0, Call::Write(1), 9, Answer::Done),
        answered(1, 0, Call::Write(2), 9, Answer::Done),
        answered(2, 1, Call::Read, 2, Answer::Value(1)),
        answered(2, 3, Call::Read, 4, Answer::Value(2)),
        answered(3, 5, Call::Read, 6, Answer::Value(1)),
    ];
    assert_eq!(violation(&history).stuck, 4);
}

#[test]
fn an_old_value_is_found_and_the_text_names_it() {
    let history = vec![
        answered(0, 0, Call::Write(1), 1, Answer::Done),
        answered(1, 0, Call::CompareAndSet(7, 8), 1, Answer::Set(false)),
        answered(0, 2, Call::Write(2), 3, Answer::Done),
        answered(1, 4, Call::Read, 6, Answer::Value(1)),
        answered(0, 5, Call::Write(3), 8, Answer::Done),
        answered(2, 7, Call::Read, 9, Answer::Value(3)),
    ];
    let violation = violation(&history);
    assert_eq!((violation.stuck, violation.beside.clone()), (3, vec![4]));
    assert!(violation.order.starts_with(&[1, 0, 2]) || violation.order.starts_with(&[0, 1, 2]));
    assert!(violation.states.contains(&"2".to_owned()), "{:?}", violation.states);
    let text = check(&Cell, &history).unwrap_err().to_string();
    for part in ["client 1: Read -> Value(1)", "Write(2) -> Done    2", "client 0: Write(3) -> Done\n"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn what_was_lost_may_be_done_late_or_never_but_not_before_it_was_asked_for() {
    let read = |at, value| answered(1, at, Call::Read, at + 1, Answer::Value(value));
    let lost_one = |until| lost(0, 5, Call::Write(1), until);
    assert!(check(&Cell, &[lost_one(None), read(6, 0), read(8, 0)]).is_ok(), "never");
    assert!(check(&Cell, &[lost_one(None), read(100, 0), read(200, 1)]).is_ok(), "late");
    assert_eq!(violation(&vec![lost_one(None), read(2, 1)]).stuck, 1, "early");
    assert_eq!(violation(&vec![lost_one(None), read(6, 1), read(8, 0)]).stuck, 2, "and undone");
    assert!(check(&Cell, &[lost_one(Some(150)), read(100, 0), read(200, 1)]).is_ok(), "in time");
    assert_eq!(violation(&vec![lost_one(Some(150)), read(160, 0), read(200, 1)]).stuck, 2, "too late");
}

fn ten_thousand_operations(clients: usize) -> History {
    let mut choices = Choices { steps: Vec::new(), clients, longest: clients, values: 250 };
    let mut random = 1_u64;
    for _ in 0..10_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let byte = |shift: u32| (random >> shift) as u8;
        // One in a thousand is lost.
        let fate = if random.is_multiple_of(1000) { byte(16) % 16 } else { 255 };
        choices.steps.push([byte(24), byte(32), byte(40), byte(48), byte(56), fate]);
    }
    history_of_a_run(&choices)
}

/// Sixteen at once all the time. Work is counted in places, as time depends on the machine.
#[test]
fn ten_thousand_operations_of_sixteen_clients_take_forty_places_each_at_the_most() {
    let found = check(&Cell, &ten_thousand_operations(16)).unwrap();
    assert!(found.places < 400_000, "{} places", found.places);
}

#[test]
fn one_wrong_answer_among_ten_thousand_is_found() {
    let mut history = ten_thousand_operations(4);
    let is_read =
        |operation: &CellOperation| operation.call == Call::Read && answered_at(operation).is_some();
    let last = history.iter().rposition(is_read).unwrap();
    answer_with(&mut history[last], Answer::Value(u8::MAX));
    assert_eq!(violation(&history).stuck, last);
}

proptest! {
    #[test]
    fn a_run_is_accepted_however_its_operations_overlap(choices in choices(1..100)) {
        let history = history_of_a_run(&choices);
        // The order that was found is one.
        explains(&history, &check(&Cell, &history).unwrap().order, Duration::MAX).unwrap();
    }

    #[test]
    fn a_value_that_nobody_wrote_is_found(choices in choices(1..30), which in any::<Index>()) {
        let mut history = history_of_a_run(&choices);
        let which = which.index(history.len());
        let End::Answered { at, .. } = history[which].end else { return Ok(()) };
        history[which].call = Call::Read;
        history[which].end = End::Answered { at, answer: Answer::Value(u8::MAX) };
        // Without the effect it had, an earlier answer may be wrong, too.
        let stuck = violation(&history).stuck;
        prop_assert!(stuck == which || answered_at(&history[stuck]) < Some(at));
    }

    /// With answers changed at random, so that about half are wrong.
    #[test]
    fn small_histories_are_judged_as_by_trying_all_orders(
        choices in choices(1..6),
        spoilt in vec((any::<Index>(), 0u8..4), 0..3),
    ) {
        let mut history = history_of_a_run(&choices);
        for (which, value) in spoilt {
            let at = which.index(history.len());
            spoil(&mut history[at], value);
        }
        let verdict = check(&Cell, &history);
        prop_assert_eq!(verdict.is_ok(), is_linearizable(&history, Duration::MAX), "{:?}", verdict);
        if let Ok(found) = verdict {
            explains(&history, &found.order, Duration::MAX).unwrap();
        }
    }

    #[test]
    fn the_answer_that_is_reported_is_the_first_that_nothing_explains(
        choices in choices(1..6),
        which in any::<Index>(),
        value in 0u8..4,
    ) {
        let mut history = history_of_a_run(&choices);
        let at = which.index(history.len());
        spoil(&mut history[at], value);
        if let Err(Failure::Violation(violation)) = check(&Cell, &history) {
            let end = answered_at(&history[violation.stuck]).unwrap();
            prop_assert!(!is_linearizable(&history, end));
            prop_assert!(is_linearizable(&history, end.saturating_sub(Duration::from_nanos(1))));
        }
    }
}

/// The generator makes both kinds in number, or the comparison above would compare nothing.
#[test]
fn spoilt_histories_are_of_both_kinds() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut right, mut wrong) = (0, 0);
    for round in 0..400 {
        let tree = choices(3..7).new_tree(&mut runner).unwrap();
        let mut history = history_of_a_run(&proptest::strategy::ValueTree::current(&tree));
        let at = round % history.len();
        spoil(&mut history[at], (round % 4) as u8);
        if is_linearizable(&history, Duration::MAX) { right += 1 } else { wrong += 1 }
    }
    assert!(right > 80 && wrong > 80, "{right} right, {wrong} wrong");
}
