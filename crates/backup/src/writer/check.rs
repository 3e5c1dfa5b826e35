use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cloud::ErrorKind;
use environment::Clock;
use futures::stream::{StreamExt, iter};

use super::{Stand, Writer};
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

/// What a cloud said of one object.
enum Answer {
    Right,
    Wrong(&'static str),
    Unknown,
}

impl Check {
    /// Fetches and proves every object of the chain, and the head, in every one of `places` that should have it; at no more than `rate`
    /// bytes a second, if that is not 0. Of a cloud that does not answer nothing is said.
    pub async fn run(&self, places: &[Place], rate: u64) -> Vec<Lacking> {
        let mut lacking = Vec::new();
        for place in places {
            let Some(stand) = self.stands.get(&place.name) else { continue };
            lacking.extend(self.look(place, stand, rate).await);
        }
        lacking
    }

    async fn look(&self, place: &Place, stand: &Stand, rate: u64) -> Option<Lacking> {
        let told = |objects, wrong| Some(Lacking { place: place.name.clone(), objects, wrong });
        let asked = (0..stand.objects.min(self.head.objects.len())).map(|at| self.object(place, at, rate));
        let parallel = if rate == 0 { PARALLEL } else { 1 };
        let mut asked = iter(asked).buffered(parallel).enumerate();
        while let Some((at, answer)) = asked.next().await {
            match answer {
                Answer::Right => {}
                Answer::Wrong(wrong) => return told(at, wrong),
                Answer::Unknown => return None,
            }
        }
        let backup = stand.backup?;
        match place.cloud.get(&self.keys.head_name(self.head.branch), None).await {
            Ok(sealed) => match self.keys.open_head(self.head.branch, sealed) {
                // It may be newer by now.
                Ok(head) if head.id == self.head.id && head.mark().backup >= backup => None,
                Ok(_) => told(stand.objects, "the head is an older one"),
                Err(_) => told(stand.objects, "the head is not what was stored"),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => told(stand.objects, "the head is missing"),
            Err(_) => None,
        }
    }

    async fn object(&self, place: &Place, at: usize, rate: u64) -> Answer {
        let entry = &self.head.objects[at];
        if rate > 0 {
            let due = f64::from(entry.length) / rate as f64;
            self.clock.sleep(Duration::from_secs_f64(due)).await;
        }
        let before = if at == 0 { self.head.first } else { self.head.objects[at - 1].sum };
        let name = self.keys.object_name(&self.head.id, entry.start, entry.number);
        match place.cloud.get(&name, None).await {
            Ok(sealed) if self.keys.proves(&self.head.id, entry, &before, &sealed) => Answer::Right,
            Ok(_) => Answer::Wrong("it is not what was stored"),
            Err(error) if error.kind() == ErrorKind::NotFound => Answer::Wrong("it is missing"),
            Err(_) => Answer::Unknown,
        }
    }
}

impl Writer {
    /// For a look at what clouds have of the newest backup; `None` when there is none.
    pub fn check(&self) -> Option<Check> {
        let (keys, clock) = (self.keys.clone(), self.environment.clock.clone());
        Some(Check { keys, clock, head: self.head.clone()?, stands: self.stands.clone() })
    }

    /// Learns what a look has found: what clouds lack is brought by the next [`Writer::catch_up`]. Nothing, when the chain has been
    /// replaced meanwhile.
    pub fn learn(&mut self, check: &Check, lacking: &[Lacking]) {
        let is_same = |head: &Head| head.id == check.head.id && head.objects.starts_with(&check.head.objects);
        if !self.head.as_ref().is_some_and(is_same) {
            return;
        }
        for Lacking { place, objects, .. } in lacking {
            if let Some(stand) = self.stands.get_mut(place) {
                *stand = Stand { objects: stand.objects.min(*objects), backup: None, unsure: false };
            }
        }
    }
}
