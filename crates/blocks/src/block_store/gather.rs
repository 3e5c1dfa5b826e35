use std::collections::VecDeque;
use std::time::Duration;

use cloud::{Connection, Direction};
use disperse::VerifiedFragment;
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::{BlockStore, fault};
use crate::target::Target;
use crate::{Fault, FragmentFault};

/// Verified fragments of one sealing, and what went wrong while getting them.
pub(super) struct Gathered {
    /// As many as are needed, or all that could be had.
    pub good: Vec<VerifiedFragment>,
    pub faults: Vec<Fault>,
}

/// A fragment that has been asked for.
struct Asked<'c> {
    fragment: u8,
    cloud: &'c Connection,
    since: Duration,
    /// After what time it is asked once more, should it have to answer; as of when it was asked.
    again: Duration,
    /// Answers that are to come.
    requests: u32,
    /// There is no other request for it to come: it was made, or what runs is repeated anyway.
    last: bool,
}

impl BlockStore {
    /// Gets as many good fragments as are needed: from those clouds first that are preferred, from one more for every bad one,
    /// and from others as well when the answers take longer than usual. Where no others are left that are likely to help, what is late is
    /// asked for once more; earlier than that, where there were others. One that fails is asked again, as often as its retries
    /// allow, when no other is left. Fragments in `avoid` are tried last. Returning drops the requests that nobody needs any more.
    pub(super) async fn gather(&self, target: &Target<'_>, avoid: &[u8]) -> Gathered {
        let needed = target.placement.scheme().needed();
        let mut gathered = Gathered { good: Vec::with_capacity(needed), faults: Vec::new() };
        let size = target.placement.usual_fragment();
        let mut waiting = self.ranked(target, size, avoid, &mut gathered.faults);
        let mut failed = VecDeque::new();
        let mut running = FuturesUnordered::new();
        let ask = async |cloud: &Connection, fragment, again| {
            let result = match again {
                false => target.fetch_once(cloud, fragment).await,
                true => target.fetch(cloud, fragment).await,
            };
            (fragment, again, result)
        };
        let mut asked: Vec<Asked<'_>> = Vec::with_capacity(needed);
        let hedge = self.hedge_after(size, &waiting, needed, needed);
        // Where there never were others an early second request would cost for good, and not only for the time of an outage or a repair.
        let had_others = waiting.len() > needed;
        let mut hedged = 0;
        let mut others_at = self.env.clock.monotonic() + hedge;
        while gathered.good.len() < needed {
            let now = self.env.clock.monotonic();
            while gathered.good.len() + asked.len() < needed + hedged {
                let first = waiting.pop_front().map(|next| (next, false));
                let Some(((fragment, cloud), last)) =
                    first.or_else(|| failed.pop_front().map(|next| (next, true)))
                else {
                    break;
                };
                let again = self.again_after(size, cloud).filter(|_| had_others).unwrap_or(hedge).min(hedge);
                asked.push(Asked { fragment, cloud, since: now, again, requests: 1, last });
                running.push(ask(cloud, fragment, last));
            }
            if asked.is_empty() {
                break;
            }
            let is_doubtful = |(fragment, cloud): &(u8, &Connection)| {
                avoid.contains(fragment) || cloud.health().is_doubtful(Direction::Read)
            };
            let late = match gathered.good.len() + asked.len() > needed {
                _ if !waiting.iter().all(is_doubtful) => None,
                // As many stand in as have been late.
                true => Some(2 * hedge),
                // All of them have to answer, so there is time until the slowest is late.
                false => asked.iter().map(|asked| asked.again).max(),
            };
            let is_late = |asked: &Asked<'_>| late.filter(|_| !asked.last).map(|late| asked.since + late);
            let others = (!waiting.is_empty() || !failed.is_empty()).then_some(others_at);
            let alarm = asked.iter().filter_map(is_late).chain(others).min();
            let alarm = async {
                match alarm {
                    Some(at) => self.env.clock.sleep(at.saturating_sub(now)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some((fragment, again, result)) = running.next() => {
                    // Otherwise its other request has been answered before.
                    let Some(at) = asked.iter().position(|asked| asked.fragment == fragment) else { continue };
                    asked[at].requests -= 1;
                    if result.as_ref().is_err_and(FragmentFault::may_pass) && asked[at].requests > 0 {
                        continue;
                    }
                    let Asked { cloud, .. } = asked.swap_remove(at);
                    match result {
                        Ok(good) => gathered.good.push(good),
                        Err(what) if !again && what.may_pass() => failed.push_back((fragment, cloud)),
                        Err(what) => gathered.faults.push(fault(target, fragment, what)),
                    }
                }
                () = alarm => {
                    let now = self.env.clock.monotonic();
                    for late in asked.iter_mut().filter(|asked| is_late(asked).is_some_and(|at| at <= now)) {
                        (late.requests, late.last) = (late.requests + 1, true);
                        running.push(ask(late.cloud, late.fragment, false));
                    }
                    if others.is_some_and(|at| at <= now) {
                        // One more for each one that is late, so that several hanging clouds cost one wait.
                        hedged = asked.len();
                        others_at = now + hedge;
                    }
                }
            }
        }
        gathered
    }
}
