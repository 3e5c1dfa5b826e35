//! Steps done one after the other, over what is there already.
//!
//! A step that fails ends its compound. So names that are expected to be taken are cleared in the same compound.

use std::collections::{HashSet, VecDeque};

use vector_client::{AttributeSet, Done, Error, Kind, Step, Target};

use super::{Identity, MEMBERS, Unpacker, is_in_the_way};
use crate::files::quote::quoted_if_needed;
use crate::files::session::errno_words;
use crate::outcome::Failure;

/// Steps that are asked for at least, after one that failed soon.
const FEWEST: usize = 64;

/// After how many names in a row that were taken the next one is expected to be, too.
const IN_A_ROW: u32 = 3;

/// Whether names are taken, from what became of those before.
#[derive(Default)]
pub struct Guess {
    taken_in_a_row: u32,
}

impl Guess {
    fn is_taken(&self) -> bool {
        self.taken_in_a_row >= IN_A_ROW
    }

    fn was(&mut self, taken: bool) {
        self.taken_in_a_row = if taken { self.taken_in_a_row.saturating_add(1) } else { 0 };
    }
}

/// What is asked for the sake of a step.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// The step itself; its name should be free.
    Itself,
    /// What has its name is removed.
    Removal,
    /// The step itself, after that.
    Replacement,
    /// Instead of making a directory: what has its name, and where that leads if it is a symbolic link.
    Look,
    LookBeyond,
}

/// What to do about a step that failed.
enum Next {
    /// It is tried once more, and then its name is taken or not.
    Again {
        is_taken: bool,
    },
    /// There is nothing to do.
    Done,
    Failed,
}

#[derive(Default)]
struct Batch {
    steps: Vec<Step>,
    asked: Vec<Step>,
    /// Of each that is asked: for which step, and what for.
    roles: Vec<(usize, Role)>,
}

impl Batch {
    fn push(&mut self, step: Step, is_taken: bool) {
        let target = step.target();
        match &step {
            _ if !is_taken => self.ask(Role::Itself, step.clone()),
            Step::MakeDirectory { .. } => {
                for (role, follow) in [(Role::Look, false), (Role::LookBeyond, true)] {
                    let (target, wanted) = (target.clone(), AttributeSet::KIND);
                    self.ask(role, Step::GetAttributes { target, wanted, follow });
                }
            }
            step => {
                self.ask(Role::Removal, Step::Remove(target));
                self.ask(Role::Replacement, step.clone());
            }
        }
        self.steps.push(step);
    }

    fn ask(&mut self, role: Role, step: Step) {
        self.roles.push((self.steps.len(), role));
        self.asked.push(step);
    }
}

