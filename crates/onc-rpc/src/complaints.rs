//! What the log tells of clients that are refused: enough to find out why, not so much that one of them could fill a disk.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::budget::Client;

/// Lines about one client and one kind of complaint are counted for so long.
const INTERVAL: Duration = Duration::from_secs(60);

/// Lines of one kind about one client in that time: the reasons may differ.
const LINES: u32 = 4;

/// Clients and kinds that are kept apart.
const MAX_TOLD: usize = 1024;

/// Why a client is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Complaint {
    /// It calls in the clear, and TLS is required.
    ClearText,
    /// It asks for TLS in the wrong way, or there is none.
    TlsRequest,
    /// It does not get through the handshake.
    Handshake,
    /// It gets no security context.
    NoContext,
    /// It has a security context, and its call is refused.
    Call,
}

struct Told {
    since: Instant,
    lines: u32,
    suppressed: u64,
}

/// What was told lately.
#[derive(Default)]
struct Complaints {
    told: Mutex<HashMap<(Client, Complaint), Told>>,
    suppressed: AtomicU64,
}

/// A line may be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Lines of this kind about this client that were left out before it, if there were any.
    pub suppressed: Option<u64>,
}

/// The log is one for the whole process.
static COMPLAINTS: LazyLock<Complaints> = LazyLock::new(Complaints::default);

/// Whether to write a line about the client at `address` now.
pub(crate) fn may_tell(address: IpAddr, complaint: Complaint) -> Option<Line> {
    COMPLAINTS.may_tell(Client::at(address), complaint, Instant::now())
}

/// Lines about refused clients that were left out of the log since the start of the process: beyond four of one kind about
/// one address in a minute.
pub fn suppressed_log_lines() -> u64 {
    COMPLAINTS.suppressed.load(Ordering::Relaxed)
}

impl Complaints {
    fn may_tell(&self, client: Client, complaint: Complaint, now: Instant) -> Option<Line> {
        let line = self.line(client, complaint, now);
        self.suppressed.fetch_add(u64::from(line.is_none()), Ordering::Relaxed);
        line
    }

    fn line(&self, client: Client, complaint: Complaint, now: Instant) -> Option<Line> {
        let is_fresh = |told: &Told| now.saturating_duration_since(told.since) < INTERVAL;
        let mut all = self.told.lock();
        if let Some(told) = all.get_mut(&(client, complaint)) {
            if !is_fresh(told) {
                let suppressed = Some(told.suppressed).filter(|suppressed| *suppressed > 0);
                *told = Told { since: now, lines: 1, suppressed: 0 };
                return Some(Line { suppressed });
            }
            if told.lines < LINES {
                told.lines += 1;
                return Some(Line { suppressed: None });
            }
            told.suppressed += 1;
            return None;
        }
        if all.len() >= MAX_TOLD {
            all.retain(|_, told| is_fresh(told));
        }
        if all.len() >= MAX_TOLD {
            return None;
        }
        all.insert((client, complaint), Told { since: now, lines: 1, suppressed: 0 });
        Some(Line { suppressed: None })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn client(number: u32) -> Client {
        Client::at(Ipv4Addr::from_bits(number).into())
    }

    const TOLD: Option<Line> = Some(Line { suppressed: None });

    #[test]
    fn a_client_gets_a_few_lines_a_minute_and_the_next_one_says_how_many_were_left_out() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        let tell = |number, kind, after| complaints.may_tell(client(number), kind, start + after);
        for _ in 0..LINES {
            assert_eq!(tell(1, Complaint::ClearText, Duration::ZERO), TOLD);
        }
        for _ in 0..10 {
            assert_eq!(tell(1, Complaint::ClearText, INTERVAL / 2), None);
        }
        assert_eq!(tell(1, Complaint::Handshake, INTERVAL / 2), TOLD, "another kind");
        assert_eq!(tell(2, Complaint::ClearText, INTERVAL / 2), TOLD, "another client");
        assert_eq!(tell(1, Complaint::ClearText, INTERVAL), Some(Line { suppressed: Some(10) }));
        assert_eq!(tell(1, Complaint::ClearText, INTERVAL), TOLD);
        assert_eq!(complaints.suppressed.load(Ordering::Relaxed), 10);
    }

    #[test]
    fn many_clients_fill_neither_log_nor_memory() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        let told =
            (0..5000).filter(|n| complaints.may_tell(client(*n), Complaint::Call, start).is_some()).count();
        assert_eq!(told, MAX_TOLD);
        assert_eq!(complaints.suppressed.load(Ordering::Relaxed), 5000 - MAX_TOLD as u64);
        assert_eq!(complaints.may_tell(client(4999), Complaint::Call, start + INTERVAL), TOLD);
        assert_eq!(complaints.told.lock().len(), 1, "the old ones are forgotten");
    }

    #[test]
    fn all_addresses_of_one_place_are_one_client() {
        let (complaints, now) = (Complaints::default(), Instant::now());
        let mut told = 0;
        for host in 0..100 {
            let address = std::net::Ipv6Addr::new(0xfd00, 0, 0, 7, 0, 0, 0, host);
            told += u32::from(
                complaints.may_tell(Client::at(address.into()), Complaint::NoContext, now).is_some(),
            );
        }
        assert_eq!(told, LINES);
    }
}
