//! Clients, sessions, opens, locks and delegations: one synchronous, deterministic state machine.
//!
//! It does no I/O and reads no clock: the time comes with each call, and what has to be durable is named in the
//! result for the caller to store first. Each file holds one noun and cites the paragraph it follows.
//! Whatever a compound changes here is written into an [`UndoLog`], so that the compound can be taken back and
//! run again when its file-system transaction meets a conflict.

mod asking;
mod callback;
mod client;
mod create_session;
mod delegation;
mod exchange_id;
mod expiry;
mod grace;
mod lock;
mod minor0;
mod offload;
mod open;
mod overview;
mod path;
mod places;
mod probe;
mod range_lock;
mod recall;
mod records;
mod sequence;
mod session;
mod slot_table;
mod state_ids;
#[cfg(test)]
mod tests;
mod undo;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use file_system::FileId;
use nfs4::{ClientId, NfsStatus, OwnerName, SessionId, StateOwner};

pub(crate) use asking::{HolderSays, Question};
pub(crate) use callback::{CallbackEnd, Notice, OutgoingCallback, RequestId, SessionSlot, Signals, Way};
pub(crate) use client::Principal;
pub(crate) use create_session::CreateSession;
pub(crate) use delegation::{DelegationRequest, Undelegated};
pub(crate) use exchange_id::ExchangeId;
pub(crate) use lock::{LockDenied, LockRequest, Locker};
pub(crate) use minor0::{Holder, HolderKind};
pub(crate) use offload::{Control, CopyRight, OffloadEnd, OffloadRequest};
pub(crate) use open::{OpenRequest, Share};
pub(crate) use path::Dial;
pub(crate) use probe::Probe;
pub(crate) use range_lock::ByteRange;
pub(crate) use sequence::{Entered, Sequence, SequenceStatus};
pub(crate) use session::Channel;
pub(crate) use slot_table::RequestDigest;
pub(crate) use state_ids::{IoGrant, StateKind};
pub(crate) use undo::UndoLog;

use crate::limits::Limits;
use callback::ToCall;
use client::Client;
use delegation::Delegation;
use grace::Grace;
use lock::LockState;
use offload::Offload;
use open::Open;
use path::Lines;
use probe::ToProbe;
use range_lock::RangeLocks;
use recall::Contended;
use records::Records;
use session::Session;
use waiting::Queues;

/// Why something is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// For the client.
    Status(NfsStatus),
    /// This client is in the way, and its lease has expired: forget it ([`State::forget`], after its record is
    /// durably gone) and try again.
    Expired(ClientId),
    /// Delegations of this file are in the way, and were recalled: come again when they are returned.
    Recalled(FileId),
    /// This client did not return a delegation for writing that is in the way in time: revoke it
    /// ([`State::revoke_writer`], after its record is durably gone) and try again.
    Overdue(ClientId),
    /// The holder of a delegation was asked what it has changed: come again when the question has ended.
    Asked(Question),
    /// This client could not reclaim after a restart what it asks for: make its record durable and try again.
    Unrecorded(ClientId),
}

impl From<NfsStatus> for Refusal {
    fn from(status: NfsStatus) -> Refusal {
        Refusal::Status(status)
    }
}

/// What must not change while a server runs, and what makes it recognizable after a restart.
#[derive(Clone, Debug)]
pub(crate) struct StateConfig {
    /// How long a client may be silent (RFC 8881 §8.3).
    pub lease: Duration,
    /// How long an expired client keeps its state if nobody wants it.
    pub courtesy: Duration,
    /// Differs from that of every other start of this server; part of client ids, session ids and state ids.
    pub instance: u32,
    /// Whether files are delegated.
    pub delegations: bool,
    pub limits: Limits,
}

/// Who holds a byte-range lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LockOwner {
    pub client: ClientId,
    pub owner: Arc<[u8]>,
}

impl LockOwner {
    /// As clients know it.
    pub fn to_wire(&self) -> StateOwner {
        // It was an `OwnerName` when it came in.
        let owner = OwnerName::new(self.owner.to_vec()).unwrap_or_default();
        StateOwner { client: self.client, owner }
    }
}

/// Who has a file open, or has locked parts of it: the `other` of a state id is the key.
pub(crate) type Other = [u8; 12];

enum Held {
    Open(Open),
    Lock(LockState),
    Delegation(Delegation),
}

/// What is held of one file.
#[derive(Debug, Default)]
struct FileState {
    opens: Vec<Other>,
    ranges: RangeLocks<LockOwner>,
    /// Without those that were revoked.
    delegations: Vec<Other>,
    /// Changes that are under way and that no open for writing stands for.
    changing: usize,
}

