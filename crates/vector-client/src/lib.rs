//! Files by the hundred: one call, one round trip.
//!
//! Most of the time that programs spend on small files of a distant server is waiting for answers. [`Client`] takes
//! vectors instead: [`Client::vread`] reads any extents of any number of files, opens and closes them on the way, and
//! needs as many round trips as the sizes of messages ask for, mostly one. There is a call like it for everything
//! that is done with files, and [`Client::execute`] mixes them.
//!
//! * It speaks NFSv4.1 and 4.2 to any server that conforms, and needs no mount and no privileges
//!   ([`Client::connect`]). The same calls do the same to the files of this machine ([`Client::local`]).
//! * A vector stops at its first element that fails, and says which that is ([`Failure`]). If the answer was lost, it
//!   says that too: nothing that changes a file is ever done twice.
//! * What was read is kept, and handed out again when the server says in the same round trip that it is still so, or has
//!   delegated the file ([`Options`]).
//! * Data is not copied on its way out or in, but for small pieces that are kept.
//! * Programs that are not asynchronous have the same calls in [`blocking`].
//!
//! The design is that of vNFS (kurma.md §3; the ids V1 to V44 are its features).
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use vector_client::{Client, Options, Read, Write};
//!
//! let client = Client::connect("127.0.0.1:2049", Options::default()).await?;
//! let names = (0..100).map(|n| format!("/home/greeting-{n}"));
//! client.vwrite(names.clone().map(|name| Write::whole(name, 0o644, "hello")).collect()).await?;
//! let data = client.vread(names.map(|name| Read::new(name, 0, 100)).collect()).await?;
//! assert_eq!(data.len(), 100);
//! # Ok(())
//! # }
//! ```

#![deny(missing_docs)]

mod attributes;
mod backend;
pub mod blocking;
mod client;
mod connect;
mod descriptor;
mod error;
mod listing;
mod nfs;
mod path;
mod posix;
mod scalar;
mod statistics;
mod step;
mod target;
mod transaction;
mod tree;
mod walk;
mod writer;

pub use attributes::{AttributeSet, Attributes, Kind, NewAttributes, Owner, SetTime, Time};
pub use client::Client;
pub use connect::Options;
pub use descriptor::Descriptor;
pub use error::{Error, Failure, VectorResult};
pub use listing::{Cookie, Directory, Entry, Page, PageResult};
pub use statistics::Statistics;
pub use step::{APPEND, Copy, Creation, Data, Done, Open, Read, Step, TO_END, Write};
pub use target::{Base, Target};
pub use transaction::{Aborted, Chain, Committed, StepResult, Ticket, Transaction, TransactionLimits};
pub use tree::{CopyAct, CopyItem, CopyOptions, CopyWatch, Links, Make, Preserve, Removal};
pub use walk::{Found, Walk};
pub use writer::Writer;
