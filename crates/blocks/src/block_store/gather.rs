use std::collections::VecDeque;
use std::time::Duration;

use cloud::{Connection, Direction, ObjectName};
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

impl BlockStore {
    /// Gets as many good fragments as are needed: from the fastest clouds first, from one more for every bad one,
    /// and from others as well when the answers take longer than usual. Fragments in `avoid` are tried last.
    /// Returning drops the requests that nobody needs any more.
    pub(super) async fn gather(&self, target: &Target<'_>, avoid: &[u8]) -> Gathered {
        let needed = target.placement.scheme().needed();
        let mut gathered = Gathered { good: Vec::with_capacity(needed), faults: Vec::new() };
        let size = target.placement.usual_fragment();
        let mut waiting = self.ranked(target, size, avoid, &mut gathered.faults);
        let mut running = FuturesUnordered::new();
        let hedge = self.hedge_after(size, waiting.iter().take(needed).map(|(_, cloud)| *cloud));
        let mut alarm = self.env.clock.sleep(hedge);
        let mut hedged = 0;
        while gathered.good.len() < needed {
            while gathered.good.len() + running.len() < needed + hedged {
                let Some((fragment, cloud)) = waiting.pop_front() else { break };
                running.push(async move { (fragment, target.fetch(cloud, fragment).await) });
            }
            if running.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                Some((fragment, result)) = running.next() => match result {
                    Ok(good) => gathered.good.push(good),
                    Err(what) => gathered.faults.push(fault(target, fragment, what)),
                },
                () = &mut alarm, if !waiting.is_empty() => {
                    // One more for each one that is late, so that several hanging clouds cost one wait.
                    hedged = running.len();
                    alarm = self.env.clock.sleep(hedge);
                }
            }
        }
        gathered
    }

    /// The fragments in the order in which to ask for `size` bytes of them: well clouds before sick ones, fast before slow.
    pub(super) fn ranked<'s>(
        &'s self,
        target: &Target<'_>,
        size: u64,
        avoid: &[u8],
        faults: &mut Vec<Fault>,
    ) -> VecDeque<(u8, &'s Connection)> {
        let mut ranked = Vec::with_capacity(target.placement.scheme().total());
        for fragment in target.placement.fragments() {
            match self.cloud_of(target, fragment) {
                Some(cloud) => {
                    let last = avoid.contains(&fragment);
                    let sick = cloud.health().is_sick(Direction::Read);
                    if sick && cloud.health().admits(Direction::Read) {
                        probe(cloud.clone(), target.name_of(fragment));
                    }
                    ranked.push(((last, sick), cloud.health().cost(Direction::Read, size), fragment, cloud));
                }
                None => faults.push(fault(target, fragment, FragmentFault::NoSuchCloud)),
            }
        }
        ranked.sort_by(|left, right| left.0.cmp(&right.0).then(left.1.total_cmp(&right.1)));
        ranked.into_iter().map(|(_, _, fragment, cloud)| (fragment, cloud)).collect()
    }

    /// How long answers of `size` bytes of these clouds usually take at most.
    pub(super) fn hedge_after<'s>(
        &self,
        size: u64,
        clouds: impl Iterator<Item = &'s Connection>,
    ) -> Duration {
        let usual = |cloud: &Connection| cloud.health().p95(Direction::Read, size);
        let slowest = clouds.map(|cloud| usual(cloud).unwrap_or(self.limits.first_hedge)).max();
        let bounded = slowest.unwrap_or_default().min(self.limits.longest_hedge);
        bounded.max(self.limits.shortest_hedge)
    }
}

/// Finds out in the background whether a sick cloud answers again, so that no read has to wait for it.
fn probe(cloud: Connection, name: ObjectName) {
    tokio::spawn(async move { cloud.head(&name).await });
}
