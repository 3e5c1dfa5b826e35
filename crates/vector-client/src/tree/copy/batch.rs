//! Many small objects in a few compounds.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;

use super::options::{CopyAct, CopyItem, CopyOptions, Make, Preserve};
use crate::step::{Creation, Done, Open, Read, Step, Write};
use crate::tree::is_fatal;
use crate::{Client, Copy, Error, Kind, NewAttributes, SetTime, Target};

/// An object on its way, and the directory it is in.
pub(super) struct Piece {
    pub item: CopyItem,
    pub folder: Option<u64>,
}

/// What became of it: bytes, or what could not be done and why.
pub(super) type Copied = Result<u64, (CopyAct, Error)>;

/// What all copying of a run shares.
pub(super) struct Ends<'a> {
    pub from: &'a Client,
    pub to: &'a Client,
    pub options: &'a CopyOptions,
    /// Whether they are one.
    pub same: bool,
    /// Whether the server can copy by itself, as far as is known.
    pub by_server: AtomicBool,
    /// Bytes that were copied of files that are not whole yet.
    pub moving: AtomicU64,
}

/// The server has no such operation.
const EOPNOTSUPP: i32 = 95;

/// A step for one of the objects.
struct Task {
    piece: usize,
    act: CopyAct,
    step: Step,
}

