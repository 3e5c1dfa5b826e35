use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Context, encoded};
use crate::admin_client::AdminClient;
use crate::outcome::{Failure, Outcome, hint, say};
use crate::table;

/// Example: kurma cloud test a
#[derive(Subcommand)]
pub enum CloudCommand {
    /// List the clouds with their health
    List,
    /// One cloud with its health
    Show {
        /// Name of the cloud
        name: String,
    },
    /// Write, read and delete a probe, and measure
    Test {
        /// Name of the cloud
        name: String,
    },
}

pub const CLOUD_COLUMNS: &[(&str, &str)] = &[
    ("/name", "NAME"),
    ("/state", "STATE"),
    ("/read_ms", "READ MS"),
    ("/write_ms", "WRITE MS"),
    ("/error_percent", "ERRORS %"),
    ("/requests", "REQUESTS"),
    ("/url", "URL"),
];

impl CloudCommand {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let client = AdminClient::new(&context.target)?;
        match self {
            CloudCommand::List => {
                let clouds = client.get("/v1/clouds")?;
                context.show(&clouds, |clouds| table::print(clouds, CLOUD_COLUMNS));
            }
            CloudCommand::Show { name } => {
                let cloud = client.get(&format!("/v1/clouds/{}", encoded(&name)))?;
                context.show(&cloud, |cloud| table::print(&json!([cloud]), CLOUD_COLUMNS));
            }
            CloudCommand::Test { name } => {
                let test = client.post(&format!("/v1/clouds/{}/test", encoded(&name)), json!({}))?;
                context.show(&test, |test| {
                    for step in ["write", "read", "delete"] {
                        say(format_args!("{step:<7} {} ms", table::text(test.get(format!("{step}_ms")))));
                    }
                });
            }
        }
        Ok(Outcome::Done)
    }
}

/// Example: kurma flush home --timeout 5m
#[derive(Args)]
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
        let left = client.post("/v1/flush", body)?;
        let number = |key: &str| left.get(key).and_then(Value::as_u64).unwrap_or(0);
        let (dirty, repairs) = (number("dirty_bytes"), number("repairs"));
        context.show(&left, |_| {
            if dirty == 0 && repairs == 0 {
                say("nothing is dirty, nothing needs repair");
            } else {
                hint(format_args!(
                    "left after {}: {} dirty, {repairs} repairs",
                    self.timeout,
                    table::size(dirty)
                ));
            }
        });
        Ok(if dirty == 0 && repairs == 0 { Outcome::Done } else { Outcome::Degraded })
    }
}

/// Example: kurma cache stats
#[derive(Subcommand)]
pub enum CacheCommand {
    /// What the cache holds
    Stats,
    /// Forget clean data; dirty data stays
    Drop,
}

impl CacheCommand {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let client = AdminClient::new(&context.target)?;
        match self {
            CacheCommand::Stats => {
                let stats = client.get("/v1/cache")?;
                context.show(&stats, print_fields);
            }
            CacheCommand::Drop => {
                let dropped = client.post("/v1/cache/drop", json!({}))?;
                context.show(&dropped, |_| say("clean data is dropped"));
            }
        }
        Ok(Outcome::Done)
    }
}

/// Example: kurma scrub home --sample 10
#[derive(Args)]
pub struct Scrub {
    /// Only this volume
    volume: Option<String>,
    /// Percent of the blocks to look at
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u8).range(1..=100))]
    sample: u8,
}

impl Scrub {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let client = AdminClient::new(&context.target)?;
        let report = client.post("/v1/scrub", json!({ "volume": self.volume, "sample": self.sample }))?;
        context.show(&report, print_fields);
        let bad = ["missing", "bad", "unreachable"].iter().any(|key| report[*key].as_u64() != Some(0));
        Ok(if bad { Outcome::Degraded } else { Outcome::Done })
    }
}

/// Example: kurma repair
#[derive(Args)]
pub struct Repair {}

impl Repair {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let report = AdminClient::new(&context.target)?.post("/v1/repair", json!({}))?;
        context.show(&report, print_fields);
        Ok(if report["left"].as_u64() == Some(0) { Outcome::Done } else { Outcome::Degraded })
    }
}

/// Example: kurma gc
#[derive(Args)]
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
