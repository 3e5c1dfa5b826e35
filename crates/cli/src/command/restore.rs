use std::path::PathBuf;

use clap::Args;
use gateway::{RestoreOptions, Restored};
use serde_json::json;

use super::Context;
use crate::outcome::{Failure, Outcome, hint, say};
use crate::table;

/// Make a data folder out of the key file and the clouds, after a machine was lost
///
/// Takes the newest backup that any cloud has whole, and says up to which instant it goes, and what each cloud has. `kurma
/// up --data DIR` goes on from there. The lost gateway must not come back: two gateways would delete what the other needs.
#[derive(Args)]
#[command(after_help = "Example: kurma restore --to new-data --keys recovery.key")]
pub struct Restore {
    /// The new data folder; empty or not there
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// What `kurma key export` wrote: the file, the words, or with one --keys for each as many shares as are needed; or a plain key file, with
    /// --cloud
    #[arg(long, value_name = "FILE", required = true)]
    keys: Vec<PathBuf>,
    /// A cloud that has moved, or is not in the file: its name, and where it is now
    #[arg(long, value_name = "NAME=URL")]
    cloud: Vec<String>,
    /// A file with the credentials of a cloud that has some of its own; those of the lost machine are not in the backup
    #[arg(long, value_name = "NAME=FILE")]
    credentials: Vec<String>,
    /// Take this branch, although another one has newer backups
    #[arg(long, value_name = "NUMBER")]
    branch: Option<u32>,
}

impl Restore {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let pair = |text: &str, what: &str| {
            let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
            pair.ok_or_else(|| Failure::usage(format!("{text:?} is not {what}")))
        };
        let clouds =
            self.cloud.iter().map(|text| pair(text, "--cloud NAME=URL")).collect::<Result<_, _>>()?;
        let credentials = self.credentials.iter().map(|text| {
            pair(text, "--credentials NAME=FILE").map(|(name, file)| (name, PathBuf::from(file)))
        });
        let options = RestoreOptions {
            to: self.to.clone(),
            keys: self.keys,
            clouds,
            credentials: credentials.collect::<Result<_, _>>()?,
            branch: self.branch,
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::failed)?;
        let restored = runtime.block_on(gateway::restore(&options)).map_err(Failure::usage)?;
        let value = json!(restored);
        context.show(&value, |value| {
            say(format_args!(
                "restored {} as of {} (transaction {}, backup {} of branch {}): {} objects",
                self.to.display(),
                crate::files::date_of(restored.time),
                restored.transaction,
                restored.backup,
                restored.branch,
                restored.objects,
            ));
            table::print(
                &value["clouds"],
                &[
                    ("/cloud", "CLOUD"),
                    ("/state", "STATE"),
                    ("/backup", "BACKUP"),
                    ("/transaction", "TRANSACTION"),
                    ("/problem", "PROBLEM"),
                ],
            );
        });
        tell(&restored);
        match restored.findings.is_empty() {
            false => Err(Failure::failed("the metadata is damaged; see the findings")),
            true if restored.is_whole() => Ok(Outcome::Done),
            true => Ok(Outcome::Degraded),
        }
    }
}

fn tell(restored: &Restored) {
    for cloud in &restored.clouds {
        let (name, state) = (table::text(cloud.get("cloud")), table::text(cloud.get("state")));
        match state.as_str() {
            "older" => hint(format_args!("the cloud {name} gives back an old backup")),
            "unreachable" => {
                hint(format_args!("the cloud {name} did not answer: a newer backup may be there"));
            }
            _ => {}
        }
    }
    restored.problems.iter().for_each(|problem| hint(format_args!("problem: {problem}")));
    for lost in &restored.lost {
        hint(format_args!(
            "lost: {}: {} bytes that were not in the clouds; its size was {} and is {}",
            lost.path,
            lost.ranges.iter().map(|(start, end)| end - start).sum::<u64>(),
            lost.size_was,
            lost.size,
        ));
    }
    restored.findings.iter().for_each(|finding| hint(format_args!("finding: {finding}")));
}
