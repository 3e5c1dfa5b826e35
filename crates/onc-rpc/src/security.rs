use std::sync::Arc;

use crate::gss::GssServer;
use crate::tls::TlsServer;

/// What a server offers to its clients, and demands of them, beyond plain calls. By default nothing.
#[derive(Clone, Default)]
pub struct Security {
    /// Offers TLS to clients that ask for it (RFC 9289). Without, who asks is refused and may go on in the clear.
    pub tls: Option<Arc<TlsServer>>,
    /// Refuses every call in the clear but NULL. Without, a service can still refuse by
    /// [`Peer::transport`](crate::Peer::transport).
    pub tls_required: bool,
    /// Offers RPCSEC_GSS. Without, such credentials reach the service unverified, as
    /// [`Credential::Other`](crate::Credential::Other).
    pub gss: Option<Arc<GssServer>>,
}
