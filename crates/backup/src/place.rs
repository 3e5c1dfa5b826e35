use std::fmt;
use std::sync::Arc;

use cloud::Cloud;

/// A cloud that takes backups.
#[derive(Clone)]
pub struct Place {
    /// What it is called in the configuration.
    pub name: String,
    /// The cloud.
    pub cloud: Arc<dyn Cloud>,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({})", self.name)
    }
}
