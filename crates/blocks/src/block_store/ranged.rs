use std::ops::Range;

use bytes::{Bytes, BytesMut};
use cloud::Direction;
use disperse::Part;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use seal::{Padding, SEAL_DATA_AT, sealed_len};

use super::{BlockStore, fault};
use crate::Fault;
use crate::target::Target;

/// What came of reading a part of a block.
#[derive(Default)]
pub(super) struct Ranged {
    /// Its bytes, if enough clouds answered. They prove nothing.
    pub bytes: Option<Bytes>,
    pub faults: Vec<Fault>,
    /// What they were made of.
    pub given: Vec<Given>,
}

/// What a cloud gave for a part of a fragment.
pub(super) struct Given {
    pub fragment: u8,
    /// Of the fragment as it is stored.
    pub range: Range<u64>,
    pub bytes: Bytes,
}

impl BlockStore {
    /// Gets some bytes of a pack's content, and no others, where the scheme allows that.
    pub(super) async fn ranged(&self, target: &Target<'_>, pack_len: u32, bytes: &Range<u32>) -> Ranged {
        let scheme = target.placement.scheme();
        let sealed_len = sealed_len(pack_len as usize, Padding::None) as u64;
        let first = SEAL_DATA_AT as u64;
        let range = first + u64::from(bytes.start)..first + u64::from(bytes.end);
        let len = bytes.len() as u64;
        let Some(parts) = disperse::locate(scheme, sealed_len, range) else { return Ranged::default() };
        let _room = self.budget.reserve(len * scheme.needed() as u64).await;
        let mut found = join_all(parts.iter().map(|part| self.part(target, sealed_len, part))).await;
        if found.len() == 1 {
            // As it came: the only reference, so that it can be opened in place.
            return found.remove(0);
        }
        let mut all = Ranged { bytes: None, ..Ranged::default() };
        let mut joined = Some(BytesMut::with_capacity(len as usize));
        for Ranged { bytes, faults, given } in found {
            joined = joined.zip(bytes).map(|(mut joined, bytes)| {
                joined.extend_from_slice(&bytes);
                joined
            });
            // Two parts may have met the same trouble.
            let known: Vec<u8> = all.faults.iter().map(|fault| fault.fragment).collect();
            all.faults.extend(faults.into_iter().filter(|fault| !known.contains(&fault.fragment)));
            all.given.extend(given);
        }
        Ranged { bytes: joined.map(BytesMut::freeze), ..all }
    }

    /// Some columns of one fragment: from its own cloud, unless that is sick or slow. If it fails, or takes longer than usual, they
    /// are also made of the same columns of others.
    async fn part(&self, target: &Target<'_>, sealed_len: u64, part: &Part) -> Ranged {
        let scheme = target.placement.scheme();
        let needed = scheme.needed();
        // Every replica shows the columns as they are.
        let is_direct = |fragment: u8| fragment == part.fragment || scheme.is_replicated();
        let size = part.columns.end - part.columns.start;
        let mut found = Ranged::default();
        let mut waiting = self.ranked(target, size, &[], &mut found.faults);
        let direct = waiting.iter().position(|(fragment, _)| is_direct(*fragment));
        let direct = direct.filter(|at| {
            let sick = waiting[*at].1.health().is_sick(Direction::Read);
            !sick && !self.is_too_slow_alone(size, *at, &waiting, needed)
        });
        // Whether others are asked for the same columns, and how many more for those that are late.
        let (mut wide, mut late) = (direct.is_none(), 0);
        if let Some(direct) = direct.and_then(|at| waiting.remove(at)) {
            waiting.push_front(direct);
        }
        let hedge = self.hedge_after(size, &waiting, if wide { needed } else { 1 }, needed);
        let mut alarm = self.env.clock.sleep(hedge);
        let mut running = FuturesUnordered::new();
        let mut columns: Vec<(u8, Bytes)> = Vec::with_capacity(needed);
        loop {
            let wanted = if wide { needed + late } else { 1 };
            while columns.len() + running.len() < wanted {
                let Some((fragment, cloud)) = waiting.pop_front() else { break };
                running.push(async move {
                    (fragment, target.fetch_columns(cloud, fragment, sealed_len, &part.columns).await)
                });
            }
            if running.is_empty() {
                return found;
            }
            let (fragment, result) = tokio::select! {
                biased;
                Some(answer) = running.next() => answer,
                () = &mut alarm, if !waiting.is_empty() => {
                    // One more for each one that is late, so that several hanging clouds cost one wait.
                    (wide, late) = (true, running.len());
                    alarm = self.env.clock.sleep(hedge);
                    continue;
                }
            };
            let bytes = match result {
                Ok(bytes) => bytes,
                Err(what) => {
                    found.faults.push(fault(target, fragment, what));
                    wide = true;
                    continue;
                }
            };
            let range = disperse::stored_range(scheme, fragment, sealed_len, &part.columns);
            if is_direct(fragment) {
                found.given = vec![Given { fragment, range, bytes: bytes.clone() }];
                return Ranged { bytes: Some(bytes), ..found };
            }
            found.given.push(Given { fragment, range, bytes: bytes.clone() });
            columns.push((fragment, bytes));
            if columns.len() == needed {
                let joined = disperse::join_columns(scheme, part.fragment, size as usize, &columns);
                return Ranged { bytes: joined.ok(), ..found };
            }
        }
    }
}
