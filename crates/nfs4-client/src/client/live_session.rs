use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

use nfs4::{ClientId, SessionId};
use tokio_util::sync::CancellationToken;

use super::slots::SlotTable;

/// A session of the client, as long as the server knows it. The connections it runs over are in the
/// [`Trunk`](super::trunk::Trunk), which outlives it.
pub(super) struct LiveSession {
    /// Counts the sessions of this client, from 1.
    pub generation: u64,
    /// Counts the times that the server lost the client's state, from 1.
    pub instance: u64,
    pub client: ClientId,
    pub id: SessionId,
    pub minor_version: u32,
    pub slots: Arc<SlotTable>,
    /// Set when the server knows it no more, or when it is given up.
    pub lost: CancellationToken,
    /// The server said that it does not know it, before anybody gave it up: it executes nothing in it any more.
    pub is_over: AtomicBool,
    /// What SEQUENCE said last ([`nfs4::bits::sequence_status`]).
    pub flags: AtomicU32,
}
