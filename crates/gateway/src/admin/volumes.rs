use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Json, Response};
use file_system::{FileId, FileSystem};
use ids::ObjectId;
use serde::Deserialize;
use serde_json::{Value, json};
use volume::{Migrating, Policy};

use super::progress::{Meter, streamed};
use super::{Answer, Refusal};
use crate::config::{ByteSize, Tier, VolumeConfig};
use crate::node::{Node, Served};

/// How often it is looked at what is left of a migration.
const LOOK: Duration = Duration::from_millis(100);

fn clouds_of(node: &Node, policy: &Policy) -> Vec<String> {
    policy.placement.clouds().iter().map(|cloud| node.clouds.name_of(*cloud)).collect()
}

fn describe(node: &Node, served: &Served) -> Value {
    let volume = &served.volume;
    let policy = volume.policy();
    let (objects, bytes) = volume.usage();
    json!({
        "name": volume.name(),
        "id": FileSystem::volume(&**volume).to_string(),
        "policy": policy.placement.scheme().to_string(),
        "clouds": node.clouds_of_new_files(volume),
        "block_size": policy.block_shift().bytes(),
        "tier": Tier::from(volume.tier()),
        "integrity_only": policy.protection.suite == seal::Suite::IntegrityOnly,
        "objects": objects,
        "bytes": bytes,
        "keys": Node::key_progress(served),
    })
}

pub(super) async fn all(node: &Node) -> Result<Vec<Value>, Refusal> {
    let mut all = Vec::new();
    for served in node.served() {
        all.push(described(node, &served).await?);
    }
    Ok(all)
}

/// With what is on its way to another policy.
async fn described(node: &Node, served: &Served) -> Result<Value, Refusal> {
    let mut shown = describe(node, served);
    shown["migrating"] = migrating(served.volume.migrating_lately().await.map_err(Refusal::failed)?);
    Ok(shown)
}

fn migrating(Migrating { directories, files, bytes }: Migrating) -> Value {
    json!({ "directories": directories, "files": files, "bytes": bytes })
}

fn find(node: &Node, name: &str) -> Result<Arc<Served>, Refusal> {
    let found = node.served().into_iter().find(|served| served.volume.name() == name);
    found.ok_or_else(|| Refusal::missing(format!("there is no volume {name:?}")))
}

pub(super) async fn list(State(node): State<Arc<Node>>) -> Answer {
    Ok(Json(all(&node).await?.into()))
}

pub(super) async fn show(State(node): State<Arc<Node>>, Path(name): Path<String>) -> Answer {
    let served = find(&node, &name)?;
    let mut shown = described(&node, &served).await?;
    shown["directories"] = directories(&node, &served).await;
    Ok(Json(shown))
}

/// Makes a volume; what is not said is as in a configuration file.
pub(super) async fn create(State(node): State<Arc<Node>>, Json(body): Json<Value>) -> Answer {
    let wanted: VolumeConfig = serde_json::from_value(body).map_err(Refusal::bad)?;
    // The clouds that are chosen stay until the volume names them.
    let _alone = node.changing_clouds.lock().await;
    let served = node.create_volume(&wanted).await.map_err(Refusal::bad)?;
    Ok(Json(describe(&node, &served)))
}

