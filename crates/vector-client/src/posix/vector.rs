//! Steps, one after the other.

use rustix::fs::fsync;

use super::Shared;
use super::content::Recent;
use super::place::{Directory, local};
use crate::step::{Done, Step};
use crate::{Error, Failure, VectorResult};

/// A vector on its way, and what one step of it leaves for the next.
pub(super) struct Vector<'a> {
    pub shared: &'a Shared,
    /// Directories that paths led to, the last used first.
    pub directories: Vec<Directory>,
    /// The file that was read or written last.
    pub recent: Option<Recent>,
}

impl Vector<'_> {
    pub fn new(shared: &Shared) -> Vector<'_> {
        Vector { shared, directories: Vec::new(), recent: None }
    }

    /// Does the steps up to the first that fails, or as long as somebody is interested.
    pub fn run(&mut self, steps: &[Step], is_unwanted: impl Fn() -> bool) -> VectorResult<Done> {
        let mut done = Vec::with_capacity(steps.len());
        for step in steps {
            if is_unwanted() {
                return Ok(done);
            }
            match self.step(step) {
                Ok(result) => done.push(result),
                Err(error) => return Err(Failure { done, error, unknown: 0 }),
            }
        }
        Ok(done)
    }

    fn step(&mut self, step: &Step) -> Result<Done, Error> {
        if !matches!(step, Step::Read(_) | Step::Write(_)) {
            self.recent = None;
        }
        match step {
            Step::Open(open) => self.open(open),
            Step::Close(descriptor) => self.shared.files.close(*descriptor).map(|()| Done::Nothing),
            Step::Read(read) => self.read(read),
            Step::Write(write) => self.write(write),
            Step::Commit(descriptor) => {
                let file = self.shared.files.get(*descriptor)?;
                fsync(&file.fd).map_err(|errno| local(&step.target(), errno))?;
                Ok(Done::Nothing)
            }
            Step::GetAttributes { target, wanted, follow } => self.attributes(target, *wanted, *follow),
            Step::SetAttributes { target, attributes, follow } => {
                self.set_attributes(target, attributes, *follow)
            }
            Step::Copy(copy) => self.copy(copy),
            Step::MakeDirectory { target, mode } => self.make_directory(target, *mode),
            Step::MakeSymbolicLink { target, text } => self.make_symbolic_link(target, text),
            Step::ReadLink(target) => self.text_of(target),
            Step::HardLink { existing, new } => self.hard_link(existing, new),
            Step::Remove(target) => self.remove(target),
            Step::Rename { from, to } => self.rename(from, to),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::posix::open_files::OpenFiles;
    use crate::posix::root::Root;
    use crate::step::Open;
    use crate::{Descriptor, Read};

    #[test]
    fn a_vector_that_nobody_waits_for_stops_and_leaves_nothing_open() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path()).unwrap();
        let shared = Shared { root, files: OpenFiles::default(), closed: false.into() };
        let steps: Vec<Step> = (0..5).map(|n| Step::Open(Open::create(format!("{n}"), 0o600))).collect();
        let asked = Cell::new(0);
        let is_unwanted = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };
        let result = Vector::new(&shared).run(&steps, is_unwanted);
        assert_eq!(result.as_ref().unwrap().len(), 3);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
        shared.files.close_opened(&result);
        for number in 0..3 {
            let read = Step::Read(Read::new(Descriptor::from_number(number), 0, 1));
            let failure = Vector::new(&shared).run(&[read], || false).unwrap_err();
            assert!(matches!(failure.error, Error::NotOpen(_)));
        }
    }
}
