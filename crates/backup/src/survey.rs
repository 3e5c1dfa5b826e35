//! What the clouds have, which of it is the newest, and how to get it back.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use cloud::{CloudError, ErrorKind};
use futures::future::{join, join_all};

use crate::{BackupError, BackupKeys, Claim, Head, Known, Mark, Parent, Place, Rival, State, Who};

/// So many numbers of branches may be missing between others: restored gateways that never made a backup leave none. In clouds that came later
/// more are missing; there a signpost says how far to look, from this number on.
pub(crate) const GAP: u32 = 4;
/// Objects fetched at the same time.
const PARALLEL: usize = 8;
/// What is wrong with an object that its sum does not fit.
pub(crate) const CHANGED: &str = "it is not what was stored";

/// What a cloud gave for the head of one branch, or its claim.
enum Given {
    Head(Box<Head>),
    Claim(Claim),
    Nothing,
    Failed(String),
    Bad(String),
}

/// The heads of all clouds.
#[derive(Default)]
pub struct Survey {
    seen: Vec<Seen>,
}

struct Seen {
    place: String,
    heads: Vec<Head>,
    claims: Vec<Claim>,
    failed: Option<String>,
    bad: Vec<String>,
}

/// What a cloud is against the backup that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has that backup.
    Current,
    /// It has an older one of the same chain.
    Behind(Mark),
    /// It has one that the chosen chain does not contain: number of its branch, and its newest state.
    Forked(u32, Mark),
    /// It has none.
    Empty,
    /// What it has cannot be used.
    Bad(String),
    /// It did not answer: it may have a newer one.
    Unreachable(String),
}

/// What was wrong with an object of a chain in one cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The cloud.
    pub place: String,
    /// Which object of the chain, from 0.
    pub object: usize,
    /// What.
    pub wrong: String,
}

/// The objects of a chain, on their way back.
pub struct Fetch<'a> {
    keys: &'a BackupKeys,
    head: &'a Head,
    places: &'a [Place],
    ready: VecDeque<Bytes>,
    asked: usize,
    taken: usize,
    ended: bool,
    /// What was not right on the way.
    pub findings: Vec<Finding>,
}

impl<'a> Fetch<'a> {
    /// Of `head`, from the first of `places` that has each object right.
    pub fn of(keys: &'a BackupKeys, head: &'a Head, places: &'a [Place]) -> Fetch<'a> {
        let (ready, findings) = (VecDeque::new(), Vec::new());
        Fetch { keys, head, places, ready, asked: 0, taken: 0, ended: false, findings }
    }

    /// The content of the next object, proved. `None` at the end, which is the first object that no cloud has right: what came before
    /// makes the state of [`Fetch::mark`].
    ///
    /// # Errors
    /// It is proved, and cannot be read: that is a newer version's.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BackupError> {
        if self.ready.is_empty() && !self.ended {
            let end = self.head.objects.len().min(self.asked + PARALLEL);
            let asked = (self.asked..end).map(|at| found(self.keys, self.head, at, self.places));
            for (sealed, findings) in join_all(asked).await {
                self.findings.extend(findings);
                match sealed {
                    Some(sealed) if !self.ended => self.ready.push_back(sealed),
                    _ => self.ended = true,
                }
            }
            self.asked = end;
        }
        let Some(sealed) = self.ready.pop_front() else { return Ok(None) };
        let entry = &self.head.objects[self.taken];
        self.taken += 1;
        self.keys.open_object(&self.head.id, entry, sealed).map(Some)
    }

    /// The newest state that the objects make which have been brought so far.
    pub fn mark(&self) -> Option<Mark> {
        self.head.marks.iter().rfind(|mark| mark.objects as usize <= self.taken).copied()
    }
}

impl Head {
    /// For a branch that goes on from here.
    pub fn as_parent(&self) -> Parent {
        Parent { branch: self.branch, id: self.id, backup: self.mark().backup, link: self.link() }
    }
}

