//! A compound, from one session to the next if need be.

use std::borrow::Cow;
use std::sync::Arc;

use nfs4::{NfsArgOp, NfsStatus};

use super::Client;
use super::back_off::BackOff;
use super::exchange::{DELAYS, Exchanged, Request, exchange};
use super::in_flight::{Courier, InFlight};
use super::revocation::is_revoked;
use crate::operations::{is_atomic, only_moves, only_reads, state_id_of};
use crate::{ClientError, Reply, wire};

/// How many sessions in a row may end under one compound before it, or a server that knows none of its sessions, is taken for
/// the cause. A restart of the server before it executed anything does not count. When a server has put it off in between, counting
/// begins anew, although it may be to blame all the same: then the client's patience ends it.
const LOSSES: u32 = 8;

/// What is sent: made anew for each session, as state ids differ.
pub(super) trait Build<'a>: Fn() -> Result<Cow<'a, [NfsArgOp]>, ClientError> + Send + Sync {}

impl<'a, F: Fn() -> Result<Cow<'a, [NfsArgOp]>, ClientError> + Send + Sync> Build<'a> for F {}

impl Client {
    /// Executes a compound within the client's patience. The instance of the client that it was executed in comes with
    /// the reply.
    pub(super) async fn call<'a>(&self, build: impl Build<'a>) -> Result<(Reply, u64), ClientError> {
        self.call_by(&Arc::default(), build).await
    }

    /// The same, where somebody else watches what becomes of the request.
    pub(super) async fn call_by<'a>(
        &self,
        courier: &Arc<Courier>,
        build: impl Build<'a>,
    ) -> Result<(Reply, u64), ClientError> {
        let shared = &self.shared;
        let attempts = async {
            tokio::select! {
                biased;
                () = shared.stop.cancelled() => Err(ClientError::Closed),
                result = self.attempt(&build, courier) => result,
            }
        };
        let result = match tokio::time::timeout(shared.options.patience, attempts).await {
            Ok(result) => result,
            Err(_) => Err(shared.unreachable()),
        };
        match result {
            Err(ClientError::Closed | ClientError::Unreachable { .. }) if courier.is_doubtful() => {
                Err(ClientError::Unknown)
            }
            result => result,
        }
    }

    async fn attempt<'a>(
        &self,
        build: &impl Build<'a>,
        courier: &Arc<Courier>,
    ) -> Result<(Reply, u64), ClientError> {
        let shared = &self.shared;
        let mut back_off: Option<BackOff> = None;
        let mut losses = 0;
        // Who put it off last, how often, and the pauses for that. Another server did not put anything off yet.
        let mut put_off: Option<(u64, u32, BackOff)> = None;
        // The last try, if it was in vain: in which instance of the client, and whether it may have been executed.
        let mut in_vain = None;
        loop {
            let session = shared.session().await?;
            put_off = put_off.filter(|(instance, ..)| *instance == session.instance);
            if let Some((instance, doubtful)) = in_vain.take()
                && (doubtful || instance == session.instance)
            {
                losses += 1;
                if losses > LOSSES {
                    return Err(if doubtful { ClientError::Unknown } else { shared.unreachable() });
                }
            }
            let slot = tokio::select! {
                biased;
                () = session.lost.cancelled() => {
                    // Whoever found that out has begun the recovery, or is about to.
                    shared.lose(&session, false);
                    continue;
                }
                slot = session.slots.take() => slot,
            };
            // After the session was chosen: its state ids, or newer ones with which the server refuses the session.
            let operations = build()?;
            let repeatable = operations.iter().all(only_reads);
            courier.set_changes(!repeatable);
            let body = wire::encode(session.minor_version, Some(slot.arguments(!repeatable)), &operations);
            let request = Request {
                credential: self.credential.clone(),
                body,
                operations: operations.len(),
                is_atomic: is_atomic(&operations),
                counters: [Some(shared.counters.clone()), self.counters.clone()],
            };
            if let Some(status) = shared.limits.refuses(operations.len(), request.bytes()) {
                return Err(ClientError::TooLarge { status });
            }
            let exchange = exchange(shared.clone(), session.clone(), slot, request, courier.clone());
            let exchanged = InFlight::new(exchange, courier.clone(), shared.clone()).await;
            match exchanged {
                Exchanged::Answer(reply) => {
                    courier.set_sent(false);
                    if reply.status.is_ok() && !is_atomic(&operations) {
                        shared.limits.took(operations.len());
                    }
                    if is_put_off(&reply, &operations) {
                        let (_, delays, pauses) =
                            put_off.get_or_insert_with(|| (session.instance, 0, shared.back_off()));
                        if *delays < DELAYS {
                            *delays += 1;
                            losses = 0;
                            self.count_delay();
                            tokio::select! {
                                biased;
                                () = session.lost.cancelled() => {}
                                () = pauses.wait() => {}
                            }
                            continue;
                        }
                    }
                    self.notice_revocation(&reply, &operations);
                    return Ok((reply, session.instance));
                }
                Exchanged::Forgotten | Exchanged::Lost { doubtful: true } if !repeatable => {
                    return Err(ClientError::Unknown);
                }
                Exchanged::Forgotten | Exchanged::Lost { .. } | Exchanged::NoSlot | Exchanged::Abandoned => {
                    courier.set_sent(false);
                    let doubtful =
                        matches!(exchanged, Exchanged::Forgotten | Exchanged::Lost { doubtful: true });
                    in_vain = Some((session.instance, doubtful));
                    match &mut back_off {
                        Some(back_off) => back_off.wait().await,
                        // For the first time at once.
                        None => back_off = Some(shared.back_off()),
                    }
                }
                Exchanged::Failed(error) => return Err(error),
            }
        }
    }

    fn count_delay(&self) {
        self.shared.counters.delays.add(1);
        if let Some(counters) = &self.counters {
            counters.delays.add(1);
        }
    }

    /// An operation found that its state id is no longer good.
    fn notice_revocation(&self, reply: &Reply, operations: &[NfsArgOp]) {
        if !is_revoked(reply.status) {
            return;
        }
        let failed = reply.results.len().checked_sub(1).and_then(|index| operations.get(index));
        if let Some(state_id) = failed.and_then(state_id_of)
            && !state_id.is_special()
        {
            self.shared.holdings.lose_state(&state_id, reply.status);
        }
    }
}

/// Whether the server asks to come again later before anything was done.
fn is_put_off(reply: &Reply, operations: &[NfsArgOp]) -> bool {
    let asks = matches!(reply.status, NfsStatus::Delay | NfsStatus::Grace);
    let before = operations.get(..reply.results.len().wrapping_sub(1));
    asks && before.is_some_and(|done| is_atomic(operations) || done.iter().all(only_moves))
}
