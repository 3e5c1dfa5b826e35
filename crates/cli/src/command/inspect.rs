use clap::Args;

use super::cloud::CLOUD_COLUMNS;
use super::storage::print_fields;
use super::{Context, encoded};
use crate::admin_client::AdminClient;
use crate::outcome::{Failure, Outcome, hint, say};
use crate::table;

#[derive(Args)]
#[command(after_help = "Example: kurma status --data kurma-data")]
pub struct Status {}

impl Status {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let status = AdminClient::new(&context.target)?.get("/v1/status")?;
        context.show(&status, |status| {
            table::print(
                &status["volumes"],
                &[
                    ("/name", "VOLUME"),
                    ("/policy", "POLICY"),
                    ("/tier", "TIER"),
                    ("/objects", "OBJECTS"),
                    ("/migrating/files", "MIGRATING"),
                ],
            );
            say("");
            table::print(&status["clouds"], CLOUD_COLUMNS);
            say("");
            print_fields(&status["node"]);
        });
        Ok(match status["attention"].as_array() {
            Some(reasons) if !reasons.is_empty() => {
                for reason in reasons {
                    hint(format_args!("attention: {}", table::text(Some(reason))));
                }
                Outcome::Degraded
            }
            _ => Outcome::Done,
        })
    }
}

#[derive(Args)]
#[command(after_help = "Example: kurma why /home/report.pdf")]
pub struct Why {
    /// Path, the volume first
    path: String,
}

impl Why {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let why = AdminClient::new(&context.target)?.get(&format!("/v1/why?path={}", encoded(&self.path)))?;
        context.show(&why, |why| {
            say(format_args!(
                "object {}  size {}",
                table::text(why.get("object")),
                table::text(why.get("size"))
            ));
            table::print(
                &why["blocks"],
                &[
                    ("/block", "BLOCK"),
                    ("/version", "VERSION"),
                    ("/creator", "CREATOR"),
                    ("/state", "STATE"),
                    ("/origin/object", "SHARED WITH"),
                    ("/pack/number", "PACK"),
                    ("/pack/offset", "AT"),
                    ("/clouds", "CLOUDS"),
                    ("/fragments", "FRAGMENTS"),
                ],
            );
        });
        Ok(Outcome::Done)
    }
}

#[derive(Args)]
#[command(after_help = "Example: kurma tamper-log --json")]
pub struct TamperLog {
    /// Only what was noticed in this time before now, such as 24h
    #[arg(long)]
    since: Option<gateway::config::Span>,
    /// Only so many, the newest; 0 for all
    #[arg(long, default_value_t = 1024)]
    limit: usize,
}

impl TamperLog {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let since = self.since.map(|since| format!("&since={since}")).unwrap_or_default();
        let path = format!("/v1/tamper-log?limit={}{since}", self.limit);
        let log = AdminClient::new(&context.target)?.get(&path)?;
        context.show(&log, |log| {
            table::print(
                log,
                &[
                    ("/time", "TIME"),
                    ("/cloud", "CLOUD"),
                    ("/fragment", "FRAGMENT"),
                    ("/volume", "VOLUME"),
                    ("/object", "OBJECT"),
                    ("/block", "BLOCK"),
                    ("/version", "VERSION"),
                    ("/wrong", "WHAT WAS WRONG"),
                    ("/done", "WHAT WAS DONE"),
                ],
            );
            if self.limit > 0 && log.as_array().is_some_and(|log| log.len() == self.limit) {
                hint(format_args!("the newest {}; --limit 0 shows all", self.limit));
            }
        });
        Ok(Outcome::Done)
    }
}
