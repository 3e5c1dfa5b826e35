use std::time::Duration;

use bytes::{Bytes, BytesMut};
use environment::Clock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream};

use crate::{Endpoint, ScanError};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);

trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// One question and its answer, over a connection of its own. The answer is listened for while the question is sent: a scanner may give it
/// early, and stop reading.
pub(crate) struct Exchange {
    from: ReadHalf<Box<dyn Socket>>,
    to: WriteHalf<Box<dyn Socket>>,
    pub received: BytesMut,
    /// The longest answer.
    most: usize,
}

/// How sending went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All of it is on its way.
    Whole,
    /// An answer has begun to come; nothing more should be sent.
    Answered,
}

impl Exchange {
    pub async fn open(endpoint: &Endpoint, most: usize, clock: &dyn Clock) -> Result<Exchange, ScanError> {
        let connecting = async {
            match endpoint {
                Endpoint::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?) as Box<dyn Socket>),
                Endpoint::Tcp(host, port) => {
                    let host = host.trim_start_matches('[').trim_end_matches(']');
                    let stream = TcpStream::connect((host, *port)).await?;
                    stream.set_nodelay(true)?;
                    Ok(Box::new(stream) as Box<dyn Socket>)
                }
            }
        };
        let connected: std::io::Result<Box<dyn Socket>> = tokio::select! {
            connected = connecting => connected,
            () = clock.sleep(CONNECT) => return Err(ScanError::Connect(format!("no connection within {CONNECT:?}"))),
        };
        let socket = connected.map_err(|cause| ScanError::Connect(cause.to_string()))?;
        let (from, to) = tokio::io::split(socket);
        Ok(Exchange { from, to, received: BytesMut::new(), most })
    }

    /// Sends these, unless an answer comes before.
    pub async fn send(&mut self, parts: &[Bytes]) -> Result<Sent, ScanError> {
        for part in parts {
            let room = self.most.saturating_sub(self.received.len());
            let (from, to, received) = (&mut self.from, &mut self.to, &mut self.received);
            let mut some = [0; 512];
            let most = some.len().min(room.max(1));
            let sent = tokio::select! {
                biased;
                read = from.read(&mut some[..most]) => {
                    received.extend_from_slice(&some[..read.unwrap_or(0)]);
                    Ok(Sent::Answered)
                }
                sent = to.write_all(part) => sent.map(|()| Sent::Whole),
            };
            match sent {
                Ok(Sent::Whole) => {}
                // What was said before the end may still come.
                Ok(Sent::Answered) | Err(_) => return Ok(Sent::Answered),
            }
        }
        Ok(Sent::Whole)
    }

    /// Waits for more of the answer; whether there is any.
    pub async fn receive(&mut self) -> Result<bool, ScanError> {
        if self.received.len() >= self.most {
            return Err(ScanError::Malformed(format!("an answer of more than {} bytes", self.most)));
        }
        let room = self.most - self.received.len();
        let mut some = [0; 4096];
        let most = some.len().min(room);
        let read = self.from.read(&mut some[..most]).await;
        let read = read.map_err(|cause| ScanError::Lost(cause.to_string()))?;
        self.received.extend_from_slice(&some[..read]);
        Ok(read > 0)
    }
}
