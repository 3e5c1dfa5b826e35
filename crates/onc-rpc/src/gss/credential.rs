use std::sync::Arc;

use bytes::Bytes;
use xdr::{BoundedOpaque, Decode, Encode};

use super::UnixUser;
use crate::OpaqueAuth;

/// The flavor of credentials and verifiers.
pub(crate) const RPCSEC_GSS: u32 = 6;

/// The only version that is spoken.
pub(super) const VERSION: u32 = 1;

/// How the arguments and results of a call are protected (RFC 2203 §5, `rpc_gss_service_t`); its header always has a
/// checksum. In the order of their strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[repr(u32)]
pub enum Protection {
    /// Not at all (`krb5`).
    None = 1,
    /// By a checksum (`krb5i`).
    Integrity = 2,
    /// Encrypted (`krb5p`).
    Privacy = 3,
}

/// A verified caller by RPCSEC_GSS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GssCredential {
    /// Who it is for the mechanism, such as `anna@EXAMPLE.ORG`.
    pub principal: Arc<str>,
    /// Who it is here, if anybody.
    pub user: Option<UnixUser>,
    /// How this call was protected; its reply will be likewise.
    pub protection: Protection,
    /// As it came.
    pub(crate) raw: OpaqueAuth,
}

/// The content of a credential (RFC 2203 §5, `rpc_gss_cred_vers_1_t`).
#[derive(Clone, Debug, Encode, Decode)]
pub(super) struct Header {
    pub version: u32,
    pub procedure: u32,
    pub sequence: u32,
    /// A [`Protection`], if it is one.
    pub service: u32,
    pub handle: BoundedOpaque<256>,
}

/// What a call wants of its context (`rpc_gss_proc_t`).
pub(super) mod procedure {
    pub const DATA: u32 = 0;
    pub const INIT: u32 = 1;
    pub const CONTINUE_INIT: u32 = 2;
    pub const DESTROY: u32 = 3;
}

impl Protection {
    pub(super) fn from_wire(value: u32) -> Option<Protection> {
        xdr::from_bytes(Bytes::copy_from_slice(&value.to_be_bytes())).ok()
    }
}
