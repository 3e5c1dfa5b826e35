use serde::{Deserialize, Serialize};

use super::{ByteSize, Span};

/// Showing changed files to a scanner for malware before they go to the clouds. Off without an address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScanConfig {
    /// `clamd:unix:PATH`, `clamd:tcp:HOST:PORT` or `icap://HOST:PORT/SERVICE`.
    pub address: Option<String>,
    /// What becomes of files in which something is found.
    pub infected: InfectedFiles,
    /// What becomes of files that cannot be scanned, because the scanner is away or fails.
    pub fail: FailPolicy,
    /// Longer files go to the clouds without a scan.
    pub largest: ByteSize,
    /// Files that are scanned at the same time.
    pub at_once: usize,
    /// How long the scan of one file may take.
    pub timeout: Span,
    /// A file that stays open is scanned when its oldest change that was not scanned is so old.
    pub open_wait: Span,
    /// How often files are scanned that went to the clouds without, by `fail = "open"`.
    pub rescan: Span,
    /// Bytes of quarantined files that are kept out of the clouds, in the journal; at most half of it. Without it, a quarter.
    pub quarantine_room: Option<ByteSize>,
    /// Volumes by name. Empty: all.
    pub volumes: Vec<String>,
}

/// What becomes of files in which something is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InfectedFiles {
    /// Nobody can read or change them, and they stay out of the clouds, until an administrator releases or removes them.
    Quarantine,
    /// They are told of, and go on.
    Report,
}

/// What becomes of files that cannot be scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FailPolicy {
    /// They go to the clouds, and are scanned later.
    Open,
    /// They wait in the journal until they are scanned; when it is full, writers wait.
    Closed,
}

impl Default for ScanConfig {
    fn default() -> ScanConfig {
        ScanConfig {
            address: None,
            infected: InfectedFiles::Quarantine,
            fail: FailPolicy::Open,
            largest: ByteSize::mib(100),
            at_once: 4,
            timeout: Span::from_secs(60),
            open_wait: Span::from_secs(30),
            rescan: Span::from_secs(60),
            quarantine_room: None,
            volumes: Vec::new(),
        }
    }
}

impl ScanConfig {
    pub(super) fn check(&self, journal: ByteSize) -> Result<(), (&'static str, String)> {
        if let Some(address) = &self.address {
            address.parse::<::scan::Address>().map_err(|error| ("address", error.to_string()))?;
        }
        if !(1..=256).contains(&self.at_once) {
            return Err(("at_once", format!("{} is not between 1 and 256", self.at_once)));
        }
        if self.largest.bytes() == 0 {
            return Err(("largest", "must be at least 1; leave the address out to scan nothing".into()));
        }
        for (key, span) in [("timeout", self.timeout), ("rescan", self.rescan)] {
            if span.as_duration().is_zero() {
                return Err((key, "must be at least 1ms".into()));
            }
        }
        match self.quarantine_room {
            Some(room) if room.bytes() > journal.bytes() / 2 => Err((
                "quarantine_room",
                format!("{room} is more than half of cache.journal ({journal}): lower it, or raise that"),
            )),
            _ => Ok(()),
        }
    }

    /// Where the scanner is, if there is one.
    pub fn scanner(&self) -> Option<::scan::Address> {
        // Checked when the configuration was read.
        self.address.as_ref()?.parse().ok()
    }

    /// Whether the files of a volume are scanned, if any are.
    pub fn covers(&self, volume: &str) -> bool {
        self.volumes.is_empty() || self.volumes.iter().any(|name| name == volume)
    }

    /// How files are scanned by a gateway with a journal of this size.
    pub fn stage(&self, journal: ByteSize) -> ::scan::StageConfig {
        ::scan::StageConfig {
            infected: match self.infected {
                InfectedFiles::Quarantine => ::scan::Infected::Quarantine,
                InfectedFiles::Report => ::scan::Infected::Report,
            },
            fail: match self.fail {
                FailPolicy::Open => ::scan::Fail::Open,
                FailPolicy::Closed => ::scan::Fail::Closed,
            },
            largest: self.largest.bytes(),
            at_once: self.at_once,
            open_wait: self.open_wait.as_duration(),
            room: self.quarantine_room.map_or(journal.bytes() / 4, ByteSize::bytes),
            rescan: self.rescan.as_duration(),
        }
    }
}
