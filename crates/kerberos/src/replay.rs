use std::collections::{HashSet, VecDeque};

/// Most authenticators that are remembered; more clients within a few minutes are asked to try again.
const MAX_SEEN: usize = 1 << 16;

/// Remembers authenticators as long as they would be accepted (RFC 4120 §3.2.3).
#[derive(Default)]
pub(crate) struct ReplayCache {
    seen: HashSet<[u8; 16]>,
    /// With the second until which each is kept.
    order: VecDeque<(i64, [u8; 16])>,
}

/// Whether an authenticator is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Novelty {
    New,
    Seen,
    /// Nobody knows: too many are remembered.
    Full,
}

impl ReplayCache {
    /// Takes an authenticator, by a digest of it, to be remembered until second `until`.
    pub fn take(&mut self, authenticator: [u8; 16], now: i64, until: i64) -> Novelty {
        while self.order.front().is_some_and(|(until, _)| *until < now) {
            if let Some((_, old)) = self.order.pop_front() {
                self.seen.remove(&old);
            }
        }
        if self.seen.contains(&authenticator) {
            return Novelty::Seen;
        }
        if self.seen.len() >= MAX_SEEN {
            return Novelty::Full;
        }
        self.seen.insert(authenticator);
        self.order.push_back((until, authenticator));
        Novelty::New
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authenticator_is_new_once_while_it_would_be_accepted() {
        let mut cache = ReplayCache::default();
        assert_eq!(cache.take([1; 16], 100, 400), Novelty::New);
        assert_eq!(cache.take([1; 16], 400, 700), Novelty::Seen);
        assert_eq!(cache.take([2; 16], 400, 700), Novelty::New);
        assert_eq!(cache.take([1; 16], 401, 701), Novelty::New, "its time had passed");
    }

    #[test]
    fn the_cache_does_not_grow_without_end() {
        let mut cache = ReplayCache::default();
        for number in 0..MAX_SEEN as u128 {
            assert_eq!(cache.take(number.to_be_bytes(), 0, 10), Novelty::New);
        }
        assert_eq!(cache.take([255; 16], 0, 10), Novelty::Full);
        assert_eq!(cache.take([255; 16], 11, 20), Novelty::New);
        assert_eq!(cache.seen.len(), 1);
    }
}
