//! The admin interface: JSON over HTTP on loopback, for the `kurma` command and for monitoring. All but the metrics
//! takes `Authorization: Bearer TOKEN`, the token being that of `admin.token` in the data folder.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/status` | volumes, clouds, node, and what needs attention |
//! | `GET /v1/volumes`, `GET /v1/volumes/NAME` | volumes with policy and usage |
//! | `POST /v1/volumes`, `POST /v1/volumes/NAME/set`, `.../delete` | make, change, delete |
//! | `POST /v1/volumes/NAME/migrate` `{directory, wait}` | files that exist move to the present policy: `{directories, files, bytes}` are left |
//! | `GET /v1/clouds`, `GET /v1/clouds/NAME`, `POST /v1/clouds/NAME/test` | clouds with health; a measured probe |
//! | `POST /v1/clouds`, `POST /v1/clouds/NAME/drain` `{to}`, `.../remove` | add, empty, take away |
//! | `POST /v1/clouds/NAME/replace` `{to, add, remove}` | everything moves to the cloud `to`, which is added if need be |
//! | `POST /v1/rebalance` `{volume, dry_run, wait}` | files are spread over all clouds: what moves, or would, for each volume |
//! | `POST /v1/flush` `{volume, timeout}` | what is left to do: `{dirty_bytes, repairs, backup}` |
//! | `GET /v1/cache`, `POST /v1/cache/drop` | cache figures; forget clean data |
//! | `POST /v1/cache/warm`, `.../pin`, `.../evict` `{path}` | bring files into the cache, keep them there, forget them |
//! | `POST /v1/scrub` `{volume, sample}`, `POST /v1/repair`, `POST /v1/gc` | upkeep now, with its report |
//! | `GET /v1/scrub/report` | what the last whole scrub of each volume found, signed: `{statement, volumes, under_way}` |
//! | `POST /v1/orphans` | objects in the clouds that nothing refers to: `{objects, orphans, bytes, names, unreachable}` |
//! | `GET /v1/why?path=PATH` | where each block of a file is |
//! | `GET /v1/tamper-log?since=SPAN&limit=N` | incidents, oldest first; no limit: the newest 1,024; 0: all |
//! | `POST /v1/backup` | a metadata backup now, and how the backups are doing |
//! | `GET /v1/backups` | the same without making one, and what each cloud has: `{status, clouds}` |
//! | `GET /v1/cost` | what the clouds have been asked for and cost so far: `{since, clouds, money, crashes, ...}` |
//! | `POST /v1/cost/measure` | the same, after listing the clouds to see what lies there |
//! | `GET /v1/scan` | how scanning for malware goes: the scanner, each volume, counters |
//! | `GET /v1/scan/files?limit=N` | files that wait for a scan, or are marked by one: `{files, more}` |
//! | `POST /v1/scan/release` `{file}`, `.../remove` `{file}` | lets a file go on; removes a name of one in which something was found |
//! | `POST /v1/meta/check` | findings |
//! | `GET /v1/meta/dump` | all metadata, sealed: docs/formats.md |
//! | `GET /v1/key` | identity of the key file, epochs of the volumes' keys |
//! | `POST /v1/keys/rotate` `{volume, wait}` | a new epoch for the keys of a volume, or of all: `{volumes}` |
//! | `POST /v1/keys/shred` `{what, recovery, sharing}` | destroys the keys of a file, a tree or a volume: `{statement}` |
//! | `GET /v1/clients?after=ID&limit=N` | NFS clients by id, 1,024 at the most: `{clients, next, total}` |
//! | `GET /v1/clients/ID?after=STATEID&limit=N` | one client, and what it holds: `{held, next, ...}` |
//! | `POST /v1/clients/ID/evict` | forgets the client with everything it holds; what that was |
//! | `POST /v1/config/reload` | reads the configuration again: `{applied, pending}` |
//! | `GET /metrics` | Prometheus text |
//!
//! Errors are `{"error": TEXT}` with status 400 (bad request), 401 (no token; `token_file` says where it is),
//! 404 (no such thing), 409 (not done, and somebody has to do something first) or 500. Whoever accepts
//! `application/x-ndjson` gets the answer to a long request as lines: `{"progress": {unit, done, total}}` several times, then
//! `{"result": ANSWER}` or `{"error": TEXT, "status": STATUS}`.

