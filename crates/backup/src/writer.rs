//! Making chains.

mod round;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cloud::{ErrorKind, PutMode};
use environment::{Environment, failpoint};
use futures::future::join_all;
use futures::stream::{StreamExt, iter};
use ids::Timestamp;

pub use state::{Numbers, Retired, State};

use crate::survey::proved;
use crate::{BackupError, BackupKeys, Head, Item, Mark, Parent, Place, Survey};
use round::Round;

/// Numbers of objects that are noted as used at once.
const RESERVED: u32 = 64;
/// Numbers of backups that are noted as used at once.
const BACKUPS: u64 = 1024;
/// Increments that a base may have.
const INCREMENTS: usize = 1024;
/// Increments may be as long as their base, and at least this.
const LEAST: u64 = 4 << 20;
/// Links of earlier backups that a head has.
const LINKS: usize = 256;
/// Objects that a cloud which was down is given at a time.
const CAUGHT_UP: usize = 64;
/// Objects deleted at the same time.
const PARALLEL: usize = 16;

/// What a backup has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All rows.
    Base,
    /// What has changed since the backup before.
    Increment,
}

/// Where the items of a backup come from: its rows, what is unsaved, the configuration.
#[async_trait]
pub trait Source: Send {
    /// The next one; `None` at the end. No [`Item::End`].
    ///
    /// # Errors
    /// Why it cannot be read; the backup is given up.
    async fn next(&mut self) -> Result<Option<Item>, String>;
}

/// Where the state of a writer is kept.
#[async_trait]
pub trait Notes: Send + Sync {
    /// Keeps it durably.
    ///
    /// # Errors
    /// Why it cannot; nothing is stored in clouds then that depends on it.
    async fn save(&self, state: &State) -> Result<(), String>;
}

/// How far a writer is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The newest backup.
    pub mark: Option<Mark>,
    /// The clouds that have it.
    pub has: Vec<String>,
    /// The clouds that do not.
    pub lacks: Vec<String>,
    /// Objects and bytes of the chain.
    pub objects: usize,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// What a cloud has of the present chain.
#[derive(Clone, Copy, Debug, Default)]
struct Stand {
    /// The first so many objects.
    objects: usize,
    /// The backup of its head.
    backup: Option<u64>,
}

/// Makes the backups of one gateway.
pub struct Writer {
    keys: Arc<BackupKeys>,
    environment: Environment,
    state: State,
    head: Option<Head>,
    next_object: u32,
    next_backup: u64,
    stands: BTreeMap<String, Stand>,
    /// All backups are later than this.
    floor: Timestamp,
    /// No cloud took an increment, or somebody wants a base: the next one does not go on from what there is.
    stuck: bool,
}

impl Writer {
    /// Goes on after `state`, which an earlier writer has kept, if there is one. `survey` is what the clouds have now: it
    /// shows which numbers are taken. The first backup is a base.
    ///
    /// The second value tells whether the clouds have newer backups of this very branch than the state knows of: then the state was
    /// brought back from an older copy of the disk, and a new branch begins.
    pub fn new(
        keys: Arc<BackupKeys>,
        environment: Environment,
        state: Option<State>,
        survey: &Survey,
    ) -> (Writer, bool) {
        let mut start = [0; 8];
        environment.entropy.fill(&mut start);
        let start = u64::from_be_bytes(start);
        let newest = |state: &State| {
            let own = survey.heads().filter(|head| head.id == state.id);
            own.map(|head| head.mark().backup).max().unwrap_or(0)
        };
        let is_old = state.as_ref().is_some_and(|state| !state.is_new && newest(state) >= state.backups);
        let next_branch = survey.heads().map(|head| head.branch + 1).max().unwrap_or(0);
        let state = match state {
            Some(state) if !is_old && !state.is_new => {
                let earlier = state.numbers.into_iter().filter(|numbers| !numbers.is_empty()).collect();
                State { numbers: earlier, ..state }
            }
            other => {
                let parent = other.and_then(|state| match state.is_new {
                    true => state.parent,
                    // Which of them the copy goes on from, nobody knows; what is newer than its numbers it does not have.
                    false => Some(Parent {
                        branch: state.branch,
                        id: state.id,
                        backup: state.backups.saturating_sub(1),
                        link: [0; 32],
                    }),
                });
                let mut id = [0; 16];
                environment.entropy.fill(&mut id);
                let backups = parent.map_or(1, |parent| parent.backup + 1);
                State { branch: next_branch, id, parent, backups, ..State::default() }
            }
        };
        let mut state = State { is_new: false, ..state };
        let next_backup = state.backups;
        state.numbers.push(Numbers { start, from: 0, to: 0 });
        let writer = Writer {
            keys,
            environment,
            state,
            head: None,
            next_object: 0,
            next_backup,
            stands: BTreeMap::new(),
            floor: survey.newest().map_or(Timestamp::default(), |head| head.mark().time),
            stuck: false,
        };
        (writer, is_old)
    }

