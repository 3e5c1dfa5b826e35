use ids::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::message::put_call;
use crate::{Credential, NoService, Procedure, RpcError};

const NFS: u32 = 100_003;

/// Stands still until it is set; nobody sleeps.
struct HandClock(Mutex<Duration>);

#[async_trait]
impl Clock for HandClock {
    fn wall(&self) -> Timestamp {
        Timestamp::default()
    }

    fn monotonic(&self) -> Duration {
        *self.0.lock()
    }

    async fn sleep(&self, _: Duration) {
        std::future::pending().await
    }
}

fn portmapper() -> (Arc<Portmapper>, Arc<HandClock>) {
    let clock = Arc::new(HandClock(Mutex::new(Duration::from_secs(7))));
    let everywhere = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let programs = [
        Registration { program: NFS, version: 4, address: everywhere(2049) },
        Registration { program: 200_000, version: 1, address: "10.1.2.3:258".parse().unwrap() },
    ];
    (Portmapper::new(&programs, everywhere(111), clock.clone()), clock)
}

fn words(words: &[u32]) -> Bytes {
    words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>().into()
}

fn of_address(program: u32, version: u32, network: &str) -> Bytes {
    let mut out = Encoder::new();
    out.put_u32(program);
    out.put_u32(version);
    for text in [network, "0.0.0.0.0.111", "me"] {
        out.put_opaque_slice(text.as_bytes());
    }
    out.into_bytes()
}

fn call(version: u32, number: u32, body: &Bytes) -> Vec<u8> {
    let mut out = Encoder::new();
    put_call(&mut out, 77, Procedure { program: PROGRAM, version, number }, &Credential::None);
    out.put_raw(body.clone());
    out.into_bytes().to_vec()
}

fn from(client: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, client], 1023))
}

