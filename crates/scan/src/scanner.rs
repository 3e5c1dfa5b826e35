use std::sync::Arc;
use std::time::Duration;

use environment::Clock;

use crate::{Address, Content, Endpoint, ScanError, Verdict, clamd, icap};

/// A scanner somewhere, asked over a connection for each file.
pub struct Scanner {
    address: Address,
    protocol: Protocol,
    timeout: Duration,
    clock: Arc<dyn Clock>,
}

enum Protocol {
    Clamd(Endpoint),
    Icap(icap::Service),
}

impl Scanner {
    /// The one at `address`, which has so long for a file. Nobody is asked yet.
    pub fn new(address: Address, timeout: Duration, clock: Arc<dyn Clock>) -> Scanner {
        let protocol = match &address {
            Address::Clamd(endpoint) => Protocol::Clamd(endpoint.clone()),
            Address::Icap { host, port, service } => Protocol::Icap(icap::Service::new(host, *port, service)),
        };
        Scanner { address, protocol, timeout, clock }
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Shows it the content. Whatever it does, this ends in time, and takes a bounded amount of memory.
    pub async fn scan(&self, content: &mut dyn Content) -> Result<Verdict, ScanError> {
        let clock = &*self.clock;
        let scan = async {
            match &self.protocol {
                Protocol::Clamd(endpoint) => clamd::scan(endpoint, content, clock).await,
                Protocol::Icap(service) => service.scan(content, clock).await,
            }
        };
        tokio::select! {
            scanned = scan => scanned,
            () = clock.sleep(self.timeout) => Err(ScanError::TimedOut(self.timeout)),
        }
    }

    /// Asks whether it is there, and can do what it is needed for.
    pub async fn ping(&self) -> Result<(), ScanError> {
        let clock = &*self.clock;
        let ping = async {
            match &self.protocol {
                Protocol::Clamd(endpoint) => clamd::ping(endpoint, clock).await,
                Protocol::Icap(service) => service.ping(clock).await,
            }
        };
        let limit = self.timeout.min(Duration::from_secs(5));
        tokio::select! {
            answered = ping => answered,
            () = clock.sleep(limit) => Err(ScanError::TimedOut(limit)),
        }
    }
}
