//! How the table of clients is shared out by address, so that nobody can fill it with names of his making.

use std::time::Duration;

use nfs4::{ClientId, NfsStatus};

use super::client::Client;
use super::{Refusal, State};
use crate::Network;

impl State {
    /// Whether the address of a client that was just added may have one more: as many as it leaves free, like connections.
    /// Otherwise the client is gone again; what is expired of the same address makes room.
    pub fn check_place(&mut self, id: ClientId, now: Duration) -> Result<(), Refusal> {
        let network =
            |client: &Client| client.origin.as_ref().map(|origin| Network::of_client(origin.address));
        let Some(own) = self.clients.get(&id).filter(|client| !client.confirmed).map(network) else {
            return Ok(());
        };
        let others = self.clients.values().filter(|client| client.id != id && network(client) == own).count();
        if own.is_none() || others <= self.config.limits.clients.saturating_sub(self.clients.len()) {
            return Ok(());
        }
        let expired = self.longest_expired(now, |client| client.id != id && network(client) == own);
        self.drop_client(id);
        Err(expired.map_or(NfsStatus::Delay.into(), Refusal::Expired))
    }
}
