//! What to do next: mostly something that makes sense, now and then something that does not.

use std::time::Duration;

use nfs4::bits::share_access;
use nfs4::{ClientId, DelegationType, SessionId, StateId};

use crate::random::Random;
use crate::run::{FILES, Machine, SLOTS};
use crate::specification::{BYTES, Client, File, Other, Specification};
use crate::step::{By, Claim, Entry, Op, Step};

pub struct Choices<'a> {
    pub random: &'a mut Random,
    pub now: &'a Specification,
    pub machines: &'a [Machine],
}

/// What a state id is to name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Open,
    Lock,
    Delegation,
    /// Any of these, or what stands for none.
    Any,
}

impl Choices<'_> {
    pub fn step(&mut self) -> Step {
        let machine = self.below(self.machines.len());
        match self.random.below(1000) {
            0..4 => Step::Restart,
            4..34 => {
                Step::Pass(Duration::from_secs(self.pick(&[1, 1, 10, 10, 40, 40, 60, 95, 95, 300, 1100])))
            }
            34..48 => Step::Reconnect { machine },
            48..70 => Step::Conflicts(1 + self.random.below(3) as u32),
            70..85 => self.exchange_id(machine),
            85..100 => self.create_session(machine),
            100..115 => Step::DestroySession {
                machine,
                session: self.any_session(machine),
                stranger: self.percent(10),
            },
            115..125 => {
                Step::DestroyClient { machine, client: self.any_client(machine), stranger: self.percent(20) }
            }
            125..150 => Step::Bind { machine, session: self.any_session(machine) },
            150..220 => {
                let (session, slot) = (self.any_session(machine), self.slot());
                Step::Repeat { machine, session, slot, altered: self.percent(25) }
            }
            _ => self.useful(machine),
        }
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.random.percent(percent)
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn slot(&mut self) -> u32 {
        self.random.below(SLOTS.into()) as u32
    }

    /// The start of the machine that has sessions, or could.
    fn client(&self, machine: usize) -> Option<&Client> {
        self.now.incarnation(&self.machines[machine].name, true)
    }

    fn sessions(&self, client: ClientId) -> Vec<SessionId> {
        let sessions = self.now.sessions.iter().filter(|(_, session)| session.client == client);
        sessions.map(|(id, _)| *id).collect()
    }

    /// One that the machine has or had, or nobody ever had.
    fn any_session(&mut self, machine: usize) -> SessionId {
        let known = &self.machines[machine].sessions;
        match (known.last(), self.random.below(10)) {
            (None, _) | (_, 0) => SessionId([9; 16]),
            (Some(_), 1..4) => self.pick(known),
            (Some(last), _) => *last,
        }
    }

    fn any_client(&mut self, machine: usize) -> ClientId {
        let known = &self.machines[machine].clients;
        match (known.last(), self.random.below(10)) {
            (None, _) | (_, 0) => ClientId(9),
            (Some(_), 1..4) => self.pick(known),
            (Some(last), _) => *last,
        }
    }

    fn exchange_id(&mut self, machine: usize) -> Step {
        let (reboot, update, stranger) = (self.percent(20), self.percent(25), self.percent(15));
        Step::ExchangeId { machine, reboot, update, stranger }
    }

    fn create_session(&mut self, machine: usize) -> Step {
        let client = self.any_client(machine);
        let created = self.now.clients.get(&client).map_or(0, |client| client.created);
        let sequence = created + self.pick(&[0, 1, 1, 1, 2]);
        Step::CreateSession { machine, client, sequence, stranger: self.percent(10) }
    }

    /// A step of a client that wants to get on.
    fn useful(&mut self, machine: usize) -> Step {
        let name = &self.machines[machine].name;
        let waiting = self.now.incarnation(name, false);
        if let Some(client) = waiting.or(self.client(machine))
            && (waiting.is_some() || self.sessions(client.id).is_empty())
        {
            let (id, sequence) = (client.id, client.created + 1);
            return match self.percent(if self.now.holds_something(id) { 2 } else { 15 }) {
                true => Step::DestroyClient { machine, client: id, stranger: false },
                false => Step::CreateSession { machine, client: id, sequence, stranger: false },
            };
        }
        let Some(client) = self.client(machine).map(|client| client.id) else {
            let reboot = self.percent(30);
            return Step::ExchangeId { machine, reboot, update: false, stranger: false };
        };
        let sessions = self.sessions(client);
        let wants_to_go = !self.now.holds_something(client) && self.percent(4);
        if sessions.len() > 2 || wants_to_go {
            let session = self.pick(&sessions);
            return Step::DestroySession { machine, session, stranger: false };
        }
        let session = if self.percent(95) { self.pick(&sessions) } else { self.any_session(machine) };
        let entry = match self.random.below(60) {
            0 => Entry::Misordered(1 + self.random.below(5) as u32),
            1 => Entry::Misordered(u32::MAX - 1 - self.random.below(5) as u32),
            2 => Entry::BadSlot,
            _ => Entry::Next,
        };
        let (slot, file) = (self.slot(), self.file_for(client));
        let count = if self.percent(30) { 2 + self.below(3) } else { 1 };
        let ops = (0..count).map(|index| self.op(machine, client, file, index > 0)).collect();
        Step::Compound { machine, session, slot, entry, file, ops }
    }

    /// Sooner one that is wanted back by somebody.
    fn file_for(&mut self, client: ClientId) -> File {
        let wanted = self.now.delegations.values();
        let wanted = wanted.filter(|held| held.client == client && held.recalled.is_some());
        match wanted.map(|held| held.file).next() {
            Some(file) if self.percent(40) => file,
            _ => self.below(FILES.len()),
        }
    }

    fn is_recalled(&self, client: ClientId, file: File) -> bool {
        let mut held = self.now.delegations.values();
        held.any(|held| held.client == client && held.file == file && held.recalled.is_some())
    }

    fn op(&mut self, machine: usize, client: ClientId, file: File, has_current: bool) -> Op {
        if !self.now.clients[&client].reclaim_complete && self.percent(75) {
            return match self.random.below(10) {
                0..3 => Op::ReclaimComplete,
                3..7 => {
                    let kind = self.pick(&[
                        DelegationType::None,
                        DelegationType::None,
                        DelegationType::Read,
                        DelegationType::Write,
                    ]);
                    self.open(Claim::Previous(kind))
                }
                _ => self.lock(machine, client, file, has_current, true),
            };
        }
        let id = |choices: &mut Self, kind| choices.id(machine, client, file, kind, has_current);
        match self.random.below(100) {
            0..26 => {
                let claim = match self.random.below(10) {
                    0..5 => Claim::Handle,
                    5..9 => Claim::Name,
                    _ => Claim::Delegation(id(self, Kind::Delegation)),
                };
                self.open(claim)
            }
            26..31 => {
                let (access, deny) = self.share();
                Op::Downgrade { id: id(self, Kind::Open), access, deny }
            }
            31..42 => Op::Close(id(self, Kind::Open)),
            42..58 => {
                let reclaim = self.percent(3);
                self.lock(machine, client, file, has_current, reclaim)
            }
            58..63 => {
                let (offset, length) = self.range();
                Op::TestLock { owner: self.name(), exclusive: self.percent(50), offset, length }
            }
            63..70 => {
                let (offset, length) = self.range();
                Op::Unlock { id: id(self, Kind::Lock), offset, length }
            }
            70..75 => {
                let kind = self.pick(&[Kind::Lock, Kind::Lock, Kind::Delegation, Kind::Any]);
                Op::Free(id(self, kind))
            }
            75..78 => Op::Test(
                [Kind::Open, Kind::Lock, Kind::Delegation, Kind::Any].map(|kind| id(self, kind)).into(),
            ),
            78..83 => Op::Read(id(self, Kind::Any)),
            // A server that looks ahead sees this one although one before it has to wait, and takes it for a sign of life.
            83..88 if has_current && self.is_recalled(client, file) => Op::Read(id(self, Kind::Any)),
            83..88 => Op::Write(id(self, Kind::Any)),
            88..92 => Op::SetMode,
            92..99 => Op::Return(id(self, Kind::Delegation)),
            _ => Op::ReclaimComplete,
        }
    }

    fn name(&mut self) -> u8 {
        b'm' + self.random.below(2) as u8
    }

    /// Access and deny; sometimes none that there is.
    fn share(&mut self) -> (u32, u32) {
        let access = self.pick(&[1, 1, 1, 2, 3, 3]);
        let deny = if self.percent(80) { 0 } else { self.random.below(4) as u32 };
        match self.random.below(100) {
            0 => (0, deny),
            1 => (access, 4),
            _ => (access, deny),
        }
    }

    fn open(&mut self, claim: Claim) -> Op {
        let (access, deny) = self.share();
        let wish = self.pick(&[
            share_access::WANT_NO_PREFERENCE,
            share_access::WANT_NO_PREFERENCE,
            share_access::WANT_READ_DELEG,
            share_access::WANT_WRITE_DELEG,
            share_access::WANT_ANY_DELEG,
            share_access::WANT_NO_DELEG,
        ]);
        let instead = if self.percent(10) { share_access::WANT_OPEN_XOR_DELEGATION } else { 0 };
        Op::Open { owner: self.name(), access: access | wish | instead, deny, claim }
    }

    fn lock(&mut self, machine: usize, client: ClientId, file: File, has_current: bool, reclaim: bool) -> Op {
        let by = match self.percent(60) {
            true => By::Open(self.id(machine, client, file, Kind::Open, has_current), self.name()),
            false => By::Lock(self.id(machine, client, file, Kind::Lock, has_current)),
        };
        let (exclusive, waits) = (self.percent(50), self.percent(40));
        let (offset, length) = self.range();
        Op::Lock { by, exclusive, waits, reclaim, offset, length }
    }

    fn range(&mut self) -> (u64, u64) {
        let offset = self.random.below(BYTES);
        match self.random.below(20) {
            0 => (offset, 0),
            1 => (offset + 2, u64::MAX - 1),
            2..6 => (offset, u64::MAX),
            6 => (0, u64::MAX),
            _ => (offset, 1 + self.random.below(BYTES - offset)),
        }
    }

    fn id(&mut self, machine: usize, client: ClientId, file: File, kind: Kind, has_current: bool) -> StateId {
        if has_current && self.percent(30) {
            return StateId::CURRENT;
        }
        if self.percent(12) {
            return self.odd_id(machine);
        }
        let all = self.named();
        let fits = |(_, whose, at, what): &(StateId, ClientId, File, Kind)| {
            *whose == client && *at == file && (kind == *what || kind == Kind::Any)
        };
        let good: Vec<StateId> = all.iter().filter(|named| fits(named)).map(|(id, ..)| *id).collect();
        match kind {
            Kind::Any if good.is_empty() || self.percent(25) => {
                self.pick(&[StateId::ANONYMOUS, StateId::ANONYMOUS, StateId::READ_BYPASS])
            }
            _ if good.is_empty() => self.odd_id(machine),
            _ => {
                let id = self.pick(&good);
                if self.percent(25) { id.newest() } else { id }
            }
        }
    }

    /// One of anybody, of anything, from any time; or one that nothing ever had.
    fn odd_id(&mut self, machine: usize) -> StateId {
        let all = self.named();
        let given = &self.machines[machine].given;
        let id = match self.random.below(4) {
            0 if !all.is_empty() => self.pick(&all).0,
            1 | 2 if !given.is_empty() => given[self.below(given.len())],
            _ => self.pick(&[
                StateId::INVALID,
                StateId::CURRENT,
                StateId { seqid: 1, other: [7; 12] },
                StateId { seqid: 7, other: [0; 12] },
                StateId { seqid: 7, other: [0xff; 12] },
            ]),
        };
        match self.random.below(8) {
            0 => StateId { seqid: id.seqid.saturating_add(1), ..id },
            1 => StateId { seqid: id.seqid.saturating_sub(1), ..id },
            _ => id,
        }
    }

    fn named(&self) -> Vec<(StateId, ClientId, File, Kind)> {
        let name = |other: &Other, seqid| StateId { seqid, other: *other };
        let opens = self.now.opens.iter();
        let opens = opens.map(|(other, it)| (name(other, it.seqid), it.client, it.file, Kind::Open));
        let locks = self.now.locks.states.iter();
        let locks = locks.map(|(other, it)| (name(other, it.seqid), it.client, it.file, Kind::Lock));
        let held = self.now.delegations.iter();
        let held = held.map(|(other, it)| (name(other, it.seqid), it.client, it.file, Kind::Delegation));
        opens.chain(locks).chain(held).collect()
    }
}
