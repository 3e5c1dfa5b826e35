use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use gateway::Config;
use serde_json::json;

use super::Context;
use crate::admin_client::AdminClient;
use crate::outcome::{Failure, Outcome, hint, say};
use crate::progress::Progress;
use crate::table;

/// Check, dump and load the metadata store
#[derive(Subcommand)]
pub enum MetaCommand {
    /// Verify every invariant of the metadata
    #[command(after_help = "Example: kurma meta check")]
    Check,
    /// Write all metadata into one sealed file; it opens with the gateway's key file only
    ///
    /// The dump refers to blocks in the clouds: it is of use as long as they are there (upkeep.gc_delay). What is not yet
    /// in the clouds is not in it: `kurma flush` first; otherwise the command ends with status 3.
    #[command(after_help = "Example: kurma flush && kurma meta dump backup.kurma")]
    Dump {
        /// The file; `-` for standard output
        file: PathBuf,
    },
    /// Load a dump into a data folder that has no metadata yet, and check it; the gateway must not run
    #[command(after_help = "Example: kurma meta load backup.kurma --data kurma-data")]
    Load {
        /// The file
        file: PathBuf,
    },
}

impl MetaCommand {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        match self {
            MetaCommand::Check => check(context),
            MetaCommand::Dump { file } => dump(context, &file),
            MetaCommand::Load { file } => load(context, &file),
        }
    }
}

fn check(context: &Context) -> Result<Outcome, Failure> {
    let report = AdminClient::new(&context.target)?.post("/v1/meta/check", json!({}))?;
    let findings = report["findings"].as_array().map_or(0, Vec::len);
    context.show(&report, |report| {
        for finding in report["findings"].as_array().into_iter().flatten() {
            say(table::text(Some(finding)));
        }
        let objects = report["objects"].as_u64().unwrap_or(0);
        say(format_args!("{objects} objects, {findings} findings"));
    });
    damaged(findings)
}

fn damaged(findings: usize) -> Result<Outcome, Failure> {
    match findings {
        0 => Ok(Outcome::Done),
        _ => Err(Failure::failed("the metadata is damaged; see the findings")),
    }
}

fn dump(context: &Context, path: &Path) -> Result<Outcome, Failure> {
    let client = AdminClient::new(&context.target)?;
    let (dirty, mut body) = client.download("/v1/meta/dump")?;
    let mut progress = Progress::new("dumping");
    let mut copy = |mut to: &mut dyn Write| -> io::Result<u64> {
        let mut buffer = vec![0; 1 << 20];
        let mut total = 0;
        loop {
            let count = body.read(&mut buffer)?;
            if count == 0 {
                return Ok(total);
            }
            (&mut to).write_all(&buffer[..count])?;
            total += count as u64;
            progress.set(total, None, true);
        }
    };
    let to_stdout = path == Path::new("-");
    let failed = |cause: io::Error| Failure::failed(format!("{}: {cause}", path.display()));
    let bytes = if to_stdout {
        copy(&mut io::stdout().lock()).map_err(failed)?
    } else {
        // Whole or not there.
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let mut write = |part: &Path| {
            let mut file = File::create(part)?;
            let bytes = copy(&mut file)?;
            file.sync_all()?;
            std::fs::rename(part, path)?;
            Ok(bytes)
        };
        write(&part).map_err(|cause: io::Error| {
            // Nothing but a leftover.
            let _ = std::fs::remove_file(&part);
            failed(cause)
        })?
    };
    drop(progress);
    if !to_stdout {
        let report = json!({ "file": path, "bytes": bytes, "dirty_bytes": dirty });
        context.show(&report, |_| say(format_args!("{}: {}", path.display(), table::size(bytes))));
    }
    if dirty > 0 {
        hint(format_args!(
            "{} were not in the clouds yet and are not in the dump; `kurma flush` and dump again",
            table::size(dirty)
        ));
        return Ok(Outcome::Degraded);
    }
    Ok(Outcome::Done)
}

fn load(context: &Context, dump: &Path) -> Result<Outcome, Failure> {
    let file = context.target.config_file();
    let file = file.ok_or_else(|| Failure::usage("load needs --data DIR or --config FILE"))?;
    let config = Config::load(&file).map_err(Failure::usage)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::failed)?;
    let report = runtime.block_on(gateway::load_dump(&config, dump)).map_err(Failure::usage)?;
    let value = json!({ "rows": report.rows, "objects": report.objects, "findings": report.findings });
    context.show(&value, |_| {
        report.findings.iter().for_each(say);
        let findings = report.findings.len();
        say(format_args!("{} rows, {} objects, {findings} findings", report.rows, report.objects));
    });
    damaged(report.findings.len())
}
