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

type Granted = oneshot::Receiver<Result<Reservation, JournalError>>;

struct Waiter {
    bytes: u64,
    granted: oneshot::Sender<Result<Reservation, JournalError>>,
}

/// A place in the queue. Whoever leaves it lets those behind move up.
pub(crate) struct Waiting {
    shared: Arc<Shared>,
    granted: Option<Granted>,
}

impl Waiting {
    /// Under the lock of the state, so that nothing happens in between.
    fn try_granted(mut self) -> Result<Reservation, Waiting> {
        match self.granted.as_mut().map(|granted| granted.try_recv()) {
            Some(Ok(Ok(reservation))) => {
                self.granted = None;
                Ok(reservation)
            }
            _ => Err(self),
        }
    }

    pub(crate) async fn granted(mut self) -> Result<Reservation, JournalError> {
        let Some(granted) = &mut self.granted else { return Err(JournalError::Closed) };
        let result = granted.await;
        self.granted = None;
        result.unwrap_or(Err(JournalError::Closed))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(granted) = self.granted.take() {
            drop(granted);
            self.shared.grant(&mut self.shared.state.lock());
        }
    }
}

/// Those whose turn comes first, first.
const PRIORITIES: [Priority; 3] = [Priority::Move, Priority::Upkeep, Priority::Client];

/// Admission: who may append, so that an append itself never has to wait or fail for want of space.
#[derive(Default)]
pub(crate) struct Space {
    /// Reserved and not yet appended, each rounded to the blocks it may take.
    pub reserved: u64,
    /// Appended and not yet durable.
    pub queued: u64,
    /// By priority.
    waiting: [VecDeque<Waiter>; PRIORITIES.len()],
}

impl Space {
    /// Bytes that wait for admission.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.iter().flatten().map(|waiter| waiter.bytes).sum()
    }

    fn queue(&mut self, priority: Priority) -> &mut VecDeque<Waiter> {
        &mut self.waiting[priority as usize]
    }
}

impl Shared {
    /// Admits a record of `bytes` (rounded) or gives it a place in the queue.
    pub(crate) fn admit(self: &Arc<Self>, bytes: u64, priority: Priority) -> Result<Reservation, Waiting> {
        let mut state = self.state.lock();
        let (granted, receiver) = oneshot::channel();
        let waiting = Waiting { shared: self.clone(), granted: Some(receiver) };
        if let Some(error) = state.failure() {
            let _ = granted.send(Err(error));
            return Err(waiting);
        }
        state.space.queue(priority).push_back(Waiter { bytes, granted });
        // Alone in the queue it may be admitted at once.
        self.grant(&mut state);
        waiting.try_granted()
    }

    /// Admits those who wait, highest priority first and then oldest first, as far as there is space.
    pub(crate) fn grant(self: &Arc<Self>, state: &mut State) {
        for priority in PRIORITIES {
            while let Some(waiter) = state.space.queue(priority).front() {
                let bytes = waiter.bytes;
                if waiter.granted.is_closed() {
                    state.space.queue(priority).pop_front();
                    continue;
                }
                if !self.fits(state, bytes, priority) {
                    // Those behind must not overtake: a large record would wait for ever.
                    return;
                }
                let Some(waiter) = state.space.queue(priority).pop_front() else { break };
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
        for waiter in state.space.waiting.iter_mut().flat_map(|queue| queue.drain(..)) {
            let _ = waiter.granted.send(Err(error.clone()));
        }
    }

    fn fits(&self, state: &State, bytes: u64, priority: Priority) -> bool {
        let config = &self.config;
        // What upkeep needs must not wait for clients that may wait for upkeep.
        let (headroom, queue, segments) = match priority {
            Priority::Client => (config.headroom, config.queue, config.segments()),
            Priority::Upkeep => (config.headroom / 2, 2 * config.queue, state.segments),
            Priority::Move => (0, 3 * config.queue, state.segments),
        };
        let in_memory = state.space.reserved + state.space.queued + bytes;
        let room = self.admissible(state, segments).min(self.in_files(state));
        in_memory <= queue && state.space.reserved + bytes + headroom <= room
    }

    /// The same in the files that there are, while the filler still has some to make: it may find the disk full, and by then nobody may
    /// have taken those of the head-room.
    fn in_files(&self, state: &State) -> u64 {
        match self.filler_works(state) {
            true => self.room(state, state.files_to_begin()),
            false => u64::MAX,
        }
    }

    /// Bytes of records, each rounded to its blocks, that can be placed whatever their order, when there may be so
    /// many segments.
    pub(crate) fn admissible(&self, state: &State, segments: u64) -> u64 {
        self.room(state, state.segments_to_begin(segments))
    }

    /// In the current segment and so many others.
    fn room(&self, state: &State, segments: u64) -> u64 {
        state.rest_of_segment().saturating_sub(self.config.lost()) + self.config.holds(segments)
    }
}
