//! Two numbers in two files: each read and written by itself, and both together in transactions.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use linearizable::{End, Failure, Model, check};
use nfs4::NfsStatus;
use vector_client::{Client, Data, Descriptor, Error, Open, Read, Target, Write};

use crate::contest::{Contender, Expects, History};
use crate::support::{self, Random};
use crate::world::World;

/// The last one believes its delegations.
const CLIENTS: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Write(usize, u64),
    Read(usize),
    ReadBoth,
    /// Reads both and writes both.
    Exchange([u64; 2]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Done,
    One(u64),
    Both([u64; 2]),
    /// Others were faster again and again, and nothing was done.
    Busy,
}

#[derive(Clone)]
pub struct Pair;

impl Model for Pair {
    type State = [u64; 2];
    type Call = Call;
    type Answer = Answer;

    fn start(&self) -> [u64; 2] {
        [0; 2]
    }

    fn step(&self, state: &[u64; 2], call: &Call, answer: Option<&Answer>) -> Option<[u64; 2]> {
        if answer == Some(&Answer::Busy) {
            return Some(*state);
        }
        let mut after = *state;
        let right = match call {
            Call::Write(which, value) => {
                after[*which] = *value;
                Answer::Done
            }
            Call::Read(which) => Answer::One(state[*which]),
            Call::ReadBoth => Answer::Both(*state),
            Call::Exchange(values) => {
                after = *values;
                Answer::Both(*state)
            }
        };
        answer.is_none_or(|answer| *answer == right).then_some(after)
    }

    fn only_looks(&self, call: &Call, answer: &Answer) -> bool {
        *answer == Answer::Busy || matches!(call, Call::Read(_) | Call::ReadBoth)
    }
}

impl Expects for Pair {
    const EXPECTED: &'static [(&'static str, &'static str)] =
        &[("Write", "Done"), ("Read", "One"), ("ReadBoth", "Both"), ("Exchange", "Both")];
}

pub struct PairClient {
    client: Client,
    paths: [String; 2],
    number: usize,
    written: u64,
    /// If it believes its delegations: the files that it has open, and how often it has read them since.
    open: Option<[Option<(Descriptor, u32)>; 2]>,
}

/// The clients, with new files of this name.
pub async fn clients(world: &Arc<World>, maker: &support::Client, name: &str) -> Vec<PairClient> {
    for which in ["a", "b"] {
        maker.write(&format!("{name}{which}"), &Bytes::from_static(&[0; 8])).await;
    }
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let believes = number + 1 == CLIENTS;
        let cache_bytes = if believes || number % 2 == 1 { 1 << 20 } else { 0 };
        let client = world.connect_vectors(&format!("{name}, client {number}"), cache_bytes).await;
        let paths = ["a", "b"].map(|which| format!("/home/{name}{which}"));
        clients.push(PairClient { client, paths, number, written: 0, open: believes.then_some([None; 2]) });
    }
    clients
}

impl PairClient {
    fn new_value(&mut self) -> u64 {
        self.written += 1;
        self.written * CLIENTS as u64 + self.number as u64
    }

    fn read(&self, which: usize) -> Read {
        Read::new(self.paths[which].as_str(), 0, 8)
    }

    fn write(&self, which: usize, value: u64) -> Write {
        Write { stable: true, ..Write::new(self.paths[which].as_str(), 0, value.to_le_bytes().to_vec()) }
    }

    /// From where to read one number: by its path, or through a descriptor, which is renewed from time to time as no delegation
    /// comes back to one that has lost it.
    async fn target(&mut self, which: usize) -> Target {
        let Some(open) = &mut self.open else { return self.paths[which].as_str().into() };
        if let Some((descriptor, reads)) = &mut open[which] {
            *reads += 1;
            if *reads <= 4 {
                return (*descriptor).into();
            }
            if let Err(failure) = self.client.vclose(vec![*descriptor]).await {
                // Whether it was closed before the server died makes no difference.
                assert!(failure.error.is_unknown(), "{failure}");
            }
        }
        let opened = self.client.vopen(vec![Open::read(self.paths[which].as_str())]).await.unwrap();
        open[which] = Some((opened[0], 0));
        opened[0].into()
    }
}

fn number(data: Data) -> u64 {
    u64::from_le_bytes(data.into_bytes()[..].try_into().expect("eight bytes"))
}

