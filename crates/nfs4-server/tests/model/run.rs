//! Doing what was chosen, and holding what comes of it against the specification.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use nfs4::bits::{create_session, exchange_id, sequence_status};
use nfs4::{
    BindConnToSessionArgs, CallbackSecParms, ChannelAttrs, ChannelDirFromClient, ClientId, ClientOwner,
    CompoundRes, CreateSessionArgs, DestroyClientIdArgs, DestroySessionArgs, ExchangeIdArgs, FileHandle,
    LockRes, LockTestRes, NfsArgOp, NfsCbArgOp, NfsResOp, NfsStatus, Outcome, OwnerName, SequenceArgs,
    SessionId, StateId, StateProtectArgs, Verifier,
};
use nfs4_client::operations::put_handle;

use crate::choices::Choices;
use crate::history::History;
use crate::random::Random;
use crate::specification::{CreatedSession, File, Presented, Specification, Verdict};
use crate::step::{Claim, Entry, Op, Step};
use crate::wire::{CALLBACK_PROGRAM, Wire};
use crate::world::{COURTESY, LEASE, World};

pub const FILES: [&str; 3] = ["a", "b", "c"];
const MACHINES: usize = 4;
pub const SLOTS: u32 = 3;

/// State ids that each client remembers, good or not.
const REMEMBERED: usize = 64;

/// Who owns the clients, and who does not.
const OWNER: u32 = 0;
const STRANGER: u32 = 7;

/// A client, over all its starts.
pub struct Machine {
    pub name: Vec<u8>,
    pub boot: u8,
    minor_version: u32,
    wire: Option<Wire>,
    /// The last request of each slot.
    pub sent: BTreeMap<(SessionId, u32), Sent>,
    /// State ids it was ever given, newest last.
    pub given: VecDeque<StateId>,
    /// Sessions and client ids it ever had.
    pub sessions: Vec<SessionId>,
    pub clients: Vec<ClientId>,
}

pub struct Sent {
    operations: Vec<NfsArgOp>,
    sequence: SequenceArgs,
    reply: Bytes,
}

pub struct Run {
    random: Random,
    world: World,
    specification: Specification,
    machines: Vec<Machine>,
    root: FileHandle,
    files: Vec<FileHandle>,
    connections: u64,
    pub history: History,
}

impl Run {
    pub async fn begin(random: Random) -> Run {
        let world = World::start(&FILES).await;
        let config = nfs4_client::Config::new("setup", [1; 8]);
        let session = nfs4_client::Session::connect(world.address(), config, None).await.unwrap();
        let root = session.lookup(&["home"]).await.unwrap();
        let mut files = Vec::new();
        for name in FILES {
            files.push(session.lookup(&["home", name]).await.unwrap());
        }
        session.destroy_client().await.unwrap();
        let machine = |number: usize| Machine {
            name: format!("machine {number}").into_bytes(),
            boot: 0,
            minor_version: 1 + number as u32 % 2,
            wire: None,
            sent: BTreeMap::new(),
            given: VecDeque::new(),
            sessions: Vec::new(),
            clients: Vec::new(),
        };
        let specification = Specification { now: world.now(), ..Specification::default() };
        let machines = (0..MACHINES).map(machine).collect();
        let history = History::default();
        Run { random, world, specification, machines, root, files, connections: 0, history }
    }

    pub async fn step(&mut self) {
        let step =
            Choices { random: &mut self.random, now: &self.specification, machines: &self.machines }.step();
        self.history.note(format!("{step:?}"));
        match step {
            Step::ExchangeId { machine, reboot, update, stranger } => {
                self.exchange_id(machine, reboot, update, user(stranger)).await;
            }
            Step::CreateSession { machine, client, sequence, stranger } => {
                self.create_session(machine, client, sequence, user(stranger)).await;
            }
            Step::DestroySession { machine, session, stranger } => {
                self.destroy_session(machine, session, user(stranger)).await;
            }
            Step::DestroyClient { machine, client, stranger } => {
                self.destroy_client(machine, client, user(stranger)).await;
            }
            Step::Bind { machine, session } => self.bind(machine, session).await,
            Step::Compound { machine, session, slot, entry, file, ops } => {
                self.compound(machine, session, slot, entry, file, ops).await;
            }
            Step::Repeat { machine, session, slot, altered } => {
                self.repeat(machine, session, slot, altered).await;
            }
            Step::Reconnect { machine } => {
                if let Some(wire) = self.machines[machine].wire.take() {
                    wire.close();
                    self.specification.connection_lost(wire.number);
                }
            }
            Step::Conflicts(count) => self.world.volume.refuse_commits(count),
            Step::Pass(time) => {
                self.world.pass(time).await;
                let passed = self.specification.pass(time, self.world.census().in_grace);
                if passed.revoked > 0 {
                    self.history.add(&format!("{} revoked", passed.revoked));
                    self.history.count_event("a delegation was revoked");
                }
                if passed.forgotten > 0 {
                    self.history.count_event("a client was silent for too long");
                }
            }
            Step::Restart => {
                self.world.restart().await;
                let records = self.world.records().await.into_iter().collect();
                if let Err(why) = self.specification.restart(records) {
                    self.fail(&why);
                }
                self.machines.iter_mut().for_each(|machine| machine.wire = None);
                self.history.count_event("the server restarted");
            }
        }
        self.hear().await;
        self.check_census();
        self.check_records().await;
    }

