//! An NFSv4.1 and NFSv4.2 client (RFC 8881, RFC 7862): compounds in, results out.
//!
//! [`Client`] is the durable association of a program with one server. [`Client::compound`] sends a list of operations
//! behind a SEQUENCE and returns their results. What lies below stays below:
//!
//! * **Exactly once** (§2.10.6). A connection that breaks is opened again, with pauses that grow, and bound to the session;
//!   the request is sent again in its slot, and the server's reply cache answers it. If the session is gone, what
//!   [only reads](operations::only_reads) is done again in the next one; whether a change was done is then
//!   [`ClientError::Unknown`], never done twice, except when the server says that it did nothing.
//! * **Recovery** (§8.4.2). After a restart of the server the client makes a session, reclaims its opens, locks and
//!   delegations, many in one compound, and says RECLAIM_COMPLETE. Compounds wait meanwhile. What the server does not
//!   give back is [`ClientError::OpenLost`] from then on: open it again.
//! * **Trunking** (§2.10.5). One session runs over as many connections as [`Options::connections`] says, the least loaded
//!   first; over several addresses of one server if there are any.
//! * **Leases** (§8.3) are renewed while the program is idle; what the server says beside (§18.46.3) is followed.
//! * **Delegations** (§10.2): [`OpenState::read_delegation`] is what the server promises of a file, [`Client::is_in_good_standing`]
//!   whether that can be counted on now; [`Client::bring_back`] gives it back, however often that has to be tried.
//! * **Limits.** [`Client::limits`] has what the server granted, and less once it has refused that
//!   ([`ClientError::TooLarge`]): who makes compounds splits them and sends the parts.
//! * **Delays.** A compound that the server puts off before it did anything is repeated after a pause.
//!
//! A compound that opens and closes what it works on names the open by [`StateId::CURRENT`](nfs4::StateId::CURRENT) and needs
//! nothing else. Files that stay open are [`OpenState`]s, from [`Client::open_file`] or [`Client::adopt`]; as their state ids
//! change with a recovery, compounds on them are given as a function to [`Client::compound_with`], which is called anew
//! for every session:
//!
//! ```no_run
//! # async fn example(root: nfs4::FileHandle) -> Result<(), nfs4_client::ClientError> {
//! use environment::Environment;
//! use nfs4::bits::share_access;
//! use nfs4_client::operations::{owner, put_handle, read, unchecked};
//! use nfs4_client::{Client, Options};
//!
//! let client = Client::connect(&["nas.example"], Options::new(Environment::real()), None).await?;
//! let open = client.open_file(&root, "hello", share_access::READ, unchecked(0o644), owner("me")).await?;
//! let build = || Ok(vec![put_handle(open.handle()), read(open.state_id()?, 0, 4096)]);
//! let results = client.compound_with(build).await?.into_results()?;
//! # drop(results);
//! client.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Session`] is one session on one connection that does nothing by itself: it neither reconnects nor retries nor renews
//! its lease ([`Session::renew`] does, when called). It is for tests and load: [`Session::slot`] and [`Session::send`] leave
//! slot and sequence id to the caller, [`Session::bare_compound`] sends no SEQUENCE at all, [`Session::sibling`] makes further
//! sessions of the same client.
//!
//! Callbacks go to a [`Callback`]. File data is neither copied on its way out nor on its way in. Nothing is cached, and
//! nothing is known of paths.

#![deny(missing_docs)]

mod callback;
mod client;
mod config;
mod error;
mod files;
pub mod operations;
mod reply;
mod session;
mod slot;
mod wire;

pub use callback::Callback;
#[cfg(any(test, feature = "testing"))]
pub use client::testing;
pub use client::{Client, EarlyRecalls, Limits, OpenState, Options, Statistics};
pub use config::Config;
pub use error::ClientError;
pub use files::OpenFile;
pub use reply::Reply;
pub use session::Session;
pub use slot::Slot;
