//! What outlives machines: time, clouds, disks, the record of what happened, and what must never happen.

pub mod ambient;
pub mod cloud;
pub mod dice;
pub mod disk;
pub mod entropy;
pub mod inspector;
pub mod network;
pub mod panics;
pub mod time;
pub mod trace;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use self::time::Time;
use self::trace::Trace;

/// Shared by everything in one simulated world. Cheap to clone.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    time: Time,
    trace: Trace,
    /// The machine that is running; requests of earlier ones reach nobody.
    machine: AtomicU64,
    is_dead: AtomicBool,
    ended: Notify,
    violation: Mutex<Option<String>>,
}

impl World {
    pub fn new(trace: Trace) -> World {
        World(Arc::new(Inner {
            time: Time::default(),
            trace,
            machine: AtomicU64::new(0),
            is_dead: AtomicBool::new(false),
            ended: Notify::new(),
            violation: Mutex::default(),
        }))
    }

    pub fn time(&self) -> &Time {
        &self.0.time
    }

    pub fn trace(&self) -> &Trace {
        &self.0.trace
    }

    /// So many events have happened.
    pub fn now(&self) -> u64 {
        self.trace().events()
    }

    /// A machine is switched on; returns its number.
    pub fn start(&self) -> u64 {
        self.0.is_dead.store(false, Ordering::Relaxed);
        let machine = self.0.machine.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.trace.note(format_args!("machine {machine} starts"), &[]);
        machine
    }

    /// The machine is gone from this instant on: nothing that it says counts any more.
    pub fn die(&self, how: &str) {
        self.0.trace.note(format_args!("the machine dies: {how}"), &[]);
        self.0.is_dead.store(true, Ordering::Relaxed);
        self.0.ended.notify_one();
    }

    pub fn is_dead(&self) -> bool {
        self.0.is_dead.load(Ordering::Relaxed)
    }

    /// Whether requests of this machine are still heard.
    pub fn hears(&self, machine: u64) -> bool {
        !self.is_dead() && self.0.machine.load(Ordering::Relaxed) == machine
    }

    /// Something happened that must never happen; the first of it is what the life ends with.
    pub fn violate(&self, what: String) {
        self.0.trace.note(format_args!("VIOLATION {what}"), &[]);
        self.0.violation.lock().get_or_insert(what);
        self.0.ended.notify_one();
    }

    pub fn violation(&self) -> Option<String> {
        self.0.violation.lock().clone()
    }

    /// Returns when the machine has died or something was violated.
    pub async fn ended(&self) {
        while !self.is_dead() && self.violation().is_none() {
            self.0.ended.notified().await;
        }
    }
}
