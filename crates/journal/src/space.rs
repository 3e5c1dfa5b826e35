use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::shared::{Shared, State};
use crate::{JournalError, Priority};

/// Journal space and queue memory set aside for one record. Given back when it is dropped or appended.
#[must_use = "space that nobody appends to stays taken until it is dropped"]
pub struct Reservation {
    pub(crate) shared: Arc<Shared>,
    pub(crate) bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let mut state = self.shared.state.lock();
            state.space.reserved -= self.bytes;
            self.shared.grant(&mut state);
        }
    }
}

struct Waiter {
    bytes: u64,
    granted: oneshot::Sender<Result<Reservation, JournalError>>,
}

/// Admission: who may append, so that an append itself never has to wait or fail for want of space.
#[derive(Default)]
pub(crate) struct Space {
    /// Reserved and not yet appended, each rounded to the blocks it may take.
    pub reserved: u64,
    /// Appended and not yet durable.
    pub queued: u64,
    upkeep: VecDeque<Waiter>,
    client: VecDeque<Waiter>,
}

impl Space {
    /// Bytes that wait for admission.
    pub(crate) fn waiting(&self) -> u64 {
        self.upkeep.iter().chain(&self.client).map(|waiter| waiter.bytes).sum()
    }
}

impl Shared {
    /// Admits a record of `bytes` (rounded) or tells through which channel the admission comes.
    #[allow(clippy::type_complexity)]
    pub(crate) fn admit(
        self: &Arc<Self>,
        bytes: u64,
        priority: Priority,
    ) -> Result<Reservation, oneshot::Receiver<Result<Reservation, JournalError>>> {
        let mut state = self.state.lock();
        let (granted, receiver) = oneshot::channel();
        if let Some(error) = state.failure() {
            let _ = granted.send(Err(error));
            return Err(receiver);
        }
        let queue_is_empty = match priority {
            Priority::Upkeep => state.space.upkeep.is_empty(),
            Priority::Client => state.space.upkeep.is_empty() && state.space.client.is_empty(),
        };
        if queue_is_empty && self.fits(&state, bytes, priority) {
            state.space.reserved += bytes;
            return Ok(Reservation { shared: self.clone(), bytes });
        }
        match priority {
            Priority::Upkeep => state.space.upkeep.push_back(Waiter { bytes, granted }),
            Priority::Client => state.space.client.push_back(Waiter { bytes, granted }),
        }
        Err(receiver)
    }

    /// Admits those who wait, oldest first, upkeep before clients, as far as there is space.
    pub(crate) fn grant(self: &Arc<Self>, state: &mut State) {
        for priority in [Priority::Upkeep, Priority::Client] {
            loop {
                let queue = match priority {
                    Priority::Upkeep => &state.space.upkeep,
                    Priority::Client => &state.space.client,
                };
                let Some(bytes) = queue.front().map(|waiter| waiter.bytes) else { break };
                if !self.fits(state, bytes, priority) {
                    // Those behind must not overtake: a large record would wait for ever.
                    return;
                }
                let queue = match priority {
                    Priority::Upkeep => &mut state.space.upkeep,
                    Priority::Client => &mut state.space.client,
                };
                let Some(waiter) = queue.pop_front() else { break };
                state.space.reserved += bytes;
                let reservation = Reservation { shared: self.clone(), bytes };
                if let Err(Ok(mut unwanted)) = waiter.granted.send(Ok(reservation)) {
                    // The waiter has gone; its drop would take the lock that we hold.
                    unwanted.bytes = 0;
                    state.space.reserved -= bytes;
                }
            }
        }
    }

    /// Tells everybody who waits that nothing will be admitted any more.
    pub(crate) fn refuse_waiters(state: &mut State, error: &JournalError) {
        for waiter in state.space.upkeep.drain(..).chain(state.space.client.drain(..)) {
            let _ = waiter.granted.send(Err(error.clone()));
        }
    }

    fn fits(&self, state: &State, bytes: u64, priority: Priority) -> bool {
        let config = &self.config;
        let (headroom, queue) = match priority {
            Priority::Client => (config.headroom, config.queue),
            // What upkeep needs must not wait for clients that may wait for upkeep.
            Priority::Upkeep => (0, 2 * config.queue),
        };
        let in_memory = state.space.reserved + state.space.queued + bytes;
        in_memory <= queue && state.space.reserved + bytes + headroom <= self.admissible(state)
    }

    /// Bytes of records, each rounded to its blocks, that can be placed whatever their order. A segment is left
    /// when the next record does not fit, so up to one record's worth of each may stay empty.
    pub(crate) fn admissible(&self, state: &State) -> u64 {
        let lost = crate::layout::RUN_HEADER + crate::layout::record_space(self.config.max_record);
        let current = state.rest_of_segment().saturating_sub(lost);
        let free = (self.config.segments()).saturating_sub(state.segments_in_use());
        current + free * (self.config.segment - lost)
    }
}
