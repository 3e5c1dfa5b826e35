use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Json;
use ids::BlockIndex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Refusal, clouds, volumes};
use crate::config::Span;
use crate::node::Node;

/// Incidents that `kurma tamper-log` shows when nothing else is said.
const INCIDENTS: usize = 1024;
/// Blocks that one answer about a file describes.
const BLOCKS: usize = 65_536;

/// One screen: volumes, clouds, the node, and what needs attention.
pub(super) async fn status(State(node): State<Arc<Node>>) -> Answer {
    let (cache, journal, nfs) = (node.cache.usage(), node.journal.usage(), node.server.metrics());
    let clouds = clouds::all(&node);
    let (mut repairs, mut damaged, mut packs) = (0, 0, upkeep::PacksSeen::default());
    for served in node.served() {
        repairs += served.upkeep.queued_repairs().await.map_err(Refusal::failed)?;
        damaged += served.upkeep.write_back.report().damaged;
        let seen = served.upkeep.cleaner.look().await.map_err(Refusal::failed)?;
        packs.packs += seen.packs;
        packs.bytes += seen.bytes;
        packs.live += seen.live;
    }
    let incidents = node.incidents.recent(INCIDENTS).len();
    let mut attention = Vec::new();
    let is_well = |cloud: &&Value| {
        ["good", "draining", "drained", "rebuilt elsewhere"].iter().any(|state| cloud["state"] == *state)
    };
    for cloud in clouds.iter().filter(|cloud| !is_well(cloud)) {
        let (name, state) = (cloud["name"].as_str().unwrap_or(""), cloud["state"].as_str().unwrap_or(""));
        let why = match state {
            "drain interrupted" => "ask for it again: kurma cloud drain or kurma cloud replace",
            _ => cloud["last_error"].as_str().unwrap_or("no error text"),
        };
        attention.push(format!("cloud {name}: {state}: {why}"));
    }
    if repairs > 0 {
        attention
            .push(format!("{repairs} blocks lack fragments; they are repaired when their clouds answer"));
    }
    if damaged > 0 {
        attention.push(
            "some dirty blocks cannot be written back, because their metadata is damaged: run `kurma meta check`".into(),
        );
    }
    let unreadable = node.cache.unreadable_ranges();
    if let Some((file, range)) = unreadable.first() {
        attention.push(format!(
            "dirty data cannot be read back from the journal, in {} places; first bytes {} to {} of {file}: write them \
             again, or remove the file (`kurma why` shows objects); until then the journal fills up",
            unreadable.len(),
            range.start,
            range.end,
        ));
    }
    if journal.waiting > 0 || cache.waiting > 0 {
        attention
            .push("writers wait for space in the journal: the clouds are slower than the clients".into());
    }
    if journal.disk_full {
        attention
            .push("the disk has no room for all of the journal: free some, or lower cache.journal".into());
    }
    if node.store.status().disk_full {
        attention.push("the disk has no room for the metadata: free some, or changes wait".into());
    }
    attention.extend(node.backup_attention());
    let scan = node.scan_status().await.map_err(Refusal::failed)?;
    attention.extend(node.scan_attention(&scan));
    attention.extend(node.scrub_attention().await.map_err(Refusal::failed)?);
    attention.extend(node.shredding_under_way().await);
    Ok(Json(json!({
        "backup": node.backup_status(),
        "version": env!("CARGO_PKG_VERSION"),
        "volumes": volumes::all(&node).await?,
        "clouds": clouds,
        "scan": scan,
        "node": {
            "uptime_seconds": node.uptime().as_secs(),
            "dirty_bytes": cache.dirty,
            "journal_used_bytes": journal.used,
            "journal_capacity_bytes": journal.capacity,
            "clean_memory_bytes": cache.clean_memory,
            "clean_disk_bytes": cache.clean_disk,
            "repair_queue": repairs,
            "packs": packs.packs,
            "pack_bytes": packs.bytes,
            "pack_live_bytes": packs.live,
            "incidents": incidents,
            "more_incidents": node.incidents.has_older(),
            "replication_lag": Value::Null,
            "nfs_clients": nfs.census.clients,
            "nfs_opens": nfs.census.opens,
            "nfs_lock_owners": nfs.census.lock_owners,
            "nfs_compounds": nfs.compounds,
        },
        "attention": attention,
    })))
}

pub(super) async fn cache(State(node): State<Arc<Node>>) -> Answer {
    let usage = node.cache.usage();
    let pinned = crate::node_rows::pinned(&node.store).await.map_err(Refusal::failed)?.len();
    Ok(Json(json!({
        "pinned_files": pinned,
        "dirty_bytes": usage.dirty,
        "dirty_memory_bytes": usage.dirty_memory,
        "clean_memory_bytes": usage.clean_memory,
        "clean_disk_bytes": usage.clean_disk,
        "memory_hits": usage.memory_hits,
        "disk_hits": usage.disk_hits,
        "cloud_fetches": usage.fetches,
        "readahead": usage.readahead,
        "bad_disk_blocks": usage.bad_disk_blocks,
    })))
}

