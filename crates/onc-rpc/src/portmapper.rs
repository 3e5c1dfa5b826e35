//! A portmapper (RFC 1833): tells clients that insist on asking at port 111 where a program is served.
//!
//! It knows what it is told at the start. Nobody can register anything by it, and it forwards no calls. UDP is answered as
//! well, in few bytes and seldom: the address of a datagram proves nothing, and whoever is named there gets the answer.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::Clock;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_util::sync::CancellationToken;
use xdr::{DecodeError, Decoder, Encoder};

use crate::budget::Client;
use crate::message::{Message, put_reply};
use crate::{Call, Connection, Limits, OpaqueAuth, Peer, Reply, Service};

/// The portmapper's own program number, and the versions that are spoken.
const PROGRAM: u32 = 100_000;
const VERSIONS: std::ops::RangeInclusive<u32> = 2..=4;

/// Protocol numbers as version 2 uses them.
const TCP: u32 = 6;
const UDP: u32 = 17;

/// Largest datagram that is looked at; calls have about a hundred bytes.
const DATAGRAM: usize = 2048;

/// Answers by UDP in one second: to one client, and to all together.
const ANSWERS_EACH: u32 = 16;
const ANSWERS: u32 = 512;

/// Connections of one client, and of all together; and how long one may last.
const CONNECTIONS_EACH: u32 = 8;
const CONNECTIONS: u32 = 64;
const CONNECTION_LIFE: Duration = Duration::from_secs(10);

/// After an error of a socket.
const PAUSE: Duration = Duration::from_secs(1);

/// A program that is served by TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Program number.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Where; an unspecified address stands for the one by which a client has reached the portmapper.
    pub address: SocketAddr,
}

/// Answers where programs are served.
pub struct Portmapper {
    registered: Vec<(Registration, u32)>,
    clock: Arc<dyn Clock>,
    rate: Mutex<Rate>,
    connections: Mutex<Shares>,
}

impl Portmapper {
    /// Tells of these programs, and of itself at `address`.
    pub fn new(programs: &[Registration], address: SocketAddr, clock: Arc<dyn Clock>) -> Arc<Portmapper> {
        let own = |version| Registration { program: PROGRAM, version, address };
        let itself = VERSIONS.flat_map(|version| [(own(version), TCP), (own(version), UDP)]);
        let registered = programs.iter().map(|program| (*program, TCP)).chain(itself).collect();
        let connections = Mutex::new(Shares::new(CONNECTIONS_EACH, CONNECTIONS));
        Arc::new(Portmapper { registered, clock, rate: Mutex::new(Rate::new()), connections })
    }

    /// Answers until `shutdown` is cancelled.
    pub async fn serve(self: &Arc<Self>, tcp: TcpListener, udp: UdpSocket, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.accept(&tcp, &shutdown) => {}
            () = self.receive(&udp) => {}
        }
    }

    async fn accept(self: &Arc<Self>, listener: &TcpListener, shutdown: &CancellationToken) {
        loop {
            match listener.accept().await {
                Ok((stream, address)) => {
                    let client = Client::at(address.ip());
                    if self.connections.lock().take(client) {
                        let guest = Guest { portmapper: self.clone(), client };
                        let shutdown = shutdown.clone();
                        tokio::spawn(async move { guest.serve(stream, &shutdown).await });
                    }
                }
                Err(error) => self.pause("connections", &error).await,
            }
        }
    }

    async fn receive(&self, socket: &UdpSocket) {
        let mut buffer = [0; DATAGRAM];
        loop {
            let (length, from) = match socket.recv_from(&mut buffer).await {
                Ok(received) => received,
                // Somebody does not want his answer any more.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => {
                    self.pause("datagrams", &error).await;
                    continue;
                }
            };
            let datagram = Bytes::copy_from_slice(&buffer[..length]);
            if let Some(answer) = self.datagram(datagram, from)
                && let Err(error) = socket.send_to(&answer, from).await
            {
                tracing::debug!(%from, %error, "the portmapper cannot answer");
            }
        }
    }

    async fn pause(&self, what: &str, error: &io::Error) {
        tracing::warn!(%error, "the portmapper gets no {what} now");
        self.clock.sleep(PAUSE).await;
    }

    /// The answer to a datagram, if there is one and it may be given.
    fn datagram(&self, datagram: Bytes, from: SocketAddr) -> Option<Bytes> {
        let (xid, reply) = match Message::parse(datagram).ok()? {
            Message::Call(call) => {
                if !self.rate.lock().admit(Client::at(from.ip()), self.clock.monotonic()) {
                    return None;
                }
                (call.xid, self.answer(&call, || address_towards(from)))
            }
            // The rest is no question, or none that anybody has a reason to ask here.
            _ => return None,
        };
        let mut out = Encoder::new();
        let body = put_reply(&mut out, xid, reply, &OpaqueAuth::default())?;
        body.into_iter().for_each(|segment| out.put_raw(segment));
        Some(out.into_bytes())
    }

    /// `here` is the address by which the client has come.
    fn answer(&self, call: &Call, here: impl FnOnce() -> IpAddr) -> Reply {
        if call.program != PROGRAM {
            return Reply::ProgramUnavailable;
        }
        let answered = match (call.version, call.procedure) {
            (2..=4, 0) => Ok(Encoder::new()),
            (2, 3) => self.port(&call.body),
            (2, 4) => Ok(self.list()),
            // A call to forward: who cannot, is silent (RFC 1833 §3.2).
            (2, 5) => return Reply::Drop,
            (3 | 4, 3) => self.address(&call.body, here),
            (2..=4, _) => return Reply::ProcedureUnavailable,
            _ => return Reply::ProgramMismatch { low: *VERSIONS.start(), high: *VERSIONS.end() },
        };
        answered.map_or(Reply::GarbageArguments, Reply::from)
    }

    fn find(&self, program: u32, version: u32, protocol: u32) -> Option<SocketAddr> {
        let found = self.registered.iter().find(|(registration, by)| {
            (registration.program, registration.version, *by) == (program, version, protocol)
        });
        found.map(|(registration, _)| registration.address)
    }

    /// PMAPPROC_GETPORT: 0 for what is not served (RFC 1833 §3.2).
    fn port(&self, body: &Bytes) -> Result<Encoder, DecodeError> {
        let mut input = Decoder::new(body.clone());
        let (program, version, protocol) = (input.u32()?, input.u32()?, input.u32()?);
        input.u32()?; // a port, which means nothing here
        let mut out = Encoder::new();
        out.put_u32(self.find(program, version, protocol).map_or(0, |address| address.port().into()));
        Ok(out)
    }

    /// PMAPPROC_DUMP.
    fn list(&self) -> Encoder {
        let mut out = Encoder::new();
        for (Registration { program, version, address }, protocol) in &self.registered {
            [1, *program, *version, *protocol, address.port().into()]
                .into_iter()
                .for_each(|word| out.put_u32(word));
        }
        out.put_u32(0);
        out
    }

    /// RPCBPROC_GETADDR: a universal address, empty for what is not served (RFC 1833 §2.2.1, RFC 5665 §5.2.3).
    fn address(&self, body: &Bytes, here: impl FnOnce() -> IpAddr) -> Result<Encoder, DecodeError> {
        let mut input = Decoder::new(body.clone());
        let (program, version) = (input.u32()?, input.u32()?);
        let network = input.opaque(32)?;
        input.opaque(256)?; // where the client thinks that it has come to
        input.opaque(256)?; // an owner, which means nothing here
        let protocol = match &network[..] {
            b"tcp" | b"tcp6" => TCP,
            b"udp" | b"udp6" => UDP,
            _ => 0,
        };
        let mut out = Encoder::new();
        match self.find(program, version, protocol) {
            None => out.put_opaque_slice(b""),
            Some(at) => {
                let ip = if at.ip().is_unspecified() { here() } else { at.ip() }.to_canonical();
                let [high, low] = at.port().to_be_bytes();
                out.put_opaque_slice(format!("{ip}.{high}.{low}").as_bytes());
            }
        }
        Ok(out)
    }
}

