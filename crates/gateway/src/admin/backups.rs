use std::sync::Arc;

use axum::extract::State;
use axum::response::Json;
use serde_json::json;

use super::{Answer, Refusal};
use crate::node::Node;

/// A backup now.
pub(super) async fn make(State(node): State<Arc<Node>>) -> Answer {
    if !node.config.backup.is_on() {
        return Err(Refusal::attention("there are no backups: backup.interval is 0s"));
    }
    Ok(Json(json!(node.back_up().await)))
}

/// What there is, by what each cloud says now.
pub(super) async fn list(State(node): State<Arc<Node>>) -> Answer {
    let clouds = node.list_backups().await;
    Ok(Json(json!({ "status": node.backup_status(), "clouds": clouds })))
}
