use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Json, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::progress::{Meter, sampled, streamed};
use super::{Answer, Refusal};
use crate::node::{Node, Served};
use crate::shred::{ShredError, ShredRequest};

#[derive(Deserialize)]
pub(super) struct RotateRequest {
    volume: Option<String>,
    /// Until all keys of files are under the new keys.
    wait: bool,
}

/// Destroys the keys of what is at a path; the signed statement about it. Goes on when nobody waits any more.
pub(super) async fn shred(State(node): State<Arc<Node>>, Json(request): Json<ShredRequest>) -> Answer {
    let work = tokio::spawn(async move { node.shred(request).await });
    match work.await.map_err(Refusal::failed)? {
        Ok(statement) => Ok(Json(json!({ "statement": statement }))),
        Err(ShredError::Missing(cause)) => Err(Refusal::missing(cause)),
        Err(ShredError::Refused(cause)) => Err(Refusal::bad(cause)),
        Err(ShredError::Later(cause)) => Err(Refusal::attention(cause)),
    }
}

/// Identity of the key file, and the epochs of all volumes.
pub(super) async fn show(State(node): State<Arc<Node>>) -> Answer {
    let key = node.key_file();
    let volumes: Vec<Value> = node
        .served()
        .iter()
        .map(|served| json!({ "name": served.volume.name(), "keys": Node::key_progress(served) }))
        .collect();
    Ok(Json(json!({
        "gateway": key.gateway().0,
        "key": key.id().to_string(),
        "generation": key.generation(),
        "oldest_generation": key.oldest_generation(),
        "public_key": key.gateway_keys().public().to_string(),
        "signer": crate::signer_text(&key.signing_key().public()),
        "file": node.config.gateway.key_file,
        "shredding": node.shredding_under_way().await,
        "volumes": volumes,
    })))
}

/// A new epoch for the keys of one volume, or of all.
pub(super) async fn rotate(
    State(node): State<Arc<Node>>,
    headers: HeaderMap,
    Json(request): Json<RotateRequest>,
) -> Response {
    let chosen: Vec<Arc<Served>> = match &request.volume {
        None => node.served(),
        Some(name) => node.served().into_iter().filter(|served| served.volume.name() == *name).collect(),
    };
    if let (true, Some(name)) = (chosen.is_empty(), &request.volume) {
        return Refusal::missing(format!("there is no volume {name:?}")).into_response();
    }
    let meter = Meter::new("rows");
    let clock = node.environment.clock.clone();
    let watched = chosen.clone();
    let sample = {
        let meter = meter.clone();
        move || {
            meter.progress(watched.iter().map(|served| served.volume.key_progress().rows).sum());
            std::future::ready(())
        }
    };
    let work = async move {
        for served in &chosen {
            node.rotate_keys(&served.volume.name()).await.map_err(Refusal::failed)?;
        }
        let mut volumes = Vec::with_capacity(chosen.len());
        for served in &chosen {
            if request.wait {
                node.rekeyed(served).await;
            }
            volumes.push(json!({ "name": served.volume.name(), "keys": Node::key_progress(served) }));
        }
        Ok(Json(json!({ "volumes": volumes })))
    };
    streamed(&headers, meter, clock.clone(), sampled(work, sample, clock)).await
}
