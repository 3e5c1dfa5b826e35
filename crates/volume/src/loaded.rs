use bytes::Bytes;
use ids::Timestamp;
use meta::{MetaStore, Mode, Priority, Scan};

use crate::VolumeError;
use crate::keys;
use crate::row::{BadRow, PackNote};

/// Rows that go at a time.
const ROWS: usize = 1024;

/// To be called when the rows of a store have been loaded from a dump. Objects that were made after the dump are gone,
/// but their numbers may still be in handles of clients and must not come back (`K9`): numbers go on where no gateway can
/// have been by now, at 65,536 objects for every second since 1970. What was on its way to the clouds may have become current
/// after the dump, and may be needed if a later one is loaded: nothing is known of it any more, and it stays there.
pub async fn after_load(store: &dyn MetaStore, now: Timestamp) -> Result<(), VolumeError> {
    let mut transaction = store.begin(Mode::Optimistic).await?;
    let next = match transaction.get(&keys::next_object()).await? {
        Some(row) => u128::from_be_bytes(row[..].try_into().map_err(|_| VolumeError::Damaged {
            what: "the object counter".into(),
            cause: BadRow("a counter of the wrong length"),
        })?),
        None => 1,
    };
    let beyond = u128::try_from(now.seconds).unwrap_or(0) << 16;
    let next = next.max(beyond);
    transaction.put(keys::next_object(), Bytes::copy_from_slice(&next.to_be_bytes()));
    transaction.commit(Priority::Client).await?.durable().await?;
    forget(store, keys::attempts_of_all(), |_| true).await?;
    // A pack in use is held by its note, too; the next start takes that away.
    forget(store, keys::pack_notes_of_all(), |note| PackNote::decode(note).is_ok_and(|note| !note.in_use))
        .await
}

/// Deletes rows of a range.
async fn forget(
    store: &dyn MetaStore,
    (mut start, end): keys::KeyRange,
    is_old: impl Fn(&[u8]) -> bool,
) -> Result<(), VolumeError> {
    loop {
        let mut transaction = store.begin(Mode::Optimistic).await?;
        let rows = transaction.scan(Scan { start: &start, end: &end, guard: None, limit: ROWS }).await?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        start = [&last[..], &[0]].concat().into();
        rows.into_iter().filter(|(_, row)| is_old(row)).for_each(|(key, _)| transaction.delete(key));
        transaction.commit(Priority::Client).await?.durable().await?;
    }
}
