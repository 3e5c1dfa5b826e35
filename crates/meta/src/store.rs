use async_trait::async_trait;
use bytes::Bytes;
use journal::{Attachment, Journal, Lsn, Priority};

use crate::MetaError;

/// How a transaction deals with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Runs beside others; its commit fails with [`MetaError::Conflict`] when something it read has changed.
    #[default]
    Optimistic,
    /// From `begin` to its end no other transaction commits, so its own commit cannot conflict. The way out after
    /// a bounded number of conflicts; slow for everybody else, so keep it short.
    Exclusive,
    /// As `Exclusive`, for work that frees journal space: may use the head-room
    /// ([`Priority::Upkeep`]).
    ExclusiveUpkeep,
}

/// A transactional, ordered map of byte strings. One contract for all implementations, checked by the suite in
/// `conformance`:
///
/// - Transactions are strictly serializable: as if each had run alone at one instant between `begin` and the end
///   of `commit`; whoever begins after a commit returned sees it.
/// - A commit makes a transaction *visible*; [`Committed::durable`] waits until it is *durable*. After a crash
///   the durable transactions are there, and of the others a prefix in commit order.
/// - A transaction never acts on a broken view: a read that no longer fits the earlier ones fails with
///   [`MetaError::Conflict`].
#[async_trait]
pub trait MetaStore: Send + Sync {
    /// Starts a transaction. [`Mode::Exclusive`] waits for its turn and for journal space.
    async fn begin(&self, mode: Mode) -> Result<Box<dyn Transaction>, MetaError>;

    /// Bytes of attachments that a transaction can carry beside the rows of a few files.
    fn attachable(&self) -> u64 {
        u64::MAX
    }

    /// All rows as they were at one instant after this call began, durable ones only; unaffected by later commits and in
    /// nobody's way. For dumps and backups.
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, MetaError>;
}

/// The rows of a store at one instant.
#[async_trait]
pub trait Snapshot: Send {
    /// The last transaction that it includes.
    fn lsn(&self) -> Lsn;

    /// At most `limit` rows from `start` (included) to `end` (excluded), ascending.
    async fn rows(
        &mut self,
        start: &[u8],
        end: &[u8],
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, MetaError>;
}

/// A range to read, in ascending order of keys.
#[derive(Debug, Clone, Copy)]
pub struct Scan<'a> {
    /// First key of the range.
    pub start: &'a [u8],
    /// First key beyond the range.
    pub end: &'a [u8],
    /// A key that every transaction which inserts or removes a key of this range also writes or touches. With
    /// it the scan notices insertions (no phantoms); without it only changes of the rows it returned.
    pub guard: Option<&'a [u8]>,
    /// Most rows to return.
    pub limit: usize,
}

/// One transaction. Dropping it leaves no trace.
///
/// Only [`MetaError::Conflict`] is worth a retry, with a new transaction.
#[async_trait]
pub trait Transaction: Send {
    /// The value of `key`, the transaction's own writes first. Becomes part of what the commit checks.
    async fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, MetaError>;

    /// Rows of a range, merged with the transaction's own writes. Becomes part of what the commit checks.
    async fn scan(&mut self, scan: Scan<'_>) -> Result<Vec<(Bytes, Bytes)>, MetaError>;

    /// Has the commit check that nobody has changed or touched `key`, without reading it.
    fn guard(&mut self, key: &[u8]);

    /// Sets a key. At most [`MAX_KEY`](crate::MAX_KEY) bytes of key; checked at commit.
    fn put(&mut self, key: Bytes, value: Bytes);

    /// Removes a key; removing nothing is fine.
    fn delete(&mut self, key: Bytes);

    /// Counts as a write of `key` for everybody who read it, and stores nothing. For guards (see [`Scan::guard`]).
    fn touch(&mut self, key: &[u8]);

    /// Sends file data along in the same journal record: durable and visible together with the writes. The
    /// store's [`CommitObserver`] gets it.
    fn attach(&mut self, attachment: Attachment);

    /// Payload bytes attached so far.
    fn attached_bytes(&self) -> u64;

    /// Has `then` run when the commit has made the writes visible, which it need not have made durable yet: before anybody has the store
    /// for himself ([`Mode::Exclusive`]), and even if nobody waits for the commit any more. It is not run if the commit fails, or changes
    /// nothing. Short work on what is in memory alone: a crash forgets it.
    fn afterwards(&mut self, then: Box<dyn FnOnce() + Send>);

    /// Checks that nothing read has changed, and makes the writes and attachments visible, all or none.
    /// Transactions that only read are checked as well. Waits for journal space first, never for the disk.
    async fn commit(self: Box<Self>, priority: Priority) -> Result<Committed, MetaError>;
}

/// The receipt of a commit: visible, not yet durable.
#[must_use = "call durable() before telling anybody that it is done"]
pub struct Committed {
    /// The number of the transaction in commit order; `None` when it wrote nothing.
    pub lsn: Option<Lsn>,
    pub(crate) pending: Option<Pending>,
}

/// A record that may not be durable yet. Dropped, it leaves the rest to the journal's writer.
pub(crate) struct Pending {
    pub journal: Journal,
    pub lsn: Lsn,
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.journal.durable_lsn() < self.lsn {
            self.journal.nudge();
        }
    }
}

impl Committed {
    /// A receipt of a store whose commits are durable when they return.
    pub fn already_durable(lsn: Option<Lsn>) -> Committed {
        Committed { lsn, pending: None }
    }

    /// Whether [`Committed::durable`] would return at once.
    pub fn is_durable(&self) -> bool {
        self.pending.as_ref().is_none_or(|pending| pending.journal.durable_lsn() >= pending.lsn)
    }

    /// Waits until the transaction is durable. For one that only read: until everything is durable that it read.
    pub async fn durable(self) -> Result<(), MetaError> {
        match self.pending {
            Some(pending) => Ok(pending.journal.durable(pending.lsn).await?),
            None => Ok(()),
        }
    }
}
