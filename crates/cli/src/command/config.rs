use std::path::{Path, PathBuf};

use clap::Subcommand;
use gateway::Config;
use gateway::config::{Origin, schema};
use serde_json::json;

use super::Context;
use crate::admin_client::AdminClient;
use crate::outcome::{Failure, Outcome, say};
use crate::table;

#[derive(Subcommand)]
#[command(after_help = "Example: kurma config check kurma-data/kurma.toml")]
pub enum ConfigCommand {
    /// Check a file: unknown keys and bad values are errors
    #[command(after_help = "Example: kurma config check kurma-data/kurma.toml")]
    Check {
        /// The file (default: that of --config or --data)
        file: Option<PathBuf>,
    },
    /// Print every value with its default and where it comes from
    #[command(after_help = "Example: kurma config show --data kurma-data")]
    Show {
        /// The file (default: that of --config or --data)
        file: Option<PathBuf>,
    },
    /// Have the running gateway read its configuration again; clients stay connected
    ///
    /// A file with mistakes changes nothing. In force at once: what volumes demand and offer (`export`), certificates and
    /// keytab (also when only their contents have changed), nfs.names, nfs.domain, log.level, upkeep.stop_wait, and how files are scanned (not by whom). Ends with status 3 when something
    /// else has changed, and says what that needs.
    #[command(after_help = "Example: kurma config reload --data kurma-data")]
    Reload,
    /// Print the JSON schema of the file
    #[command(after_help = "Example: kurma config schema")]
    Schema,
}

impl ConfigCommand {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        match self {
            ConfigCommand::Check { file } => {
                let file = chosen(context, file)?;
                Config::load(&file).map_err(Failure::usage)?;
                say(format_args!("{}: good", file.display()));
            }
            ConfigCommand::Show { file } => show(context, &chosen(context, file)?)?,
            ConfigCommand::Reload => return reload(context),
            ConfigCommand::Schema => say(format_args!("{:#}", schema())),
        }
        Ok(Outcome::Done)
    }
}

fn chosen(context: &Context, file: Option<PathBuf>) -> Result<PathBuf, Failure> {
    file.or_else(|| context.target.config_file())
        .ok_or_else(|| Failure::usage("which file? Name it, or give --config FILE or --data DIR"))
}

fn reload(context: &Context) -> Result<Outcome, Failure> {
    let reloaded = AdminClient::new(&context.target)?.post("/v1/config/reload", json!({}))?;
    let list = |key: &str| reloaded[key].as_array().cloned().unwrap_or_default();
    let (applied, pending) = (list("applied"), list("pending"));
    context.show(&reloaded, |_| {
        for key in &applied {
            say(format_args!("in force: {}", table::text(Some(key))));
        }
        for change in &pending {
            let (key, needs) = (table::text(change.get("key")), table::text(change.get("needs")));
            say(format_args!("not in force: {key}: {needs}"));
        }
        if applied.is_empty() && pending.is_empty() {
            say("nothing has changed");
        }
    });
    Ok(if pending.is_empty() { Outcome::Done } else { Outcome::Degraded })
}

fn show(context: &Context, file: &Path) -> Result<(), Failure> {
    let text = std::fs::read_to_string(file).map_err(|cause| {
        Failure::usage(format!("cannot read the configuration {}: {cause}", file.display()))
    })?;
    let settings = Config::settings(&text, file).map_err(Failure::usage)?;
    let value = serde_json::to_value(&settings).map_err(Failure::failed)?;
    context.show(&value, |_| {
        for setting in &settings {
            let origin = match setting.origin {
                Origin::Default => "default".to_owned(),
                Origin::Line(line) => match &setting.default {
                    Some(default) => format!("line {line}, default {default}"),
                    None => format!("line {line}"),
                },
            };
            say(format_args!("{} = {}  # {origin}", setting.key, setting.value));
        }
    });
    Ok(())
}
