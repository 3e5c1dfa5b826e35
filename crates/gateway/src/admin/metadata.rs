use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use futures::stream::unfold;
use meta::MetaStore;

use super::Refusal;
use crate::dump::Dump;
use crate::node::Node;

/// Bytes that are not in the clouds yet, and so are not in a dump.
const DIRTY: HeaderName = HeaderName::from_static("kurma-dirty-bytes");

/// All metadata, sealed. A connection that ends early leaves a file that does not load.
pub(super) async fn dump(State(node): State<Arc<Node>>) -> Response {
    let snapshot = match node.store.snapshot().await {
        Ok(snapshot) => snapshot,
        Err(error) => return Refusal::failed(error).into_response(),
    };
    let dirty = node.cache.usage().dirty;
    let dump = Dump::new(snapshot, &node.key_file().node_key("journal"), &*node.environment.entropy);
    let parts = unfold(Some(dump), |dump: Option<Dump>| async move {
        let mut dump = dump?;
        match dump.next().await {
            Ok(part) => Some((Ok(part?), Some(dump))),
            Err(error) => Some((Err(error), None)),
        }
    });
    let headers = [(CONTENT_TYPE, "application/octet-stream".to_owned()), (DIRTY, dirty.to_string())];
    (headers, Body::from_stream(parts)).into_response()
}