/// All of it.
pub(crate) struct State {
    config: StateConfig,
    clients: HashMap<ClientId, Client>,
    sessions: HashMap<SessionId, Session>,
    held: HashMap<Other, Held>,
    files: HashMap<FileId, FileState>,
    /// Separate ranges that are locked in all files together.
    locked_ranges: usize,
    /// Who waits for locks.
    waiting: Queues,
    /// Delegations of all files together, revoked ones among them.
    delegations: usize,
    /// Those that were recalled, the one whose holder sent nothing for the longest time first.
    recalled: BTreeSet<(Duration, Other)>,
    contended: Contended,
    /// Sizes of files that are delegated for writing, as their holders said them: those that have changed something.
    sizes_said: HashMap<FileId, (ClientId, u64)>,
    /// When delegations of all together were last asked back because there were too many.
    crowded: Option<Duration>,
    to_call: ToCall,
    to_probe: ToProbe,
    /// Connections to clients of 4.0.
    lines: Lines,
    /// Copies that go on by themselves, and those whose clients have not answered how they ended.
    offloads: BTreeMap<Other, Offload>,
    /// Tasks that copy, also for clients that are gone.
    running_offloads: usize,
    /// Wakes who waits for the state.
    pub signals: Arc<Signals>,
    grace: Grace,
    records: Records,
    /// What clients of 4.0 have instead of sessions.
    pub minor0: crate::minor0::Clients,
    /// Counts client ids, session ids and state ids that were given out.
    issued: u64,
    /// Bytes of small replies that the slots of all sessions may keep.
    reply_cache_bytes: u64,
    /// Bytes beyond that of large replies which are kept, or expected of requests that are being run.
    large_replies: u64,
    /// What happened so far, for metrics.
    pub counts: Counts,
}

impl State {
    /// No clients yet; `known` have records, and may come back.
    pub fn new(config: StateConfig, known: &[Arc<[u8]>], now: Duration) -> State {
        let grace = Grace::new(known.iter().cloned(), now, config.lease);
        State {
            records: Records::new(known, now),
            config,
            clients: HashMap::new(),
            sessions: HashMap::new(),
            held: HashMap::new(),
            files: HashMap::new(),
            locked_ranges: 0,
            waiting: Queues::default(),
            delegations: 0,
            recalled: BTreeSet::new(),
            contended: Contended::default(),
            sizes_said: HashMap::new(),
            crowded: None,
            to_call: ToCall::default(),
            to_probe: ToProbe::default(),
            lines: Lines::default(),
            offloads: BTreeMap::new(),
            running_offloads: 0,
            signals: Arc::default(),
            grace,
            minor0: crate::minor0::Clients::default(),
            issued: 0,
            reply_cache_bytes: 0,
            large_replies: 0,
            counts: Counts::default(),
        }
    }

    fn issue(&mut self) -> u64 {
        self.issued += 1;
        self.issued
    }

    fn client(&self, id: ClientId) -> Result<&Client, NfsStatus> {
        self.clients.get(&id).ok_or(NfsStatus::StaleClientId)
    }

    /// The client with this id, if it is one that makes sessions.
    fn session_client(&self, id: ClientId) -> Result<&Client, NfsStatus> {
        self.client(id).ok().filter(|client| !client.minor0).ok_or(NfsStatus::StaleClientId)
    }

    fn client_mut(&mut self, id: ClientId) -> Result<&mut Client, NfsStatus> {
        self.clients.get_mut(&id).ok_or(NfsStatus::StaleClientId)
    }

    /// How much there is: clients, sessions, opens and lock-owner states.
    pub fn census(&self) -> Census {
        let opens = self.held.values().filter(|held| matches!(held, Held::Open(_))).count();
        Census {
            clients: self.clients.len(),
            sessions: self.sessions.len(),
            opens,
            lock_owners: self.held.len() - opens - self.delegations,
            locks: self.locked_ranges,
            delegations: self.delegations,
            offloads: self.running_offloads,
            in_grace: self.grace.is_active(),
        }
    }
}

/// What happened in the state since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests for a slot whose last request was still being run.
    pub slot_in_use: u64,
    /// Requests that took the last free slot of a session with several.
    pub slots_exhausted: u64,
    /// Requests that were put off because there was no room to keep their reply.
    pub replies_put_off: u64,
    /// Delegations that were returned after they were recalled.
    pub recalls_returned: u64,
    /// Delegations that were not returned in time.
    pub delegations_revoked: u64,
    /// Copies in the background that have ended, in full or where what they copied ended.
    pub offloads_done: u64,
    /// Copies in the background that have failed.
    pub offloads_failed: u64,
}

/// How much state there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Clients, confirmed or not.
    pub clients: usize,
    /// Sessions.
    pub sessions: usize,
    /// Opens.
    pub opens: usize,
    /// Lock-owners with a state id.
    pub lock_owners: usize,
    /// Separate ranges that are locked.
    pub locks: usize,
    /// Delegations.
    pub delegations: usize,
    /// Copies that go on in the background.
    pub offloads: usize,
    /// Whether the grace period lasts.
    pub in_grace: bool,
}
