use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, Subcommand};
use gateway::{Config, KeyForm};
use serde_json::{Value, json};

use super::Context;
use super::storage::print_fields;
use crate::admin_client::AdminClient;
use crate::outcome::{Failure, Outcome, hint, say};
use crate::table;

/// The keys
#[derive(Subcommand)]
pub enum KeyCommand {
    /// Identity and public part of the gateway's key, and the epochs of the volumes' keys
    #[command(after_help = "Example: kurma key show")]
    Show,
    Rotate(Rotate),
    Shred(Shred),
    Export(Export),
    Import(Import),
    Combine(Combine),
}

/// Begin a new epoch of a volume's keys, or of all volumes
///
/// Whatever is written from now on is sealed under keys that follow from the new epoch key. What was stored before stays as it is,
/// and is read as before; the keys of its files are put under the new epoch key in the background, and the old epoch key is destroyed
/// when that is done (`kurma key show` tells how far it is). Recovery files stay good.
#[derive(Args)]
#[command(after_help = "Example: kurma key rotate home --wait")]
pub struct Rotate {
    /// The volume; all of them, if none is named
    volume: Option<String>,
    /// Return when the old epoch keys are destroyed
    #[arg(long)]
    wait: bool,
}

/// Destroy the keys of a file, a tree or a volume: what clouds have of it stays noise for ever
///
/// The files are removed. The gateway gets a new key, to which all other keys come, and the old one is destroyed, so that nothing in
/// old backups opens any more: recovery files, words and shares of before are of no use afterwards, and have to be destroyed by whoever has them, for
/// together with what a cloud has kept they would open what was shredded. The new recovery file is written before anything is destroyed.
/// Prints a signed statement about it.
#[derive(Args)]
#[command(after_help = "Example: kurma key shred home/secret --recovery new.key --proof shredded.txt --yes")]
pub struct Shred {
    /// The volume, or a path, the volume first
    #[arg(required_unless_present = "verify")]
    what: Option<String>,
    /// The new recovery file; the gateway writes it, so name a place where that may write
    #[arg(long, value_name = "FILE", required_unless_present = "verify")]
    recovery: Option<PathBuf>,
    /// Really do it: nothing brings the files back
    #[arg(long)]
    yes: bool,
    /// Also shred the files that share blocks with them, and remove their other names
    #[arg(long)]
    sharing: bool,
    /// Write the statement into this new file
    #[arg(long, value_name = "FILE")]
    proof: Option<PathBuf>,
    /// Do nothing but verify such a statement: by the key of --keys, or of the gateway that --data or --config names
    #[arg(long, value_name = "FILE", conflicts_with_all = ["what", "recovery", "yes", "sharing", "proof"])]
    verify: Option<PathBuf>,
    /// With --verify: a recovery file, words or shares, of whatever time
    #[arg(long, value_name = "FILE", requires = "verify")]
    keys: Vec<PathBuf>,
}

/// Write all that a restore needs beside the clouds into a file: the key, and where the clouds are
///
/// Keep it away from this machine, and secret: whoever has it and one of the clouds can read all names, and whoever has it
/// and enough clouds can read everything. Write it anew when clouds are added, and after `kurma key shred`.
#[derive(Args)]
#[command(after_help = "Example: kurma key export recovery.key --data kurma-data")]
pub struct Export {
    /// The new file; with --shares a new folder
    file: PathBuf,
    /// As words, to be printed or written by hand
    #[arg(long, conflicts_with = "shares")]
    paper: bool,
    /// As N shares, in a file each, K of which together are the key, while fewer tell nothing
    #[arg(long, value_name = "K/N")]
    shares: Option<Split>,
}

/// Make a recovery file of words
///
/// Words may be cut to four letters. Where the clouds are follows from the lines behind the words; without these,
/// `kurma restore` has to be told (--cloud).
#[derive(Args)]
#[command(after_help = "Example: kurma key import words.txt --to recovery.key")]
pub struct Import {
    /// A file with the words
    file: PathBuf,
    /// The new file
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

/// Make a recovery file of shares
///
/// A share may also be a file with its words alone.
#[derive(Args)]
#[command(after_help = "Example: kurma key combine share-1-of-5.txt share-4-of-5.txt --to recovery.key")]
pub struct Combine {
    /// Files with a share each, as many as are needed
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The new file
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

/// How many shares are needed, and how many there are.
#[derive(Clone, Copy)]
struct Split(usize, usize);

impl FromStr for Split {
    type Err = String;

    fn from_str(text: &str) -> Result<Split, String> {
        let parse = || {
            let (needed, total) = text.split_once('/')?;
            Some(Split(needed.parse().ok()?, total.parse().ok()?))
        };
        parse().ok_or_else(|| "expected K/N, such as 3/5: any 3 of 5 shares are the key".to_owned())
    }
}

impl KeyCommand {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        match self {
            KeyCommand::Show => show(context),
            KeyCommand::Rotate(command) => command.run(context),
            KeyCommand::Shred(command) => command.run(context),
            KeyCommand::Export(command) => command.run(context),
            KeyCommand::Import(command) => command.run(context),
            KeyCommand::Combine(command) => command.run(context),
        }
    }
}

fn show(context: &Context) -> Result<Outcome, Failure> {
    let key = AdminClient::new(&context.target)?.get("/v1/key")?;
    context.show(&key, |key| {
        let mut fields = key.clone();
        let volumes = fields.as_object_mut().and_then(|fields| fields.remove("volumes"));
        print_fields(&fields);
        say("");
        print_epochs(&volumes.unwrap_or_default());
    });
    Ok(Outcome::Done)
}

fn print_epochs(volumes: &Value) {
    table::print(
        volumes,
        &[
            ("/name", "VOLUME"),
            ("/keys/epoch", "EPOCH"),
            ("/keys/old_epochs", "OLD KEYS"),
            ("/keys/rows", "ROWS SEEN"),
            ("/keys/rewrapped", "REWRAPPED"),
        ],
    );
}

impl Rotate {
    fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let client = AdminClient::new(&context.target)?;
        let body = json!({ "volume": self.volume, "wait": self.wait });
        let rotated = client.watch("/v1/keys/rotate", body, "rotating keys")?;
        context.show(&rotated, |rotated| print_epochs(&rotated["volumes"]));
        if !self.wait {
            hint("the keys of files follow in the background; `kurma key show` tells how far they are");
        }
        Ok(Outcome::Done)
    }
}

