//! `ln`: links by the hundred.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use vector_client::{AttributeSet, Kind, Step, Target};

use super::destination::{Into, Operands, pairs};
use super::place::{Place, trimmed};
use super::quote::{quoted, quoted_if_needed};
use super::session::{self, Common, Session, errno_words, words};
use crate::command::Context;
use crate::outcome::{Failure, Outcome};

/// Make links
#[derive(Args)]
#[command(disable_help_flag = true, after_help = "Example: kurma ln -s ../data nfs://127.0.0.1/home/link")]
pub struct Ln {
    /// Symbolic links; the text of each is what is written, for a URL its path
    #[arg(short = 's', long)]
    symbolic: bool,
    /// Remove what exists
    #[arg(short = 'f', long)]
    force: bool,
    /// Ask before something is removed
    #[arg(short = 'i', long)]
    interactive: bool,
    /// A symbolic link to a directory is no directory to make links in
    #[arg(short = 'n', long)]
    no_dereference: bool,
    /// Say what was made
    #[arg(short = 'v', long)]
    verbose: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    operands: Operands,
}

impl Ln {
    pub fn run(mut self, _: &Context) -> Result<Outcome, Failure> {
        let into = match self.operands.placement() {
            Into::IfDirectory if self.no_dereference => Into::IfNoLink,
            into => into,
        };
        let target = self.operands.take_target().unwrap_or_else(|| ".".into());
        session::run("ln", &self.common, async |session| {
            let target = session.place(&target).await?;
            let mut sources = Vec::new();
            for file in &self.operands.files {
                // The text of a symbolic link is no place, but has a last name like one.
                sources.push(match self.symbolic && !file.as_bytes().starts_with(b"nfs://") {
                    true => Place { shown: file.as_bytes().to_vec(), is_local: true, ..target.clone() },
                    false => session.place(file).await?,
                });
            }
            let pairs = pairs(session, sources, target, into).await?;
            match pairs.first() {
                Some(_) => self.make(session, pairs).await,
                None => Ok(()),
            }
        })
    }

    async fn make(&self, session: &mut Session, pairs: Vec<(Place, Place)>) -> Result<(), Failure> {
        let client = pairs[0].1.client.clone();
        let pairs = if self.symbolic { pairs } else { self.linkable(session, pairs).await? };
        let links = self.links(session, pairs).await?;
        let step = |link: &Link| match self.symbolic {
            true => Step::MakeSymbolicLink { target: link.made.clone(), text: text(&link.source).into() },
            false => Step::HardLink { existing: link.source.target.clone(), new: link.made.clone() },
        };
        let made = client.execute_each(links.iter().map(step).collect()).await.map_err(Failure::failed)?;
        let replacing =
            |(link, made): &(&Link, &Result<_, _>)| made.is_ok() && link.made != link.target.target;
        let moves = links.iter().zip(&made).filter(replacing);
        let moves =
            moves.map(|(link, _)| Step::Rename { from: link.made.clone(), to: link.target.target.clone() });
        let moved = client.execute_each(moves.collect()).await.map_err(Failure::failed)?;
        let mut moved = moved.into_iter();
        for (Link { source, target, made }, result) in links.iter().zip(made) {
            let result = match result {
                Ok(_) if *made != target.target => moved.next().unwrap_or(result),
                result => result,
            };
            if result.is_err() && *made != target.target {
                // What it was to replace stays.
                let _ = client.vremove(vec![made.clone()]).await;
            }
            let (from, to) = (quoted(&source.shown), quoted(&target.shown));
            let (kind, arrow) = if self.symbolic { ("symbolic", "->") } else { ("hard", "=>") };
            match result {
                Ok(_) if self.verbose => session.say(format_args!("{to} {arrow} {from}")),
                Ok(_) => {}
                Err(error) => {
                    // Which one it is about is plain if the target exists, or there is no room for it.
                    let is_plain = self.symbolic || matches!(error.errno(), 17 | 28 | 30 | 122);
                    let source = if is_plain { String::new() } else { format!(" => {from}") };
                    let why = words(&error);
                    session.complain(format_args!("failed to create {kind} link {to}{source}: {why}"));
                }
            }
        }
        Ok(())
    }

