//! `mv`: renames in one request; between servers, copies and removes.

use std::collections::HashSet;

use clap::Args;
use vector_client::{AttributeSet, Attributes, CopyOptions, Error, Kind, Preserve, Step, Target};

use super::cp::copy;
use super::destination::{Operands, pairs};
use super::mkdir::process_umask;
use super::place::{Place, trimmed};
use super::quote::quoted;
use super::removing::remove_trees;
use super::session::{self, Common, Session, words};
use super::tree_report::{Replace, Wishes};
use crate::command::Context;
use crate::outcome::{Failure, Outcome};

/// Rename or move files and directories
#[derive(Args)]
#[command(
    disable_help_flag = true,
    after_help = "Example: kurma mv nfs://127.0.0.1/home/a nfs://127.0.0.1/home/b"
)]
pub struct Mv {
    /// Leave alone what exists
    #[arg(short = 'n', long, overrides_with_all = ["force", "interactive"])]
    no_clobber: bool,
    /// Ask nothing
    #[arg(short = 'f', long, overrides_with_all = ["no_clobber", "interactive"])]
    force: bool,
    /// Ask before something is replaced
    #[arg(short = 'i', long, overrides_with_all = ["no_clobber", "force"])]
    interactive: bool,
    /// Replace only what is older
    #[arg(short = 'u', long)]
    update: bool,
    /// Say what was moved
    #[arg(short = 'v', long)]
    verbose: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    operands: Operands,
}

type Found = Result<Attributes, Error>;

impl Mv {
    pub fn run(mut self, _: &Context) -> Result<Outcome, Failure> {
        let into = self.operands.placement();
        let target = self.operands.take_needed_target("mv")?;
        let umask = process_umask();
        session::run("mv", &self.common, async |session| {
            let sources = session.places(&self.operands.files).await?;
            let target = session.place(&target).await?;
            let pairs = pairs(session, sources, target, into).await?;
            let same = |a: &(Place, Place), b: &(Place, Place)| {
                a.0.client.is_same(&b.0.client) && a.1.client.is_same(&b.1.client)
            };
            let mut made = HashSet::new();
            for run in pairs.chunk_by(same) {
                self.run_of(session, run, umask, &mut made).await?;
            }
            Ok(())
        })
    }

    /// Moves what is on one server, to one server.
    async fn run_of(
        &self,
        session: &mut Session,
        pairs: &[(Place, Place)],
        umask: u32,
        made: &mut HashSet<Target>,
    ) -> Result<(), Failure> {
        let wanted = AttributeSet::KIND
            | AttributeSet::FILE_ID
            | AttributeSet::FILE_SYSTEM
            | AttributeSet::SIZE
            | AttributeSet::MODIFIED
            | AttributeSet::CHANGED;
        let (from, to) = (&pairs[0].0.client, &pairs[0].1.client);
        let sources = pairs.iter().map(|(source, _)| source.target.clone()).collect();
        let targets = pairs.iter().map(|(_, target)| target.target.clone()).collect();
        let (sources, targets) = tokio::try_join!(
            from.attributes_of_each(sources, wanted, false),
            to.attributes_of_each(targets, wanted, false),
        )
        .map_err(Failure::failed)?;
        let mut allowed = Vec::new();
        for ((pair, source), target) in pairs.iter().zip(sources).zip(targets) {
            let (shown, shown_target) = (quoted(&pair.0.shown), quoted(&pair.1.shown));
            if made.contains(&pair.1.target) && self.no_clobber {
                continue;
            }
            if made.contains(&pair.1.target) {
                session.complain(format_args!("will not overwrite just-created {shown_target} with {shown}"));
            } else if self.allows(session, pair, source, target, from.is_same(to)) {
                made.insert(pair.1.target.clone());
                allowed.push(pair.clone());
            }
        }
        let mut elsewhere = Vec::new();
        if from.is_same(to) {
            let step = |(source, target): &(Place, Place)| Step::Rename {
                from: source.target.clone(),
                to: target.target.clone(),
            };
            let results = from.execute_each(allowed.iter().map(step).collect()).await;
            for (pair, result) in allowed.into_iter().zip(results.map_err(Failure::failed)?) {
                let (source, target) = (quoted(&pair.0.shown), quoted(&pair.1.shown));
                match result {
                    Ok(_) if self.verbose => session.say(format_args!("renamed {source} -> {target}")),
                    Ok(_) => {}
                    // Another file system.
                    Err(error) if error.errno() == 18 => elsewhere.push(pair),
                    Err(error) => {
                        // Something is in the way: the words of ENOTEMPTY, which an NFS server calls EEXIST.
                        let why = if error.is_exists() { session::errno_words(39) } else { words(&error) };
                        session.complain(format_args!("cannot move {source} to {target}: {why}"));
                    }
                }
            }
        } else {
            elsewhere = allowed;
        }
        self.carry(session, &elsewhere, umask).await
    }

