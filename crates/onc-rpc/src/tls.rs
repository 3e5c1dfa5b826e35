//! RPC over TLS (RFC 9289): TLS 1.3 only, by rustls with aws-lc-rs.
//!
//! A client asks for TLS in its first call, NULL with the credential AUTH_TLS (§4.1). The server answers with the
//! verifier `STARTTLS`, and the handshake follows on the same connection. There is no way back: a connection that was
//! to be TLS and is not, is closed. Sessions are not resumed and no early data is taken, so that every connection
//! proves anew who is on it, by the certificates of today.

mod client;
mod pem;
mod probe;
mod server;

use std::fmt;
use std::time::Duration;

use aws_lc_rs::digest;
use rustls::pki_types::CertificateDer;

pub use client::TlsClient;
pub(crate) use probe::{AUTH_TLS, is_accepted, is_probe, put_accepted, put_probe};
pub use server::{ClientCertificates, TlsServer};

/// The protocol's name in TLS (RFC 9289 §8.2).
const ALPN: &[u8] = b"sunrpc";

/// How long a handshake may take, the probe before it included on the client's side.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);

/// Most names of a certificate that are kept.
const MAX_NAMES: usize = 64;

/// The other side of a TLS connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPeer {
    /// The certificate that it proved to hold and that an accepted authority vouches for; a client may have none.
    pub certificate: Option<PeerCertificate>,
}

/// A verified certificate of the other side.
#[derive(Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// SHA-256 of the whole certificate.
    pub fingerprint: [u8; 32],
    /// The DNS names that it is valid for, as many as 64.
    pub names: Vec<String>,
}

impl TlsPeer {
    fn new(certificates: Option<&[CertificateDer<'_>]>) -> TlsPeer {
        TlsPeer { certificate: certificates.and_then(<[_]>::first).map(PeerCertificate::new) }
    }
}

impl PeerCertificate {
    fn new(certificate: &CertificateDer<'_>) -> PeerCertificate {
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
        let names = match webpki::EndEntityCert::try_from(certificate) {
            Ok(parsed) => parsed.valid_dns_names().take(MAX_NAMES).map(str::to_owned).collect(),
            Err(_) => Vec::new(),
        };
        PeerCertificate { fingerprint, names }
    }
}

/// As it is written into logs.
impl fmt::Display for PeerCertificate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} (SHA-256 ", self.names.join(", "))?;
        self.fingerprint.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
        write!(out, ")")
    }
}

impl fmt::Debug for PeerCertificate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PeerCertificate({self})")
    }
}

/// Why certificates and keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The text is not PEM, or not of what is wanted.
    #[error("the {what} cannot be read as PEM: {error}")]
    Pem {
        /// Which one.
        what: &'static str,
        /// What is wrong.
        error: rustls::pki_types::pem::Error,
    },
    /// There is none in the text.
    #[error("there is no certificate among the {0}")]
    Empty(&'static str),
    /// Certificate and key do not fit each other, or are of a kind that is not supported.
    #[error("certificate and key cannot be used: {0}")]
    Unusable(#[source] rustls::Error),
    /// An authority's certificate cannot be used.
    #[error("the certificates of the authorities cannot be used: {0}")]
    Authorities(String),
    /// The server's name is neither a DNS name nor an address.
    #[error("{0:?} is no name of a server")]
    ServerName(String),
}