    /// Those that can have a further name.
    async fn linkable(
        &self,
        session: &mut Session,
        pairs: Vec<(Place, Place)>,
    ) -> Result<Vec<(Place, Place)>, Failure> {
        let mut kept = Vec::new();
        let sources: Vec<Place> = pairs.iter().map(|(source, _)| source.clone()).collect();
        let found = super::ls::attributes(&sources, AttributeSet::KIND, false).await?;
        for ((source, target), found) in pairs.into_iter().zip(found) {
            let shown = quoted(&source.shown);
            match found {
                Err(error) => session.complain(format_args!("failed to access {shown}: {}", words(&error))),
                Ok(it) if it.is(Kind::Directory) => session.complain(format_args!(
                    "{}: hard link not allowed for directory",
                    quoted_if_needed(&source.shown)
                )),
                Ok(_) if !source.client.is_same(&target.client) => {
                    let to = quoted(&target.shown);
                    let why = errno_words(18);
                    session.complain(format_args!("failed to create hard link {to} => {shown}: {why}"));
                }
                Ok(_) => kept.push((source, target)),
            }
        }
        Ok(kept)
    }

    /// What is to be made under which name. What takes the place of something is made beside it.
    async fn links(&self, session: &mut Session, pairs: Vec<(Place, Place)>) -> Result<Vec<Link>, Failure> {
        let plain = |(source, target): (Place, Place)| Link { made: target.target.clone(), source, target };
        if !self.force && !self.interactive {
            return Ok(pairs.into_iter().map(plain).collect());
        }
        let wanted = AttributeSet::KIND | AttributeSet::FILE_ID | AttributeSet::FILE_SYSTEM;
        let identity = |it: &vector_client::Attributes| it.file_id.zip(it.file_system);
        let mut kept = Vec::new();
        for (source, target) in pairs {
            let there = target.client.vlgetattrs(vec![target.target.clone()], wanted).await;
            let Some(there) = there.ok().and_then(|mut there| there.pop()) else {
                kept.push(plain((source, target)));
                continue;
            };
            let own = match self.symbolic {
                // What its text means from here, as with coreutils.
                true => {
                    let meant = session.place(OsStr::from_bytes(&source.shown)).await?;
                    let is_near = meant.client.is_same(&target.client);
                    if is_near { meant.client.stat(&meant.target).await.ok() } else { None }
                }
                false => source.client.lstat(&source.target).await.ok(),
            };
            if own.as_ref().is_some_and(|own| identity(own).is_some() && identity(own) == identity(&there)) {
                let (from, to) = (quoted(&source.shown), quoted(&target.shown));
                session.complain(format_args!("{from} and {to} are the same file"));
            } else if there.is(Kind::Directory) {
                session.complain(format_args!(
                    "{}: cannot overwrite directory",
                    quoted_if_needed(&target.shown)
                ));
            } else if !self.interactive || session.ask(format_args!("replace {}?", quoted(&target.shown))) {
                let made = beside(&target.target, kept.len());
                kept.push(Link { source, target, made });
            }
        }
        Ok(kept)
    }
}

struct Link {
    source: Place,
    target: Place,
    /// The name that it is made under.
    made: Target,
}

/// A name in the same directory that nobody else has.
fn beside(target: &Target, number: usize) -> Target {
    let path = trimmed(target.path());
    let directory = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let name = format!(".kurma-ln-{}-{number}", std::process::id());
    Target::at(target.base().clone(), [&path[..directory], name.as_bytes()].concat())
}

/// The text of a symbolic link to this.
fn text(source: &Place) -> Vec<u8> {
    match OsStr::from_bytes(&source.shown).as_bytes().starts_with(b"nfs://") {
        true => source.target.path().to_vec(),
        false => source.shown.clone(),
    }
}