impl Survey {
    /// Asks all clouds for the heads of all branches.
    pub async fn of(keys: &BackupKeys, places: &[Place]) -> Survey {
        let seen = places.iter().map(|place| Seen {
            place: place.name.clone(),
            heads: Vec::new(),
            claims: Vec::new(),
            failed: None,
            bad: Vec::new(),
        });
        let mut seen: Vec<Seen> = seen.collect();
        let (mut branch, mut end) = (0, GAP);
        let signposts = join_all(places.iter().map(|place| signpost(keys, place))).await;
        for (given, seen) in signposts.into_iter().zip(&mut seen) {
            match given {
                Given::Claim(claim) => {
                    end = end.max(claim.branch.saturating_add(1 + GAP));
                    seen.claims.push(claim);
                }
                Given::Bad(cause) => seen.bad.push(cause),
                // Who does not answer is asked again.
                Given::Head(_) | Given::Nothing | Given::Failed(_) => {}
            }
        }
        while branch < end {
            let window = branch..end;
            let asked = places.iter().zip(&seen).map(|(place, seen)| {
                let branches = if seen.failed.is_none() { window.clone() } else { 0..0 };
                let both = |branch| join(given(keys, place, branch), claimed(keys, place, branch));
                join_all(branches.map(both))
            });
            let found = join_all(asked).await;
            branch = end;
            for (found, seen) in found.into_iter().zip(&mut seen) {
                for (number, (head, claim)) in window.clone().zip(found) {
                    for given in [head, claim] {
                        match given {
                            Given::Nothing => continue,
                            Given::Head(head) => seen.heads.push(*head),
                            Given::Claim(claim) => seen.claims.push(claim),
                            Given::Failed(cause) => {
                                seen.failed = Some(cause);
                                continue;
                            }
                            Given::Bad(cause) => seen.bad.push(cause),
                        }
                        end = end.max(number + 1 + GAP);
                    }
                }
            }
        }
        Survey { seen }
    }

    /// All heads, of all clouds.
    pub fn heads(&self) -> impl Iterator<Item = &Head> {
        self.seen.iter().flat_map(|seen| &seen.heads)
    }

    /// All claims, of all clouds.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.seen.iter().flat_map(|seen| &seen.claims)
    }

    /// The clouds that have answered.
    pub fn answered(&self) -> impl Iterator<Item = &str> {
        self.seen.iter().filter(|seen| seen.failed.is_none()).map(|seen| &*seen.place)
    }

    /// All that there is, by branch.
    pub fn known(&self) -> Vec<Known> {
        let mut known: BTreeMap<[u8; 16], Known> = BTreeMap::new();
        let heads = self.heads().map(|head| Known { id: head.id, backup: head.mark().backup, starts: 0 });
        let claims = self.claims().map(|claim| Known { id: claim.id, backup: 0, starts: claim.starts });
        for Known { id, backup, starts } in heads.chain(claims) {
            let known = known.entry(id).or_insert(Known { id, backup, starts });
            (known.backup, known.starts) = (known.backup.max(backup), known.starts.max(starts));
        }
        known.into_values().collect()
    }

    /// Whoever else goes on, or has, with the identity of what has kept `state`.
    pub(crate) fn rival_of(&self, state: Option<&State>) -> Option<Rival> {
        let seen = |seen: &Seen| {
            let heads = seen.heads.iter().map(|head| {
                let Mark { backup, time, .. } = head.mark();
                (head.branch, time, Known { id: head.id, backup, starts: 0 })
            });
            let claims = seen.claims.iter().map(|claim| {
                (claim.branch, claim.time, Known { id: claim.id, backup: 0, starts: claim.starts })
            });
            let mut found = heads.chain(claims);
            found.find_map(|(branch, time, found)| {
                let is = rival(branch, &found, state)?;
                Some(Rival { place: seen.place.clone(), branch, time, is })
            })
        };
        self.seen.iter().find_map(seen)
    }

    /// The head with the latest state.
    pub fn newest(&self) -> Option<&Head> {
        self.heads().max_by_key(|head| (head.mark().time, head.mark().backup))
    }

    /// All different heads, the best first; those of one branch only, if it is given.
    pub fn candidates(&self, branch: Option<u32>) -> Vec<&Head> {
        let mut heads: Vec<&Head> =
            self.heads().filter(|head| branch.is_none_or(|branch| head.branch == branch)).collect();
        heads.sort_by_key(|head| std::cmp::Reverse((head.mark().time, head.mark().backup, head.link())));
        heads.dedup_by_key(|head| head.link());
        heads
    }

    /// What each cloud is against `chosen`, by name.
    pub fn standings(&self, chosen: &Head) -> Vec<(String, Standing)> {
        self.seen.iter().map(|seen| (seen.place.clone(), seen.standing(chosen))).collect()
    }

    /// Why clouds did not answer, or have nothing of use.
    pub fn problems(&self) -> Vec<(String, String)> {
        let problems = |seen: &Seen| {
            let failed = seen.failed.iter().chain(&seen.bad).cloned();
            failed.map(|cause| (seen.place.clone(), cause)).collect::<Vec<_>>()
        };
        self.seen.iter().flat_map(problems).collect()
    }
}

impl Seen {
    fn standing(&self, chosen: &Head) -> Standing {
        if let Some(cause) = &self.failed {
            return Standing::Unreachable(cause.clone());
        }
        let forked = self.heads.iter().filter(|head| !contains(chosen, head));
        let forked = forked.max_by_key(|head| head.mark().time);
        let own = self.heads.iter().filter(|head| contains(chosen, head));
        let own = own.max_by_key(|head| (head.branch == chosen.branch, head.mark().backup));
        match (own, forked) {
            (Some(own), _) if own.id == chosen.id && own.link() == chosen.link() => Standing::Current,
            (_, Some(forked)) => Standing::Forked(forked.branch, forked.mark()),
            (Some(own), None) => Standing::Behind(own.mark()),
            (None, None) => match self.bad.first() {
                Some(cause) => Standing::Bad(cause.clone()),
                None => Standing::Empty,
            },
        }
    }
}

