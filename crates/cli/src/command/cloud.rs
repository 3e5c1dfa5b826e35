use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Context, encoded};
use crate::admin_client::AdminClient;
use crate::outcome::{Failure, Outcome, hint, say};
use crate::table;

/// List, test, add, replace, rebalance, drain and remove clouds
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
        #[command(flatten)]
        usage: Usage,
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
    /// Have a new cloud take over everything that another one has, or had
    ///
    /// What the old cloud still has is copied; what it has lost, or all of it when it is dead or out of the configuration, is rebuilt
    /// from the others. Files stay in use meanwhile. Waits until nothing refers to the old cloud; interrupted, the gateway goes on, also
    /// after a restart, and the same command waits for it again. Ends with status 3 while some fragments can neither be copied nor
    /// rebuilt.
    #[command(
        after_help = "Example: kurma cloud replace a cellar --url s3://kurma?endpoint=http://10.0.0.5:9000"
    )]
    Replace {
        /// Name of the old cloud
        name: String,
        /// Name of the cloud that takes over
        new: String,
        /// Where the new one is, unless it is configured already; as for `kurma cloud add`
        #[arg(long)]
        url: Option<String>,
        #[command(flatten)]
        usage: Usage,
        /// Take the old cloud out of the configuration in the end
        #[arg(long)]
        remove: bool,
    },
    /// Spread files over all clouds, so that each has its share
    ///
    /// For after `kurma cloud add`: a volume on three clouds goes on using these three alone. From then on each file gets its clouds by its number,
    /// as many as its policy needs; those that exist move in the background, at up to `upkeep.migration_rate`, and stay in use meanwhile: a block
    /// is stored on its new clouds before it is deleted on the old ones. It goes on after a restart; `kurma status` tells what is left.
    /// Drained clouds are left out. Files that share blocks stay where they are, and volumes with caont-rs.
    #[command(after_help = "Example: kurma cloud rebalance --dry-run")]
    Rebalance {
        /// Only this volume
        volume: Option<String>,
        /// Only tell how much would move, with the requests and what they would cost by the prices of the configuration
        #[arg(long)]
        dry_run: bool,
        /// Wait until nothing is left to be moved
        #[arg(long, conflicts_with = "dry_run")]
        wait: bool,
    },
    /// Take a cloud away that nothing refers to
    #[command(after_help = "Example: kurma cloud remove a")]
    Remove {
        /// Name of the cloud
        name: String,
    },
}

/// How a cloud is used.
#[derive(Args)]
pub struct Usage {
    /// File with the credentials of this cloud, which only its owner may read (default: the environment's or the
    /// provider's standard chain)
    #[arg(long)]
    credentials: Option<std::path::PathBuf>,
    /// How long one request may take (default: 30s)
    #[arg(long)]
    timeout: Option<gateway::config::Span>,
    /// Requests at the same time, some of which are kept for reads (default: 64 for object stores, 32 for directories,
    /// 16 for SFTP and WebDAV)
    #[arg(long)]
    concurrency: Option<usize>,
    /// What the provider charges, as in the configuration: put, get, list and delete for each request, egress_gb,
    /// storage_gb_month
    #[arg(long, value_name = "NAME=NUMBER,...", value_delimiter = ',', value_parser = price)]
    price: Vec<(String, f64)>,
}

impl Usage {
    /// What the gateway is told of a new cloud.
    fn cloud(self, name: &str, url: &str) -> Value {
        let mut cloud = json!({ "name": name, "url": absolute(url) });
        if let Some(path) = self.credentials {
            cloud["credentials"] = json!(std::path::absolute(&path).unwrap_or(path));
        }
        if let Some(timeout) = self.timeout {
            cloud["timeout"] = json!(timeout.to_string());
        }
        if let Some(concurrency) = self.concurrency {
            cloud["concurrency"] = json!(concurrency);
        }
        if !self.price.is_empty() {
            cloud["price"] = self.price.into_iter().collect();
        }
        cloud
    }
}

pub const CLOUD_COLUMNS: &[(&str, &str)] = &[
    ("/name", "NAME"),
    ("/state", "STATE"),
    ("/drain/to", "MOVES TO"),
    ("/moved_percent", "MOVED %"),
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
            CloudCommand::Add { name, url, usage } => {
                let body = usage.cloud(&name, &url);
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
            CloudCommand::Replace { name, new, url, usage, remove } => {
                let add = url.map(|url| usage.cloud(&new, &url));
                let request = json!({ "to": new, "add": add, "remove": remove });
                return replace(&client, context, &name, request);
            }
            CloudCommand::Rebalance { volume, dry_run, wait } => {
                let request = json!({ "volume": volume, "dry_run": dry_run, "wait": wait });
                let volumes = client.watch("/v1/rebalance", request, "rebalancing")?;
                context.show(&volumes, |volumes| rebalanced(volumes, dry_run));
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
    Ok(shown(context, name, &drained))
}

fn replace(client: &AdminClient, context: &Context, name: &str, request: Value) -> Result<Outcome, Failure> {
    let is_removed = request["remove"] == json!(true);
    let path = format!("/v1/clouds/{}/replace", encoded(name));
    let replaced = client.watch(&path, request, "replacing")?;
    let outcome = shown(context, name, &replaced);
    hint(match is_removed {
        true => format!("{name} is out of the configuration"),
        false => format!("nothing refers to {name} any more; take it out with: kurma cloud remove {name}"),
    });
    Ok(outcome)
}

const ESTIMATE_COLUMNS: &[(&str, &str)] = &[
    ("/cloud", "CLOUD"),
    ("/put", "PUT"),
    ("/get", "GET"),
    ("/delete", "DELETE"),
    ("/up", "UP"),
    ("/down", "DOWN"),
    ("/money", "MONEY"),
];

fn rebalanced(volumes: &Value, dry_run: bool) {
    for volume in volumes.as_array().into_iter().flatten() {
        let (name, estimate) = (table::text(volume.get("volume")), &volume["estimate"]);
        if volume["left_alone"] == json!(true) {
            say(format_args!("{name}: left alone, for its content is stored once"));
            continue;
        }
        let (files, bytes) = (table::text(estimate.get("files")), estimate["bytes"].as_u64().unwrap_or(0));
        let verb = if dry_run { "would move" } else { "move" };
        say(format_args!("{name}: {files} files, {}, {verb}", table::size(bytes)));
        let clouds = estimate["clouds"].as_object().into_iter().flatten().map(|(cloud, work)| {
            let mut row = work.clone();
            row["cloud"] = json!(cloud);
            for way in ["up", "down"] {
                row[way] = json!(table::size(work[format!("{way}_bytes")].as_u64().unwrap_or(0)));
            }
            row
        });
        let clouds: Vec<Value> = clouds.collect();
        if dry_run && !clouds.is_empty() {
            table::print(&clouds.into(), ESTIMATE_COLUMNS);
        }
    }
}

fn shown(context: &Context, name: &str, drained: &Value) -> Outcome {
    let number = |key: &str| drained.get(key).and_then(Value::as_u64).unwrap_or(0);
    let left_behind = number("left_behind");
    context.show(drained, |drained| match drained["to"].as_str() {
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
        return Outcome::Degraded;
    }
    Outcome::Done
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
