use clap::Args;
use serde_json::{Value, json};

use super::Context;
use crate::admin_client::AdminClient;
use crate::files::date;
use crate::outcome::{Failure, Outcome, hint, say};
use crate::table;

/// What the clouds cost so far: requests, bytes and, with prices in the configuration, money
///
/// Counted since the gateway was made, over restarts. What lies in a cloud is known from the last time that it was measured: once
/// a day where storage has a price, and whenever --measure asks for it.
#[derive(Args)]
#[command(after_help = "Example: kurma cost --measure")]
pub struct Cost {
    /// List all clouds first to see what lies there; one request for each 1,000 objects
    #[arg(long)]
    measure: bool,
}

/// The heading of a column, and what a cloud's line has there.
type Column = (&'static str, fn(&Value) -> String);

const COLUMNS: [Column; 10] = [
    ("CLOUD", |line| table::text(line.get("cloud"))),
    ("PUT", |line| table::text(line.pointer("/requests/put"))),
    ("GET", |line| table::text(line.pointer("/requests/get"))),
    ("LIST", |line| table::text(line.pointer("/requests/list"))),
    ("DELETE", |line| table::text(line.pointer("/requests/delete"))),
    ("UP", |line| size(line.get("uploaded_bytes"))),
    ("DOWN", |line| size(line.get("downloaded_bytes"))),
    ("STORED", |line| size(line.get("stored_bytes"))),
    ("MEASURED", |line| line["measured"].as_i64().map_or("-".into(), day)),
    ("MONEY", |line| money(line.pointer("/money/total"))),
];

impl Cost {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let client = AdminClient::new(&context.target)?;
        let bill = match self.measure {
            true => client.watch("/v1/cost/measure", json!({}), "measuring")?,
            false => client.get("/v1/cost")?,
        };
        context.show(&bill, print);
        Ok(Outcome::Done)
    }
}

fn print(bill: &Value) {
    let lines = bill["clouds"].as_array().into_iter().flatten();
    let rows: Vec<Value> = lines
        .map(|line| COLUMNS.iter().map(|(name, cell)| ((*name).to_owned(), json!(cell(line)))).collect())
        .collect();
    let pointers = COLUMNS.map(|(name, _)| format!("/{name}"));
    let columns: Vec<(&str, &str)> =
        pointers.iter().zip(COLUMNS).map(|(pointer, (name, _))| (pointer.as_str(), name)).collect();
    table::print(&json!(rows), &columns);
    let since = bill["since"].as_i64().map_or_else(String::new, day);
    match bill["money"].is_null() {
        true => say(format_args!(
            "since {since}; no cloud has a price: docs/operations.md says how to give it one"
        )),
        false => say(format_args!("since {since}: {}", money(bill.get("money")))),
    }
    let crashes = bill["crashes"].as_u64().unwrap_or(0);
    if crashes > 0 {
        hint(format_args!(
            "{crashes} times the gateway ended without a stop, last before {}; what it asked for in the {} s before is not counted",
            bill["last_crash"].as_i64().map_or_else(String::new, day),
            table::text(bill.get("seconds_before_a_crash_that_may_be_missing")),
        ));
    }
}

fn size(bytes: Option<&Value>) -> String {
    bytes.and_then(Value::as_u64).map_or("-".into(), table::size)
}

/// To a hundredth of the usual unit, and more exactly below it.
fn money(amount: Option<&Value>) -> String {
    match amount.and_then(Value::as_f64) {
        None => "-".into(),
        Some(amount) if amount >= 1.0 || amount == 0.0 => format!("{amount:.2}"),
        Some(amount) => format!("{amount:.6}"),
    }
}

fn day(seconds: i64) -> String {
    date::formatted(vector_client::Time { seconds, nanoseconds: 0 }, "%Y-%m-%d %H:%M")
}
