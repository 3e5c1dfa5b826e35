use bytes::Bytes;

use crate::{MetaError, MetaStore, Mode, Priority};

/// Bytes of a row in a record of the journal, besides key and value.
const ROW_HEAD: usize = 6;

/// Puts rows, and takes away those without a value, durably, as few at a time as fit a record of `max_record` bytes well: for a store that is being loaded, since a part of
/// them may be there when it fails.
pub async fn put_durably(
    store: &dyn MetaStore,
    rows: Vec<(Bytes, Option<Bytes>)>,
    max_record: u64,
) -> Result<(), MetaError> {
    let length = |value: &Option<Bytes>| value.as_ref().map_or(0, Bytes::len);
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let mut transaction = store.begin(Mode::Optimistic).await?;
        let mut bytes = 0;
        // A row that takes more than half of a record gets one of its own.
        let space = |(key, value): &(Bytes, Option<Bytes>)| (ROW_HEAD + key.len() + length(value)) as u64;
        while let Some((key, value)) = rows.next_if(|row| bytes == 0 || bytes + space(row) <= max_record / 2)
        {
            bytes += (ROW_HEAD + key.len() + length(&value)) as u64;
            match value {
                Some(value) => transaction.put(key, value),
                None => transaction.delete(key),
            }
        }
        transaction.commit(Priority::Client).await?.durable().await?;
    }
    Ok(())
}