/// The policies of a volume's directories, by path; that of one which is not found among the first names, by its number.
async fn directories(node: &Node, served: &Served) -> Value {
    let policies = served.volume.directory_policies();
    let volume = FileSystem::volume(&*served.volume);
    let file = |object: &ObjectId| FileId { volume, object: *object };
    let paths = node.paths_of(policies.iter().map(|(object, _)| file(object)).collect()).await;
    let shown = policies.iter().map(|(object, policy)| {
        let path = paths.get(&file(object)).cloned().unwrap_or_else(|| format!("object {object}"));
        json!({
            "path": path,
            "policy": policy.placement.scheme().to_string(),
            "clouds": clouds_of(node, policy),
            "block_size": policy.block_shift().bytes(),
        })
    });
    shown.collect::<Vec<_>>().into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Changes {
    #[serde(rename = "name")]
    _name: Option<String>,
    policy: Option<String>,
    clouds: Option<Vec<String>>,
    block_size: Option<ByteSize>,
    tier: Option<Tier>,
    directory: Option<String>,
}

/// What a directory says when it is to follow the one above it.
const INHERIT: &str = "inherit";

/// Changes the policy for files made from now on, in the whole volume or in one directory.
pub(super) async fn set(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    Json(body): Json<Value>,
) -> Answer {
    let changes: Changes = serde_json::from_value(body).map_err(Refusal::bad)?;
    // The clouds that are chosen stay until the volume names them.
    let _alone = node.changing_clouds.lock().await;
    let served = find(&node, &name)?;
    if let Some(directory) = &changes.directory {
        if changes.tier.is_some() {
            return Err(Refusal::bad("the tier is that of the whole volume; leave out the directory"));
        }
        if changes.policy.as_deref() == Some(INHERIT) {
            let inherits = node.volumes.set_directory_policy(&name, directory, None).await;
            inherits.map_err(Refusal::bad)?;
            return Ok(Json(describe(&node, &served)));
        }
    }
    let now = served.volume.policy();
    let same_policy = changes.policy.is_none() && changes.clouds.is_none() && changes.block_size.is_none();
    let wanted = VolumeConfig {
        name: name.clone(),
        policy: changes.policy.unwrap_or_else(|| now.placement.scheme().to_string()),
        clouds: match changes.clouds {
            Some(clouds) => clouds,
            None => node.clouds_of_new_files(&served.volume),
        },
        block_size: changes.block_size.unwrap_or_else(|| ByteSize::from_bytes(now.block_shift().bytes())),
        tier: changes.tier.unwrap_or_else(|| served.volume.tier().into()),
        integrity_only: now.protection.suite == seal::Suite::IntegrityOnly,
        export: Default::default(),
    };
    let (policy, variants) = node.policy(&wanted).map_err(Refusal::bad)?;
    if let Some(directory) = &changes.directory {
        let set = node.volumes.set_directory_policy(&name, directory, Some(policy.clone())).await;
        set.map_err(Refusal::bad)?;
    } else if !same_policy {
        node.volumes.set_policy(&name, policy.clone()).await.map_err(Refusal::failed)?;
    }
    if variants.len() > 1 && (changes.directory.is_some() || !same_policy) {
        node.volumes.spread(&name, vec![(policy, variants)]).await.map_err(Refusal::failed)?;
    }
    if changes.directory.is_some() {
        return Ok(Json(describe(&node, &served)));
    }
    node.volumes.set_tier(&name, wanted.tier.into()).await.map_err(Refusal::failed)?;
    Ok(Json(describe(&node, &served)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Migration {
    /// From the root of the volume; without it all of the volume.
    #[serde(default)]
    directory: String,
    /// Whether to answer when nothing is left.
    #[serde(default)]
    wait: bool,
}

/// Has files that exist moved to the policy that new ones get; what is left of that.
pub(super) async fn migrate(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Json(request): Json<Migration>,
) -> Response {
    let served = match find(&node, &name) {
        Ok(served) => served,
        Err(refusal) => return refusal.into_response(),
    };
    let (meter, clock) = (Meter::new("bytes"), node.environment.clock.clone());
    let (measured, asked) = (meter.clone(), clock.clone());
    let work = async move {
        served.volume.migrate(&request.directory).await.map_err(Refusal::bad)?;
        let mut most = 0;
        loop {
            let left = served.volume.migrating().await.map_err(Refusal::failed)?;
            most = left.bytes.max(most);
            measured.set(most - left.bytes, Some(most));
            if !request.wait || left == Migrating::default() {
                return Ok(Json(migrating(left)));
            }
            asked.sleep(LOOK).await;
        }
    };
    streamed(&headers, meter, clock, work).await
}

/// Deletes an empty volume.
pub(super) async fn delete(State(node): State<Arc<Node>>, Path(name): Path<String>) -> Answer {
    find(&node, &name)?;
    node.delete_volume(&name).await.map_err(Refusal::bad)?;
    Ok(Json(json!({})))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::test_node;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn clouds_are_chosen_when_nobody_changes_them() {
        let folder = tempfile::tempdir().unwrap();
        let node = test_node::open(folder.path(), &["a", "b", "c", "d"]).await;
        let wanted = json!({ "name": "other", "policy": "rs:2+1", "clouds": ["a", "b", "d"] });
        let changing = node.changing_clouds.lock().await;
        let mut created = pin!(create(State(node.clone()), Json(wanted.clone())));
        let mut set =
            pin!(set(State(node.clone()), Path("home".into()), Json(json!({ "clouds": ["a", "b", "d"] }))));
        assert!(futures::poll!(&mut created).is_pending() && futures::poll!(&mut set).is_pending());
        node.clouds.drained("d");
        drop(changing);
        assert!(created.await.is_err_and(|refusal| refusal.text.contains("drained")));
        assert!(set.await.is_err_and(|refusal| refusal.text.contains("drained")));
    }
}