    /// Everybody falls silent: nothing may be left.
    pub async fn end(&mut self) {
        self.history.note("all are silent".to_owned());
        let long = LEASE + COURTESY + std::time::Duration::from_secs(1);
        self.world.pass(long).await;
        self.specification.pass(long, false);
        self.check_census();
        let census = self.world.census();
        if census != Default::default() {
            self.history.fail(&format!("something is left: {census:?}"));
        }
        self.check_records().await;
    }

    /// With everything that should be.
    fn fail(&self, why: &str) -> ! {
        let right = &self.specification;
        let (clients, opens, held) = (&right.clients, &right.opens, &right.delegations);
        self.history.fail(&format!("{why}\nat {:?}\n{clients:#?}\n{opens:#?}\n{held:#?}", right.now))
    }

    fn check_census(&self) {
        let (census, right) = (self.world.census(), &self.specification);
        let here = [census.clients, census.sessions, census.opens, census.lock_owners, census.delegations];
        let there = [
            right.clients.len(),
            right.sessions.len(),
            right.opens.len(),
            right.locks.states.len(),
            right.delegations.len(),
        ];
        if here != there || census.in_grace != right.grace.is_some() {
            let grace = right.grace.is_some();
            self.history.fail(&format!("{census:?} instead of {there:?}, grace {grace}"));
        }
    }

    async fn check_records(&self) {
        let records: BTreeSet<Vec<u8>> = self.world.records().await.into_iter().collect();
        if let Err(why) = self.specification.check_records(&records) {
            self.fail(&why);
        }
    }

    async fn wire(&mut self, machine: usize) -> &mut Wire {
        let machine = &mut self.machines[machine];
        if machine.wire.is_none() {
            self.connections += 1;
            machine.wire = Some(Wire::connect(self.world.address(), self.connections).await);
        }
        machine.wire.as_mut().expect("just connected")
    }

    /// Sends one operation alone.
    async fn alone(&mut self, machine: usize, user: u32, operation: NfsArgOp) -> (NfsResOp, u64) {
        let minor_version = self.machines[machine].minor_version;
        let wire = self.wire(machine).await;
        let reply = wire.send(user, minor_version, &[operation]).await;
        let number = wire.number;
        let mut reply: CompoundRes = xdr::from_bytes(reply).unwrap();
        (reply.results.pop().expect("one result"), number)
    }

    fn check(&mut self, what: &'static str, verdict: &Verdict, status: NfsStatus) -> bool {
        self.history.count(what, status);
        self.history.add(&format!("{what} {status:?}"));
        if !verdict.allows(status) {
            self.fail(&format!("{what}: {status:?}, reasons to refuse it: {:?}", verdict.reasons()));
        }
        status.is_ok()
    }

    /// Who of these expired clients has been forgotten: asked so that it changes nothing.
    async fn forget_who_is_gone(&mut self, machine: usize, expired: BTreeSet<ClientId>) {
        for client in expired {
            let sequence = self.specification.clients[&client].created + 1000;
            let operation = NfsArgOp::CreateSession(session_arguments(client, sequence));
            let (result, _) = self.alone(machine, OWNER, operation).await;
            match result.status() {
                NfsStatus::SeqMisordered => {}
                NfsStatus::StaleClientId => {
                    self.specification.forget(client);
                    self.history.count_event("a client was forgotten because another wanted something");
                }
                status => self.history.fail(&format!("asked whether {client:?} is there: {status:?}")),
            }
        }
    }