impl Shred {
    fn run(self, context: &Context) -> Result<Outcome, Failure> {
        if let Some(file) = &self.verify {
            return self.verify(context, file);
        }
        let (Some(what), Some(recovery)) = (self.what, self.recovery) else {
            return Err(Failure::usage("name what is to be shredded, and the new recovery file"));
        };
        if !self.yes {
            return Err(Failure::usage(format!(
                "{what} could never be read again, nor could any recovery file of before be used: say --yes if that is meant"
            )));
        }
        let recovery = std::path::absolute(recovery).map_err(Failure::usage)?;
        let proof = self.proof.map(|proof| create_new(&proof).map(|file| (proof, file))).transpose()?;
        let body = json!({ "what": what, "recovery": recovery, "sharing": self.sharing });
        let shredded = AdminClient::new(&context.target)?.post("/v1/keys/shred", body);
        let shredded = match shredded {
            Ok(shredded) => shredded,
            Err(failure) => {
                if let Some((proof, _)) = &proof {
                    let _ = std::fs::remove_file(proof); // it is empty
                }
                return Err(failure);
            }
        };
        let statement = shredded["statement"].as_str().unwrap_or_default();
        if let Some((path, mut file)) = proof {
            let written = file.write_all(statement.as_bytes()).and_then(|()| file.sync_all());
            written.map_err(|cause| {
                Failure::failed(format!("{}: {cause}; the statement is also in shredded.log", path.display()))
            })?;
        }
        context.show(&shredded, |_| say(statement.trim_end()));
        hint(format_args!(
            "{} is the only file that brings this gateway back; destroy all recovery files, words and shares of before",
            recovery.display()
        ));
        Ok(Outcome::Done)
    }

    fn verify(&self, context: &Context, file: &Path) -> Result<Outcome, Failure> {
        let keys = match (&self.keys[..], context.target.config_file()) {
            ([], Some(config)) => vec![Config::load(&config).map_err(Failure::usage)?.gateway.key_file],
            (keys, _) => keys.to_vec(),
        };
        let statement = gateway::verify_shredding(file, &keys).map_err(Failure::failed)?;
        context.show(&json!(statement), |_| {
            for (name, value) in &statement.fields {
                say(format_args!("{name:<18} {value}"));
            }
            say(format_args!("{:<18} {}", "signer", statement.signer));
        });
        match keys.is_empty() {
            true => hint("the signature holds; whose it is, only --keys, --data or --config tells"),
            false => hint("the signature holds, and is this gateway's"),
        }
        Ok(if keys.is_empty() { Outcome::Degraded } else { Outcome::Done })
    }
}

fn create_new(path: &Path) -> Result<std::fs::File, Failure> {
    let file = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    file.map_err(|cause| Failure::usage(format!("cannot write {}: {cause}", path.display())))
}

/// The configuration of the gateway that is meant; it need not run.
fn config(context: &Context, command: &str) -> Result<Config, Failure> {
    let file = context.target.config_file();
    let file = file.ok_or_else(|| Failure::usage(format!("{command} needs --data DIR or --config FILE")))?;
    Config::load(&file).map_err(Failure::usage)
}

impl Export {
    fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let config = config(context, "export")?;
        let form = match (self.paper, self.shares) {
            (true, _) => KeyForm::Words,
            (false, Some(Split(needed, total))) => KeyForm::Shares(needed, total),
            (false, None) => KeyForm::File,
        };
        let files = gateway::export_recovery(&config, &self.file, form).map_err(Failure::usage)?;
        let clouds: Vec<_> = config.clouds.iter().map(|cloud| &cloud.name).collect();
        let report = json!({ "file": self.file, "files": files, "clouds": clouds });
        context.show(&report, |_| {
            let what = match form {
                KeyForm::File => "the key",
                KeyForm::Words => "the key in words",
                KeyForm::Shares(..) => "a share of the key",
            };
            for file in &files {
                say(format_args!("{}: {what}, and {} clouds", file.display(), clouds.len()));
            }
        });
        match form {
            KeyForm::Shares(needed, _) => {
                hint(format_args!("give them to different people: any {needed} of them have the key"));
            }
            _ => hint("keep it secret, and away from this machine"),
        }
        Ok(Outcome::Done)
    }
}

impl Import {
    fn run(self, context: &Context) -> Result<Outcome, Failure> {
        import(context, &[self.file], &self.to)
    }
}

impl Combine {
    fn run(self, context: &Context) -> Result<Outcome, Failure> {
        import(context, &self.files, &self.to)
    }
}

fn import(context: &Context, from: &[PathBuf], to: &Path) -> Result<Outcome, Failure> {
    let key = gateway::import_recovery(from, to).map_err(Failure::usage)?;
    let report = json!({ "file": to, "gateway": key.gateway().0, "key": key.id().to_string(), "generation": key.generation() });
    context.show(&report, |_| {
        say(format_args!("{}: the key of gateway {} ({})", to.display(), key.gateway(), key.id()));
    });
    hint("keep it secret, and remove it when it is not needed any more");
    Ok(Outcome::Done)
}
