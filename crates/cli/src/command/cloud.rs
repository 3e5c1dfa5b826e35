use std::path::Path;

use clap::Subcommand;
use serde_json::{Value, json};

use super::{Context, encoded};
use crate::admin_client::AdminClient;
use crate::outcome::{Failure, Outcome, hint, say};
use crate::table;

/// List, test, add, drain and remove clouds
#[derive(Subcommand)]
pub enum CloudCommand {
    /// Try a new cloud, write it into the configuration and use it from now on
    #[command(after_help = "Example: kurma cloud add cellar --url s3://kurma?endpoint=http://10.0.0.5:9000")]
    Add {
        /// Short name: letters, digits, '-', '_', '.'
        name: String,
        /// `dir:PATH`, `s3://BUCKET/PREFIX?endpoint=URL&region=NAME`, `azure://ACCOUNT/CONTAINER/PREFIX`,
        /// `gcs://BUCKET/PREFIX`, `sftp://USER@HOST:PORT/PATH`, `webdavs://HOST/PATH` or
        /// `swift://CONTAINER/PREFIX?auth=URL`
        #[arg(long)]
        url: String,
        /// File with the credentials of this cloud, which only its owner may read (default: the environment's or the
        /// provider's standard chain)
        #[arg(long)]
        credentials: Option<std::path::PathBuf>,
        /// How long one request may take (default: 30s)
        #[arg(long)]
        timeout: Option<gateway::config::Span>,
        /// Requests at the same time (default: 16)
        #[arg(long)]
        concurrency: Option<usize>,
        /// What the provider charges, as in the configuration: put, get, list and delete for each request, egress_gb,
        /// storage_gb_month
        #[arg(long, value_name = "NAME=NUMBER,...", value_delimiter = ',', value_parser = price)]
        price: Vec<(String, f64)>,
    },
    /// List the clouds with their health
    #[command(after_help = "Example: kurma cloud list --json")]
    List,
    /// One cloud with its health
    #[command(after_help = "Example: kurma cloud show a")]
    Show {
        /// Name of the cloud
        name: String,
    },
    /// Write, read and delete a probe, and measure
    #[command(after_help = "Example: kurma cloud test a")]
    Test {
        /// Name of the cloud
        name: String,
    },
    /// Move everything out of a cloud into another one; nothing new goes there
    ///
    /// Waits until the cloud is empty; interrupted, the gateway goes on. Ends with status 3 when no other cloud can
    /// take the fragments, or when some can neither be copied nor rebuilt at present.
    #[command(after_help = "Example: kurma cloud drain a --to cellar")]
    Drain {
        /// Name of the cloud
        name: String,
        /// Where everything goes (default: a cloud without fragments of the same blocks)
        #[arg(long)]
        to: Option<String>,
    },
    /// Take a cloud away that nothing refers to
    #[command(after_help = "Example: kurma cloud remove a")]
    Remove {
        /// Name of the cloud
        name: String,
    },
}

pub const CLOUD_COLUMNS: &[(&str, &str)] = &[
    ("/name", "NAME"),
    ("/state", "STATE"),
    ("/read_ms", "READ MS"),
    ("/write_ms", "WRITE MS"),
    ("/error_percent", "ERRORS %"),
    ("/requests", "REQUESTS"),
    ("/url", "URL"),
];

impl CloudCommand {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let client = AdminClient::new(&context.target)?;
        match self {
            CloudCommand::Add { name, url, credentials, timeout, concurrency, price } => {
                let mut body = json!({ "name": name, "url": absolute(&url) });
                if let Some(path) = credentials {
                    body["credentials"] = json!(std::path::absolute(&path).unwrap_or(path));
                }
                if let Some(timeout) = timeout {
                    body["timeout"] = json!(timeout.to_string());
                }
                if let Some(concurrency) = concurrency {
                    body["concurrency"] = json!(concurrency);
                }
                if !price.is_empty() {
                    body["price"] = price.into_iter().collect();
                }
                let added = client.post("/v1/clouds", body)?;
                context.show(&added, |_| say(format_args!("cloud {name} is ready")));
            }
            CloudCommand::List => {
                let clouds = client.get("/v1/clouds")?;
                context.show(&clouds, |clouds| table::print(clouds, CLOUD_COLUMNS));
            }
            CloudCommand::Show { name } => {
                let cloud = client.get(&format!("/v1/clouds/{}", encoded(&name)))?;
                context.show(&cloud, |cloud| table::print(&json!([cloud]), CLOUD_COLUMNS));
            }
            CloudCommand::Test { name } => {
                let test = client.post(&format!("/v1/clouds/{}/test", encoded(&name)), json!({}))?;
                context.show(&test, |test| {
                    for step in ["write", "read", "delete"] {
                        say(format_args!("{step:<7} {} ms", table::text(test.get(format!("{step}_ms")))));
                    }
                });
            }
            CloudCommand::Drain { name, to } => return drain(&client, context, &name, to.as_deref()),
            CloudCommand::Remove { name } => {
                let removed = client.post(&format!("/v1/clouds/{}/remove", encoded(&name)), json!({}))?;
                context.show(&removed, |_| say(format_args!("cloud {name} is gone from the configuration")));
            }
        }
        Ok(Outcome::Done)
    }
}

fn drain(client: &AdminClient, context: &Context, name: &str, to: Option<&str>) -> Result<Outcome, Failure> {
    let path = format!("/v1/clouds/{}/drain", encoded(name));
    let drained = client.watch(&path, json!({ "to": to }), "draining")?;
    let number = |key: &str| drained.get(key).and_then(Value::as_u64).unwrap_or(0);
    let left_behind = number("left_behind");
    context.show(&drained, |drained| match drained["to"].as_str() {
        None | Some("") => say(format_args!("nothing was in {name}")),
        Some(to) => {
            let (moved, bytes) = (number("moved"), table::size(number("bytes")));
            say(format_args!("{name} is drained: {moved} fragments, {bytes}, copied to {to}"));
        }
    });
    if left_behind > 0 {
        hint(format_args!(
            "{left_behind} objects in {name} belong to no block that this gateway knows; they were left alone"
        ));
        return Ok(Outcome::Degraded);
    }
    Ok(Outcome::Done)
}

/// `get=0.0000004`.
fn price(text: &str) -> Result<(String, f64), String> {
    let parsed = text.split_once('=').and_then(|(name, price)| Some((name.to_owned(), price.parse().ok()?)));
    parsed.ok_or_else(|| format!("{text:?} is no price; write for example get=0.0000004"))
}

/// The gateway does not know where this command was called.
fn absolute(url: &str) -> String {
    let Some(path) = url.strip_prefix("dir:").map(|path| path.strip_prefix("//").unwrap_or(path)) else {
        return url.to_owned();
    };
    let path = std::path::absolute(path).unwrap_or_else(|_| Path::new(path).to_owned());
    format!("dir:{}", path.display())
}
