//! The commands. Each module holds one family: its arguments and what they do.

mod backup;
mod bench;
mod cache;
mod clients;
mod cloud;
mod config;
mod cost;
mod inspect;
mod key;
mod meta;
mod mount;
mod restore;
mod scan;
mod serve;
mod storage;
mod volume;

use clap::{Parser, Subcommand};

use crate::admin_client::Target;
use crate::files;
use crate::outcome::{Failure, Outcome};

/// A NAS gateway for clouds you need not trust.
///
/// Start one with `kurma up`, mount what it prints, and look at it with `kurma status`.
#[derive(Parser)]
#[command(name = "kurma", version, propagate_version = true, max_term_width = 100, args_override_self = true)]
#[command(after_help = "Example: kurma up --data ./kurma-data")]
pub struct Kurma {
    #[command(flatten)]
    target: Target,
    /// Print data as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a gateway without any configuration
    Up(serve::Up),
    /// Start a gateway from a configuration file
    Serve(serve::Serve),
    /// Check or show a configuration, or have it read again
    #[command(subcommand, after_help = "Example: kurma config check kurma-data/kurma.toml")]
    Config(config::ConfigCommand),
    /// One screen about a running gateway
    Status(inspect::Status),
    /// Make, list and change volumes
    #[command(subcommand, after_help = "Example: kurma volume create archive --policy replicas:3")]
    Volume(volume::VolumeCommand),
    /// List, test, add, replace, rebalance, drain and remove clouds
    #[command(subcommand, after_help = "Example: kurma cloud test a")]
    Cloud(cloud::CloudCommand),
    Cost(cost::Cost),
    /// List, show and evict NFS clients
    #[command(subcommand, after_help = "Example: kurma clients list")]
    Clients(clients::ClientsCommand),
    /// Wait until nothing that was written before is dirty and nothing needs repair
    Flush(storage::Flush),
    /// Look at the cache, fill it, empty it
    #[command(subcommand, after_help = "Example: kurma cache stats")]
    Cache(cache::CacheCommand),
    #[command(subcommand, after_help = "Example: kurma scan status")]
    Scan(scan::ScanCommand),
    /// Verify every fragment in the clouds
    Scrub(storage::Scrub),
    /// Rewrite bad and missing fragments
    Repair(storage::Repair),
    /// Delete what nobody refers to, and clean packs that are mostly garbage
    Gc(storage::Gc),
    /// Where each block of a file is
    Why(inspect::Why),
    /// What clouds did to our data
    TamperLog(inspect::TamperLog),
    /// Check, dump and load the metadata store
    #[command(subcommand, after_help = "Example: kurma meta check")]
    Meta(meta::MetaCommand),
    /// Backups of the metadata in the clouds
    #[command(subcommand, after_help = "Example: kurma backup list")]
    Backup(backup::BackupCommand),
    Restore(restore::Restore),
    /// Show, renew, keep and destroy the keys
    #[command(subcommand, after_help = "Example: kurma key show")]
    Key(key::KeyCommand),
    Mount(mount::Mount),
    Ls(files::Ls),
    Find(files::Find),
    Stat(files::Stat),
    Cat(files::Cat),
    Cp(files::Cp),
    Mv(files::Mv),
    Rm(files::Rm),
    Mkdir(files::Mkdir),
    Ln(files::Ln),
    Sync(files::Sync),
    Tar(files::Tar),
    Untar(files::Untar),
    Bench(bench::Bench),
}

impl Kurma {
    pub fn run(self) -> Result<Outcome, Failure> {
        let context = Context { target: self.target, json: self.json };
        match self.command {
            Command::Up(command) => command.run(&context),
            Command::Serve(command) => command.run(&context),
            Command::Config(command) => command.run(&context),
            Command::Status(command) => command.run(&context),
            Command::Volume(command) => command.run(&context),
            Command::Cloud(command) => command.run(&context),
            Command::Cost(command) => command.run(&context),
            Command::Clients(command) => command.run(&context),
            Command::Flush(command) => command.run(&context),
            Command::Cache(command) => command.run(&context),
            Command::Scan(command) => command.run(&context),
            Command::Scrub(command) => command.run(&context),
            Command::Repair(command) => command.run(&context),
            Command::Gc(command) => command.run(&context),
            Command::Why(command) => command.run(&context),
            Command::TamperLog(command) => command.run(&context),
            Command::Meta(command) => command.run(&context),
            Command::Backup(command) => command.run(&context),
            Command::Restore(command) => command.run(&context),
            Command::Key(command) => command.run(&context),
            Command::Mount(command) => command.run(),
            Command::Ls(command) => command.run(&context),
            Command::Find(command) => command.run(&context),
            Command::Stat(command) => command.run(&context),
            Command::Cat(command) => command.run(&context),
            Command::Cp(command) => command.run(&context),
            Command::Mv(command) => command.run(&context),
            Command::Rm(command) => command.run(&context),
            Command::Mkdir(command) => command.run(&context),
            Command::Ln(command) => command.run(&context),
            Command::Sync(command) => command.run(&context),
            Command::Tar(command) => command.run(&context),
            Command::Untar(command) => command.run(&context),
            Command::Bench(command) => command.run(),
        }
    }
}

/// What every command gets.
pub struct Context {
    pub target: Target,
    pub json: bool,
}

impl Context {
    /// Prints `value` as JSON if that was asked for; otherwise lets `print` do it for people.
    fn show(&self, value: &serde_json::Value, print: impl FnOnce(&serde_json::Value)) {
        if self.json {
            crate::outcome::say(format_args!("{value:#}"));
        } else {
            print(value);
        }
    }
}

/// `value` as part of a URL.
fn encoded(value: &str) -> String {
    value
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => (byte as char).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::*;

    fn check(command: &Command) {
        let name = command.get_name();
        let example = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(example.contains("Example: kurma"), "{name} has no example");
        assert!(command.get_about().is_some(), "{name} says nothing about itself");
        let words = example.split("&& ").last().unwrap().trim_start_matches("Example: ").split_whitespace();
        let parsed = Kurma::try_parse_from(words);
        assert!(parsed.is_ok(), "the example of {name} is wrong: {}", parsed.err().unwrap());
        command.get_subcommands().for_each(check);
    }

    #[test]
    fn every_command_has_help_with_an_example_that_works() {
        check(&Kurma::command());
    }
}
