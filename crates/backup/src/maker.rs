//! The order of steps in which a store is backed up, again and again.

use async_trait::async_trait;
use bytes::Bytes;
use environment::mutant::{Mutant, is_broken};
use meta::{Instant, LocalStore, MAX_KEY, Snapshot};

use crate::{BackupError, Item, Kind, Notes, Place, Progress, Source, Unsaved, Writer};

/// Rows read at once.
const ROWS: usize = 1024;
/// Ranges of one file that are told one by one.
const RANGES: usize = 256;

/// What only the owner of a store knows of it.
pub trait Content: Send + Sync {
    /// A row that is of no use to another process, or of the backups themselves.
    fn is_left_out(&self, key: &[u8]) -> bool;

    /// What is dirty. Asked at the very instant of a backup, while nobody can commit: it must not call the store, and be quick.
    fn unsaved(&self) -> Vec<Unsaved>;

    /// The configuration in force.
    ///
    /// # Errors
    /// Why it cannot be told; the backup is given up.
    fn configuration(&self) -> Result<String, String>;
}

/// Makes the backups of a store, one after the other.
pub struct Maker {
    /// Who stores them.
    pub writer: Writer,
    /// The configuration that the newest backup has.
    configuration: String,
    /// Backups stored so far.
    pub made: u64,
    /// Bytes of files that were not in the clouds at the instant of the newest backup.
    pub unsaved_bytes: u64,
}

impl Maker {
    /// With this writer, which has made none yet.
    pub fn new(writer: Writer) -> Maker {
        Maker { writer, configuration: String::new(), made: 0, unsaved_bytes: 0 }
    }

    /// Takes everything that has changed into the clouds `places`, those of `all` that answer. Returns whether `copies` of them have all of
    /// it now; then what nobody needs any more is gone, and the store knows that it is [safe](LocalStore::saved).
    ///
    /// # Errors
    /// No cloud took it, something cannot be read, or somebody else goes on. May be dropped anywhere.
    pub async fn make(
        &mut self,
        store: &LocalStore,
        content: &dyn Content,
        (places, all, copies): (&[Place], &[String], usize),
        notes: &dyn Notes,
    ) -> Result<bool, BackupError> {
        let mut dirty = Vec::new();
        let instant = store.instant(&mut |_| dirty = content.unsaved()).await;
        let Instant { snapshot, changed } =
            instant.map_err(|cause| BackupError::Source(cause.to_string()))?;
        if is_broken(Mutant::UnsavedUntold) {
            dirty.clear();
        }
        let configuration = content.configuration().map_err(BackupError::Source)?;
        let changed: Option<Vec<Bytes>> =
            changed.map(|keys| keys.into_iter().filter(|key| !content.is_left_out(key)).collect());
        let writer = &mut self.writer;
        let is_same = !writer.wants_base()
            && changed.as_ref().is_some_and(Vec::is_empty)
            && configuration == self.configuration;
        if is_same {
            store.stored();
        } else {
            let kind = if changed.is_none() || writer.wants_base() { Kind::Base } else { Kind::Increment };
            let transaction = snapshot.lsn().0;
            let unsaved_bytes =
                dirty.iter().flat_map(|file| &file.ranges).map(|range| range.end - range.start);
            let unsaved_bytes = unsaved_bytes.sum();
            let others = dirty.into_iter().map(shortened).map(Item::Unsaved);
            let others: Vec<_> = others.chain([Item::Configuration(configuration.clone())]).collect();
            let mut rows = Rows {
                snapshot,
                content,
                changed: changed.filter(|_| kind == Kind::Increment).map(Vec::into_iter),
                start: Bytes::new(),
                page: Vec::new().into_iter(),
                others: others.into_iter(),
            };
            writer.back_up(kind, (places, all), (&mut rows, notes), transaction).await?;
            store.stored();
            self.configuration = configuration;
            self.made += 1;
            self.unsaved_bytes = unsaved_bytes;
        }
        while writer.catch_up(places).await {}
        // Only now: whoever claims the backups after this finds this one, and needs nothing that goes after it.
        let held = writer.hold(places, notes).await?;
        let Progress { mark, has, .. } = writer.progress();
        let is_complete = mark.is_some() && has.iter().filter(|name| held.contains(name)).count() >= copies;
        if is_complete {
            store.saved();
            writer.collect((places, all), notes).await?;
        }
        Ok(is_complete)
    }
}

/// With few enough ranges: the last one may have some that is not dirty.
fn shortened(mut unsaved: Unsaved) -> Unsaved {
    let ranges = &mut unsaved.ranges;
    if ranges.len() > RANGES {
        let end = ranges.last().map_or(0, |range| range.end);
        ranges.truncate(RANGES);
        if let Some(last) = ranges.last_mut() {
            last.end = end;
        }
    }
    unsaved
}

/// The rows of a backup and what belongs to them.
struct Rows<'a> {
    snapshot: Box<dyn Snapshot>,
    content: &'a dyn Content,
    /// Only these.
    changed: Option<std::vec::IntoIter<Bytes>>,
    start: Bytes,
    page: std::vec::IntoIter<(Bytes, Bytes)>,
    others: std::vec::IntoIter<Item>,
}

#[async_trait]
impl Source for Rows<'_> {
    async fn next(&mut self) -> Result<Option<Item>, String> {
        if let Some(changed) = &mut self.changed {
            let Some(key) = changed.next() else { return Ok(self.others.next()) };
            let end = [&key[..], &[0]].concat();
            let rows = self.snapshot.rows(&key, &end, 1).await.map_err(|cause| cause.to_string())?;
            return Ok(Some(Item::Row { value: rows.into_iter().next().map(|(_, value)| value), key }));
        }
        loop {
            if let Some((key, value)) = self.page.find(|(key, _)| !self.content.is_left_out(key)) {
                return Ok(Some(Item::Row { key, value: Some(value) }));
            }
            let rows = self.snapshot.rows(&self.start, &[u8::MAX; MAX_KEY + 1], ROWS).await;
            let rows = rows.map_err(|cause| cause.to_string())?;
            let Some((last, _)) = rows.last() else { return Ok(self.others.next()) };
            self.start = [last, &[0][..]].concat().into();
            self.page = rows.into_iter();
        }
    }
}
