//! Whole trees: made, removed, copied. Made of the vector calls alone, so it works on every back end.

mod copy;
mod ensure;
mod remove;
mod vcopy;

pub use copy::{CopyAct, CopyItem, CopyOptions, CopyWatch, Links, Make, Preserve};
pub use remove::Removal;

use nfs4_client::ClientError;

use crate::step::{Done, Step};
use crate::{AttributeSet, Attributes, Client, Error, Failure, Target};

/// Directories read at once.
const DIRECTORIES: usize = 256;

/// What ends a tree operation: no more can be done, or nobody knows what was.
fn is_fatal<T>(failure: &Failure<T>) -> bool {
    failure.unknown > 0 || is_of_the_server(&failure.error)
}

/// Whether it is none of a file's, but that nothing comes from the server any more.
fn is_of_the_server(error: &Error) -> bool {
    matches!(error, Error::Connection(error) if !matches!(error, ClientError::OpenLost { .. }))
}

impl Client {
    /// Does all of the steps, also those after one that fails; the result of each.
    ///
    /// # Errors
    /// What ends it all: the server is gone.
    pub async fn execute_each(&self, steps: Vec<Step>) -> Result<Vec<Result<Done, Error>>, Error> {
        let mut results = Vec::with_capacity(steps.len());
        while results.len() < steps.len() {
            match self.execute(steps[results.len()..].to_vec()).await {
                Ok(done) => results.extend(done.into_iter().map(Ok)),
                Err(failure) if is_fatal(&failure) => return Err(failure.error),
                Err(failure) => {
                    results.extend(failure.done.into_iter().map(Ok));
                    results.push(Err(failure.error));
                }
            }
        }
        Ok(results)
    }

    /// Attributes of all of these, also after one that has none.
    ///
    /// # Errors
    /// As [`execute_each`](Self::execute_each).
    pub async fn attributes_of_each(
        &self,
        targets: Vec<Target>,
        wanted: AttributeSet,
        follow: bool,
    ) -> Result<Vec<Result<Attributes, Error>>, Error> {
        let step = |target| Step::GetAttributes { target, wanted, follow };
        let done = self.execute_each(targets.into_iter().map(step).collect()).await?;
        let attributes = |done: Result<Done, Error>| match done? {
            Done::Attributes(attributes) => Ok(*attributes),
            _ => Err(Error::Unsupported("asking for attributes")),
        };
        Ok(done.into_iter().map(attributes).collect())
    }
}
