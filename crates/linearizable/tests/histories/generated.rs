//! Histories of a real run: operations one after the other, and around each an interval that overlaps with those of others.

use std::ops::Range;

use proptest::prelude::*;

use crate::cell::{Call, Cell, History, answered, lost};

/// Six numbers for each operation.
#[derive(Debug, Clone)]
pub struct Choices {
    pub steps: Vec<[u8; 6]>,
    pub clients: usize,
    /// Operations of others that may fall between call and instant, and between instant and answer.
    pub longest: usize,
    /// Different numbers that are written.
    pub values: u8,
}

pub fn choices(operations: Range<usize>) -> impl Strategy<Value = Choices> {
    (prop::collection::vec(any::<[u8; 6]>(), operations), 1usize..6, 0usize..6)
        .prop_map(|(steps, clients, longest)| Choices { steps, clients, longest, values: 4 })
}

/// Between two instants there is room for calls and answers, all at times of their own.
const APART: u64 = 1000;

pub fn history_of_a_run(choices: &Choices) -> History {
    let Choices { steps, clients, longest, values } = choices;
    let client_of = |step: &[u8; 6]| usize::from(step[0]) % clients;
    let mut history = History::new();
    let mut state = 0;
    for (number, step) in steps.iter().enumerate() {
        let [_, kind, value, early, late, fate] = *step;
        let client = client_of(step);
        let call = match kind % 4 {
            0 | 1 => Call::Read,
            2 => Call::Write(value % values),
            _ => Call::CompareAndSet(value % 3, value / 3 % values),
        };
        // A client asks for one thing at a time.
        let others = |steps: &mut dyn Iterator<Item = &[u8; 6]>| {
            steps.take(*longest).take_while(|other| client_of(other) != client).count()
        };
        let before = others(&mut steps[..number].iter().rev()).min(usize::from(early) % (longest + 1));
        let after = others(&mut steps[number + 1..].iter()).min(usize::from(late) % (longest + 1));
        let instant = (number as u64 + 1) * APART;
        let called = instant - before as u64 * APART - 1 - u64::from(early);
        let ended = instant + after as u64 * APART + 1 + u64::from(late);
        let (answer, then) = Cell::ask(state, call);
        match fate {
            0..8 => history.push(lost(client, called, call, None)),
            8..16 => history.push(lost(client, called, call, Some(ended))),
            _ => history.push(answered(client, called, call, ended, answer)),
        }
        // Every second one that is lost is not done.
        if fate >= 16 || fate % 2 == 0 {
            state = then;
        }
    }
    history
}
