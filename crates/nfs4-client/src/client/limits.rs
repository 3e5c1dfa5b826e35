use nfs4::{ChannelAttrs, NfsStatus};
use parking_lot::Mutex;

/// Of a message, what RPC headers and SEQUENCE may take: a header with a credential and a verifier of 400 bytes each
/// would take 1,000, those of AUTH_SYS with 16 groups take 400.
const HEADER_BYTES: u32 = 1024;

/// However little a server seems to take, compounds are not made smaller than this, as long as it has granted more.
const FLOOR: Limits = Limits {
    operations: 8,
    request_bytes: 64 << 10,
    response_bytes: 64 << 10,
    cached_response_bytes: 4 << 10,
    slots: 1,
};

/// How many compounds have to be taken after a reply was too large to be kept, before replies to be kept may be twice as large again: what a
/// server keeps them in is free again some time. It is twice as many after each further refusal, up to the second number.
const PATIENCE: u32 = 64;
const MOST_PATIENCE: u32 = 1 << 16;

/// What the server takes in one compound and at once. Headers and SEQUENCE are subtracted already.
///
/// At first it is what the server granted; it shrinks when the server refuses what it had granted. `cached_response_bytes` grows again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Operations of a compound.
    pub operations: u32,
    /// Bytes of the operations.
    pub request_bytes: u32,
    /// Bytes of the results.
    pub response_bytes: u32,
    /// Bytes of the results of a compound that changes something.
    pub cached_response_bytes: u32,
    /// Compounds at once.
    pub slots: u32,
}

impl Limits {
    fn granted(channel: &ChannelAttrs, slots: u32) -> Limits {
        Limits {
            operations: channel.max_operations.saturating_sub(1).max(1),
            request_bytes: channel.max_request_size.saturating_sub(HEADER_BYTES),
            response_bytes: channel.max_response_size.saturating_sub(HEADER_BYTES),
            cached_response_bytes: channel
                .max_response_size_cached
                .min(channel.max_response_size)
                .saturating_sub(HEADER_BYTES),
            slots,
        }
    }

    fn least(self, other: Limits) -> Limits {
        Limits {
            operations: self.operations.min(other.operations),
            request_bytes: self.request_bytes.min(other.request_bytes),
            response_bytes: self.response_bytes.min(other.response_bytes),
            cached_response_bytes: self.cached_response_bytes.min(other.cached_response_bytes),
            slots: self.slots.min(other.slots),
        }
    }
}

/// How large a compound was that the server did not take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Operations sent, or done before the one that was refused.
    pub operations: u32,
    /// Bytes of the operations sent.
    pub request_bytes: u32,
    /// Bytes of the reply that said so.
    pub response_bytes: u32,
    /// Whether operations were done before the refusal.
    pub begun: bool,
}

/// The granted limits and what was learnt since. What was learnt outlives the session.
pub(super) struct LimitTable {
    state: Mutex<State>,
}

struct State {
    granted: Limits,
    learnt: Limits,
    /// Most operations that were taken at once since a refusal, and the fewest that were refused: the limit is between
    /// them.
    taken: u32,
    refused: u32,
    /// Compounds that are still to be taken before replies to be kept may be larger again, and how many those were.
    until_larger: u32,
    patience: u32,
    /// Whether a compound was taken since the last refusal. Those that were on the way together are refused together.
    has_taken: bool,
}

impl State {
    /// A reply was too large to be kept.
    fn be_patient(&mut self) {
        if self.has_taken || self.patience == 0 {
            self.patience = (self.patience * 2).clamp(PATIENCE, MOST_PATIENCE);
        }
        (self.until_larger, self.has_taken) = (self.patience, false);
    }

    /// A compound was taken.
    fn allow_larger_replies(&mut self) {
        self.has_taken = true;
        self.until_larger = self.until_larger.saturating_sub(1);
        if self.until_larger > 0 {
            return;
        }
        let bytes = &mut self.learnt.cached_response_bytes;
        if *bytes == u32::MAX {
            // For long enough.
            self.patience = 0;
            return;
        }
        let granted = self.granted.cached_response_bytes;
        *bytes = bytes.checked_mul(2).filter(|bytes| *bytes < granted).unwrap_or(u32::MAX);
        self.until_larger = self.patience;
    }
}

