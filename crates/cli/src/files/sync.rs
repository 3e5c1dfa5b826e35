//! `sync`: a tree made the same as another, by what differs.

use std::collections::HashMap;
use std::ffi::OsString;

use clap::Args;
use vector_client::{
    AttributeSet, Attributes, Client, CopyOptions, Entry, Error, Kind, Preserve, Target, Time,
};

use super::cp::copy;
use super::exclude::Excluded;
use super::mkdir::process_umask;
use super::place::Place;
use super::quote::quoted;
use super::removing::remove_trees;
use super::session::{self, Common, Session, words};
use super::tree_report::{Replace, Wishes};
use crate::command::Context;
use crate::outcome::{Failure, Outcome};

/// Directories compared at once.
const AT_ONCE: usize = 128;
/// Entries with which no further directory is listed at the same time.
const ENTRIES: usize = 32_000;

/// Make a directory tree the same as another
///
/// Copies with all attributes what is missing, and what differs in size, time of the last change or permissions. Stopped at any
/// moment and started again, it goes on: a file gets its time when it is whole. What is excluded is neither copied nor removed.
#[derive(Args)]
#[command(disable_help_flag = true, after_help = "Example: kurma sync --delete src nfs://127.0.0.1/home/src")]
pub struct Sync {
    /// Remove what the source does not have
    #[arg(long)]
    delete: bool,
    #[command(flatten)]
    excluded: Excluded,
    /// Say what was copied and removed
    #[arg(short = 'v', long)]
    verbose: bool,
    #[command(flatten)]
    common: Common,
    /// Source: nfs://HOST[:PORT]/PATH or local
    source: OsString,
    /// What is to be the same
    target: OsString,
}

impl Sync {
    pub fn run(self, _: &Context) -> Result<Outcome, Failure> {
        let umask = process_umask();
        session::run("sync", &self.common, async |session| {
            let source = session.place(&self.source).await?;
            let target = session.place(&self.target).await?;
            if self.delete {
                self.remove_surplus(session, &source, &target).await?;
            }
            let options = CopyOptions { preserve: Preserve::ALL, umask, ..CopyOptions::default() };
            let wishes = Wishes {
                replace: Replace::Different,
                verbose: self.verbose.then_some(""),
                excluded: (!self.excluded.is_nothing()).then_some(&self.excluded),
            };
            copy(session, "sync", &[(source, target)], &options, wishes).await?;
            Ok(())
        })
    }

    /// Removes what the source does not have, or has as something else. Where the source cannot be read, nothing is removed.
    async fn remove_surplus(
        &self,
        session: &mut Session,
        source: &Place,
        target: &Place,
    ) -> Result<(), Failure> {
        let stays = |it: &Target| !self.excluded.is_nothing() && self.excluded.holds(&target.name_within(it));
        let mut stack = Vec::new();
        if is_directory(source).await? && is_directory(target).await? {
            stack.push((source.clone(), target.clone()));
        }
        while !stack.is_empty() {
            let mut batch = stack.split_off(stack.len().saturating_sub(AT_ONCE));
            let list = |place: fn(&(Place, Place)) -> &Place| {
                let targets = batch.iter().map(|pair| place(pair).target.clone()).collect();
                listed(&place(&batch[0]).client, targets)
            };
            let (there, here) = tokio::try_join!(list(|(source, _)| source), list(|(_, target)| target))?;
            // There was a lot in the first ones.
            stack.extend(batch.split_off(there.len().min(here.len())));
            let mut surplus = Vec::new();
            for (((from, to), there), here) in batch.iter().zip(there).zip(here) {
                let there = match there {
                    Ok(there) => there,
                    Err(error) => {
                        let shown = quoted(&from.shown);
                        session.complain(format_args!("cannot access {shown}: {}", words(&error)));
                        continue;
                    }
                };
                let kinds: HashMap<_, _> =
                    there.into_iter().map(|entry| (entry.name, entry.attributes.kind)).collect();
                // What cannot be listed is said when it is to be written to.
                for entry in here.unwrap_or_default() {
                    let place = to.join(&entry.name);
                    if stays(&place.target) {
                        continue;
                    }
                    let is_directory = entry.attributes.is(Kind::Directory);
                    match kinds.get(&entry.name) {
                        // It is there, whatever it is.
                        Some(None) => {
                            let shown = quoted(&from.join(&entry.name).shown);
                            session.complain(format_args!(
                                "cannot tell what {shown} is; nothing is removed for it"
                            ));
                        }
                        Some(kind) if (*kind == Some(Kind::Directory)) == is_directory => {
                            if is_directory {
                                stack.push((from.join(&entry.name), place));
                            }
                        }
                        _ => surplus.push(place),
                    }
                }
            }
            remove_trees(session, &surplus, self.verbose, true, stays).await?;
        }
        Ok(())
    }
}

