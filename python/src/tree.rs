//! Trees: what is told of each object of them.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vector_client::{CopyAct, CopyItem, CopyOptions, CopyWatch, Error, Links, Make, Preserve, Removal};

use crate::error::Told;

/// Errors that are kept, so that memory does not grow with a tree of which nothing can be done.
const KEPT: usize = 1000;

/// What came of a tree.
#[derive(Default)]
pub struct Report {
    done: u64,
    failed: u64,
    errors: Vec<Told>,
}

impl Report {
    fn fail(&mut self, make: impl FnOnce() -> Told) {
        self.failed += 1;
        if self.errors.len() < KEPT {
            self.errors.push(make());
        }
    }

    /// A name of a tree was removed, or not.
    pub fn removed(&mut self, removal: &Removal<'_>) {
        match removal.result {
            Ok(()) => self.done += 1,
            Err(error) => self.fail(|| Told::new(error, Some(removal.argument), 0)),
        }
    }

    /// How many objects were done, how many were not, and why.
    pub fn finish(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let errors: PyResult<Vec<_>> =
            self.errors.into_iter().map(|error| error.exception(py, Vec::new())).collect();
        (self.done, self.failed, errors?).into_py_any(py)
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
        self.report.fail(|| Told::of_copy(item, act, error));
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