    async fn exchange_id(&mut self, machine: usize, reboot: bool, update: bool, user: u32) {
        let boot = self.machines[machine].boot.wrapping_add(u8::from(reboot));
        self.machines[machine].boot = boot;
        let name = self.machines[machine].name.clone();
        let who = Presented { owner: &name, boot, user, update };
        let flags = if update { exchange_id::UPD_CONFIRMED_REC_A } else { 0 };
        let args = ExchangeIdArgs {
            client_owner: ClientOwner {
                verifier: Verifier([boot; 8]),
                owner_id: OwnerName::new(name.clone()).unwrap(),
            },
            flags: exchange_id::USE_NON_PNFS | flags,
            state_protect: StateProtectArgs::None,
            implementation: None,
        };
        let verdict = self.specification.judge_exchange(&who);
        let (result, _) = self.alone(machine, user, NfsArgOp::ExchangeId(args)).await;
        self.forget_who_is_gone(machine, verdict.in_the_way).await;
        let verdict = self.specification.judge_exchange(&who);
        if !self.check("EXCHANGE_ID", &verdict, result.status()) {
            return;
        }
        let NfsResOp::ExchangeId(Outcome::Ok(told)) = result else { self.history.fail("no EXCHANGE_ID") };
        match self.specification.exchange(&who, told.client) {
            Err(why) => self.history.fail(&why),
            Ok(client) => {
                let confirmed = told.flags & exchange_id::CONFIRMED_R != 0;
                if confirmed != client.confirmed || told.sequence_id != client.created + 1 {
                    self.history.fail(&format!("{told:?} of {client:?}"));
                }
            }
        }
        remember(&mut self.machines[machine].clients, told.client);
    }

    async fn create_session(&mut self, machine: usize, client: ClientId, sequence: u32, user: u32) {
        let verdict = self.specification.judge_create_session(client, sequence, user);
        let operation = NfsArgOp::CreateSession(session_arguments(client, sequence));
        let (result, connection) = self.alone(machine, user, operation).await;
        if !self.check("CREATE_SESSION", &verdict, result.status()) {
            return;
        }
        let NfsResOp::CreateSession(Outcome::Ok(made)) = result else {
            self.history.fail("no CREATE_SESSION")
        };
        let session = CreatedSession { session: made.session, slots: made.fore_channel.max_requests };
        if made.sequence_id != sequence {
            self.history.fail(&format!("another number than {sequence}: {made:?}"));
        }
        if let Err(why) = self.specification.create_session(client, sequence, user, session, connection) {
            self.history.fail(&why);
        }
        let machine = &mut self.machines[machine];
        remember(&mut machine.sessions, made.session);
        machine.sent.retain(|(session, _), _| machine.sessions.contains(session));
    }

    async fn destroy_session(&mut self, machine: usize, session: SessionId, user: u32) {
        let connection = self.wire(machine).await.number;
        let verdict = self.specification.judge_destroy_session(session, user, connection);
        let operation = NfsArgOp::DestroySession(DestroySessionArgs { session });
        let (result, _) = self.alone(machine, user, operation).await;
        if self.check("DESTROY_SESSION", &verdict, result.status()) {
            self.specification.sessions.remove(&session);
        }
    }

    async fn destroy_client(&mut self, machine: usize, client: ClientId, user: u32) {
        let verdict = self.specification.judge_destroy_client(client, user);
        let operation = NfsArgOp::DestroyClientId(DestroyClientIdArgs { client });
        let (result, _) = self.alone(machine, user, operation).await;
        if self.check("DESTROY_CLIENTID", &verdict, result.status()) {
            self.specification.destroy_client(client);
        }
    }

    async fn bind(&mut self, machine: usize, session: SessionId) {
        let operation = NfsArgOp::BindConnToSession(BindConnToSessionArgs {
            session,
            direction: ChannelDirFromClient::BackOrBoth,
            use_rdma: false,
        });
        let (result, connection) = self.alone(machine, OWNER, operation).await;
        let right = self.specification.bind(session, connection);
        self.history.count("BIND_CONN_TO_SESSION", result.status());
        if result.status() != right {
            self.history.fail(&format!("{:?} instead of {right:?}", result.status()));
        }
    }

