use std::fmt;

use environment::failpoint::POINTS;

use super::operation::Step;
use crate::site::Setup;
use crate::site::backups::BackupSetup;
use crate::site::death::{End, OPERATION_BEGINS, Point, REQUEST_LEAVES};
use crate::world::cloud::{Lie, Weather};
use crate::world::dice::Dice;
use crate::world::network::Reach;

/// Clients of one gateway.
pub const CLIENTS: usize = 3;
/// Operations between two ends of a machine, more or less.
const PHASE: u64 = 700;
/// Operations of a plan that are shown one by one.
const SHOWN: usize = 40;
/// Clouds that others are emptied into, one after the other.
const SPARES: u16 = 2;
/// The cloud whose owner is not to be trusted.
pub const EVIL: u16 = 0;

/// Everything that is going to happen. Dropping any part of it leaves a plan.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub setup: Setup,
    pub phases: Vec<Phase>,
}

/// From one start of a machine to an end that was planned.
#[derive(Clone, Debug)]
pub struct Phase {
    /// What each client does.
    pub steps: [Vec<Step>; CLIENTS],
    /// What happens when so many operations of the phase have begun.
    pub troubles: Vec<(u64, Trouble)>,
    /// Where the machine dies before the end.
    pub point: Option<Point>,
    pub end: End,
}

/// Something that clients do not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A cloud behaves like this from now on.
    Cloud(u16, Weather),
    /// An object of the cloud that is not to be trusted changes where it lies.
    Rot,
    /// Clients and gateway are so far from each other from now on.
    Network(Reach),
    /// All streams between them end.
    Cut,
    /// Wall clocks jump, by milliseconds.
    Jump(i64),
    /// The disk of the journal is full, or no longer.
    DiskFull(bool),
    /// Each batch of the journal takes so many milliseconds from now on.
    DiskSlow(u64),
    /// What is in memory and also elsewhere is forgotten.
    DropMemory,
    /// A file of the disk cache decays; the number says which one.
    DiskRot(u64),
    /// Everything dirty is written back.
    Flush,
    /// The metadata go to the clouds at once.
    BackUp,
    /// All fragments are looked at.
    Scrub,
    /// All files, those that are there and those to come, get another scheme.
    Move(&'static str),
    /// Keys of files are to be under a new epoch's key.
    Rotate,
    /// The cloud that this number is in is emptied into another one.
    Drain(u16),
}

/// What the owner of the cloud [`EVIL`] may do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Evil {
    Nothing,
    Lies,
    Loses,
}

impl Plan {
    pub fn of(seed: u64, operations: u64) -> Plan {
        let mut dice = Dice::new(seed, "plan");
        let evil = dice.pick(&[Evil::Nothing, Evil::Lies, Evil::Lies, Evil::Loses]);
        let schemes: &[(&str, u16)] = match evil {
            // One cloud may fail beside the one that loses, and what is left must do.
            Evil::Loses => &[("rs:2+2", 4), ("replicas:3", 3), ("aont-rs:2+2", 4)],
            _ => &[
                ("rs:2+1", 3),
                ("replicas:3", 3),
                ("replicas:2", 2),
                ("aont-rs:2+1", 3),
                ("caont-rs:2+1", 3),
                ("rs:2+2", 4),
            ],
        };
        let (scheme, clouds) = dice.pick(schemes);
        // What files may move to bears as much.
        let others: Vec<_> =
            schemes.iter().filter(|(_, of)| *of == clouds).map(|(scheme, _)| *scheme).collect();
        let setup = Setup {
            scheme,
            clouds,
            spares: 0,
            loses: evil == Evil::Loses,
            longest_packed: dice.pick(&[0, 0, 16 << 10]),
            disk_cache: 0,
            skew: dice.pick(&[0, 0, -500, 500, 50_000]),
            gc_delay: dice.pick(&[5, 30, 30, 300]),
            connections: dice.pick(&[None, Some(1), Some(3)]),
            backups: None,
        };
        let is_remote = setup.connections.is_some();
        let count = operations.div_ceil(PHASE).max(1);
        let phases = (0..count).map(|number| {
            let length = operations / count + u64::from(number < operations % count);
            Phase::new(&mut dice, length, (evil, clouds, &others), is_remote)
        });
        let mut plan = Plan { seed, phases: phases.collect(), setup };
        // Others live as they would if there were no backups.
        let mut dice = Dice::new(seed, "backups");
        if dice.percent(35) {
            plan.back_up(&mut dice, evil);
        }
        let mut dice = Dice::new(seed, "drains");
        if dice.percent(35) {
            plan.drain(&mut dice);
        }
        let mut dice = Dice::new(seed, "slow disk");
        for phase in &mut plan.phases {
            if dice.percent(30) {
                let (length, slow) = (phase.length(), dice.pick(&[1, 5, 30, 300]));
                let (at, lasts) = (dice.below(length), 1 + dice.below(length / 4 + 1));
                phase.troubles.extend([(at, Trouble::DiskSlow(slow)), (at + lasts, Trouble::DiskSlow(0))]);
                phase.troubles.sort_by_key(|(at, _)| *at);
            }
        }
        let mut dice = Dice::new(seed, "disk cache");
        plan.setup.disk_cache = dice.pick(&[0, 1 << 20, 4 << 20]);
        if plan.setup.disk_cache > 0 {
            plan.phases.iter_mut().for_each(|phase| phase.decay(&mut dice));
        }
        let mut dice = Dice::new(seed, "last days");
        if evil == Evil::Nothing && dice.percent(90) {
            plan.end_without_a_cloud(&mut dice);
        }
        plan
    }

