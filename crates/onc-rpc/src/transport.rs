//! What carries the records: the byte streams, and how far they are protected.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::tls::TlsPeer;

/// How a connection is protected; says nothing of who makes a call, see [`Credential`](crate::Credential).
#[derive(Clone, Debug, Default)]
pub enum Transport {
    /// Not at all: everybody on the way reads and changes it.
    #[default]
    Clear,
    /// By TLS (RFC 9289).
    Tls(Arc<TlsPeer>),
}

impl Transport {
    /// What is known of the other side by TLS.
    pub fn tls(&self) -> Option<&TlsPeer> {
        match self {
            Transport::Clear => None,
            Transport::Tls(peer) => Some(peer),
        }
    }
}

/// What comes in. A plain TCP stream stays one, so that TLS can take it over.
pub(crate) enum Input {
    Tcp(OwnedReadHalf),
    Other(Box<dyn AsyncRead + Send + Unpin>),
}

/// What goes out.
pub(crate) enum Output {
    Tcp(OwnedWriteHalf),
    Other(Box<dyn AsyncWrite + Send + Unpin>),
}

/// Sends what is in several places. `writev`, which the stream itself takes for that, raises SIGPIPE when the other side is gone: the end of
/// a program that has not been told to ignore it, as those in C have not that use us as a library.
fn poll_send(
    stream: &TcpStream,
    context: &mut Context<'_>,
    data: &[io::IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    let send = || {
        let sent = sendmsg(stream, data, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL);
        sent.map_err(io::Error::from)
    };
    loop {
        ready!(stream.poll_write_ready(context))?;
        match stream.try_io(Interest::WRITABLE, send) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            sent => return Poll::Ready(sent),
        }
    }
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Input::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Input::Other(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Output::Tcp(stream) => Pin::new(stream).poll_write(context, data),
            Output::Other(stream) => Pin::new(stream).poll_write(context, data),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Output::Tcp(stream) => poll_send(stream.as_ref(), context, data),
            Output::Other(stream) => Pin::new(stream).poll_write_vectored(context, data),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Output::Tcp(stream) => stream.is_write_vectored(),
            Output::Other(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Output::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Output::Other(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Output::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Output::Other(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
