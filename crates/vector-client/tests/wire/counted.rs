//! A client whose round trips are counted by who listens, too.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Mutex;

use nfs4::{NfsArgOp, OpCode};
use vector_client::{Client, Options, Statistics};

use crate::relay::Relay;

pub struct Counted {
    pub client: Client,
    relay: Relay,
    /// What was otherwise than expected, a line each.
    wrong: Mutex<String>,
}

impl Counted {
    pub async fn connect(server: SocketAddr) -> Counted {
        Counted::connect_with(server, |_| {}).await
    }

    pub async fn connect_with(server: SocketAddr, change: impl FnOnce(&mut Options)) -> Counted {
        let relay = Relay::to(server).await;
        let mut options = Options::default();
        change(&mut options);
        let client = Client::connect(relay.address, options).await.unwrap();
        assert!(relay.seen().bare >= 2, "EXCHANGE_ID and CREATE_SESSION pass here");
        Counted { client, relay, wrong: Mutex::default() }
    }

    /// What comes of `call`, which is to send exactly so many compounds, by the client's statistics as by the capture.
    pub async fn costs<T>(&self, what: &str, round_trips: usize, call: impl Future<Output = T>) -> T {
        let (own, seen) = (self.client.statistics(), self.relay.seen());
        let result = call.await;
        let own = between(own, self.client.statistics());
        let now = self.relay.seen();
        let captured = between(seen.exchanged, now.exchanged);
        let mut wrong = self.wrong.lock().unwrap();
        if own != captured {
            writeln!(wrong, "{what}: counted {own:?}, captured {captured:?}").unwrap();
        }
        // A lease may have to be renewed at any time.
        let sent = captured.round_trips - (now.renewals - seen.renewals);
        if sent != round_trips as u64 {
            let compounds = &now.compounds[seen.compounds.len()..];
            let compounds = compounds.iter().map(|operations| {
                let shown: Vec<_> = operations.iter().map(NfsArgOp::op_code).take(24).collect();
                format!("\n    {} operations: {shown:?}", operations.len())
            });
            let compounds = compounds.collect::<String>();
            writeln!(wrong, "{what}: {sent} round trips instead of {round_trips}:{compounds}").unwrap();
        }
        result
    }

    /// The same, where every operation that is sent is as `is_right` says.
    pub async fn costs_only<T>(
        &self,
        what: &str,
        round_trips: usize,
        is_right: impl Fn(&NfsArgOp) -> bool,
        call: impl Future<Output = T>,
    ) -> T {
        let before = self.relay.seen().compounds.len();
        let result = self.costs(what, round_trips, call).await;
        let sent = self.relay.seen().compounds;
        let mut wrong = self.wrong.lock().unwrap();
        for operation in sent[before..].iter().flatten().filter(|operation| !is_right(operation)).take(3) {
            writeln!(wrong, "{what}: sends {operation:?}").unwrap();
        }
        result
    }

    /// Bytes of the longest message so far, RPC headers included.
    pub fn longest(&self) -> usize {
        self.relay.seen().longest
    }

    /// Operations of the longest compound so far, SEQUENCE included.
    pub fn most_operations(&self) -> usize {
        self.relay.seen().compounds.iter().map(|compound| 1 + compound.len()).max().unwrap_or(0)
    }

    /// All operations so far.
    pub fn sent(&self) -> Vec<OpCode> {
        self.relay.seen().compounds.iter().flatten().map(NfsArgOp::op_code).collect()
    }

    /// Fails if any call has cost something else.
    pub fn check_with(self, what: &str) {
        let wrong = self.wrong.into_inner().unwrap();
        assert!(wrong.is_empty(), "{what}:\n{wrong}");
    }
}

fn between(before: Statistics, now: Statistics) -> Statistics {
    Statistics {
        round_trips: now.round_trips - before.round_trips,
        operations: now.operations - before.operations,
        bytes_out: now.bytes_out - before.bytes_out,
        bytes_in: now.bytes_in - before.bytes_in,
    }
}
