use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use onc_rpc::Peer;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

/// The connections of a client, which carry its session together (session trunking, RFC 8881 §2.10.5).
pub(super) struct Trunk {
    lines: Box<[Line]>,
    /// Marked whenever a line changes.
    changed: watch::Sender<()>,
}

/// One place for a connection. Who keeps it connected: [`keep`](super::line::keep).
#[derive(Default)]
struct Line {
    state: Mutex<LineState>,
    /// Calls under way.
    load: AtomicUsize,
    /// Bind it to the session once more.
    rebind: Notify,
}

#[derive(Default)]
struct LineState {
    peer: Option<Peer>,
    /// Generation of the session it is bound to; 0 for none.
    bound: u64,
    /// The last attempt to connect or to bind failed.
    failed: bool,
    /// When it was connected, by the monotonic clock.
    since: Duration,
}

/// A connection with one call more under way, until it is dropped.
pub(super) struct Loaded<'a> {
    line: &'a Line,
    pub peer: Peer,
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        self.line.load.fetch_sub(1, Relaxed);
    }
}

impl Trunk {
    pub fn new(lines: usize) -> Trunk {
        let lines = (0..lines.max(1)).map(|_| Line::default()).collect();
        Trunk { lines, changed: watch::Sender::new(()) }
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// The connection of a line, if it is open.
    pub fn peer(&self, index: usize) -> Option<Peer> {
        self.lines[index].state.lock().peer.clone().filter(|peer| !peer.is_closed())
    }

    pub fn connected(&self, index: usize, peer: Peer, now: Duration) {
        *self.lines[index].state.lock() = LineState { peer: Some(peer), bound: 0, failed: false, since: now };
        self.changed.send_replace(());
    }

    /// When the present connection was made.
    pub fn since(&self, index: usize) -> Duration {
        self.lines[index].state.lock().since
    }

    pub fn bound(&self, index: usize) -> u64 {
        self.lines[index].state.lock().bound
    }

    /// The connection now carries the session of this generation; 0: none.
    pub fn bind(&self, index: usize, generation: u64) {
        let mut state = self.lines[index].state.lock();
        (state.bound, state.failed) = (generation, false);
        drop(state);
        self.changed.send_replace(());
    }

    /// The same if the line still has this connection.
    pub fn bind_this(&self, index: usize, peer: &Peer, generation: u64) {
        let mut state = self.lines[index].state.lock();
        if state.peer.as_ref().is_some_and(|present| present.connection_id() == peer.connection_id()) {
            state.bound = generation;
        }
        drop(state);
        self.changed.send_replace(());
    }

    pub fn failed(&self, index: usize) {
        self.lines[index].state.lock().failed = true;
        self.changed.send_replace(());
    }

    /// The connection is gone.
    pub fn disconnected(&self, index: usize) {
        let peer = std::mem::take(&mut *self.lines[index].state.lock()).peer;
        if let Some(peer) = peer {
            peer.close();
        }
        self.changed.send_replace(());
    }

    /// Has one line bound to its session once more, as the server has lost the way back to the client.
    pub fn rebind_one(&self) {
        if let Some(index) = (0..self.len()).find(|index| self.peer(*index).is_some()) {
            self.bind(index, 0);
            self.lines[index].rebind.notify_one();
        }
    }

    /// Returns when the line is to be bound once more.
    pub async fn is_to_rebind(&self, index: usize) {
        self.lines[index].rebind.notified().await;
    }

    /// How many connections carry this session.
    pub fn bound_to(&self, generation: u64) -> usize {
        (0..self.len()).filter(|index| self.carries(*index, generation)).count()
    }

    fn carries(&self, index: usize, generation: u64) -> bool {
        let state = self.lines[index].state.lock();
        state.bound == generation && state.peer.as_ref().is_some_and(|peer| !peer.is_closed())
    }

    /// Waits for a connection that carries this session, and takes the one with the fewest calls under way.
    pub async fn least_loaded(&self, generation: u64) -> Loaded<'_> {
        let mut changed = None;
        loop {
            let carrying = self.lines.iter().enumerate().filter_map(|(index, line)| {
                let state = line.state.lock();
                let peer =
                    state.peer.as_ref().filter(|peer| state.bound == generation && !peer.is_closed())?;
                Some((line.load.load(Relaxed), index, line, peer.clone()))
            });
            if let Some((.., line, peer)) = carrying.min_by_key(|(load, index, ..)| (*load, *index)) {
                line.load.fetch_add(1, Relaxed);
                return Loaded { line, peer };
            }
            match &mut changed {
                // Looked for again once the watch is set up.
                None => changed = Some(self.changed.subscribe()),
                // The sender is this trunk, which is borrowed.
                Some(changed) => drop(changed.changed().await),
            }
        }
    }

    /// Waits for any open connection.
    pub async fn any(&self) -> (usize, Peer) {
        let mut changed = self.changed.subscribe();
        loop {
            let open = (0..self.len()).find_map(|index| Some((index, self.peer(index)?)));
            if let Some(found) = open {
                return found;
            }
            let _ = changed.changed().await;
        }
    }

    /// Waits until every line carries this session or has failed to.
    pub async fn settled(&self, generation: u64) {
        let mut changed = self.changed.subscribe();
        let is_settled = |index| self.carries(index, generation) || self.lines[index].state.lock().failed;
        while !(0..self.len()).all(is_settled) {
            let _ = changed.changed().await;
        }
    }

    /// Closes all connections.
    pub fn close(&self) {
        (0..self.len()).for_each(|index| self.disconnected(index));
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use onc_rpc::{Limits, NoService};
    use tokio::net::TcpListener;

    use super::*;

    async fn peer() -> (Peer, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        (Peer::connect(address, Arc::new(NoService), Limits::default()).await.unwrap(), listener)
    }

    #[tokio::test]
    async fn calls_go_to_the_connection_that_has_the_fewest_and_wait_for_one() {
        let trunk = Trunk::new(2);
        let (first, _first) = peer().await;
        let (second, _second) = peer().await;
        let (one, other) = (first.connection_id(), second.connection_id());
        trunk.connected(0, first.clone(), Duration::ZERO);
        trunk.connected(1, second, Duration::ZERO);
        let chosen = async || trunk.least_loaded(7).await.peer.connection_id();
        assert_eq!(tokio::join!(chosen(), async { trunk.bind(1, 7) }).0, other);
        trunk.bind(0, 7);
        let busy = trunk.least_loaded(7).await;
        assert_eq!((busy.peer.connection_id(), chosen().await), (one, other));
        drop(busy);
        assert_eq!(chosen().await, one);
        first.close();
        assert_eq!(chosen().await, other);
        trunk.failed(0);
        trunk.settled(7).await;
    }
}
