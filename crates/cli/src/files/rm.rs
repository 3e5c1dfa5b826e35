//! `rm`: names by the hundred, those in a tree as they are listed.

use std::ffi::OsString;

use clap::Args;
use vector_client::{AttributeSet, Attributes, Kind, Step};

use super::place::{Place, trimmed};
use super::quote::quoted;
use super::removing::{by_client, remove_trees};
use super::session::{self, Common, Session, errno_words};
use crate::command::Context;
use crate::outcome::{Failure, Outcome};

/// Remove files and directories
#[derive(Args)]
#[command(disable_help_flag = true, after_help = "Example: kurma rm -r nfs://127.0.0.1/home/old")]
pub struct Rm {
    /// Directories with all that is in them
    #[arg(short = 'r', short_alias = 'R', long)]
    recursive: bool,
    /// Say nothing of what is not there, and ask nothing
    #[arg(short = 'f', long, overrides_with = "interactive")]
    force: bool,
    /// Ask before everything
    #[arg(short = 'i', overrides_with = "force")]
    interactive: bool,
    /// Empty directories too
    #[arg(short = 'd', long)]
    dir: bool,
    /// Say what was removed
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Do not refuse to remove everything
    #[arg(long)]
    no_preserve_root: bool,
    #[command(flatten)]
    common: Common,
    /// What to remove: nfs://HOST[:PORT]/PATH or local
    #[arg(value_name = "FILE", required_unless_present = "force")]
    files: Vec<OsString>,
}

impl Rm {
    pub fn run(self, _: &Context) -> Result<Outcome, Failure> {
        session::run("rm", &self.common, async |session| {
            let places = session.places(&self.files).await?;
            let mut allowed: Vec<Place> = Vec::new();
            for place in places {
                if self.allows(session, &place) && is_what_it_says(session, &place).await? {
                    allowed.push(place);
                }
            }
            let places = allowed;
            if self.recursive && !self.interactive {
                return remove_trees(session, &places, self.verbose, self.force, |_| false).await;
            }
            for (client, places) in by_client(&places) {
                let targets = places.iter().map(|place| place.target.clone()).collect();
                let found = client.attributes_of_each(targets, wanted(), false).await;
                let mut doomed = Vec::new();
                for (place, found) in places.iter().zip(found.map_err(Failure::failed)?) {
                    match found {
                        Err(error) if self.force && error.is_not_found() => {}
                        Err(error) => session.cannot("remove", &place.shown, &error),
                        Ok(it) if it.is(Kind::Directory) && self.recursive => {
                            self.descend(session, place, &it).await?;
                        }
                        Ok(it) if it.is(Kind::Directory) && !self.dir => {
                            let shown = quoted(&place.shown);
                            session.complain(format_args!("cannot remove {shown}: {}", errno_words(21)));
                        }
                        Ok(it) => {
                            if !self.interactive || asked(session, place, &it) {
                                doomed.push((place, it.is(Kind::Directory)));
                            }
                        }
                    }
                }
                self.remove(session, &doomed).await?;
            }
            Ok(())
        })
    }

    /// What nobody can want to remove is refused.
    fn allows(&self, session: &mut Session, place: &Place) -> bool {
        let is_root = trimmed(place.target.path()).is_empty();
        if self.recursive && is_root && !self.no_preserve_root {
            session
                .complain(format_args!("it is dangerous to operate recursively on {}", quoted(&place.shown)));
            session.complain("use --no-preserve-root to override this failsafe");
            return false;
        }
        if self.recursive
            && matches!(trimmed(&place.shown).rsplit(|byte| *byte == b'/').next(), Some(b"." | b".."))
        {
            let shown = quoted(&place.shown);
            session.complain(format_args!("refusing to remove '.' or '..' directory: skipping {shown}"));
            return false;
        }
        true
    }

    async fn remove(&self, session: &mut Session, doomed: &[(&Place, bool)]) -> Result<(), Failure> {
        let Some((first, _)) = doomed.first() else { return Ok(()) };
        let steps = doomed.iter().map(|(place, _)| Step::Remove(place.target.clone())).collect();
        let results = first.client.execute_each(steps).await.map_err(Failure::failed)?;
        for ((place, is_directory), result) in doomed.iter().zip(results) {
            match result {
                Ok(_) if self.verbose => {
                    let kind = if *is_directory { "directory " } else { "" };
                    session.say(format_args!("removed {kind}{}", quoted(&place.shown)));
                }
                Ok(_) => {}
                Err(error) if self.force && error.is_not_found() => {}
                Err(error) => session.cannot("remove", &place.shown, &error),
            }
        }
        Ok(())
    }

    /// Removes a directory, asking before each step.
    async fn descend(&self, session: &mut Session, place: &Place, it: &Attributes) -> Result<(), Failure> {
        let entries = match place.client.list(&place.target, wanted()).await {
            Ok(entries) => entries,
            Err(error) => {
                session.cannot("remove", &place.shown, &error);
                return Ok(());
            }
        };
        if !entries.is_empty()
            && !session.ask(format_args!("descend into directory {}?", quoted(&place.shown)))
        {
            return Ok(());
        }
        for entry in entries {
            let below = place.join(&entry.name);
            if entry.attributes.is(Kind::Directory) {
                Box::pin(self.descend(session, &below, &entry.attributes)).await?;
            } else if asked(session, &below, &entry.attributes) {
                self.remove(session, &[(&below, false)]).await?;
            }
        }
        if asked(session, place, it) {
            self.remove(session, &[(place, true)]).await?;
        }
        Ok(())
    }
}

/// A name with a slash at its end is that of a directory, not of a symbolic link to one.
async fn is_what_it_says(session: &mut Session, place: &Place) -> Result<bool, Failure> {
    if !place.ends_in_slash() {
        return Ok(true);
    }
    let found = place.client.attributes_of_each(vec![place.target.clone()], wanted(), false).await;
    let is_other = matches!(found.map_err(Failure::failed)?.pop(), Some(Ok(it)) if !it.is(Kind::Directory));
    if is_other {
        let shown = quoted(&place.shown);
        session.complain(format_args!("cannot remove {shown}: {}", errno_words(20)));
    }
    Ok(!is_other)
}

fn wanted() -> AttributeSet {
    AttributeSet::KIND | AttributeSet::SIZE
}

fn asked(session: &mut Session, place: &Place, it: &Attributes) -> bool {
    let what = super::stat::kind_text(it);
    session.ask(format_args!("remove {what} {}?", quoted(&place.shown)))
}
