use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use gateway::{Config, VerifyingKey};
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
                say("nothing that was written before is dirty, nothing needs repair");
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
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Example: kurma scrub home --sample 10")]
pub struct Scrub {
    #[command(subcommand)]
    command: Option<ScrubCommand>,
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
        match self.command {
            Some(ScrubCommand::Report {}) => return report(context),
            Some(ScrubCommand::Verify { file, keys, signer }) => {
                return verify(context, &file, &keys, signer);
            }
            None => {}
        }
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
        let kinds = ["missing", "bad", "unreachable", "backups_lacking", "backups_unreachable"];
        let bad = kinds.iter().any(|key| report[*key].as_u64() != Some(0));
        Ok(if bad { Outcome::Degraded } else { Outcome::Done })
    }
}

#[derive(Subcommand)]
enum ScrubCommand {
    /// What the last whole scrub of each volume found, signed by the gateway
    ///
    /// Whole scrubs are those of `upkeep.scrub_period`, and those of `kurma scrub`. Status 3: a volume was never scrubbed, or
    /// something in the report needs attention.
    #[command(after_help = "Example: kurma scrub report")]
    Report {},
    /// Prove that a report was signed by your gateway, and not changed since
    ///
    /// Needs no gateway that runs: the public key of the one that has signed is enough, which `kurma key show` prints as
    /// signer, or its key file.
    #[command(after_help = "Example: kurma scrub verify scrubbed.txt --keys recovery.key")]
    Verify {
        /// What `kurma scrub report` has printed, with or without --json
        file: PathBuf,
        /// Key file of the gateway, or what `kurma key export` wrote; all shares, if it wrote those (default: that of --data or --config)
        #[arg(long, value_name = "FILE", conflicts_with = "signer")]
        keys: Vec<PathBuf>,
        /// Public key of the gateway, 64 hexadecimal digits
        #[arg(long, value_parser = gateway::parse_signer)]
        signer: Option<VerifyingKey>,
    },
}

/// Columns of what a report says of clouds.
const REPORT_COLUMNS: &[(&str, &str)] = &[
    ("/volume", "VOLUME"),
    ("/scrubbed", "SCRUBBED"),
    ("/begun", "BEGUN"),
    ("/ended", "ENDED"),
    ("/blocks", "BLOCKS"),
    ("/lacking", "LACKING"),
];

fn report(context: &Context) -> Result<Outcome, Failure> {
    let report = AdminClient::new(&context.target)?.get("/v1/scrub/report")?;
    context.show(&report, |report| {
        say(report["statement"].as_str().unwrap_or_default().trim_end());
        for present in report["under_way"].as_array().into_iter().flatten() {
            let (volume, begun) = (table::text(present.get("volume")), table::text(present.get("begun")));
            let blocks = table::text(present.get("blocks"));
            hint(format_args!("{volume}: a scrub is under way since {begun}; {blocks} blocks so far"));
        }
    });
    Ok(judged(&report["volumes"]))
}

/// Whether anything in a report needs attention.
fn judged(volumes: &Value) -> Outcome {
    let is_well = |volume: &Value| {
        let is_zero = |value: &Value| value.as_u64() == Some(0);
        let mut clouds = volume["clouds"].as_object().into_iter().flatten();
        is_zero(&volume["lacking"]) && clouds.all(|(_, cloud)| is_zero(&cloud["unreachable"]))
    };
    match volumes.as_array().into_iter().flatten().all(is_well) {
        true => Outcome::Done,
        false => Outcome::Degraded,
    }
}

fn verify(
    context: &Context,
    file: &Path,
    keys: &[PathBuf],
    signer: Option<VerifyingKey>,
) -> Result<Outcome, Failure> {
    let signer = match (signer, keys, context.target.config_file()) {
        (Some(signer), ..) => signer,
        (None, [_, ..], _) => gateway::signer_of(keys).map_err(Failure::usage)?,
        (None, [], Some(config)) => {
            let config = Config::load(&config).map_err(Failure::usage)?;
            gateway::signer_of(&[config.gateway.key_file]).map_err(Failure::usage)?
        }
        (None, [], None) => {
            return Err(Failure::usage(
                "whose report is it to be? Give --signer KEY, --keys FILE, --data DIR or --config FILE",
            ));
        }
    };
    let named = |cause: &dyn std::fmt::Display| format!("{}: {cause}", file.display());
    let text = std::fs::read_to_string(file).map_err(|cause| Failure::usage(named(&cause)))?;
    let volumes =
        gateway::verify_scrub_report(&text, &signer).map_err(|cause| Failure::failed(named(&cause)))?;
    let shown = json!({ "signer": gateway::signer_text(&signer), "volumes": volumes });
    context.show(&shown, |shown| {
        table::print(&shown["volumes"], REPORT_COLUMNS);
        say(format_args!("signed by {}, and not changed since", table::text(shown.get("signer"))));
    });
    Ok(judged(&shown["volumes"]))
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
