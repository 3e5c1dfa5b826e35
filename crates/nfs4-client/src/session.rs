use std::net::SocketAddr;
use std::sync::Arc;

use nfs4::bits::create_session;
use nfs4::{
    ChannelAttrs, ClientId, CompoundRes, CreateSessionArgs, CreateSessionOk, DestroyClientIdArgs,
    DestroySessionArgs, NfsArgOp, NfsResOp, NfsStatus, OpCode, Outcome, ReclaimCompleteArgs, SequenceArgs,
    SessionId,
};
use onc_rpc::{Credential, NoService, Peer, Service, Tcp};
use tokio::sync::Mutex;

use crate::callback::{BackChannel, CALLBACK_PROGRAM, back_channel_attributes};
use crate::slot::SlotTable;
use crate::wire::{self, Manner};
use crate::{Callback, ClientError, Config, Reply, Slot, operations};

/// Of a message, what RPC headers and the operations around a READ or WRITE may take.
const OVERHEAD_BYTES: u32 = 2048;

/// A session on a TCP connection of its own. Cheap to clone; the connection closes with the last clone.
#[derive(Clone)]
pub struct Session {
    connection: Arc<Connection>,
    credential: Credential,
}

struct Connection {
    peer: Peer,
    client: Arc<Client>,
    id: SessionId,
    fore_channel: ChannelAttrs,
    slots: Arc<SlotTable>,
}

/// What all sessions of a client share.
struct Client {
    config: Config,
    callback: Option<Arc<dyn Callback>>,
    id: ClientId,
    /// Of the next CREATE_SESSION; locked while one is under way, as the server wants them one by one.
    next_sequence: Mutex<u32>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.peer.close();
    }
}

