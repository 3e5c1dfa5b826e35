//! The state machine of 4.0, paragraph by paragraph of RFC 7530.

mod clients;
mod owners;
mod random;
mod restarts;

use std::time::Duration;

use bytes::Bytes;
use file_system::{FileId, OpenReference};
use ids::{GatewayId, ObjectId, ObjectNumber, VolumeId};
use nfs4::{ClientId, NfsStatus, StateId, Verifier};

use super::SetClientId;
use super::owner::{Answer, OwnerKind};
use super::turn::{Admitted, Effect, Numbered, Standing, Turn};
use crate::Limits;
use crate::state::{
    ByteRange, IoGrant, LockRequest, Locker, OpenRequest, Principal, Refusal, Share, State, StateConfig,
    UndoLog,
};

const LEASE: Duration = Duration::from_secs(90);
const USER: Principal = Principal::Unix(1000);
const OTHER_USER: Principal = Principal::Unix(1001);
const BOTH: Share = Share { access: 3, deny: 0 };

/// A state machine with a clock of its own and short ways to call it.
struct World {
    state: State,
    now: Duration,
    confirms: u8,
}

fn world() -> World {
    world_with(Limits::default(), &[])
}

/// `known`: who may reclaim.
fn world_with(limits: Limits, known: &[&str]) -> World {
    let config = StateConfig { lease: LEASE, courtesy: 10 * LEASE, instance: 7, delegations: true, limits };
    let known: Vec<_> = known.iter().map(|name| super::record_key(name.as_bytes())).collect();
    World { state: State::new(config, &known, Duration::ZERO), now: Duration::ZERO, confirms: 0 }
}

fn file(number: u128) -> FileId {
    FileId { volume: VolumeId(1), object: ObjectId { creator: GatewayId(1), number: ObjectNumber(number) } }
}

fn number(seqid: u32) -> Numbered {
    Numbered { seqid, digest: u64::from(seqid) + 1 }
}

fn answer(text: &'static str) -> Answer {
    Answer { status: NfsStatus::Ok, result: Bytes::from(text), handle: None }
}

fn refused<T: std::fmt::Debug>(result: Result<T, Refusal>) -> NfsStatus {
    match result {
        Err(Refusal::Status(status)) => status,
        other => panic!("{other:?} instead of a status"),
    }
}

fn turn(admitted: Result<Admitted, Refusal>) -> Turn {
    match admitted {
        Ok(Admitted::Run(turn)) => turn,
        other => panic!("{other:?} instead of a turn"),
    }
}

impl World {
    fn set_client_id(
        &mut self,
        name: &str,
        boot: u8,
        principal: Principal,
    ) -> Result<(ClientId, Verifier), Refusal> {
        self.confirms += 1;
        let confirm = Verifier([self.confirms; 8]);
        let request = SetClientId {
            name: name.as_bytes(),
            verifier: Verifier([boot; 8]),
            principal,
            callback: None,
            confirm,
        };
        Ok((self.state.set_client_id(&request, self.now)?, confirm))
    }

    fn confirm(&mut self, (id, confirm): (ClientId, Verifier)) -> Result<(), Refusal> {
        self.state.confirm_client(id, confirm, USER, self.now)?;
        self.record(id);
        Ok(())
    }

    /// A confirmed client.
    fn client(&mut self, name: &str) -> ClientId {
        let made = self.set_client_id(name, 1, USER).unwrap();
        self.confirm(made).unwrap();
        made.0
    }

    /// The client has a record, as before its first OPEN.
    fn record(&mut self, client: ClientId) {
        if let Some(owner) = self.state.missing_record(client) {
            self.state.begin_record(&owner, self.now);
            self.state.recorded(&owner);
        }
    }

    /// An OPEN, from its admission to its answer.
    fn open(
        &mut self,
        client: ClientId,
        owner: &str,
        seqid: u32,
        share: Share,
        reclaim: bool,
    ) -> Result<StateId, Refusal> {
        let turn = turn(self.state.admit_open(client, owner.as_bytes(), number(seqid), self.now));
        let request = OpenRequest { client, owner: owner.as_bytes(), file: file(1), share, reclaim };
        let mut undo = UndoLog::default();
        match self.state.open(&request, || OpenReference::new(()), self.now, &mut undo) {
            Ok(id) => {
                let effect = Effect::Opened { open: id.other, by: USER, confirmed: reclaim };
                self.state.settle(&turn, answer("opened"), effect, self.now);
                Ok(id)
            }
            Err(refusal) => {
                self.state.settle(&turn, answer("refused"), Effect::Nothing, self.now);
                Err(refusal)
            }
        }
    }

    fn admit(&mut self, id: &StateId, seqid: u32, standing: Standing) -> Result<Admitted, Refusal> {
        self.state.admit_by_state(id, OwnerKind::Open, number(seqid), standing, self.now)
    }

    /// A confirmed open, by operations 0 and 1 of its owner.
    fn confirmed_open(&mut self, client: ClientId, owner: &str) -> StateId {
        let id = self.open(client, owner, 0, BOTH, false).unwrap();
        let turn = turn(self.admit(&id, 1, Standing::Unconfirmed));
        let id = self.state.rename_open(&id.other).unwrap();
        self.state.settle(&turn, answer("confirmed"), Effect::Confirmed, self.now);
        id
    }

    fn close(&mut self, id: &StateId, seqid: u32) {
        let turn = turn(self.admit(id, seqid, Standing::Confirmed));
        let mut undo = UndoLog::default();
        self.state.close(turn.client, id, file(1), &mut undo).unwrap();
        undo.keep();
        self.state.settle(&turn, answer("closed"), Effect::Closed(id.other), self.now);
    }

    fn admit_first_lock(
        &mut self,
        open: &StateId,
        client: ClientId,
        owner: &str,
        seqids: (u32, u32),
    ) -> Result<Admitted, Refusal> {
        let owner = (client, owner.as_bytes());
        self.state.admit_first_lock(open, owner, number(seqids.0), seqids.1, self.now)
    }

    /// A LOCK of the first byte by a lock-owner on an open.
    fn first_lock(&mut self, open: &StateId, client: ClientId, owner: &str, seqids: (u32, u32)) -> StateId {
        let turn = turn(self.admit_first_lock(open, client, owner, seqids));
        let range = ByteRange::new(0, 1).unwrap();
        let locker = Locker::New { open: *open, owner: owner.as_bytes() };
        let request = LockRequest {
            client,
            file: file(1),
            locker,
            range,
            exclusive: true,
            reclaim: false,
            waits: false,
        };
        let mut undo = UndoLog::default();
        let id = self.state.lock(&request, self.now, &mut undo).unwrap().unwrap();
        undo.keep();
        self.state.settle(&turn, answer("locked"), Effect::Locked { lock: id.other, by: USER }, self.now);
        id
    }

    fn unlock(&mut self, client: ClientId, id: &StateId) -> StateId {
        let range = ByteRange::new(0, 1).unwrap();
        self.state.unlock(client, id, file(1), range, &mut UndoLog::default()).unwrap()
    }

    fn io(&mut self, id: StateId) -> Result<IoGrant, Refusal> {
        self.io_as(id, USER)
    }

    fn io_as(&mut self, id: StateId, who: Principal) -> Result<IoGrant, Refusal> {
        self.state.check_io_of_minor0(&id, who, file(1), true, self.now)
    }
}
