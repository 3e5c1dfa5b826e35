use clap::Subcommand;
use serde_json::{Value, json};

use super::Context;
use super::storage::print_fields;
use crate::admin_client::AdminClient;
use crate::outcome::{Failure, Outcome, say};

/// Look at the cache, fill it, empty it
#[derive(Subcommand)]
pub enum CacheCommand {
    /// What the cache holds
    #[command(after_help = "Example: kurma cache stats")]
    Stats,
    /// Forget clean data; dirty data stays
    #[command(after_help = "Example: kurma cache drop")]
    Drop,
    /// Bring a file, or all files below a directory, into the cache
    #[command(after_help = "Example: kurma cache warm /home/projects")]
    Warm {
        /// Path, the volume first
        path: String,
    },
    /// As `warm`, and keep them there: what leaves the cache is fetched again
    #[command(after_help = "Example: kurma cache pin /home/projects/model.bin")]
    Pin {
        /// Path, the volume first
        path: String,
    },
    /// Forget the clean data of a file, or of all files below a directory; takes `pin` back
    #[command(after_help = "Example: kurma cache evict /home/projects")]
    Evict {
        /// Path, the volume first
        path: String,
    },
}

impl CacheCommand {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let client = AdminClient::new(&context.target)?;
        let number = |value: &Value, key: &str| value[key].as_u64().unwrap_or(0);
        match self {
            CacheCommand::Stats => {
                let stats = client.get("/v1/cache")?;
                context.show(&stats, print_fields);
            }
            CacheCommand::Drop => {
                let dropped = client.post("/v1/cache/drop", json!({}))?;
                context.show(&dropped, |_| say("clean data is dropped"));
            }
            CacheCommand::Warm { path } => {
                let warmed = client.watch("/v1/cache/warm", json!({ "path": path }), "warming")?;
                context.show(&warmed, |warmed| {
                    let (files, fetched) = (number(warmed, "files"), number(warmed, "fetched"));
                    say(format_args!("{files} files are warm; {fetched} blocks came from the clouds"));
                });
            }
            CacheCommand::Pin { path } => {
                let pinned = client.watch("/v1/cache/pin", json!({ "path": path }), "warming")?;
                context.show(&pinned, |pinned| {
                    say(format_args!("{} files are kept in the cache", number(pinned, "files")));
                });
            }
            CacheCommand::Evict { path } => {
                let evicted = client.post("/v1/cache/evict", json!({ "path": path }))?;
                context.show(&evicted, |evicted| {
                    say(format_args!("{} files are out of the cache", number(evicted, "files")));
                });
            }
        }
        Ok(Outcome::Done)
    }
}
