use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cloud::ErrorKind;
use environment::Clock;
use futures::stream::{StreamExt, iter};

use super::{Stand, Writer};
use crate::survey::{CHANGED, Refused, fetched};
use crate::{BackupKeys, Head, Place};

/// Objects fetched at the same time, where no rate is to be kept.
const PARALLEL: usize = 4;

/// What clouds should have of the newest backup, as of one instant. Backups may go on while it is looked at.
pub struct Check {
    keys: Arc<BackupKeys>,
    clock: Arc<dyn Clock>,
    head: Head,
    stands: BTreeMap<String, Stand>,
}

/// Something that a cloud does not have as it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// The cloud.
    pub place: String,
    /// Objects of the chain that are right, from the first on.
    pub objects: usize,
    /// What is wrong with the next, or with the head.
    pub wrong: &'static str,
}

/// What a look at the clouds has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Clouds that have all of it.
    pub right: Vec<String>,
    /// One for each cloud that does not have all of it as it was stored.
    pub lacking: Vec<Lacking>,
    /// Clouds that should have it, and could not be asked for all of it.
    pub unknown: Vec<String>,
}

/// A cloud did not answer.
struct Unknown;

impl Check {
    /// Only these clouds are looked at.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.stands.retain(|name, _| keep(name));
    }

    /// Fetches and proves every object of the chain, and the head, in every cloud that should have it; at no more than `rate` bytes a
    /// second, if that is not 0. Of one that is not among `places`, or does not answer, nothing is known.
    pub async fn run(&self, places: &[Place], rate: u64) -> Looked {
        let mut looked = Looked::default();
        for (name, stand) in &self.stands {
            let place = places.iter().find(|place| place.name == *name);
            let found = match place {
                Some(place) => self.look(place, stand, rate).await,
                None => Err(Unknown),
            };
            match found {
                Ok(None) => looked.right.push(name.clone()),
                Ok(Some((objects, wrong))) => {
                    looked.lacking.push(Lacking { place: name.clone(), objects, wrong });
                }
                Err(Unknown) => looked.unknown.push(name.clone()),
            }
        }
        looked
    }

    /// What is wrong first, and how much before that is right.
    async fn look(
        &self,
        place: &Place,
        stand: &Stand,
        rate: u64,
    ) -> Result<Option<(usize, &'static str)>, Unknown> {
        let asked = (0..stand.objects.min(self.head.objects.len())).map(|at| self.object(place, at, rate));
        let parallel = if rate == 0 { PARALLEL } else { 1 };
        let mut asked = iter(asked).buffered(parallel).enumerate();
        while let Some((at, answer)) = asked.next().await {
            if let Some(wrong) = answer? {
                return Ok(Some((at, wrong)));
            }
        }
        let Some(backup) = stand.backup.filter(|_| stand.objects >= self.head.objects.len()) else {
            return Ok(Some((stand.objects, "it does not have all of it yet")));
        };
        let wrong = match place.cloud.get(&self.keys.head_name(self.head.branch), None).await {
            Ok(sealed) => match self.keys.open_head(self.head.branch, sealed) {
                // It may be newer by now.
                Ok(head) if head.id == self.head.id && head.mark().backup >= backup => return Ok(None),
                Ok(_) => "the head is an older one",
                Err(_) => "the head is not what was stored",
            },
            Err(error) if error.kind() == ErrorKind::NotFound => "the head is missing",
            Err(_) => return Err(Unknown),
        };
        Ok(Some((stand.objects, wrong)))
    }

    /// What is wrong with one object, if anything is.
    async fn object(&self, place: &Place, at: usize, rate: u64) -> Result<Option<&'static str>, Unknown> {
        if rate > 0 {
            let due = f64::from(self.head.objects[at].length) / rate as f64;
            self.clock.sleep(Duration::from_secs_f64(due)).await;
        }
        match fetched(&self.keys, &self.head, at, place).await {
            Ok(_) => Ok(None),
            Err(Refused::Changed) => Ok(Some(CHANGED)),
            Err(Refused::Failed(error)) if error.kind() == ErrorKind::NotFound => Ok(Some("it is missing")),
            Err(Refused::Failed(_)) => Err(Unknown),
        }
    }
}

impl Writer {
    /// For a look at what clouds have of the newest backup; `None` when there is none.
    pub fn check(&self) -> Option<Check> {
        let (keys, clock) = (self.keys.clone(), self.environment.clock.clone());
        Some(Check { keys, clock, head: self.head.clone()?, stands: self.stands.clone() })
    }

    /// Learns what a look has found: what clouds lack is brought by the next [`Writer::catch_up`]. Whether it was of use: not, when the chain
    /// has been replaced meanwhile; then look again.
    pub fn learn(&mut self, check: &Check, looked: &Looked) -> bool {
        let is_same = |head: &Head| head.id == check.head.id && head.objects.starts_with(&check.head.objects);
        if !self.head.as_ref().is_some_and(is_same) {
            return false;
        }
        for Lacking { place, objects, .. } in &looked.lacking {
            if let Some(stand) = self.stands.get_mut(place) {
                *stand = Stand { objects: stand.objects.min(*objects), backup: None, unsure: false };
            }
        }
        true
    }
}
