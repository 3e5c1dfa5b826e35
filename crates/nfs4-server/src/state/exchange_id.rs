//! EXCHANGE_ID (RFC 8881 §18.35): how a client gets its id.

use std::time::Duration;

use nfs4::{ClientId, NfsStatus, Verifier};

use super::client::Client;
use super::{Principal, Refusal, State};

/// The arguments that matter for state.
#[derive(Clone, Debug)]
pub(crate) struct ExchangeId<'a> {
    pub owner: &'a [u8],
    pub verifier: Verifier,
    pub principal: Principal,
    /// `EXCHGID4_FLAG_UPD_CONFIRMED_REC_A`.
    pub update: bool,
}

/// The result that state determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchanged {
    pub client: ClientId,
    /// What the next CREATE_SESSION has to carry.
    pub sequence: u32,
    /// `EXCHGID4_FLAG_CONFIRMED_R`.
    pub confirmed: bool,
}

impl State {
    /// The nine cases of RFC 8881 §18.35.4.
    pub fn exchange_id(&mut self, request: &ExchangeId, now: Duration) -> Result<Exchanged, Refusal> {
        let (confirmed, unconfirmed) = self.incarnations(request.owner);
        let known = match confirmed {
            Some(id) => Some(self.client(id)?),
            None => None,
        };
        if request.update {
            return match known {
                // Case 7: update, but no confirmed record.
                None => Err(NfsStatus::NoEnt.into()),
                // Case 8: update by another incarnation.
                Some(client) if client.verifier != request.verifier => Err(NfsStatus::NotSame.into()),
                // Case 9: update by another principal.
                Some(client) if client.principal != request.principal => Err(NfsStatus::Perm.into()),
                // Case 6: update.
                Some(client) => Ok(client.exchanged()),
            };
        }
        if let Some(client) = known {
            if client.principal != request.principal {
                // Case 3: somebody else uses that name. The owner of it is protected while it has state and a lease.
                if self.is_expired(client.id, now) {
                    return Err(Refusal::Expired(client.id));
                }
                if !client.holds_nothing() || !client.sessions.is_empty() {
                    return Err(NfsStatus::ClidInUse.into());
                }
                let id = client.id;
                self.drop_client(id);
            } else if client.verifier == request.verifier {
                // Case 2: the same incarnation asks again. Whatever else waits for confirmation is out of date.
                let answer = client.exchanged();
                if let Some(stale) = unconfirmed {
                    self.drop_client(stale);
                }
                return Ok(answer);
            }
            // Case 5: the client restarted. The old record stays until the new one is confirmed.
        }
        // Case 4: an unconfirmed record is replaced. Case 1: a new owner.
        if let Some(stale) = unconfirmed {
            self.drop_client(stale);
        }
        let id = self.new_client_id(now)?;
        let client = Client::new(id, request.owner.into(), request.verifier, request.principal, now);
        let answer = client.exchanged();
        self.clients.insert(id, client);
        Ok(answer)
    }

    /// An id for one more client, if there is room for it.
    pub(super) fn new_client_id(&mut self, now: Duration) -> Result<ClientId, Refusal> {
        if self.clients.len() >= self.config.limits.clients {
            return match self.longest_expired(now, |_| true) {
                Some(id) => Err(Refusal::Expired(id)),
                None => Err(NfsStatus::Delay.into()),
            };
        }
        Ok(ClientId(u64::from(self.config.instance) << 32 | (self.issue() & 0xffff_ffff)))
    }
}

impl Client {
    fn exchanged(&self) -> Exchanged {
        Exchanged {
            client: self.id,
            sequence: self.create_sequence.wrapping_add(1),
            confirmed: self.confirmed,
        }
    }
}
