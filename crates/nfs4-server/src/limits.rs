//! How much clients may have of everything (decision D11).

/// Bounds of a server. [`Limits::default`] suits a gateway with a few hundred clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at one time. A client address may have as many as it leaves free; more are closed at once.
    pub connections: usize,
    /// Clients, confirmed or not.
    pub clients: usize,
    /// Sessions of one client.
    pub sessions_per_client: usize,
    /// Slots of a session: requests that one session may have under way.
    pub slots: u32,
    /// Bytes of request or reply, RPC headers included.
    pub message_bytes: u32,
    /// Bytes that requests being read and replies being written may hold together, over all connections; shared out
    /// fairly by client address.
    pub traffic_bytes: usize,
    /// Operations of one compound.
    pub operations: u32,
    /// Bytes of the largest reply that one slot keeps for retries.
    pub cached_reply_bytes: u32,
    /// Bytes of replies up to 2 KiB that the slots of all sessions may keep. A session is granted slots for a quarter of what
    /// is left at most, so that a few greedy ones leave room for many. The first one of each client is granted as much as
    /// there is for each of [`clients`](Self::clients) in any case, which may double it.
    pub reply_cache_bytes: u64,
    /// Bytes beyond that of all larger replies that are kept or expected; a client has a quarter at most. When it is used up, a client's
    /// requests that want large replies kept wait for each other, and a lone one may have a reply as large as there is room.
    pub large_reply_bytes: u64,
    /// Operations of an atomic compound, all of them counted.
    pub atomic_operations: u32,
    /// Bytes of the operations of an atomic compound. What they are has to fit into one transaction of every volume.
    pub atomic_bytes: u64,
    /// Opens and lock-owner states of all clients together.
    pub states: usize,
    /// Opens of one client.
    pub opens_per_client: usize,
    /// Separate byte ranges that may be locked in one file.
    pub locks_per_file: usize,
    /// Separate byte ranges that may be locked in all files together.
    pub locks: usize,
    /// Places in the queues for locks, of all files together; who finds none asks again as if there were no queue.
    pub waiting_locks: usize,
    /// Lock-owner states of one client.
    pub lock_owners_per_client: usize,
    /// Delegations of one client. Above it opens are not delegated.
    pub delegations_per_client: usize,
    /// Delegations of all clients together.
    pub delegations: usize,
    /// Requests that wait for the return of a delegation at one time; more are asked to come again at once.
    pub waiting_for_returns: usize,
    /// Compounds with COPY at one time. Each holds what one transaction can hold; one more is asked to come again.
    pub copies: usize,
    /// Copies in the background at one time. Each holds what one transaction can hold. A client may have as many as it
    /// leaves free; more are copied a piece for each request.
    pub offloads: usize,
    /// How often a compound is tried beside others before it waits for its turn alone.
    pub optimistic_tries: u32,
    /// How often it is tried alone before the client is told to come again later.
    pub exclusive_tries: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 2048,
            clients: 4096,
            sessions_per_client: 64,
            slots: 128,
            message_bytes: (4 << 20) + (128 << 10),
            traffic_bytes: 256 << 20,
            operations: 2048,
            cached_reply_bytes: 256 << 10,
            reply_cache_bytes: 128 << 20,
            large_reply_bytes: 64 << 20,
            atomic_operations: 2048,
            atomic_bytes: (4 << 20) + (64 << 10),
            states: 1 << 18,
            opens_per_client: 1 << 17,
            locks_per_file: 1 << 16,
            locks: 1 << 18,
            waiting_locks: 1 << 14,
            lock_owners_per_client: 1 << 17,
            delegations_per_client: 1 << 14,
            delegations: 1 << 16,
            waiting_for_returns: 256,
            copies: 16,
            offloads: 8,
            optimistic_tries: 4,
            exclusive_tries: 4,
        }
    }
}

impl Limits {
    /// Bytes of the largest READ or WRITE: a power of two that leaves room for headers in a message.
    pub fn transfer_bytes(&self) -> u32 {
        const HEADERS: u32 = 4096;
        let room = self.message_bytes.saturating_sub(HEADERS);
        1 << room.max(1).ilog2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_and_its_headers_fit_into_a_message() {
        for (message_bytes, transfer) in [(Limits::default().message_bytes, 4 << 20), (1 << 20, 512 << 10)] {
            assert_eq!(Limits { message_bytes, ..Limits::default() }.transfer_bytes(), transfer);
        }
    }
}