impl Session {
    /// Connects, makes the client known (EXCHANGE_ID), creates a session, and says RECLAIM_COMPLETE. With a
    /// `callback` the session has a back channel on the same connection.
    pub async fn connect(
        address: SocketAddr,
        config: Config,
        callback: Option<Arc<dyn Callback>>,
    ) -> Result<Session, ClientError> {
        let (peer, back_channel) = open_connection(address, &config, callback.as_ref()).await?;
        let known = wire::identify(&peer, config.manner(), &config.owner, config.verifier).await?;
        let next_sequence = Mutex::new(known.sequence_id);
        let client = Arc::new(Client { config, callback, id: known.client, next_sequence });
        let session = Session::create_session(peer, back_channel, client).await?;
        if session.connection.client.config.reclaim_complete {
            let complete = NfsArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
            match session.compound(&[complete]).await?.into_results() {
                Ok(_) => {}
                Err(error) if error.status() == Some(NfsStatus::CompleteAlready) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(session)
    }

    /// A further session of the same client, on a connection of its own.
    pub async fn sibling(&self, address: SocketAddr) -> Result<Session, ClientError> {
        let client = self.connection.client.clone();
        let (peer, back_channel) = open_connection(address, &client.config, client.callback.as_ref()).await?;
        Session::create_session(peer, back_channel, client).await
    }

    async fn create_session(
        peer: Peer,
        back_channel: Option<Arc<BackChannel>>,
        client: Arc<Client>,
    ) -> Result<Session, ClientError> {
        let mut sequence_id = client.next_sequence.lock().await;
        let arguments = CreateSessionArgs {
            client: client.id,
            sequence_id: *sequence_id,
            flags: if back_channel.is_some() { create_session::CONN_BACK_CHAN } else { 0 },
            fore_channel: client.config.fore_channel(),
            back_channel: back_channel_attributes(),
            callback_program: CALLBACK_PROGRAM,
            callback_security: vec![wire::callback_security(&client.config.credential)],
        };
        let created = wire::alone(&peer, client.config.manner(), NfsArgOp::CreateSession(arguments)).await?;
        let NfsResOp::CreateSession(Outcome::Ok(CreateSessionOk { session, fore_channel, .. })) = created
        else {
            return Err(ClientError::UnexpectedResult { expected: OpCode::CreateSession });
        };
        *sequence_id = sequence_id.wrapping_add(1);
        drop(sequence_id);
        if let Some(back_channel) = back_channel {
            back_channel.begin(session);
        }
        let slots = fore_channel.max_requests.clamp(1, client.config.slots.max(1));
        let credential = client.config.credential.clone();
        let slots = Arc::new(SlotTable::new(session, slots));
        let connection = Arc::new(Connection { peer, client, id: session, fore_channel, slots });
        Ok(Session { connection, credential })
    }

    /// The same session with calls made by somebody else.
    #[must_use]
    pub fn with_credential(&self, credential: Credential) -> Session {
        Session { connection: self.connection.clone(), credential }
    }

    /// Executes operations behind a SEQUENCE, once a slot is free. An operation that failed is part of the reply, see
    /// [`Reply::into_results`].
    ///
    /// If this future is dropped or fails below NFS, the slot is lost: nobody knows what the server did.
    pub async fn compound(&self, operations: &[NfsArgOp]) -> Result<Reply, ClientError> {
        let slot = self.slot().await?;
        self.compound_in(slot, operations).await
    }

    /// [`compound`](Self::compound) in a slot that the caller has waited for.
    pub async fn compound_in(&self, mut slot: Slot, operations: &[NfsArgOp]) -> Result<Reply, ClientError> {
        let cache_this = !operations.iter().all(operations::is_repeatable);
        slot.sent();
        let reply = Reply::new(self.send(slot.arguments(cache_this), operations).await?);
        match &reply {
            Ok(_) => slot.executed(),
            Err(_) => slot.refused(),
        }
        reply
    }

    /// Takes a slot, for [`compound_in`](Self::compound_in) or [`send`](Self::send).
    pub async fn slot(&self) -> Result<Slot, ClientError> {
        self.connection.slots.take().await
    }

    /// Sends operations behind exactly this SEQUENCE, and returns exactly what comes back, the result of SEQUENCE
    /// first.
    pub async fn send(
        &self,
        sequence: SequenceArgs,
        operations: &[NfsArgOp],
    ) -> Result<CompoundRes, ClientError> {
        self.transmit(Some(sequence), operations).await
    }

    /// Sends operations without a SEQUENCE, such as BIND_CONN_TO_SESSION, and returns exactly what comes back.
    pub async fn bare_compound(&self, operations: &[NfsArgOp]) -> Result<CompoundRes, ClientError> {
        self.transmit(None, operations).await
    }

    /// Renews the lease, and returns the status flags of SEQUENCE ([`nfs4::bits::sequence_status`]).
    pub async fn renew(&self) -> Result<u32, ClientError> {
        Ok(self.compound(&[]).await?.sequence.status_flags)
    }

    /// Destroys the session and closes the connection. Other calls on it fail.
    pub async fn destroy(self) -> Result<(), ClientError> {
        let session = self.connection.id;
        let destroy = NfsArgOp::DestroySession(DestroySessionArgs { session });
        let result =
            wire::alone(&self.connection.peer, self.connection.client.config.manner(), destroy).await;
        self.connection.peer.close();
        result.map(drop)
    }

    /// Destroys the session and, as its last one, the client with it.
    pub async fn destroy_client(self) -> Result<(), ClientError> {
        let (peer, client) = (self.connection.peer.clone(), self.connection.client.clone());
        let session = self.connection.id;
        let destroy = NfsArgOp::DestroySession(DestroySessionArgs { session });
        wire::alone(&peer, client.config.manner(), destroy).await?;
        let destroy = NfsArgOp::DestroyClientId(DestroyClientIdArgs { client: client.id });
        let result = wire::alone(&peer, client.config.manner(), destroy).await;
        peer.close();
        result.map(drop)
    }

    /// The connection, for calls below NFS; closing it ends the session's use.
    pub fn peer(&self) -> &Peer {
        &self.connection.peer
    }

    /// The session's name.
    pub fn id(&self) -> SessionId {
        self.connection.id
    }

    /// The server's name for the client.
    pub fn client_id(&self) -> ClientId {
        self.connection.client.id
    }

    /// What the server granted.
    pub fn fore_channel(&self) -> &ChannelAttrs {
        &self.connection.fore_channel
    }

    /// Most bytes that a READ or WRITE in a small compound can carry.
    pub fn payload_bytes(&self) -> u32 {
        let granted = &self.connection.fore_channel;
        granted.max_request_size.min(granted.max_response_size).saturating_sub(OVERHEAD_BYTES)
    }

    async fn transmit(
        &self,
        sequence: Option<SequenceArgs>,
        operations: &[NfsArgOp],
    ) -> Result<CompoundRes, ClientError> {
        let manner = Manner { credential: &self.credential, ..self.connection.client.config.manner() };
        wire::call(&self.connection.peer, manner, sequence, operations).await
    }
}

async fn open_connection(
    address: SocketAddr,
    config: &Config,
    callback: Option<&Arc<dyn Callback>>,
) -> Result<(Peer, Option<Arc<BackChannel>>), ClientError> {
    let back_channel = callback.map(|callback| Arc::new(BackChannel::new(callback.clone())));
    let service: Arc<dyn Service> = match &back_channel {
        Some(back_channel) => back_channel.clone(),
        None => Arc::new(NoService),
    };
    let (tls, bytes, slots) = (config.tls.as_ref(), config.message_bytes, config.slots);
    let peer = wire::connect(&Tcp, &[address], tls, service, bytes, slots).await?;
    Ok((peer, back_channel))
}