/// What comes back for one call by UDP.
fn result(version: u32, number: u32, body: &Bytes) -> Result<Bytes, RpcError> {
    let answer = portmapper().0.datagram(call(version, number, body).into(), from(9)).unwrap();
    match Message::parse(answer).unwrap() {
        Message::Reply { xid: 77, result } => result,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ports_are_told_of_what_is_served_and_of_nothing_else() {
    let port = |program, version, protocol| result(2, 3, &words(&[program, version, protocol, 0])).unwrap();
    assert_eq!(port(NFS, 4, TCP), words(&[2049]));
    assert_eq!(port(PROGRAM, 2, UDP), words(&[111]));
    for (program, version, protocol) in [(NFS, 3, TCP), (NFS, 4, UDP), (100_005, 3, TCP), (NFS, 4, 0)] {
        assert_eq!(port(program, version, protocol), words(&[0]), "{program} {version} {protocol}");
    }
    assert_eq!(result(2, 0, &Bytes::new()).unwrap(), Bytes::new());
}

#[test]
fn universal_addresses_name_the_address_that_the_client_has_reached() {
    let address = |program, version, network| {
        let mut answers = [3, 4].map(|own| result(own, 3, &of_address(program, version, network)).unwrap());
        assert_eq!(answers[0], answers[1]);
        String::from_utf8(Decoder::new(std::mem::take(&mut answers[0])).opaque(99).unwrap().to_vec()).unwrap()
    };
    assert_eq!(address(NFS, 4, "tcp"), "127.0.0.1.8.1");
    assert_eq!(address(200_000, 1, "tcp"), "10.1.2.3.1.2");
    assert_eq!(address(PROGRAM, 4, "udp"), "127.0.0.1.0.111");
    for (program, version, network) in [(NFS, 4, "udp"), (NFS, 3, "tcp"), (NFS, 4, "local"), (NFS, 4, "")] {
        assert_eq!(address(program, version, network), "", "{program} {version} {network}");
    }
}

#[test]
fn the_list_names_everything() {
    let listed = result(2, 4, &Bytes::new()).unwrap();
    assert_eq!(listed.len(), 8 * 20 + 4);
    assert_eq!(listed[..20], words(&[1, NFS, 4, TCP, 2049])[..]);
    assert_eq!(listed[160..], [0; 4]);
}

#[test]
fn nobody_registers_anything_or_has_a_call_forwarded() {
    let mapping = words(&[NFS, 3, TCP, 666]);
    for number in [1, 2] {
        assert!(matches!(result(2, number, &mapping), Err(RpcError::ProcedureUnavailable)));
        assert!(matches!(result(4, number, &mapping), Err(RpcError::ProcedureUnavailable)));
    }
    assert!(matches!(result(3, 5, &mapping), Err(RpcError::ProcedureUnavailable)));
    assert_eq!(portmapper().0.datagram(call(2, 5, &mapping).into(), from(9)), None);
    assert!(matches!(result(5, 0, &mapping), Err(RpcError::ProgramMismatch { low: 2, high: 4 })));
    assert!(matches!(result(2, 3, &words(&[NFS, 4, TCP])), Err(RpcError::GarbageArguments)));
    assert!(matches!(result(4, 3, &words(&[NFS, 4, 1 << 30])), Err(RpcError::GarbageArguments)));
}

#[test]
fn a_client_gets_few_answers_by_udp_and_all_together_not_many() {
    let (portmapper, clock) = portmapper();
    let asks = |client| portmapper.datagram(call(2, 0, &Bytes::new()).into(), from(client)).is_some();
    assert_eq!((0..1000).filter(|_| asks(1)).count(), ANSWERS_EACH as usize);
    assert!(asks(2));
    let others = (3..=250).map(|client| (0..1000).filter(|_| asks(client)).count()).sum::<usize>();
    assert_eq!(others, (ANSWERS - ANSWERS_EACH - 1) as usize);
    *clock.0.lock() += Duration::from_secs(1);
    assert!(asks(1));
    assert_eq!(portmapper.rate.lock().given.taken.len(), 1, "nobody is remembered for longer");
}

#[tokio::test]
async fn it_is_asked_by_tcp_and_udp_and_a_client_cannot_take_all_connections() {
    let (portmapper, _) = portmapper();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (by_tcp, by_udp) = (tcp.local_addr().unwrap(), udp.local_addr().unwrap());
    let stop = CancellationToken::new();
    let serving = tokio::spawn({
        let (portmapper, stop) = (portmapper.clone(), stop.clone());
        async move { portmapper.serve(tcp, udp, stop).await }
    });
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(b"garbage", by_udp).await.unwrap();
    socket.send_to(&call(2, 3, &words(&[NFS, 4, TCP, 0])), by_udp).await.unwrap();
    let mut answer = [0; 99];
    let (length, _) = socket.recv_from(&mut answer).await.unwrap();
    assert_eq!(answer[length - 4..length], 2049_u32.to_be_bytes());

    let connect = || Peer::connect(by_tcp, Arc::new(NoService), Limits::default());
    let ask = async |peer: &Peer| {
        let procedure = Procedure { program: PROGRAM, version: 4, number: 3 };
        let body = vec![of_address(NFS, 4, "tcp")];
        peer.call(procedure, &Credential::None, body, Duration::from_secs(60)).await
    };
    let mut peers = Vec::new();
    for _ in 0..CONNECTIONS_EACH {
        let peer = connect().await.unwrap();
        let answer = Decoder::new(ask(&peer).await.unwrap()).opaque(99).unwrap();
        assert_eq!(answer, "127.0.0.1.8.1");
        peers.push(peer);
    }
    assert!(ask(&connect().await.unwrap()).await.is_err(), "one too many");
    stop.cancel();
    serving.await.unwrap();
    peers[0].closed().await;
}

proptest! {
    #[test]
    fn no_datagram_is_answered_at_length_or_harms(
        datagram in prop_oneof![
            vec(prop_oneof![4 => 0u8..6, 1 => any::<u8>()], 0..200),
            (2u32..5, 0u32..13, vec(any::<u8>(), 0..40)).prop_map(|(version, number, body)| call(version, number, &body.into())),
        ],
        change in any::<(prop::sample::Index, u8)>(),
    ) {
        let mut datagram = datagram;
        if !datagram.is_empty() {
            let at = change.0.index(datagram.len());
            datagram[at] = change.1;
        }
        let answer = portmapper().0.datagram(datagram.into(), from(1));
        prop_assert!(answer.is_none_or(|answer| answer.len() <= 200));
    }
}
