use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use environment::Environment;
use parking_lot::RwLock;
use tokio::sync::Semaphore;

use crate::health::{Health, HealthReport};
use crate::kept::Kept;
use crate::{Scanner, StageConfig};

/// What the stages of a gateway share.
pub struct Shared {
    pub(crate) scanner: Scanner,
    pub(crate) health: Health,
    pub(crate) kept: Kept,
    /// One for each scan.
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) counters: Counters,
    pub(crate) environment: Environment,
    config: RwLock<Arc<StageConfig>>,
}

/// Since the start.
#[derive(Default)]
pub(crate) struct Counters {
    pub clean: AtomicU64,
    pub infected: AtomicU64,
    pub failed: AtomicU64,
    pub too_large: AtomicU64,
    pub passed: AtomicU64,
    pub bytes: AtomicU64,
}

impl Counters {
    pub fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// What has been done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Scans that found nothing.
    pub clean: u64,
    /// Scans that found something.
    pub infected: u64,
    /// Scans without a verdict.
    pub failed: u64,
    /// Files that went on because they are too large to be scanned.
    pub too_large: u64,
    /// Files that went on because they could not be scanned.
    pub passed: u64,
    /// Bytes shown to the scanner.
    pub bytes: u64,
}

impl Shared {
    /// Nobody is asked yet.
    pub fn new(scanner: Scanner, config: StageConfig, environment: Environment) -> Arc<Shared> {
        Arc::new(Shared {
            scanner,
            health: Health::default(),
            kept: Kept::new(config.room),
            slots: Arc::new(Semaphore::new(config.at_once.max(1))),
            counters: Counters::default(),
            environment,
            config: RwLock::new(Arc::new(config)),
        })
    }

    /// The scanner.
    pub fn scanner(&self) -> &Scanner {
        &self.scanner
    }

    /// How files are scanned.
    pub fn config(&self) -> Arc<StageConfig> {
        self.config.read().clone()
    }

    /// Changes how, for what is decided from now on; [`StageConfig::at_once`] and [`StageConfig::room`] stay as they were.
    pub fn change(&self, config: StageConfig) {
        *self.config.write() = Arc::new(config);
    }

    /// How the scanner is doing.
    pub fn health(&self) -> HealthReport {
        self.health.report()
    }

    /// What has been done.
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { clean, infected, failed, too_large, passed, bytes } = &self.counters;
        Counts {
            clean: get(clean),
            infected: get(infected),
            failed: get(failed),
            too_large: get(too_large),
            passed: get(passed),
            bytes: get(bytes),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.environment.clock.monotonic()
    }
}