mod backups;
mod cached;
mod clients;
mod clouds;
mod cost;
mod door;
mod keys;
mod metadata;
mod metrics;
mod progress;
mod scans;
mod state;
mod upkeep;
mod volumes;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

use crate::node::Node;

pub(crate) use door::Door;

type Answer = Result<Json<Value>, Refusal>;

/// An answer that is none.
struct Refusal {
    status: StatusCode,
    text: String,
}

impl Refusal {
    fn bad(text: impl std::fmt::Display) -> Refusal {
        Refusal { status: StatusCode::BAD_REQUEST, text: text.to_string() }
    }

    /// Not done, and somebody has to do something first.
    fn attention(text: impl std::fmt::Display) -> Refusal {
        Refusal { status: StatusCode::CONFLICT, text: text.to_string() }
    }

    fn missing(text: impl std::fmt::Display) -> Refusal {
        Refusal { status: StatusCode::NOT_FOUND, text: text.to_string() }
    }

    fn failed(text: impl std::fmt::Display) -> Refusal {
        Refusal { status: StatusCode::INTERNAL_SERVER_ERROR, text: text.to_string() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.text }))).into_response()
    }
}

/// All routes.
pub(crate) fn router(node: Arc<Node>, door: Arc<Door>) -> Router {
    let guarded = Router::new()
        .route("/v1/status", get(state::status))
        .route("/v1/volumes", get(volumes::list).post(volumes::create))
        .route("/v1/volumes/{name}", get(volumes::show))
        .route("/v1/volumes/{name}/set", post(volumes::set))
        .route("/v1/volumes/{name}/migrate", post(volumes::migrate))
        .route("/v1/volumes/{name}/delete", post(volumes::delete))
        .route("/v1/clouds", get(clouds::list).post(clouds::add))
        .route("/v1/rebalance", post(clouds::rebalance))
        .route("/v1/clouds/{name}", get(clouds::show))
        .route("/v1/clouds/{name}/test", post(clouds::test))
        .route("/v1/clouds/{name}/drain", post(clouds::drain))
        .route("/v1/clouds/{name}/replace", post(clouds::replace))
        .route("/v1/clouds/{name}/remove", post(clouds::remove))
        .route("/v1/cost", get(cost::show))
        .route("/v1/cost/measure", post(cost::measure))
        .route("/v1/scan", get(scans::status))
        .route("/v1/scan/files", get(scans::list))
        .route("/v1/scan/release", post(scans::release))
        .route("/v1/scan/remove", post(scans::remove))
        .route("/v1/flush", post(upkeep::flush))
        .route("/v1/scrub", post(upkeep::scrub))
        .route("/v1/scrub/report", get(upkeep::scrub_report))
        .route("/v1/orphans", post(upkeep::orphans))
        .route("/v1/repair", post(upkeep::repair))
        .route("/v1/gc", post(upkeep::collect))
        .route("/v1/cache", get(state::cache))
        .route("/v1/cache/drop", post(state::drop_clean))
        .route("/v1/cache/warm", post(cached::warm))
        .route("/v1/cache/pin", post(cached::pin))
        .route("/v1/cache/evict", post(cached::evict))
        .route("/v1/why", get(state::why))
        .route("/v1/tamper-log", get(state::tamper_log))
        .route("/v1/backup", post(backups::make))
        .route("/v1/backups", get(backups::list))
        .route("/v1/meta/check", post(state::check))
        .route("/v1/meta/dump", get(metadata::dump))
        .route("/v1/key", get(keys::show))
        .route("/v1/keys/rotate", post(keys::rotate))
        .route("/v1/keys/shred", post(keys::shred))
        .route("/v1/clients", get(clients::list))
        .route("/v1/clients/{id}", get(clients::show))
        .route("/v1/clients/{id}/evict", post(clients::evict))
        .route("/v1/config/reload", post(state::reload))
        .fallback(async || Refusal::missing("no such request; see the documentation of the admin interface"))
        .layer(from_fn_with_state(door, Door::check));
    Router::new().route("/metrics", get(metrics::prometheus)).merge(guarded).with_state(node)
}
