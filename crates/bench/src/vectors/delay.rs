//! A line with a delay: a TCP proxy that passes everything on as long after it came, and counts the requests.

mod way;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;

use crate::kernel::{Habits, Kernel};
use crate::peer::Peer;

use way::pass;

/// One line; it is there until the process ends.
#[derive(Clone)]
pub struct Line {
    /// Where it begins.
    pub address: SocketAddr,
    /// Whether the server at its end delegates files.
    pub delegates: bool,
    requests: Arc<AtomicU64>,
}

impl Line {
    /// Listens on loopback, and passes on to a server with this delay in each direction.
    pub fn to(peer: &dyn Peer, delay: Duration) -> Result<Line> {
        let (server, delegates) = (peer.address(), peer.delegates());
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let requests = Arc::new(AtomicU64::new(0));
        let count = requests.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(server) else { continue };
                for stream in [&client, &server] {
                    let _ = stream.set_nodelay(true);
                }
                for (from, to, count) in [(&client, &server, Some(count.clone())), (&server, &client, None)] {
                    if let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) {
                        pass(from, to, delay, Records { count, ..Records::default() });
                    }
                }
            }
        });
        Ok(Line { address, delegates, requests })
    }

    /// The client of the kernel at its end.
    pub async fn kernel(&self) -> Result<Kernel> {
        let habits = Habits { delegated: self.delegates, page_cache: true };
        let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos();
        Kernel::connect(self.address, &format!("kernel-{stamp}"), 2, habits, None).await
    }

    /// Requests that went over it so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// Counts the records of a stream (RFC 5531 §11).
#[derive(Default)]
struct Records {
    count: Option<Arc<AtomicU64>>,
    mark: Vec<u8>,
    /// Bytes to come of this fragment.
    left: usize,
}

impl Records {
    fn see(&mut self, mut bytes: &[u8]) {
        let Some(count) = &self.count else { return };
        while !bytes.is_empty() {
            if self.left > 0 {
                let seen = self.left.min(bytes.len());
                self.left -= seen;
                bytes = &bytes[seen..];
                continue;
            }
            self.mark.push(bytes[0]);
            bytes = &bytes[1..];
            if let [a, b, c, d] = self.mark[..] {
                let mark = u32::from_be_bytes([a, b, c, d]);
                self.left = (mark & 0x7fff_ffff) as usize;
                count.fetch_add(u64::from(mark >> 31), Ordering::Relaxed);
                self.mark.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_however_the_stream_is_cut() {
        // One record of two fragments, an empty one, and one of three bytes.
        let stream = [0, 0, 0, 2, 1, 2, 0x80, 0, 0, 1, 3, 0x80, 0, 0, 0, 0x80, 0, 0, 3, 0x80, 0x80, 0x80];
        for cut in 1..=stream.len() {
            let count = Arc::new(AtomicU64::new(0));
            let mut records = Records { count: Some(count.clone()), ..Records::default() };
            stream.chunks(cut).for_each(|bytes| records.see(bytes));
            assert_eq!(count.load(Ordering::Relaxed), 3, "in pieces of {cut}");
        }
    }
}