    /// Copies, and removes what was wholly copied.
    async fn carry(
        &self,
        session: &mut Session,
        pairs: &[(Place, Place)],
        umask: u32,
    ) -> Result<(), Failure> {
        let pairs = &self.make_room(session, pairs).await?[..];
        let options = CopyOptions { preserve: Preserve::ALL, remove: true, umask, ..CopyOptions::default() };
        let wishes = Wishes { verbose: self.verbose.then_some("copied "), ..Wishes::default() };
        let incomplete = copy(session, "mv", pairs, &options, wishes).await?;
        let whole = pairs.iter().zip(incomplete).filter(|(_, incomplete)| !incomplete);
        let whole: Vec<Place> = whole.map(|((source, _), _)| source.clone()).collect();
        remove_trees(session, &whole, self.verbose, false, |_| false).await
    }

    /// Removes the empty directories that others are to take the place of; what is in others stays, as with a rename.
    async fn make_room(
        &self,
        session: &mut Session,
        pairs: &[(Place, Place)],
    ) -> Result<Vec<(Place, Place)>, Failure> {
        let Some((_, first)) = pairs.first() else { return Ok(Vec::new()) };
        let targets = pairs.iter().map(|(_, target)| target.target.clone()).collect();
        let found = first.client.attributes_of_each(targets, AttributeSet::KIND, false).await;
        let mut kept = Vec::new();
        for (pair, found) in pairs.iter().zip(found.map_err(Failure::failed)?) {
            if found.is_ok_and(|found| found.is(Kind::Directory))
                && let Err(failure) = pair.1.client.vremove(vec![pair.1.target.clone()]).await
            {
                let (source, target) = (quoted(&pair.0.shown), quoted(&pair.1.shown));
                let error = failure.error;
                let why = if error.is_exists() { session::errno_words(39) } else { words(&error) };
                session.complain(format_args!(
                    "inter-device move failed: {source} to {target}; unable to remove target: {why}"
                ));
            } else {
                kept.push(pair.clone());
            }
        }
        Ok(kept)
    }

    fn allows(
        &self,
        session: &mut Session,
        (from, to): &(Place, Place),
        source: Found,
        target: Found,
        is_same: bool,
    ) -> bool {
        let (shown, shown_target) = (quoted(&from.shown), quoted(&to.shown));
        let source = match source {
            Ok(source) => source,
            Err(error) => {
                session.complain(format_args!("cannot stat {shown}: {}", words(&error)));
                return false;
            }
        };
        let is_directory = source.is(Kind::Directory);
        if is_same && is_directory && is_below(&from.target, &to.target) {
            session.complain(format_args!("cannot move {shown} to a subdirectory of itself, {shown_target}"));
            return false;
        }
        if from.ends_in_slash() && !is_directory {
            session.complain(format_args!("cannot stat {shown}: {}", session::errno_words(20)));
            return false;
        }
        if let Err(error) = &target
            && !error.is_not_found()
        {
            session.complain(format_args!("cannot stat {shown_target}: {}", words(error)));
            return false;
        }
        let Ok(target) = target else {
            if to.ends_in_slash() && !is_directory {
                let why = session::errno_words(20);
                session.complain(format_args!("cannot move {shown} to {shown_target}: {why}"));
                return false;
            }
            return true;
        };
        let own = source.file_id.zip(source.file_system);
        let is_one = match is_same {
            true => own.is_some() && own == target.file_id.zip(target.file_system),
            false => source.may_be_of_one_with(&target),
        };
        let objection = if is_one {
            format!("{shown} and {shown_target} are the same file")
        } else if self.no_clobber {
            return false;
        } else if target.is(Kind::Directory) && !is_directory {
            format!("cannot overwrite directory {shown_target} with non-directory")
        } else if is_directory && !target.is(Kind::Directory) {
            format!("cannot overwrite non-directory {shown_target} with directory {shown}")
        } else {
            let replace = match (self.interactive, self.update) {
                (true, _) => Replace::Ask,
                (_, true) => Replace::Older,
                _ => Replace::Always,
            };
            session.flush();
            return replace.allows("mv", &source, &target, &to.shown);
        };
        session.complain(objection);
        false
    }
}

/// Whether the second path leads into the first, as they are written.
fn is_below(above: &Target, below: &Target) -> bool {
    let above = trimmed(above.path());
    trimmed(below.path()).strip_prefix(above).is_some_and(|rest| rest.first() == Some(&b'/'))
}
