//! RPC over TLS over real sockets (RFC 9289).

#![allow(clippy::unwrap_used)] // set-up is test code, though not inside a test function

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use onc_rpc::tls::{ClientCertificates, TlsClient, TlsServer};
use onc_rpc::{
    AuthStatus, Call, Connection, Credential, Limits, NoService, OpaqueAuth, Peer, Procedure, Reply,
    RpcError, Security, Service,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const TIMEOUT: Duration = Duration::from_secs(20);
const PROGRAM: u32 = 100_003;
const VERSION: u32 = 4;
const ECHO: Procedure = Procedure { program: PROGRAM, version: VERSION, number: 1 };
const WHO: Procedure = Procedure { number: 2, ..ECHO };
const AUTH_TLS: u32 = 7;

/// Echoes, or says how the connection is protected.
struct Server;

#[async_trait]
impl Service for Server {
    async fn call(&self, call: Call, peer: &Peer) -> Reply {
        match call.procedure {
            0 => Reply::Success(Vec::new()),
            1 => Reply::Success(vec![call.body]),
            2 => {
                let who = match peer.transport().tls() {
                    None => "clear".to_owned(),
                    Some(tls) => match &tls.certificate {
                        None => "anonymous".to_owned(),
                        Some(certificate) => certificate.names.join(" "),
                    },
                };
                Reply::Success(vec![xdr::to_bytes(&Bytes::from(who))])
            }
            _ => Reply::ProcedureUnavailable,
        }
    }
}

/// An authority and what it vouches for.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// Certificate and key of `name` as PEM.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// Serves one connection; resolves to how it ended.
async fn serve(tls: Option<TlsServer>, required: bool) -> (SocketAddr, JoinHandle<Result<(), RpcError>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let security = Security { tls: tls.map(Arc::new), tls_required: required, gss: None };
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let connection = Connection::tcp(stream, Arc::new(Server), Limits::default()).unwrap();
        connection.with_security(&security).run().await
    });
    (address, server)
}

/// A server `box.example` of an authority, and that authority.
fn server(clients: Option<(&Authority, bool)>) -> (TlsServer, Authority) {
    let authority = Authority::new();
    let (certificate, key) = authority.issue("box.example");
    let pem = clients.map(|(clients, _)| clients.pem());
    let clients = match (&pem, clients) {
        (Some(pem), Some((_, true))) => ClientCertificates::Required(pem.as_bytes()),
        (Some(pem), _) => ClientCertificates::Optional(pem.as_bytes()),
        _ => ClientCertificates::Ignored,
    };
    (TlsServer::new(certificate.as_bytes(), key.as_bytes(), clients).unwrap(), authority)
}

async fn connect(address: SocketAddr, tls: &TlsClient) -> Result<Peer, RpcError> {
    Peer::connect_tls(address, Arc::new(NoService), Limits::default(), tls, PROGRAM, VERSION).await
}

async fn who(peer: &Peer) -> Result<String, RpcError> {
    let answer = peer.call(WHO, &Credential::None, Vec::new(), TIMEOUT).await?;
    let text: Bytes = xdr::from_bytes(answer).unwrap();
    Ok(String::from_utf8(text.to_vec()).unwrap())
}

fn probe(procedure: u32, arguments: &[u32], credential: &[u32]) -> Vec<u8> {
    let head = [9, 0, 2, PROGRAM, VERSION, procedure, AUTH_TLS, credential.len() as u32 * 4];
    let words = [&head[..], credential, &[0, 0], arguments].concat();
    record(&words)
}

fn record(words: &[u32]) -> Vec<u8> {
    let mark = (words.len() as u32 * 4) | (1 << 31);
    [&[mark][..], words].concat().iter().flat_map(|word| word.to_be_bytes()).collect()
}

async fn read_record(stream: &mut TcpStream) -> Vec<u32> {
    let length = stream.read_u32().await.unwrap() & !(1 << 31);
    let mut data = vec![0; length as usize];
    stream.read_exact(&mut data).await.unwrap();
    data.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect()
}

/// Denied, by an error of authentication.
fn refusal(xid: u32, status: u32) -> Vec<u32> {
    vec![xid, 1, 1, 1, status]
}

const BAD_CREDENTIAL: u32 = 1;
const TOO_WEAK: u32 = 5;

