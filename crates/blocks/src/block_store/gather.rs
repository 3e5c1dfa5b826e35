use std::collections::VecDeque;

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
    /// Answers that are to come.
    requests: u32,
}

fn clouds_of<'c>(
    ranked: impl Iterator<Item = &'c (u8, &'c Connection)>,
) -> impl Iterator<Item = &'c Connection> {
    ranked.map(|(_, cloud)| *cloud)
}

impl BlockStore {
    /// Gets as many good fragments as are needed: from those clouds first that are preferred, from one more for every bad one,
    /// and from others as well when the answers take longer than usual. Where no others are well, what is late is asked for once
    /// more; earlier than that, where all others are sick or had nothing of use. One that fails is asked again, as often as its
    /// retries allow, when no other is left. Fragments in `avoid` are tried last. Returning drops the requests that nobody needs any more.
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
        let again = self.again_after(
            size,
            clouds_of(waiting.iter().take(needed)),
            clouds_of(waiting.iter().skip(needed)),
        );
        let again = again.filter(|_| waiting.len() > needed).unwrap_or(hedge);
        let begun = self.env.clock.monotonic();
        let others_at = begun + hedge;
        let mut alarm_at = others_at.min(begun + again);
        let mut alarm = self.env.clock.sleep(alarm_at - begun);
        let (mut hedged, mut doubled, mut lost) = (0, false, false);
        while gathered.good.len() < needed {
            while gathered.good.len() + asked.len() < needed + hedged {
                let first = waiting.pop_front().map(|next| (next, false));
                let Some(((fragment, cloud), again)) =
                    first.or_else(|| failed.pop_front().map(|next| (next, true)))
                else {
                    break;
                };
                asked.push(Asked { fragment, cloud, requests: 1 });
                running.push(ask(cloud, fragment, again));
            }
            if asked.is_empty() {
                break;
            }
            if std::mem::take(&mut lost) && !doubled {
                let asked = asked.iter().map(|asked| asked.cloud);
                if let Some(again) = self.again_after(size, asked, clouds_of(waiting.iter())) {
                    let now = self.env.clock.monotonic();
                    alarm_at = alarm_at.min(now + again);
                    alarm = self.env.clock.sleep(alarm_at.saturating_sub(now));
                }
            }
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
                    lost = result.is_err();
                    match result {
                        Ok(good) => gathered.good.push(good),
                        Err(what) if !again && what.may_pass() => failed.push_back((fragment, cloud)),
                        Err(what) => gathered.faults.push(fault(target, fragment, what)),
                    }
                }
                () = &mut alarm, if !doubled || !waiting.is_empty() || !failed.is_empty() => {
                    if !doubled && waiting.iter().all(|(_, cloud)| cloud.health().is_sick(Direction::Read)) {
                        doubled = true;
                        for late in &mut asked {
                            late.requests += 1;
                            running.push(ask(late.cloud, late.fragment, false));
                        }
                        alarm = self.env.clock.sleep(others_at.saturating_sub(self.env.clock.monotonic()));
                    } else {
                        // One more for each one that is late, so that several hanging clouds cost one wait.
                        hedged = asked.len();
                        alarm = self.env.clock.sleep(hedge);
                    }
                }
            }
        }
        gathered
    }
}
