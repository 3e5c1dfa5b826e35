//! The durable association of a program with one server.

mod address;
mod back_channel;
mod back_off;
mod call;
mod delegations;
mod exchange;
mod files;
mod groups;
mod holdings;
mod identity;
mod in_flight;
mod lease;
mod leave;
mod limits;
mod line;
mod live_session;
mod open_state;
mod options;
mod reclaim;
mod recovery;
mod revocation;
mod shared;
mod slots;
mod standing;
mod statistics;
mod status_flags;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod trunk;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use nfs4::{ClientId, NfsArgOp};
use onc_rpc::Credential;

use self::address::Address;
use self::back_channel::Callbacks;
use self::live_session::LiveSession;
use self::shared::{Phase, Shared};
use self::statistics::Counters;
use crate::{Callback, ClientError, Reply};

pub use self::delegations::EarlyRecalls;
pub use self::limits::Limits;
pub use self::open_state::OpenState;
pub use self::options::Options;
pub use self::statistics::Statistics;

/// The association of a program with one server, which outlives connections, sessions and restarts of the server.
///
/// Cheap to clone; all clones are the same client to the server. When the last one is dropped its connections close, and
/// the server forgets it when its lease has run out; [`close`](Self::close) tells it at once.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    /// Ends the tasks with the last clone. The task that renews the lease has none.
    _guard: Option<Arc<Guard>>,
    credential: Arc<Credential>,
    /// What this part of the program counts for itself.
    counters: Option<Arc<Counters>>,
}

struct Guard(Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.stop.cancel();
        self.0.trunk.close();
    }
}

impl Client {
    /// Makes the client known to the server at the first of these addresses that answers, with a session over as many
    /// connections as the options say. Addresses are host names or IP addresses with or without a port; several are several ways to
    /// one server, over all of which the connections spread. Callbacks come if there is somebody to take them.
    ///
    /// Must be called on a tokio runtime, where the client's tasks run from then on.
    pub async fn connect(
        addresses: &[impl ToString],
        options: Options,
        callback: Option<Arc<dyn Callback>>,
    ) -> Result<Client, ClientError> {
        let addresses: Vec<_> =
            addresses.iter().map(|address| Address::parse(&address.to_string())).collect();
        if addresses.is_empty() {
            return Err(ClientError::NoAddress);
        }
        let callbacks = Arc::new(Callbacks::new(callback));
        let shared = Shared::new(options, addresses, callbacks);
        let client = Client {
            credential: shared.credential.clone(),
            _guard: Some(Arc::new(Guard(shared.clone()))),
            shared: shared.clone(),
            counters: None,
        };
        client.connect_first().await?;
        for index in 0..shared.trunk.len() {
            tokio::spawn(line::keep(shared.clone(), index));
        }
        let establish = async {
            recovery::establish(&shared).await?;
            let session = shared.session().await?;
            shared.trunk.settled(session.generation).await;
            Ok::<_, ClientError>(())
        };
        // Whoever starts is told soon that there is nobody.
        let patience = shared.options.connect_timeout + shared.options.timeout;
        match tokio::time::timeout(patience, establish).await {
            Ok(result) => result?,
            Err(_) => return Err(shared.unreachable()),
        }
        tokio::spawn(lease::keep(Client { _guard: None, ..client.clone() }));
        Ok(client)
    }

