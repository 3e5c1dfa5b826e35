use std::time::Duration;

use bytes::Bytes;
use cloud::Direction;
use disperse::{Fragment, Scheme};
use environment::failpoint;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use seal::{BlockIdentity, FileKey, SealOptions, SealedBlock, Suite, sealed_len};

use super::{BlockStore, fault};
use crate::target::Target;
use crate::{Fault, FragmentFault, Placement, Protection, Redundancy, SealId, StoreError, Stored};

/// A fragment that is being put.
struct UnderWay {
    fragment: u8,
    /// Answers that are to come.
    requests: u8,
    /// Operations waited for their turn when it was first late: it may not have been sent.
    in_line: bool,
}

impl BlockStore {
    /// Seals the concatenation of `plaintext` as block version `id` and stores its fragments, in parallel.
    ///
    /// `id` and `seal` together must never have been stored with another content; see the crate's front page.
    /// Dropping the future cancels the requests.
    pub async fn store(
        &self,
        key: &FileKey,
        id: &BlockIdentity,
        seal: SealId,
        placement: &Placement,
        plaintext: &[Bytes],
        protection: Protection,
    ) -> Result<Stored, StoreError> {
        let target = Target::new(key, id, seal, placement);
        self.disperse(key, &target, plaintext, protection, Redundancy::Enough).await
    }

    /// Stores a block version as [`BlockStore::store`] does, but with all its fragments or not at all.
    pub async fn store_whole(
        &self,
        key: &FileKey,
        id: &BlockIdentity,
        seal: SealId,
        placement: &Placement,
        plaintext: &[Bytes],
        protection: Protection,
    ) -> Result<Stored, StoreError> {
        let target = Target::new(key, id, seal, placement);
        self.disperse(key, &target, plaintext, protection, Redundancy::Whole).await
    }

    pub(super) async fn disperse(
        &self,
        key: &FileKey,
        target: &Target<'_>,
        plaintext: &[Bytes],
        protection: Protection,
        redundancy: Redundancy,
    ) -> Result<Stored, StoreError> {
        let (id, placement) = (target.identity, target.placement);
        let length = checked_length(placement, plaintext, protection)?;
        if let Some(cloud) = placement.clouds().iter().find(|cloud| !self.clouds.contains_key(cloud)) {
            return Err(StoreError::NoSuchCloud { cloud: *cloud });
        }
        let _writing = self.writing();
        let scheme = placement.scheme();
        let sealed_len = sealed_len(length, protection.padding) as u64;
        let _room =
            self.budget.reserve_for_write(sealed_len * scheme.total() as u64 / scheme.needed() as u64).await;

        let sealed = self.seal(key, id, scheme, plaintext, protection).into_bytes();
        let fragments = target.split(&sealed, &*self.env.entropy);

        let (stored, faults) = self.put_all(target, &fragments, redundancy).await;
        let needed = self.least(scheme, redundancy);
        if stored.len() < needed {
            let (block, stored) = (Box::new(*id), stored.len());
            return Err(StoreError::TooFewStored { block, stored, needed, faults });
        }
        let missing: Vec<u8> = placement.fragments().filter(|fragment| !stored.contains(fragment)).collect();
        if !missing.is_empty() {
            tracing::warn!(block = %id, ?missing, ?faults, "degraded write");
        }
        let bytes = stored.iter().map(|fragment| fragments[usize::from(*fragment)].len() as u64).sum();
        Ok(Stored { missing, bytes })
    }

    /// Seals block version `id` as [`BlockStore::store`] does, to be put into a pack.
    pub fn seal_for_pack(
        &self,
        key: &FileKey,
        id: &BlockIdentity,
        placement: &Placement,
        plaintext: &[Bytes],
        protection: Protection,
    ) -> Result<SealedBlock, StoreError> {
        checked_length(placement, plaintext, protection)?;
        Ok(self.seal(key, id, placement.scheme(), plaintext, protection))
    }

    /// Under a random nonce and bound to its place, unless the scheme wants equal content to be sealed equally.
    fn seal(
        &self,
        key: &FileKey,
        id: &BlockIdentity,
        scheme: Scheme,
        plaintext: &[Bytes],
        Protection { suite, padding }: Protection,
    ) -> SealedBlock {
        let suite = match suite {
            Suite::IntegrityOnly => suite,
            Suite::Aes256Gcm | Suite::Convergent if scheme.is_convergent() => {
                return seal::seal_convergent(key.content_key(), plaintext, padding);
            }
            Suite::Aes256Gcm | Suite::Convergent => Suite::Aes256Gcm,
        };
        let options = SealOptions { suite, padding, time: self.env.clock.wall() };
        seal::seal(key, id, plaintext, &options, &*self.env.entropy)
    }

