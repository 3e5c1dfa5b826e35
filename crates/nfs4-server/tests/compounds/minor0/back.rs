//! Where a client of 4.0 listens for callbacks.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use nfs4::{
    AttributeValues, CbCompoundArgs, CbCompoundRes, CbRecallArgs, NetAddress, NfsCbArgOp, NfsCbResOp,
    NfsStatus, Outcome,
};
use onc_rpc::{AuthSys, Call, Connection, Credential, Limits, Peer, Reply, Service};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub const PROGRAM: u32 = 0x4000_0007;
pub const IDENT: u32 = 77;

/// A universal address.
pub fn location(at: SocketAddr) -> NetAddress {
    let [high, low] = at.port().to_be_bytes();
    NetAddress { network: "tcp".into(), address: format!("{}.{high}.{low}", at.ip()).into() }
}

/// How it answers.
#[derive(Default)]
pub struct Manner {
    /// What it says about its file; nothing: it knows of none.
    pub says: Mutex<Option<AttributeValues>>,
    /// How often it was asked.
    pub asked: AtomicUsize,
    /// CB_NULL.
    pub probes: AtomicUsize,
    /// Connections that came.
    pub connections: AtomicUsize,
    /// Connections that are open.
    pub open: AtomicUsize,
}

impl Manner {
    pub fn says(&self, change: u64, size: u64) {
        let values = AttributeValues { change: Some(change), size: Some(size), ..AttributeValues::default() };
        *self.says.lock() = Some(values);
    }
}

struct Listening {
    manner: Arc<Manner>,
    recalls: mpsc::UnboundedSender<CbRecallArgs>,
}

#[async_trait]
impl Service for Listening {
    async fn call(&self, call: Call, _: &Peer) -> Reply {
        assert_eq!((call.program, call.version), (PROGRAM, nfs4::CALLBACK_VERSION));
        assert_eq!(call.credential, Credential::Sys(AuthSys::new(0, 0)));
        if call.procedure == nfs4::PROCEDURE_NULL {
            self.manner.probes.fetch_add(1, Ordering::SeqCst);
            return Reply::Success(Vec::new());
        }
        let mut args: CbCompoundArgs = xdr::from_bytes(call.body).unwrap();
        assert_eq!((args.minor_version, args.callback_ident, args.ops.len()), (0, IDENT, 1));
        let result = match args.ops.remove(0) {
            NfsCbArgOp::Recall(recall) => {
                let _ = self.recalls.send(recall); // the test may be over
                NfsCbResOp::Recall(NfsStatus::Ok)
            }
            NfsCbArgOp::GetAttr(_) => {
                self.manner.asked.fetch_add(1, Ordering::SeqCst);
                NfsCbResOp::GetAttr(match &*self.manner.says.lock() {
                    Some(values) => Outcome::Ok(values.to_fattr()),
                    None => Outcome::Err(NfsStatus::BadHandle),
                })
            }
            other => panic!("{other:?}"),
        };
        let reply = CbCompoundRes { status: result.status(), tag: args.tag, results: vec![result] };
        Reply::Success(vec![xdr::to_bytes(&reply)])
    }
}

/// Takes calls until it is dropped.
pub struct Back {
    address: SocketAddr,
    pub manner: Arc<Manner>,
    pub recalls: mpsc::UnboundedReceiver<CbRecallArgs>,
    _task: JoinSet<()>,
}

impl Back {
    pub async fn listen(at: IpAddr) -> Back {
        Back::listen_on(SocketAddr::new(at, 0)).await
    }

    pub async fn listen_on(at: SocketAddr) -> Back {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, recalls) = mpsc::unbounded_channel();
        let manner = Arc::<Manner>::default();
        let service = Arc::new(Listening { manner: manner.clone(), recalls: sender });
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let manner = service.manner.clone();
                manner.connections.fetch_add(1, Ordering::SeqCst);
                manner.open.fetch_add(1, Ordering::SeqCst);
                let connection = Connection::tcp(stream, service.clone(), Limits::default()).unwrap();
                connections.spawn(async move {
                    let _ = connection.run().await; // however it ends
                    manner.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Back { address, manner, recalls, _task: task }
    }

    pub fn location(&self) -> NetAddress {
        location(self.address)
    }

    pub fn is_left_alone(&mut self) -> bool {
        self.recalls.try_recv().is_err()
    }

    pub fn connections(&self) -> usize {
        self.manner.connections.load(Ordering::SeqCst)
    }

    pub fn asked(&self) -> usize {
        self.manner.asked.load(Ordering::SeqCst)
    }
}

/// Where somebody listens who behaves in another way: told of each connection, with what came first.
pub async fn listen_badly<F>(
    at: IpAddr,
    behave: impl Fn(tokio::net::TcpStream) -> F + Send + 'static,
) -> (NetAddress, JoinSet<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((at, 0)).await.unwrap();
    let location = location(listener.local_addr().unwrap());
    let mut task = JoinSet::new();
    task.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.spawn(behave(stream));
        }
    });
    (location, task)
}

/// A record that is no RPC message.
pub const GARBAGE: Bytes = Bytes::from_static(&[0x80, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
