use std::collections::HashMap;
use std::sync::Arc;

use cache::DirtyBlock;
use tokio::task::{Id, JoinError, JoinSet};

use super::together::{Group, Groups, Small, Together};
use super::{Parts, Ready};
use crate::{MaintainedVolume, UpkeepConfig};

/// The state of one drive.
pub(super) struct Drive {
    tasks: JoinSet<Event>,
    what: HashMap<Id, Task>,
    pub ready: Vec<Ready>,
    /// Small blocks that are being completed, to travel together.
    completing: usize,
    groups: Groups,
    /// Blocks claimed and not given back, but for those that are together.
    pub outstanding: usize,
    /// Blocks that wait for company, or are on their way with it.
    pub together: usize,
    committing: bool,
}

/// What a task of a drive is about.
pub(super) enum Task {
    /// One that travels alone.
    Block,
    /// One that waits for others when it is complete.
    Small,
    /// So many blocks together.
    Group(usize),
    Commit,
}

/// How a task of a drive ended.
pub(super) enum Event {
    Stored(Box<Ready>),
    Small(Box<Small>),
    Together(Together),
    NotStored(DirtyBlock),
    Committed,
}

impl Drive {
    pub fn new(config: &UpkeepConfig) -> Drive {
        Drive {
            tasks: JoinSet::new(),
            what: HashMap::new(),
            ready: Vec::new(),
            completing: 0,
            groups: Groups::new(config.pack_size, config.in_flight),
            outstanding: 0,
            together: 0,
            committing: false,
        }
    }

    pub fn spawn(&mut self, what: Task, task: impl Future<Output = Event> + Send + 'static) {
        if matches!(what, Task::Small) {
            self.completing += 1;
        }
        let task = self.tasks.spawn(task);
        self.what.insert(task.id(), what);
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The next task to end, if there is any.
    pub async fn next(&mut self) -> Option<Result<(Id, Event), JoinError>> {
        self.tasks.join_next_with_id().await
    }

    pub fn take<V: MaintainedVolume + ?Sized>(
        &mut self,
        parts: &Arc<Parts<V>>,
        ended: Result<(Id, Event), JoinError>,
    ) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let has_failed = ended.is_err();
        match self.what.remove(&id) {
            Some(Task::Block) => self.outstanding -= usize::from(has_failed),
            Some(Task::Small) => {
                self.completing -= 1;
                self.outstanding -= usize::from(has_failed);
            }
            Some(Task::Group(blocks)) => self.together -= blocks,
            Some(Task::Commit) => self.committing = false,
            None => {}
        }
        match ended {
            Ok((_, Event::Stored(ready))) => self.ready.push(*ready),
            Ok((_, Event::Small(small))) => {
                self.outstanding -= 1;
                self.together += 1;
                for group in self.groups.add(*small) {
                    self.store_group(parts, group);
                }
            }
            Ok((_, Event::Together(Together { ready, not_stored }))) => {
                not_stored.into_iter().for_each(|dirty| parts.hold(dirty));
                self.outstanding += ready.len();
                self.ready.extend(ready);
            }
            Ok((_, Event::NotStored(dirty))) => {
                self.outstanding -= 1;
                parts.hold(dirty);
            }
            Ok((_, Event::Committed)) => {}
            Err(error) => {
                // The claims went back to the queue when the task's state was dropped.
                tracing::error!(%error, "a task of write-back ended by itself");
            }
        }
    }

    /// When nothing is on its way that could go with them, groups go as they are: large blocks are not waited for.
    pub fn store_what_waits_in_vain<V: MaintainedVolume + ?Sized>(&mut self, parts: &Arc<Parts<V>>) {
        if self.completing == 0 {
            for group in self.groups.take() {
                self.store_group(parts, group);
            }
        }
    }

    fn store_group<V: MaintainedVolume + ?Sized>(&mut self, parts: &Arc<Parts<V>>, group: Group) {
        let parts = Arc::clone(parts);
        let what = Task::Group(group.len());
        self.spawn(what, async move { Event::Together(parts.store_group(group).await) });
    }

    /// Starts a commit of what is ready, unless one is under way; what becomes ready meanwhile shares the next.
    pub fn commit<V: MaintainedVolume + ?Sized>(&mut self, parts: &Arc<Parts<V>>) {
        if self.committing || self.ready.is_empty() {
            return;
        }
        let batch: Vec<_> = self.ready.drain(..self.ready.len().min(parts.config.batch.max(1))).collect();
        self.committing = true;
        self.outstanding -= batch.len();
        let parts = Arc::clone(parts);
        self.spawn(Task::Commit, async move {
            parts.commit(batch).await;
            Event::Committed
        });
    }
}
