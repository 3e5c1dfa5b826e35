//! The wire types of NFSv4.0, NFSv4.1, NFSv4.2 and extended attributes (RFC 7530, RFC 8881, RFC 7862, RFC 8276).
//!
//! NFSv4 has one procedure that matters, COMPOUND: a list of operations on an implied "current filehandle", executed in
//! order until one fails. This crate has a Rust type for every argument and result of every operation, of every
//! callback, and for every attribute of a file, with their XDR forms. A server and a client share it.
//!
//! It is not a protocol implementation: nothing here has state, judges a value beyond its XDR form, or knows RPC
//! (crate `onc-rpc`).
//!
//! * A client sends [`CompoundArgs`] and reads [`CompoundRes`].
//! * A server reads [`CompoundHeader`] and one [`NfsArgOp::decode_op`] after the other, and writes a [`CompoundReply`].
//! * [`Fattr`] is how attributes travel, [`AttributeValues`] is what they say.
//! * Results are [`Outcome`]s, or say more where the RFC does ([`LockRes`]); all are [`OpResult`]s.
//!
//! Types are named after the RFC's without its `4`s and prefixes: `stateid4` is [`StateId`], `eia_flags` is
//! [`ExchangeIdArgs::flags`]. Each type's documentation has the original name. `T<1>` of the RFC is `Option<T>`, which
//! has the same form on the wire, and so has a union on a boolean with one empty arm.
//!
//! ```
//! use nfs4::{Attribute, CompoundArgs, GetAttrArgs, LookupArgs, NfsArgOp};
//!
//! let request = CompoundArgs {
//!     tag: "stat".into(),
//!     minor_version: 2,
//!     ops: vec![
//!         NfsArgOp::PutRootFh,
//!         NfsArgOp::Lookup(LookupArgs { name: "home".into() }),
//!         NfsArgOp::GetAttr(GetAttrArgs { request: Attribute::set(&[Attribute::Size, Attribute::Mode]) }),
//!     ],
//! };
//! let wire = xdr::to_bytes(&request);
//! assert_eq!(xdr::from_bytes::<CompoundArgs>(wire)?, request);
//! # Ok::<(), xdr::DecodeError>(())
//! ```

#![deny(missing_docs)]

pub mod attribute;
mod bitmap;
pub mod bits;
pub mod callback;
mod compound;
mod file_handle;
mod identity;
pub mod layout;
pub mod operation;
mod outcome;
mod state_id;
mod status;
mod text;
mod time;
mod union_macro;

pub use xdr::Payload;

pub use attribute::{
    Ace, Acl41, Attribute, AttributeError, AttributeValues, ChangeAttrType, ChangePolicy, Fattr, FileType,
    FsCharset, FsLocation, FsLocations, FsLocationsInfo, FsLocationsItem, FsLocationsServer, FsStatus,
    FsStatusType, Fsid, ModeMasked, ModeUmask, OpenArguments, RetentionGet, RetentionSet, SecurityLabel,
    SpecData,
};
pub use bitmap::Bitmap;
pub use callback::{CbOpCode, NfsCbArgOp, NfsCbResOp, notify::*, recall::*, sequence::*};
pub use compound::{
    CbCompoundArgs, CbCompoundHeader, CbCompoundRes, CompoundArgs, CompoundHeader, CompoundReply,
    CompoundRes, OpDecodeError,
};
pub use file_handle::{FILE_HANDLE_SIZE, FileHandle};
pub use identity::{
    ClientId, ClientOwner, DeviceId, ImplementationId, NetAddress, OPAQUE_LIMIT, OwnerName, ServerOwner,
    SessionId, StateOwner, Verifier,
};
pub use layout::{
    DeviceAddress, FileLayout, FileLayoutDevice, FileLayoutHint, Layout, LayoutContent, LayoutHint,
    LayoutIoMode, LayoutRecall, LayoutRecallFile, LayoutReturn, LayoutReturnFile, LayoutType, LayoutUpdate,
    ThresholdItem,
};
pub use operation::{
    NfsArgOp, NfsResOp, OpCode, access::*, attributes::*, client::*, compound_mode::*, copy::*, directory::*,
    io::*, layout::*, legacy::*, lock::*, open::*, readdir::*, security::*, session::*, space::*, state::*,
    xattr::*,
};
pub use outcome::{OpResult, Outcome};
pub use state_id::StateId;
pub use status::NfsStatus;
pub use text::{Component, LinkText, PathName, Utf8String};
pub use time::{NfsTime, SetTime};

/// RPC program number of NFS (RFC 8881 §2.2).
pub const PROGRAM: u32 = 100_003;
/// RPC version of NFSv4.
pub const VERSION: u32 = 4;
/// RPC procedure that does nothing (`NFSPROC4_NULL`, `CB_NULL`).
pub const PROCEDURE_NULL: u32 = 0;
/// RPC procedure of all operations (`NFSPROC4_COMPOUND`, `CB_COMPOUND`).
pub const PROCEDURE_COMPOUND: u32 = 1;
/// RPC version of the callback program (`NFS_CB`); the program number is the client's to choose.
pub const CALLBACK_VERSION: u32 = 1;
/// IANA's port for NFS.
pub const PORT: u16 = 2049;