impl Ends<'_> {
    /// Copies these, none of which is a directory.
    pub async fn batch(&self, pieces: Vec<Piece>) -> Result<Vec<(Piece, Copied)>, Error> {
        let mut results: Vec<Option<Copied>> = pieces.iter().map(|_| None).collect();
        if self.by_server.load(Ordering::Relaxed) {
            self.copy_by_server(&pieces, &mut results).await?;
        }
        let contents = self.read(&pieces, &mut results).await?;
        let mut tasks = VecDeque::new();
        for (index, content) in contents.into_iter().enumerate() {
            if let Some(content) = content {
                let item = &pieces[index].item;
                self.remove_first(index, item, &content, &mut tasks);
                let (act, step) = self.make(item, content);
                tasks.push_back(Task { piece: index, act, step });
                tasks.extend(self.attributes(index, item));
            }
        }
        self.perform(&pieces, tasks, &mut results).await?;
        let done = |(piece, result): (Piece, Option<Copied>)| (piece, result.unwrap_or(Ok(0)));
        Ok(pieces.into_iter().zip(results).map(done).collect())
    }

    /// What the server copied by itself has a result then; what it did not is left.
    async fn copy_by_server(&self, pieces: &[Piece], results: &mut [Option<Copied>]) -> Result<(), Error> {
        let (mut tasks, mut attributes) = (VecDeque::new(), VecDeque::new());
        for (index, Piece { item, .. }) in pieces.iter().enumerate() {
            if !is_content(item, self.options) || item.attributes.size == Some(0) {
                continue;
            }
            if self.removes_first(item) {
                continue;
            }
            let step = Step::Copy(Copy::whole(&item.source, &item.destination, self.mode(item)));
            tasks.push_back(Task { piece: index, act: CopyAct::Write, step });
            attributes.extend(self.attributes(index, item));
        }
        self.perform(pieces, tasks, results).await?;
        for result in results.iter_mut() {
            if let Some(Err((CopyAct::Write, _))) = result {
                // Reading and writing says why it cannot be done, if it cannot.
                *result = None;
            }
        }
        // After all copies: nothing else may follow a copy in one compound.
        attributes.retain(|task| matches!(results[task.piece], Some(Ok(_))));
        self.perform(pieces, attributes, results).await
    }

    /// Remembers it if this says that the server has no COPY; whether it does.
    pub fn refused_copy(&self, error: &Error) -> bool {
        let has_none = error.errno() == EOPNOTSUPP;
        if has_none {
            self.by_server.store(false, Ordering::Relaxed);
        }
        has_none
    }

    /// The content of each that has no result yet: of a file, or where a link leads.
    async fn read(
        &self,
        pieces: &[Piece],
        results: &mut [Option<Copied>],
    ) -> Result<Vec<Option<Content>>, Error> {
        let mut contents: Vec<Option<Content>> = pieces.iter().map(|_| None).collect();
        let mut tasks = VecDeque::new();
        for (index, Piece { item, .. }) in pieces.iter().enumerate() {
            if results[index].is_some() {
                continue;
            }
            if item.attributes.is(Kind::SymbolicLink) {
                let step = Step::ReadLink(item.source.clone());
                tasks.push_back(Task { piece: index, act: CopyAct::ReadLink, step });
            } else if self.options.make == Make::SymbolicLink {
                contents[index] = Some(Content::Link(link_text(&item.source)));
            } else if self.options.make == Make::HardLink {
                contents[index] = Some(Content::HardLink);
            } else {
                // A byte more than there should be: so the end of the file shows itself. Of some files, as those below /proc, the size says nothing.
                let length = item.attributes.size.unwrap_or(0) + 1;
                let step = Step::Read(Read::new(&item.source, 0, length));
                tasks.push_back(Task { piece: index, act: CopyAct::Read, step });
            }
        }
        let mut grown = Vec::new();
        each(self.from, tasks, |task, done| {
            match done {
                Ok(Done::Read(data)) if data.end_of_file => {
                    contents[task.piece] = Some(Content::File(data.into_bytes()));
                }
                Ok(Done::Read(_)) => grown.push(task.piece),
                Ok(Done::Link(text)) => contents[task.piece] = Some(Content::Link(text)),
                Ok(_) => {}
                Err(error) => results[task.piece] = Some(Err((task.act, error))),
            }
            Next::OtherObjects
        })
        .await?;
        for index in grown {
            results[index] = Some(self.large(&pieces[index].item).await?);
        }
        Ok(contents)
    }

    fn make(&self, item: &CopyItem, content: Content) -> (CopyAct, Step) {
        let target = item.destination.clone();
        match content {
            Content::File(data) => (CopyAct::Write, Step::Write(Write::whole(target, self.mode(item), data))),
            Content::Link(text) => {
                (CopyAct::MakeSymbolicLink(text.clone()), Step::MakeSymbolicLink { target, text })
            }
            Content::HardLink => {
                let existing = item.source.clone();
                (CopyAct::MakeHardLink(existing.clone()), Step::HardLink { existing, new: target })
            }
        }
    }

    fn remove_first(&self, piece: usize, item: &CopyItem, content: &Content, tasks: &mut VecDeque<Task>) {
        let goes = match content {
            Content::File(_) => self.removes_first(item),
            // The copy of a link replaces what is there. A link instead of a copy does not, as it could be all that there is of it.
            _ if self.is_linked(item) => {
                item.existing.is_some() && (self.options.remove || self.options.force)
            }
            _ => item.existing.is_some(),
        };
        if goes {
            tasks.push_back(Task {
                piece,
                act: CopyAct::Remove,
                step: Step::Remove(item.destination.clone()),
            });
        }
    }

    /// Whether what is there goes before, even if it could be written over. A symbolic link in a tree does: it might lead to
    /// what is copied.
    pub fn removes_first(&self, item: &CopyItem) -> bool {
        item.existing.as_ref().is_some_and(|it| self.options.remove || it.is(Kind::SymbolicLink))
    }

    /// Whether a link to it is made instead of a copy.
    fn is_linked(&self, item: &CopyItem) -> bool {
        !item.attributes.is(Kind::SymbolicLink) && self.options.make != Make::Copy
    }

    /// Permission bits that a new file is made with.
    pub fn mode(&self, item: &CopyItem) -> u32 {
        let mode = item.attributes.mode.unwrap_or(0o666) & 0o777;
        if self.options.preserve.owner { mode & 0o700 } else { mode & !self.options.umask }
    }

    /// Gives the copy the attributes it is to have from the original.
    fn attributes(&self, piece: usize, item: &CopyItem) -> Option<Task> {
        let linked = self.is_linked(item);
        let new = preserved(item, self.options.preserve);
        let follow = item.existing.is_some() && !item.attributes.is(Kind::SymbolicLink);
        let target = item.destination.clone();
        let step = Step::SetAttributes { target, attributes: new.clone(), follow };
        (!linked && !new.is_empty()).then_some(Task { piece, act: CopyAct::SetAttributes, step })
    }

    /// Does the steps. After one that failed, the further ones for the same object are left out; after a copy that the server
    /// does not know how to make, all.
    async fn perform(
        &self,
        pieces: &[Piece],
        tasks: VecDeque<Task>,
        results: &mut [Option<Copied>],
    ) -> Result<(), Error> {
        each(self.to, tasks, |task, done| {
            let result = &mut results[task.piece];
            match done {
                Ok(done) => {
                    let bytes = match done {
                        Done::Written(bytes) | Done::Copied(bytes) => bytes,
                        _ => 0,
                    };
                    if !matches!(result, Some(Ok(_))) {
                        *result = Some(Ok(bytes));
                    }
                    Next::OtherObjects
                }
                Err(error) if matches!(task.step, Step::Copy(_)) && self.refused_copy(&error) => {
                    Next::Nothing
                }
                Err(error) => {
                    let item = &pieces[task.piece].item;
                    let again = self.otherwise(item, &task, &error);
                    if again.is_empty() {
                        *result = Some(Err((task.act, error)));
                        return Next::OtherObjects;
                    }
                    Next::Instead(again)
                }
            }
        })
        .await
    }

    /// What to do instead of a step that failed; nothing if there is nothing.
    fn otherwise(&self, item: &CopyItem, task: &Task, error: &Error) -> Vec<Task> {
        match &task.step {
            Step::SetAttributes { target, attributes, follow } if may_do_without_owner(attributes, error) => {
                let attributes = NewAttributes { owner: None, group: None, ..attributes.clone() };
                let step = Step::SetAttributes { target: target.clone(), attributes, follow: *follow };
                vec![Task { piece: task.piece, act: task.act.clone(), step }]
            }
            Step::Write(write) if self.options.force && item.existing.is_some() && write.truncate => {
                let remove = Step::Remove(item.destination.clone());
                let again = Step::Write(Write { truncate: false, ..write.clone() });
                [(CopyAct::Remove, remove), (CopyAct::Write, again)]
                    .map(|(act, step)| Task { piece: task.piece, act, step })
                    .into()
            }
            _ => Vec::new(),
        }
    }

    /// A file opened to be written as the copy of this one.
    pub fn open_for(&self, item: &CopyItem) -> Open {
        let create = Some(Creation { mode: self.mode(item), exclusive: false });
        Open { create, truncate: true, read: false, ..Open::write(&item.destination) }
    }

    /// Gives a copy that is there its attributes.
    pub async fn set_attributes(&self, piece: &CopyItem) -> Result<Result<(), (CopyAct, Error)>, Error> {
        let tasks = self.attributes(0, piece).into_iter().collect();
        let pieces = [Piece { item: piece.clone(), folder: None }];
        let mut results = [None];
        self.perform(&pieces, tasks, &mut results).await?;
        let [result] = results;
        match result {
            None | Some(Ok(_)) => Ok(Ok(())),
            Some(Err(failure)) => Ok(Err(failure)),
        }
    }
}