#[tokio::test]
async fn calls_of_all_sizes_go_over_tls_and_the_server_knows_that() {
    let (tls, authority) = server(None);
    let (address, end) = serve(Some(tls), true).await;
    let peer =
        connect(address, &TlsClient::new("box.example", authority.pem().as_bytes()).unwrap()).await.unwrap();
    assert_eq!(who(&peer).await.unwrap(), "anonymous");
    assert_eq!(peer.transport().tls().unwrap().certificate.as_ref().unwrap().names, ["box.example"]);
    let calls = (0..40u32).map(|index| {
        let peer = peer.clone();
        tokio::spawn(async move {
            let body = xdr::to_bytes(&Bytes::from(vec![index as u8; index as usize * 40_000]));
            let segments = vec![body.slice(..body.len() / 2), body.slice(body.len() / 2..)];
            assert!(peer.call(ECHO, &Credential::None, segments, TIMEOUT).await.unwrap() == body);
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    // Asking again for TLS is an error (RFC 9289 §4.1), and the connection goes on.
    let again = Credential::Other(OpaqueAuth { flavor: AUTH_TLS, ..OpaqueAuth::default() });
    let null = Procedure { number: 0, ..ECHO };
    let result = peer.call(null, &again, Vec::new(), TIMEOUT).await;
    assert!(matches!(result, Err(RpcError::AuthError(AuthStatus::BadCredential))));
    assert_eq!(who(&peer).await.unwrap(), "anonymous");
    peer.close();
    drop(end.await.unwrap());
}

#[tokio::test]
async fn a_client_certificate_says_who_the_client_is() {
    let (clients, strangers) = (Authority::new(), Authority::new());
    for required in [false, true] {
        let client = |authority: &Authority, own: Option<&Authority>| {
            let roots = authority.pem();
            match own {
                None => TlsClient::new("box.example", roots.as_bytes()).unwrap(),
                Some(own) => {
                    let (certificate, key) = own.issue("laptop.example");
                    let (certificate, key) = (certificate.as_bytes(), key.as_bytes());
                    TlsClient::with_certificate("box.example", roots.as_bytes(), certificate, key).unwrap()
                }
            }
        };
        let (tls, authority) = server(Some((&clients, required)));
        let (address, _) = serve(Some(tls), true).await;
        let peer = connect(address, &client(&authority, Some(&clients))).await.unwrap();
        assert_eq!(who(&peer).await.unwrap(), "laptop.example");

        let (tls, authority) = server(Some((&clients, required)));
        let (address, end) = serve(Some(tls), true).await;
        // With TLS 1.3 the client learns of the refusal after its handshake.
        if let Ok(peer) = connect(address, &client(&authority, Some(&strangers))).await {
            assert!(who(&peer).await.is_err());
        }
        assert!(matches!(end.await.unwrap(), Err(RpcError::TlsHandshake(_))), "another authority");

        let (tls, authority) = server(Some((&clients, required)));
        let (address, end) = serve(Some(tls), true).await;
        let result = match connect(address, &client(&authority, None)).await {
            Ok(peer) => who(&peer).await,
            Err(error) => Err(error),
        };
        if required {
            assert!(result.is_err());
            let Err(RpcError::TlsHandshake(error)) = end.await.unwrap() else { panic!("not refused") };
            assert!(error.to_string().contains("certificate"), "{error}");
        } else {
            assert_eq!(result.unwrap(), "anonymous");
        }
    }
}

#[tokio::test]
async fn a_client_believes_only_the_server_it_wants() {
    let other = Authority::new();
    for (name, roots) in [("box.example", Some(&other)), ("other.example", None)] {
        let (tls, authority) = server(None);
        let (address, end) = serve(Some(tls), false).await;
        let client = TlsClient::new(name, roots.unwrap_or(&authority).pem().as_bytes()).unwrap();
        assert!(matches!(connect(address, &client).await, Err(RpcError::TlsHandshake(_))), "{name}");
        assert!(matches!(end.await.unwrap(), Err(RpcError::TlsHandshake(_))));
    }
}

#[tokio::test]
async fn a_client_that_wants_tls_never_goes_on_in_the_clear() {
    // A server without TLS, and somebody in between who answers for one.
    let (address, _) = serve(None, false).await;
    let authority = Authority::new();
    let client = TlsClient::new("box.example", authority.pem().as_bytes()).unwrap();
    assert!(matches!(connect(address, &client).await, Err(RpcError::TlsUnavailable)));
    for answer in [
        record(&[0, 1, 0, 0, 0, 0]),
        record(&[0, 1, 1, 1, 1]),
        record(&[5, 1, 0, 0, 8, 0x5354_4152, 0x5454_4c53, 0]),
        vec![0x7f; 100],
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let attacker = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let asked = read_record(&mut stream).await;
            assert_eq!(asked, [0, 0, 2, PROGRAM, VERSION, 0, AUTH_TLS, 0, 0, 0]);
            stream.write_all(&answer).await.unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            rest
        });
        assert!(matches!(connect(address, &client).await, Err(RpcError::TlsUnavailable)));
        assert!(attacker.await.unwrap().is_empty(), "something was sent in the clear");
    }
}

#[tokio::test]
async fn what_is_no_proper_request_for_tls_is_refused() {
    let first = [
        ("another procedure than NULL", probe(1, &[], &[])),
        ("arguments", probe(0, &[7], &[])),
        ("a credential with content", probe(0, &[], &[7])),
    ];
    for (what, request) in first {
        let (address, _) = serve(Some(server(None).0), false).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&request).await.unwrap();
        assert_eq!(read_record(&mut stream).await, refusal(9, BAD_CREDENTIAL), "{what}");
    }
    let (address, _) = serve(Some(server(None).0), false).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&record(&[8, 0, 2, PROGRAM, VERSION, 0, 0, 0, 0, 0])).await.unwrap();
    assert_eq!(read_record(&mut stream).await, [8, 1, 0, 0, 0, 0]);
    stream.write_all(&probe(0, &[], &[])).await.unwrap();
    assert_eq!(read_record(&mut stream).await, refusal(9, BAD_CREDENTIAL), "not the first call");
    let (address, _) = serve(None, false).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&probe(0, &[], &[])).await.unwrap();
    assert_eq!(read_record(&mut stream).await, refusal(9, BAD_CREDENTIAL), "TLS is not configured");
}

