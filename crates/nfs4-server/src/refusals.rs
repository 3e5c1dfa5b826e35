//! What is told of what was refused: enough to find out why, not so much that a client could fill a disk with it.

use std::collections::HashMap;
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

/// What was told in the last minute.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<HashMap<Refused, Duration>>);

impl Refusals {
    /// Whether to tell it now, at this monotonic time.
    pub fn is_news(&self, refused: Refused, now: Duration) -> bool {
        let is_fresh = |told: &Duration| now.saturating_sub(*told) < INTERVAL;
        let mut told = self.0.lock();
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
        assert!(refusals.is_news(refused(4999), INTERVAL));
        assert_eq!(refusals.0.lock().len(), 1, "the old ones are forgotten");
    }
}
