//! Making chains.

mod catch_up;
mod check;
mod collect;
mod hold;
mod round;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use environment::{Environment, failpoint};
use ids::Timestamp;

pub use check::{Check, Lacking, Looked};
pub use state::{Numbers, Retired, State};

use crate::{BackupError, BackupKeys, Claim, Head, Item, Mark, Parent, Place, Rival, Survey};
use round::Round;

/// Numbers of objects that are noted as used at once.
const RESERVED: u32 = 64;
/// Increments that a base may have.
const INCREMENTS: usize = 1024;
/// Increments may be as long as their base, and at least this.
const LEAST: u64 = 4 << 20;
/// Links of earlier backups that a head has.
const LINKS: usize = 256;
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
    /// An older head, whose put was given up, or was made before the start, may still replace it.
    unsure: bool,
}

/// Makes the backups of one gateway.
pub struct Writer {
    keys: Arc<BackupKeys>,
    environment: Environment,
    state: State,
    head: Option<Head>,
    next_object: u32,
    next_backup: u64,
    /// The backups of this start have this number or a higher one.
    first_backup: u64,
    /// What this start has claimed.
    claim: Option<Claim>,
    /// Clouds that are known to have nothing of somebody else that would be overwritten.
    vetted: BTreeSet<String>,
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
    /// With `take_over` it goes on in a new branch, whoever else does: those find out.
    ///
    /// # Errors
    /// Somebody else goes on with the same identity, or has: the state may be of an older copy of the disk.
    pub fn new(
        keys: Arc<BackupKeys>,
        environment: Environment,
        state: Option<State>,
        survey: &Survey,
        take_over: bool,
    ) -> Result<Writer, Rival> {
        let rival = survey.rival_of(state.as_ref()).filter(|_| !take_over);
        if let Some(rival) = rival {
            return Err(rival);
        }
        let mut start = [0; 8];
        environment.entropy.fill(&mut start);
        let start = u64::from_be_bytes(start);
        let mut state = match state {
            Some(state) if !take_over && !state.is_new => {
                let earlier = state.numbers.into_iter().filter(|numbers| !numbers.is_empty()).collect();
                State { numbers: earlier, ..state }
            }
            other => State {
                known: other
                    .as_ref()
                    .filter(|_| !take_over)
                    .map_or_else(Vec::new, |state| state.known.clone()),
                ..new_branch(other, survey, &environment)
            },
        };
        let next_backup = state.backups;
        state.numbers.push(Numbers { start, from: 0, to: 0 });
        Ok(Writer {
            keys,
            environment,
            state,
            head: None,
            next_object: 0,
            next_backup,
            first_backup: next_backup,
            claim: None,
            vetted: survey.answered().map(str::to_owned).collect(),
            stands: BTreeMap::new(),
            floor: survey.newest().map_or(Timestamp::default(), |head| head.mark().time),
            stuck: false,
        })
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
    /// error when none has it. Whoever else goes on is looked for in clouds that nothing is known of, and [`Writer::hold`] is to be called afterwards.
    pub async fn back_up(
        &mut self,
        kind: Kind,
        (places, all): (&[Place], &[String]),
        (source, notes): (&mut dyn Source, &dyn Notes),
        transaction: u64,
    ) -> Result<(), BackupError> {
        self.know(all);
        if places.iter().any(|place| !self.vetted.contains(&place.name)) {
            self.hold(places, notes).await?;
        }
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
        let backup = self.next_backup;
        self.next_backup += 1;
        // One by one: so an older copy of the disk cannot be taken for the newest.
        self.state.backups = self.next_backup;
        self.save(notes).await?;
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
        let head_name = self.keys.head_name(head.branch);
        let unsure = round.places().filter(|place| place.may_come_late(&head_name));
        let unsure: BTreeSet<String> = unsure.map(|place| place.name.clone()).collect();
        failpoint!("backup.before-head");
        round.put(&head_name, &sealed).await?;
        failpoint!("backup.after-head");
        let is_base = round.kind == Kind::Base;
        for (name, stand) in &mut self.stands {
            if round.alive(name) {
                let unsure = unsure.contains(name);
                *stand = Stand { objects: head.objects.len(), backup: Some(backup), unsure };
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
}

/// The state of a branch that begins after what `state` is of.
fn new_branch(state: Option<State>, survey: &Survey, environment: &Environment) -> State {
    let parent = state.and_then(|state| match state.is_new {
        true => state.parent,
        // Which of them a copy goes on from, nobody knows; what is newer than its numbers it does not have.
        false => Some(Parent {
            branch: state.branch,
            id: state.id,
            backup: state.backups.saturating_sub(1),
            link: [0; 32],
        }),
    });
    let heads = survey.heads().map(|head| head.branch);
    let branches =
        heads.chain(survey.claims().map(|claim| claim.branch)).chain(parent.map(|parent| parent.branch));
    let branch = branches.map(|branch| branch + 1).max().unwrap_or(0);
    let mut id = [0; 16];
    environment.entropy.fill(&mut id);
    State { branch, id, parent, backups: parent.map_or(1, |parent| parent.backup + 1), ..State::default() }
}

/// The next instant.
fn behind(time: Timestamp) -> Timestamp {
    match time.nanos {
        999_999_999.. => Timestamp { seconds: time.seconds + 1, nanos: 0 },
        nanos => Timestamp { nanos: nanos + 1, ..time },
    }
}
