//! Names that client and server have for each other and for what they share.

use bytes::Bytes;
use xdr::{BoundedOpaque, Decode, Encode};

use crate::{NfsTime, Utf8String};

/// Longest owner string, server scope and the like (`NFS4_OPAQUE_LIMIT`).
pub const OPAQUE_LIMIT: usize = 1024;

/// An opaque of at most [`OPAQUE_LIMIT`] bytes.
pub type OwnerName = BoundedOpaque<OPAQUE_LIMIT>;

/// Eight bytes that change when something is no longer what it was (`verifier4`): a client's boot, unstable data,
/// a directory's cookies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Encode, Decode)]
pub struct Verifier(pub [u8; 8]);

/// The server's short name for a client (`clientid4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct ClientId(pub u64);

/// Names a session (`sessionid4`, RFC 8881 §2.10.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct SessionId(pub [u8; 16]);

/// Names a device of a layout (`deviceid4`, RFC 8881 §3.3.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct DeviceId(pub [u8; 16]);

/// How a client names itself (`client_owner4`, RFC 8881 §2.4).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct ClientOwner {
    /// Changes with every boot of the client.
    pub verifier: Verifier,
    /// The same across boots.
    pub owner_id: OwnerName,
}

/// How a server names itself (`server_owner4`, RFC 8881 §2.5).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct ServerOwner {
    /// Equal on connections that can share a session, if the major id is equal too.
    pub minor_id: u64,
    /// Equal on connections that reach the same server.
    pub major_id: OwnerName,
}

/// Who holds an open or a lock (`state_owner4`, `open_owner4`, `lock_owner4`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct StateOwner {
    /// The client. Ignored in 4.1 arguments, where the session says it (RFC 8881 §18.16.3).
    pub client: ClientId,
    /// Unique within the client.
    pub owner: OwnerName,
}

/// Which implementation a peer runs (`nfs_impl_id4`, RFC 8881 §3.3.8). For information only.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ImplementationId {
    /// DNS domain of the maker.
    pub domain: Utf8String,
    /// Product name and version.
    pub name: Utf8String,
    /// When it was built.
    pub date: NfsTime,
}

/// A network address (`netaddr4`, RFC 5665).
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct NetAddress {
    /// Network id: `tcp`, `tcp6`, ...
    pub network: Bytes,
    /// Universal address: `192.0.2.1.8.1` is 192.0.2.1 port 2049.
    pub address: Bytes,
}
