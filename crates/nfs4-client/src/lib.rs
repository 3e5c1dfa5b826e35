//! A small NFSv4.1 client: one session, slots and compounds (RFC 8881 §2.10).
//!
//! [`Session::connect`] opens a TCP connection, makes the client known and creates a session. [`Session::compound`]
//! takes a free slot, sends a list of operations behind a SEQUENCE, and returns their results; as many compounds
//! run at once as the server granted slots. File data is neither copied on its way out nor on its way in.
//! [`Session::sibling`] opens a further connection with a session of its own for the same client, so that state ids
//! are good on all of them.
//!
//! For the usual compounds there are methods ([`Session::open`], [`Session::read`], …), made of the constructors in
//! [`operations`], which are as good for compounds of one's own. Tests get at what a well-behaved client hides:
//! [`Session::slot`] and [`Session::send`] leave slot and sequence id to the caller, [`Session::bare_compound`] sends
//! no SEQUENCE at all. Callbacks go to a [`Callback`].
//!
//! It is a tool for tests, load and programs that speak compounds, not a file system: it caches nothing, does not
//! reconnect, retries nothing and does not renew the lease of an idle session ([`Session::renew`] does, when
//! called).
//!
//! ```no_run
//! # async fn example() -> Result<(), nfs4_client::ClientError> {
//! use bytes::Bytes;
//! use nfs4::StableHow;
//! use nfs4_client::{Config, Session};
//!
//! let address = ([127, 0, 0, 1], nfs4::PORT).into();
//! let session = Session::connect(address, Config::new("example", [7; 8]), None).await?;
//! let root = session.lookup(&[]).await?;
//! let file = session.create(&root, "hello", 0o644).await?;
//! session.write(&file, 0, StableHow::FileSync, Bytes::from_static(b"world")).await?;
//! session.close(&file).await?;
//! # Ok(())
//! # }
//! ```

#![deny(missing_docs)]

mod callback;
mod config;
mod error;
mod files;
pub mod operations;
mod reply;
mod session;
mod slot;

pub use callback::Callback;
pub use config::Config;
pub use error::ClientError;
pub use files::OpenFile;
pub use reply::Reply;
pub use session::Session;
pub use slot::Slot;
