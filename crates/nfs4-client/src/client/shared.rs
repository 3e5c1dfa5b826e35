use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use nfs4::{CbRecallArgs, OpenDelegation, SessionId};
use onc_rpc::{Credential, Peer, RpcError};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::back_channel::Callbacks;
use super::back_off::BackOff;
use super::holdings::Holdings;
use super::identity::Identity;
use super::limits::LimitTable;
use super::live_session::LiveSession;
use super::open_state::OpenState;
use super::options::Options;
use super::recovery;
use super::standing::Standing;
use super::statistics::Counters;
use super::status_flags;
use super::trunk::Trunk;
use crate::ClientError;
use crate::wire::{self, Manner};

/// Lease assumed until the server has said its own.
const FIRST_LEASE: Duration = Duration::from_secs(30);

/// What all clones of a client and its tasks share.
pub(super) struct Shared {
    pub options: Options,
    pub addresses: Vec<Address>,
    /// The client's own: that of the client id, the sessions and the lease.
    pub credential: Arc<Credential>,
    pub callbacks: Arc<Callbacks>,
    pub trunk: Trunk,
    /// Whether there is a session for compounds.
    pub phase: watch::Sender<Phase>,
    /// The newest session, which connections are bound to. In [`Phase::Up`] as soon as all is reclaimed in it.
    pub newest: watch::Sender<Option<Arc<LiveSession>>>,
    /// Locked while a session is made.
    pub identity: tokio::sync::Mutex<Identity>,
    /// Sessions that were given up and that the server may still know.
    pub left_behind: Mutex<Vec<SessionId>>,
    pub holdings: Holdings,
    pub limits: LimitTable,
    pub counters: Arc<Counters>,
    /// When the lease was renewed last: milliseconds of the monotonic clock.
    pub renewed: AtomicU64,
    pub standing: Arc<Standing>,
    /// Milliseconds.
    lease: AtomicU64,
    /// The server said that it restarted, though it knows the session.
    pub restarted: AtomicBool,
    /// State ids are being tested after a revocation.
    pub is_testing: AtomicBool,
    pub stop: CancellationToken,
    pub runtime: Handle,
}

/// Whether compounds can be sent.
#[derive(Clone)]
pub(super) enum Phase {
    /// In this session.
    Up(Arc<LiveSession>),
    /// A session is being made, or what the client held is being reclaimed; why that failed last.
    Down(Option<Arc<ClientError>>),
    /// Never again.
    Closed,
}

impl Shared {
    pub fn new(options: Options, addresses: Vec<Address>, callbacks: Arc<Callbacks>) -> Arc<Shared> {
        let shared = Arc::new(Shared {
            addresses,
            credential: Arc::new(options.credential.clone()),
            callbacks,
            trunk: Trunk::new(options.connections),
            phase: watch::Sender::new(Phase::Down(None)),
            newest: watch::Sender::new(None),
            identity: tokio::sync::Mutex::default(),
            left_behind: Mutex::default(),
            holdings: Holdings::default(),
            limits: LimitTable::new(),
            counters: Arc::default(),
            renewed: AtomicU64::new(0),
            standing: Arc::default(),
            lease: AtomicU64::new(FIRST_LEASE.as_millis() as u64),
            restarted: AtomicBool::new(false),
            is_testing: AtomicBool::new(false),
            stop: CancellationToken::new(),
            runtime: Handle::current(),
            options,
        });
        shared.callbacks.belong_to(&shared);
        shared
    }

    pub fn back_off(&self) -> BackOff {
        BackOff::new(&self.options.environment, &self.options.back_off)
    }

    pub fn now(&self) -> Duration {
        self.options.environment.clock.monotonic()
    }

