//! The network between clients and a gateway. Its streams keep their order, as TCP's do; but they are late, end anywhere, or lead nowhere
//! for a while, in one direction or in both.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use environment::Clock;
use onc_rpc::{Listener, Stream};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{mpsc, watch};

use super::World;
use super::dice::Dice;

/// Bytes that a stream takes before anybody reads them.
const WINDOW: usize = 256 << 10;
/// Bytes that are on their way together.
const SEGMENT: usize = 64 << 10;

/// How far machines are from each other, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Around a millisecond.
    Near,
    /// Around a quarter of a second.
    Far,
    /// Nothing that clients send arrives, and nothing that the gateway sends.
    Parted,
    /// What clients send arrives, what the gateway sends does not.
    Mute,
}

/// Which way something goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToGateway,
    ToClient,
}

impl Reach {
    fn lets(self, direction: Direction) -> bool {
        match self {
            Reach::Near | Reach::Far => true,
            Reach::Parted => false,
            Reach::Mute => direction == Direction::ToGateway,
        }
    }
}

/// From the start of a machine to its end. Cheap to clone.
#[derive(Clone)]
pub struct Network(Arc<Inner>);

struct Inner {
    world: World,
    clock: Arc<dyn Clock>,
    reach: watch::Sender<Reach>,
    /// How often all streams were cut.
    cuts: watch::Sender<u64>,
    streams: AtomicU64,
    dice: Mutex<Dice>,
    opened: mpsc::UnboundedSender<(Stream, SocketAddr)>,
    accepted: tokio::sync::Mutex<mpsc::UnboundedReceiver<(Stream, SocketAddr)>>,
}

impl Network {
    pub fn new(world: &World, clock: Arc<dyn Clock>, seed: u64, machine: u64) -> Network {
        let (opened, accepted) = mpsc::unbounded_channel();
        Network(Arc::new(Inner {
            world: world.clone(),
            clock,
            reach: watch::Sender::new(Reach::Near),
            cuts: watch::Sender::new(0),
            streams: AtomicU64::new(0),
            dice: Mutex::new(Dice::new(seed, &format!("network of machine {machine}"))),
            opened,
            accepted: tokio::sync::Mutex::new(accepted),
        }))
    }

    /// From now on it is like this.
    pub fn set(&self, reach: Reach) {
        self.0.reach.send_replace(reach);
    }

    /// All streams that are open end, and of what is on its way any part arrives.
    pub fn cut(&self) {
        self.0.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// How it is now.
    pub fn reach(&self) -> Reach {
        *self.0.reach.borrow()
    }

    /// Where the gateway gets its streams from.
    pub fn listener(&self) -> impl Listener + use<> {
        Gateway(self.clone())
    }

    /// What the client of this number has.
    pub fn of_client(&self, number: usize) -> Arc<dyn onc_rpc::Network> {
        Arc::new(OfClient { network: self.clone(), number })
    }
}

/// The gateway's end of the network.
struct Gateway(Network);

#[async_trait]
impl Listener for Gateway {
    async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        // The network has a sender itself.
        self.0.0.accepted.lock().await.recv().await.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

/// A client's end of the network.
struct OfClient {
    network: Network,
    number: usize,
}

#[async_trait]
impl onc_rpc::Network for OfClient {
    async fn connect(&self, addresses: &[SocketAddr]) -> io::Result<Stream> {
        let inner = &self.network.0;
        let gateway = *addresses.first().ok_or(io::ErrorKind::AddrNotAvailable)?;
        inner.pass(Direction::ToGateway).await;
        inner.pass(Direction::ToClient).await;
        let number = inner.streams.fetch_add(1, Ordering::Relaxed);
        let client = SocketAddr::from(([127, 0, 0, self.number as u8 + 2], 1024 + (number % 60_000) as u16));
        let (to_gateway, from_client) = inner.clone().way(number, Direction::ToGateway);
        let (to_client, from_gateway) = inner.clone().way(number, Direction::ToClient);
        let at = |reader, writer, address| Stream::Other {
            reader: Box::new(reader),
            writer: Box::new(writer),
            address,
        };
        let opened = inner.opened.send((at(from_client, to_client, client), client));
        opened.map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok(at(from_gateway, to_gateway, gateway))
    }
}

impl Inner {
    /// One direction of a stream: where to write, and where to read.
    fn way(self: Arc<Inner>, number: u64, direction: Direction) -> (DuplexStream, DuplexStream) {
        let (writer, from) = duplex(WINDOW);
        let (to, reader) = duplex(WINDOW);
        let cuts = self.cuts.subscribe();
        tokio::spawn(self.carry(number, direction, from, to, cuts));
        (writer, reader)
    }

    /// Until somebody closes the stream, or it is cut.
    async fn carry(
        self: Arc<Inner>,
        number: u64,
        direction: Direction,
        mut from: DuplexStream,
        mut to: DuplexStream,
        mut cuts: watch::Receiver<u64>,
    ) {
        let mut segment = vec![0; SEGMENT];
        loop {
            let length = tokio::select! {
                biased;
                _ = cuts.changed() => return,
                read = from.read(&mut segment) => read.unwrap_or(0),
            };
            let is_cut = tokio::select! {
                biased;
                _ = cuts.changed() => true,
                () = self.pass(direction) => false,
            };
            let length = if is_cut { self.dice.lock().below(length as u64 + 1) as usize } else { length };
            let arrived = &segment[..length];
            self.world.trace().note(format_args!("stream {number}: {length} bytes {direction:?}"), arrived);
            if to.write_all(arrived).await.is_err() || is_cut || length == 0 {
                return;
            }
        }
    }

    /// As long as something takes in this direction.
    async fn pass(&self, direction: Direction) {
        let mut reach = self.reach.subscribe();
        let around = match *reach.borrow() {
            Reach::Far => 250_000,
            _ => 1000,
        };
        let micros = around / 2 + self.dice.lock().below(around);
        self.clock.sleep(Duration::from_micros(micros)).await;
        // The sender is this network's.
        let _ = reach.wait_for(|reach| reach.lets(direction)).await;
    }
}