    /// The last request of a slot again.
    async fn repeat(&mut self, machine: usize, session: SessionId, slot: u32, altered: bool) {
        let Some(sent) = self.machines[machine].sent.get(&(session, slot)) else { return };
        let mut request = vec![NfsArgOp::Sequence(sent.sequence)];
        request.extend(sent.operations.clone());
        if altered {
            request.push(NfsArgOp::GetFh);
        }
        let before = sent.reply.clone();
        let minor_version = self.machines[machine].minor_version;
        let wire = self.wire(machine).await;
        let reply = wire.send(OWNER, minor_version, &request).await;
        let connection = wire.number;
        let known = self.specification.sessions.contains_key(&session);
        if known && !altered {
            if reply != before {
                self.history.fail("a repeated request was answered otherwise");
            }
            self.specification.renew(session, connection);
            self.history.count_event("a reply was repeated");
            return;
        }
        let right = if known { NfsStatus::SeqFalseRetry } else { NfsStatus::BadSession };
        let status = xdr::from_bytes::<CompoundRes>(reply).unwrap().status;
        self.history.count("SEQUENCE", status);
        if status != right {
            self.history.fail(&format!("{status:?} instead of {right:?}"));
        }
    }

    async fn compound(
        &mut self,
        machine: usize,
        session: SessionId,
        slot: u32,
        entry: Entry,
        file: File,
        ops: Vec<Op>,
    ) {
        let newest = match self.specification.sessions.get(&session) {
            Some(session) => session.slots.get(slot as usize).copied().unwrap_or_default(),
            None => 0,
        };
        let sequence = SequenceArgs {
            session,
            sequence_id: match entry {
                Entry::Misordered(ahead) => newest.wrapping_add(1).wrapping_add(ahead),
                Entry::Next | Entry::BadSlot => newest + 1,
            },
            slot: if entry == Entry::BadSlot { SLOTS } else { slot },
            highest_slot: SLOTS - 1,
            cache_this: true,
        };
        let mut operations = vec![put_handle(&self.files[file])];
        operations.extend(ops.iter().flat_map(|op| op.encode(&self.root, FILES[file])));
        let mut request = vec![NfsArgOp::Sequence(sequence)];
        request.extend(operations.clone());

        let minor_version = self.machines[machine].minor_version;
        let wire = self.wire(machine).await;
        let reply = wire.send(OWNER, minor_version, &request).await;
        let connection = wire.number;
        let results = xdr::from_bytes::<CompoundRes>(reply.clone()).unwrap().results;
        let mut results = VecDeque::from(results);

        let right = self.specification.judge_sequence(session, entry);
        let status = results.front().map(NfsResOp::status);
        self.history.count("SEQUENCE", right);
        if status != Some(right) {
            self.history.fail(&format!("SEQUENCE: {status:?} instead of {right:?}"));
        }
        let Some(NfsResOp::Sequence(Outcome::Ok(told))) = results.pop_front() else { return };
        let client = self.specification.sessions[&session].client;
        if self.specification.is_expired(client) {
            self.history.count_event("an expired client came back");
        }
        self.specification.enter(session, slot, connection);
        let revoked = told.status_flags & sequence_status::RECALLABLE_STATE_REVOKED;
        if revoked != self.specification.revocation_flag(client) || told.sequence_id != sequence.sequence_id {
            self.history.fail(&format!("SEQUENCE said {told:?}"));
        }
        let sent = Sent { operations, sequence, reply };
        self.machines[machine].sent.insert((session, slot), sent);
        self.judge(machine, client, file, ops, results).await;
    }

    /// Holds the results behind SEQUENCE against the specification.
    async fn judge(
        &mut self,
        machine: usize,
        client: ClientId,
        file: File,
        ops: Vec<Op>,
        mut results: VecDeque<NfsResOp>,
    ) {
        // The operations may have been tried before they were gone, and with other results.
        let holders = self.specification.expired_holders(file);
        self.forget_who_is_gone(machine, holders).await;
        self.put(&mut results);
        let mut current = None;
        // With each operation, for FREE_STATEID can give a client the right to a record that it did not have.
        let tries = ops.iter().any(|op| matches!(op, Op::Open { .. }));
        for op in ops {
            if tries {
                self.specification.tries(client);
            }
            if matches!(op, Op::Open { claim: Claim::Name, .. }) {
                self.put(&mut results);
            }
            let op = op.resolve(current);
            let Some(result) = results.pop_front() else { self.history.fail("a result is missing") };
            let verdict = self.specification.judge(client, file, &op);
            let status = result.status();
            let is_granted = self.check(op.name(), &verdict, status);
            if !is_granted {
                self.refused(client, file, &op, &result, &verdict);
                break;
            }
            if !verdict.in_the_way.is_empty() {
                self.history.fail(&format!("granted, and {:?} keep what they have", verdict.in_the_way));
            }
            let granted = match self.specification.grant(client, file, &op, &result) {
                Ok(granted) => granted,
                Err(why) => self.history.fail(&why),
            };
            match op {
                Op::Write(_) => self.specification.wrote(client, file),
                Op::Open { claim: Claim::Previous(_), .. } => {
                    self.history.count_event("an open was reclaimed")
                }
                Op::Lock { reclaim: true, .. } => self.history.count_event("a lock was reclaimed"),
                _ => {}
            }
            if granted.delegated {
                self.history.count_event("a delegation was given");
                self.history.add("with a delegation");
            }
            if let Some(id) = granted.current {
                current = id;
                self.machines[machine].given.extend(id);
            }
        }
        if !results.is_empty() {
            self.history.fail(&format!("too many results: {results:?}"));
        }
        let given = &mut self.machines[machine].given;
        given.drain(..given.len().saturating_sub(REMEMBERED));
    }

