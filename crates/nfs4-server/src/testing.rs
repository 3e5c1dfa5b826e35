//! What the tests of operations and attributes run on.

use std::sync::Arc;

use environment::{Environment, SystemClock};
use file_system::memory::MemoryFileSystem;
use ids::VolumeId;
use parking_lot::Mutex;

use crate::exports::ExportTable;
use crate::file_handle::HandleKey;
use crate::metrics::Metrics;
use crate::recording::Turns;
use crate::refusals::Refusals;
use crate::shared::Shared;
use crate::state::{State, StateConfig};
use crate::{Export, Limits, MemoryClientRecords, ServerConfig};

/// An empty volume with this number, named after it.
pub(crate) fn volume(number: u128) -> Export {
    let file_system = MemoryFileSystem::with(VolumeId(number), Arc::new(SystemClock::new()));
    Export::new(format!("volume{number}"), Arc::new(file_system))
}

/// What a server with these exports shares.
pub(crate) fn shared(exports: Vec<Export>) -> Shared {
    let (environment, limits) = (Environment::real(), Limits::default());
    let lease = ServerConfig::DEFAULT_LEASE;
    let config = StateConfig {
        lease,
        courtesy: ServerConfig::DEFAULT_COURTESY,
        instance: 1,
        delegations: true,
        limits,
    };
    let state = State::new(config, &[], environment.clock.monotonic());
    Shared {
        exports: ExportTable::new(exports, environment.clock.wall()).unwrap(),
        handles: HandleKey::new([1; 32]),
        owners: Default::default(),
        records: Arc::new(MemoryClientRecords::default()),
        records_in_turn: Turns::new(),
        environment,
        server_id: Default::default(),
        lease,
        limits,
        signals: state.signals.clone(),
        state: Arc::new(Mutex::new(state)),
        waiting_for_returns: tokio::sync::Semaphore::new(limits.waiting_for_returns),
        metrics: Metrics::new(),
        refusals: Refusals::default(),
        copies: tokio::sync::Semaphore::new(limits.copies),
        offloads: Default::default(),
        duplicates: Default::default(),
    }
}
