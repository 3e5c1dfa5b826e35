//! The way back to a client: a connection that is made to where it listens (RFC 7530 §10.2, §16.33).
//!
//! A path is proved by CB_NULL over the connection that callbacks then take, and stays proved when that ends while nothing
//! was under way: it is made again when it is needed. Two connections in a row that were lost with a callback under way
//! take the proof away until a callback is answered, even if CB_NULL is: who hangs up whenever it is recalled gets
//! nothing that would have to be recalled.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use nfs4::NetAddress;
use onc_rpc::{ConnectionId, Credential};

/// Below are the services of a machine, which nobody is to be connected to by us.
const FIRST_PORT: u16 = 1024;

/// Longest address that means something: IPv6 in full, and a port.
const ADDRESS_BYTES: usize = 64;

/// A connection without callbacks for so long is closed.
const IDLE: Duration = Duration::from_secs(60);

/// Callbacks to one client that are under way.
const IN_FLIGHT: usize = 16;

/// Connections in a row that may be lost with a callback under way.
const LOST: u32 = 2;

/// Where and how a client wants to be called back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Callback {
    address: SocketAddr,
    program: u32,
    ident: u32,
    credential: Credential,
}

impl Callback {
    /// From SETCLIENTID. Only at the address that the request came from: nobody makes the server connect to others.
    pub fn new(
        program: u32,
        location: &NetAddress,
        ident: u32,
        from: IpAddr,
        credential: Credential,
    ) -> Option<Callback> {
        let address = parse(location)?;
        let is_own = address.ip().to_canonical() == from.to_canonical();
        let may = is_own && address.port() >= FIRST_PORT;
        may.then_some(Callback { address, program, ident, credential })
    }
}

/// A universal address (RFC 5665 §5.2.3.3, §5.2.3.4): the text of an address, and two bytes of port.
fn parse(location: &NetAddress) -> Option<SocketAddr> {
    if location.address.len() > ADDRESS_BYTES {
        return None;
    }
    let mut parts = std::str::from_utf8(&location.address).ok()?.rsplitn(3, '.');
    let low: u8 = parts.next()?.parse().ok()?;
    let high: u8 = parts.next()?.parse().ok()?;
    let host = parts.next()?;
    let ip = match &location.network[..] {
        b"tcp" => IpAddr::V4(host.parse::<Ipv4Addr>().ok()?),
        b"tcp6" => IpAddr::V6(host.parse::<Ipv6Addr>().ok()?),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes([high, low])))
}

/// The connection of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Down,
    /// It is being made, or about to be.
    Dialling,
    Up(ConnectionId),
}

/// What becomes of a path when its connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It was not the connection of the path.
    Other,
    /// The path stays proved, as far as it is.
    Proved,
    Unproved,
}

/// The path to one client.
#[derive(Debug)]
pub(crate) struct Path {
    callback: Callback,
    /// No other path has it.
    pub number: u64,
    line: Line,
    proved: bool,
    failed_probes: u32,
    /// Connections that were lost with a callback under way since one was answered.
    lost: u32,
    /// Callbacks under way on the connection.
    in_flight: usize,
    /// How often the client has put off callbacks since it took one.
    pub attempts: u32,
    /// When the path is tried again, or its idle connection closed.
    due: Option<Duration>,
}

