use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use seal::{BlockIdentity, SealId};

/// Bytes of packs that are kept.
const KEPT: usize = 16 << 20;

/// The packs that were read whole last, as they were stored: whoever reads one block of them after the other asks the clouds once.
#[derive(Default)]
pub(super) struct RecentPacks(Mutex<VecDeque<(BlockIdentity, SealId, Bytes)>>);

impl RecentPacks {
    pub fn get(&self, id: &BlockIdentity, seal: SealId) -> Option<Bytes> {
        let mut kept = self.0.lock();
        let at = kept.iter().position(|(known, sealing, _)| known == id && *sealing == seal)?;
        let found = kept.remove(at)?;
        let content = found.2.clone();
        kept.push_front(found);
        Some(content)
    }

    pub fn keep(&self, id: &BlockIdentity, seal: SealId, content: Bytes) {
        let mut kept = self.0.lock();
        kept.retain(|(known, sealing, _)| known != id || *sealing != seal);
        kept.push_front((*id, seal, content));
        while kept.iter().map(|(.., content)| content.len()).sum::<usize>() > KEPT && kept.len() > 1 {
            kept.pop_back();
        }
    }

    pub fn clear(&self) {
        self.0.lock().clear();
    }
}

/// How blocks of packs were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackReads {
    /// Each by itself.
    pub alone: u64,
    /// With its neighbours.
    pub run: u64,
    /// With the whole pack.
    pub whole: u64,
    /// From a pack that had been read whole just before.
    pub kept: u64,
}

/// One of the counts of [`PackReads`].
#[derive(Clone, Copy)]
pub(super) enum Way {
    Alone,
    Run,
    Whole,
    Kept,
}

/// What [`PackReads`] is made of.
#[derive(Default)]
pub(super) struct PackReadCounts([AtomicU64; 4]);

impl PackReadCounts {
    pub fn count(&self, way: Way, blocks: usize) {
        self.0[way as usize].fetch_add(blocks as u64, Ordering::Relaxed);
    }

    pub fn get(&self) -> PackReads {
        let [alone, run, whole, kept] = [0, 1, 2, 3].map(|at: usize| self.0[at].load(Ordering::Relaxed));
        PackReads { alone, run, whole, kept }
    }
}
