//! Trees: what is told of each object of them.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vector_client::{
    CopyAct, CopyItem, CopyOptions, CopyWatch, Error, Links, Make, Preserve, Removal, Target,
};

use crate::error::{self, Place};

/// Errors that are kept, so that memory does not grow with a tree of which nothing can be done.
const KEPT: usize = 1000;

/// What came of a tree.
#[derive(Default)]
pub struct Report {
    done: u64,
    failed: u64,
    errors: Vec<Py<PyAny>>,
}

impl Report {
    fn fail(&mut self, make: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>>) {
        self.failed += 1;
        if self.errors.len() < KEPT
            && let Some(Ok(exception)) = Python::try_attach(make)
        {
            self.errors.push(exception);
        }
    }

    /// A name of a tree was removed, or not.
    pub fn removed(&mut self, removal: &Removal<'_>) {
        match removal.result {
            Ok(()) => self.done += 1,
            Err(error) => {
                let place = Place { index: Some(removal.argument), unknown: 0 };
                self.fail(|py| error::exception(py, error, Vec::new(), &place));
            }
        }
    }

    /// How many objects were done, how many were not, and why.
    pub fn finish(self) -> (u64, u64, Vec<Py<PyAny>>) {
        (self.done, self.failed, self.errors)
    }
}

/// Watches a copy.
#[derive(Default)]
pub struct Watch {
    pub report: Report,
    /// Whether what exists may be replaced.
    pub replace: bool,
}

impl CopyWatch for Watch {
    fn may_replace(&mut self, _: &CopyItem) -> bool {
        self.replace
    }

    fn copied(&mut self, _: &CopyItem, _: u64) {
        self.report.done += 1;
    }

    fn failed(&mut self, item: &CopyItem, act: &CopyAct, error: Option<&Error>) {
        let index = item.argument;
        self.report.fail(|py| match error {
            Some(error) => error::exception(py, error, Vec::new(), &Place { index: Some(index), unknown: 0 }),
            None => {
                let (errno, what, target): (i32, &str, &Target) = match act {
                    CopyAct::OmitDirectory => (21, "a directory, and recursive is not wanted", &item.source),
                    CopyAct::SameFile => (22, "the copy would be the same file", &item.destination),
                    CopyAct::IntoItself => {
                        (22, "a directory cannot be copied into itself", &item.destination)
                    }
                    CopyAct::Cycle => (40, "a link to a directory that it is in", &item.source),
                    CopyAct::OverDirectory => {
                        (21, "a directory is not replaced by something else", &item.destination)
                    }
                    CopyAct::OverFile => (20, "not a directory, and not replaced by one", &item.destination),
                    CopyAct::MakeSpecial => (95, "neither a file nor a directory nor a link", &item.source),
                    _ => (5, "not copied", &item.source),
                };
                error::told(py, errno, what, target, index)
            }
        });
    }
}

/// How to copy, from keyword arguments, and whether what exists may be replaced.
pub fn copy_options(changes: &Bound<'_, PyDict>) -> PyResult<(CopyOptions, bool)> {
    let (mut options, mut replace) = (CopyOptions::default(), true);
    let wrong = |what: &str| Err(PyValueError::new_err(what.to_owned()));
    for (name, value) in changes {
        let name: String = name.extract()?;
        match name.as_str() {
            "recursive" => options.recursive = value.extract()?,
            "links" => {
                options.links = match value.extract::<String>()?.as_str() {
                    "keep" => Links::Keep,
                    "follow-named" => Links::FollowNamed,
                    "follow" => Links::Follow,
                    _ => return wrong("links is keep, follow-named or follow"),
                }
            }
            "preserve" => {
                let mut preserve = Preserve::default();
                for what in value.extract::<Vec<String>>()? {
                    match what.as_str() {
                        "mode" => preserve.mode = true,
                        "owner" => preserve.owner = true,
                        "times" => preserve.times = true,
                        "links" => preserve.links = true,
                        _ => return wrong("preserve has some of mode, owner, times and links"),
                    }
                }
                options.preserve = preserve;
            }
            "make" => {
                options.make = match value.extract::<String>()?.as_str() {
                    "copy" => Make::Copy,
                    "symbolic-link" => Make::SymbolicLink,
                    "hard-link" => Make::HardLink,
                    _ => return wrong("make is copy, symbolic-link or hard-link"),
                }
            }
            "umask" => options.umask = value.extract()?,
            "force" => options.force = value.extract()?,
            "remove" => options.remove = value.extract()?,
            "replace" => replace = value.extract()?,
            _ => return Err(PyTypeError::new_err(format!("there is no option {name}"))),
        }
    }
    Ok((options, replace))
}