impl Unpacker<'_> {
    /// Makes what is on the list; with `is_last`, what is left are symbolic links, in the place of files.
    pub(super) async fn make(&mut self, is_last: bool) -> Result<(), Failure> {
        self.bytes = 0;
        let client = self.root.client.clone();
        let mut left = VecDeque::from(std::mem::take(&mut self.steps));
        let (mut most, mut failed) = (MEMBERS, HashSet::new());
        // Of the first step, when it is tried again: whether its name is taken.
        let mut again = None;
        // Hard links whose name another file has.
        let mut others = HashSet::new();
        while !left.is_empty() {
            let mut batch = Batch::default();
            let known: Option<bool> = again.take();
            while batch.steps.len() < most
                && let Some(step) = left.pop_front()
            {
                if !matches!(step, Step::SetAttributes { .. } | Step::GetAttributes { .. }) {
                    failed.remove(&step.target());
                } else if failed.contains(&step.target()) {
                    continue;
                }
                let known = known.filter(|_| batch.steps.is_empty());
                let is_taken = known.unwrap_or_else(|| match &step {
                    Step::MakeSymbolicLink { .. } => is_last,
                    Step::HardLink { .. } => others.contains(&names(&step)),
                    step => self.guess(step).is_some_and(|it| it.is_taken()),
                });
                batch.push(step, is_taken);
            }
            let Batch { mut steps, asked, roles } = batch;
            let (done, failure) = match client.execute(asked).await {
                Ok(done) => (done, None),
                Err(failure) => (failure.done, Some((failure.error, failure.unknown))),
            };
            for ((index, role), done) in roles.iter().zip(&done) {
                self.note(&steps[*index], *role, done);
            }
            let Some((error, unknown)) = failure else {
                most = (most * 2).min(MEMBERS);
                continue;
            };
            let at = roles.get(done.len()).filter(|_| unknown == 0 && !matches!(error, Error::Connection(_)));
            let Some((index, role)) = at.copied() else { return Err(Failure::failed(error)) };
            steps.drain(index + 1..).rev().for_each(|step| left.push_front(step));
            let Some(step) = steps.pop() else { continue };
            most = (2 * index).clamp(FEWEST, MEMBERS);
            let is_second = index == 0 && known == Some(true);
            let next = match self.next(&step, role, is_second, &error) {
                Next::Again { is_taken: true } if matches!(step, Step::HardLink { .. }) => {
                    self.are_one(&step, &left, is_last, &mut others).await?
                }
                next => next,
            };
            match next {
                Next::Again { is_taken } => {
                    again = Some(is_taken);
                    left.push_front(step);
                }
                Next::Done => {}
                Next::Failed => {
                    self.tell(&step, role, &error)?;
                    failed.insert(step.target());
                }
            }
        }
        Ok(())
    }

    fn guess(&mut self, step: &Step) -> Option<&mut Guess> {
        match step {
            Step::Write(_) => Some(&mut self.files),
            Step::MakeDirectory { .. } => Some(&mut self.folders),
            // A hard link may fail for other reasons, and nothing may be lost by that.
            _ => None,
        }
    }

    /// Takes what was done for a step.
    fn note(&mut self, step: &Step, role: Role, done: &Done) {
        let target = step.target();
        let is = |kind| matches!(done, Done::Attributes(it) if it.is(kind));
        match role {
            Role::Removal => {
                self.directories.remove(target.path());
            }
            // A symbolic link to a directory is as good, but not what the attributes are for.
            Role::Look if is(Kind::SymbolicLink) => {
                self.directories.remove(target.path());
            }
            Role::LookBeyond if !is(Kind::Directory) => self.no_directory(&target),
            Role::Look | Role::LookBeyond => {}
            Role::Itself | Role::Replacement => {
                if role == Role::Itself
                    && let Some(guess) = self.guess(step)
                {
                    guess.was(false);
                }
                if let (Done::Attributes(found), Step::GetAttributes { wanted, .. }) = (done, step) {
                    let is_further_name = wanted.contains(AttributeSet::LINKS);
                    self.placed(target.path(), Identity::of(found), is_further_name);
                }
            }
        }
    }

    /// What to do about a step for which something failed.
    fn next(&mut self, step: &Step, role: Role, is_second: bool, error: &Error) -> Next {
        let is_taken = match role {
            _ if is_second => return Next::Failed,
            Role::Removal | Role::Look | Role::LookBeyond => false,
            Role::Itself | Role::Replacement if says_taken(step, error) => true,
            Role::Itself | Role::Replacement => return Next::Failed,
        };
        if let Some(guess) = self.guess(step) {
            guess.was(is_taken);
        }
        Next::Again { is_taken }
    }

    fn tell(&mut self, step: &Step, role: Role, error: &Error) -> Result<(), Failure> {
        let target = step.target();
        if matches!(step, Step::MakeDirectory { .. }) {
            self.directories.remove(target.path());
        }
        match role {
            Role::Look | Role::LookBeyond => self.no_directory(&target),
            Role::Removal => self.complain(&target, "Cannot unlink", error)?,
            Role::Itself | Role::Replacement if self.is_placeholder(step) => {
                self.complain(&target, "Cannot create symlink", error)?;
            }
            Role::Itself | Role::Replacement => self.complain(&target, cannot(step, error), error)?,
        }
        Ok(())
    }

    fn is_placeholder(&self, step: &Step) -> bool {
        matches!(step, Step::Write(it) if it.data.is_empty() && self.links.contains_key(it.target.path()))
    }

    /// Something else has the name of a directory, and stays.
    fn no_directory(&mut self, target: &Target) {
        self.directories.remove(target.path());
        let shown = quoted_if_needed(&self.root.show(target));
        self.session.complain_with(2, format_args!("{shown}: Cannot mkdir: {}", errno_words(17)));
    }

    /// What to do about a hard link whose name is taken: nothing if both are names of one file, for to remove one could be to remove the
    /// other. Asks that of those in a row after it as well; `others` gets those whose name is another file's.
    async fn are_one(
        &self,
        step: &Step,
        left: &VecDeque<Step>,
        is_last: bool,
        others: &mut HashSet<(Target, Target)>,
    ) -> Result<Next, Failure> {
        let alike = |step: &&Step| matches!(step, Step::HardLink { .. } | Step::GetAttributes { .. });
        let links = left.iter().take_while(alike).filter(|step| matches!(step, Step::HardLink { .. }));
        let pairs: Vec<_> = std::iter::once(step).chain(links).map(names).collect();
        let wanted = AttributeSet::KIND | AttributeSet::FILE_ID | AttributeSet::FILE_SYSTEM;
        let ask = |target: &Target| Step::GetAttributes { target: target.clone(), wanted, follow: false };
        let asked = pairs.iter().flat_map(|(existing, new)| [ask(existing), ask(new)]).collect();
        let done = match self.root.client.execute(asked).await {
            Err(failure) if matches!(failure.error, Error::Connection(_)) => {
                return Err(Failure::failed(failure.error));
            }
            done => done.unwrap_or_else(|failure| failure.done),
        };
        let mut first = Next::Failed;
        for (at, (pair, both)) in pairs.into_iter().zip(done.chunks_exact(2)).enumerate() {
            let [Done::Attributes(existing), Done::Attributes(new)] = both else { break };
            let is_known = existing.file_id.is_some() && existing.file_system == new.file_system;
            match (existing == new, at) {
                _ if !is_known => {}
                (true, 0) => first = Next::Done,
                _ if existing.is(Kind::Directory) => {}
                (false, 0) => first = Next::Again { is_taken: true },
                (false, _) => {
                    others.insert(pair);
                }
                (true, _) => {}
            }
            // Further names of a symbolic link could be on the way to the next, but for those that come last.
            if existing.is(Kind::SymbolicLink) && !is_last {
                break;
            }
        }
        Ok(first)
    }
}

/// Of a hard link, what it is to and its own.
fn names(step: &Step) -> (Target, Target) {
    match step {
        Step::HardLink { existing, new } => (existing.clone(), new.clone()),
        step => (step.target(), step.target()),
    }
}

/// Whether a step that makes something failed because its name is taken.
fn says_taken(step: &Step, error: &Error) -> bool {
    match step {
        Step::Write(_) | Step::MakeSymbolicLink { .. } | Step::HardLink { .. } => is_in_the_way(error),
        Step::MakeDirectory { .. } => error.is_exists(),
        _ => false,
    }
}

/// What could not be done, as tar says it.
fn cannot(step: &Step, error: &Error) -> &'static str {
    match step {
        Step::MakeDirectory { .. } => "Cannot mkdir",
        Step::MakeSymbolicLink { .. } => "Cannot create symlink",
        Step::HardLink { .. } => "Cannot hard link",
        Step::Remove(_) => "Cannot unlink",
        Step::SetAttributes { .. } => "Cannot change owner, mode or time",
        // No space, quota, error of the disk: of what is open.
        Step::Write(_) if matches!(error.errno(), 5 | 28 | 122) => "Cannot write",
        _ => "Cannot open",
    }
}
