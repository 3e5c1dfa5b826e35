use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::Json;
use nfs4_server::{
    Access, ClientId, ClientOverview, DelegationStanding, Held, Holding, LockedBytes, OwnerText, Standing,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Refusal};
use crate::node::Node;
use crate::paths::Shown;

/// Rows of one page when nothing else is said, and at the most.
const ROWS: usize = 1024;

#[derive(Deserialize)]
pub(super) struct Page {
    /// The last id of the page before.
    after: Option<String>,
    limit: Option<usize>,
}

impl Page {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(ROWS).clamp(1, ROWS)
    }
}

/// So many bytes as hexadecimal digits.
fn bytes<const N: usize>(text: &str, what: &str) -> Result<[u8; N], Refusal> {
    let is_number = text.len() == 2 * N && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_number.then(|| u128::from_str_radix(text, 16).ok()).flatten();
    let wrong = || Refusal::bad(format!("{text:?} is not {what}: {} hexadecimal digits", 2 * N));
    let mut bytes = [0; N];
    bytes.copy_from_slice(&number.ok_or_else(wrong)?.to_be_bytes()[16 - N..]);
    Ok(bytes)
}

fn client_id(text: &str) -> Result<ClientId, Refusal> {
    bytes(text, "the id of a client").map(|id| ClientId(u64::from_be_bytes(id)))
}

fn state_id(text: &str) -> Result<[u8; 12], Refusal> {
    bytes(text, "a state id")
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn id(client: ClientId) -> String {
    format!("{:016x}", client.0)
}

fn missing(id: &str) -> Refusal {
    Refusal::missing(format!("there is no client {id}; `kurma clients list` names all"))
}

fn describe(client: &ClientOverview) -> Value {
    let origin = client.origin.as_ref();
    json!({
        "id": id(client.id),
        "owner": client.owner.to_string(),
        "address": origin.map(|origin| origin.address.to_string()),
        "principal": origin.map(|origin| &origin.principal),
        "security": origin.map(|origin| &origin.security),
        "version": client.minor_version.map(|minor| format!("4.{minor}")),
        "confirmed": client.confirmed,
        "state": match client.standing {
            Standing::Active => "active",
            Standing::Courteous => "courteous",
            Standing::Expired => "expired",
        },
        "silent_seconds": client.silent.as_secs_f64(),
        "lease_left_seconds": client.lease_left.as_secs_f64(),
        "sessions": client.sessions,
        "slots": client.slots,
        "busy_slots": client.busy_slots,
        "opens": client.opens,
        "lock_owners": client.lock_owners,
        "delegations": client.delegations,
        "revoked_delegations": client.revoked,
        "copies": client.copies,
    })
}

fn access(access: Access) -> &'static str {
    match (access.read, access.write) {
        (true, true) => "read+write",
        (true, false) => "read",
        (false, true) => "write",
        (false, false) => "none",
    }
}

fn range(range: &LockedBytes) -> Value {
    json!({ "offset": range.offset, "length": range.length, "exclusive": range.exclusive })
}

fn wait((owner, wanted): &(OwnerText, LockedBytes)) -> Value {
    json!({ "owner": owner.to_string(), "range": range(wanted) })
}

fn describe_held(node: &Node, held: &Held, path: Option<&String>) -> Value {
    let mut row = match &held.holding {
        Holding::Open { owner, access: open, deny, waits } => json!({
            "kind": "open",
            "owner": owner.to_string(),
            "access": access(*open),
            "deny": access(*deny),
            "waits": waits.iter().map(wait).collect::<Vec<_>>(),
        }),
        Holding::Locks { owner, ranges, more } => json!({
            "kind": "locks",
            "owner": owner.to_string(),
            "ranges": ranges.iter().map(range).collect::<Vec<_>>(),
            "more_ranges": more,
        }),
        Holding::Delegation { write, standing } => json!({
            "kind": "delegation",
            "for": if *write { "write" } else { "read" },
            "state": match standing {
                DelegationStanding::Held => "held",
                DelegationStanding::Recalled(_) => "recalled",
                DelegationStanding::Revoked => "revoked",
            },
            "recalled_seconds": match standing {
                DelegationStanding::Recalled(since) => Some(since.as_secs_f64()),
                _ => None,
            },
        }),
    };
    row["state_id"] = json!(digits(&held.id));
    let volume = held.file.volume;
    row["volume"] = json!(node.volume_name(volume).unwrap_or_else(|| volume.to_string()));
    row["object"] = json!(held.file.object.to_string());
    row["path"] = json!(path);
    row
}

/// Clients by id, a page at a time.
pub(super) async fn list(State(node): State<Arc<Node>>, Query(page): Query<Page>) -> Answer {
    let after = page.after.as_deref().map(client_id).transpose()?;
    let found = node.server.clients(after, page.limit());
    Ok(Json(json!({
        "clients": found.clients.iter().map(describe).collect::<Vec<_>>(),
        "next": found.next.map(id),
        "total": found.total,
    })))
}

/// One client and what it holds, a page at a time.
pub(super) async fn show(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    Query(page): Query<Page>,
) -> Answer {
    let known = client_id(&name)?;
    let after = page.after.as_deref().map(state_id).transpose()?;
    let client = node.server.client(known).ok_or_else(|| missing(&name))?;
    let found = node.server.held_by(known, after, page.limit()).ok_or_else(|| missing(&name))?;
    let shown = Shown { first: after.is_none(), last: found.next.is_none() };
    let paths = node.paths_of_page(known, shown, found.held.iter().map(|held| held.file).collect()).await;
    let held = found.held.iter().map(|held| describe_held(&node, held, paths.get(&held.file)));
    let mut answer = describe(&client);
    let connections = node.server.connections_of(&client);
    answer["connections"] = connections.iter().map(ToString::to_string).collect::<Vec<_>>().into();
    answer["held"] = held.collect::<Vec<_>>().into();
    answer["next"] = json!(found.next.map(|id| digits(&id)));
    Ok(Json(answer))
}

/// Forgets a client with everything it holds.
pub(super) async fn evict(State(node): State<Arc<Node>>, Path(name): Path<String>) -> Answer {
    let evicted = node.server.evict(client_id(&name)?).await.map_err(Refusal::failed)?;
    let evicted = evicted.ok_or_else(|| missing(&name))?;
    tracing::warn!(
        client = name,
        owner = %evicted.owner,
        opens = evicted.opens,
        lock_owners = evicted.lock_owners,
        delegations = evicted.delegations,
        "a client was evicted by an operator"
    );
    Ok(Json(describe(&evicted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_printed_and_nothing_else_is() {
        let client = ClientId(0x0123_4567_0000_0001);
        assert_eq!(client_id(&id(client)).ok(), Some(client));
        for wrong in ["", "1", "+123456700000001", "0123456700000001x", "g123456700000001"] {
            assert!(client_id(wrong).is_err(), "{wrong}");
        }
        let other = [0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
        assert_eq!(state_id(&digits(&other)).ok(), Some(other));
        assert!(state_id("ff").is_err());
    }
}
