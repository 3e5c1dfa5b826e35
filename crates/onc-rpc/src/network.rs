//! How byte streams come about: by TCP, but in simulations.

use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// A reliable stream of bytes to and from another machine.
pub enum Stream {
    /// One of the operating system's.
    Tcp(TcpStream),
    /// Any other.
    Other {
        /// What comes in.
        reader: Box<dyn AsyncRead + Send + Unpin>,
        /// What goes out.
        writer: Box<dyn AsyncWrite + Send + Unpin>,
        /// What stands for the other side's address.
        address: SocketAddr,
    },
}

/// Connects to other machines.
#[async_trait]
pub trait Network: Send + Sync {
    /// Opens a stream to the first of these addresses, all of one machine, that answers.
    ///
    /// # Errors
    /// What the last of them said, or that there is none. Nobody answers: this may take minutes, as with TCP.
    async fn connect(&self, addresses: &[SocketAddr]) -> io::Result<Stream>;
}

/// The network of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

#[async_trait]
impl Network for Tcp {
    async fn connect(&self, addresses: &[SocketAddr]) -> io::Result<Stream> {
        Ok(Stream::Tcp(TcpStream::connect(addresses).await?))
    }
}

/// Where other machines connect to.
#[async_trait]
pub trait Listener: Send + Sync {
    /// Waits for the next stream that somebody opens, and who that is.
    ///
    /// # Errors
    /// As accept(2).
    async fn accept(&self) -> io::Result<(Stream, SocketAddr)>;
}

#[async_trait]
impl Listener for TcpListener {
    async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let (stream, address) = TcpListener::accept(self).await?;
        Ok((Stream::Tcp(stream), address))
    }
}
