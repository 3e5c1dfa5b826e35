//! NFSv4.0 (RFC 7530), beside the sessions of later minor versions.
//!
//! The operations on files are those of [`crate::ops`], and what is open or locked stands in the tables of
//! [`crate::state`], where clients of all minor versions get into each other's way. Here is what 4.0 has in place of
//! sessions:
//!
//! | 4.1 and later | 4.0 | |
//! |---|---|---|
//! | EXCHANGE_ID, CREATE_SESSION | SETCLIENTID, SETCLIENTID_CONFIRM, RENEW | [`client`] |
//! | slots: order, and a reply for what comes again | each open-owner and lock-owner counts its operations | [`owner`], [`turn`] |
//! | | the transport's number, for everything else | [`duplicates`] |
//! | the session says whose a state id is | the state id does | [`state_id`] |
//! | the session says whose a request is | the client ids and state ids in it do | [`named`] |
//! | callbacks on connections of the session | on a connection to where the client listens | [`path`] |
//! | FREE_STATEID | RELEASE_LOCKOWNER | [`lock_owner`] |
//! | RECLAIM_COMPLETE | the end of the grace period | [`crate::state`] |
//!
//! [`client`], [`owner`], [`turn`], [`state_id`], [`lock_owner`] and [`path`] are the state machine: synchronous, without I/O or
//! clock, like `state`. [`execute`] and [`sequenced`] run operations on it, [`status`] says errors as 4.0 knows them.

mod client;
mod duplicates;
mod execute;
mod lock_owner;
mod named;
mod owner;
mod path;
mod sequenced;
mod state_id;
mod status;
#[cfg(test)]
mod tests;
mod turn;

use std::sync::Arc;

use nfs4::OpCode;

pub(crate) use client::{Clients, SetClientId};
pub(crate) use duplicates::{Duplicates, REPLY_BYTES, RequestKey};
pub(crate) use execute::execute;
pub(crate) use named::whose;
pub(crate) use owner::OwnerKind;
pub(crate) use path::{Callback, Loss, Path};
pub(crate) use state_id::authority;

/// What the durable record of a client of 4.0 begins with: its names are not those of EXCHANGE_ID.
const RECORD: &[u8] = b"nfs4.0:";

/// The key of a client's durable record, and of its place in the grace period.
fn record_key(name: &[u8]) -> Arc<[u8]> {
    [RECORD, name].concat().into()
}

/// The client's own name in the key of its record.
pub(crate) fn own_name(record: &[u8]) -> &[u8] {
    record.strip_prefix(RECORD).unwrap_or(record)
}

/// Operations that change the state in ways that are not taken back; what was done before them is committed first.
pub(crate) fn is_barrier(operation: OpCode) -> bool {
    sequenced::is_sequenced(operation)
        || matches!(
            operation,
            OpCode::SetClientId | OpCode::SetClientIdConfirm | OpCode::ReleaseLockOwner | OpCode::DelegReturn
        )
}
