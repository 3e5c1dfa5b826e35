//! The locks of a file: ranges that several owners lock for reading or writing without waiting, ask about, and unlock.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use linearizable::Model;
use nfs4::bits::share_access;
use nfs4::{LockTestArgs, LockTestRes, LockType, NfsArgOp, NfsResOp, NfsStatus, OpenHow, StateOwner};
use nfs4_client::operations::{self, put_handle};
use nfs4_client::{Client, ClientError, OpenState};

use crate::contest::{Contender, Expects};
use crate::support::{self, Random};
use crate::world::{World, unless_lost};

/// Ranges begin and end at multiples of this.
const UNIT: u64 = 10;
const UNITS: usize = 4;
const CLIENTS: usize = 4;

/// What a client has of each unit.
type Held = [Option<Kind>; UNITS];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Read,
    Write,
}

/// Units from one up to another, that one excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    from: usize,
    to: usize,
}

impl Range {
    fn offset(self) -> u64 {
        self.from as u64 * UNIT
    }

    fn length(self) -> u64 {
        (self.to - self.from) as u64 * UNIT
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Lock(usize, Range, Kind),
    Unlock(usize, Range),
    Test(usize, Range, Kind),
    /// The server has died, and of this client this will be reclaimed.
    Reclaim(usize, Held),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Done,
    Denied,
    Free,
    /// This one has this lock.
    Locked(usize, Range, Kind),
}

#[derive(Clone)]
pub struct Locks;

impl Locks {
    /// Whether somebody else has something in the range that this does not go together with.
    fn is_denied(held: &[Held; CLIENTS], client: usize, range: Range, kind: Kind) -> bool {
        let others = held.iter().enumerate().filter(|(other, _)| *other != client);
        let mut units = others.flat_map(|(_, held)| held[range.from..range.to].iter().flatten());
        units.any(|other| kind == Kind::Write || *other == Kind::Write)
    }
}

impl Model for Locks {
    type State = [Held; CLIENTS];
    type Call = Call;
    type Answer = Answer;

    fn start(&self) -> Self::State {
        [[None; UNITS]; CLIENTS]
    }

    fn step(&self, state: &Self::State, call: &Call, answer: Option<&Answer>) -> Option<Self::State> {
        let mut after = *state;
        let is_right = match *call {
            Call::Lock(client, range, kind) if Locks::is_denied(state, client, range, kind) => {
                answer == Some(&Answer::Denied)
            }
            Call::Lock(client, range, kind) => {
                after[client][range.from..range.to].fill(Some(kind));
                answer == Some(&Answer::Done)
            }
            Call::Unlock(client, range) => {
                after[client][range.from..range.to].fill(None);
                answer == Some(&Answer::Done)
            }
            Call::Test(client, range, kind) => match answer {
                Some(Answer::Locked(other, at, locked)) => {
                    let overlap = Range { from: range.from.max(at.from), to: range.to.min(at.to) };
                    overlap.from < overlap.to
                        && *other != client
                        && (kind == Kind::Write || *locked == Kind::Write)
                        && state[*other][at.from..at.to].iter().all(|unit| unit == &Some(*locked))
                }
                _ => answer == Some(&Answer::Free) && !Locks::is_denied(state, client, range, kind),
            },
            Call::Reclaim(client, held) => {
                after[client] = held;
                true
            }
        };
        (answer.is_none() || is_right).then_some(after)
    }

    fn only_looks(&self, call: &Call, answer: &Answer) -> bool {
        matches!(call, Call::Test(..)) || *answer == Answer::Denied
    }
}

impl Expects for Locks {
    const EXPECTED: &'static [(&'static str, &'static str)] =
        &[("Lock", "Done"), ("Lock", "Denied"), ("Unlock", "Done"), ("Test", "Free"), ("Test", "Locked")];
}

pub struct LockClient {
    client: Client,
    open: Arc<OpenState>,
    number: usize,
    held: Held,
}

/// The clients, with a new file of this name.
pub async fn clients(world: &Arc<World>, maker: &support::Client, name: &str) -> Vec<LockClient> {
    maker.write(name, &Bytes::new()).await;
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let client = world.connect(&format!("{name}, client {number}")).await;
        let access = share_access::BOTH | share_access::WANT_NO_DELEG;
        let opened = client.open_file(&maker.home, name, access, OpenHow::NoCreate, owner(number)).await;
        clients.push(LockClient { client, open: opened.unwrap(), number, held: [None; UNITS] });
    }
    clients
}

fn owner(number: usize) -> StateOwner {
    operations::owner(format!("{number}"))
}

