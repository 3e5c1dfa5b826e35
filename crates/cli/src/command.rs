//! The commands. Each module holds one family: its arguments and what they do.

mod config;
mod inspect;
mod serve;
mod storage;
mod volume;

use clap::{Parser, Subcommand};

use crate::admin_client::Target;
use crate::outcome::{Failure, Outcome};

/// A NAS gateway for clouds you need not trust.
///
/// Start one with `kurma up`, mount what it prints, and look at it with `kurma status`.
#[derive(Parser)]
#[command(name = "kurma", version, propagate_version = true, max_term_width = 100)]
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
    /// Check or show a configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// One screen about a running gateway
    Status(inspect::Status),
    /// Make, list and change volumes
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    /// List and test clouds
    #[command(subcommand)]
    Cloud(storage::CloudCommand),
    /// Wait until nothing is dirty and nothing needs repair
    Flush(storage::Flush),
    /// Look at the cache, or drop what is clean
    #[command(subcommand)]
    Cache(storage::CacheCommand),
    /// Verify every fragment in the clouds
    Scrub(storage::Scrub),
    /// Rewrite bad and missing fragments
    Repair(storage::Repair),
    /// Delete what nobody refers to
    Gc(storage::Gc),
    /// Where each block of a file is
    Why(inspect::Why),
    /// What clouds did to our data
    TamperLog(inspect::TamperLog),
    /// The metadata store
    #[command(subcommand)]
    Meta(inspect::MetaCommand),
    /// The keys
    #[command(subcommand)]
    Key(inspect::KeyCommand),
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
            Command::Flush(command) => command.run(&context),
            Command::Cache(command) => command.run(&context),
            Command::Scrub(command) => command.run(&context),
            Command::Repair(command) => command.run(&context),
            Command::Gc(command) => command.run(&context),
            Command::Why(command) => command.run(&context),
            Command::TamperLog(command) => command.run(&context),
            Command::Meta(command) => command.run(&context),
            Command::Key(command) => command.run(&context),
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
