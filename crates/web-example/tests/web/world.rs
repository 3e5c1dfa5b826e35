//! A site over NFS or in a directory of this machine, and clients that ask for its files.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use environment::Environment;
use file_system::memory::MemoryFileSystem;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use ids::VolumeId;
use kurma_web::{Bounds, Limits, Site, serve};
use nfs4_server::{Export, Server, ServerConfig};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use vector_client::{Client, Options, Write};

/// A server with one volume `home`.
async fn nfs_server(stop: CancellationToken) -> SocketAddr {
    let environment = Environment::real();
    let volume = MemoryFileSystem::with(VolumeId(1), environment.clock.clone()).writable_by_all();
    let exports = vec![Export::new("home", Arc::new(volume))];
    let server = Server::new(ServerConfig::in_memory(exports, environment)).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { server.serve(listener, stop).await.unwrap() });
    address
}

/// A site: `/home/site` of a client.
pub struct World {
    /// The one that the site uses.
    pub files: Client,
    pub address: SocketAddr,
    pub stop_files: CancellationToken,
    pub stop_web: CancellationToken,
    pub serving: JoinHandle<()>,
    _directory: Option<TempDir>,
}

/// Nothing grows old while a test runs.
pub fn bounds() -> Bounds {
    Bounds { memory_age: Duration::from_secs(3600), ..Bounds::default() }
}

impl World {
    pub async fn nfs(bounds: Bounds, tls: Option<TlsAcceptor>) -> World {
        let stop = CancellationToken::new();
        let address = nfs_server(stop.clone()).await;
        let options = Options { transfer: 4 << 20, ..Options::default() };
        let files = Client::connect(address, options).await.unwrap();
        World::over(files, bounds, tls, Limits::default(), stop, None).await
    }

    pub async fn local(bounds: Bounds, limits: Limits) -> World {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("home")).unwrap();
        let files = Client::local(directory.path()).unwrap();
        World::over(files, bounds, None, limits, CancellationToken::new(), Some(directory)).await
    }

    /// One of each kind.
    pub async fn each(bounds: Bounds) -> [World; 2] {
        [World::nfs(bounds, None).await, World::local(bounds, Limits::default()).await]
    }

    async fn over(
        files: Client,
        bounds: Bounds,
        tls: Option<TlsAcceptor>,
        limits: Limits,
        stop_files: CancellationToken,
        directory: Option<TempDir>,
    ) -> World {
        files.vmkdir(vec![("/home/site".into(), 0o755)]).await.unwrap();
        let site = Arc::new(Site::new(files.clone(), "/home/site", bounds, Environment::real()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop_web = CancellationToken::new();
        let stop = stop_web.clone();
        let serving = tokio::spawn(async move { serve(listener, site, tls, limits, stop).await.unwrap() });
        World { files, address, stop_files, stop_web, serving, _directory: directory }
    }

    /// Makes or replaces files of the site, and the directories that they are in.
    pub async fn fill(&self, files: impl IntoIterator<Item = (String, Bytes)>) {
        let files: Vec<_> =
            files.into_iter().map(|(name, data)| (format!("/home/site/{name}"), data)).collect();
        for (name, _) in &files {
            let directory = name.rsplit_once('/').unwrap().0;
            self.files.ensure_directory(directory, 0o755).await.unwrap();
        }
        let writes = files.into_iter().map(|(name, data)| Write::whole(name, 0o644, data));
        self.files.vwrite(writes.collect()).await.unwrap();
    }

    pub async fn link(&self, name: &str, text: &str) {
        let link = (format!("/home/site/{name}").into(), Bytes::from(text.to_owned()));
        self.files.vsymlink(vec![link]).await.unwrap();
    }

    /// An HTTP/2 connection in the clear.
    pub async fn browser(&self) -> Browser {
        Browser::over(TcpStream::connect(self.address).await.unwrap()).await
    }

    /// What comes back for these bytes.
    pub async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        // The other side may close it rudely.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// What came of a request.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// `None` if it was cut off.
    pub content: Option<Bytes>,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// A client over HTTP/2.
#[derive(Clone)]
pub struct Browser {
    requests: SendRequest<Empty<Bytes>>,
}

impl Browser {
    pub async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Browser {
        let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (requests, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Browser { requests }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[]).await
    }

    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let (parts, body) = self.begin(method, path, headers).await.into_parts();
        let content = body.collect().await.ok().map(|content| content.to_bytes());
        Answer { status: parts.status, headers: parts.headers, content }
    }

    /// The beginning of an answer; no more comes than has room until it is read.
    pub async fn begin(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Response<Incoming> {
        let mut request = Request::builder().method(method).uri(format!("http://site.invalid{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut requests = self.requests.clone();
        requests.ready().await.unwrap();
        requests.send_request(request.body(Empty::new()).unwrap()).await.unwrap()
    }
}