/// Whether what `head` has is part of the history of `chosen`, as far as that is known.
fn contains(chosen: &Head, head: &Head) -> bool {
    let backup = head.mark().backup;
    if head.id != chosen.id {
        return chosen.parent.is_some_and(|parent| {
            parent.id == head.id
                && (backup < parent.backup || (backup, head.link()) == (parent.backup, parent.link))
        });
    }
    match chosen.links.iter().find(|(known, _)| *known == backup) {
        Some((_, link)) => *link == head.link(),
        // Too old to be told, or the number of a backup that not every cloud got.
        None => backup < chosen.mark().backup,
    }
}

/// What whoever has left that in a cloud is for one who has kept `state`; `None`: nobody to be afraid of.
fn rival(branch: u32, found: &Known, state: Option<&State>) -> Option<Who> {
    let Some(state) = state else { return Some(Who::Unknown) };
    if !state.is_new && found.id == state.id {
        return (found.backup >= state.backups || found.starts > state.starts).then_some(Who::Copy);
    }
    if !state.is_new && branch >= state.branch {
        return Some(Who::Successor);
    }
    let is_known =
        |known: &Known| known.id == found.id && found.backup <= known.backup && found.starts <= known.starts;
    (!state.known.is_empty() && !state.known.iter().any(is_known)).then_some(Who::Original)
}

async fn claimed(keys: &BackupKeys, place: &Place, branch: u32) -> Given {
    match place.cloud.get(&keys.claim_name(branch), None).await {
        Ok(sealed) => match keys.open_claim(branch, sealed) {
            Ok(claim) => Given::Claim(claim),
            Err(error) => Given::Bad(format!("the claim of branch {branch}: {error}")),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Given::Nothing,
        Err(error) => Given::Failed(error.to_string()),
    }
}

async fn signpost(keys: &BackupKeys, place: &Place) -> Given {
    match place.cloud.get(&keys.signpost_name(), None).await {
        Ok(sealed) => match keys.open_signpost(sealed) {
            Ok(claim) => Given::Claim(claim),
            Err(error) => Given::Bad(format!("the signpost: {error}")),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Given::Nothing,
        Err(error) => Given::Failed(error.to_string()),
    }
}

async fn given(keys: &BackupKeys, place: &Place, branch: u32) -> Given {
    match place.cloud.get(&keys.head_name(branch), None).await {
        Ok(sealed) => match keys.open_head(branch, sealed) {
            Ok(head) => Given::Head(Box::new(head)),
            Err(error) => Given::Bad(format!("the head of branch {branch}: {error}")),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Given::Nothing,
        Err(error) => Given::Failed(error.to_string()),
    }
}

/// Why a cloud did not give an object of a chain.
pub(crate) enum Refused {
    /// It has another than was stored.
    Changed,
    /// It has none, or did not answer.
    Failed(CloudError),
}

/// An object, as one cloud has it, proved.
pub(crate) async fn fetched(
    keys: &BackupKeys,
    head: &Head,
    at: usize,
    place: &Place,
) -> Result<Bytes, Refused> {
    let entry = &head.objects[at];
    let before = if at == 0 { head.first } else { head.objects[at - 1].sum };
    let name = keys.object_name(&head.id, entry.start, entry.number);
    match place.cloud.get(&name, None).await {
        Ok(sealed) if keys.proves(&head.id, entry, &before, &sealed) => Ok(sealed),
        Ok(_) => Err(Refused::Changed),
        Err(error) => Err(Refused::Failed(error)),
    }
}

/// An object, from the first of `places` that has it right; what was wrong in the others.
async fn found(keys: &BackupKeys, head: &Head, at: usize, places: &[Place]) -> (Option<Bytes>, Vec<Finding>) {
    let mut findings = Vec::new();
    for place in places {
        let wrong = match fetched(keys, head, at, place).await {
            Ok(sealed) => return (Some(sealed), findings),
            Err(Refused::Changed) => CHANGED.to_owned(),
            Err(Refused::Failed(error)) => CloudError::to_string(&error),
        };
        findings.push(Finding { place: place.name.clone(), object: at, wrong });
    }
    (None, findings)
}

/// As [`found`], for objects that have to be there.
pub(crate) async fn proved(
    keys: &BackupKeys,
    head: &Head,
    at: usize,
    places: &[Place],
) -> Result<Bytes, Vec<Finding>> {
    let (sealed, findings) = found(keys, head, at, places).await;
    sealed.ok_or(findings)
}
