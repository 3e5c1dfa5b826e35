use clap::Subcommand;
use serde_json::{Value, json};

use super::Context;
use super::storage::print_fields;
use crate::admin_client::AdminClient;
use crate::outcome::{Failure, Outcome, hint, say};
use crate::table;

/// Scanning for malware: how it goes, what was found, what becomes of it
#[derive(Subcommand)]
pub enum ScanCommand {
    /// The scanner, what waits for it, and what it has found
    ///
    /// Ends with status 3 when the scanner is away, or files are in quarantine.
    #[command(after_help = "Example: kurma scan status")]
    Status,
    /// Files that wait for a scan, or are marked by one
    ///
    /// State: `waiting` for its scan; `quarantined`, nobody can read or change it; `reported`, something was found and it was let
    /// go on; `unscanned`, it could not be scanned, and will be; `released`, by an administrator, until it changes.
    #[command(after_help = "Example: kurma scan list --json")]
    List {
        /// Only so many; 0 for as many as 65,536
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Let a file go on as it is: out of quarantine, or without a scan
    ///
    /// Whatever is found in this version of it later does not matter. When the file changes, it is scanned again.
    #[command(after_help = "Example: kurma scan release /home/tools/psexec.exe")]
    Release {
        /// Path, the volume first, or the object as `kurma scan list` prints it
        file: String,
    },
    /// Remove a file in which something was found
    ///
    /// That is, this name of it: other hard links stay, in quarantine as before.
    #[command(after_help = "Example: kurma scan remove /home/downloads/invoice.exe --yes")]
    Remove {
        /// Path, the volume first
        path: String,
        /// Say that this is meant; without it nothing is removed
        #[arg(long)]
        yes: bool,
    },
}

impl ScanCommand {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let client = AdminClient::new(&context.target)?;
        match self {
            ScanCommand::Status => {
                let status = client.get("/v1/scan")?;
                context.show(&status, show);
                let volumes = status["volumes"].as_array().into_iter().flatten();
                let is_quiet = volumes.clone().all(|volume| volume["quarantined"] == 0);
                Ok(if status["state"] != "away" && is_quiet { Outcome::Done } else { Outcome::Degraded })
            }
            ScanCommand::List { limit } => {
                let found = client.get(&format!("/v1/scan/files?limit={limit}"))?;
                context.show(&found["files"], |files| {
                    table::print(
                        files,
                        &[
                            ("/state", "STATE"),
                            ("/path", "FILE"),
                            ("/volume", "VOLUME"),
                            ("/object", "OBJECT"),
                            ("/found", "FOUND"),
                            ("/time", "TIME"),
                        ],
                    );
                    if found["more"] == true {
                        hint("there are more; --limit shows them");
                    }
                });
                Ok(Outcome::Done)
            }
            ScanCommand::Release { file } => {
                let released = client.post("/v1/scan/release", json!({ "file": file }))?;
                context.show(&released, |released| {
                    say(format_args!("{file} is released {}", table::text(released.get("released"))));
                });
                Ok(Outcome::Done)
            }
            ScanCommand::Remove { yes: false, path } => Err(Failure::usage(format_args!(
                "{path} is removed for good; say that this is meant with --yes"
            ))),
            ScanCommand::Remove { path, .. } => {
                let removed = client.post("/v1/scan/remove", json!({ "file": path }))?;
                context.show(&removed, |removed| {
                    say(format_args!(
                        "{path} is removed; {} other names are left",
                        table::text(removed.get("names_left"))
                    ));
                });
                Ok(Outcome::Done)
            }
        }
    }
}

fn show(status: &Value) {
    if status["on"] == false {
        say("nothing is scanned: the configuration has no scan.address");
        let volumes = &status["volumes"];
        if volumes.as_array().is_some_and(|volumes| !volumes.is_empty()) {
            table::print(volumes, &[("/volume", "VOLUME"), ("/quarantined", "QUARANTINED")]);
        }
        return;
    }
    for (key, name) in [
        ("scanner", "scanner"),
        ("state", "state"),
        ("last_error", "last error"),
        ("infected", "infected files"),
        ("fail", "without a scan"),
    ] {
        say(format_args!("{name:<16} {}", table::text(status.get(key))));
    }
    say("");
    table::print(
        &status["volumes"],
        &[
            ("/volume", "VOLUME"),
            ("/waiting", "WAITING"),
            ("/waiting_bytes", "BYTES"),
            ("/quarantined", "QUARANTINED"),
            ("/quarantined_bytes", "BYTES HERE"),
            ("/reported", "REPORTED"),
            ("/unscanned", "UNSCANNED"),
            ("/released", "RELEASED"),
        ],
    );
    say("");
    print_fields(&status["since_start"]);
}
