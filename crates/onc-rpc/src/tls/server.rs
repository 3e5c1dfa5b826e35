use std::io;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{ALPN, HANDSHAKE, TlsError, TlsPeer, pem};
use crate::RpcError;

/// What a server shows and asks for in a handshake; replaceable while it serves.
pub struct TlsServer {
    config: RwLock<Arc<ServerConfig>>,
}

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug)]
pub enum ClientCertificates<'a> {
    /// They are not asked.
    Ignored,
    /// They may. A certificate of another authority than these (PEM) is refused, none is not.
    Optional(&'a [u8]),
    /// They must, and one of these authorities (PEM).
    Required(&'a [u8]),
}

impl TlsServer {
    /// A server with this chain of certificates, its own first, and the private key to it, both as PEM.
    pub fn new(
        certificates: &[u8],
        key: &[u8],
        clients: ClientCertificates<'_>,
    ) -> Result<TlsServer, TlsError> {
        Ok(TlsServer { config: RwLock::new(config(certificates, key, clients)?) })
    }

    /// Uses other certificates for connections made from now on; on an error nothing changes.
    pub fn replace(
        &self,
        certificates: &[u8],
        key: &[u8],
        clients: ClientCertificates<'_>,
    ) -> Result<(), TlsError> {
        let config = config(certificates, key, clients)?;
        *self.config.write() = config;
        Ok(())
    }

    /// The handshake, once the client has its `STARTTLS`.
    pub(crate) async fn accept<S>(&self, stream: S) -> Result<(TlsStream<S>, TlsPeer), RpcError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(self.config.read().clone());
        let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
            Ok(result) => result.map_err(|error| RpcError::TlsHandshake(explained(error)))?,
            Err(_) => return Err(RpcError::TlsHandshake(std::io::ErrorKind::TimedOut.into())),
        };
        // A client that offers other protocols was refused by rustls. One that offers none is not, as the agent of
        // the Linux kernel does so, and the probe has said which protocol it is.
        let peer = TlsPeer::new(stream.get_ref().1.peer_certificates());
        Ok((stream, peer))
    }
}

/// Clients that refuse our certificate often say so by hanging up.
fn explained(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(
            error.kind(),
            "the client ended the handshake; it may not know the authority of our certificate",
        ),
        _ => error,
    }
}

fn config(
    certificates: &[u8],
    key: &[u8],
    clients: ClientCertificates<'_>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let verifier = |authorities| {
        let roots = pem::authorities(authorities)?;
        Ok(WebPkiClientVerifier::builder_with_provider(roots, pem::provider()))
    };
    let built = |result: Result<_, rustls::server::VerifierBuilderError>| {
        result.map_err(|error| TlsError::Authorities(error.to_string()))
    };
    let builder = ServerConfig::builder_with_provider(pem::provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(TlsError::Unusable)?;
    let builder = match clients {
        ClientCertificates::Ignored => builder.with_no_client_auth(),
        ClientCertificates::Optional(authorities) => {
            builder.with_client_cert_verifier(built(verifier(authorities)?.allow_unauthenticated().build())?)
        }
        ClientCertificates::Required(authorities) => {
            builder.with_client_cert_verifier(built(verifier(authorities)?.build())?)
        }
    };
    let chain = pem::certificates(certificates, "server's certificates")?;
    let mut config = builder.with_single_cert(chain, pem::key(key)?).map_err(TlsError::Unusable)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}