    /// Fragments without which a write has failed.
    fn least(&self, scheme: Scheme, redundancy: Redundancy) -> usize {
        match redundancy {
            Redundancy::Enough => (scheme.needed() + self.limits.least_spare).min(scheme.total()),
            Redundancy::Whole => scheme.total(),
        }
    }

    /// Puts fragments into their clouds until all are there, the rest has had its time, or nothing is left to
    /// try. After half of that time what is late is put once more, beside the first request: a block that lacks a fragment is lost with
    /// fewer clouds than it should be, until it is repaired. Where operations wait for their turn in the gateway nothing is put twice; there the
    /// time is longer if that is enough, as long as the cloud answers others. Clouds that are sick are left out while the others suffice; if all are
    /// needed, nothing is put, and none is late.
    async fn put_all(
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
        let put = |fragment: u8| async move {
            let result = match self.cloud_of(target, fragment) {
                Some(cloud) => target.put(cloud, fragment, &fragments[usize::from(fragment)]).await,
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
        // Set as soon as the write could be called done; the rest is waited for from then on.
        let mut since: Option<Duration> = None;
        // When the alarm went off.
        let mut alarms: Vec<Duration> = Vec::new();
        loop {
            if stored.len() + under_way.len() + next.len() < least {
                next.append(&mut later);
            }
            for fragment in next.drain(..) {
                under_way.push(UnderWay { fragment, requests: 1, in_line: false });
                running.push(put(fragment));
            }
            if under_way.is_empty() {
                break;
            }
            let now = self.env.clock.monotonic();
            if stored.len() >= least {
                since.get_or_insert(now);
            }
            let shortest = self.limits.straggler * if stored.len() >= enough { 1 } else { 2 };
            let half = self.patience_with(target, &under_way, shortest) / 2;
            let longest = self.limits.longest_straggler.max(2 * half);
            let alarm = async {
                let Some(since) = since else { return std::future::pending().await };
                let until = (alarms.last().unwrap_or(&since).saturating_add(half)).min(since + longest);
                self.env.clock.sleep(until.saturating_sub(now)).await;
                since
            };
            tokio::select! {
                biased;
                Some((fragment, result)) = running.next() => {
                    let Some(at) = under_way.iter().position(|put| put.fragment == fragment) else {
                        // Its other request was answered before, or it had been given up.
                        if result.is_ok() && !stored.contains(&fragment) {
                            stored.push(fragment);
                        }
                        continue;
                    };
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
                since = alarm => {
                    let now = self.env.clock.monotonic();
                    // Until the next alarm.
                    let left = self.patience_with(target, &under_way, shortest) / 2;
                    let longest = (since + longest).saturating_sub(now);
                    under_way.retain_mut(|late| {
                        let Some(cloud) = self.cloud_of(target, late.fragment) else { return false };
                        let health = cloud.health();
                        let Some(last) = alarms.last() else {
                            late.in_line = health.has_line(Direction::Write);
                            let is_usual = |p95| p95 <= left;
                            if !late.in_line && self.p95(target, late.fragment).is_some_and(is_usual) {
                                late.requests += 1;
                                running.push(put(late.fragment));
                            }
                            return true;
                        };
                        let size = target.placement.usual_fragment();
                        let gets_on = late.in_line
                            && health.has_answered(Direction::Write, *last)
                            && health.forecast(Direction::Write, size).expected <= longest.as_secs_f64();
                        if !gets_on {
                            health.report_silence(Direction::Write, since);
                        }
                        gets_on
                    });
                    alarms.push(now);
                }
            }
        }
        tracing::trace!(took = ?self.env.clock.monotonic().saturating_sub(begun), ?stored, "fragments stored");
        (stored, faults)
    }

    /// How long to wait for the last fragments: `least` or, with slow clouds, longer.
    fn patience_with(&self, target: &Target<'_>, under_way: &[UnderWay], least: Duration) -> Duration {
        let usual = under_way.iter().filter_map(|put| self.p95(target, put.fragment));
        (2 * usual.max().unwrap_or_default()).clamp(least, self.limits.longest_straggler.max(least))
    }

    /// How long nineteen of twenty such puts into its cloud take, as far as known.
    fn p95(&self, target: &Target<'_>, fragment: u8) -> Option<Duration> {
        self.cloud_of(target, fragment)?.health().p95(Direction::Write, target.placement.usual_fragment())
    }
}

/// The length of the plaintext, if a block of this placement can have it.
fn checked_length(
    placement: &Placement,
    plaintext: &[Bytes],
    protection: Protection,
) -> Result<usize, StoreError> {
    let length: usize = plaintext.iter().map(Bytes::len).sum();
    let (padded, limit) = (protection.padding.padded_len(length) as u64, placement.longest_padded());
    match padded > limit || length as u64 > placement.block_shift().bytes() {
        true => Err(StoreError::TooLong { padded, limit }),
        false => Ok(length),
    }
}
