use std::collections::HashMap;

use ids::VolumeId;
use parking_lot::Mutex;

/// A volume may have this many times as much as is free for all.
const GREED: u64 = 3;

/// How the space that dirty data may take in the journal, and the memory that its books may take, are shared out.
///
/// Each volume may grow while it has less than [`GREED`] times what is left. So one volume that cannot be written back
/// takes three quarters at most, two take three sevenths each, and however many there are, something is left for the
/// next; nothing is set aside for volumes that do not need it.
pub(crate) struct Shares {
    limit: u64,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    total: u64,
    /// Dirty data, and what was admitted and is not yet dirty.
    volumes: HashMap<VolumeId, u64>,
}

impl Shares {
    pub fn new(limit: u64) -> Shares {
        Shares { limit, used: Mutex::default() }
    }

    /// Takes `bytes` for a volume, if it may grow. Whatever their number: large writes do not wait longer than small
    /// ones, and what the last one takes too much is less than a record.
    pub fn take(&self, volume: VolumeId, bytes: u64) -> bool {
        let mut used = self.used.lock();
        let may = self.has_room(&used, volume);
        if may {
            used.add(volume, bytes);
        }
        may
    }

    /// Whether [`Shares::take`] would give a volume anything.
    pub fn may_grow(&self, volume: VolumeId) -> bool {
        self.has_room(&self.used.lock(), volume)
    }

    /// Takes more for a volume, without being asked whether it may.
    pub fn add(&self, volume: VolumeId, bytes: u64) {
        self.used.lock().add(volume, bytes);
    }

    /// Gives back what was taken.
    pub fn give_back(&self, volume: VolumeId, bytes: u64) {
        self.used.lock().subtract(volume, bytes);
    }

    /// What is dirty of a volume has changed from `before` to `after`.
    pub fn change(&self, volume: VolumeId, before: u64, after: u64) {
        if after != before {
            let mut used = self.used.lock();
            used.add(volume, after);
            used.subtract(volume, before);
        }
    }

    pub fn total(&self) -> u64 {
        self.used.lock().total
    }

    /// Whether a volume has as much as is left.
    pub fn is_crowded(&self, volume: VolumeId) -> bool {
        let used = self.used.lock();
        used.of(volume) > self.limit.saturating_sub(used.total)
    }

    fn has_room(&self, used: &Used, volume: VolumeId) -> bool {
        used.of(volume) < self.limit.saturating_sub(used.total).saturating_mul(GREED)
    }
}

impl Used {
    fn of(&self, volume: VolumeId) -> u64 {
        self.volumes.get(&volume).copied().unwrap_or(0)
    }

    fn add(&mut self, volume: VolumeId, bytes: u64) {
        self.total += bytes;
        *self.volumes.entry(volume).or_default() += bytes;
    }

    fn subtract(&mut self, volume: VolumeId, bytes: u64) {
        self.total -= bytes;
        if let Some(used) = self.volumes.get_mut(&volume) {
            *used -= bytes;
            if *used == 0 {
                self.volumes.remove(&volume);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Until nobody may grow any more: what each of so many volumes has.
    fn filled(volumes: u128) -> Vec<u64> {
        let shares = Shares::new(1_000_000);
        loop {
            let grown = (0..volumes).filter(|&volume| shares.take(VolumeId(volume), 10)).count();
            if grown == 0 {
                return (0..volumes).map(|volume| shares.used.lock().of(VolumeId(volume))).collect();
            }
        }
    }

    #[test]
    fn however_many_volumes_are_stuck_each_has_the_same_and_something_is_left() {
        for volumes in 1..20 {
            let has = filled(volumes);
            let fair = 3_000_000 / (3 * volumes as u64 + 1);
            assert!(has.iter().all(|has| has.abs_diff(fair) <= 10 * volumes as u64), "{has:?} {fair}");
            assert!(has.iter().sum::<u64>() < 1_000_000);
        }
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let shares = Shares::new(1000);
        assert!(shares.take(VolumeId(1), 900));
        assert!(!shares.take(VolumeId(1), 1));
        assert!(shares.take(VolumeId(2), 1), "another volume still has its part");
        shares.change(VolumeId(1), 0, 90);
        assert!(shares.is_crowded(VolumeId(1)) && !shares.is_crowded(VolumeId(2)));
        shares.give_back(VolumeId(1), 900);
        shares.change(VolumeId(1), 90, 0);
        shares.give_back(VolumeId(2), 1);
        assert_eq!(shares.total(), 0);
        assert!(shares.used.lock().volumes.is_empty());
    }
}