/// Whether it is a directory, and no link to one.
pub async fn is_directory(place: &Place) -> Result<bool, Failure> {
    let targets = vec![place.target.clone()];
    let found = place.client.attributes_of_each(targets, AttributeSet::KIND, false).await;
    let mut found = found.map_err(Failure::failed)?;
    Ok(matches!(found.pop(), Some(Ok(it)) if it.is(Kind::Directory)))
}

/// What is in each of these, in order; of fewer when there is a lot in them, but of one at least.
async fn listed(client: &Client, targets: Vec<Target>) -> Result<Vec<Result<Vec<Entry>, Error>>, Failure> {
    let mut all: Vec<Result<Vec<Entry>, Error>> = targets.iter().map(|_| Ok(Vec::new())).collect();
    let mut walk = client.walk(targets, AttributeSet::KIND, false);
    let (mut at, mut count) = (0, 0);
    while let Some(found) = walk.next().await {
        count += found.entries.as_ref().map_or(0, Vec::len);
        match (found.entries, &mut all[at]) {
            (Ok(more), Ok(entries)) => entries.extend(more),
            (Err(error @ Error::Connection(_)), _) => return Err(Failure::failed(error)),
            (Err(error), entries) => *entries = Err(error),
            _ => {}
        }
        at += usize::from(found.last);
        if found.last && count > ENTRIES {
            break;
        }
    }
    if at == 0 {
        return Err(Failure::failed("a listing ended before its end"));
    }
    all.truncate(at);
    Ok(all)
}

/// Whether a file has to be copied again.
pub fn differs(new: &Attributes, old: &Attributes) -> bool {
    // Not every file system counts nanoseconds.
    let time = |time: Option<Time>| time.map(|time| (time.seconds, time.nanoseconds / 1000));
    let mode = |it: &Attributes| it.mode.filter(|_| !it.is(Kind::SymbolicLink));
    new.kind != old.kind
        || new.size != old.size
        || time(new.modified) != time(old.modified)
        || mode(new) != mode(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_copied_again() {
        let mut old = Attributes::default();
        (old.kind, old.size, old.mode) = (Some(Kind::File), Some(5), Some(0o644));
        old.modified = Some(Time { seconds: 7, nanoseconds: 1_000_900 });
        let changed = |change: fn(&mut Attributes)| {
            let mut new = old.clone();
            change(&mut new);
            differs(&new, &old)
        };
        assert!(!changed(|_| {}));
        assert!(!changed(|new| new.modified = Some(Time { seconds: 7, nanoseconds: 1_000_000 })));
        assert!(!changed(|new| new.links = Some(9)));
        assert!(changed(|new| new.modified = Some(Time { seconds: 7, nanoseconds: 2_000_000 })));
        assert!(changed(|new| new.size = Some(6)));
        assert!(changed(|new| new.mode = Some(0o600)));
        assert!(changed(|new| new.kind = Some(Kind::SymbolicLink)));
    }
}