enum Content {
    File(Bytes),
    Link(Bytes),
    HardLink,
}

/// What comes after a step that failed.
enum Next {
    Instead(Vec<Task>),
    /// Further steps for the same object are left out.
    OtherObjects,
    Nothing,
}

/// Does the steps in order; after one that failed, what `settle` says.
async fn each(
    client: &Client,
    mut tasks: VecDeque<Task>,
    mut settle: impl FnMut(Task, Result<Done, Error>) -> Next,
) -> Result<(), Error> {
    while !tasks.is_empty() {
        let steps = tasks.iter().map(|task| task.step.clone()).collect();
        let (done, failed) = match client.execute(steps).await {
            Ok(done) => (done, None),
            Err(failure) if is_fatal(&failure) => return Err(failure.error),
            Err(failure) => (failure.done, Some(failure.error)),
        };
        for (task, done) in tasks.drain(..done.len()).zip(done).collect::<Vec<_>>() {
            settle(task, Ok(done));
        }
        if let (Some(error), Some(task)) = (failed, tasks.pop_front()) {
            let piece = task.piece;
            match settle(task, Err(error)) {
                Next::Instead(instead) => instead.into_iter().rev().for_each(|task| tasks.push_front(task)),
                Next::OtherObjects => tasks.retain(|task| task.piece != piece),
                Next::Nothing => tasks.clear(),
            }
        }
    }
    Ok(())
}

/// Whether the content of a file is to be copied.
pub(super) fn is_content(item: &CopyItem, options: &CopyOptions) -> bool {
    item.attributes.is(Kind::File) && options.make == Make::Copy
}

/// Attributes that a copy has from its original.
pub(super) fn preserved(item: &CopyItem, preserve: Preserve) -> NewAttributes {
    let attributes = &item.attributes;
    let is_link = attributes.is(Kind::SymbolicLink);
    let (owner, group) = match preserve.owner {
        true => (attributes.owner.clone(), attributes.group.clone()),
        false => (None, None),
    };
    let time = |time: Option<crate::Time>| time.filter(|_| preserve.times).map(SetTime::To);
    NewAttributes {
        mode: attributes.mode.filter(|_| preserve.mode && !is_link),
        owner,
        group,
        size: None,
        accessed: time(attributes.accessed),
        modified: time(attributes.modified),
    }
}

/// Whether setting attributes failed because of the owner, which a copy may do without.
pub(super) fn may_do_without_owner(attributes: &NewAttributes, error: &Error) -> bool {
    let has_owner = attributes.owner.is_some() || attributes.group.is_some();
    has_owner && matches!(error.errno(), 1 | 13 | 22 | 95)
}

/// The text of a symbolic link to this.
fn link_text(source: &Target) -> Bytes {
    source.path().clone()
}