impl Path {
    /// It is about to be tried.
    pub fn new(callback: Callback, number: u64) -> Path {
        Path {
            callback,
            number,
            line: Line::Dialling,
            proved: false,
            failed_probes: 0,
            lost: 0,
            in_flight: 0,
            attempts: 0,
            due: None,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.callback.address
    }

    pub fn program(&self) -> u32 {
        self.callback.program
    }

    pub fn ident(&self) -> u32 {
        self.callback.ident
    }

    pub fn credential(&self) -> &Credential {
        &self.callback.credential
    }

    /// Whether it was found out that the client can be called back.
    pub fn is_proved(&self) -> bool {
        self.proved
    }

    /// Whether it was found out that the client cannot be called back.
    pub fn is_down(&self) -> bool {
        !self.proved && (self.failed_probes > 0 || self.lost > 0)
    }

    pub fn is_dialling(&self) -> bool {
        self.line == Line::Dialling
    }

    /// The connection, if there is one.
    pub fn connection(&self) -> Option<ConnectionId> {
        match self.line {
            Line::Up(connection) => Some(connection),
            Line::Down | Line::Dialling => None,
        }
    }

    /// Whether it has to be dialled for a callback that waits. A path that is not proved waits for its time.
    pub fn wants_line(&mut self) -> bool {
        let wants = self.proved && self.line == Line::Down;
        if wants {
            self.line = Line::Dialling;
        }
        wants
    }

    /// The connection was made, and CB_NULL answered; or not. Says whether that matters.
    pub fn dialled(&mut self, connection: Option<ConnectionId>) -> bool {
        if self.line != Line::Dialling {
            return false;
        }
        (self.in_flight, self.due) = (0, None);
        match connection {
            Some(connection) => {
                self.line = Line::Up(connection);
                self.failed_probes = 0;
                self.proved = self.lost < LOST;
            }
            None => {
                self.line = Line::Down;
                self.failed_probes = self.failed_probes.saturating_add(1);
                self.proved = false;
            }
        }
        true
    }

    /// Whether a callback can be sent.
    pub fn may_call(&self) -> bool {
        self.connection().is_some() && self.in_flight < IN_FLIGHT
    }

    /// A callback is sent on this connection.
    pub fn begin_call(&mut self) -> Option<ConnectionId> {
        let connection = self.connection().filter(|_| self.may_call())?;
        self.in_flight += 1;
        self.due = None;
        Some(connection)
    }

    /// The client has answered a callback that was sent on this connection.
    pub fn answered(&mut self, connection: ConnectionId, took: bool) {
        if self.line == Line::Up(connection) {
            self.in_flight = self.in_flight.saturating_sub(1);
            (self.lost, self.proved) = (0, true);
            self.attempts = if took { 0 } else { self.attempts.saturating_add(1) };
        }
    }

    /// The connection has ended, or is of no use.
    pub fn lose(&mut self, connection: ConnectionId) -> Loss {
        if self.line != Line::Up(connection) {
            return Loss::Other;
        }
        (self.line, self.due) = (Line::Down, None);
        if self.in_flight > 0 {
            self.lost = self.lost.saturating_add(1);
        }
        self.in_flight = 0;
        self.proved &= self.lost < LOST;
        if self.proved { Loss::Proved } else { Loss::Unproved }
    }

    /// Time has passed: whether the path is to be tried again now. `pause` says how long to wait after so many failures.
    pub fn is_due(&mut self, now: Duration, pause: impl Fn(u32) -> Duration) -> bool {
        if self.proved || self.line != Line::Down {
            return false;
        }
        let failures = self.failed_probes.saturating_add(self.lost);
        let due = *self.due.get_or_insert(now + pause(failures));
        let is_due = now >= due;
        if is_due {
            (self.line, self.due) = (Line::Dialling, None);
        }
        is_due
    }

    /// Time has passed: the connection, if nothing went over it for so long that it is to be closed.
    pub fn hang_up_if_idle(&mut self, now: Duration) -> Option<ConnectionId> {
        let connection = self.connection().filter(|_| self.in_flight == 0)?;
        let due = *self.due.get_or_insert(now + IDLE);
        if now < due {
            return None;
        }
        (self.line, self.due) = (Line::Down, None);
        Some(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(network: &'static str, address: &'static str) -> NetAddress {
        NetAddress { network: network.into(), address: address.into() }
    }

    fn callback(network: &'static str, address: &'static str, from: &str) -> Option<SocketAddr> {
        let location = location(network, address);
        let callback = Callback::new(1, &location, 1, from.parse().unwrap(), Credential::None);
        callback.map(|callback| callback.address)
    }

    #[test]
    fn a_client_is_called_back_at_its_own_address_alone() {
        for (network, address, from, to) in [
            ("tcp", "10.0.0.1.195.80", "10.0.0.1", Some("10.0.0.1:50000")),
            ("tcp", "10.0.0.1.195.80", "::ffff:10.0.0.1", Some("10.0.0.1:50000")),
            ("tcp6", "fd00::1.4.0", "fd00::1", Some("[fd00::1]:1024")),
            ("tcp6", "::ffff:10.0.0.1.4.0", "10.0.0.1", Some("[::ffff:10.0.0.1]:1024")),
            ("tcp", "10.0.0.2.195.80", "10.0.0.1", None),
            ("tcp6", "fd00::2.4.0", "fd00::1", None),
            ("tcp", "10.0.0.1.3.255", "10.0.0.1", None),
            ("tcp", "10.0.0.1.0.0", "10.0.0.1", None),
            ("udp", "10.0.0.1.195.80", "10.0.0.1", None),
            ("tcp6", "10.0.0.1.195.80", "10.0.0.1", None),
            ("tcp", "fd00::1.4.0", "fd00::1", None),
            ("tcp", "10.0.0.1.256.80", "10.0.0.1", None),
            ("tcp", "10.0.0.1.-1.80", "10.0.0.1", None),
            ("tcp", "localhost.195.80", "127.0.0.1", None),
            ("tcp", "0.0.0.0.195.80", "10.0.0.1", None),
            ("tcp", "195.80", "10.0.0.1", None),
            ("tcp", "", "10.0.0.1", None),
            ("tcp", "\u{ff11}0.0.0.1.195.80", "10.0.0.1", None),
        ] {
            let expected = to.map(|to: &str| to.parse().unwrap());
            assert_eq!(callback(network, address, from), expected, "{network} {address} from {from}");
        }
    }

    fn path() -> Path {
        let location = location("tcp", "10.0.0.1.195.80");
        let from = "10.0.0.1".parse().unwrap();
        Path::new(Callback::new(1, &location, 1, from, Credential::None).unwrap(), 1)
    }

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);
    const SECOND: Duration = Duration::from_secs(1);

    fn pause(failures: u32) -> Duration {
        SECOND * failures
    }

    #[test]
    fn an_idle_line_is_closed_and_made_again_when_it_is_needed() {
        let mut path = path();
        assert!(!path.is_proved() && !path.is_down());
        assert!(path.dialled(Some(A)) && path.is_proved());
        assert_eq!(path.hang_up_if_idle(SECOND), None);
        assert_eq!(path.begin_call(), Some(A));
        assert_eq!(path.hang_up_if_idle(SECOND + IDLE), None, "a callback is under way");
        path.answered(A, true);
        assert_eq!(path.hang_up_if_idle(SECOND + IDLE), None, "the time begins now");
        assert_eq!(path.hang_up_if_idle(SECOND + 2 * IDLE), Some(A));
        assert!(path.is_proved() && !path.is_due(10 * IDLE, pause), "there is nothing to find out");
        assert!(path.wants_line() && !path.wants_line(), "once");
        assert!(path.dialled(Some(B)));
        assert_eq!(path.begin_call(), Some(B));
    }

    #[test]
    fn who_hangs_up_on_callbacks_is_down_until_it_answers_one() {
        let mut path = path();
        path.dialled(Some(A));
        path.begin_call();
        assert_eq!(path.lose(A), Loss::Proved, "that may happen");
        assert_eq!(path.lose(A), Loss::Other, "and counts once");
        assert!(path.wants_line());
        path.dialled(Some(B));
        path.begin_call();
        assert_eq!(path.lose(B), Loss::Unproved);
        assert!(path.is_down() && !path.wants_line());
        assert!(!path.is_due(SECOND, pause) && !path.is_due(2 * SECOND, pause));
        assert!(path.is_due(3 * SECOND, pause));
        path.dialled(Some(A));
        assert!(path.is_down(), "CB_NULL is not enough");
        path.begin_call();
        path.answered(A, true);
        assert!(path.is_proved() && !path.is_down());
    }

    #[test]
    fn a_path_that_fails_is_tried_again_after_a_pause() {
        let mut path = path();
        assert!(path.dialled(None) && path.is_down());
        assert!(!path.dialled(Some(A)), "too late");
        assert!(!path.is_due(Duration::ZERO, pause));
        assert!(path.is_due(SECOND, pause) && !path.is_due(SECOND, pause), "once");
        path.dialled(None);
        assert!(!path.is_due(SECOND, pause) && !path.is_due(2 * SECOND, pause));
        assert!(path.is_due(3 * SECOND, pause));
        path.dialled(Some(A));
        assert!(path.is_proved());
    }

    #[test]
    fn not_too_much_is_under_way_at_a_time() {
        let mut path = path();
        path.dialled(Some(A));
        let sent = std::iter::from_fn(|| path.begin_call()).count();
        assert_eq!(sent, IN_FLIGHT);
        path.answered(A, false);
        assert_eq!((path.attempts, path.begin_call(), path.begin_call()), (1, Some(A), None));
    }
}
