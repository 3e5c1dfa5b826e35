//! A number with a test-and-set, and its histories.

use std::time::Duration;

use linearizable::{End, Model, Operation};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Read,
    Write(u8),
    /// If it is the first, then make it the second.
    CompareAndSet(u8, u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Value(u8),
    Done,
    Set(bool),
}

pub struct Cell;

impl Cell {
    /// What it answers, and what it is then.
    pub fn ask(state: u8, call: Call) -> (Answer, u8) {
        match call {
            Call::Read => (Answer::Value(state), state),
            Call::Write(value) => (Answer::Done, value),
            Call::CompareAndSet(from, to) if state == from => (Answer::Set(true), to),
            Call::CompareAndSet(..) => (Answer::Set(false), state),
        }
    }
}

impl Model for Cell {
    type State = u8;
    type Call = Call;
    type Answer = Answer;

    fn start(&self) -> u8 {
        0
    }

    fn step(&self, state: &u8, call: &Call, answer: Option<&Answer>) -> Option<u8> {
        let (right, after) = Cell::ask(*state, *call);
        answer.is_none_or(|answer| *answer == right).then_some(after)
    }

    fn only_looks(&self, call: &Call, answer: &Answer) -> bool {
        matches!((call, answer), (Call::Read, _) | (_, Answer::Set(false)))
    }
}

pub type CellOperation = Operation<Call, Answer>;
pub type History = Vec<CellOperation>;

fn time(at: u64) -> Duration {
    Duration::from_millis(at)
}

pub fn answered(client: usize, called: u64, call: Call, at: u64, answer: Answer) -> CellOperation {
    Operation { client, call, called: time(called), end: End::Answered { at: time(at), answer } }
}

pub fn lost(client: usize, called: u64, call: Call, until: Option<u64>) -> CellOperation {
    Operation { client, call, called: time(called), end: End::Lost { until: until.map(time) } }
}

/// When the answer came.
pub fn answered_at(operation: &CellOperation) -> Option<Duration> {
    match operation.end {
        End::Answered { at, .. } => Some(at),
        End::Lost { .. } => None,
    }
}

/// Another answer; nothing for one that is lost.
pub fn answer_with(operation: &mut CellOperation, other: Answer) {
    if let End::Answered { answer, .. } = &mut operation.end {
        *answer = other;
    }
}

/// Perhaps another answer of the right kind.
pub fn spoil(operation: &mut CellOperation, value: u8) {
    match operation.call {
        Call::Read => answer_with(operation, Answer::Value(value)),
        Call::CompareAndSet(..) => answer_with(operation, Answer::Set(value.is_multiple_of(2))),
        Call::Write(_) => operation.call = Call::Write(value),
    }
}
