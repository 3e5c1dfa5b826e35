use std::sync::Arc;

use bytes::Bytes;
use cloud::{CloudHealth, Connection};
use environment::Environment;
use ids::Timestamp;
use parking_lot::Mutex;
use seal::{Padding, Suite};

use crate::budget::Budget;
use crate::target::Target;
use crate::{
    CloudId, CloudTable, CurrentVersions, Fault, FragmentFault, Incident, IncidentSink, Limits, Outcome,
};

mod gather;
mod load;
mod mixed;
mod packs;
mod ranged;
mod ranking;
mod recent;
mod relocate;
mod store;
mod upkeep;
mod writing;

pub use packs::{LoadedPack, LoadedTogether, StoredPack};
pub use recent::PackReads;
use recent::{PackReadCounts, RecentPacks};
pub use relocate::{Relocated, Relocation};
use writing::Writes;
pub use writing::Writing;

/// Stores and loads block versions; shared by everybody who does.
pub struct BlockStore {
    env: Environment,
    clouds: CloudTable,
    writes: Mutex<Writes>,
    incidents: Arc<dyn IncidentSink>,
    limits: Limits,
    budget: Budget,
    recent: RecentPacks,
    pack_reads: PackReadCounts,
}

/// How blocks of a volume are protected beyond their dispersal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Encrypted, or integrity only.
    pub suite: Suite,
    /// How sizes are blurred.
    pub padding: Padding,
}

/// How many of its fragments have to be stored for a block version to count as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redundancy {
    /// As many as it takes to read it and [`Limits::least_spare`]: what is not stored safely elsewhere cannot wait for the last cloud.
    Enough,
    /// All: it is to take the place of one that is stored already, and can wait. Nothing is put while one of the clouds is sick.
    Whole,
}

/// A block version that may be referred to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "what is missing has to be repaired"]
pub struct Stored {
    /// Fragments that are not (known to be) stored. Not empty: the write was degraded; record them durably and
    /// [`BlockStore::repair`] them.
    pub missing: Vec<u8>,
    /// Bytes put into clouds.
    pub bytes: u64,
}

/// A block version that was read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The content, without padding.
    pub plaintext: Bytes,
    /// When it was sealed, by the clock of the gateway that did.
    pub sealed_at: Timestamp,
    /// Fragments that were found missing or bad on the way; have them repaired.
    pub bad: Vec<Fault>,
}

/// What a repair did.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// Fragments stored anew.
    pub repaired: Vec<u8>,
    /// Fragments that could not be stored, and why; try again later.
    pub failed: Vec<Fault>,
    /// Other fragments that were found missing or bad on the way; have them repaired.
    pub bad: Vec<Fault>,
}

/// What a check found of one fragment.
#[derive(Clone, Debug)]
pub enum FragmentState {
    /// As it was stored.
    Good {
        /// Its length.
        bytes: u64,
    },
    /// Anything else.
    Faulty(FragmentFault),
}

impl FragmentState {
    /// What was fetched of it, if it is good.
    pub fn bytes(&self) -> u64 {
        match self {
            FragmentState::Good { bytes } => *bytes,
            FragmentState::Faulty(_) => 0,
        }
    }
}

impl BlockStore {
    /// A store over these clouds. Numbers of clouds are recorded by files: what is stored under a number moves with it.
    pub fn new(
        env: &Environment,
        clouds: impl IntoIterator<Item = (CloudId, Connection)>,
        incidents: Arc<dyn IncidentSink>,
        limits: Limits,
    ) -> BlockStore {
        let budget = Budget::new(limits.bytes_in_flight);
        let table = CloudTable::new();
        clouds.into_iter().for_each(|(id, connection)| table.set(id, Some(connection)));
        let writes = Mutex::default();
        let (recent, pack_reads) = (RecentPacks::default(), PackReadCounts::default());
        BlockStore { env: env.clone(), clouds: table, writes, incidents, limits, budget, recent, pack_reads }
    }

    /// The configured clouds.
    pub fn clouds(&self) -> &CloudTable {
        &self.clouds
    }

    /// How blocks of packs have been read since the start.
    pub fn pack_reads(&self) -> PackReads {
        self.pack_reads.get()
    }

    /// Forgets the packs that were read whole lately, of which up to 16 MiB are kept.
    pub fn forget_recent_packs(&self) {
        self.recent.clear();
    }

    /// How the clouds have behaved lately.
    pub fn health(&self) -> Vec<(CloudId, CloudHealth)> {
        self.clouds.iter().map(|(id, cloud)| (id, cloud.health().snapshot())).collect()
    }

    /// Whether writes may go to this cloud as if it were well; true for one that is sick when a probe is due, which the caller then sends.
    pub fn admits_writes(&self, cloud: CloudId) -> bool {
        self.clouds.get(&cloud).is_none_or(|cloud| cloud.health().admits(cloud::Direction::Write))
    }

    /// The cloud of a fragment.
    fn cloud_of(&self, target: &Target<'_>, fragment: u8) -> Option<&Connection> {
        self.clouds.get(&target.placement.clouds()[usize::from(fragment)])
    }

    /// Tells the sink of every fault that is a cloud's own, and returns those; `None`, and not a word, when the
    /// version was superseded meanwhile.
    async fn report(
        &self,
        target: &Target<'_>,
        faults: &[Fault],
        outcome: Outcome,
        versions: &(impl CurrentVersions + ?Sized),
    ) -> Option<Vec<Fault>> {
        let bad: Vec<Fault> = faults.iter().filter(|fault| fault.what.needs_repair()).cloned().collect();
        if !bad.is_empty() && !versions.is_current(target.identity, target.seal).await {
            return None;
        }
        for Fault { fragment, cloud, what } in &bad {
            let name = self.clouds.get(cloud).map_or_else(|| cloud.to_string().into(), |c| c.name().clone());
            self.accuse(target, *fragment, name, what, outcome);
        }
        Some(bad)
    }

    /// Tells the sink of what a cloud did to a fragment.
    fn accuse(
        &self,
        target: &Target<'_>,
        fragment: u8,
        cloud: Arc<str>,
        what: &FragmentFault,
        outcome: Outcome,
    ) {
        let identity = target.identity;
        self.incidents.report(Incident {
            time: self.env.clock.wall(),
            cloud,
            object_name: target.name_of(fragment).to_string(),
            fragment,
            volume: identity.volume,
            object: identity.object,
            block: identity.block,
            version: identity.version,
            creator: identity.creator,
            wrong: what.to_string(),
            outcome,
            times: 1,
        });
    }
}

fn fault(target: &Target<'_>, fragment: u8, what: FragmentFault) -> Fault {
    Fault { fragment, cloud: target.placement.clouds()[usize::from(fragment)], what }
}

#[cfg(test)]
mod tests;
