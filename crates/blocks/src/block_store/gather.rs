use std::collections::VecDeque;

use disperse::VerifiedFragment;
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::{BlockStore, fault};
use crate::Fault;
use crate::target::Target;

/// Verified fragments of one sealing, and what went wrong while getting them.
pub(super) struct Gathered {
    /// As many as are needed, or all that could be had.
    pub good: Vec<VerifiedFragment>,
    pub faults: Vec<Fault>,
}

impl BlockStore {
    /// Gets as many good fragments as are needed: from those clouds first that are preferred, from one more for every bad one,
    /// and from others as well when the answers take longer than usual. One that fails is asked again, as often as its retries
    /// allow, when no other is left. Fragments in `avoid` are tried last.
    /// Returning drops the requests that nobody needs any more.
    pub(super) async fn gather(&self, target: &Target<'_>, avoid: &[u8]) -> Gathered {
        let needed = target.placement.scheme().needed();
        let mut gathered = Gathered { good: Vec::with_capacity(needed), faults: Vec::new() };
        let size = target.placement.usual_fragment();
        let mut waiting = self.ranked(target, size, avoid, &mut gathered.faults);
        let mut failed = VecDeque::new();
        let mut running = FuturesUnordered::new();
        let hedge = self.hedge_after(size, &waiting, needed, needed);
        let mut alarm = self.env.clock.sleep(hedge);
        let mut hedged = 0;
        while gathered.good.len() < needed {
            while gathered.good.len() + running.len() < needed + hedged {
                let first = waiting.pop_front().map(|next| (next, false));
                let Some(((fragment, cloud), again)) =
                    first.or_else(|| failed.pop_front().map(|next| (next, true)))
                else {
                    break;
                };
                running.push(async move {
                    let result = match again {
                        false => target.fetch_once(cloud, fragment).await,
                        true => target.fetch(cloud, fragment).await,
                    };
                    (fragment, cloud, again, result)
                });
            }
            if running.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                Some((fragment, cloud, again, result)) = running.next() => match result {
                    Ok(good) => gathered.good.push(good),
                    Err(what) if !again && what.may_pass() => failed.push_back((fragment, cloud)),
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
}