pub(super) async fn drop_clean(State(node): State<Arc<Node>>) -> Answer {
    node.cache.drop_clean().await;
    node.blocks.forget_recent_packs();
    Ok(Json(json!({})))
}

#[derive(Deserialize)]
pub(super) struct WhyQuery {
    path: String,
    #[serde(default)]
    first: u64,
}

/// Where each block of a file is.
pub(super) async fn why(State(node): State<Arc<Node>>, Query(query): Query<WhyQuery>) -> Answer {
    let path = query.path.trim_start_matches('/');
    let (name, inner) = path.split_once('/').unwrap_or((path, ""));
    let served = node.served().into_iter().find(|served| served.volume.name() == name);
    let served = served.ok_or_else(|| Refusal::missing(format!("there is no volume {name:?}")))?;
    let why = served.volume.why(inner, BlockIndex(query.first), BLOCKS).await.map_err(Refusal::failed)?;
    let why = why.ok_or_else(|| Refusal::missing(format!("/{path} is no regular file")))?;
    let blocks: Vec<Value> = why
        .blocks
        .iter()
        .map(|block| {
            let state = match (block.dirty > 0, block.cached, block.hole) {
                (true, _, true) => "dirty",
                (true, _, false) => "dirty, older version stored",
                (false, _, true) => "hole",
                (false, true, false) => "stored, cached",
                (false, false, false) => "stored",
            };
            json!({
                "block": block.block.0,
                "version": block.version.0,
                "creator": block.creator.0,
                "origin": block.origin.map(|(object, block, version)| {
                    json!({ "object": object.to_string(), "block": block.0, "version": version.0 })
                }),
                "pack": block.pack.map(|pack| json!({
                    "file": pack.object.to_string(),
                    "number": pack.number.0,
                    "offset": pack.place.offset,
                    "bytes": pack.place.len,
                    "pack_bytes": pack.place.pack_len,
                })),
                "state": state,
                "dirty_bytes": block.dirty,
                "cached": block.cached,
                "missing": block.missing,
                "clouds": block.fragments.iter().map(|(cloud, _)| node.clouds.name_of(*cloud)).collect::<Vec<_>>(),
                "fragments": block.fragments.iter().map(|(_, name)| name.to_string()).collect::<Vec<_>>(),
            })
        })
        .collect();
    Ok(Json(json!({ "object": why.object.to_string(), "size": why.size, "blocks": blocks })))
}

#[derive(Deserialize)]
pub(super) struct LogQuery {
    /// Only what was noticed in this time before now.
    since: Option<Span>,
    /// Only so many, the newest; 0: all.
    limit: Option<usize>,
}

/// Incidents, oldest first.
pub(super) async fn tamper_log(State(node): State<Arc<Node>>, Query(query): Query<LogQuery>) -> Answer {
    let since = query.since.map(|span| {
        let now = node.environment.clock.wall();
        now.seconds.saturating_sub_unsigned(span.as_duration().as_secs())
    });
    let limit = match query.limit {
        Some(0) => usize::MAX,
        limit => limit.unwrap_or(INCIDENTS),
    };
    let incidents = node.incidents.history(since, limit).await.map_err(Refusal::failed)?;
    let incidents = incidents.into_iter().map(|incident| {
        json!({
            "time": incident.time.seconds as f64 + f64::from(incident.time.nanos) / 1e9,
            "cloud": &*incident.cloud,
            "fragment": incident.object_name,
            "fragment_index": incident.fragment,
            "volume": node.volume_name(incident.volume).unwrap_or_else(|| incident.volume.to_string()),
            "object": incident.object.to_string(),
            "block": incident.block.0,
            "version": incident.version.0,
            "creator": incident.creator.0,
            "wrong": incident.wrong,
            "done": incident.outcome.to_string(),
            "times": incident.times,
        })
    });
    Ok(Json(incidents.collect::<Vec<_>>().into()))
}

/// Verifies every invariant of the metadata.
pub(super) async fn check(State(node): State<Arc<Node>>) -> Answer {
    let (mut objects, mut findings) = (0, Vec::new());
    for served in node.served() {
        let name = served.volume.name();
        objects += served.volume.usage().0;
        let found = served.volume.check().await.map_err(Refusal::failed)?;
        findings.extend(found.iter().map(|finding| format!("{name}: {finding}")));
    }
    Ok(Json(json!({ "objects": objects, "findings": findings })))
}

/// Reads the configuration again.
pub(super) async fn reload(State(node): State<Arc<Node>>) -> Answer {
    let reloaded = node.reload().await.map_err(Refusal::bad)?;
    Ok(Json(json!(reloaded)))
}
