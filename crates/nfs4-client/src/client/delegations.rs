//! Delegations for reading, and their way back (RFC 8881 §10.2, §20.2).

use std::collections::VecDeque;
use std::time::Duration;

use environment::Clock;
use nfs4::{DelegReturnArgs, FileHandle, NfsArgOp, OpenDelegation, StateId};

use super::Client;
use super::open_state::OpenState;
use crate::ClientError;
use crate::operations::put_handle;

/// How often a return is tried.
const TRIES: u32 = 10;

/// The first pause before it is tried again; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);

impl OpenState {
    /// The delegation for reading that the file has now: as long as it stands no other client changes the file.
    pub fn read_delegation(&self) -> Option<StateId> {
        match self.delegation() {
            OpenDelegation::Read(read) => Some(read.state_id),
            _ => None,
        }
    }
}

impl Client {
    /// [`return_delegation`](Self::return_delegation) until it is done, or refused for good.
    pub async fn bring_back(&self, open: &OpenState) {
        self.insist(|| self.return_delegation(open)).await;
    }

    /// The same for a delegation of which nothing is known but that it is recalled: see [`EarlyRecalls`].
    pub async fn bring_back_early(&self, file: &FileHandle, delegation: StateId) {
        let back = NfsArgOp::DelegReturn(DelegReturnArgs { state_id: delegation.newest() });
        let request = [put_handle(file), back];
        self.insist(|| async { self.compound(&request).await?.into_results().map(drop) }).await;
    }

    /// Tries what does no harm when it is done twice, as closing and giving back, until it is done or refused for good: ten times
    /// within a minute and a half, and the time that each one takes. If nothing helps, the server revokes what it gave.
    pub async fn insist<F: Future<Output = Result<(), ClientError>>>(&self, attempt: impl Fn() -> F) {
        insist(&*self.shared.options.environment.clock, attempt).await;
    }
}

async fn insist<F: Future<Output = Result<(), ClientError>>>(clock: &dyn Clock, attempt: impl Fn() -> F) {
    let mut pause = PAUSE;
    for attempts in 1..=TRIES {
        match attempt().await {
            Err(ClientError::Unknown | ClientError::Unreachable { .. } | ClientError::SessionLost) => {}
            Err(error) if error.asks_to_retry() => {}
            _ => return,
        }
        if attempts < TRIES {
            clock.sleep(pause).await;
            pause *= 2;
        }
    }
}

/// Delegations that the server recalled before it was known that they were given: a recall may be faster than the answer of the OPEN
/// that has the delegation (RFC 8881 §2.10.6.3); and such as were known, if an answer that is on its way may say them again. The last 1,024; they are never to be believed.
#[derive(Debug, Default)]
pub struct EarlyRecalls {
    recalled: VecDeque<[u8; 12]>,
}

impl EarlyRecalls {
    const MOST: usize = 1024;

    /// This one is recalled, or given back.
    pub fn add(&mut self, delegation: &StateId) {
        if self.recalled.len() == Self::MOST {
            self.recalled.pop_front();
        }
        self.recalled.push_back(delegation.other);
    }

    /// Whether this was recalled.
    pub fn contains(&self, delegation: &StateId) -> bool {
        self.recalled.contains(&delegation.other)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use async_trait::async_trait;
    use ids::Timestamp;
    use nfs4::NfsStatus;

    use super::*;

    /// Every pause is over at once.
    struct Hasty;

    #[async_trait]
    impl Clock for Hasty {
        fn wall(&self) -> Timestamp {
            Timestamp::default()
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }

        async fn sleep(&self, _: Duration) {}
    }

    /// How often it is tried if the attempts have these results, and succeed then.
    async fn tries(results: impl Fn(u32) -> Option<ClientError>) -> u32 {
        let count = AtomicU32::new(0);
        let attempt = || std::future::ready(results(count.fetch_add(1, SeqCst)).map_or(Ok(()), Err));
        insist(&Hasty, attempt).await;
        count.into_inner()
    }

    #[tokio::test]
    async fn a_delegation_goes_back_though_the_server_cannot_be_reached_or_has_no_time_at_first() {
        let later = |number| match number {
            0 => Some(ClientError::Unreachable { last: None }),
            1 => Some(ClientError::Unknown),
            2 => Some(ClientError::Refused { status: NfsStatus::Delay }),
            3 => Some(ClientError::SessionLost),
            _ => None,
        };
        assert_eq!(tries(later).await, 5);
        assert_eq!(tries(|_| Some(ClientError::Refused { status: NfsStatus::BadHandle })).await, 1);
        assert_eq!(tries(|_| Some(ClientError::Unknown)).await, TRIES, "not for ever");
    }

    #[test]
    fn the_last_early_recalls_are_known_whatever_their_sequence_number() {
        let recalled = |number: u32| {
            let mut other = [0; 12];
            other[..4].copy_from_slice(&number.to_be_bytes());
            StateId { seqid: 1, other }
        };
        let mut early = EarlyRecalls::default();
        (0..=EarlyRecalls::MOST as u32).for_each(|number| early.add(&recalled(number)));
        assert!(!early.contains(&recalled(0)), "bounded");
        assert!(early.contains(&recalled(1).newest()));
        assert!(!early.contains(&recalled(5000)));
    }
}
