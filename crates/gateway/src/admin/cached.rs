use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Json, Response};
use ids::BlockIndex;
use serde::Deserialize;
use serde_json::json;

use super::progress::{Meter, streamed};
use super::{Answer, Refusal};
use crate::node::Node;
use crate::node_rows::{pinned, set_pinned};
use crate::pins::{FoundFile, STEP};

#[derive(Deserialize)]
pub(super) struct PathRequest {
    path: String,
}

async fn found(node: &Node, path: &str) -> Result<Vec<FoundFile>, Refusal> {
    let files = node.files_at(path).await.map_err(Refusal::failed)?;
    files.ok_or_else(|| Refusal::missing(format!("there is no file or directory {path:?}")))
}

/// Brings files into the cache.
pub(super) async fn warm(
    State(node): State<Arc<Node>>,
    headers: HeaderMap,
    Json(request): Json<PathRequest>,
) -> Response {
    match found(&node, &request.path).await {
        Ok(files) => respond(&node, &headers, files).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Brings files into the cache and keeps them there.
pub(super) async fn pin(
    State(node): State<Arc<Node>>,
    headers: HeaderMap,
    Json(request): Json<PathRequest>,
) -> Response {
    match keep(&node, &request.path).await {
        Ok(files) => respond(&node, &headers, files).await,
        Err(refusal) => refusal.into_response(),
    }
}

async fn keep(node: &Node, path: &str) -> Result<Vec<FoundFile>, Refusal> {
    let files = found(node, path).await?;
    let room = node.config.cache.disk.bytes().max(node.config.cache.memory.bytes() / 2);
    let known = pinned(&node.store).await.map_err(Refusal::failed)?;
    let mut wanted: u64 = files.iter().map(|(_, _, size)| size).sum();
    for file in known.iter().filter(|file| !files.iter().any(|(_, other, _)| other == *file)) {
        let served = node
            .served()
            .into_iter()
            .find(|served| file_system::FileSystem::volume(&*served.volume) == file.volume);
        if let Some(served) = served {
            wanted += node.size_of(&served, *file).await.unwrap_or(0);
        }
    }
    if wanted > room {
        return Err(Refusal::attention(format!(
            "pinned files would have {wanted} bytes, and the cache keeps {room}; pin less, or raise cache.disk"
        )));
    }
    let ids: Vec<_> = files.iter().map(|(_, file, _)| *file).collect();
    for part in ids.chunks(1024) {
        set_pinned(&node.store, part, true).await.map_err(Refusal::failed)?;
    }
    Ok(files)
}

async fn respond(node: &Node, headers: &HeaderMap, files: Vec<FoundFile>) -> Response {
    let meter = Meter::new("bytes");
    meter.set(0, Some(files.iter().map(|(_, _, size)| size).sum()));
    streamed(headers, meter.clone(), node.environment.clock.clone(), bring(files, meter)).await
}

async fn bring(files: Vec<FoundFile>, meter: Meter) -> Answer {
    let (mut fetched, mut blocks) = (0, 0);
    let count = files.len();
    for (served, file, size) in files {
        let mut next = Some(BlockIndex(0));
        let mut told = 0;
        while let Some(first) = next {
            // Gone meanwhile: nothing to bring.
            let Some(warmed) = served.volume.warm(file.object, first, STEP).await.map_err(Refusal::failed)?
            else {
                break;
            };
            fetched += warmed.fetched;
            next = warmed.next;
            let done = next.map_or(size, |next| size * next.0 / warmed.blocks.max(1));
            meter.add(done.saturating_sub(told));
            told = done;
            if next.is_none() {
                blocks += warmed.blocks;
            }
        }
    }
    Ok(Json(json!({ "files": count, "blocks": blocks, "fetched": fetched })))
}

/// Forgets what the cache has of files, and keeps them no more.
pub(super) async fn evict(State(node): State<Arc<Node>>, Json(request): Json<PathRequest>) -> Answer {
    let files = found(&node, &request.path).await?;
    let ids: Vec<_> = files.iter().map(|(_, file, _)| *file).collect();
    for part in ids.chunks(1024) {
        set_pinned(&node.store, part, false).await.map_err(Refusal::failed)?;
    }
    for (served, file, _) in &files {
        served.volume.evict(file.object);
    }
    Ok(Json(json!({ "files": files.len() })))
}
