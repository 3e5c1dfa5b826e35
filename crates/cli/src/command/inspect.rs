use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::storage::{CLOUD_COLUMNS, print_fields};
use super::{Context, encoded};
use crate::admin_client::AdminClient;
use crate::outcome::{Failure, Outcome, hint, say};
use crate::table;

/// Example: kurma status --data kurma-data
#[derive(Args)]
pub struct Status {}

impl Status {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let status = AdminClient::new(&context.target)?.get("/v1/status")?;
        context.show(&status, |status| {
            table::print(
                &status["volumes"],
                &[("/name", "VOLUME"), ("/policy", "POLICY"), ("/tier", "TIER"), ("/objects", "OBJECTS")],
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

/// Example: kurma why /home/report.pdf
#[derive(Args)]
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
                    ("/clouds", "CLOUDS"),
                    ("/fragments", "FRAGMENTS"),
                ],
            );
        });
        Ok(Outcome::Done)
    }
}

/// Example: kurma tamper-log --json
#[derive(Args)]
pub struct TamperLog {}

impl TamperLog {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let log = AdminClient::new(&context.target)?.get("/v1/tamper-log")?;
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
        });
        Ok(Outcome::Done)
    }
}

/// Example: kurma meta check
#[derive(Subcommand)]
pub enum MetaCommand {
    /// Verify every invariant of the metadata
    Check,
}

impl MetaCommand {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let MetaCommand::Check = self;
        let report = AdminClient::new(&context.target)?.post("/v1/meta/check", json!({}))?;
        let findings = report["findings"].as_array().map_or(0, Vec::len);
        context.show(&report, |report| {
            for finding in report["findings"].as_array().into_iter().flatten() {
                say(table::text(Some(finding)));
            }
            let objects = report["objects"].as_u64().unwrap_or(0);
            say(format_args!("{objects} objects, {findings} findings"));
        });
        if findings > 0 {
            Err(Failure::failed("the metadata is damaged; see the findings"))
        } else {
            Ok(Outcome::Done)
        }
    }
}

/// Example: kurma key show
#[derive(Subcommand)]
pub enum KeyCommand {
    /// Identity and public part of the gateway's key
    Show,
}

impl KeyCommand {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let KeyCommand::Show = self;
        let key: Value = AdminClient::new(&context.target)?.get("/v1/key")?;
        context.show(&key, print_fields);
        Ok(Outcome::Done)
    }
}