impl LimitTable {
    pub fn new() -> LimitTable {
        let all = Limits {
            operations: u32::MAX,
            request_bytes: u32::MAX,
            response_bytes: u32::MAX,
            cached_response_bytes: u32::MAX,
            slots: u32::MAX,
        };
        LimitTable {
            state: Mutex::new(State {
                granted: all,
                learnt: all,
                taken: 0,
                refused: u32::MAX,
                until_larger: 0,
                patience: 0,
                has_taken: false,
            }),
        }
    }

    /// A session was made.
    pub fn grant(&self, channel: &ChannelAttrs, slots: u32) {
        self.state.lock().granted = Limits::granted(channel, slots);
    }

    pub fn get(&self) -> Limits {
        let state = self.state.lock();
        state.learnt.least(state.granted)
    }

    /// Why the server would refuse a compound of this size, by what it granted.
    pub fn refuses(&self, operations: usize, request_bytes: usize) -> Option<NfsStatus> {
        let granted = self.state.lock().granted;
        if operations > granted.operations as usize {
            Some(NfsStatus::TooManyOps)
        } else if request_bytes > granted.request_bytes as usize {
            Some(NfsStatus::ReqTooBig)
        } else {
            None
        }
    }

    /// The server took a compound with so many operations. Once it has refused some, more are tried until the limit is
    /// known but for an eighth. A compound that is nearly as large as may be counts: what is done together with several operations does not fill it to
    /// the last.
    pub fn took(&self, operations: usize) {
        let mut state = self.state.lock();
        state.allow_larger_replies();
        let operations = operations as u32;
        let most = state.learnt.operations;
        if state.refused == u32::MAX || operations < most - most / 8 || operations >= state.refused {
            return;
        }
        state.taken = state.taken.max(operations);
        let gap = state.refused - state.taken;
        if gap > state.taken / 8 {
            state.learnt.operations = state.taken + gap / 2;
        }
    }

    /// The server refused a compound of this size with this status. What it refuses rightly teaches nothing.
    pub fn learn(&self, status: NfsStatus, size: Size) {
        let mut state = self.state.lock();
        let present = state.learnt.least(state.granted);
        let floor = FLOOR.least(state.granted);
        let State { learnt, taken, refused, .. } = &mut *state;
        match status {
            NfsStatus::TooManyOps | NfsStatus::Resource if size.operations <= present.operations => {
                if size.begun {
                    // As many as were done can be done.
                    (*taken, *refused) = (size.operations, size.operations + 1);
                } else {
                    *refused = (*refused).min(size.operations);
                    if *taken >= *refused {
                        *taken = 0;
                    }
                }
                let between = *taken + (*refused - *taken) / 2;
                learnt.operations = between.max(floor.operations);
            }
            NfsStatus::ReqTooBig if size.request_bytes <= present.request_bytes => {
                learnt.request_bytes = (size.request_bytes / 2).max(floor.request_bytes);
            }
            // A reply that was nearly as large as allowed was refused rightly.
            NfsStatus::RepTooBig if size.response_bytes <= present.response_bytes / 2 || !size.begun => {
                learnt.response_bytes = (present.response_bytes / 2).max(floor.response_bytes);
            }
            NfsStatus::RepTooBigToCache
                if size.response_bytes <= present.cached_response_bytes / 2 || !size.begun =>
            {
                learnt.cached_response_bytes =
                    (present.cached_response_bytes / 2).max(floor.cached_response_bytes);
                state.be_patient();
            }
            _ => {}
        }
    }
}

