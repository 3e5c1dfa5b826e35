use std::time::Duration;

/// What becomes of a file in which something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Infected {
    /// Nobody reads or changes it, and it stays out of the clouds, until an administrator decides.
    Quarantine,
    /// It is told of, and nothing else.
    Report,
}

/// What becomes of files that cannot be scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fail {
    /// They go to the clouds, and are scanned later.
    Open,
    /// They wait.
    Closed,
}

/// How files are scanned.
#[derive(Clone, Debug)]
pub struct StageConfig {
    /// Files in which something was found.
    pub infected: Infected,
    /// Files that cannot be scanned.
    pub fail: Fail,
    /// Longer files are not scanned, and go on.
    pub largest: u64,
    /// Scans at the same time.
    pub at_once: usize,
    /// A file that stays open is scanned when its oldest change that no scan has seen is so old.
    pub open_wait: Duration,
    /// Bytes of quarantined files that stay in the journal, at most. What has no room there goes to the clouds, sealed as everything is.
    pub room: u64,
    /// How often files are scanned that went on without.
    pub rescan: Duration,
}