    /// Goes on while the machine is suspended.
    pub fn since_boot(&self) -> Duration {
        self.options.environment.clock.since_boot()
    }

    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease.load(Relaxed))
    }

    pub fn set_lease(&self, seconds: u32) {
        // A server that says 0 is not asked all the time.
        self.lease.store(u64::from(seconds.max(1)) * 1000, Relaxed);
    }

    /// A request sent at this time was accepted.
    pub fn renewed_at(&self, sent: Duration) {
        self.renewed.fetch_max(sent.as_millis() as u64, Relaxed);
    }

    /// A request sent at this time since boot was accepted in this session, with these flags, which were followed.
    pub fn vouched_for(&self, session: &LiveSession, sent: Duration, flags: u32) {
        if status_flags::says_revoked(flags) {
            self.standing.doubt();
        } else if !status_flags::says_unheard(flags) && self.is_up(session) {
            self.standing.vouch(sent, self.since_boot(), self.lease());
        }
    }

    /// Whether this is the session for compounds.
    pub fn is_up(&self, session: &LiveSession) -> bool {
        matches!(&*self.phase.borrow(), Phase::Up(up) if up.generation == session.generation)
    }

    /// How the client speaks for itself.
    pub fn manner(&self, minor_version: u32) -> Manner<'_> {
        Manner { minor_version, credential: &self.credential, timeout: self.options.timeout }
    }

    /// Waits for a session.
    pub async fn session(&self) -> Result<Arc<LiveSession>, ClientError> {
        if let Phase::Up(session) = &*self.phase.borrow() {
            return Ok(session.clone());
        }
        let mut phase = self.phase.subscribe();
        loop {
            match &*phase.borrow_and_update() {
                Phase::Up(session) => return Ok(session.clone()),
                Phase::Closed => return Err(ClientError::Closed),
                Phase::Down(_) => {}
            }
            phase.changed().await.map_err(|_| ClientError::Closed)?;
        }
    }

    /// Why there is no session yet, for whoever gives up waiting for it.
    pub fn put_off(&self, error: ClientError) {
        self.phase.send_if_modified(|phase| {
            if let Phase::Down(last) = phase {
                *last = Some(Arc::new(error));
            }
            false
        });
    }

    /// Nothing was executed in time.
    pub fn unreachable(&self) -> ClientError {
        match &*self.phase.borrow() {
            Phase::Down(last) => ClientError::Unreachable { last: last.clone() },
            Phase::Closed => ClientError::Closed,
            Phase::Up(_) => ClientError::Unreachable { last: None },
        }
    }

    /// The session is of no use any more: begins the recovery, unless somebody else did. `known`: the server still knows
    /// it.
    pub fn lose(self: &Arc<Shared>, session: &LiveSession, known: bool) {
        if !session.lost.is_cancelled() {
            match known {
                true => self.left_behind.lock().push(session.id),
                false => session.is_over.store(true, SeqCst),
            }
        }
        session.lost.cancel();
        let begins = self.phase.send_if_modified(|phase| match phase {
            Phase::Up(current) if current.generation == session.generation => {
                *phase = Phase::Down(None);
                true
            }
            _ => false,
        });
        if begins {
            self.runtime.spawn(recovery::recover(self.clone()));
        }
    }

    /// The server wants slots back, or gives more.
    pub fn use_slots_up_to(&self, highest: u32) {
        if let Some(session) = &*self.newest.borrow() {
            session.slots.use_up_to(highest);
        }
    }

    /// Passes on that the server wants back what it has just delegated.
    pub fn return_if_asked(&self, open: &OpenState) {
        let state_id = match &open.held.lock().delegation {
            OpenDelegation::Read(read) if read.recall => read.state_id,
            OpenDelegation::Write(write) if write.recall => write.state_id,
            _ => return,
        };
        let recall = CbRecallArgs { state_id, truncate: false, file_handle: open.handle().clone() };
        self.callbacks.recall(&self.runtime, recall);
    }

    /// Opens the connection of a line, to the addresses in turn.
    pub async fn dial(&self, index: usize, attempt: usize) -> Result<Peer, ClientError> {
        let address = &self.addresses[(index + attempt) % self.addresses.len()];
        let (tls, bytes, slots) = (self.options.tls.as_ref(), self.options.message_bytes, self.options.slots);
        let service = self.callbacks.clone();
        let connect = async {
            let resolved = address.resolve().await?;
            wire::connect(&*self.options.network, &resolved, tls, service, bytes, slots).await
        };
        match tokio::time::timeout(self.options.connect_timeout, connect).await {
            Ok(result) => result,
            Err(_) => Err(RpcError::TimedOut.into()),
        }
    }
}
