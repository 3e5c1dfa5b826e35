//! An NFSv4.0, NFSv4.1 and NFSv4.2 server for any [`file_system::FileSystem`].
//!
//! It speaks RFC 7530, RFC 8881 and RFC 7862 over one TCP port, exports any number of volumes under one pseudo root, and
//! keeps the protocol's state: sessions with exactly-once semantics, opens with share reservations, byte-range
//! locks, delegations, leases, and reclaim after a restart. It knows nothing of disks or clouds: what it
//! stores goes through the file system's transactions, and through [`ClientRecords`] for the list of clients that may
//! reclaim.
//!
//! Every compound is one transaction of the file system (decision D1): begun at the first operation that touches
//! a file, committed once before the reply leaves, run again when it meets a conflict. What came before an operation
//! that fails is committed as well, unless the client wants all or nothing (COMPOUND_MODE, decision 15).
//!
//! * [`Server`] is the whole of it: [`Server::new`], [`Server::serve`].
//! * `state` is the protocol's state machine: synchronous, without I/O or clock.
//! * `compound` runs the operations of a request one after the other.
//! * `ops` has one file for each operation, `attributes` what is said about files.
//! * `minor0` is what 4.0 has in place of sessions: clients, owners that count their operations, repeated requests.
//!
//! * `callbacks` calls clients back, for what they were delegated.
//! * `offloads` goes on with long copies when their COPY is answered.
//! * `overview` shows the clients to operators, and evicts them: [`Server::clients`], [`Server::evict`].
//!
//! No layouts are given.

#![deny(missing_docs)]

mod attributes;
mod callbacks;
mod caller;
mod client_records;
mod compound;
mod config;
mod connections;
mod expected_reply;
mod exports;
mod failure;
mod file_handle;
mod in_flight;
mod limits;
mod location;
mod metrics;
mod minor0;
mod network;
mod offloads;
mod ops;
mod overview;
mod owner_names;
mod recording;
mod refusals;
mod security;
mod server;
mod shared;
mod state;
#[cfg(test)]
mod testing;
mod text;

pub use client_records::{ClientRecords, MemoryClientRecords, RecordsError};
pub use config::{ServerConfig, ServerError};
pub use exports::{Export, ExportOptions, Squash};
pub use limits::Limits;
pub use location::{Location, LocationError};
pub use metrics::{CallbackMetrics, Latency, MetricsSnapshot, OperationMetrics};
pub use network::{Network, NetworkError};
pub use nfs4::ClientId;
pub use overview::{
    Access, ClientOverview, ClientPage, DelegationStanding, Held, HeldPage, Holding, LockedBytes, Origin,
    OwnerText, Standing,
};
pub use owner_names::{IdKind, NameMapping, NameService, NameServiceError};
pub use refusals::RefusalCounts;
pub use security::{ExportSecurity, Flavor, TlsDemand};
pub use server::Server;
pub use state::{Census, Counts};