    #[cfg(test)]
    pub(crate) fn skip_numbers(&mut self) {
        self.next_backup = self.state.backups;
    }

    /// What is kept.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The next backup is a base, whatever has changed.
    pub fn begin_anew(&mut self) {
        self.stuck = true;
    }

    /// Whether the next backup has to be a base.
    pub fn wants_base(&self) -> bool {
        let Some(head) = self.head.as_ref().filter(|_| !self.stuck) else { return true };
        let base = head.marks.first().map_or(0, |mark| mark.objects as usize);
        let whole = head.bytes_from(0);
        let increments = head.bytes_from(base);
        increments > (whole - increments).max(LEAST)
            || head.marks.len() > INCREMENTS
            || !self.stands.values().any(|stand| stand.objects == head.objects.len())
    }

    /// What is where.
    pub fn progress(&self) -> Progress {
        let Some(head) = &self.head else { return Progress::default() };
        let mark = head.mark();
        let (has, lacks): (Vec<_>, Vec<_>) =
            self.stands.iter().partition(|(_, stand)| stand.backup == Some(mark.backup));
        let names =
            |stands: Vec<(&String, &Stand)>| stands.into_iter().map(|(name, _)| name.clone()).collect();
        Progress {
            mark: Some(mark),
            has: names(has),
            lacks: names(lacks),
            objects: head.objects.len(),
            bytes: head.bytes_from(0),
        }
    }

    /// Forgets clouds that are not configured any more, and learns of new ones.
    fn know(&mut self, all: &[String]) {
        self.stands.retain(|name, _| all.contains(name));
        for name in all {
            self.stands.entry(name.clone()).or_default();
        }
        for retired in &mut self.state.retired {
            retired.places.retain(|name| all.contains(name));
        }
        self.state.retired.retain(|retired| !retired.places.is_empty());
    }

    /// Stores a backup in the clouds `places`, those of `all` that answer. Returns when every one of them has it or has failed; an
    /// error when none has it.
    pub async fn back_up(
        &mut self,
        kind: Kind,
        (places, all): (&[Place], &[String]),
        (source, notes): (&mut dyn Source, &dyn Notes),
        transaction: u64,
    ) -> Result<(), BackupError> {
        self.know(all);
        let from = self.next_object;
        let mut round = Round::begin(self, kind, places);
        let stored = self.store(&mut round, source, notes, transaction).await;
        if let Err(error) = &stored {
            self.stuck |= matches!(error, BackupError::NoCloud(_));
            // Whatever clouds have of it, nobody will name.
            self.retire(Numbers { start: self.state.start(), from, to: self.next_object }, all);
        }
        stored
    }

    async fn store(
        &mut self,
        round: &mut Round,
        source: &mut dyn Source,
        notes: &dyn Notes,
        transaction: u64,
    ) -> Result<(), BackupError> {
        if self.next_backup >= self.state.backups {
            self.state.backups = self.next_backup + BACKUPS;
            self.save(notes).await?;
        }
        let backup = self.next_backup;
        self.next_backup += 1;
        while let Some(item) = source.next().await.map_err(BackupError::Source)? {
            if round.is_full(&item) {
                self.put_object(round, notes).await?;
            }
            round.push(&item);
        }
        let time = self.environment.clock.wall().max(behind(self.floor));
        let mark = Mark { backup, transaction, time, objects: round.next_count() };
        round.push(&Item::End(mark));
        self.put_object(round, notes).await?;
        let head = self.head_of(round, mark);
        let sealed = self.keys.seal_head(&head, &*self.environment.entropy);
        let name = self.keys.head_name(head.branch);
        failpoint!("backup.before-head");
        round.put(&name, &sealed).await?;
        failpoint!("backup.after-head");
        let is_base = round.kind == Kind::Base;
        for (name, stand) in &mut self.stands {
            if round.alive(name) {
                *stand = Stand { objects: head.objects.len(), backup: Some(backup) };
            } else if is_base {
                stand.objects = 0;
            }
        }
        (self.floor, self.stuck) = (time, false);
        self.head = Some(head);
        Ok(())
    }

