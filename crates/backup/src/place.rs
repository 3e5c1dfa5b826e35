use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cloud::{Cloud, Connection, ObjectName};

/// A cloud that takes backups.
#[derive(Clone)]
pub struct Place {
    /// What it is called in the configuration.
    pub name: String,
    /// The cloud.
    pub cloud: Arc<dyn Cloud>,
    /// Who knows which puts were given up, and for how long they may still be carried out.
    late: Option<(Connection, Duration)>,
}

impl Place {
    /// A store that carries out nothing late, or that is only read from.
    pub fn new(name: impl Into<String>, cloud: Arc<dyn Cloud>) -> Place {
        Place { name: name.into(), cloud, late: None }
    }

    /// A store that may carry out a put up to `late_puts` after it was given up.
    pub fn connected(name: impl Into<String>, connection: Connection, late_puts: Duration) -> Place {
        Place { late: Some((connection.clone(), late_puts)), ..Place::new(name, connection.as_cloud()) }
    }

    /// Whether an earlier put of this object may still be carried out: for some time after it was given up, and after the store was
    /// connected, since nothing is known of what was put before.
    pub(crate) fn may_come_late(&self, name: &ObjectName) -> bool {
        let late = self.late.as_ref();
        late.is_some_and(|(connection, late_puts)| connection.since_given_up(name) < *late_puts)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({})", self.name)
    }
}
