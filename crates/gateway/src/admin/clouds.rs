use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Json;
use blocks::CloudId;
use bytes::Bytes;
use cloud::{Connection, ObjectName, PutMode};
use serde_json::{Value, json};

use super::{Answer, Refusal};
use crate::node::Node;

/// Bytes of the probe of `kurma cloud test`.
const PROBE: usize = 64 << 10;

/// What is known of one cloud.
pub(super) fn describe(node: &Node, id: CloudId, connection: &Connection) -> Value {
    let health = connection.health().snapshot();
    let state = match (health.read.sick, health.write.sick) {
        (false, false) => "good",
        (true, false) => "reads fail",
        (false, true) => "writes fail",
        (true, true) => "down",
    };
    let millis =
        |latency: [Option<f64>; 3]| latency.into_iter().rev().flatten().next().map(|seconds| seconds * 1e3);
    let requests: u64 = health.operations.iter().map(|(_, counts)| counts.answered + counts.failed).sum();
    json!({
        "name": &**connection.name(),
        "id": id.0,
        "url": node.url_of(connection.name()),
        "state": state,
        "read_ms": millis(health.read.mean_latency),
        "write_ms": millis(health.write.mean_latency),
        "error_percent": health.read.error_rate.max(health.write.error_rate) * 100.0,
        "requests": requests,
        "last_error": health.last_error,
        "health": health,
    })
}

pub(super) fn all(node: &Node) -> Vec<Value> {
    node.blocks.clouds().iter().map(|(id, connection)| describe(node, *id, connection)).collect()
}

fn find<'a>(node: &'a Node, name: &str) -> Result<(CloudId, &'a Connection), Refusal> {
    let mut clouds = node.blocks.clouds().iter();
    let found = clouds.find(|(_, connection)| **connection.name() == *name);
    found
        .map(|(id, connection)| (*id, connection))
        .ok_or_else(|| Refusal::missing(format!("there is no cloud {name:?}")))
}

pub(super) async fn list(State(node): State<Arc<Node>>) -> Answer {
    Ok(Json(all(&node).into()))
}

pub(super) async fn show(State(node): State<Arc<Node>>, Path(name): Path<String>) -> Answer {
    let (id, connection) = find(&node, &name)?;
    Ok(Json(describe(&node, id, connection)))
}

/// Writes, reads and deletes a probe, and measures.
pub(super) async fn test(State(node): State<Arc<Node>>, Path(name): Path<String>) -> Answer {
    let (_, connection) = find(&node, &name)?;
    let mut probe = vec![0; PROBE];
    node.environment.entropy.fill(&mut probe);
    let probe = Bytes::from(probe);
    let object = format!("probe-{:016x}", node.environment.entropy.next_u64());
    let object = ObjectName::new(&object).map_err(Refusal::failed)?;
    let failed =
        |step: &'static str| move |cause: cloud::CloudError| Refusal::failed(format!("{step}: {cause}"));
    let clock = &node.environment.clock;
    let start = clock.monotonic();
    connection.put(&object, vec![probe.clone()], PutMode::Create).await.map_err(failed("write"))?;
    let written = clock.monotonic();
    let back = connection.get(&object, None).await;
    let read = clock.monotonic();
    connection.delete(&object).await.map_err(failed("delete"))?;
    let deleted = clock.monotonic();
    if back.map_err(failed("read"))? != probe {
        return Err(Refusal::failed(format!("the cloud {name:?} returned other bytes than it was given")));
    }
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    Ok(Json(json!({
        "bytes": PROBE,
        "write_ms": millis(written - start),
        "read_ms": millis(read - written),
        "delete_ms": millis(deleted - read),
    })))
}
