use std::path::{Path, PathBuf};

use clap::Subcommand;
use gateway::Config;
use gateway::config::{Origin, schema};

use super::Context;
use crate::outcome::{Failure, Outcome, say};

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
            ConfigCommand::Schema => say(format_args!("{:#}", schema())),
        }
        Ok(Outcome::Done)
    }
}

fn chosen(context: &Context, file: Option<PathBuf>) -> Result<PathBuf, Failure> {
    file.or_else(|| context.target.config_file())
        .ok_or_else(|| Failure::usage("which file? Name it, or give --config FILE or --data DIR"))
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
