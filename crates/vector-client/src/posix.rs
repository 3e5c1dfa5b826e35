//! Steps on the files of this machine (V24): the same calls, the same results, by system calls.
//!
//! A vector is one job on a thread that may block, whatever its length, and stops between two steps when nobody waits for
//! it any more. Directories that several steps of it need are looked up once, and a file that the next step goes on with stays
//! open for it.

mod attributes;
mod content;
mod copy;
mod list;
mod names;
mod open_files;
mod place;
mod root;
mod vector;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use crate::backend::Backend;
use crate::listing::{Directory, PageResult};
use crate::step::{Done, Step};
use crate::{Client, Error, Failure, Statistics, Target, VectorResult};

use open_files::OpenFiles;
use root::Root;
use vector::Vector;

/// A directory of this machine.
struct Posix {
    shared: Arc<Shared>,
}

/// What jobs need.
struct Shared {
    root: Root,
    files: OpenFiles,
    closed: AtomicBool,
}

impl Client {
    /// Files of this machine, with the rights of this process. Paths begin at `directory`, and nothing leads out of it: `..`
    /// there leads nowhere, and symbolic links with absolute texts lead on from it. With `/` that is what everything else on the
    /// machine sees; another directory, and removing trees, need Linux 5.6. To be used in a tokio runtime.
    ///
    /// What differs from NFS, because the rules of the machine are not those of RFC 8881:
    ///
    /// * Permission bits of a symbolic link cannot be set, and owners have no names. There are no filehandles.
    /// * Where several reasons forbid a rename or a further name, another one of them may be given, and a directory cannot
    ///   have a further name because of `EPERM` rather than `EISDIR`.
    /// * What is open for writing alone cannot be read, which servers may allow.
    /// * Names that were made or removed are as safe as the file system makes them. [`Write`](crate::Write) says what there is
    ///   for data.
    ///
    /// # Errors
    /// `directory` cannot be opened, or the kernel cannot keep paths in it.
    pub fn local(directory: impl AsRef<Path>) -> Result<Client, Error> {
        let directory = directory.as_ref();
        let root = Root::open(directory)
            .map_err(|errno| Error::Local { target: Target::from(directory), error: errno.into() })?;
        let shared = Shared { root, files: OpenFiles::default(), closed: AtomicBool::new(false) };
        Ok(Client::over(Arc::new(Posix { shared: Arc::new(shared) })))
    }
}

/// What a vector came to, until somebody has it: what it opened is closed when nobody will.
struct Unclaimed {
    shared: Arc<Shared>,
    result: Option<VectorResult<Done>>,
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(unwanted) = &self.result {
            self.shared.files.close_opened(unwanted);
        }
    }
}

impl Shared {
    fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::Acquire) {
            return Err(failed("the client is closed"));
        }
        Ok(())
    }
}

#[async_trait]
impl Backend for Posix {
    async fn execute(&self, steps: Vec<Step>) -> VectorResult<Done> {
        let (shared, count) = (self.shared.clone(), steps.len());
        let (sender, receiver) = oneshot::channel();
        spawn_blocking(move || {
            let result = match shared.check_open() {
                Ok(()) => Vector::new(&shared).run(&steps, || sender.is_closed()),
                Err(error) => Err(Failure { done: Vec::new(), error, unknown: 0 }),
            };
            // If nobody is there to have it, it is dropped.
            let _ = sender.send(Unclaimed { shared, result: Some(result) });
        });
        let result = receiver.await.ok().and_then(|mut unclaimed| unclaimed.result.take());
        result.unwrap_or_else(|| {
            Err(Failure { done: Vec::new(), error: failed("the job was ended"), unknown: count })
        })
    }

    async fn read_directories(&self, directories: Vec<Directory>) -> Vec<PageResult> {
        let shared = self.shared.clone();
        let pages = spawn_blocking(move || match shared.check_open() {
            Ok(()) => Vector::new(&shared).pages(&directories),
            Err(error) => vec![Err(error)],
        });
        pages.await.unwrap_or_else(|_| vec![Err(failed("the job was ended"))])
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }

    async fn close(&self) -> Result<(), Error> {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.files.clear();
        Ok(())
    }
}

fn failed(why: &'static str) -> Error {
    Error::Local { target: Target::from("/"), error: std::io::Error::other(why) }
}
