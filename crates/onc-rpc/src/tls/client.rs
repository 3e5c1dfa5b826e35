use std::fmt;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{ALPN, HANDSHAKE, TlsError, TlsPeer, is_accepted, pem, put_probe};
use crate::record::LAST_FRAGMENT;
use crate::{Procedure, RpcError};

/// Longest answer to a probe: a reply header and a verifier.
const MAX_ANSWER: usize = 512;

/// The number of the probe, the first call of its connection.
const PROBE_XID: u32 = 0;

/// What a client shows and believes in a handshake. Cheap to clone.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "TlsClient({})", self.server.to_str())
    }
}

impl TlsClient {
    /// Believes servers whose certificate for the name `server` one of these `authorities` (PEM) vouches for.
    pub fn new(server: &str, authorities: &[u8]) -> Result<TlsClient, TlsError> {
        TlsClient::build(server, authorities, None)
    }

    /// The same, and shows this chain of certificates, its own first, by this private key (both PEM).
    pub fn with_certificate(
        server: &str,
        authorities: &[u8],
        certificates: &[u8],
        key: &[u8],
    ) -> Result<TlsClient, TlsError> {
        TlsClient::build(server, authorities, Some((certificates, key)))
    }

    fn build(server: &str, authorities: &[u8], own: Option<(&[u8], &[u8])>) -> Result<TlsClient, TlsError> {
        let name =
            ServerName::try_from(server.to_owned()).map_err(|_| TlsError::ServerName(server.to_owned()))?;
        let builder = ClientConfig::builder_with_provider(pem::provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(TlsError::Unusable)?
            .with_root_certificates(pem::authorities(authorities)?);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((certificates, key)) => builder
                .with_client_auth_cert(
                    pem::certificates(certificates, "client's certificates")?,
                    pem::key(key)?,
                )
                .map_err(TlsError::Unusable)?,
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(TlsClient { config: Arc::new(config), server: name })
    }

    /// Asks for TLS on a fresh connection to a server of this program, and makes the handshake. Never goes on in the
    /// clear.
    pub(crate) async fn connect<S>(
        &self,
        stream: S,
        program: u32,
        version: u32,
    ) -> Result<(TlsStream<S>, TlsPeer), RpcError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        match tokio::time::timeout(HANDSHAKE, self.connect_in_time(stream, program, version)).await {
            Ok(result) => result,
            Err(_) => Err(RpcError::TlsHandshake(std::io::ErrorKind::TimedOut.into())),
        }
    }

    async fn connect_in_time<S>(
        &self,
        mut stream: S,
        program: u32,
        version: u32,
    ) -> Result<(TlsStream<S>, TlsPeer), RpcError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let null = Procedure { program, version, number: 0 };
        stream.write_all(&put_probe(PROBE_XID, null)).await?;
        let mark = stream.read_u32().await?;
        let length = (mark & !LAST_FRAGMENT) as usize;
        if mark & LAST_FRAGMENT == 0 || length > MAX_ANSWER {
            return Err(RpcError::TlsUnavailable);
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer).await?;
        if !is_accepted(answer.into(), PROBE_XID) {
            return Err(RpcError::TlsUnavailable);
        }
        let connector = TlsConnector::from(self.config.clone());
        let stream = connector.connect(self.server.clone(), stream).await.map_err(RpcError::TlsHandshake)?;
        let session = stream.get_ref().1;
        // A server must agree (RFC 9289 §5): one that does not may be one of another protocol.
        if session.alpn_protocol() != Some(ALPN) {
            let error = std::io::Error::other("the server did not agree to the protocol \"sunrpc\"");
            return Err(RpcError::TlsHandshake(error));
        }
        let peer = TlsPeer::new(session.peer_certificates());
        Ok((stream, peer))
    }
}
