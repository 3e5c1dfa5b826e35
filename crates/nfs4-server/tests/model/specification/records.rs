//! Who may reclaim after a restart (§8.4.2.1, §8.4.3): who holds something, or did so within the last seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nfs4::ClientId;

use super::Specification;

/// How long a record stays when it is of no use.
const REST: Duration = Duration::from_secs(5);

/// By the owner ids of clients.
#[derive(Default)]
pub struct Records(BTreeMap<Vec<u8>, Record>);

struct Record {
    /// When its client last held something; `None`: the record may be gone.
    held: Option<Duration>,
    /// When its client may have been about to hold something.
    tried: Duration,
}

impl Records {
    pub fn remove(&mut self, owner: &[u8]) {
        self.0.remove(owner);
    }

    /// What is wrong with those that there are.
    fn check(&self, there: &BTreeSet<Vec<u8>>) -> Result<(), String> {
        if let Some(owner) = there.iter().find(|owner| !self.0.contains_key(*owner)) {
            return Err(format!("{:?} has a record", owner.escape_ascii().to_string()));
        }
        let mut needed = self.0.iter().filter(|(_, record)| record.held.is_some());
        match needed.find(|(owner, _)| !there.contains(*owner)) {
            Some((owner, _)) => Err(format!("{:?} has no record", owner.escape_ascii().to_string())),
            None => Ok(()),
        }
    }
}

impl Specification {
    pub fn check_records(&self, there: &BTreeSet<Vec<u8>>) -> Result<(), String> {
        self.records.check(there)
    }

    /// The client asks for something that it could reclaim. Whether it gets it or not, its record may be there by then.
    pub fn tries(&mut self, id: ClientId) {
        let client = &self.clients[&id];
        if !client.barred {
            let (owner, now) = (client.owner.clone(), self.now);
            self.records.0.entry(owner).or_insert(Record { held: None, tried: now }).tried = now;
        }
    }

    /// The client holds something: its record is there.
    pub(super) fn protect(&mut self, id: ClientId) {
        let client = &self.clients[&id];
        if !client.barred {
            self.records.0.insert(client.owner.clone(), Record { held: Some(self.now), tried: self.now });
        }
    }

    pub(super) fn holders(&self) -> BTreeSet<Vec<u8>> {
        let holders = self.clients.values().filter(|client| self.holds_something(client.id));
        holders.map(|client| client.owner.clone()).collect()
    }

    /// Time has gone by: who holds something still needs the record, and who has not for some time has none. Nobody knows
    /// whether the server saw it before those `before` lost something, or after that. Of those who may still reclaim, and are
    /// `waiting` for that, the record stays whatever they hold; its time of rest begins with what they held last.
    pub(super) fn review_records(&mut self, waiting: &BTreeSet<Vec<u8>>, before: &BTreeSet<Vec<u8>>) {
        let (now, holders) = (self.now, self.holders());
        self.records.0.retain(|owner, record| {
            if holders.contains(owner) && record.held.is_some() {
                (record.held, record.tried) = (Some(now), now);
            }
            if waiting.contains(owner) {
                if before.contains(owner) {
                    record.tried = now;
                }
                return true;
            }
            if before.contains(owner) && !holders.contains(owner) {
                (record.held, record.tried) = (None, now);
            }
            record.held = record.held.filter(|held| now < *held + REST);
            now < record.tried + REST
        });
    }

    /// The server stops: whoever holds nothing, and has nothing to reclaim, is not waited for by the next one.
    pub(super) fn records_at_stop(&mut self, there: &BTreeSet<Vec<u8>>) -> Result<Records, String> {
        let (now, mut needed) = (self.now, self.holders());
        if let Some(grace) = &self.grace {
            needed.extend(grace.waiting.iter().cloned());
        }
        self.records.0.retain(|owner, _| needed.contains(owner));
        self.records.check(there)?;
        Ok(Records(
            there.iter().map(|owner| (owner.clone(), Record { held: Some(now), tried: now })).collect(),
        ))
    }
}
