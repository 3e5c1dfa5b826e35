//! ONC RPC version 2 (RFC 5531) over TCP, both directions on one connection.
//!
//! A [`Connection`] reads records from a stream. Calls of the other side go to a [`Service`], each as a task of its
//! own; replies to our calls go to whoever waits in [`Peer::call`]. So an NFS server can call its client back over the
//! client's own connection, and client and server are the same code.
//!
//! * Payloads are not copied: a record is one buffer of exactly its size, bodies are slices of it, and what is
//!   sent goes out as a list of segments in one vectored write.
//! * Everything is bounded by [`Limits`]: record size, fragments, calls in progress, bytes waiting to be written;
//!   over all connections by a [`Budget`]. At a limit the connection stops reading, which the other side feels as TCP
//!   back-pressure; who takes or sends nothing for too long in the middle of a message is cut off.
//! * Nothing from the wire panics: what cannot be parsed closes the connection.
//! * Who is refused gets a line in the log, but not many: [`suppressed_log_lines`].
//!
//! * What the network may see and change is bounded by [`tls`] (RFC 9289), who calls is proved by [`gss`] (RFC 2203); a
//!   server turns them on by [`Security`] and finds what it got in [`Peer::transport`] and [`Call::credential`].
//!
//! It knows no program but the [`Portmapper`]: NFS and its callback are bodies of calls. UDP is for the portmapper alone.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//!
//! use onc_rpc::{Call, Connection, Credential, Limits, NoService, Peer, Procedure, Reply, Service};
//!
//! struct Echo;
//!
//! #[async_trait::async_trait]
//! impl Service for Echo {
//!     async fn call(&self, call: Call, _peer: &Peer) -> Reply {
//!         Reply::Success(vec![call.body])
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let address = listener.local_addr()?;
//! tokio::spawn(async move {
//!     let (stream, _) = listener.accept().await?;
//!     Connection::tcp(stream, Arc::new(Echo), Limits::default())?.run().await
//! });
//!
//! let peer = Peer::connect(address, Arc::new(NoService), Limits::default()).await?;
//! let procedure = Procedure { program: 200_000, version: 1, number: 1 };
//! let body = xdr::to_bytes(&7u32);
//! let reply = peer.call(procedure, &Credential::None, vec![body.clone()], Duration::from_secs(5)).await?;
//! assert_eq!(reply, body);
//! # Ok::<(), onc_rpc::RpcError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(missing_docs)]

mod budget;
mod complaints;
mod connection;
mod credential;
mod error;
pub mod gss;
mod limits;
mod message;
mod network;
mod outbox;
mod peer;
mod portmapper;
mod record;
mod recycler;
mod security;
mod service;
pub mod tls;
mod transport;

pub use budget::Budget;
pub use complaints::suppressed_log_lines;
pub use connection::{Connection, serve_connection};
pub use credential::{AuthSys, Credential, OpaqueAuth};
pub use error::{AuthStatus, RpcError};
pub use limits::Limits;
pub use message::Procedure;
pub use network::{Listener, Network, Stream, Tcp};
pub use peer::{ConnectionId, Peer};
pub use portmapper::{Portmapper, Registration};
pub use recycler::record_memory;
pub use security::Security;
pub use service::{Call, NoService, Reply, Service};
pub use transport::Transport;
