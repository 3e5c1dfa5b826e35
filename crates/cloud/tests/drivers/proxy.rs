//! A TCP proxy between a driver and its server that does harm on command.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

/// What happens to connections.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    None,
    /// So many requests are answered with this status, and do not reach the server.
    Status {
        code: u16,
        times: usize,
    },
    /// The connection over which so many bytes have gone to the server is cut, once.
    CutUpload {
        after: usize,
    },
    /// The connection over which so many bytes have come from the server is cut, once.
    CutDownload {
        after: usize,
    },
    /// After so many bytes nothing goes to the server any more.
    HoldUpload {
        after: usize,
    },
    /// The server's bytes come one by one.
    Drip,
    /// Answers with much content announce more than they bring.
    WrongLength,
}

pub struct Proxy {
    pub port: u16,
    state: Arc<State>,
    accepting: tokio::task::JoinHandle<()>,
}

struct State {
    server: u16,
    fault: Mutex<Fault>,
    /// Connections live as long as this does not change.
    generation: watch::Sender<u64>,
    held: Notify,
}

impl Proxy {
    /// In front of the server on a port.
    pub async fn start(server: u16) -> Proxy {
        let state = Arc::new(State {
            server,
            fault: Mutex::new(Fault::None),
            generation: watch::Sender::new(0),
            held: Notify::new(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepting = tokio::spawn({
            let state = state.clone();
            async move {
                loop {
                    let (client, _) = listener.accept().await.unwrap();
                    let mut generation = state.generation.subscribe();
                    generation.mark_unchanged();
                    let state = state.clone();
                    tokio::spawn(async move {
                        tokio::select! {
                            () = state.serve(client) => {}
                            _ = generation.changed() => {}
                        }
                    });
                }
            }
        });
        Proxy { port, state, accepting }
    }

    /// From now on; what is connected is cut.
    pub fn set(&self, fault: Fault) {
        *self.state.fault.lock() = fault;
        self.state.generation.send_modify(|generation| *generation += 1);
    }

    /// Until an upload is held.
    pub async fn held(&self) {
        self.state.held.notified().await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.state.generation.send_modify(|generation| *generation += 1);
    }
}

impl State {
    async fn serve(&self, mut client: TcpStream) {
        client.set_nodelay(true).unwrap();
        if let Some(code) = self.status() {
            answer(&mut client, code).await;
            return;
        }
        // The server may be down, which the client learns by the end of the connection.
        let Ok(mut server) = TcpStream::connect(("127.0.0.1", self.server)).await else { return };
        server.set_nodelay(true).unwrap();
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        tokio::select! {
            () = self.up(&mut from_client, &mut to_server) => {}
            () = self.down(&mut from_server, &mut to_client) => {}
        }
    }

    /// The status for this request, if there is one.
    fn status(&self) -> Option<u16> {
        let mut fault = self.fault.lock();
        match *fault {
            Fault::Status { code, times } if times > 0 => {
                *fault = Fault::Status { code, times: times - 1 };
                Some(code)
            }
            _ => None,
        }
    }

    async fn up(&self, from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) {
        let mut buffer = vec![0; 32 << 10];
        let mut passed = 0;
        loop {
            let length = from.read(&mut buffer).await.unwrap_or(0);
            if length == 0 || to.write_all(&buffer[..length]).await.is_err() {
                return;
            }
            passed += length;
            let fault = *self.fault.lock();
            match fault {
                Fault::CutUpload { after } if passed > after => {
                    *self.fault.lock() = Fault::None;
                    return;
                }
                Fault::HoldUpload { after } if passed > after => {
                    self.held.notify_one();
                    std::future::pending::<()>().await;
                }
                _ => {}
            }
        }
    }

    async fn down(&self, from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) {
        let mut buffer = vec![0; 32 << 10];
        let mut passed = 0;
        loop {
            let length = from.read(&mut buffer).await.unwrap_or(0);
            if length == 0 {
                return;
            }
            let mut bytes = buffer[..length].to_vec();
            let fault = *self.fault.lock();
            match fault {
                Fault::Drip => {
                    for byte in bytes {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        if to.write_all(&[byte]).await.is_err() {
                            return;
                        }
                    }
                    continue;
                }
                Fault::WrongLength if bytes.starts_with(b"HTTP/1.") => {
                    if let Some(missing) = exaggerate(&mut bytes) {
                        let _ = to.write_all(&bytes).await;
                        let _ = tokio::io::copy(&mut from.take(missing as u64), to).await;
                        return;
                    }
                }
                _ => {}
            }
            if to.write_all(&bytes).await.is_err() {
                return;
            }
            passed += length;
            if let Fault::CutDownload { after } = fault
                && passed > after
            {
                *self.fault.lock() = Fault::None;
                return;
            }
        }
    }
}

/// Makes the head of an answer announce more than there is; tells how many bytes of the content are still to come.
fn exaggerate(bytes: &mut [u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let head = text.find("\r\n\r\n")?;
    let start = text[..head].find("content-length: ")? + "content-length: ".len();
    let end = start + text[start..].find("\r\n")?;
    let length: usize = text[start..end].parse().ok()?;
    let announced = (length + 5).to_string();
    if length < 40_000 || announced.len() != end - start {
        return None;
    }
    bytes[start..end].copy_from_slice(announced.as_bytes());
    Some(length - (bytes.len() - head - 4).min(length))
}

/// Takes a request and answers it.
async fn answer(client: &mut TcpStream, code: u16) {
    let mut taken = Vec::new();
    let head = loop {
        if client.read_buf(&mut taken).await.unwrap_or(0) == 0 {
            return;
        }
        if let Some(at) = taken.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
    };
    let text = String::from_utf8_lossy(&taken[..head]).to_ascii_lowercase();
    let length =
        text.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<u64>().ok());
    let rest = length.unwrap_or(0).saturating_sub((taken.len() - head - 4) as u64);
    let _ = tokio::io::copy(&mut client.take(rest), &mut tokio::io::sink()).await;
    let answer = format!("HTTP/1.1 {code} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let _ = client.write_all(answer.as_bytes()).await;
    let _ = client.shutdown().await;
}
