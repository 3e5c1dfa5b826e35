use std::cell::RefCell;
use std::rc::Rc;

use environment::failpoint::{Watching, watch};
use journal::testing::MemoryDisk;

use crate::world::World;

/// A point of the simulator's own: a client begins something.
pub const OPERATION_BEGINS: &str = "sim.operation-begins";
/// A point of the simulator's own: a request is on its way to a cloud.
pub const REQUEST_LEAVES: &str = "sim.request-leaves";

/// How a machine ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In order.
    Stop,
    /// Its process is killed: what was written is there, synced or not.
    Kill,
    /// Its power is cut: of what was not synced any part is there.
    PowerCut,
    /// The site burns down: nothing is there, but in the clouds.
    Burn,
}

/// Where a machine dies, if it gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub name: &'static str,
    /// At which pass, from 1.
    pub passes: u64,
    pub how: End,
}

/// What is left of `disk` after this end.
pub fn left(disk: &MemoryDisk, how: End, seed: u64) -> MemoryDisk {
    match how {
        End::Stop | End::Kill => disk.kill(),
        // A site that nobody could restore burns down another time.
        End::PowerCut | End::Burn => disk.crash(seed),
    }
}

/// Lets the machine of this thread die at a point.
pub struct Death {
    left: Rc<RefCell<Option<MemoryDisk>>>,
    _watching: Watching,
}

impl Death {
    pub fn at(point: Point, world: &World, disk: &MemoryDisk, seed: u64) -> Death {
        let (place, world, disk) = (Rc::new(RefCell::new(None)), world.clone(), disk.clone());
        let (mut passes, kept) = (0, place.clone());
        let pass = move |name: &str| {
            if name != point.name || world.is_dead() {
                return;
            }
            passes += 1;
            if passes == point.passes {
                *kept.borrow_mut() = Some(left(&disk, point.how, seed));
                world.die(name);
            }
        };
        Death { left: place, _watching: watch(pass) }
    }

    /// What was left of the disk when it died, if it did.
    pub fn left(&self) -> Option<MemoryDisk> {
        self.left.borrow_mut().take()
    }
}
