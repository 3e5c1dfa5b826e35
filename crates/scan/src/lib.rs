//! Changed files are shown to a scanner for malware before they go to the clouds (decision 30).
//!
//! - [`Scanner`] asks a daemon of ClamAV ([`clamd`]) or an ICAP service ([`icap`]) about one file. It believes little: answers are
//!   bounded, a verdict of clean counts only for what was sent as a whole, and everything ends in time.
//! - [`Stage`] is the [`Gate`](upkeep::Gate) before the write-back of a volume. Dirty data that no scan has seen is held back, file by file, until its file is
//!   closed, or was open for long enough; then the file is scanned. What was found in it is a row of the volume, and what is quarantined stays in the journal, as far as there is
//!   [room](StageConfig::room).
//! - [`Shared`] is what the stages of a gateway have in common: the scanner, how it is doing, and how many files it sees at once.
//!
//! A verdict holds for what had been written when the scan began: the number of the last journal record. What is written later is held back again, and
//! makes a scan of its own.
//!
//! What it is not: it judges nothing itself, opens no archives, and knows no signatures.
//!
//! ```
//! use scan::{Address, Endpoint};
//!
//! let address: Address = "clamd:tcp:127.0.0.1:3310".parse()?;
//! assert_eq!(address, Address::Clamd(Endpoint::Tcp("127.0.0.1".into(), 3310)));
//! # Ok::<(), scan::BadAddress>(())
//! ```

#![deny(missing_docs)]

mod address;
pub mod clamd;
mod config;
mod content;
mod exchange;
mod health;
pub mod icap;
mod kept;
mod queue;
mod rescan;
mod scanner;
mod shared;
mod stage;
mod verdict;

pub use address::{Address, BadAddress, Endpoint};
pub use config::{Fail, Infected, StageConfig};
pub use content::Content;
pub use health::HealthReport;
pub use scanner::Scanner;
pub use shared::{Counts, Shared};
pub use stage::{Release, Stage, StageReport};
pub use verdict::{ScanError, Verdict};
