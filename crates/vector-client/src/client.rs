use std::sync::Arc;

use bytes::Bytes;

use crate::backend::Backend;
use crate::listing::Entry;
use crate::scalar::Cursors;
use crate::step::{Copy, Creation, Data, Done, Open, Read, Step, Write};
use crate::walk::Walk;
use crate::{
    AttributeSet, Attributes, Descriptor, Error, Failure, NewAttributes, Statistics, Target, VectorResult,
};

/// Files of an NFS server or of a local directory. Cheap to clone; everything may be called from many tasks at once.
///
/// Every call whose name begins with `v` takes a vector and does its elements in order, up to the first that fails
/// ([`Failure`]): those before it are done, those after it are not begun. All of them are [`execute`](Self::execute) with
/// steps of one kind.
#[derive(Clone)]
pub struct Client {
    pub(crate) backend: Arc<dyn Backend>,
    /// Where the scalar calls read and write next.
    pub(crate) cursors: Arc<Cursors>,
}

/// The result of a step of this kind, which no other can be.
macro_rules! each {
    ($done:expr, $pattern:pat => $value:expr) => {
        match $done {
            Ok(done) => done
                .into_iter()
                .map(|done| match done {
                    $pattern => Ok($value),
                    _ => Err(Error::Unsupported("a result of another kind")),
                })
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| Failure { done: Vec::new(), error, unknown: 0 }),
            Err(Failure { done, error, unknown }) => {
                let done = done.into_iter().map_while(|done| match done {
                    $pattern => Some($value),
                    _ => None,
                });
                Err(Failure { done: done.collect(), error, unknown })
            }
        }
    };
}

/// For steps that have nothing to say.
fn nothing(done: VectorResult<Done>) -> VectorResult<()> {
    match done {
        Ok(done) => Ok(vec![(); done.len()]),
        Err(failure) => Err(failure.map(|_| ())),
    }
}

impl Client {
    pub(crate) fn over(backend: Arc<dyn Backend>) -> Client {
        Client { backend, cursors: Arc::default() }
    }

    /// Does steps of any kinds in order, up to the first that fails, in as few round trips as possible.
    pub async fn execute(&self, steps: Vec<Step>) -> VectorResult<Done> {
        self.backend.execute(steps).await
    }

    /// Reads extents of files (V1).
    pub async fn vread(&self, reads: Vec<Read>) -> VectorResult<Data> {
        each!(self.execute(reads.into_iter().map(Step::Read).collect()).await, Done::Read(data) => data)
    }

    /// Writes extents of files; how many bytes each (V2).
    pub async fn vwrite(&self, writes: Vec<Write>) -> VectorResult<u64> {
        each!(self.execute(writes.into_iter().map(Step::Write).collect()).await, Done::Written(bytes) => bytes)
    }

    /// Opens files (V6). Those that were opened before one fails stay open, and are in [`Failure::done`].
    pub async fn vopen(&self, opens: Vec<Open>) -> VectorResult<Descriptor> {
        each!(self.execute(opens.into_iter().map(Step::Open).collect()).await, Done::Opened(descriptor) => descriptor)
    }

    /// Opens files, all in the same way: for reading, or for reading and writing, those that are not there being made or not (V6).
    pub async fn vopen_simple(
        &self,
        targets: Vec<Target>,
        write: bool,
        create: Option<Creation>,
    ) -> VectorResult<Descriptor> {
        let open = |target| Open { write, create, ..Open::read(target) };
        self.vopen(targets.into_iter().map(open).collect()).await
    }

    /// Closes files (V7). Whoever opens them then sees what was written to them.
    pub async fn vclose(&self, descriptors: Vec<Descriptor>) -> VectorResult<()> {
        self.cursors.forget(&descriptors);
        nothing(self.execute(descriptors.into_iter().map(Step::Close).collect()).await)
    }

    /// Makes safe what was written through descriptors (fsync).
    pub async fn vcommit(&self, descriptors: Vec<Descriptor>) -> VectorResult<()> {
        nothing(self.execute(descriptors.into_iter().map(Step::Commit).collect()).await)
    }

    /// Attributes of objects; of what a symbolic link leads to (V10).
    pub async fn vgetattrs(&self, targets: Vec<Target>, wanted: AttributeSet) -> VectorResult<Attributes> {
        self.attributes(targets, wanted, true).await
    }

    /// Attributes of objects; those of a symbolic link itself (V22).
    pub async fn vlgetattrs(&self, targets: Vec<Target>, wanted: AttributeSet) -> VectorResult<Attributes> {
        self.attributes(targets, wanted, false).await
    }

