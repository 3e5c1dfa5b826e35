//! The state machine, paragraph by paragraph.

mod clients;
mod delegations;
mod locks;
mod offloads;
mod opens;
mod orders;
mod overview;
mod places;
mod records;
mod restarts;
mod sessions;
mod undo;
mod waiting;
mod write_delegations;

use std::time::Duration;

use file_system::{FileId, OpenReference};
use ids::{GatewayId, ObjectId, ObjectNumber, VolumeId};
use nfs4::{ClientId, NfsStatus, SessionId, StateId, Verifier};
use onc_rpc::{ConnectionId, Credential};

use super::exchange_id::Exchanged;
use super::*;
use crate::Limits;

const LEASE: Duration = Duration::from_secs(90);
const COURTESY: Duration = Duration::from_secs(1000);
/// The one that sessions are made on.
const CONNECTION: ConnectionId = ConnectionId(1);
const USER: Principal = Principal::Unix(1000);

/// A state machine with a clock of its own and short ways to call it.
struct World {
    state: State,
    sessions: u8,
    now: Duration,
    undo: UndoLog,
}

fn world() -> World {
    world_with(Limits::default(), &[])
}

fn world_with(limits: Limits, known: &[&str]) -> World {
    let config = StateConfig { lease: LEASE, courtesy: COURTESY, instance: 7, delegations: true, limits };
    let known: Vec<_> = known.iter().map(|owner| owner.as_bytes().into()).collect();
    let state = State::new(config, &known, Duration::ZERO);
    World { state, sessions: 0, now: Duration::ZERO, undo: UndoLog::default() }
}

fn file(number: u128) -> FileId {
    FileId { volume: VolumeId(1), object: ObjectId { creator: GatewayId(1), number: ObjectNumber(number) } }
}

fn channel() -> Channel {
    Channel {
        max_request: 1 << 20,
        max_response: 1 << 20,
        max_response_cached: 4096,
        operations: 16,
        slots: 8,
    }
}

/// A small one, whose reply need not be kept.
fn request(session: SessionId, slot: u32, sequence: u32) -> Sequence {
    Sequence {
        connection: CONNECTION,
        session,
        slot,
        sequence,
        digest: 0,
        operations: 2,
        request_bytes: 100,
        reply_bytes: 100,
        cache_this: false,
    }
}

fn refused<T: std::fmt::Debug>(result: Result<T, Refusal>) -> NfsStatus {
    match result {
        Err(Refusal::Status(status)) => status,
        other => panic!("{other:?} instead of a status"),
    }
}

impl World {
    fn exchange(
        &mut self,
        owner: &str,
        verifier: u8,
        principal: Principal,
        update: bool,
    ) -> Result<Exchanged, Refusal> {
        let request =
            ExchangeId { owner: owner.as_bytes(), verifier: Verifier([verifier; 8]), principal, update };
        self.state.exchange_id(&request, self.now)
    }

    fn create_session_as(
        &mut self,
        client: ClientId,
        sequence: u32,
        principal: Principal,
    ) -> Result<create_session::SessionGrant, Refusal> {
        self.sessions += 1;
        let request = CreateSession {
            session: SessionId([self.sessions; 16]),
            client,
            sequence,
            principal,
            fore: channel(),
            back: channel(),
            connection: CONNECTION,
            back_channel: true,
            callback_program: 0x4000_0000,
            callback_credential: Credential::None,
            minor_version: 1,
            within: None,
        };
        self.state.create_session(&request, self.now)
    }

    /// A confirmed client that has not sent RECLAIM_COMPLETE.
    fn connect(&mut self, owner: &str) -> (ClientId, SessionId) {
        let exchanged = self.exchange(owner, 1, USER, false).unwrap();
        let grant = self.create_session_as(exchanged.client, exchanged.sequence, USER).unwrap();
        (exchanged.client, grant.session)
    }

    /// A client that can open files.
    fn client(&mut self, owner: &str) -> ClientId {
        let (client, _) = self.connect(owner);
        self.state.reclaim_complete(client).unwrap();
        self.record(client);
        client
    }

    /// The client has a record, as before its first OPEN.
    fn record(&mut self, client: ClientId) {
        if let Some(owner) = self.state.missing_record(client) {
            self.state.begin_record(&owner, self.now);
            self.state.recorded(&owner);
        }
    }

    fn enter(&mut self, session: SessionId, slot: u32, sequence: u32) -> Result<Entered, NfsStatus> {
        self.enter_on(CONNECTION, session, slot, sequence)
    }

    fn enter_on(
        &mut self,
        connection: ConnectionId,
        session: SessionId,
        slot: u32,
        sequence: u32,
    ) -> Result<Entered, NfsStatus> {
        let request = Sequence { connection, ..request(session, slot, sequence) };
        self.state.enter(&request, self.now)
    }

    fn open(
        &mut self,
        client: ClientId,
        owner: &str,
        number: u128,
        access: u32,
        deny: u32,
    ) -> Result<StateId, Refusal> {
        self.claim(client, owner, number, Share { access, deny }, false)
    }

    fn claim(
        &mut self,
        client: ClientId,
        owner: &str,
        number: u128,
        share: Share,
        reclaim: bool,
    ) -> Result<StateId, Refusal> {
        let request = OpenRequest { client, owner: owner.as_bytes(), file: file(number), share, reclaim };
        self.state.open(&request, || OpenReference::new(()), self.now, &mut self.undo)
    }

    fn lock(
        &mut self,
        client: ClientId,
        locker: Locker,
        number: u128,
        (offset, length): (u64, u64),
        exclusive: bool,
    ) -> Result<Result<StateId, LockDenied>, Refusal> {
        let range = ByteRange::new(offset, length).unwrap();
        let request = LockRequest {
            client,
            file: file(number),
            locker,
            range,
            exclusive,
            reclaim: false,
            waits: false,
        };
        self.state.lock(&request, self.now, &mut self.undo)
    }

    fn unlock(&mut self, client: ClientId, id: StateId, number: u128, offset: u64, length: u64) -> StateId {
        let range = ByteRange::new(offset, length).unwrap();
        self.state.unlock(client, &id, file(number), range, &mut self.undo).unwrap()
    }

    fn io(&self, client: ClientId, id: StateId, number: u128, write: bool) -> Result<IoGrant, Refusal> {
        self.state.check_io(client, &id, file(number), write, self.now)
    }

    /// Lets the leases of everybody run out.
    fn outlast_leases(&mut self) {
        self.now += LEASE + Duration::from_secs(1);
    }
}