fn is_busy(error: &Error) -> bool {
    match error {
        Error::Refused { status, .. } => *status == NfsStatus::Delay,
        Error::Connection(error) => error.asks_to_retry(),
        _ => false,
    }
}

#[async_trait]
impl Contender for PairClient {
    type Model = Pair;

    fn choose(&mut self, random: &mut Random) -> Call {
        let which = random.below(2) as usize;
        match random.below(if self.open.is_some() { 20 } else { 10 }) {
            0..2 => Call::Write(which, self.new_value()),
            2..4 => Call::ReadBoth,
            4..6 => Call::Exchange([self.new_value(), self.new_value()]),
            _ => Call::Read(which),
        }
    }

    async fn ask(&mut self, call: &Call) -> Option<Answer> {
        let values = match *call {
            Call::Write(which, value) => {
                return match self.client.vwrite(vec![self.write(which, value)]).await {
                    Ok(written) => {
                        assert_eq!(written, [8]);
                        Some(Answer::Done)
                    }
                    Err(failure) if failure.unknown > 0 => None,
                    Err(failure) => panic!("{failure}"),
                };
            }
            Call::Read(which) => {
                let read = Read::new(self.target(which).await, 0, 8);
                return Some(Answer::One(number(self.client.vread(vec![read]).await.unwrap().remove(0))));
            }
            Call::ReadBoth => None,
            Call::Exchange(values) => Some(values),
        };
        let mut tickets = Vec::new();
        let done = self.client.transaction(|transaction| {
            for which in 0..2 {
                tickets.push(transaction.read(self.read(which)));
                if let Some(values) = values {
                    transaction.write(self.write(which, values[which]));
                }
            }
        });
        let done = done.await;
        match done {
            Ok(mut done) => {
                let mut numbers = tickets.iter().map(|ticket| number(done.get(ticket).unwrap()));
                Some(Answer::Both([numbers.next().unwrap(), numbers.next().unwrap()]))
            }
            Err(aborted) if aborted.unknown => None,
            Err(aborted) if is_busy(&aborted.error) => Some(Answer::Busy),
            Err(aborted) => panic!("{aborted}"),
        }
    }
}

/// What was recorded of real clients, with one number that was overwritten before it was read, is not taken.
pub fn notices_a_stale_read(mut history: History<Pair>) {
    let ended = |at: usize| match &history[at].end {
        End::Answered { at, .. } => Some(*at),
        End::Lost { .. } => None,
    };
    // The last read of a number after which a write of another one has begun and ended since it was written.
    let stale = (0..history.len()).rev().find_map(|read| {
        let Call::Read(which) = history[read].call else { return None };
        ended(read)?;
        let writes = (0..history.len()).filter_map(|at| match history[at].call {
            Call::Write(written, value) if written == which => Some((at, value, ended(at)?)),
            _ => None,
        });
        let writes: Vec<_> = writes.collect();
        let before = writes.iter().filter(|(_, _, end)| *end < history[read].called);
        let newer = before.max_by_key(|(at, ..)| history[*at].called)?;
        let older = writes.iter().find(|(_, _, end)| *end < history[newer.0].called)?;
        Some((read, older.1))
    });
    let (read, value) = stale.expect("a read after two writes");
    if let End::Answered { answer, .. } = &mut history[read].end {
        *answer = Answer::One(value);
    }
    assert!(matches!(check(&Pair, &history), Err(Failure::Violation(_))), "a stale read was taken");
}

mod tests {
    use super::*;
    use crate::contest::tests::{one_after_the_other, violates};

    #[test]
    fn an_old_number_is_found() {
        let history = [
            (Call::Write(0, 1), Answer::Done),
            (Call::Write(0, 2), Answer::Done),
            (Call::Read(0), Answer::One(1)),
        ];
        violates(&Pair, one_after_the_other(history), 2);
    }

    #[test]
    fn a_lost_update_is_found() {
        let history =
            [(Call::Exchange([1, 2]), Answer::Both([0, 0])), (Call::Exchange([3, 4]), Answer::Both([0, 0]))];
        violates(&Pair, one_after_the_other(history), 1);
    }

    #[test]
    fn half_of_a_transaction_is_found() {
        let history =
            [(Call::Exchange([1, 2]), Answer::Both([0, 0])), (Call::ReadBoth, Answer::Both([1, 0]))];
        violates(&Pair, one_after_the_other(history), 1);
    }
}
