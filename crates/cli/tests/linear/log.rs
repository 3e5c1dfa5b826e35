//! A file that is appended to, and read whole.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use linearizable::Model;
use vector_client::{Client, Read, TO_END, Write};

use crate::contest::{Contender, Expects};
use crate::support::{self, Random};
use crate::world::World;

const CLIENTS: usize = 4;
/// Bytes of a record: its number again and again, so that half a record is noticed.
const RECORD: usize = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Append(u64),
    Read,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Done,
    Content(Content),
}

/// What is in the file, in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Content {
    records: usize,
    last: u64,
    /// Of all before the last.
    digest: u64,
}

impl Content {
    fn and(self, record: u64) -> Content {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        Content { records: self.records + 1, last: record, digest: hasher.finish() }
    }
}

#[derive(Clone)]
pub struct Log;

impl Model for Log {
    type State = Content;
    type Call = Call;
    type Answer = Answer;

    fn start(&self) -> Content {
        Content::default()
    }

    fn step(&self, state: &Content, call: &Call, answer: Option<&Answer>) -> Option<Content> {
        let (right, after) = match call {
            Call::Append(record) => (Answer::Done, state.and(*record)),
            Call::Read => (Answer::Content(*state), *state),
        };
        answer.is_none_or(|answer| *answer == right).then_some(after)
    }

    fn only_looks(&self, call: &Call, _: &Answer) -> bool {
        *call == Call::Read
    }
}

impl Expects for Log {
    const EXPECTED: &'static [(&'static str, &'static str)] = &[("Append", "Done"), ("Read", "Content")];
}

pub struct LogClient {
    client: Client,
    path: String,
    number: usize,
    appended: u64,
}

/// The clients, with a new file of this name. Every second one keeps what it has read.
pub async fn clients(world: &Arc<World>, maker: &support::Client, name: &str) -> Vec<LogClient> {
    maker.write(name, &Bytes::new()).await;
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let cache_bytes = if number % 2 == 0 { 0 } else { 1 << 20 };
        let client = world.connect_vectors(&format!("{name}, client {number}"), cache_bytes).await;
        clients.push(LogClient { client, path: format!("/home/{name}"), number, appended: 0 });
    }
    clients
}

#[async_trait]
impl Contender for LogClient {
    type Model = Log;

    fn choose(&mut self, random: &mut Random) -> Call {
        if random.percent(50) {
            return Call::Read;
        }
        self.appended += 1;
        Call::Append(self.appended * CLIENTS as u64 + self.number as u64)
    }

    async fn ask(&mut self, call: &Call) -> Option<Answer> {
        match call {
            Call::Append(record) => {
                let data = record.to_le_bytes().repeat(RECORD / 8);
                let write = Write { stable: true, ..Write::append(self.path.as_str(), data) };
                match self.client.vwrite(vec![write]).await {
                    Ok(written) => assert_eq!(written, [RECORD as u64]),
                    Err(failure) if failure.unknown > 0 => return None,
                    Err(failure) => panic!("{failure}"),
                }
                Some(Answer::Done)
            }
            Call::Read => {
                let read = Read::new(self.path.as_str(), 0, TO_END);
                let data = self.client.vread(vec![read]).await.unwrap().remove(0).into_bytes();
                let content = data.chunks(RECORD).fold(Content::default(), |content, record| {
                    let mut numbers = record.chunks(8);
                    let first = numbers.next().unwrap();
                    assert!(record.len() == RECORD && numbers.all(|other| other == first), "half a record");
                    content.and(u64::from_le_bytes(first.try_into().unwrap()))
                });
                Some(Answer::Content(content))
            }
        }
    }
}

mod tests {
    use super::*;
    use crate::contest::tests::{one_after_the_other, violates};

    fn seen(records: &[u64]) -> Answer {
        Answer::Content(records.iter().fold(Content::default(), |content, record| content.and(*record)))
    }

    #[test]
    fn a_record_that_is_lost_is_found() {
        let history =
            [(Call::Append(1), Answer::Done), (Call::Append(2), Answer::Done), (Call::Read, seen(&[2]))];
        violates(&Log, one_after_the_other(history), 2);
    }

    #[test]
    fn records_in_another_order_are_found() {
        let history =
            [(Call::Append(1), Answer::Done), (Call::Append(2), Answer::Done), (Call::Read, seen(&[2, 1]))];
        violates(&Log, one_after_the_other(history), 2);
    }
}
