use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Json, Response};
use cache::Scope;
use file_system::FileSystem;
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;
use upkeep::{ScrubCounts, ScrubPeriod, ScrubReport};

use super::progress::{Meter, sampled, streamed, wants_lines};
use super::{Answer, Refusal};
use crate::backups::BackupStatus;
use crate::config::Span;
use crate::node::{Node, Served};
use crate::orphans::AT_ONCE;

#[derive(Deserialize)]
pub(super) struct FlushRequest {
    volume: Option<String>,
    timeout: Span,
}

#[derive(Deserialize)]
pub(super) struct ScrubRequest {
    volume: Option<String>,
    sample: u8,
}

/// The named volume, or all.
fn chosen(node: &Node, name: Option<&str>) -> Result<Vec<Arc<Served>>, Refusal> {
    match name {
        None => Ok(node.served()),
        Some(name) => {
            let found = node.served().into_iter().find(|served| served.volume.name() == name);
            Ok(vec![found.ok_or_else(|| Refusal::missing(format!("there is no volume {name:?}")))?])
        }
    }
}

/// Returns when nothing of what was dirty is dirty and nothing needs repair, or what is left after the time.
pub(super) async fn flush(
    State(node): State<Arc<Node>>,
    headers: HeaderMap,
    Json(request): Json<FlushRequest>,
) -> Response {
    let volumes = match chosen(&node, request.volume.as_deref()) {
        Ok(volumes) => volumes,
        Err(refusal) => return refusal.into_response(),
    };
    let ids: Vec<_> = volumes.iter().map(|served| FileSystem::volume(&*served.volume)).collect();
    let cache = node.cache.clone();
    let dirty = move || ids.iter().map(|id| cache.dirty_bytes(Scope::Volume(*id))).sum::<u64>();
    let at_first = dirty();
    let meter = Meter::new("bytes");
    let sample = {
        let meter = meter.clone();
        move || {
            let left = dirty();
            meter.set(at_first.saturating_sub(left), Some(at_first.max(left)));
            std::future::ready(())
        }
    };
    let clock = node.environment.clock.clone();
    let (flushed, asked) = (node.clone(), clock.clone());
    let work = async move {
        let (node, clock) = (flushed, asked);
        let limit = request.timeout.as_duration();
        let flushes = volumes.iter().map(|served| served.upkeep.flush(limit));
        let (mut dirty, mut repairs) = (0, 0);
        for flushed in futures::future::join_all(flushes).await {
            let flushed = flushed.map_err(Refusal::failed)?;
            dirty += flushed.left_dirty_bytes;
            repairs += flushed.left_repairs;
        }
        // What is in the clouds is safe only when a backup of the metadata tells where.
        let backup = tokio::select! {
            status = node.back_up() => status,
            () = clock.sleep(limit) => BackupStatus { complete: false, ..node.backup_status() },
        };
        Ok(Json(json!({ "dirty_bytes": dirty, "repairs": repairs, "backup": backup })))
    };
    streamed(&headers, meter, clock.clone(), sampled(work, sample, clock)).await
}

/// Verifies fragments of all blocks, or a sample of them.
pub(super) async fn scrub(
    State(node): State<Arc<Node>>,
    headers: HeaderMap,
    Json(request): Json<ScrubRequest>,
) -> Response {
    let volumes = match chosen(&node, request.volume.as_deref()) {
        Ok(volumes) => volumes,
        Err(refusal) => return refusal.into_response(),
    };
    let meter = Meter::new("blocks");
    let (clock, watched) = (node.environment.clock.clone(), volumes.clone());
    let checked = move || watched.iter().map(|served| served.upkeep.scrubber.checked()).sum::<u64>();
    let before = checked();
    let sample = {
        let meter = meter.clone();
        move || {
            meter.progress(checked().saturating_sub(before));
            std::future::ready(())
        }
    };
    let (counted, percent, is_watched) = (meter.clone(), u64::from(request.sample), wants_lines(&headers));
    let work = async move {
        if is_watched {
            let mut total = 0;
            for served in &volumes {
                total += served.upkeep.count_blocks().await.map_err(Refusal::failed)?;
            }
            counted.expect(total * percent / 100);
        }
        let backups = node.verify_backup(0, |_| true).await;
        let (wall, mut all) = (|| node.environment.clock.wall().seconds, ScrubReport::default());
        for served in &volumes {
            let begun = wall();
            let report = scrub_whole(&node, served, request.sample).await?;
            all.add(&report);
            let mut period = ScrubPeriod::whole(begun, wall(), request.sample, report);
            period.left = served.upkeep.queued_repairs().await.map_err(Refusal::failed)?;
            node.scrub_of(served).save_whole(&period).await.map_err(Refusal::failed)?;
        }
        let ScrubCounts { good, missing, bad, unreachable } = all.total();
        Ok(Json(json!({
            "blocks": all.blocks, "good": good, "missing": missing, "bad": bad, "unreachable": unreachable,
            "backups_stored_again": backups.stored_again, "backups_lacking": backups.lacking, "backups_unreachable": backups.unknown,
        })))
    };
    streamed(&headers, meter, clock.clone(), sampled(work, sample, clock)).await
}

