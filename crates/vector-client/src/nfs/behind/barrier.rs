//! What comes before steps that could see what is not sent yet.

use nfs4::NfsStatus;

use crate::nfs::Nfs;
use crate::nfs::open_files::OpenFiles;
use crate::nfs::promise::{Touched, touched};
use crate::step::{Done, Step};
use crate::{Descriptor, Error, Failure, Target, VectorResult};

impl Nfs {
    /// Does steps, and before them sends what they could see, or be about. What cannot be sent fails the first step that is
    /// about its file.
    pub(in crate::nfs) async fn all_done(&self, mut steps: Vec<Step>) -> VectorResult<Done> {
        let _closing = Closing::of(&self.files, steps.iter().filter_map(closes).collect());
        let unsent = if self.behind.is_empty() { None } else { self.first_unsent(&steps).await };
        match unsent {
            None => self.do_all(steps).await,
            Some(Trouble { step, descriptor, error }) => {
                let after = steps.split_off(step);
                match self.do_all(steps).await {
                    Ok(done) => {
                        if let Some(descriptor) = after.first().and_then(closes) {
                            // It is closed nevertheless; that its data is lost is being said.
                            self.give_up(descriptor);
                            let _ = self.do_all(vec![Step::Close(descriptor)]).await;
                        }
                        Err(Failure { done, error, unknown: 0 })
                    }
                    Err(failure) => {
                        self.tell_later(descriptor, error);
                        Err(failure)
                    }
                }
            }
        }
    }

    /// The first of these steps that is about a file of which something could not be sent.
    async fn first_unsent(&self, steps: &[Step]) -> Option<Trouble> {
        let mut first: Option<Trouble> = None;
        for (descriptor, file) in self.behind.all() {
            let is_it = |target: &Target| {
                let same = target.descriptor().and_then(|it| self.files.get(it).ok());
                same.is_some_and(|it| it.open.handle() == file.open.handle())
            };
            let is_about = |step: &Step| match step {
                Step::Close(number) => *number == descriptor,
                step => targets(step).iter().any(is_it),
            };
            let step = steps.iter().position(is_about);
            if step.is_none() && !steps.iter().any(names_a_path) {
                continue;
            }
            let Err(error) = self.flush(descriptor, &file).await else { continue };
            let status = if let Error::Refused { status, .. } = error { status } else { NfsStatus::Io };
            match step {
                Some(step) if first.as_ref().is_none_or(|first| step < first.step) => {
                    if let Some(later) = first.replace(Trouble { step, descriptor, error }) {
                        self.tell_later(later.descriptor, later.error);
                    }
                }
                _ => self.tell_later(descriptor, error),
            }
            if steps.iter().any(|step| touched(step, &self.files) == Some(Touched::Any)) {
                let sending = {
                    let mut state = file.tail.0.lock();
                    state.overtaken = Some(status);
                    state.sending.clone()
                };
                if let Some(mut sending) = sending {
                    // Somebody has begun it again meanwhile.
                    let _ = sending.changed().await;
                }
            }
        }
        first
    }

    /// Forgets what could not be sent.
    fn give_up(&self, descriptor: Descriptor) {
        let Ok(file) = self.files.get(descriptor) else { return };
        {
            let mut state = file.tail.0.lock();
            state.unsent.take();
            (state.failed, state.overtaken) = (None, None);
            self.behind.room.add_permits(std::mem::take(&mut state.room));
        }
        self.behind.remove(descriptor, &file);
    }
}

/// Files that are being closed take no more. Those that were not closed in the end do so again.
struct Closing<'a> {
    files: &'a OpenFiles,
    descriptors: Vec<Descriptor>,
}

impl Closing<'_> {
    fn of(files: &OpenFiles, descriptors: Vec<Descriptor>) -> Closing<'_> {
        let closing = Closing { files, descriptors };
        closing.set(true);
        closing
    }

    fn set(&self, is_closing: bool) {
        for file in self.descriptors.iter().filter_map(|it| self.files.get(*it).ok()) {
            file.tail.0.lock().is_closing = is_closing;
        }
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// A step that cannot be done, as something written before it to its file could not be sent.
struct Trouble {
    step: usize,
    descriptor: Descriptor,
    error: Error,
}

fn closes(step: &Step) -> Option<Descriptor> {
    match step {
        Step::Close(descriptor) => Some(*descriptor),
        _ => None,
    }
}

fn targets(step: &Step) -> Vec<Target> {
    match step {
        Step::Copy(copy) => vec![copy.source.clone(), copy.destination.clone()],
        Step::HardLink { existing, new } => vec![existing.clone(), new.clone()],
        Step::Rename { from, to } => vec![from.clone(), to.clone()],
        step => vec![step.target()],
    }
}

/// Whether it may be about any file.
fn names_a_path(step: &Step) -> bool {
    targets(step).iter().any(|target| target.descriptor().is_none())
}
