use std::collections::BTreeSet;
use std::sync::Arc;

use nfs4::{SequenceArgs, SessionId};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// The slots of a session (RFC 8881 §2.10.6.1). The lowest free one is taken first, so that the server can tell how many
/// are needed; it may have fewer of them used ([`use_up_to`](Self::use_up_to)).
pub(super) struct SlotTable {
    session: SessionId,
    state: Mutex<State>,
    /// One permit for each slot in `State::free`, less those who have a permit and are about to take a slot.
    available: Semaphore,
}

struct State {
    /// Of the next request of each slot.
    sequence: Vec<u32>,
    busy: Vec<bool>,
    /// Below `usable`, and not busy.
    free: BTreeSet<u32>,
    /// From `usable` on, and not busy.
    parked: BTreeSet<u32>,
    usable: u32,
}

/// A slot that is nobody else's until it is dropped.
pub(super) struct Slot {
    table: Arc<SlotTable>,
    number: u32,
    sequence_id: u32,
}

impl SlotTable {
    pub fn new(session: SessionId, count: u32) -> SlotTable {
        let state = State {
            sequence: vec![1; count as usize],
            busy: vec![false; count as usize],
            free: (0..count).collect(),
            parked: BTreeSet::new(),
            usable: count,
        };
        SlotTable { session, state: Mutex::new(state), available: Semaphore::new(count as usize) }
    }

    /// Waits for a free slot.
    pub async fn take(self: &Arc<SlotTable>) -> Slot {
        loop {
            // Never closed.
            if let Ok(permit) = self.available.acquire().await {
                permit.forget();
            }
            let mut state = self.state.lock();
            // None if it was parked meanwhile; the permit is gone with it.
            if let Some(number) = state.free.pop_first() {
                state.busy[number as usize] = true;
                let sequence_id = state.sequence[number as usize];
                return Slot { table: self.clone(), number, sequence_id };
            }
        }
    }

    /// How many slots may be used.
    pub fn usable(&self) -> u32 {
        self.state.lock().usable
    }

    /// Follows `sr_target_highest_slotid` or CB_RECALL_SLOT (RFC 8881 §2.10.6.1, §20.8): takes none above this slot from
    /// now on. Never more than the session was granted, and never none.
    pub fn use_up_to(&self, highest: u32) {
        let mut state = self.state.lock();
        let usable = highest.saturating_add(1).min(state.sequence.len() as u32);
        if usable == state.usable {
            return;
        }
        if usable < state.usable {
            let mut parked = state.free.split_off(&usable);
            self.available.forget_permits(parked.len());
            state.parked.append(&mut parked);
        } else {
            let rest = state.parked.split_off(&usable);
            let mut freed = std::mem::replace(&mut state.parked, rest);
            self.available.add_permits(freed.len());
            state.free.append(&mut freed);
        }
        state.usable = usable;
    }
}

impl Slot {
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The SEQUENCE of the slot's next request.
    pub fn arguments(&self, cache_this: bool) -> SequenceArgs {
        let busy = self.table.state.lock().busy.iter().rposition(|busy| *busy).unwrap_or(0) as u32;
        SequenceArgs {
            session: self.table.session,
            sequence_id: self.sequence_id,
            slot: self.number,
            highest_slot: busy.max(self.number),
            cache_this,
        }
    }

    /// The server has executed the request.
    pub fn executed(&mut self) {
        self.sequence_id = self.sequence_id.wrapping_add(1);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.table.state.lock();
        state.sequence[self.number as usize] = self.sequence_id;
        state.busy[self.number as usize] = false;
        if self.number < state.usable {
            state.free.insert(self.number);
            self.table.available.add_permits(1);
        } else {
            state.parked.insert(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn table(count: u32) -> Arc<SlotTable> {
        Arc::new(SlotTable::new(SessionId([1; 16]), count))
    }

    fn take(table: &Arc<SlotTable>) -> Option<Slot> {
        match pin!(table.take()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(slot) => Some(slot),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_lowest_free_slot_is_taken_and_keeps_its_sequence() {
        let table = table(3);
        let mut first = take(&table).unwrap();
        let second = take(&table).unwrap();
        first.executed();
        drop(first);
        let again = take(&table).unwrap();
        assert_eq!((again.number(), again.sequence_id, second.number()), (0, 2, 1));
        assert_eq!(again.arguments(true).highest_slot, 1);
        drop(second);
        assert_eq!(again.arguments(true).highest_slot, 0);
    }

    #[test]
    fn slots_above_the_servers_target_rest_until_it_rises() {
        let table = table(3);
        let slots: Vec<_> = (0..3).map(|_| take(&table).unwrap()).collect();
        table.use_up_to(0);
        drop(slots);
        let only = take(&table).unwrap();
        assert!(take(&table).is_none());
        table.use_up_to(1);
        assert_eq!(take(&table).unwrap().number(), 1);
        table.use_up_to(99);
        assert_eq!(table.usable(), 3);
        drop(only);
    }

    proptest! {
        /// Whatever the order, exactly the free slots below the target can be taken.
        #[test]
        fn no_slot_is_ever_lost(steps in vec((0u8..4, any::<u32>()), 0..60)) {
            let table = table(5);
            let mut held: Vec<Slot> = Vec::new();
            let mut usable = 5;
            for (step, value) in steps {
                match step {
                    0 | 1 => {
                        let expected = (0..usable).find(|n| held.iter().all(|slot| slot.number() != *n));
                        let taken = take(&table);
                        prop_assert_eq!(taken.as_ref().map(Slot::number), expected);
                        held.extend(taken);
                    }
                    2 if !held.is_empty() => drop(held.remove(value as usize % held.len())),
                    _ => {
                        usable = value % 7 + 1;
                        table.use_up_to(usable - 1);
                        usable = usable.min(5);
                    }
                }
            }
        }
    }
}