impl LockClient {
    async fn test(&self, range: Range, kind: Kind) -> Result<Answer, ClientError> {
        let test = NfsArgOp::LockTest(LockTestArgs {
            lock_type: lock_type(kind),
            offset: range.offset(),
            length: range.length(),
            owner: owner(self.number),
        });
        let reply = self.client.compound(&[put_handle(self.open.handle()), test]).await?;
        let denied = match reply.results.last() {
            Some(NfsResOp::LockTest(LockTestRes::Ok)) => return Ok(Answer::Free),
            Some(NfsResOp::LockTest(LockTestRes::Denied(denied))) => denied,
            other => panic!("{other:?}"),
        };
        let number = std::str::from_utf8(&denied.owner.owner[..]).unwrap().parse().unwrap();
        assert!(denied.offset.is_multiple_of(UNIT) && denied.length.is_multiple_of(UNIT), "{denied:?}");
        let from = (denied.offset / UNIT) as usize;
        let at = Range { from, to: from + (denied.length / UNIT) as usize };
        Ok(Answer::Locked(number, at, if denied.lock_type.is_write() { Kind::Write } else { Kind::Read }))
    }
}

fn lock_type(kind: Kind) -> LockType {
    match kind {
        Kind::Read => LockType::Read,
        Kind::Write => LockType::Write,
    }
}

#[async_trait]
impl Contender for LockClient {
    type Model = Locks;

    fn choose(&mut self, random: &mut Random) -> Call {
        let from = random.below(UNITS as u64) as usize;
        let to = from + 1 + random.below((UNITS - from) as u64).min(1) as usize;
        let range = Range { from, to };
        let kind = if random.percent(50) { Kind::Read } else { Kind::Write };
        // Whoever has much gives some of it up.
        let has = self.held.iter().flatten().count();
        match random.below(8) {
            0 | 1 => Call::Test(self.number, range, kind),
            2..5 if has < 2 => Call::Lock(self.number, range, kind),
            2 => Call::Lock(self.number, range, kind),
            _ if has > 0 => Call::Unlock(self.number, range),
            _ => Call::Lock(self.number, range, kind),
        }
    }

    async fn ask(&mut self, call: &Call) -> Option<Answer> {
        let owner = owner(self.number);
        let (range, kind, result) = match *call {
            Call::Test(_, range, kind) => return Some(self.test(range, kind).await.unwrap()),
            Call::Lock(_, range, kind) => {
                let (offset, length) = (range.offset(), range.length());
                let locked = self.client.lock(&self.open, &owner, lock_type(kind), offset, length).await;
                (range, Some(kind), locked)
            }
            Call::Unlock(_, range) => {
                let unlocked = self.client.unlock(&self.open, &owner, range.offset(), range.length()).await;
                (range, None, unlocked)
            }
            Call::Reclaim(..) => unreachable!("nobody chooses that"),
        };
        match unless_lost(result)? {
            Ok(()) => {
                self.held[range.from..range.to].fill(kind);
                Some(Answer::Done)
            }
            Err(ClientError::Operation { status: NfsStatus::Denied, .. }) => Some(Answer::Denied),
            Err(error) => panic!("{call:?}: {error}"),
        }
    }

    /// If it was granted, nobody knows of it any more: it is not reclaimed, nor is more than it asked for.
    fn amends(&mut self, call: &Call) -> Option<(Call, Answer)> {
        let Call::Lock(_, range, kind) = *call else { panic!("the answer to {call:?} is lost") };
        if kind == Kind::Read {
            self.held[range.from..range.to].iter_mut().flatten().for_each(|held| *held = kind);
        }
        Some((Call::Reclaim(self.number, self.held), Answer::Done))
    }
}

mod tests {
    use super::*;
    use crate::contest::tests::{one_after_the_other, violates};

    const LEFT: Range = Range { from: 0, to: 2 };
    const RIGHT: Range = Range { from: 1, to: 3 };

    #[test]
    fn two_who_have_what_is_one_s_are_found() {
        let history = [
            (Call::Lock(0, LEFT, Kind::Write), Answer::Done),
            (Call::Lock(1, RIGHT, Kind::Read), Answer::Done),
        ];
        violates(&Locks, one_after_the_other(history), 1);
    }

    #[test]
    fn a_lock_that_was_given_up_and_is_still_in_the_way_is_found() {
        let history = [
            (Call::Lock(0, LEFT, Kind::Write), Answer::Done),
            (Call::Unlock(0, LEFT), Answer::Done),
            (Call::Test(1, RIGHT, Kind::Read), Answer::Locked(0, LEFT, Kind::Write)),
        ];
        violates(&Locks, one_after_the_other(history), 2);
    }

    #[test]
    fn a_denial_without_a_reason_is_found() {
        let history = [
            (Call::Lock(0, LEFT, Kind::Read), Answer::Done),
            (Call::Lock(1, RIGHT, Kind::Read), Answer::Denied),
        ];
        violates(&Locks, one_after_the_other(history), 1);
    }

    #[test]
    fn a_lock_that_did_not_come_back_after_a_restart_is_found() {
        let history = [
            (Call::Lock(0, LEFT, Kind::Write), Answer::Done),
            (Call::Test(1, LEFT, Kind::Write), Answer::Free),
        ];
        violates(&Locks, one_after_the_other(history), 1);
    }
}
