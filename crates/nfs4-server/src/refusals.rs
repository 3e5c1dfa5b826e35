//! What is told of what was refused: enough to find out why, not so much that a client could fill a disk with it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ids::VolumeId;
use parking_lot::Mutex;

use crate::Network;
use crate::security::Lack;

/// The same is told once in this time.
const INTERVAL: Duration = Duration::from_secs(60);

/// How much can be told in it.
const MAX_TOLD: usize = 1024;

/// What is told once, and not again for a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Refused {
    /// Requests of a client for a volume.
    Request(Network, VolumeId, Lack),
    /// Further connections of a client.
    Connection(Network),
}

/// How much was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusalCounts {
    /// Operations that did not show what an export demands.
    pub requests: u64,
    /// Connections of clients that had as many as were free.
    pub connections: u64,
    /// Those of both kinds that the log does not tell of, since it told the same a short time before.
    pub untold: u64,
}

/// What was told in the last minute.
#[derive(Default)]
pub(crate) struct Refusals {
    told: Mutex<HashMap<Refused, Duration>>,
    requests: AtomicU64,
    connections: AtomicU64,
    untold: AtomicU64,
}

impl Refusals {
    /// How much there was so far.
    pub fn counts(&self) -> RefusalCounts {
        RefusalCounts {
            requests: self.requests.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            untold: self.untold.load(Ordering::Relaxed),
        }
    }

    /// Counts it, and says whether to tell it now, at this monotonic time.
    pub fn is_news(&self, refused: Refused, now: Duration) -> bool {
        let counter = match refused {
            Refused::Request(..) => &self.requests,
            Refused::Connection(_) => &self.connections,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let is_news = self.may_be_told(refused, now);
        self.untold.fetch_add(u64::from(!is_news), Ordering::Relaxed);
        is_news
    }

    fn may_be_told(&self, refused: Refused, now: Duration) -> bool {
        let is_fresh = |told: &Duration| now.saturating_sub(*told) < INTERVAL;
        let mut told = self.told.lock();
        if told.get(&refused).is_some_and(is_fresh) {
            return false;
        }
        if told.len() >= MAX_TOLD {
            told.retain(|_, told| is_fresh(told));
        }
        if told.len() >= MAX_TOLD {
            return false;
        }
        told.insert(refused, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: u32) -> Refused {
        Refused::Connection(Network::of_client(std::net::Ipv4Addr::from_bits(address).into()))
    }

    #[test]
    fn the_same_is_told_once_a_minute_and_other_things_at_once() {
        let refusals = Refusals::default();
        let start = Duration::from_secs(7);
        assert!(refusals.is_news(refused(1), start));
        assert!(!refusals.is_news(refused(1), start + INTERVAL / 2));
        assert!(refusals.is_news(refused(2), start + INTERVAL / 2));
        assert!(refusals.is_news(refused(1), start + INTERVAL));
        assert!(!refusals.is_news(refused(1), start + INTERVAL));
    }

    #[test]
    fn many_clients_fill_neither_log_nor_memory() {
        let refusals = Refusals::default();
        let told = (0..5000).filter(|address| refusals.is_news(refused(*address), Duration::ZERO)).count();
        assert_eq!(told, MAX_TOLD);
        let counts = RefusalCounts { connections: 5000, untold: 5000 - MAX_TOLD as u64, requests: 0 };
        assert_eq!(refusals.counts(), counts, "and yet all are counted");
        assert!(refusals.is_news(refused(4999), INTERVAL));
        assert_eq!(refusals.told.lock().len(), 1, "the old ones are forgotten");
    }
}
