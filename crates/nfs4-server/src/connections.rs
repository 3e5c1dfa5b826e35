//! How many connections each client may have.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::Network;

/// Shares out connections by client address (an IPv6 network of 64 bits counts as one), as the memory for requests is:
/// a client may have as many as it leaves free. Alone it gets half of all, two greedy ones a third each, and whoever
/// comes next always finds one.
pub(crate) struct Connections {
    limit: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    all: usize,
    by_client: HashMap<Network, usize>,
}

/// One connection of a client, until it is dropped.
pub(crate) struct Admission {
    connections: Arc<Connections>,
    client: Network,
}

impl Connections {
    /// As many as `limit` altogether.
    pub fn new(limit: usize) -> Arc<Connections> {
        Arc::new(Connections { limit, held: Mutex::default() })
    }

    /// One more connection of the client at `address`, unless it has as many as are free.
    pub fn admit(self: &Arc<Connections>, address: IpAddr) -> Option<Admission> {
        let client = Network::of_client(address);
        let mut held = self.held.lock();
        let own = held.by_client.get(&client).copied().unwrap_or(0);
        if own >= self.limit.saturating_sub(held.all) {
            return None;
        }
        held.all += 1;
        held.by_client.insert(client, own + 1);
        Some(Admission { connections: self.clone(), client })
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut held = self.connections.held.lock();
        held.all -= 1;
        if let Some(own) = held.by_client.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                held.by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As many as `address` gets now.
    fn take_all(connections: &Arc<Connections>, address: &str) -> Vec<Admission> {
        let address = address.parse().unwrap();
        std::iter::from_fn(|| connections.admit(address)).collect()
    }

    #[test]
    fn a_greedy_client_leaves_as_many_as_it_has_and_nobody_finds_none() {
        let connections = Connections::new(900);
        let first = take_all(&connections, "10.0.0.1");
        assert_eq!(first.len(), 450);
        let second = take_all(&connections, "10.0.0.2");
        assert_eq!(second.len(), 225);
        assert!(connections.admit("10.0.0.1".parse().unwrap()).is_none());
        let third = take_all(&connections, "fd00::1");
        assert_eq!((third.len(), take_all(&connections, "fd00::2").len()), (113, 0), "one network of IPv6");
        assert_eq!(take_all(&connections, "::ffff:10.0.0.2").len(), 0, "the same client");
        drop(first);
        let fourth = take_all(&connections, "fd00:0:0:1::1");
        assert_eq!(fourth.len(), 281);
        assert_eq!(take_all(&connections, "10.0.0.2").len(), 28, "now that more are free");
        drop((second, third, fourth));
        assert_eq!(connections.held.lock().all, 0);
        assert!(connections.held.lock().by_client.is_empty());
    }

    proptest! {
        #[test]
        fn of_a_few_clients_none_is_left_without(turns in prop::collection::vec((0u32..6, prop::bool::weighted(0.8)), 0..2000)) {
            let connections = Connections::new(256);
            let mut held: HashMap<u32, Vec<Admission>> = HashMap::new();
            for (client, comes) in turns {
                let address = std::net::Ipv4Addr::from_bits(client).into();
                let own = held.entry(client).or_default();
                if !comes {
                    own.pop();
                } else if let Some(admission) = connections.admit(address) {
                    own.push(admission);
                } else {
                    prop_assert!(!own.is_empty());
                }
                let all: usize = held.values().map(Vec::len).sum();
                prop_assert_eq!(connections.held.lock().all, all);
            }
        }
    }
}