    /// A cloud is away when the rest begins: what was written last and lacks a fragment is neither overwritten nor read before all is looked at.
    fn end_without_a_cloud(&mut self, dice: &mut Dice) {
        let cloud = dice.below(self.setup.clouds.into()) as u16;
        let Some(phase) = self.phases.last_mut() else { return };
        let length = phase.length();
        let at = length - dice.below(length / 4 + 1);
        phase.troubles.retain(
            |(_, trouble)| !matches!(trouble, Trouble::Cloud(which, Weather::Fair) if *which == cloud),
        );
        phase.troubles.push((at, Trouble::Cloud(cloud, dice.pick(&[Weather::Refusing, Weather::Hanging]))));
        phase.troubles.sort_by_key(|(at, _)| *at);
    }

    /// Clouds are emptied.
    fn drain(&mut self, dice: &mut Dice) {
        self.setup.spares = SPARES;
        for phase in &mut self.phases {
            if dice.percent(25) {
                let number = dice.below(self.setup.clouds.into()) as u16;
                phase.troubles.push((dice.below(phase.length()), Trouble::Drain(number)));
                phase.troubles.sort_by_key(|(at, _)| *at);
                if dice.percent(30) {
                    let how = dice.pick(&[End::Kill, End::PowerCut]);
                    phase.point = Some(Point { name: "drain.copied", passes: 1 + dice.below(40), how });
                }
            }
        }
    }

    /// The metadata are backed up, and sites burn down.
    fn back_up(&mut self, dice: &mut Dice, evil: Evil) {
        self.setup.backups = Some(BackupSetup {
            interval: dice.pick(&[5, 10, 20]),
            // One of two may be that of the cloud that is not to be trusted.
            copies: if evil == Evil::Nothing { dice.pick(&[1, 2]) } else { 2 },
            changes: dice.pick(&[4 << 10, 1 << 20, 64 << 20]),
        });
        let points: Vec<&str> =
            POINTS.iter().map(|(point, _)| *point).filter(|point| point.starts_with("backup.")).collect();
        for phase in &mut self.phases {
            if dice.percent(30) {
                let how = dice.pick(&[End::Kill, End::PowerCut, End::Burn]);
                phase.point = Some(Point { name: dice.pick(&points), passes: 1 + dice.below(6), how });
            }
            match (&mut phase.point, dice.below(10)) {
                (_, 0..3) => phase.end = End::Burn,
                (Some(point), 3) => point.how = End::Burn,
                _ => {}
            }
            let length = phase.length();
            for _ in 0..dice.below(3) {
                let trouble = dice.pick(&[Trouble::Flush, Trouble::Flush, Trouble::BackUp]);
                phase.troubles.push((dice.below(length), trouble));
            }
            phase.troubles.sort_by_key(|(at, _)| *at);
        }
    }

    pub fn operations(&self) -> usize {
        self.phases.iter().flat_map(|phase| &phase.steps).map(Vec::len).sum()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.setup)?;
        for Phase { steps, troubles, point, end } in &self.phases {
            writeln!(
                f,
                "phase with {:?} steps, ends by {end:?}, dies at {point:?}",
                steps.each_ref().map(Vec::len)
            )?;
            for (at, trouble) in troubles {
                writeln!(f, "    at {at}: {trouble:?}")?;
            }
            if self.operations() <= SHOWN {
                for (client, steps) in steps.iter().enumerate() {
                    steps.iter().try_for_each(|step| writeln!(f, "    client {client}: {step:?}"))?;
                }
            }
        }
        Ok(())
    }
}

impl Phase {
    /// Operations of all clients.
    fn length(&self) -> u64 {
        self.steps.iter().map(Vec::len).sum::<usize>() as u64
    }

    /// What is in memory is forgotten, so that the disk cache is asked, and some of that is no longer what was written.
    fn decay(&mut self, dice: &mut Dice) {
        let length = self.length();
        for _ in 0..dice.below(4) {
            let trouble = if dice.percent(40) { Trouble::DiskRot(dice.next()) } else { Trouble::DropMemory };
            self.troubles.push((dice.below(length), trouble));
        }
        self.troubles.sort_by_key(|(at, _)| *at);
    }

