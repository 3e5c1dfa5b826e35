use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Context, encoded};
use crate::admin_client::AdminClient;
use crate::outcome::{Failure, Outcome, say};
use crate::table;

#[derive(Subcommand)]
#[command(after_help = "Example: kurma volume create archive --policy replicas:3")]
pub enum VolumeCommand {
    /// Make a volume; clients see it at once under the root
    #[command(after_help = "Example: kurma volume create archive --policy replicas:3 --clouds a,b,c")]
    Create {
        /// Name under the root
        name: String,
        #[command(flatten)]
        policy: Policy,
        /// Authenticate and do not encrypt
        #[arg(long)]
        integrity_only: bool,
    },
    /// List the volumes
    #[command(after_help = "Example: kurma volume list --json")]
    List,
    /// One volume with its policy
    #[command(after_help = "Example: kurma volume show home")]
    Show {
        /// Name of the volume
        name: String,
    },
    /// Change the policy for files made from now on
    #[command(after_help = "Example: kurma volume set home --directory vm/images --policy caont-rs:2+1")]
    Set {
        /// Name of the volume
        name: String,
        /// Only for what is made in this directory and below it: a path from the root of the volume. `--policy inherit` ends that
        #[arg(long)]
        directory: Option<String>,
        #[command(flatten)]
        policy: Policy,
    },
    /// Move files that exist to the policy that new ones get, in the background
    ///
    /// Files stay readable and writable meanwhile. It goes on by itself when the gateway starts again; `kurma volume show` tells what is
    /// left. What was stored by the old policy leaves the clouds when `upkeep.gc_delay` is over. Block sizes stay.
    #[command(after_help = "Example: kurma volume migrate home --directory vm/images --wait")]
    Migrate {
        /// Name of the volume
        name: String,
        /// Only what is in this directory and below it: a path from the root of the volume
        #[arg(long)]
        directory: Option<String>,
        /// Return when nothing is left to be moved
        #[arg(long)]
        wait: bool,
    },
    /// Delete an empty volume
    #[command(after_help = "Example: kurma volume delete archive")]
    Delete {
        /// Name of the volume
        name: String,
    },
}

/// How a volume keeps its files.
#[derive(Args)]
pub struct Policy {
    /// `replicas:N`, `rs:K+M`, `aont-rs:K+M` or `caont-rs:K+M`
    #[arg(long)]
    policy: Option<String>,
    /// Clouds by name, in order of fragments
    #[arg(long, value_delimiter = ',')]
    clouds: Option<Vec<String>>,
    /// Block size of new files, 64KiB to 16MiB
    #[arg(long)]
    block_size: Option<String>,
    /// `local`, `cloud`, or `memory` for tests
    #[arg(long)]
    tier: Option<String>,
}

impl Policy {
    fn body(&self, name: &str) -> Value {
        let mut body = json!({ "name": name });
        let fields = [
            ("policy", self.policy.as_ref().map(|v| json!(v))),
            ("clouds", self.clouds.as_ref().map(|v| json!(v))),
            ("block_size", self.block_size.as_ref().map(|v| json!(v))),
            ("tier", self.tier.as_ref().map(|v| json!(v))),
        ];
        for (key, value) in fields {
            if let Some(value) = value {
                body[key] = value;
            }
        }
        body
    }
}

const COLUMNS: &[(&str, &str)] = &[
    ("/name", "NAME"),
    ("/policy", "POLICY"),
    ("/clouds", "CLOUDS"),
    ("/block_size", "BLOCK"),
    ("/tier", "TIER"),
    ("/objects", "OBJECTS"),
    ("/bytes", "BYTES"),
    ("/id", "ID"),
];

const DIRECTORIES: &[(&str, &str)] =
    &[("/path", "DIRECTORY"), ("/policy", "POLICY"), ("/clouds", "CLOUDS"), ("/block_size", "BLOCK")];

/// What is on its way to another policy, if anything.
fn show_migrating(migrating: &Value) {
    let number = |key: &str| migrating[key].as_u64().unwrap_or(0);
    if number("directories") > 0 {
        say("migrating: files are being looked for");
    }
    if number("files") > 0 {
        say(format_args!("migrating: {} files, {}", number("files"), table::size(number("bytes"))));
    }
}

impl VolumeCommand {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let client = AdminClient::new(&context.target)?;
        match self {
            VolumeCommand::Create { name, policy, integrity_only } => {
                let mut body = policy.body(&name);
                if integrity_only {
                    body["integrity_only"] = json!(true);
                }
                let made = client.post("/v1/volumes", body)?;
                context.show(&made, |_| say(format_args!("volume {name} is ready")));
            }
            VolumeCommand::List => {
                let volumes = client.get("/v1/volumes")?;
                context.show(&volumes, |volumes| table::print(volumes, COLUMNS));
            }
            VolumeCommand::Show { name } => {
                let volume = client.get(&format!("/v1/volumes/{}", encoded(&name)))?;
                context.show(&volume, |volume| {
                    table::print(&json!([volume]), COLUMNS);
                    show_migrating(&volume["migrating"]);
                    if volume["directories"].as_array().is_some_and(|directories| !directories.is_empty()) {
                        table::print(&volume["directories"], DIRECTORIES);
                    }
                });
            }
            VolumeCommand::Set { name, directory, policy } => {
                let mut body = policy.body(&name);
                let place = match &directory {
                    Some(path) => format!("{path} of {name}"),
                    None => name.clone(),
                };
                if let Some(path) = directory {
                    body["directory"] = json!(path);
                }
                let volume = client.post(&format!("/v1/volumes/{}/set", encoded(&name)), body)?;
                context.show(&volume, |_| say(format_args!("new files of {place} follow the new policy")));
            }
            VolumeCommand::Migrate { name, directory, wait } => {
                let body = json!({ "directory": directory.unwrap_or_default(), "wait": wait });
                let path = format!("/v1/volumes/{}/migrate", encoded(&name));
                let left = match wait {
                    true => client.watch(&path, body, "migrating")?,
                    false => client.post(&path, body)?,
                };
                context.show(&left, |_| match wait {
                    true => say(format_args!("all files are stored by their present policy")),
                    false => say(format_args!("begun; `kurma volume show {name}` tells what is left")),
                });
            }
            VolumeCommand::Delete { name } => {
                let gone = client.post(&format!("/v1/volumes/{}/delete", encoded(&name)), json!({}))?;
                context.show(&gone, |_| say(format_args!("volume {name} is gone")));
            }
        }
        Ok(Outcome::Done)
    }
}
