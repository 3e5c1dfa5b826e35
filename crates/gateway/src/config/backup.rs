use serde::{Deserialize, Serialize};

use super::Span;

/// Backups of the metadata in the clouds. Without them nobody can find or open what is stored there, once this machine is
/// gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackupConfig {
    /// How often what has changed goes to the clouds: what a loss of this machine may cost, at most, of what had already been
    /// stored. `0s`: never.
    pub interval: Span,
    /// So many clouds have to have a backup before it counts, and before fragments are deleted that the one before refers to. All of
    /// them, where there are fewer.
    pub copies: usize,
}

impl Default for BackupConfig {
    fn default() -> BackupConfig {
        BackupConfig { interval: Span::from_secs(60), copies: 2 }
    }
}

impl BackupConfig {
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        match self.copies {
            0 => Err(("copies", "must be at least 1".into())),
            _ => Ok(()),
        }
    }

    /// Whether there are backups.
    pub fn is_on(&self) -> bool {
        !self.interval.as_duration().is_zero()
    }
}