    fn new(dice: &mut Dice, length: u64, world: (Evil, u16, &[&'static str]), is_remote: bool) -> Phase {
        let mut steps: [Vec<Step>; CLIENTS] = Default::default();
        for number in 0..length as usize {
            steps[number % CLIENTS].push(std::array::from_fn(|_| dice.next() as u16));
        }
        let mut troubles = Vec::new();
        for _ in 0..dice.below(12) {
            trouble(dice, world, length, &mut troubles);
        }
        for _ in 0..if is_remote { dice.below(8) } else { 0 } {
            silence(dice, length, &mut troubles);
        }
        troubles.sort_by_key(|(at, _)| *at);
        let point = dice.percent(60).then(|| a_point(dice));
        let end = dice.pick(&[End::Stop, End::Kill, End::Kill, End::PowerCut, End::PowerCut, End::PowerCut]);
        Phase { steps, troubles, point, end }
    }
}

/// One more trouble, with its end if it has one.
fn trouble(
    dice: &mut Dice,
    (evil, clouds, schemes): (Evil, u16, &[&'static str]),
    length: u64,
    into: &mut Vec<(u64, Trouble)>,
) {
    let at = dice.below(length);
    let later = at + 1 + dice.below(length / 4 + 1);
    match dice.below(18) {
        0..5 => {
            let bad = [
                Weather::Refusing,
                Weather::Throttling,
                Weather::DoneButFailing,
                Weather::Hanging,
                Weather::Slow,
            ];
            let cloud = match evil {
                Evil::Nothing => dice.below(u64::from(clouds)) as u16,
                Evil::Lies => EVIL + 1 + dice.below(u64::from(clouds - EVIL - 1)) as u16,
                // Always the same: a write that met two of them may rely on what was lost.
                Evil::Loses => EVIL + 1,
            };
            into.push((at, Trouble::Cloud(cloud, dice.pick(&bad))));
            into.push((later, Trouble::Cloud(cloud, Weather::Fair)));
        }
        5..8 if evil == Evil::Lies => {
            let lie = dice.pick(&[
                Lie::Flipped,
                Lie::Swapped,
                Lie::Swapped,
                Lie::Truncated,
                Lie::Extended,
                Lie::Withheld,
                Lie::Forked,
            ]);
            into.push((at, Trouble::Cloud(EVIL, Weather::Lying(lie))));
        }
        5..7 if evil == Evil::Loses => into.push((at, Trouble::Cloud(EVIL, Weather::Losing))),
        7 if evil == Evil::Loses => into.push((at, Trouble::Rot)),
        8 => {
            let far = dice.pick(&[1_000, 60_000, 3_600_000, 86_400_000]);
            into.push((at, Trouble::Jump(dice.below(2 * far) as i64 - far as i64)));
        }
        9 => into.extend([(at, Trouble::DiskFull(true)), (later, Trouble::DiskFull(false))]),
        10 => into.push((at, dice.pick(&[Trouble::Flush, Trouble::Scrub]))),
        11..13 => into.push((at, Trouble::Move(dice.pick(schemes)))),
        13 => into.push((at, Trouble::Rotate)),
        _ => into.push((at, Trouble::DropMemory)),
    }
}

/// One more trouble that keeps answers from clients, with its end if it has one.
fn silence(dice: &mut Dice, length: u64, into: &mut Vec<(u64, Trouble)>) {
    let at = dice.below(length);
    // Who gets no answers begins nothing: sooner or later all wait, and it ends by that.
    let later = at + 1 + dice.below(length / 16 + 1);
    let reach = match dice.below(6) {
        0 => return into.push((at, Trouble::Cut)),
        1 => Reach::Far,
        2 => Reach::Parted,
        3 => Reach::Mute,
        _ => return into.extend([(at, Trouble::DiskFull(true)), (later, Trouble::DiskFull(false))]),
    };
    into.extend([(at, Trouble::Network(reach)), (later, Trouble::Network(Reach::Near))]);
}

fn a_point(dice: &mut Dice) -> Point {
    let how = dice.pick(&[End::Kill, End::PowerCut, End::PowerCut]);
    if dice.percent(40) {
        let name = dice.pick(&[OPERATION_BEGINS, REQUEST_LEAVES]);
        return Point { name, passes: 1 + dice.below(PHASE), how };
    }
    let families = [
        "journal",
        "journal",
        "meta",
        "meta",
        "writeback",
        "writeback",
        "pack",
        "gc",
        "clean",
        "repair",
        "reap",
        "migration",
        "keys",
        "compound",
        "clients",
        "recovery",
    ];
    let family = dice.pick(&families);
    let points: Vec<&str> = POINTS
        .iter()
        .map(|(point, _)| *point)
        .filter(|point| point.split('.').next() == Some(family))
        .collect();
    let most = match family {
        "journal" => 300,
        "meta" | "writeback" | "compound" => 40,
        // A machine starts once.
        "recovery" => 1,
        _ => 4,
    };
    Point { name: dice.pick(&points), passes: 1 + dice.below(most), how }
}
