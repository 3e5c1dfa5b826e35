use std::sync::Arc;

use ::scan::Release;
use axum::extract::{Query, State};
use axum::response::Json;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Refusal};
use crate::node::Node;

/// Files in one answer.
const FILES: usize = 65_536;

#[derive(Deserialize)]
pub(super) struct ListQuery {
    /// Only so many; 0: as many as there may be.
    limit: Option<usize>,
}

#[derive(Deserialize)]
pub(super) struct FileRequest {
    /// Path, the volume first, or the object.
    file: String,
}

/// How scanning goes.
pub(super) async fn status(State(node): State<Arc<Node>>) -> Answer {
    Ok(Json(node.scan_status().await.map_err(Refusal::failed)?))
}

/// Files that wait, or in which something was found.
pub(super) async fn list(State(node): State<Arc<Node>>, Query(query): Query<ListQuery>) -> Answer {
    let most = query.limit.filter(|limit| *limit > 0).unwrap_or(FILES).min(FILES);
    let mut files = node.scanned_files(most + 1).await.map_err(Refusal::failed)?;
    let more = files.len() > most;
    files.truncate(most);
    Ok(Json(json!({ "files": files, "more": more })))
}

/// Lets a file go on.
pub(super) async fn release(State(node): State<Arc<Node>>, Json(request): Json<FileRequest>) -> Answer {
    let file = node.scanned_file(&request.file).await.map_err(Refusal::failed)?;
    let missing = || {
        Refusal::missing(format!(
            "there is no file {:?} that waits for a scan or is marked by one",
            request.file
        ))
    };
    let released = node.release_scanned(&file.ok_or_else(missing)?).await.map_err(Refusal::failed)?;
    let released: Value = match released {
        Release::Quarantine => "from quarantine".into(),
        Release::Wait => "without a scan".into(),
        Release::Mark => "from its mark".into(),
        Release::Nothing => return Err(missing()),
    };
    Ok(Json(json!({ "released": released })))
}

/// Removes a name of a file in which something was found.
pub(super) async fn remove(State(node): State<Arc<Node>>, Json(request): Json<FileRequest>) -> Answer {
    let left = node.remove_scanned(&request.file).await.map_err(Refusal::attention)?;
    Ok(Json(json!({ "names_left": left })))
}
