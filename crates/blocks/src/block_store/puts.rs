//! All fragments of a block on their way to their clouds.

use std::time::Duration;

use cloud::{Connection, Direction, Sent};
use disperse::Fragment;
use environment::failpoint;
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::{BlockStore, fault};
use crate::target::Target;
use crate::{Fault, FragmentFault, Redundancy};

/// A fragment that is being put.
struct UnderWay {
    fragment: u8,
    /// Answers that are to come.
    requests: u32,
    /// The last request.
    sent: Sent,
    /// From when on the last request is waited for.
    since: Duration,
    /// When the first request was sent, once it has had its time.
    silent_since: Option<Duration>,
    /// It has had its time twice.
    expired: bool,
}

impl BlockStore {
    /// Puts fragments into their clouds until all are there, the rest has had its time twice, or nothing is left to
    /// try. What is late is put once more, by the side of the first: until it is repaired, a block that lacks a fragment is lost with fewer
    /// clouds than it should be. Clouds that are sick are left out while the others suffice; if all are needed, nothing is put.
    pub(super) async fn put_all(
        &self,
        target: &Target<'_>,
        fragments: &[Fragment],
        redundancy: Redundancy,
    ) -> (Vec<u8>, Vec<Fault>) {
        let scheme = target.placement.scheme();
        let least = self.least(scheme, redundancy);
        let enough = (scheme.needed() + self.limits.spare).min(scheme.total()).max(least);
        let begun = self.env.clock.monotonic();
        let (mut stored, mut faults) = (Vec::with_capacity(fragments.len()), Vec::new());
        let mut running = FuturesUnordered::new();
        let mut under_way: Vec<UnderWay> = Vec::with_capacity(fragments.len());
        let put = |fragment: u8, sent: Sent| async move {
            let result = match self.cloud_of(target, fragment) {
                Some(cloud) => {
                    sent.watch(target.put(cloud, fragment, &fragments[usize::from(fragment)])).await
                }
                None => return (fragment, Err(FragmentFault::NoSuchCloud)),
            };
            (fragment, result.map_err(FragmentFault::Unreachable))
        };
        let well = |fragment: &u8| {
            self.cloud_of(target, *fragment).is_some_and(|cloud| cloud.health().admits(Direction::Write))
        };
        if redundancy == Redundancy::Whole {
            // All are asked before one is probed, or its probe might be for nothing.
            let is_sick = |fragment: &u8| {
                let cloud = self.cloud_of(target, *fragment);
                cloud.is_none_or(|cloud| !cloud.health().would_admit(Direction::Write))
            };
            let sick: Vec<Fault> = target
                .placement
                .fragments()
                .filter(is_sick)
                .map(|fragment| fault(target, fragment, FragmentFault::Sick))
                .collect();
            if !sick.is_empty() {
                return (stored, sick);
            }
        }
        let (mut next, mut later): (Vec<u8>, Vec<u8>) = target.placement.fragments().partition(well);
        // From when on the write could be called done.
        let mut done: Option<Duration> = None;
        loop {
            let now = self.env.clock.monotonic();
            if stored.len() + under_way.len() + next.len() < least {
                next.append(&mut later);
            }
            for fragment in next.drain(..) {
                let sent = Sent::default();
                running.push(put(fragment, sent.clone()));
                let (requests, silent_since, expired) = (1, None, false);
                under_way.push(UnderWay { fragment, requests, sent, since: now, silent_since, expired });
            }
            if stored.len() >= least {
                done.get_or_insert(now);
            }
            if under_way.is_empty() || done.is_some() && under_way.iter().all(|put| put.expired) {
                break;
            }
            // Half of it for each of two requests, unless the cloud is slow.
            let patience =
                if stored.len() >= enough { self.limits.straggler / 2 } else { self.limits.straggler };
            let due = |put: &UnderWay| {
                // Before it is known to be of no need, nobody gives up.
                let since = if put.silent_since.is_some() { put.since.max(done?) } else { put.since };
                (!put.expired).then(|| self.due(target, put, since, patience))
            };
            // What waits for its turn may be sent before that.
            let alarm = under_way.iter().filter_map(due).min().map(|at| at.min(now + patience));
            let alarm = async {
                match alarm {
                    Some(at) => self.env.clock.sleep(at.saturating_sub(now)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some((fragment, result)) = running.next() => {
                    // Otherwise its other request has been answered before.
                    let Some(at) = under_way.iter().position(|put| put.fragment == fragment) else { continue };
                    under_way[at].requests -= 1;
                    match result {
                        Ok(()) => stored.push(fragment),
                        Err(_) if under_way[at].requests > 0 => continue,
                        Err(what) => faults.push(fault(target, fragment, what)),
                    }
                    under_way.swap_remove(at);
                    if !under_way.is_empty() {
                        failpoint!("writeback.between-puts");
                    }
                }
                () = alarm => {
                    let now = self.env.clock.monotonic();
                    let late = under_way.iter().map(|put| due(put).is_some_and(|due| due <= now));
                    let late: Vec<bool> = late.collect();
                    for (late, _) in under_way.iter_mut().zip(late).filter(|(_, late)| *late) {
                        late.since = now;
                        let Some(cloud) = self.cloud_of(target, late.fragment) else { continue };
                        if let Some(since) = late.silent_since {
                            late.expired = true;
                            // Put twice, and nobody else was answered meanwhile either.
                            if late.requests > 1 && cloud.health().moves_until(Direction::Write) <= since {
                                cloud.health().report_silence(Direction::Write);
                            }
                        } else if let Some(at) = late.sent.at() {
                            late.silent_since = Some(at);
                            // Where it takes that long as a rule it only has more time, and the line less to do.
                            if 2 * self.p95(target, cloud) <= self.limits.longest_straggler {
                                late.sent = Sent::default();
                                late.requests += 1;
                                running.push(put(late.fragment, late.sent.clone()));
                            }
                        } else {
                            late.expired = done.is_some();
                        }
                    }
                }
            }
        }
        tracing::trace!(took = ?self.env.clock.monotonic().saturating_sub(begun), ?stored, "fragments stored");
        (stored, faults)
    }

    /// Until when a put that is waited for since then has its time: so long after it was sent as such puts take, `least` at least. What
    /// waits for its turn in the gateway has it as long as its cloud answers others, or the rates that are allowed are used up.
    fn due(&self, target: &Target<'_>, put: &UnderWay, since: Duration, least: Duration) -> Duration {
        let Some(cloud) = self.cloud_of(target, put.fragment) else { return since };
        let longest = self.limits.longest_straggler.max(least);
        match put.sent.at() {
            Some(at) => since.max(at) + (2 * self.p95(target, cloud)).clamp(least, longest),
            None => {
                let moves = cloud.health().moves_until(Direction::Write);
                since.max(moves) + longest.max(2 * self.p95(target, cloud))
            }
        }
    }

    /// How long nineteen of twenty such puts take.
    fn p95(&self, target: &Target<'_>, cloud: &Connection) -> Duration {
        cloud.health().p95(Direction::Write, target.placement.usual_fragment()).unwrap_or_default()
    }
}
