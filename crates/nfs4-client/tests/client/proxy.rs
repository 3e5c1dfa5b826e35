//! A proxy between client and server that cuts connections at chosen bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Requests,
    Replies,
}

pub struct Proxy {
    pub address: SocketAddr,
    upstream: Mutex<SocketAddr>,
    /// Cut the connection when so many bytes more have gone this way.
    plan: Mutex<Option<(Direction, usize)>>,
    /// Cuts so far.
    cuts: watch::Sender<usize>,
    /// New connections are closed at once.
    closed: AtomicBool,
    /// Closed from then on, as soon as the plan is carried out.
    close_after_cut: AtomicBool,
    /// Bytes of requests over each connection.
    requests: Mutex<Vec<Arc<AtomicUsize>>>,
    /// Of every connection.
    all: Mutex<CancellationToken>,
}

impl Proxy {
    pub async fn start(upstream: SocketAddr) -> Arc<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Arc::new(Proxy {
            address: listener.local_addr().unwrap(),
            upstream: Mutex::new(upstream),
            plan: Mutex::default(),
            cuts: watch::Sender::new(0),
            closed: AtomicBool::new(false),
            close_after_cut: AtomicBool::new(false),
            requests: Mutex::default(),
            all: Mutex::default(),
        });
        let serving = proxy.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if !serving.closed.load(SeqCst) {
                    tokio::spawn(serving.clone().carry(stream));
                }
            }
        });
        proxy
    }

    /// Cuts the connection that carries the byte after the next `bytes` ones in this direction.
    pub fn cut(&self, direction: Direction, bytes: usize) {
        *self.plan.lock() = Some((direction, bytes));
    }

    /// The same, and lets nobody connect after that.
    pub fn cut_for_good(&self, direction: Direction, bytes: usize) {
        self.close_after_cut.store(true, SeqCst);
        self.cut(direction, bytes);
    }

    /// Cuts every connection now.
    pub fn cut_all(&self) {
        let all = std::mem::take(&mut *self.all.lock());
        all.cancel();
    }

    /// Cuts every connection and lets nobody connect.
    pub fn close(&self) {
        self.closed.store(true, SeqCst);
        self.cut_all();
    }

    /// Lets clients connect again, to this server.
    pub fn open(&self, upstream: SocketAddr) {
        *self.upstream.lock() = upstream;
        self.close_after_cut.store(false, SeqCst);
        self.closed.store(false, SeqCst);
    }

    /// Lets clients connect again, to the same server.
    pub fn reopen(&self) {
        let upstream = *self.upstream.lock();
        self.open(upstream);
    }

    /// Waits for this many cuts by plan.
    pub async fn cuts(&self, count: usize) {
        self.cuts.subscribe().wait_for(|cuts| *cuts >= count).await.unwrap();
    }

    /// Connections that have carried requests so far, each with its bytes.
    pub fn connections(&self) -> Vec<usize> {
        self.requests.lock().iter().map(|bytes| bytes.load(SeqCst)).filter(|bytes| *bytes > 0).collect()
    }

    async fn carry(self: Arc<Proxy>, client: TcpStream) {
        let upstream = *self.upstream.lock();
        let Ok(server) = TcpStream::connect(upstream).await else { return };
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        let counter = Arc::new(AtomicUsize::new(0));
        self.requests.lock().push(counter.clone());
        let all = self.all.lock().clone();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        tokio::select! {
            () = all.cancelled() => {}
            () = self.pump(Direction::Requests, &mut from_client, &mut to_server, Some(&counter)) => {}
            () = self.pump(Direction::Replies, &mut from_server, &mut to_client, None) => {}
        }
    }

    async fn pump(
        &self,
        direction: Direction,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        counter: Option<&AtomicUsize>,
    ) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
            let (pass, cut) = self.allowed(direction, read);
            if let Some(counter) = counter {
                counter.fetch_add(pass, SeqCst);
            }
            if to.write_all(&buffer[..pass]).await.is_err() {
                return;
            }
            if cut {
                if self.close_after_cut.load(SeqCst) {
                    self.close();
                }
                self.cuts.send_modify(|cuts| *cuts += 1);
                return;
            }
        }
    }

    /// How many of these bytes pass, and whether the connection ends then.
    fn allowed(&self, direction: Direction, bytes: usize) -> (usize, bool) {
        let mut plan = self.plan.lock();
        match &mut *plan {
            Some((planned, left)) if *planned == direction => {
                if bytes > *left {
                    let pass = *left;
                    *plan = None;
                    (pass, true)
                } else {
                    *left -= bytes;
                    (bytes, false)
                }
            }
            _ => (bytes, false),
        }
    }
}
