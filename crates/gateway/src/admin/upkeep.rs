use std::sync::Arc;

use axum::extract::State;
use axum::response::Json;
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Refusal};
use crate::config::Span;
use crate::node::{Node, Served};

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

/// Returns when nothing is dirty and nothing needs repair, or what is left after the time.
pub(super) async fn flush(State(node): State<Arc<Node>>, Json(request): Json<FlushRequest>) -> Answer {
    let volumes = chosen(&node, request.volume.as_deref())?;
    let flushes = volumes.iter().map(|served| served.upkeep.flush(request.timeout.as_duration()));
    let (mut dirty, mut repairs) = (0, 0);
    for flushed in futures::future::join_all(flushes).await {
        let flushed = flushed.map_err(Refusal::failed)?;
        dirty += flushed.left_dirty_bytes;
        repairs += flushed.left_repairs;
    }
    Ok(Json(json!({ "dirty_bytes": dirty, "repairs": repairs })))
}

/// Verifies fragments of all blocks, or a sample of them.
pub(super) async fn scrub(State(node): State<Arc<Node>>, Json(request): Json<ScrubRequest>) -> Answer {
    let (mut blocks, mut good, mut missing, mut bad, mut unreachable) = (0, 0, 0, 0, 0);
    for served in chosen(&node, request.volume.as_deref())? {
        let report = served.upkeep.scrubber.once(request.sample, 0).await.map_err(Refusal::failed)?;
        blocks += report.blocks;
        good += report.good;
        missing += report.missing;
        bad += report.bad;
        unreachable += report.unreachable;
    }
    Ok(Json(json!({
        "blocks": blocks, "good": good, "missing": missing, "bad": bad, "unreachable": unreachable,
    })))
}

/// Rewrites what is in the repair queue.
pub(super) async fn repair(State(node): State<Arc<Node>>) -> Answer {
    let (mut fragments, mut blocks, mut left, mut unreadable) = (0, 0, 0, 0);
    for served in node.served() {
        let report = served.upkeep.repairer.once().await.map_err(Refusal::failed)?;
        fragments += report.fragments;
        blocks += report.done;
        left += report.left;
        unreadable += report.unreadable;
    }
    Ok(Json(json!({ "fragments": fragments, "blocks": blocks, "left": left, "unreadable": unreadable })))
}

/// Deletes garbage that is due.
pub(super) async fn collect(State(node): State<Arc<Node>>) -> Answer {
    let (mut versions, mut postponed) = (0, 0);
    for served in node.served() {
        let report = served.upkeep.garbage.once().await.map_err(Refusal::failed)?;
        versions += report.versions;
        postponed += report.postponed;
    }
    Ok(Json(json!({ "versions": versions, "postponed": postponed })))
}