    /// PUTFH.
    fn put(&self, results: &mut VecDeque<NfsResOp>) {
        match results.pop_front() {
            Some(NfsResOp::PutFh(NfsStatus::Ok)) => {}
            other => self.history.fail(&format!("PUTFH: {other:?}")),
        }
    }

    fn refused(&mut self, client: ClientId, file: File, op: &Op, result: &NfsResOp, verdict: &Verdict) {
        match (op, result) {
            (
                Op::Lock { by, exclusive, waits, offset, length, .. },
                NfsResOp::Lock(LockRes::Denied(denied)),
            ) => {
                let asker = self.specification.asker(client, by, file).expect("a lock can be denied to it");
                let range = (*offset, *length);
                if let Err(why) = self.specification.check_denied(asker, file, *exclusive, range, denied) {
                    self.history.fail(&why);
                }
                self.specification.denied(asker, file, (*exclusive, *waits), range);
            }
            (
                Op::TestLock { owner, exclusive, offset, length },
                NfsResOp::LockTest(LockTestRes::Denied(denied)),
            ) => {
                let (asker, range) = ((client, *owner), (*offset, *length));
                if let Err(why) = self.specification.check_denied(asker, file, *exclusive, range, denied) {
                    self.history.fail(&why);
                }
            }
            _ if result.status() == NfsStatus::Delay => {
                if matches!(op, Op::Write(_)) {
                    self.specification.wrote(client, file);
                }
                let recalled = self.specification.recall(&verdict.wanted);
                self.history.add(&format!("{recalled} of {:?} are recalled now", verdict.wanted));
                (0..recalled).for_each(|_| self.history.count_event("a delegation was recalled"));
            }
            _ => {}
        }
    }

    /// Waits for every recall that there is a way for.
    async fn hear(&mut self) {
        for (client, id) in self.specification.untold() {
            let sessions = self.specification.sessions.values().filter(|session| session.client == client);
            let ways: BTreeSet<u64> = sessions.filter_map(|session| session.back).collect();
            let mut wires = self.machines.iter_mut().filter_map(|machine| machine.wire.as_mut());
            let Some(wire) = wires.find(|wire| ways.contains(&wire.number)) else { continue };
            while !self.specification.is_told(&id.other) {
                match wire.callback().await {
                    Some(NfsCbArgOp::Recall(recall)) => self.specification.told(&recall.state_id.other),
                    Some(_) => {}
                    None => self.history.fail(&format!("{client:?} is not told that {id:?} is recalled")),
                }
            }
        }
        for wire in self.machines.iter_mut().filter_map(|machine| machine.wire.as_mut()) {
            while let Some(callback) = wire.unheard() {
                if let NfsCbArgOp::Recall(recall) = callback {
                    self.specification.told(&recall.state_id.other);
                }
            }
        }
    }
}

fn user(stranger: bool) -> u32 {
    if stranger { STRANGER } else { OWNER }
}

fn remember<T: PartialEq>(known: &mut Vec<T>, new: T) {
    if !known.contains(&new) {
        known.push(new);
    }
    if known.len() > 8 {
        known.remove(0);
    }
}

fn session_arguments(client: ClientId, sequence_id: u32) -> CreateSessionArgs {
    let channel = ChannelAttrs {
        header_pad_size: 0,
        max_request_size: 64 << 10,
        max_response_size: 64 << 10,
        max_response_size_cached: 4096,
        max_operations: 32,
        max_requests: SLOTS,
        rdma_ird: None,
    };
    CreateSessionArgs {
        client,
        sequence_id,
        flags: create_session::CONN_BACK_CHAN,
        fore_channel: channel,
        back_channel: channel,
        callback_program: CALLBACK_PROGRAM,
        callback_security: vec![CallbackSecParms::None],
    }
}