    fn head_of(&self, round: &Round, mark: Mark) -> Head {
        let old = self.head.as_ref();
        let parent_link = self.state.parent.map_or([0; 32], |parent| parent.link);
        let before = old.map_or(parent_link, Head::link);
        let mut links = old.map_or_else(Vec::new, |head| head.links.clone());
        links.drain(..links.len().saturating_sub(LINKS));
        let mut marks = match (round.kind, old) {
            (Kind::Increment, Some(head)) => head.marks.clone(),
            _ => Vec::new(),
        };
        marks.push(mark);
        links.push((mark.backup, [0; 32]));
        let mut head = Head {
            gateway: self.keys.gateway(),
            branch: self.state.branch,
            id: self.state.id,
            parent: self.state.parent,
            first: round.first,
            objects: round.objects.clone(),
            marks,
            links,
            before,
        };
        let link = self.keys.link(&head);
        if let Some(last) = head.links.last_mut() {
            last.1 = link;
        }
        head
    }

    async fn put_object(&mut self, round: &mut Round, notes: &dyn Notes) -> Result<(), BackupError> {
        if self.next_object == self.state.last().to {
            self.state.last_mut().to += RESERVED;
            self.save(notes).await?;
        }
        let number = (self.state.start(), self.next_object);
        self.next_object += 1;
        let time = self.environment.clock.wall();
        let (name, sealed) = round.seal(&self.keys, &self.state.id, number, time, &*self.environment.entropy);
        failpoint!("backup.before-object");
        round.put(&name, &sealed).await
    }

    async fn save(&self, notes: &dyn Notes) -> Result<(), BackupError> {
        notes.save(&self.state).await.map_err(BackupError::Source)
    }

    fn retire(&mut self, numbers: Numbers, all: &[String]) {
        if !numbers.is_empty() {
            self.state.retired.push(Retired { numbers, places: all.to_vec() });
        }
    }

    /// Gives clouds that lack something of the chain a part of it, from those that have it. Returns whether there is more to do
    /// that can be done.
    pub async fn catch_up(&mut self, places: &[Place]) -> bool {
        let Some(head) = self.head.clone() else { return false };
        let current = |stand: &Stand| stand.backup == Some(head.mark().backup);
        let whole: Vec<Place> = places
            .iter()
            .filter(|place| self.stands.get(&place.name).is_some_and(current))
            .cloned()
            .collect();
        let mut more = false;
        for place in places {
            let Some(mut stand) = self.stands.get(&place.name).copied() else { continue };
            if current(&stand) || whole.is_empty() {
                continue;
            }
            let done = self.bring(&head, place, &mut stand, &whole).await;
            if let Err(cause) = &done {
                tracing::debug!(cloud = place.name, %cause, "does not take the backup yet");
            }
            more |= done.is_ok() && !current(&stand);
            self.stands.insert(place.name.clone(), stand);
        }
        more
    }

    async fn bring(
        &self,
        head: &Head,
        place: &Place,
        stand: &mut Stand,
        whole: &[Place],
    ) -> Result<(), BackupError> {
        let refused = |cause: cloud::CloudError| BackupError::NoCloud(cause.to_string());
        for at in (stand.objects..head.objects.len()).take(CAUGHT_UP) {
            let found = proved(&self.keys, head, at, whole).await;
            let sealed = found.map_err(|_| BackupError::Damaged("an object of the present chain"))?;
            let entry = &head.objects[at];
            let name = self.keys.object_name(&head.id, entry.start, entry.number);
            place.cloud.put(&name, vec![sealed], PutMode::Overwrite).await.map_err(refused)?;
            stand.objects = at + 1;
        }
        if stand.objects == head.objects.len() {
            let sealed = self.keys.seal_head(head, &*self.environment.entropy);
            let name = self.keys.head_name(head.branch);
            place.cloud.put(&name, vec![sealed], PutMode::Overwrite).await.map_err(refused)?;
            stand.backup = Some(head.mark().backup);
        }
        Ok(())
    }

