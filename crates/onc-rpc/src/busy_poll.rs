//! Looking out for the next request instead of sleeping until it comes (decision 37).

use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::record::RecordReader;
use crate::transport::Input;

/// So many requests of one connection, one after the other, have to come in time before the next is looked out for.
const FEWEST: u32 = 4;
/// As many at most, however often it was in vain.
const MOST: u32 = 1024;
/// Looks at the socket at most: about 50 µs of them.
const LOOKS: u32 = 400;

/// Numbers connections, from 1 on.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);
/// Who has asked last, of all connections of the process.
static LAST: AtomicU64 = AtomicU64::new(0);

/// When a connection looks out.
pub(crate) struct BusyPoll {
    /// For how long; zero: never.
    longest: Duration,
    own: u64,
    /// How many requests in a row came in time, and nobody else's between them.
    in_a_row: u32,
    /// How many it takes.
    needed: u32,
}

impl BusyPoll {
    pub fn new(longest: Duration) -> BusyPoll {
        let own = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        BusyPoll { longest, own, in_a_row: 0, needed: FEWEST }
    }

    /// Looks out, if that is likely to be worth it. To be called when nothing has arrived and everything is answered, at `since`.
    ///
    /// # Errors
    /// As recv(2).
    pub async fn look_out(&mut self, since: Instant, reader: &mut RecordReader<Input>) -> io::Result<()> {
        if self.in_a_row < self.needed || !reader.can_look() {
            return Ok(());
        }
        // All others have their turn before, as what is found is served without another pause.
        tokio::task::yield_now().await;
        for _ in 0..LOOKS {
            if reader.receive_now()? {
                self.needed = FEWEST.max(self.needed / 2);
                return Ok(());
            }
            if since.elapsed() >= self.longest {
                break;
            }
            spin_loop();
        }
        self.needed = MOST.min(self.needed * 2);
        Ok(())
    }

    /// A request is there; `waited` is how long it took to come, if nothing else was to be done meanwhile.
    pub fn came(&mut self, waited: Option<Duration>) {
        if self.longest.is_zero() {
            return;
        }
        let is_alone = LAST.swap(self.own, Ordering::Relaxed) == self.own;
        let is_in_time = waited.is_some_and(|waited| waited < self.longest);
        self.in_a_row = if is_alone && is_in_time { MOST.min(self.in_a_row + 1) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::Limits;
    use crate::budget::Account;
    use crate::record::LAST_FRAGMENT;

    const LONGEST: Duration = Duration::from_secs(3600);
    const SOON: Option<Duration> = Some(Duration::ZERO);

    /// A reader of a socket, and what is at the other end.
    async fn pair() -> (RecordReader<Input>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (there, here) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let input = Input::Tcp(here.unwrap().0.into_split().0);
        let account = Account::new(None, [127, 0, 0, 1].into());
        (RecordReader::new(input, &Limits::default(), account), there.unwrap())
    }

    fn record(data: &[u8]) -> Vec<u8> {
        [&(data.len() as u32 | LAST_FRAGMENT).to_be_bytes(), data].concat()
    }

    /// One test, as there is one `LAST`.
    #[tokio::test]
    async fn it_looks_out_after_some_in_a_row_and_less_when_that_was_in_vain() {
        let (mut reader, mut there) = pair().await;
        let (mut poll, mut other) = (BusyPoll::new(LONGEST), BusyPoll::new(LONGEST));
        poll.came(SOON);
        for number in 0..FEWEST {
            there.write_all(&record(&[number as u8])).await.unwrap();
            poll.look_out(Instant::now(), &mut reader).await.unwrap();
            assert!(!reader.has_more(), "too early");
            assert_eq!(reader.next().await.unwrap().unwrap().data[..], [number as u8]);
            poll.came(SOON);
        }
        // More than it takes at one look.
        let long = Bytes::from(vec![7; 20_000]);
        for data in [Bytes::from_static(b"short"), long, Bytes::new()] {
            there.write_all(&record(&data)).await.unwrap();
            poll.look_out(Instant::now(), &mut reader).await.unwrap();
            assert!(reader.has_more());
            assert_eq!(reader.next().await.unwrap().unwrap().data, data);
            poll.came(SOON);
        }
        poll.look_out(Instant::now(), &mut reader).await.unwrap();
        assert!(poll.in_a_row >= FEWEST && poll.needed == 2 * FEWEST, "in vain");
        other.came(SOON);
        poll.came(SOON);
        assert_eq!(poll.in_a_row, 0, "another was there between");
        poll.came(SOON);
        assert_eq!(poll.in_a_row, 1);
        poll.came(Some(LONGEST));
        assert_eq!(poll.in_a_row, 0, "late");
        // The end, too, is found.
        poll.in_a_row = MOST;
        drop(there);
        poll.look_out(Instant::now(), &mut reader).await.unwrap();
        assert!(reader.next().await.unwrap().is_none());
        poll.in_a_row = MOST;
        poll.look_out(Instant::now(), &mut reader).await.unwrap();
    }
}
