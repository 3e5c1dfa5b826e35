//! One gateway: what outlives its machines ([`Site`]), a machine that is running ([`machine::Machine`]), and the server in front of it
//! ([`front::Front`]). Its metadata go to the clouds ([`backups`]), and come back from there when it burns down ([`restore`]). Clouds are emptied and replaced ([`drains`]).

pub mod audit;
pub mod backups;
pub mod death;
pub mod drains;
pub mod front;
pub mod machine;
pub mod restore;

use std::sync::Arc;
use std::time::Duration;

use cloud::Options;
use ids::GatewayId;
use journal::testing::MemoryDisk;
use nfs4_server::MemoryClientRecords;
use parking_lot::Mutex;
use seal::KeyFile;

use self::backups::{BackupSetup, Record};
use crate::world::World;
use crate::world::cloud::Store;
use crate::world::disk::SimDisk;
use crate::world::entropy::SeededEntropy;
use crate::world::inspector::Inspector;

/// How a gateway is set up, for its whole life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// How blocks are dispersed.
    pub scheme: &'static str,
    /// How many clouds that takes.
    pub clouds: u16,
    /// Clouds that others can be emptied into, besides.
    pub spares: u16,
    /// One of them loses what it has; otherwise nothing is ever missing that is not known to be.
    pub loses: bool,
    /// Sealed blocks up to this size travel together.
    pub longest_packed: u64,
    /// Bytes of clean data on the machine's disk; none if 0.
    pub disk_cache: u64,
    /// By how many microseconds a second the clock is too fast.
    pub skew: i64,
    /// How long garbage is kept, in seconds.
    pub gc_delay: u64,
    /// Clients come over the network, each with so many connections; otherwise they are inside of the gateway.
    pub connections: Option<usize>,
    /// The metadata are backed up in the clouds.
    pub backups: Option<BackupSetup>,
}

/// What there is of a gateway while it is switched off.
pub struct Site {
    pub seed: u64,
    pub setup: Setup,
    pub world: World,
    pub disk: SimDisk,
    pub clouds: Vec<Arc<Store>>,
    pub inspector: Arc<Mutex<Inspector>>,
    pub key_file: KeyFile,
    /// Which clients may come back.
    pub records: Arc<MemoryClientRecords>,
    pub connection: Options,
    /// What was said of backups.
    pub record: Arc<Record>,
    /// The last machine whose disk is lost; what it has stored may belong to nobody.
    pub burnt: Option<u64>,
}

impl Site {
    pub fn new(seed: u64, setup: Setup, world: World) -> Site {
        let inspector = Arc::default();
        // The clock is never faster than that.
        let longest_late = Duration::from_secs(setup.gc_delay) * 9 / 10;
        let cloud = |number| Store::new(seed, number, &world, &inspector, longest_late);
        let clouds = (0..setup.clouds + setup.spares).map(cloud).collect();
        let key_file = KeyFile::generate(GatewayId(1), &SeededEntropy::new(seed, 0));
        world.time().set_skew(setup.skew);
        let disk = SimDisk::new(MemoryDisk::new(), world.clone());
        Site {
            seed,
            setup,
            world,
            disk,
            clouds,
            inspector,
            key_file,
            records: Arc::default(),
            connection: Options::default(),
            record: Arc::default(),
            burnt: None,
        }
    }

    /// The machine is off, and this is what its disk still has.
    pub fn left(&mut self, platter: MemoryDisk) {
        self.disk = SimDisk::new(platter, self.world.clone());
    }

    /// The site burns down, with this machine. Which clients may come back was known there alone.
    pub fn burn(&mut self, machine: u64) {
        self.left(MemoryDisk::new());
        self.records = Arc::default();
        self.burnt = Some(machine);
    }
}