/// The address of this machine that a packet to `client` would come from; nothing is sent to find out.
fn address_towards(client: SocketAddr) -> IpAddr {
    let unspecified: IpAddr = match client {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let found = std::net::UdpSocket::bind((unspecified, 0)).and_then(|socket| {
        socket.connect(client)?;
        socket.local_addr()
    });
    found.map_or(unspecified, |address| address.ip())
}

/// One connection of a client.
struct Guest {
    portmapper: Arc<Portmapper>,
    client: Client,
}

impl Guest {
    async fn serve(&self, stream: TcpStream, shutdown: &CancellationToken) {
        let limits = Limits {
            record_bytes: DATAGRAM,
            fragments: 4,
            calls: 4,
            call_bytes: 4 * DATAGRAM,
            queued_bytes: 4 * DATAGRAM,
            outgoing_calls: 1,
            patience: CONNECTION_LIFE,
            recycled_bytes: 0,
        };
        let Ok(here) = stream.local_addr() else { return };
        let service = Arc::new(At { portmapper: self.portmapper.clone(), here: here.ip() });
        let Ok(connection) = Connection::tcp(stream, service, limits) else { return };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.portmapper.clock.sleep(CONNECTION_LIFE) => {}
            _ = connection.run() => {}
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.portmapper.connections.lock().give_back(self.client);
    }
}

/// The portmapper at one of this machine's addresses.
struct At {
    portmapper: Arc<Portmapper>,
    here: IpAddr,
}

#[async_trait]
impl Service for At {
    async fn call(&self, call: Call, _: &Peer) -> Reply {
        self.portmapper.answer(&call, || self.here)
    }
}

/// So much for one client, and so much for all.
struct Shares {
    each: u32,
    left: u32,
    taken: HashMap<Client, u32>,
}

impl Shares {
    fn new(each: u32, all: u32) -> Shares {
        Shares { each, left: all, taken: HashMap::new() }
    }

    fn take(&mut self, client: Client) -> bool {
        let taken = self.taken.get(&client).copied().unwrap_or(0);
        if self.left == 0 || taken == self.each {
            return false;
        }
        self.left -= 1;
        self.taken.insert(client, taken + 1);
        true
    }

    fn give_back(&mut self, client: Client) {
        self.left += 1;
        if let Some(taken) = self.taken.get_mut(&client) {
            *taken -= 1;
            if *taken == 0 {
                self.taken.remove(&client);
            }
        }
    }
}

/// Answers given in the present second.
struct Rate {
    second: u64,
    given: Shares,
}

impl Rate {
    fn new() -> Rate {
        Rate { second: 0, given: Shares::new(ANSWERS_EACH, ANSWERS) }
    }

    fn admit(&mut self, client: Client, now: Duration) -> bool {
        if now.as_secs() != self.second {
            *self = Rate { second: now.as_secs(), ..Rate::new() };
        }
        self.given.take(client)
    }
}

#[cfg(test)]
mod tests;
