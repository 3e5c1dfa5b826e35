//! What the log tells of clients that are refused: enough to find out why, not so much that one of them could fill a disk.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::budget::Client;

/// The same about one client is told once in this time.
const INTERVAL: Duration = Duration::from_secs(60);

/// Different things about one client that are told in that time.
const LINES: usize = 16;

/// Clients that are kept apart.
const CLIENTS: usize = 1024;

/// Why a client is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    complaint: Complaint,
    /// A hash of the text.
    reason: u64,
    since: Instant,
    suppressed: u64,
}

impl Told {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < INTERVAL
    }
}

/// What was told lately.
#[derive(Default)]
struct Complaints {
    told: Mutex<HashMap<Client, Vec<Told>>>,
    suppressed: AtomicU64,
}

/// A line may be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Lines about this client that were left out before it, if there were any.
    pub suppressed: Option<u64>,
}

/// The log is one for the whole process.
static COMPLAINTS: LazyLock<Complaints> = LazyLock::new(Complaints::default);

/// Whether to write a line with this reason about the client at `address` now.
pub(crate) fn may_tell(address: IpAddr, complaint: Complaint, reason: &dyn Display) -> Option<Line> {
    let mut hasher = DefaultHasher::new();
    reason.to_string().hash(&mut hasher);
    COMPLAINTS.may_tell(Client::at(address), complaint, hasher.finish(), Instant::now())
}

/// Lines about refused clients that were left out of the log since the start of the process: the same about one address
/// within a minute, and what is beyond sixteen different ones.
pub fn suppressed_log_lines() -> u64 {
    COMPLAINTS.suppressed.load(Ordering::Relaxed)
}

impl Complaints {
    fn may_tell(&self, client: Client, complaint: Complaint, reason: u64, now: Instant) -> Option<Line> {
        let line = self.line(client, complaint, reason, now);
        self.suppressed.fetch_add(u64::from(line.is_none()), Ordering::Relaxed);
        line
    }

    fn line(&self, client: Client, complaint: Complaint, reason: u64, now: Instant) -> Option<Line> {
        let mut all = self.told.lock();
        if all.len() >= CLIENTS && !all.contains_key(&client) {
            all.retain(|_, told| told.iter().any(|told| told.is_fresh(now)));
            if all.len() >= CLIENTS {
                return None;
            }
        }
        let told = all.entry(client).or_default();
        let is_same = |told: &Told| told.complaint == complaint && told.reason == reason;
        if let Some(known) = told.iter_mut().find(|told| is_same(told) && told.is_fresh(now)) {
            known.suppressed += 1;
            return None;
        }
        if let (LINES, true) = (told.len(), told.iter().all(|told| told.is_fresh(now))) {
            told[0].suppressed += 1;
            return None;
        }
        // What is forgotten is said first.
        let suppressed = told.iter().filter(|told| !told.is_fresh(now)).map(|told| told.suppressed).sum();
        told.retain(|told| told.is_fresh(now));
        told.push(Told { complaint, reason, since: now, suppressed: 0 });
        Some(Line { suppressed: Some(suppressed).filter(|suppressed| *suppressed > 0) })
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
    fn the_same_is_told_once_a_minute_and_the_next_line_says_how_many_were_left_out() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        let tell =
            |number, kind, reason, after| complaints.may_tell(client(number), kind, reason, start + after);
        assert_eq!(tell(1, Complaint::ClearText, 7, Duration::ZERO), TOLD);
        for _ in 0..10 {
            assert_eq!(tell(1, Complaint::ClearText, 7, INTERVAL / 2), None);
        }
        assert_eq!(tell(1, Complaint::Handshake, 7, INTERVAL / 2), TOLD, "another kind");
        assert_eq!(tell(1, Complaint::ClearText, 8, INTERVAL / 2), TOLD, "another reason");
        assert_eq!(tell(2, Complaint::ClearText, 7, INTERVAL / 2), TOLD, "another client");
        assert_eq!(tell(1, Complaint::ClearText, 7, INTERVAL), Some(Line { suppressed: Some(10) }));
        assert_eq!(tell(1, Complaint::ClearText, 7, INTERVAL), None);
        assert_eq!(complaints.suppressed.load(Ordering::Relaxed), 11);
    }

    #[test]
    fn many_reasons_and_many_clients_fill_neither_log_nor_memory() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        let tell = |number, reason, now| complaints.may_tell(client(number), Complaint::Call, reason, now);
        assert_eq!((0..100).filter(|reason| tell(0, *reason, start).is_some()).count(), LINES);
        assert_eq!((1..5000).filter(|number| tell(*number, 0, start).is_some()).count(), CLIENTS - 1);
        let left_out = 100 - LINES + 5000 - CLIENTS;
        assert_eq!(complaints.suppressed.load(Ordering::Relaxed), left_out as u64);
        assert_eq!(tell(0, 100, start + INTERVAL), Some(Line { suppressed: Some(100 - LINES as u64) }));
        assert_eq!(tell(4999, 0, start + INTERVAL), TOLD);
        let told = complaints.told.lock();
        assert!(told.len() == 2 && told.values().all(|told| told.len() == 1), "the old ones are forgotten");
    }

    #[test]
    fn all_addresses_of_one_place_are_one_client() {
        let (complaints, now) = (Complaints::default(), Instant::now());
        let told = (0..100).filter(|host| {
            let address = std::net::Ipv6Addr::new(0xfd00, 0, 0, 7, 0, 0, 0, *host);
            complaints.may_tell(Client::at(address.into()), Complaint::NoContext, 0, now).is_some()
        });
        assert_eq!(told.count(), 1);
    }
}