    async fn attributes(
        &self,
        targets: Vec<Target>,
        wanted: AttributeSet,
        follow: bool,
    ) -> VectorResult<Attributes> {
        let steps = targets.into_iter().map(|target| Step::GetAttributes { target, wanted, follow });
        each!(self.execute(steps.collect()).await, Done::Attributes(attributes) => *attributes)
    }

    /// Sets attributes of objects; of what a symbolic link leads to (V11).
    pub async fn vsetattrs(&self, changes: Vec<(Target, NewAttributes)>) -> VectorResult<()> {
        self.set_attributes(changes, true).await
    }

    /// Sets attributes of objects; those of a symbolic link itself (V22).
    pub async fn vlsetattrs(&self, changes: Vec<(Target, NewAttributes)>) -> VectorResult<()> {
        self.set_attributes(changes, false).await
    }

    async fn set_attributes(&self, changes: Vec<(Target, NewAttributes)>, follow: bool) -> VectorResult<()> {
        let step = |(target, attributes)| Step::SetAttributes { target, attributes, follow };
        nothing(self.execute(changes.into_iter().map(step).collect()).await)
    }

    /// Copies within the server; how many bytes each (V12).
    pub async fn vsscopy(&self, copies: Vec<Copy>) -> VectorResult<u64> {
        each!(self.execute(copies.into_iter().map(Step::Copy).collect()).await, Done::Copied(bytes) => bytes)
    }

    /// Makes directories (V14). One that exists already is an error.
    pub async fn vmkdir(&self, directories: Vec<(Target, u32)>) -> VectorResult<()> {
        let step = |(target, mode)| Step::MakeDirectory { target, mode };
        nothing(self.execute(directories.into_iter().map(step).collect()).await)
    }

    /// Makes symbolic links: where, and where each leads (V17).
    pub async fn vsymlink(&self, links: Vec<(Target, Bytes)>) -> VectorResult<()> {
        let step = |(target, text)| Step::MakeSymbolicLink { target, text };
        nothing(self.execute(links.into_iter().map(step).collect()).await)
    }

    /// Where symbolic links lead (V17).
    pub async fn vreadlink(&self, links: Vec<Target>) -> VectorResult<Bytes> {
        each!(self.execute(links.into_iter().map(Step::ReadLink).collect()).await, Done::Link(text) => text)
    }

    /// Gives files further names: the file, and the name (V17).
    pub async fn vhardlink(&self, links: Vec<(Target, Target)>) -> VectorResult<()> {
        let step = |(existing, new)| Step::HardLink { existing, new };
        nothing(self.execute(links.into_iter().map(step).collect()).await)
    }

    /// Removes files and empty directories (V18).
    pub async fn vremove(&self, targets: Vec<Target>) -> VectorResult<()> {
        nothing(self.execute(targets.into_iter().map(Step::Remove).collect()).await)
    }

    /// Renames: from, and to (V20).
    pub async fn vrename(&self, renames: Vec<(Target, Target)>) -> VectorResult<()> {
        let step = |(from, to)| Step::Rename { from, to };
        nothing(self.execute(renames.into_iter().map(step).collect()).await)
    }

    /// Reads directories, page by page, with all below them if `recursive` (V16).
    pub fn walk(&self, directories: Vec<Target>, wanted: AttributeSet, recursive: bool) -> Walk<'_> {
        Walk::new(self, directories, wanted, recursive)
    }

    /// Calls `each` for every entry of these directories with the directory it is in, with all below them if `recursive`
    /// (V16); how many directories were read. Stops at the first that cannot be read; for the place of that one in the
    /// list, those below count to those listed.
    pub async fn vlistdir(
        &self,
        directories: Vec<Target>,
        wanted: AttributeSet,
        recursive: bool,
        mut each: impl FnMut(&Target, &Entry),
    ) -> Result<u64, Failure<()>> {
        let (mut walk, mut read) = (self.walk(directories, wanted, recursive), 0_u64);
        while let Some(found) = walk.next().await {
            match found.entries {
                Ok(entries) => entries.iter().for_each(|entry| each(&found.directory, entry)),
                Err(error) => {
                    let done = vec![(); usize::try_from(read).unwrap_or(usize::MAX)];
                    return Err(Failure { done, error, unknown: 0 });
                }
            }
            read += u64::from(found.last);
        }
        Ok(read)
    }

    /// Whether both are one connection, or one local directory: what is copied between them need not leave it.
    pub fn is_same(&self, other: &Client) -> bool {
        Arc::ptr_eq(&self.backend, &other.backend)
    }

    /// What was sent so far.
    pub fn statistics(&self) -> Statistics {
        self.backend.statistics()
    }

    /// Closes every file and ends the connection; other calls fail from then on.
    pub async fn close(&self) -> Result<(), Error> {
        self.backend.close().await
    }
}