    /// Asks clouds for every object of the chain that they should have; what one lacks, or has of another length, is brought by the next
    /// [`Writer::catch_up`]. Returns how many clouds lack something.
    pub async fn verify(&mut self, places: &[Place]) -> usize {
        let Some(head) = &self.head else { return 0 };
        let mut lacking = 0;
        for place in places {
            let Some(stand) = self.stands.get_mut(&place.name) else { continue };
            let asked = head.objects.iter().take(stand.objects).map(|entry| {
                let name = self.keys.object_name(&head.id, entry.start, entry.number);
                async move { place.cloud.head(&name).await.map(|length| length == u64::from(entry.length)) }
            });
            let mut asked = iter(asked.collect::<Vec<_>>()).buffered(PARALLEL).enumerate();
            let mut missing = None;
            while let Some((at, answer)) = asked.next().await {
                match answer {
                    Ok(true) => {}
                    Ok(false) => missing = missing.or(Some(at)),
                    Err(error) if error.kind() == ErrorKind::NotFound => missing = missing.or(Some(at)),
                    Err(_) => break, // nothing is known of it at present
                }
            }
            let top = place.cloud.head(&self.keys.head_name(head.branch)).await;
            let no_head = top.is_err_and(|error| error.kind() == ErrorKind::NotFound);
            if missing.is_some() || (no_head && stand.backup.is_some()) {
                *stand = Stand { objects: missing.unwrap_or(stand.objects), backup: None };
                lacking += 1;
            }
        }
        lacking
    }

    /// To be called when the newest backup is safe: what no head names any more is deleted, from the clouds that have that
    /// backup; from the others later.
    pub async fn collect(
        &mut self,
        (places, all): (&[Place], &[String]),
        notes: &dyn Notes,
    ) -> Result<(), BackupError> {
        let Some(head) = &self.head else { return Ok(()) };
        let (start, first) = (self.state.start(), head.objects.first().map_or(0, |object| object.number));
        let backup = head.mark().backup;
        let mut gone = Vec::new();
        for numbers in &mut self.state.numbers {
            let to = if numbers.start == start { first } else { numbers.to };
            if numbers.from < to {
                gone.push(Numbers { to, ..*numbers });
                numbers.from = to;
            }
        }
        self.state.numbers.retain(|numbers| numbers.start == start || !numbers.is_empty());
        if gone.is_empty() && self.state.retired.is_empty() {
            return Ok(());
        }
        gone.into_iter().for_each(|numbers| self.retire(numbers, all));
        // Numbers that are retired one by one lie inside of others that are retired later: deleting twice is harmless.
        self.save(notes).await?;
        let mut retired = std::mem::take(&mut self.state.retired);
        for place in places {
            if self.stands.get(&place.name).is_none_or(|stand| stand.backup != Some(backup)) {
                continue;
            }
            for retired in retired.iter_mut().filter(|retired| retired.places.contains(&place.name)) {
                let Numbers { start, from, to } = retired.numbers;
                let names = (from..to).map(|number| self.keys.object_name(&self.state.id, start, number));
                let deletions = names.map(|name| async move { place.cloud.delete(&name).await.is_ok() });
                let deletions = iter(deletions.collect::<Vec<_>>()).buffer_unordered(PARALLEL);
                if deletions.fold(true, |all, done| async move { all && done }).await {
                    retired.places.retain(|name| *name != place.name);
                }
            }
        }
        retired.retain(|retired| !retired.places.is_empty());
        self.state.retired = retired;
        self.save(notes).await
    }

    /// Takes all that it has made out of a cloud that is not to have backups any more; true when nothing is left there. Nothing
    /// of it may be needed.
    pub async fn leave(&mut self, place: &Place) -> bool {
        let mut names = vec![self.keys.head_name(self.state.branch)];
        let retired = self.state.retired.iter().map(|retired| retired.numbers);
        for Numbers { start, from, to } in self.state.numbers.iter().copied().chain(retired) {
            names.extend((from..to).map(|number| self.keys.object_name(&self.state.id, start, number)));
        }
        self.stands.remove(&place.name);
        // The head first: without its objects it would be a lie.
        for part in names.chunks(PARALLEL) {
            let deleted = join_all(part.iter().map(|name| place.cloud.delete(name))).await;
            if deleted.iter().any(Result::is_err) {
                return false;
            }
        }
        true
    }

    /// Names of all objects that it has made and not deleted, and of its head.
    pub fn names(&self) -> Vec<cloud::ObjectName> {
        let mut names = vec![self.keys.head_name(self.state.branch)];
        let retired = self.state.retired.iter().map(|retired| retired.numbers);
        for Numbers { start, from, to } in self.state.numbers.iter().copied().chain(retired) {
            names.extend((from..to).map(|number| self.keys.object_name(&self.state.id, start, number)));
        }
        names
    }
}

/// The next instant.
fn behind(time: Timestamp) -> Timestamp {
    match time.nanos {
        999_999_999.. => Timestamp { seconds: time.seconds + 1, nanos: 0 },
        nanos => Timestamp { nanos: nanos + 1, ..time },
    }
}
