use std::iter::successors;
use std::sync::OnceLock;

use cloud::Connection;

use crate::CloudId;

/// The clouds by number. A number can be given another connection while the clouds are in use; whoever works with the
/// one before finishes with it. Nothing is ever freed, for numbers change about as often as disks do; looking one up takes
/// no lock.
pub struct CloudTable {
    pages: Box<[OnceLock<Box<[Slot]>>]>,
}

/// The connections of one number, the valid one last.
#[derive(Default)]
struct Slot(OnceLock<Box<Entry>>);

struct Entry {
    connection: Option<Connection>,
    next: Slot,
}

const PAGE: usize = 256;

impl CloudTable {
    /// Without any cloud.
    pub(crate) fn new() -> CloudTable {
        CloudTable { pages: (0..=usize::from(u16::MAX) / PAGE).map(|_| OnceLock::new()).collect() }
    }

    /// The connection of a number.
    pub fn get(&self, cloud: &CloudId) -> Option<&Connection> {
        self.slot(*cloud)?.last()?.connection.as_ref()
    }

    /// Whether the number has a connection.
    pub fn contains_key(&self, cloud: &CloudId) -> bool {
        self.get(cloud).is_some()
    }

    /// All numbers that have a connection, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (CloudId, &Connection)> {
        let used = (0..self.pages.len()).filter(|page| self.pages[*page].get().is_some());
        let numbers = used.flat_map(|page| page * PAGE..(page + 1) * PAGE);
        numbers.map(|number| CloudId(number as u16)).filter_map(|cloud| Some((cloud, self.get(&cloud)?)))
    }

    /// Gives a number another connection, or none.
    pub fn set(&self, cloud: CloudId, connection: Option<Connection>) {
        let page = self.pages[usize::from(cloud.0) / PAGE]
            .get_or_init(|| (0..PAGE).map(|_| Slot::default()).collect());
        let mut slot = &page[usize::from(cloud.0) % PAGE];
        let mut entry = Box::new(Entry { connection, next: Slot::default() });
        // Somebody else may be setting the same number; one of the two is the last.
        while let Err(mine) = slot.0.set(entry) {
            entry = mine;
            if let Some(other) = slot.0.get() {
                slot = &other.next;
            }
        }
    }

    fn slot(&self, cloud: CloudId) -> Option<&Slot> {
        Some(&self.pages[usize::from(cloud.0) / PAGE].get()?[usize::from(cloud.0) % PAGE])
    }
}

impl Slot {
    fn last(&self) -> Option<&Entry> {
        successors(self.0.get(), |entry| entry.next.0.get()).last().map(|entry| &**entry)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cloud::{Memory, Options, test_environment};

    use super::*;

    fn connection(name: &str) -> Connection {
        Connection::assemble(&test_environment(), name, Memory::new(name), &Options::default())
    }

    #[tokio::test]
    async fn a_number_has_the_connection_that_it_was_given_last() {
        let table = CloudTable::new();
        let name = |number| table.get(&CloudId(number)).map(|connection| Arc::clone(connection.name()));
        assert!(name(7).is_none());
        table.set(CloudId(u16::MAX), Some(connection("far")));
        table.set(CloudId(7), Some(connection("a")));
        let before = table.get(&CloudId(7)).unwrap();
        table.set(CloudId(7), Some(connection("b")));
        assert_eq!(&**before.name(), "a", "who has it keeps it");
        assert_eq!(name(7).as_deref(), Some("b"));
        let all: Vec<_> =
            table.iter().map(|(id, connection)| (id.0, connection.name().to_string())).collect();
        assert_eq!(all, [(7, "b".to_owned()), (u16::MAX, "far".to_owned())]);
        table.set(CloudId(7), None);
        assert!(!table.contains_key(&CloudId(7)));
    }
}