/// Among the background work; given up when nobody waits for it any more.
async fn scrub_whole(node: &Node, served: &Arc<Served>, percent: u8) -> Result<ScrubReport, Refusal> {
    let (served, mut task) = (served.clone(), JoinSet::new());
    let scrub = async move { served.upkeep.scrubber.once(percent, 0).await };
    task.spawn_on(scrub, &node.background.handle());
    match task.join_next().await {
        Some(Ok(report)) => report.map_err(Refusal::failed),
        Some(Err(error)) => Err(Refusal::failed(error)),
        None => Err(Refusal::failed("the scrub did not begin")),
    }
}

/// What the last whole scrubs found, signed.
pub(super) async fn scrub_report(State(node): State<Arc<Node>>) -> Answer {
    Ok(Json(node.scrub_report().await.map_err(Refusal::failed)?))
}

/// Looks for objects in the clouds that nothing refers to.
pub(super) async fn orphans(State(node): State<Arc<Node>>, headers: HeaderMap) -> Response {
    let meter = Meter::new("objects");
    let (clock, counted) = (node.environment.clock.clone(), meter.clone());
    let work = async move {
        let found = node.find_orphans(AT_ONCE, |objects| counted.progress(objects)).await;
        Ok(Json(json!(found.map_err(Refusal::failed)?)))
    };
    streamed(&headers, meter, clock, work).await
}

/// Rewrites what is in the repair queue.
pub(super) async fn repair(State(node): State<Arc<Node>>, headers: HeaderMap) -> Response {
    let meter = Meter::new("blocks");
    let clock = node.environment.clock.clone();
    let at_first = queued(&node).await;
    let sample = {
        let (node, meter) = (node.clone(), meter.clone());
        move || {
            let (node, meter) = (node.clone(), meter.clone());
            async move {
                let left = queued(&node).await;
                meter.set(at_first.saturating_sub(left), Some(at_first.max(left)));
            }
        }
    };
    let work = async move {
        let (mut fragments, mut blocks, mut left, mut unreadable) = (0, 0, 0, 0);
        for served in node.served() {
            let report = served.upkeep.repairer.once().await.map_err(Refusal::failed)?;
            fragments += report.fragments;
            blocks += report.done;
            left += report.left;
            unreadable += report.unreadable;
        }
        Ok(Json(json!({ "fragments": fragments, "blocks": blocks, "left": left, "unreadable": unreadable })))
    };
    streamed(&headers, meter, clock.clone(), sampled(work, sample, clock)).await
}

/// Blocks in the repair queues, as far as they can be counted.
async fn queued(node: &Node) -> u64 {
    let mut count = 0;
    for served in node.served() {
        count += served.upkeep.queued_repairs().await.unwrap_or(0);
    }
    count
}

/// Deletes garbage that is due, and takes what is held out of packs that are mostly garbage.
pub(super) async fn collect(State(node): State<Arc<Node>>) -> Answer {
    let (mut cleaned, mut moved) = (0, 0);
    for served in node.served() {
        let report = served.upkeep.cleaner.once().await.map_err(Refusal::failed)?;
        cleaned += report.cleaned;
        moved += report.blocks;
    }
    // Fragments that the newest backup refers to are not deleted before there is a newer one.
    node.back_up().await;
    let (mut versions, mut postponed, mut awaited, mut held) = (0, 0, 0, 0);
    for served in node.served() {
        let report = served.upkeep.garbage.once().await.map_err(Refusal::failed)?;
        versions += report.versions;
        postponed += report.postponed;
        awaited += report.awaited;
        held += report.held;
    }
    Ok(Json(json!({
        "versions": versions,
        "postponed": postponed,
        "awaited": awaited,
        "held_for_backup": held,
        "packs_cleaned": cleaned,
        "blocks_moved": moved,
    })))
}
