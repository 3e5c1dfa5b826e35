use clap::Subcommand;
use serde_json::{Value, json};

use super::Context;
use crate::admin_client::AdminClient;
use crate::outcome::{Failure, Outcome, hint, say};
use crate::table;

/// Backups of the metadata in the clouds
#[derive(Subcommand)]
pub enum BackupCommand {
    /// Take everything that has changed into the clouds now
    ///
    /// Gateways do so by themselves, every `backup.interval`, and with every `kurma flush`.
    #[command(after_help = "Example: kurma backup now")]
    Now,
    /// What each cloud has
    #[command(after_help = "Example: kurma backup list")]
    List,
}

impl BackupCommand {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let client = AdminClient::new(&context.target)?;
        match self {
            BackupCommand::Now => {
                let status = client.post("/v1/backup", json!({}))?;
                context.show(&status, told);
                Ok(outcome(&status))
            }
            BackupCommand::List => {
                let listed = client.get("/v1/backups")?;
                context.show(&listed, |listed| {
                    table::print(
                        &listed["clouds"],
                        &[
                            ("/cloud", "CLOUD"),
                            ("/state", "STATE"),
                            ("/backup", "BACKUP"),
                            ("/transaction", "TRANSACTION"),
                            ("/time", "TIME"),
                            ("/problem", "PROBLEM"),
                        ],
                    );
                });
                let clouds = listed["clouds"].as_array().map_or(&[][..], Vec::as_slice);
                let newest = !clouds.is_empty() && clouds.iter().all(|cloud| cloud["state"] == "newest");
                Ok(if newest { Outcome::Done } else { Outcome::Degraded })
            }
        }
    }
}

fn told(status: &Value) {
    let list = |key: &str| {
        let names = status[key].as_array().into_iter().flatten();
        names.filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
    };
    say(format_args!(
        "backup {} up to transaction {}, {} in {} objects; in {}",
        table::text(status.get("backup")),
        table::text(status.get("transaction")),
        table::size(status["bytes"].as_u64().unwrap_or(0)),
        table::text(status.get("objects")),
        list("has"),
    ));
    if !list("lacks").is_empty() {
        hint(format_args!("not in {}", list("lacks")));
    }
    problem(status);
    let unsaved = status["unsaved_bytes"].as_u64().unwrap_or(0);
    if unsaved > 0 {
        hint(format_args!(
            "{} of files were not in the clouds yet; `kurma flush` takes them there",
            table::size(unsaved)
        ));
    }
}

/// Says why there is no backup.
pub fn problem(status: &Value) {
    if let Some(problem) = status["problem"].as_str() {
        hint(format_args!("the metadata is not backed up: {problem}"));
    }
}

fn outcome(status: &Value) -> Outcome {
    match status["complete"] == json!(true) && status["lacks"] == json!([]) {
        true => Outcome::Done,
        false => Outcome::Degraded,
    }
}
