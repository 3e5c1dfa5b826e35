//! An NFS server as a file system of this machine, over FUSE.
//!
//! [`mount`] connects to any server of NFSv4.1 or 4.2, attaches a directory of it to one of this machine, and serves the
//! kernel until the file system is unmounted. It needs neither the kernel's NFS client nor, with `fusermount3`, root.
//!
//! * An inode of the kernel's is a filehandle (`Table`), an open file is an OPEN at the server (`Opened`), which the
//!   client underneath reclaims when the server restarts.
//! * **Close-to-open** (RFC 8881 §10.3.1): close returns when everything is stable at the server; open asks for the change
//!   attribute, and the kernel keeps the pages that it has of the file only if they are of that version. Between the two,
//!   attributes and names are believed for [`Options::attribute_timeout`].
//! * **Delegations.** A file that the server has delegated for reading is opened and looked at without asking, until the
//!   server wants it back (`Delegations`).
//! * The kernel writes through, and `WriteBehind` gathers what it writes into large WRITEs, several of which are under way
//!   at once; reads, truncation, fsync and close wait for what concerns them. What goes wrong there is what fsync or
//!   close says. (The kernel's own write-back cache would never again look at the size that the server says.)
//! * Requests run side by side as tasks. Whoever waits for a server that does not answer can be killed.
//! * Locks of both kinds are the server's; blocking ones wait for its callback, and ask now and then.

#![deny(missing_docs)]

mod answers;
mod attributes;
mod callbacks;
mod callers;
mod core;
mod data;
mod delegations;
mod directory;
mod errno;
mod error;
mod file_system;
mod inode;
mod killable;
mod locks;
mod mounted;
mod names;
mod opened;
mod options;
mod rename;
mod space;
mod table;
mod write_behind;
mod write_errors;
mod xattr;

pub use error::MountError;
pub use mounted::{Mounted, mount};
pub use options::Options;
