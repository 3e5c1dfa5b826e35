//! What operators see of the clients, and how they get rid of one: `kurma clients`.
//!
//! Everything is a copy of a bounded part of the state. It is made under the lock of the state and read outside of it; who
//! wants more asks for the next page.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use file_system::FileId;
use nfs4::ClientId;
use onc_rpc::ConnectionId;

use crate::{RecordsError, Server};

/// Most rows of one page.
pub(crate) const MAX_ROWS: usize = 1024;

/// How a client or an owner calls itself: any bytes, printed so that they do no harm to a terminal or a log.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnerText(pub(crate) Arc<[u8]>);

impl fmt::Display for OwnerText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) if !text.chars().any(char::is_control) => out.write_str(text),
            _ => write!(out, "{}", self.0.escape_ascii()),
        }
    }
}

impl fmt::Debug for OwnerText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.to_string())
    }
}

/// Who asked for a client id, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The address that EXCHANGE_ID or SETCLIENTID came from.
    pub address: IpAddr,
    /// Who it was: `uid 0`, `nobody`, or the name of a Kerberos principal.
    pub principal: String,
    /// How that was shown, such as `krb5p by TLS without a client certificate`.
    pub security: String,
}

/// How a client stands (RFC 8881 §8.3, §8.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its lease runs.
    Active,
    /// Its lease has run out, and nobody wants what it holds.
    Courteous,
    /// Its lease has run out, and it holds nothing: it is forgotten at the next occasion.
    Expired,
}

/// One client.
#[derive(Clone, Debug)]
pub struct ClientOverview {
    /// The server's name for it.
    pub id: ClientId,
    /// Its own name for itself.
    pub owner: OwnerText,
    /// Who asked for the id, and from where.
    pub origin: Option<Arc<Origin>>,
    /// 0 to 2; `None` before the first session.
    pub minor_version: Option<u32>,
    /// Whether CREATE_SESSION or SETCLIENTID_CONFIRM came.
    pub confirmed: bool,
    /// How its lease stands.
    pub standing: Standing,
    /// Since when nothing was heard of it.
    pub silent: Duration,
    /// What is left of its lease.
    pub lease_left: Duration,
    /// Sessions.
    pub sessions: usize,
    /// Slots of all its sessions.
    pub slots: usize,
    /// Slots with a request that is being run.
    pub busy_slots: usize,
    /// Opens.
    pub opens: usize,
    /// Lock-owners with locks of a file, or that had some.
    pub lock_owners: usize,
    /// Delegations, revoked ones among them.
    pub delegations: usize,
    /// Delegations that were revoked and not freed yet.
    pub revoked: usize,
    /// Copies that go on in the background.
    pub copies: usize,
    pub(crate) connections: Vec<ConnectionId>,
}

/// Some clients, by id.
#[derive(Clone, Debug)]
pub struct ClientPage {
    /// The clients.
    pub clients: Vec<ClientOverview>,
    /// Where the next page begins, if there is one: behind this client.
    pub next: Option<ClientId>,
    /// Clients altogether.
    pub total: usize,
}

/// What an open allows itself, or forbids to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Reading.
    pub read: bool,
    /// Writing.
    pub write: bool,
}

/// Bytes that are locked, or that somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedBytes {
    /// The first one.
    pub offset: u64,
    /// How many; `None`: to the end of the file, wherever that will be.
    pub length: Option<u64>,
    /// Against everybody; otherwise against writers.
    pub exclusive: bool,
}

/// How a delegation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelegationStanding {
    /// It holds.
    Held,
    /// It is wanted back for so long.
    Recalled(Duration),
    /// It was not returned in time, and counts no more.
    Revoked,
}

