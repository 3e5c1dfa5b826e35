use async_trait::async_trait;

use crate::listing::{Directory, PageResult};
use crate::nfs::REMOVALS;
use crate::step::{Done, Step};
use crate::transaction::{Aborted, TransactionLimits};
use crate::{Error, Statistics, VectorResult};

/// Where files are: what a [`Client`](crate::Client) does everything with.
///
/// Everything is safe to call at the same time from many tasks. Dropping a future leaves it open which steps were done.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    /// Does the steps in order, up to the first that fails.
    async fn execute(&self, steps: Vec<Step>) -> VectorResult<Done>;

    /// Does all the steps at one instant, or none of them.
    async fn transact(&self, _: Vec<Step>) -> Result<Vec<Done>, Aborted> {
        Err(Aborted { step: None, error: Error::Unsupported("a transaction"), unknown: false })
    }

    /// How much may be done at one instant, if anything.
    fn transaction_limits(&self) -> Option<TransactionLimits> {
        None
    }

    /// The next page of each of these directories, in order: of the first at least, and of as many more as can be had at
    /// once. An error is the last of the list.
    async fn read_directories(&self, directories: Vec<Directory>) -> Vec<PageResult>;

    /// How many names are best removed by one vector, so that it is one message.
    fn removals(&self) -> usize {
        REMOVALS
    }

    /// What was sent so far; nothing, if nothing has to be.
    fn statistics(&self) -> Statistics;

    /// Closes every file and ends the connection.
    async fn close(&self) -> Result<(), Error>;
}
