use std::io::{BufRead, IsTerminal, Write};

use clap::Subcommand;
use serde_json::{Value, json};

use super::{Context, encoded};
use crate::admin_client::AdminClient;
use crate::outcome::{Failure, Outcome, hint, say};
use crate::table;

/// List, show and evict NFS clients
#[derive(Subcommand)]
pub enum ClientsCommand {
    /// List the clients: who they are, how their leases stand, how much they hold
    ///
    /// State: `active`; `courteous`, silent for longer than a lease and left in peace until somebody wants what it holds;
    /// `expired`, the same with nothing held.
    #[command(after_help = "Example: kurma clients list --json")]
    List {
        /// Only so many; 0 for all
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// One client, with its open files, locks and delegations
    #[command(after_help = "Example: kurma clients show 9a3f12bc00000001")]
    Show {
        /// As `kurma clients list` prints it
        id: String,
        /// Only so many things that it holds; 0 for all
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Drop everything that a client holds, as if its lease had expired
    ///
    /// A client that still lives loses its open files and locks, and may come back as a new one.
    #[command(after_help = "Example: kurma clients evict 9a3f12bc00000001 --yes")]
    Evict {
        /// As `kurma clients list` prints it
        id: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// Rows that are asked for at a time.
const PAGE: usize = 1024;

const COLUMNS: &[(&str, &str)] = &[
    ("/id", "ID"),
    ("/owner", "OWNER"),
    ("/address", "ADDRESS"),
    ("/principal", "PRINCIPAL"),
    ("/version", "VERSION"),
    ("/state", "STATE"),
    ("/silent", "SEEN"),
    ("/lease", "LEASE"),
    ("/sessions", "SESSIONS"),
    ("/slots", "SLOTS"),
    ("/opens", "OPENS"),
    ("/lock_owners", "LOCKERS"),
    ("/delegations", "DELEGATIONS"),
];

const HELD: &[(&str, &str)] = &[
    ("/kind", "KIND"),
    ("/path", "FILE"),
    ("/what", "WHAT"),
    ("/owner", "OWNER"),
    ("/state_id", "STATE ID"),
];

impl ClientsCommand {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let client = AdminClient::new(&context.target)?;
        match self {
            ClientsCommand::List { limit } => {
                let found = paged(&client, "/v1/clients", "clients", limit)?;
                context.show(&found["clients"], |clients| {
                    let rows: Vec<Value> = rows(clients).iter().map(for_people).collect();
                    table::print(&rows.into(), COLUMNS);
                    if !found["next"].is_null() {
                        let (shown, total) = (rows_of(clients), table::text(found.get("total")));
                        hint(format_args!("{shown} of {total}; --limit 0 shows all"));
                    }
                });
            }
            ClientsCommand::Show { id, limit } => {
                let found = paged(&client, &format!("/v1/clients/{}", encoded(&id)), "held", limit)?;
                context.show(&found, show);
            }
            ClientsCommand::Evict { id, yes } => return evict(&client, context, &id, yes),
        }
        Ok(Outcome::Done)
    }
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn rows_of(value: &Value) -> usize {
    rows(value).len()
}

/// The answer with up to `limit` rows of `list` (0: all), whatever that takes.
fn paged(client: &AdminClient, path: &str, list: &str, limit: usize) -> Result<Value, Failure> {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let page = |after: Option<&str>, have: usize| {
        let behind = after.map(|after| format!("&after={after}")).unwrap_or_default();
        client.get(&format!("{path}?limit={}{behind}", PAGE.min(limit - have)))
    };
    let mut all = page(None, 0)?;
    while rows_of(&all[list]) < limit
        && let Some(after) = all["next"].as_str()
    {
        let mut more = page(Some(after), rows_of(&all[list]))?;
        let next = more["next"].take();
        if let (Some(known), Value::Array(more)) = (all[list].as_array_mut(), more[list].take()) {
            known.extend(more);
        }
        all["next"] = next;
    }
    Ok(all)
}

fn seconds(value: &Value) -> String {
    match value.as_f64().unwrap_or(0.0) {
        short if short < 10.0 => format!("{short:.1}s"),
        long if long < 600.0 => format!("{long:.0}s"),
        long => format!("{:.0}m", long / 60.0),
    }
}

/// A client as a row of a table.
fn for_people(client: &Value) -> Value {
    let mut row = client.clone();
    row["silent"] = json!(format!("{} ago", seconds(&client["silent_seconds"])));
    row["lease"] = json!(seconds(&client["lease_left_seconds"]));
    row["slots"] = json!(format!("{}/{}", client["busy_slots"], client["slots"]));
    if client["confirmed"] == false {
        row["state"] = json!(format!("{}, not confirmed", table::text(client.get("state"))));
    }
    row
}

fn show(client: &Value) {
    let row = for_people(client);
    for (key, name) in [
        ("id", "id"),
        ("owner", "owner"),
        ("address", "address"),
        ("principal", "principal"),
        ("security", "shown by"),
        ("version", "version"),
        ("state", "state"),
        ("silent", "seen"),
        ("lease", "lease left"),
        ("sessions", "sessions"),
        ("slots", "slots in use"),
        ("connections", "connections"),
        ("opens", "opens"),
        ("lock_owners", "lock-owners"),
        ("delegations", "delegations"),
        ("copies", "copies"),
    ] {
        say(format_args!("{name:<14} {}", table::text(row.get(key))));
    }
    say("");
    let held: Vec<Value> = rows(&client["held"]).iter().map(held_for_people).collect();
    let shown = held.len();
    table::print(&held.into(), HELD);
    if !client["next"].is_null() {
        hint(format_args!("the first {shown}; --limit 0 shows all"));
    }
}

/// An open, a lock-owner or a delegation as a row of a table.
fn held_for_people(held: &Value) -> Value {
    let text = |key: &str| table::text(held.get(key));
    let mut row = held.clone();
    if held["path"].is_null() {
        row["path"] = json!(format!("{}: object {}", text("volume"), text("object")));
    }
    row["what"] = json!(match held["kind"].as_str() {
        Some("open") => {
            let waits = rows(&held["waits"]).iter().map(|wait| {
                format!(", {} waits for {}", table::text(wait.get("owner")), range(&wait["range"]))
            });
            format!("{}, denies {}{}", text("access"), text("deny"), waits.collect::<String>())
        }
        Some("locks") => {
            let mut ranges: Vec<String> = rows(&held["ranges"]).iter().map(range).collect();
            match held["more_ranges"].as_u64() {
                None | Some(0) => {}
                Some(more) => ranges.push(format!("and {more} more")),
            }
            if ranges.is_empty() { "nothing".into() } else { ranges.join(", ") }
        }
        _ if held["state"] == "recalled" => {
            format!("for {}, recalled {} ago", text("for"), seconds(&held["recalled_seconds"]))
        }
        _ => format!("for {}, {}", text("for"), text("state")),
    });
    row
}

fn range(range: &Value) -> String {
    let offset = range["offset"].as_u64().unwrap_or(0);
    let kind = if range["exclusive"] == true { "write" } else { "read" };
    match range["length"].as_u64() {
        Some(length) => format!("{kind} {offset}+{length}"),
        None => format!("{kind} {offset} to the end"),
    }
}

fn evict(client: &AdminClient, context: &Context, id: &str, yes: bool) -> Result<Outcome, Failure> {
    let path = format!("/v1/clients/{}", encoded(id));
    if !yes {
        let known = client.get(&format!("{path}?limit=1"))?;
        confirm(&known)?;
    }
    let evicted = client.post(&format!("{path}/evict"), json!({}))?;
    context
        .show(&evicted, |evicted| say(format_args!("client {id} is evicted; it had {}", holdings(evicted))));
    Ok(Outcome::Done)
}

fn holdings(client: &Value) -> String {
    let text = |key: &str| table::text(client.get(key));
    format!(
        "{} opens, {} lock-owners, {} delegations",
        text("opens"),
        text("lock_owners"),
        text("delegations")
    )
}

/// Asks whoever sits at the terminal.
fn confirm(client: &Value) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage("nobody can be asked whether that is meant; say it with --yes"));
    }
    let (owner, address) = (table::text(client.get("owner")), table::text(client.get("address")));
    hint(format_args!("{owner} at {address} loses {}", holdings(client)));
    let _ = write!(std::io::stderr(), "evict it? Type yes: ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    match (read, answer.trim()) {
        (Ok(_), "yes") => Ok(()),
        _ => Err(Failure::failed("not evicted")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_said_in_words() {
        let what = |held: Value| table::text(held_for_people(&held).get("what"));
        assert_eq!(
            what(json!({ "kind": "open", "access": "read", "deny": "none", "path": "/home/f" })),
            "read, denies none"
        );
        let waits = json!([{ "owner": "locker", "range": { "offset": 0, "length": 9, "exclusive": true } }]);
        assert_eq!(
            what(json!({ "kind": "open", "access": "read+write", "deny": "none", "waits": waits })),
            "read+write, denies none, locker waits for write 0+9"
        );
        let ranges = json!([
            { "offset": 10, "length": 5, "exclusive": true },
            { "offset": 100, "length": null, "exclusive": false },
        ]);
        let locks = json!({ "kind": "locks", "ranges": ranges, "more_ranges": 2, "path": null });
        assert_eq!(what(locks), "write 10+5, read 100 to the end, and 2 more");
        let recalled =
            json!({ "kind": "delegation", "for": "write", "state": "recalled", "recalled_seconds": 12 });
        assert_eq!(what(recalled), "for write, recalled 12s ago");
        assert_eq!(what(json!({ "kind": "delegation", "for": "read", "state": "held" })), "for read, held");
        let unnamed = held_for_people(&json!({ "kind": "open", "volume": "home", "object": "1-5" }));
        assert_eq!(unnamed["path"], "home: object 1-5");
    }
}