/// One thing that a client holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holding {
    /// A file is open.
    Open {
        /// The open-owner.
        owner: OwnerText,
        /// What it is open for.
        access: Access,
        /// What is forbidden to others.
        deny: Access,
        /// What its lock-owners wait for; the first 64.
        waits: Vec<(OwnerText, LockedBytes)>,
    },
    /// A lock-owner of a file.
    Locks {
        /// The lock-owner.
        owner: OwnerText,
        /// What it has locked; the first 64.
        ranges: Vec<LockedBytes>,
        /// Ranges that are not among them.
        more: usize,
    },
    /// A file is delegated.
    Delegation {
        /// For writing, too.
        write: bool,
        /// How that stands.
        standing: DelegationStanding,
    },
}

/// What a state id of a client names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The part of the state id that stays the same.
    pub id: [u8; 12],
    /// The file.
    pub file: FileId,
    /// What is held of it.
    pub holding: Holding,
}

/// Some of what a client holds, by state id.
#[derive(Clone, Debug)]
pub struct HeldPage {
    /// What it holds.
    pub held: Vec<Held>,
    /// Where the next page begins, if there is one: behind this state id.
    pub next: Option<[u8; 12]>,
}

impl Server {
    /// Up to `limit` clients (1,024 at the most) behind `after`, confirmed or not.
    pub fn clients(&self, after: Option<ClientId>, limit: usize) -> ClientPage {
        let now = self.shared().now();
        self.shared().state.lock().clients_behind(after, limit.clamp(1, MAX_ROWS), now)
    }

    /// One client; `None` if there is none with that id.
    pub fn client(&self, id: ClientId) -> Option<ClientOverview> {
        let now = self.shared().now();
        self.shared().state.lock().overview(id, now)
    }

    /// Where the connections of a client come from that its sessions have used and that are open. Those of a client of 4.0 are
    /// not known.
    pub fn connections_of(&self, client: &ClientOverview) -> Vec<SocketAddr> {
        client.connections.iter().filter_map(|id| self.address_of(*id)).collect()
    }

    /// Up to `limit` things (1,024 at the most) that a client holds, behind `after`; `None` if there is no such client.
    pub fn held_by(&self, id: ClientId, after: Option<[u8; 12]>, limit: usize) -> Option<HeldPage> {
        let now = self.shared().now();
        self.shared().state.lock().held_behind(id, after, limit.clamp(1, MAX_ROWS), now)
    }

    /// Forgets a client with everything it has, as if its lease had expired: its durable record first, so that it cannot
    /// reclaim after a restart what others may have by then (RFC 8881 §8.4.3). A client that still lives finds out by
    /// `NFS4ERR_BADSESSION` (4.0: `NFS4ERR_EXPIRED`) and may come as a new one. What it had, or `None` if there is no such client.
    ///
    /// # Errors
    /// The record cannot be removed; the client keeps what it holds.
    pub async fn evict(&self, id: ClientId) -> Result<Option<ClientOverview>, RecordsError> {
        let shared = self.shared();
        let (client, owner) = {
            let now = shared.now();
            let mut state = shared.state.lock();
            let Some(client) = state.overview(id, now) else { return Ok(None) };
            state.shut_out(id);
            (client, state.record_of(id))
        };
        // What is being written for it is written by then, and nothing is written for it any more.
        let _turn = match &owner {
            Some(owner) => Some(shared.records_in_turn.of(owner).await),
            None => None,
        };
        if let Some(owner) = &owner {
            shared.remove_record(owner, |state| state.record_of(id).is_some()).await?;
        }
        shared.state.lock().discard(id);
        Ok(Some(client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_harm_a_terminal_are_printed_as_escapes() {
        let text = |bytes: &[u8]| OwnerText(bytes.into()).to_string();
        assert_eq!(text("Linux NFSv4.2 büro".as_bytes()), "Linux NFSv4.2 büro");
        assert_eq!(text(b"a\x1b[2Jb\n"), "a\\x1b[2Jb\\n");
        assert_eq!(text(b"\xff\x00"), "\\xff\\x00");
    }
}
