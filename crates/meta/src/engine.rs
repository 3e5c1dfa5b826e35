use std::sync::Arc;

use bytes::Bytes;
use journal::Lsn;

use crate::MetaError;

/// One change of one key; no value removes it.
pub(crate) type Write = (Bytes, Option<Bytes>);

/// An ordered map on disk that takes changes in large batches. What it has lost in a crash comes back from the
/// journal, so it need not be durable between checkpoints; but after a crash it must hold exactly what it
/// held after some call of [`Engine::apply`] not older than the last durable one.
pub(crate) trait Engine: Send + Sync {
    /// The last transaction that is applied.
    fn applied(&self) -> Lsn;

    /// The current state, unaffected by later changes.
    fn view(&self) -> Result<Arc<dyn View>, MetaError>;

    /// Applies writes in their order and remembers that everything up to `up_to` is applied, all or none.
    /// With `durable` this and all before it survives a crash.
    fn apply(
        &self,
        writes: &mut dyn Iterator<Item = &Write>,
        up_to: Lsn,
        durable: bool,
    ) -> Result<(), MetaError>;

    /// Whether the disk has room for what is to be applied. Where it has not, it is better to wait before: views are blocked
    /// while [`Engine::apply`] waits.
    fn has_room(&self) -> bool;

    /// Whether something waits for room on the disk.
    fn is_waiting(&self) -> bool;

    /// Whatever waits for room on the disk fails instead, from now on.
    fn stop_waiting(&self);

    /// Lets go of the file: nothing touches it afterwards, and all calls fail.
    fn close(&self);
}

/// What an engine held at one moment.
pub(crate) trait View: Send + Sync {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError>;

    /// Visits the rows from `start` (included) to `end` (excluded) in ascending order until `visit` returns false.
    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), MetaError>;
}
