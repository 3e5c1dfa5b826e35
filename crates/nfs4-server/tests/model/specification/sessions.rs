//! Sessions and their slots (§2.10, §18.36, §18.37, §18.46).

use std::collections::BTreeSet;

use nfs4::bits::sequence_status;
use nfs4::{ClientId, NfsStatus, SessionId};

use super::{Specification, Verdict};
use crate::step::Entry;

#[derive(Debug)]
pub struct Session {
    pub client: ClientId,
    pub user: u32,
    /// The newest sequence number of each slot.
    pub slots: Vec<u32>,
    /// Connections that are known to be of the session.
    pub connections: BTreeSet<u64>,
    /// The one for callbacks.
    pub back: Option<u64>,
}

/// The result of CREATE_SESSION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreatedSession {
    pub session: SessionId,
    pub slots: u32,
}

impl Specification {
    /// CREATE_SESSION (§18.36.4).
    pub fn judge_create_session(&self, id: ClientId, sequence: u32, user: u32) -> Verdict {
        let mut verdict = Verdict::default();
        let Some(client) = self.clients.get(&id) else { return Verdict::refused(NfsStatus::StaleClientId) };
        let is_repeated = sequence == client.created && client.result.is_some();
        if !is_repeated && sequence != client.created + 1 {
            verdict.refuse(NfsStatus::SeqMisordered);
        }
        if !is_repeated && !client.confirmed && client.user != user {
            verdict.refuse(NfsStatus::ClidInUse);
        }
        verdict
    }

    pub fn create_session(
        &mut self,
        id: ClientId,
        sequence: u32,
        user: u32,
        made: CreatedSession,
        connection: u64,
    ) -> Result<(), String> {
        let client = &self.clients[&id];
        if sequence == client.created {
            let told = client.result;
            return if told == Some(made) { Ok(()) } else { Err(format!("{told:?} became {made:?}")) };
        }
        if self.sessions.contains_key(&made.session) {
            return Err("that is another session".to_owned());
        }
        if !client.confirmed
            && let Some(former) = self.incarnation(&client.owner, true).map(|former| former.id)
        {
            self.drop_client(former);
        }
        let now = self.now;
        let client = self.clients.get_mut(&id).expect("it was judged");
        client.confirmed = true;
        client.renewed = now;
        (client.created, client.result) = (sequence, Some(made));
        let session = Session {
            client: id,
            user,
            slots: vec![0; made.slots as usize],
            connections: [connection].into(),
            back: Some(connection),
        };
        self.sessions.insert(made.session, session);
        Ok(())
    }

    /// DESTROY_SESSION (§18.37).
    pub fn judge_destroy_session(&self, id: SessionId, user: u32, connection: u64) -> Verdict {
        let mut verdict = Verdict::default();
        let Some(session) = self.sessions.get(&id) else { return Verdict::refused(NfsStatus::BadSession) };
        if session.user != user {
            verdict.refuse(NfsStatus::WrongCred);
        }
        if !session.connections.contains(&connection) {
            verdict.refuse(NfsStatus::ConnNotBoundToSession);
        }
        verdict
    }

    /// BIND_CONN_TO_SESSION, for both directions (§18.34).
    pub fn bind(&mut self, id: SessionId, connection: u64) -> NfsStatus {
        let Some(session) = self.sessions.get_mut(&id) else { return NfsStatus::BadSession };
        session.connections.insert(connection);
        session.back = Some(connection);
        NfsStatus::Ok
    }

    pub fn connection_lost(&mut self, connection: u64) {
        for session in self.sessions.values_mut() {
            session.connections.remove(&connection);
            session.back.take_if(|back| *back == connection);
        }
    }

    /// SEQUENCE (§18.46.3).
    pub fn judge_sequence(&self, id: SessionId, entry: Entry) -> NfsStatus {
        match entry {
            _ if !self.sessions.contains_key(&id) => NfsStatus::BadSession,
            Entry::Next => NfsStatus::Ok,
            Entry::Misordered(_) => NfsStatus::SeqMisordered,
            Entry::BadSlot => NfsStatus::BadSlot,
        }
    }

    /// A request came in. Returns whose it is.
    pub fn enter(&mut self, id: SessionId, slot: u32, connection: u64) -> ClientId {
        let session = self.sessions.get_mut(&id).expect("it was judged");
        session.slots[slot as usize] += 1;
        self.renew(id, connection)
    }

    /// The same request came again.
    pub fn renew(&mut self, id: SessionId, connection: u64) -> ClientId {
        let session = self.sessions.get_mut(&id).expect("it was judged");
        session.connections.insert(connection);
        let client = session.client;
        self.clients.get_mut(&client).expect("a session has a client").renewed = self.now;
        client
    }

    /// What SEQUENCE says of revoked state (§18.46.3).
    pub fn revocation_flag(&self, client: ClientId) -> u32 {
        match self.delegations.values().any(|held| held.client == client && held.revoked) {
            true => sequence_status::RECALLABLE_STATE_REVOKED,
            false => 0,
        }
    }
}
