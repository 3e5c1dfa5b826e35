//! The contract between a protocol server and a file system.
//!
//! A server (NFSv4, FUSE, ...) turns each request into one [`Transaction`] on a [`FileSystem`]: it begins one,
//! runs operations on files and directories in it, and commits it once. Until the commit nothing of it can be
//! seen by others; afterwards all of it can (decision D1). The traits know nothing of any protocol, of clouds or
//! of where metadata lives.
//!
//! [`memory::MemoryFileSystem`] is the reference model: small, obviously right, not durable. The module `conformance`
//! (feature `testing`) holds what every implementation has to pass. [`permission`] and [`attribute_rules`] are the
//! rules of POSIX as pure functions, [`acl`] those of access control lists, [`limits`] the limits that all
//! implementations share.
//!
//! # Example
//!
//! ```
//! use file_system::{Caller, CommitMode, CreateKind, FileSystem, Mode, Name, SetAttributes};
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let fs = file_system::memory::MemoryFileSystem::new();
//! let mut tx = fs.begin(&Caller::root(), Mode::Optimistic).await?;
//! let root = tx.root();
//! let name = Name::new("docs")?;
//! let made = tx.create(root, &name, CreateKind::Directory, &SetAttributes::with_mode(0o755)).await?;
//! tx.commit(CommitMode::Durable).await?;
//! # assert_ne!(made.attributes.file, root);
//! # Ok::<(), file_system::FsError>(()) }).unwrap();
//! ```

#![deny(missing_docs)]

pub mod acl;
pub mod attribute_rules;
mod attributes;
mod caller;
mod clones;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod error;
mod extent;
mod file_id;
pub mod limits;
pub mod memory;
mod name;
pub mod permission;
mod transaction;
mod xattr_name;

pub use attributes::{Attributes, ChangeInfo, Device, FileKind, SetAttributes, SetTime, Space};
pub use caller::Caller;
pub use clones::{Position, cloned_length};
pub use error::{FsError, FsResult};
pub use extent::{Extent, Extents};
pub use file_id::FileId;
pub use name::{MAX_LINK_TARGET, MAX_NAME, Name};
pub use permission::{Access, permitted};
pub use transaction::{
    Authority, CommitMode, CreateKind, Created, DirectoryEntry, DirectoryPage, FileSystem, Mode, OpenCreate,
    OpenReference, Opened, ReadData, Transaction, XattrMode,
};
pub use xattr_name::{MAX_XATTR_NAME, XattrName};
