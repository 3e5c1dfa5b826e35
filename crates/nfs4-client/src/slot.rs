use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use nfs4::{SequenceArgs, SessionId};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::ClientError;

/// The free slots of a session (RFC 8881 §2.10.6.1). The lowest is taken first, so that the server can tell how many
/// are needed.
pub(crate) struct SlotTable {
    session: SessionId,
    count: u32,
    free: Mutex<Free>,
    /// One permit for each free slot; closed when all are lost.
    available: Semaphore,
}

struct Free {
    /// Slot and next sequence id.
    slots: BinaryHeap<Reverse<(u32, u32)>>,
    lost: u32,
}

/// A slot that is nobody else's until it is dropped.
///
/// [`Session::compound`](crate::Session::compound) takes and returns slots by itself; this is for callers who want to
/// choose what is sent in a slot. After each request that the server executed (its SEQUENCE succeeded), say
/// [`executed`](Self::executed).
pub struct Slot {
    table: Arc<SlotTable>,
    number: u32,
    sequence_id: u32,
    /// A request is on its way; if no answer comes, the slot's state is unknown.
    outstanding: bool,
}

impl SlotTable {
    pub fn new(session: SessionId, count: u32) -> SlotTable {
        let slots = (0..count).map(|number| Reverse((number, 1))).collect();
        SlotTable {
            session,
            count,
            free: Mutex::new(Free { slots, lost: 0 }),
            available: Semaphore::new(count as usize),
        }
    }

    pub async fn take(self: &Arc<SlotTable>) -> Result<Slot, ClientError> {
        self.available.acquire().await.map_err(|_| ClientError::NoSlots)?.forget();
        let Some(Reverse((number, sequence_id))) = self.free.lock().slots.pop() else {
            return Err(ClientError::NoSlots);
        };
        Ok(Slot { table: self.clone(), number, sequence_id, outstanding: false })
    }
}

impl Slot {
    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The sequence id of the next new request.
    pub fn sequence_id(&self) -> u32 {
        self.sequence_id
    }

    /// The SEQUENCE of the next new request. `cache_this`: the server must keep the reply for a repetition.
    pub fn arguments(&self, cache_this: bool) -> SequenceArgs {
        SequenceArgs {
            session: self.table.session,
            sequence_id: self.sequence_id,
            slot: self.number,
            highest_slot: self.table.count - 1, // an upper bound of what is in use
            cache_this,
        }
    }

    /// The server has executed a request with the present sequence id.
    pub fn executed(&mut self) {
        self.sequence_id = self.sequence_id.wrapping_add(1);
        self.outstanding = false;
    }

    pub(crate) fn sent(&mut self) {
        self.outstanding = true;
    }

    /// The server has answered without executing anything.
    pub(crate) fn refused(&mut self) {
        self.outstanding = false;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut free = self.table.free.lock();
        if self.outstanding {
            free.lost += 1;
            if free.lost == self.table.count {
                self.table.available.close();
            }
        } else {
            free.slots.push(Reverse((self.number, self.sequence_id)));
            self.table.available.add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn the_lowest_free_slot_is_taken_and_keeps_its_sequence() {
        block_on(async {
            let table = Arc::new(SlotTable::new(SessionId([1; 16]), 3));
            let mut first = table.take().await.unwrap();
            let second = table.take().await.unwrap();
            assert_eq!((first.number(), second.number()), (0, 1));
            first.sent();
            first.executed();
            drop(first);
            let again = table.take().await.unwrap();
            assert_eq!((again.number(), again.sequence_id()), (0, 2));
            let arguments = again.arguments(true);
            assert_eq!((arguments.slot, arguments.sequence_id, arguments.highest_slot), (0, 2, 2));
        });
    }

    #[test]
    fn a_slot_without_an_answer_is_lost_and_a_refused_one_is_not() {
        block_on(async {
            let table = Arc::new(SlotTable::new(SessionId([1; 16]), 1));
            let mut slot = table.take().await.unwrap();
            slot.sent();
            slot.refused();
            drop(slot);
            let mut slot = table.take().await.unwrap();
            assert_eq!(slot.sequence_id(), 1);
            slot.sent();
            drop(slot);
            assert!(matches!(table.take().await, Err(ClientError::NoSlots)));
        });
    }
}