/// Whether the status says that a compound, or its reply, is too large for the server.
pub(super) fn is_about_size(status: NfsStatus) -> bool {
    matches!(
        status,
        NfsStatus::TooManyOps
            | NfsStatus::Resource
            | NfsStatus::ReqTooBig
            | NfsStatus::RepTooBig
            | NfsStatus::RepTooBigToCache
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: ChannelAttrs = ChannelAttrs {
        header_pad_size: 0,
        max_request_size: 1 << 20,
        max_response_size: 1 << 20,
        max_response_size_cached: 64 << 10,
        max_operations: 101,
        max_requests: 4,
        rdma_ird: None,
    };

    fn granted() -> LimitTable {
        let table = LimitTable::new();
        table.grant(&CHANNEL, 4);
        table
    }

    #[test]
    fn the_next_session_may_grant_more_but_what_was_learnt_stays() {
        let table = granted();
        table.learn(NfsStatus::ReqTooBig, size(1, 512 << 10));
        table.grant(&ChannelAttrs { max_operations: 501, max_request_size: 4 << 20, ..CHANNEL }, 9);
        let limits = table.get();
        assert_eq!((limits.operations, limits.request_bytes, limits.slots), (500, 256 << 10, 9));
    }

    fn size(operations: u32, request_bytes: u32) -> Size {
        Size { operations, request_bytes, response_bytes: 100, begun: false }
    }

    #[test]
    fn what_is_refused_is_halved_down_to_a_floor() {
        let table = granted();
        assert_eq!(table.get().operations, 100);
        table.learn(NfsStatus::TooManyOps, size(60, 100));
        assert_eq!(table.get().operations, 30);
        table.learn(NfsStatus::Resource, size(60, 100));
        assert_eq!(table.get().operations, 30, "more than the limit teaches nothing");
        for _ in 0..9 {
            table.learn(NfsStatus::Resource, size(table.get().operations, 100));
        }
        assert_eq!(table.get().operations, FLOOR.operations);
        table.learn(NfsStatus::ReqTooBig, size(1, 900 << 10));
        assert_eq!(table.get().request_bytes, 450 << 10);
        let before = table.get().response_bytes;
        table.learn(NfsStatus::RepTooBig, size(1, 100));
        assert_eq!(table.get().response_bytes, before / 2);
        let full = Size { response_bytes: before / 2, begun: true, ..size(1, 100) };
        table.learn(NfsStatus::RepTooBig, full);
        assert_eq!(table.get().response_bytes, before / 2, "it was full");
    }

    #[test]
    fn replies_to_be_kept_grow_again_and_ever_later_where_they_are_refused() {
        let table = granted();
        let all = table.get();
        let until_all = |table: &LimitTable| {
            let mut taken = 0;
            while table.get() != all {
                table.took(1);
                taken += 1;
            }
            taken
        };
        for expected in [64, 128, 256] {
            table.learn(NfsStatus::RepTooBigToCache, size(1, 100));
            assert_eq!(table.get().cached_response_bytes, all.cached_response_bytes / 2);
            assert_eq!(table.get().response_bytes, all.response_bytes);
            assert_eq!(until_all(&table), expected);
        }
        // Forgotten after as many as it was waited for.
        (0..256).for_each(|_| table.took(1));
        for _ in 0..3 {
            table.learn(NfsStatus::RepTooBigToCache, size(1, 100));
        }
        assert_eq!(table.get().cached_response_bytes, all.cached_response_bytes / 8);
        assert_eq!(until_all(&table), 3 * 64, "they were on the way together");
        table.learn(NfsStatus::RepTooBig, size(1, 100));
        (0..1000).for_each(|_| table.took(1));
        assert_eq!(
            table.get().response_bytes,
            all.response_bytes / 2,
            "that has nothing to do with what is kept"
        );
    }

    #[test]
    fn the_limit_of_operations_is_found_but_for_an_eighth() {
        for (limit, step) in
            [(8, 1), (9, 1), (40, 1), (63, 1), (64, 1), (65, 1), (99, 1), (100, 1), (99, 4), (60, 4)]
        {
            let table = granted();
            let mut refusals = 0;
            for _ in 0..30 {
                let operations = table.get().operations / step * step;
                if operations > limit {
                    refusals += 1;
                    table.learn(NfsStatus::TooManyOps, size(operations, 100));
                } else {
                    table.took(operations as usize);
                }
            }
            let found = table.get().operations / step * step;
            assert!(found <= limit && found + found / 8 + step >= limit, "{found} of {limit} by {step}");
            assert!(refusals <= 7, "{refusals} for {limit}");
        }
    }

    #[test]
    fn as_many_operations_as_were_done_can_be_done() {
        let table = granted();
        table.learn(NfsStatus::Resource, Size { begun: true, ..size(49, 100) });
        assert_eq!(table.get().operations, 49);
        assert_eq!(table.refuses(100, 1000), None, "what is granted may be tried");
        assert_eq!(table.refuses(101, 1000), Some(NfsStatus::TooManyOps));
        assert_eq!(table.refuses(1, 1 << 20), Some(NfsStatus::ReqTooBig));
    }
}