#[tokio::test]
async fn clear_text_is_refused_where_tls_is_required() {
    let (address, _) = serve(Some(server(None).0), true).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&record(&[8, 0, 2, PROGRAM, VERSION, 0, 0, 0, 0, 0])).await.unwrap();
    assert_eq!(read_record(&mut stream).await, [8, 1, 0, 0, 0, 0], "NULL is harmless");
    stream.write_all(&record(&[9, 0, 2, PROGRAM, VERSION, 1, 0, 0, 0, 0, 42])).await.unwrap();
    assert_eq!(read_record(&mut stream).await, refusal(9, TOO_WEAK));
}

#[tokio::test]
async fn what_an_attacker_puts_behind_the_request_is_not_taken_for_the_clients() {
    let (address, end) = serve(Some(server(None).0), false).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let injected = record(&[8, 0, 2, PROGRAM, VERSION, 1, 0, 0, 0, 0, 42]);
    stream.write_all(&[probe(0, &[], &[]), injected].concat()).await.unwrap();
    assert!(matches!(end.await.unwrap(), Err(RpcError::TlsInjection)));
}

#[tokio::test]
async fn a_handshake_that_ends_or_is_none_ends_the_connection() {
    for hello in [&b""[..], &[22, 3, 1, 0, 100, 1], b"GET / HTTP/1.1\r\n\r\n", &[0x80, 0, 0, 4, 0, 0, 0, 0]] {
        let (address, end) = serve(Some(server(None).0), false).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&probe(0, &[], &[])).await.unwrap();
        assert_eq!(read_record(&mut stream).await[..6], [9, 1, 0, 0, 8, u32::from_be_bytes(*b"STAR")]);
        stream.write_all(hello).await.unwrap();
        stream.shutdown().await.unwrap();
        assert!(matches!(end.await.unwrap(), Err(RpcError::TlsHandshake(_))), "{hello:?}");
    }
}

#[tokio::test]
async fn other_certificates_are_used_for_the_next_connection() {
    let (tls, authority) = server(None);
    let client = TlsClient::new("box.example", authority.pem().as_bytes()).unwrap();
    let next = Authority::new();
    let (certificate, key) = next.issue("box.example");
    tls.replace(certificate.as_bytes(), key.as_bytes(), ClientCertificates::Ignored).unwrap();
    let wrong = next.issue("box.example").1;
    let result = tls.replace(certificate.as_bytes(), wrong.as_bytes(), ClientCertificates::Ignored);
    assert!(result.is_err(), "a key that does not fit");
    assert!(tls.replace(b"", key.as_bytes(), ClientCertificates::Ignored).is_err());
    let (address, _) = serve(Some(tls), false).await;
    assert!(connect(address, &client).await.is_err());
    let (tls, _) = server(None);
    tls.replace(certificate.as_bytes(), key.as_bytes(), ClientCertificates::Ignored).unwrap();
    let (address, _) = serve(Some(tls), false).await;
    let client = TlsClient::new("box.example", next.pem().as_bytes()).unwrap();
    assert_eq!(who(&connect(address, &client).await.unwrap()).await.unwrap(), "anonymous");
}
