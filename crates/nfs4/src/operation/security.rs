//! SECINFO and SECINFO_NO_NAME (RFC 8881 §18.29, §18.45).

use bytes::Bytes;
use xdr::{Decode, Encode};

use crate::{Component, Outcome};

/// How RPCSEC_GSS protects calls (`rpc_gss_svc_t`, RFC 2203).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
#[repr(u32)]
pub enum GssService {
    /// `RPC_GSS_SVC_NONE`: authentication only.
    None = 1,
    /// `RPC_GSS_SVC_INTEGRITY`: and a checksum.
    Integrity = 2,
    /// `RPC_GSS_SVC_PRIVACY`: and encryption.
    Privacy = 3,
}

/// A way to authenticate (`secinfo4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum SecInfo {
    /// `RPCSEC_GSS` (`rpcsec_gss_info`).
    #[xdr(discriminant = 6)]
    Gss {
        /// The mechanism, an object id in DER; Kerberos 5 is [`SecInfo::KERBEROS_5`].
        oid: Bytes,
        /// Quality of protection; 0 for the default.
        qop: u32,
        /// The service.
        service: GssService,
    },
    /// Another flavor: `AUTH_NONE` (0), `AUTH_SYS` (1).
    #[xdr(default)]
    Flavor(u32),
}

impl SecInfo {
    /// `AUTH_NONE`.
    pub const NONE: SecInfo = SecInfo::Flavor(0);
    /// `AUTH_SYS`.
    pub const SYS: SecInfo = SecInfo::Flavor(1);
    /// Content of the object id 1.2.840.113554.1.2.2 (RFC 4121), without DER tag and length, as servers send it.
    pub const KERBEROS_5: Bytes = Bytes::from_static(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02]);
}

/// Arguments of SECINFO (`SECINFO4args`), in the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SecInfoArgs {
    /// The name.
    pub name: Component,
}

/// Arguments of SECINFO_NO_NAME (`secinfo_style4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[repr(u32)]
pub enum SecInfoStyle {
    /// `SECINFO_STYLE4_CURRENT_FH`: of the current filehandle.
    CurrentFileHandle = 0,
    /// `SECINFO_STYLE4_PARENT`: of its parent.
    Parent = 1,
}

/// Result of SECINFO and SECINFO_NO_NAME (`SECINFO4res`): the ways allowed, best first.
pub type SecInfoRes = Outcome<Vec<SecInfo>>;
