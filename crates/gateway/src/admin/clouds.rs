use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Json, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use volume::Migrating;

use super::progress::{Meter, streamed};
use super::{Answer, Refusal};
use crate::clouds::PROBE;
use crate::config::CloudConfig;
use crate::drain::{Drain, DrainState, NoDrain};
use crate::node::Node;

/// How often it is looked at what is left to be moved.
const LOOK: Duration = Duration::from_millis(100);

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
        "moved_percent": drain.as_ref().map(DrainState::percent),
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
    let configured = node.clouds.configured();
    let known = configured.iter().filter_map(|cloud| describe(node, &cloud.name));
    // Clouds that were taken out of the configuration while files need them, or are rebuilt elsewhere.
    let is_gone = |name: &String| !configured.iter().any(|cloud| cloud.name == *name);
    let mut gone: BTreeSet<String> = node.unconfigured_clouds().into_iter().collect();
    gone.extend(node.clouds.moves().into_iter().map(|(from, _)| from).filter(is_gone));
    known.chain(gone.iter().map(|name| describe_gone(node, name))).collect()
}

/// What is known of a cloud that is not configured.
fn describe_gone(node: &Node, name: &str) -> Value {
    let drain = node.drains.of(name).map(|drain| drain.watch().borrow().clone());
    let state = if drain.is_some() { "rebuilt elsewhere" } else { "not configured" };
    let hint = format!(
        "files refer to it: configure it again, or give up what is there with `kurma cloud replace {name} NEW`"
    );
    json!({
        "name": name,
        "state": state,
        "moved_percent": drain.as_ref().map(DrainState::percent),
        "last_error": drain.is_none().then_some(hint),
        "drain": drain,
    })
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
    match node.drain(&name, request.to.as_deref()).await.map_err(refused) {
        Ok(drain) => {
            let meter = Meter::new("fragments");
            streamed(&headers, meter.clone(), node.environment.clock.clone(), follow(drain, meter)).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

fn refused(why: NoDrain) -> Refusal {
    match why {
        NoDrain::Unknown(name) => missing(&name),
        NoDrain::NoRoom(why) => Refusal::attention(why),
        NoDrain::Failed(why) => Refusal::failed(why),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Replacement {
    /// The cloud that takes everything over.
    to: String,
    /// Where it is, unless it is configured already.
    add: Option<CloudConfig>,
    /// Whether the old one is to leave the configuration in the end.
    #[serde(default)]
    remove: bool,
}

/// Has one cloud take over everything that another one has or had; answers when nothing refers to the old one any more.
pub(super) async fn replace(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Json(request): Json<Replacement>,
) -> Response {
    match begin_replacement(&node, &name, &request).await {
        Ok(drain) => {
            let (meter, clock) = (Meter::new("fragments"), node.environment.clock.clone());
            let work = {
                let meter = meter.clone();
                async move {
                    let done = follow(drain, meter).await?;
                    end_replacement(&node, &name, request.remove).await?;
                    Ok(done)
                }
            };
            streamed(&headers, meter, clock, work).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rebalancing {
    volume: Option<String>,
    /// Whether to tell only what it would take.
    #[serde(default)]
    dry_run: bool,
    /// Whether to answer when nothing is left to be moved.
    #[serde(default)]
    wait: bool,
}

/// Spreads the files of volumes over all clouds that take new ones.
pub(super) async fn rebalance(
    State(node): State<Arc<Node>>,
    headers: HeaderMap,
    Json(request): Json<Rebalancing>,
) -> Response {
    let served: Vec<_> = node
        .served()
        .into_iter()
        .filter(|served| request.volume.as_ref().is_none_or(|name| served.volume.name() == *name))
        .collect();
    if served.is_empty() {
        let name = request.volume.unwrap_or_default();
        return Refusal::missing(format!("there is no volume {name:?}")).into_response();
    }
    let (meter, clock) = (Meter::new("bytes"), node.environment.clock.clone());
    let (measured, asked) = (meter.clone(), clock.clone());
    let work = async move {
        let mut shown = Vec::new();
        for served in &served {
            // The clouds that are chosen stay until the volume names them.
            let _alone = node.changing_clouds.lock().await;
            let wanted = node.wanted_spread(&served.volume).map_err(Refusal::attention)?;
            let estimate = node.estimate(&served.volume, &wanted).await.map_err(Refusal::failed)?;
            let is_left_alone = wanted.is_empty();
            if !request.dry_run {
                node.rebalance(&served.volume, wanted).await.map_err(Refusal::failed)?;
            }
            shown.push(json!({
                "volume": served.volume.name(),
                "left_alone": is_left_alone,
                "estimate": estimate,
            }));
        }
        let mut most = 0;
        let is_waiting = request.wait && !request.dry_run;
        if !is_waiting {
            return Ok(Json(shown.into()));
        }
        loop {
            let (mut left, mut bytes) = (false, 0);
            for served in &served {
                let migrating = served.volume.migrating().await.map_err(Refusal::failed)?;
                left |= migrating != Migrating::default();
                bytes += migrating.bytes;
            }
            most = bytes.max(most);
            measured.set(most - bytes, Some(most));
            if !left {
                return Ok(Json(shown.into()));
            }
            asked.sleep(LOOK).await;
        }
    };
    streamed(&headers, meter, clock, work).await
}

async fn begin_replacement(
    node: &Arc<Node>,
    name: &str,
    request: &Replacement,
) -> Result<Arc<Drain>, Refusal> {
    if let Some(cloud) = &request.add {
        let mut wanted = cloud.clone();
        node.file.resolve(&mut wanted);
        match node.clouds.get(&cloud.name) {
            // Asked for again, after an interruption.
            Some((known, _)) if known.url == wanted.url => {}
            Some((known, _)) => {
                return Err(Refusal::bad(format!(
                    "there is already a cloud {:?}, at {}",
                    cloud.name, known.url
                )));
            }
            None => {
                let _alone = node.changing_clouds.lock().await;
                let added = node.clouds.add(cloud.clone(), &node.file, &node.store, &node.blocks);
                added.await.map_err(Refusal::bad)?;
            }
        }
    }
    if node.clouds.get(&request.to).is_none() {
        let to = &request.to;
        return Err(Refusal::missing(format!(
            "there is no cloud {to:?}; say where it is with --url, or add it with `kurma cloud add`"
        )));
    }
    node.drain(name, Some(&request.to)).await.map_err(refused)
}

async fn end_replacement(node: &Node, name: &str, remove: bool) -> Result<(), Refusal> {
    let _alone = node.changing_clouds.lock().await;
    let users = node.users_of(name);
    if !users.is_empty() {
        let users = users.join(", ");
        return Err(Refusal::attention(format!("{name:?} is still in use by {users}; replace it once more")));
    }
    if remove && node.clouds.get(name).is_some() {
        node.file.remove_cloud(name).map_err(Refusal::failed)?;
        node.clouds.forget(name, &node.blocks);
    }
    Ok(())
}

async fn follow(drain: Arc<Drain>, meter: Meter) -> Answer {
    let mut watch = drain.watch();
    let ended = watch.wait_for(|state| {
        meter.set(state.progress.done, Some(state.progress.total));
        state.finished || state.progress.problem.is_some()
    });
    let state = ended.await.map_err(Refusal::failed)?.clone();
    match &state.progress.problem {
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