    async fn connect_first(&self) -> Result<(), ClientError> {
        let mut last = ClientError::NoAddress;
        for attempt in 0..self.shared.addresses.len() {
            match self.shared.dial(0, attempt).await {
                Ok(peer) => {
                    self.shared.trunk.connected(0, peer, self.shared.now());
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Executes operations in one compound, SEQUENCE not included, once a slot is free. An operation that failed is
    /// part of the reply, see [`Reply::into_results`].
    ///
    /// It is executed exactly once, whatever becomes of connections meanwhile (RFC 8881 §2.10.6). If the session ends before
    /// the answer has come, a compound that [only reads](crate::operations::only_reads) is done again in the next session; of
    /// another one nobody knows what became of it, which is [`ClientError::Unknown`], unless the server says that it was
    /// not executed. If the first operation that does something is put off (`NFS4ERR_DELAY`, `NFS4ERR_GRACE`), the
    /// compound is repeated after a pause; if a later one is, that is the reply.
    ///
    /// May be dropped: if it was sent already it is executed, and its slot comes back when it is answered.
    pub async fn compound(&self, operations: &[NfsArgOp]) -> Result<Reply, ClientError> {
        self.call(|| Ok(Cow::Borrowed(operations))).await.map(|(reply, _)| reply)
    }

    /// The same for operations with state ids that live longer than the compound, as those of
    /// [`OpenState::state_id`]: they are made anew whenever the compound is sent in another session, by when the state
    /// ids may be others. What `build` fails with comes back.
    pub async fn compound_with(
        &self,
        build: impl Fn() -> Result<Vec<NfsArgOp>, ClientError> + Send + Sync,
    ) -> Result<Reply, ClientError> {
        self.call(|| build().map(Cow::Owned)).await.map(|(reply, _)| reply)
    }

    /// The same client with calls made by somebody else. What he opens is reclaimed in his name.
    #[must_use]
    pub fn with_credential(&self, credential: Credential) -> Client {
        Client { credential: Arc::new(credential), ..self.clone() }
    }

    /// Who makes the calls.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// The same client with [`statistics`](Self::statistics) of its own, from zero: what is done with it and its clones.
    #[must_use]
    pub fn counted(&self) -> Client {
        Client { counters: Some(Arc::default()), ..self.clone() }
    }

    /// What was done so far: with this part of the client if it is [counted](Self::counted) by itself, or in all.
    pub fn statistics(&self) -> Statistics {
        self.counters.as_ref().unwrap_or(&self.shared.counters).read()
    }

    /// What the server takes in one compound and at once, as far as is known.
    pub fn limits(&self) -> Limits {
        let limits = self.shared.limits.get();
        match &*self.shared.newest.borrow() {
            Some(session) => Limits { slots: limits.slots.min(session.slots.usable()), ..limits },
            None => limits,
        }
    }

    /// The lease: how long the server waits for a client that is silent.
    pub fn lease(&self) -> Duration {
        self.shared.lease()
    }

    /// Whether what the server has delegated can be counted on now without asking. Not so when the lease may have run out, as the
    /// server may then have given to others what it has delegated, and be in no position to say so (RFC 8881 §10.2.1); while
    /// there is no session, or nothing was answered in it; when the server has said for a lease that recalls do not reach the client, or last that
    /// something is revoked; nor as long as it
    /// may execute a change of this client's own for which nobody waits any more, since it recalls nothing for that.
    ///
    /// What was granted before counts only if there were no [`doubts`](Self::doubts) since: to be asked after this.
    pub fn is_in_good_standing(&self) -> bool {
        let shared = &self.shared;
        let is_up = matches!(&*shared.phase.borrow(), Phase::Up(session) if !session.lost.is_cancelled());
        is_up && shared.standing.holds(shared.since_boot(), shared.lease())
    }

    /// How often there was reason to doubt what was granted until then: as its lease may have run out in between, as the server said that
    /// something is revoked, or as a change was executed at a time that nobody knows.
    pub fn doubts(&self) -> u64 {
        self.shared.standing.doubts()
    }

    /// The server's name for the client; changes when the server has lost its state.
    pub fn client_id(&self) -> Option<ClientId> {
        self.newest().map(|session| session.client)
    }

    /// 1 for NFSv4.1, 2 for NFSv4.2.
    pub fn minor_version(&self) -> Option<u32> {
        self.newest().map(|session| session.minor_version)
    }

    /// How many connections carry the session now.
    pub fn connections(&self) -> usize {
        self.newest().map_or(0, |session| self.shared.trunk.bound_to(session.generation))
    }

    fn newest(&self) -> Option<Arc<LiveSession>> {
        self.shared.newest.borrow().clone()
    }

    /// Closes all files, gives back all delegations, and tells the server that the client is done. Compounds under way and
    /// later ones fail, on all clones. The client is closed even if the server does not answer, which is the error.
    pub async fn close(&self) -> Result<(), ClientError> {
        let result = self.take_leave().await;
        self.shared.phase.send_replace(Phase::Closed);
        self.shared.stop.cancel();
        self.shared.trunk.close();
        result
    }

    async fn take_leave(&self) -> Result<(), ClientError> {
        let shared = &self.shared;
        let leave = async {
            let session = leave::close_all(shared).await?;
            shared.phase.send_replace(Phase::Closed);
            leave::destroy(shared, &session).await
        };
        match tokio::time::timeout(shared.options.timeout, leave).await {
            Ok(result) => result,
            Err(_) => Err(shared.unreachable()),
        }
    }
}
