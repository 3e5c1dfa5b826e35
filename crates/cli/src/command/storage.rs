use clap::Args;
use serde_json::{Value, json};

use super::Context;
use crate::admin_client::AdminClient;
use crate::outcome::{Failure, Outcome, hint, say};
use crate::table;

#[derive(Args)]
#[command(after_help = "Example: kurma flush home --timeout 5m")]
pub struct Flush {
    /// Only this volume
    volume: Option<String>,
    /// How long to wait at most
    #[arg(long, default_value = "10m")]
    timeout: gateway::config::Span,
}

impl Flush {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let client = AdminClient::new(&context.target)?;
        let body = json!({ "volume": self.volume, "timeout": self.timeout.to_string() });
        let left = client.watch("/v1/flush", body, "flushing")?;
        let number = |key: &str| left.get(key).and_then(Value::as_u64).unwrap_or(0);
        let (dirty, repairs) = (number("dirty_bytes"), number("repairs"));
        let backup = &left["backup"];
        let is_safe = backup["on"] != json!(true) || backup["complete"] == json!(true);
        context.show(&left, |_| {
            if dirty == 0 && repairs == 0 {
                say("nothing is dirty, nothing needs repair");
                if !is_safe {
                    hint("the metadata backup is not complete: a loss of this machine would lose what was written last");
                    super::backup::problem(backup);
                }
            } else {
                hint(format_args!(
                    "left after {}: {} dirty, {repairs} repairs",
                    self.timeout,
                    table::size(dirty)
                ));
            }
        });
        Ok(if dirty == 0 && repairs == 0 && is_safe { Outcome::Done } else { Outcome::Degraded })
    }
}

#[derive(Args)]
#[command(after_help = "Example: kurma scrub home --sample 10")]
pub struct Scrub {
    /// Instead, look for objects in the clouds that nothing refers to; nothing is deleted
    ///
    /// After a restored dump these are fragments of what was written after it. Fragments of another gateway that uses the
    /// same place are among them, too. Found ones end the command with status 3; `--json` names the first thousand.
    #[arg(long, conflicts_with_all = ["volume", "sample"])]
    orphans: bool,
    /// Only this volume
    volume: Option<String>,
    /// Percent of the blocks to look at
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u8).range(1..=100))]
    sample: u8,
}

impl Scrub {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let client = AdminClient::new(&context.target)?;
        if self.orphans {
            return orphans(&client, context);
        }
        let report = client.watch(
            "/v1/scrub",
            json!({ "volume": self.volume, "sample": self.sample }),
            "scrubbing",
        )?;
        context.show(&report, print_fields);
        let bad = ["missing", "bad", "unreachable"].iter().any(|key| report[*key].as_u64() != Some(0));
        Ok(if bad { Outcome::Degraded } else { Outcome::Done })
    }
}

fn orphans(client: &AdminClient, context: &Context) -> Result<Outcome, Failure> {
    let found = client.watch("/v1/orphans", json!({}), "looking for orphans")?;
    context.show(&found, |found| {
        let fields = ["objects", "orphans", "bytes"].map(|key| (key.to_owned(), found[key].clone()));
        print_fields(&Value::Object(fields.into_iter().collect()));
        for cloud in found["unreachable"].as_array().into_iter().flatten() {
            hint(format_args!("the cloud {cloud} could not be looked at"));
        }
    });
    let clean = found["orphans"].as_u64() == Some(0) && found["unreachable"] == json!([]);
    Ok(if clean { Outcome::Done } else { Outcome::Degraded })
}

#[derive(Args)]
#[command(after_help = "Example: kurma repair")]
pub struct Repair {}

impl Repair {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let report = AdminClient::new(&context.target)?.watch("/v1/repair", json!({}), "repairing")?;
        context.show(&report, print_fields);
        Ok(if report["left"].as_u64() == Some(0) { Outcome::Done } else { Outcome::Degraded })
    }
}

#[derive(Args)]
#[command(after_help = "Example: kurma gc")]
pub struct Gc {}

impl Gc {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let report = AdminClient::new(&context.target)?.post("/v1/gc", json!({}))?;
        context.show(&report, print_fields);
        Ok(Outcome::Done)
    }
}

/// Prints an object, a line for each field.
pub fn print_fields(value: &Value) {
    for (key, field) in value.as_object().into_iter().flatten() {
        let shown = match field.as_u64() {
            Some(bytes) if key.ends_with("bytes") => table::size(bytes),
            _ => table::text(Some(field)),
        };
        say(format_args!("{:<24} {shown}", key.replace('_', " ")));
    }
}
