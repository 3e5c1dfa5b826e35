use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Json, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::progress::{Meter, streamed};
use super::{Answer, Refusal};
use crate::clouds::PROBE;
use crate::config::CloudConfig;
use crate::drain::{Drain, NoDrain};
use crate::node::Node;

/// What is known of one cloud.
pub(super) fn describe(node: &Node, name: &str) -> Option<Value> {
    let (config, connection) = node.clouds.get(name)?;
    let health = connection.health().snapshot();
    let drain = node.drains.of(name).map(|drain| drain.watch().borrow().clone());
    let state = match (health.read.sick, health.write.sick) {
        (true, false) => "reads fail",
        (false, true) => "writes fail",
        (true, true) => "down",
        (false, false) if drain.as_ref().is_some_and(|drain| !drain.finished) => "draining",
        (false, false) if config.drained && node.is_used(name) => "drain interrupted",
        (false, false) if config.drained => "drained",
        (false, false) => "good",
    };
    let millis =
        |latency: [Option<f64>; 3]| latency.into_iter().rev().flatten().next().map(|seconds| seconds * 1e3);
    let requests: u64 = health.operations.iter().map(|(_, counts)| counts.answered + counts.failed).sum();
    Some(json!({
        "name": name,
        "url": config.url,
        "state": state,
        "drained": config.drained,
        "drain": drain,
        "read_ms": millis(health.read.mean_latency),
        "write_ms": millis(health.write.mean_latency),
        "error_percent": health.read.error_rate.max(health.write.error_rate) * 100.0,
        "requests": requests,
        "last_error": health.last_error,
        "costs": connection.costs().counts(),
        "health": health,
    }))
}

pub(super) fn all(node: &Node) -> Vec<Value> {
    node.clouds.configured().iter().filter_map(|cloud| describe(node, &cloud.name)).collect()
}

fn missing(name: &str) -> Refusal {
    Refusal::missing(format!("there is no cloud {name:?}"))
}

pub(super) async fn list(State(node): State<Arc<Node>>) -> Answer {
    Ok(Json(all(&node).into()))
}

pub(super) async fn show(State(node): State<Arc<Node>>, Path(name): Path<String>) -> Answer {
    Ok(Json(describe(&node, &name).ok_or_else(|| missing(&name))?))
}

/// Writes, reads and deletes a probe, and measures.
pub(super) async fn test(State(node): State<Arc<Node>>, Path(name): Path<String>) -> Answer {
    let (_, connection) = node.clouds.get(&name).ok_or_else(|| missing(&name))?;
    let probed = node.clouds.probe(&connection).await.map_err(Refusal::failed)?;
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    Ok(Json(json!({
        "bytes": PROBE,
        "write_ms": millis(probed.write),
        "read_ms": millis(probed.read),
        "delete_ms": millis(probed.delete),
    })))
}

/// Adds a cloud, tried before.
pub(super) async fn add(State(node): State<Arc<Node>>, Json(body): Json<Value>) -> Answer {
    let cloud: CloudConfig = serde_json::from_value(body).map_err(Refusal::bad)?;
    let name = cloud.name.clone();
    let _alone = node.changing_clouds.lock().await;
    node.clouds.add(cloud, &node.file, &node.store, &node.blocks).await.map_err(Refusal::bad)?;
    Ok(Json(describe(&node, &name).ok_or_else(|| missing(&name))?))
}

/// Takes a cloud away that nothing refers to.
pub(super) async fn remove(State(node): State<Arc<Node>>, Path(name): Path<String>) -> Answer {
    let _alone = node.changing_clouds.lock().await;
    node.clouds.get(&name).ok_or_else(|| missing(&name))?;
    let users = node.users_of(&name);
    if !users.is_empty() {
        let users = users.join(", ");
        return Err(Refusal::failed(format!(
            "the cloud {name:?} is in use by {users}; move it away first: kurma cloud drain {name}"
        )));
    }
    node.file.remove_cloud(&name).map_err(Refusal::failed)?;
    node.clouds.forget(&name, &node.blocks);
    Ok(Json(json!({})))
}

#[derive(Deserialize)]
pub(super) struct DrainRequest {
    to: Option<String>,
}

/// Empties a cloud; answers when that is done, or when it does not go on.
pub(super) async fn drain(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Json(request): Json<DrainRequest>,
) -> Response {
    let begun = node.drain(&name, request.to.as_deref()).await.map_err(|refused| match refused {
        NoDrain::Unknown(name) => missing(&name),
        NoDrain::NoRoom(why) => Refusal::attention(why),
        NoDrain::Failed(why) => Refusal::failed(why),
    });
    match begun {
        Ok(drain) => {
            let meter = Meter::new("fragments");
            streamed(&headers, meter.clone(), node.environment.clock.clone(), follow(drain, meter)).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

async fn follow(drain: Arc<Drain>, meter: Meter) -> Answer {
    let mut watch = drain.watch();
    let ended = watch.wait_for(|state| {
        meter.set(state.done, Some(state.total));
        state.finished || state.problem.is_some()
    });
    let state = ended.await.map_err(Refusal::failed)?.clone();
    match &state.problem {
        Some(problem) => Err(Refusal::attention(format!("{problem}; the gateway goes on trying"))),
        None => Ok(Json(json!(state))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_node;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_drain_that_was_stopped_before_anything_moved_is_not_called_done() {
        let folder = tempfile::tempdir().unwrap();
        let node = test_node::open(folder.path(), &["a", "b", "c", "d"]).await;
        // As a stop leaves it between the two steps of the beginning.
        node.clouds.drained("b");
        assert_eq!(describe(&node, "b").unwrap()["state"], "drain interrupted");
        node.clouds.drained("d");
        assert_eq!(describe(&node, "d").unwrap()["state"], "drained");
    }
}
