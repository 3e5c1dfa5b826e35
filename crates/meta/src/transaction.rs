use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::Bytes;
use environment::mutant::{Mutant, is_broken};
use journal::{Attachment, Journal, Lsn, PayloadRef, Priority, Record, Reservation};
use tokio::sync::{OwnedMutexGuard, OwnedRwLockWriteGuard};

use crate::engine::{View, Write};
use crate::local::Shared;
use crate::overlay::Layers;
use crate::store::Pending;
use crate::versions::Slot;
use crate::{Committed, MAX_KEY, MetaError, PublishedAttachment, Scan, Transaction, batch};

/// Keeps all others from committing, with the space for the own commit set aside: who holds the gate must
/// not wait for space that only another commit can free.
pub(crate) struct Exclusive {
    pub reservation: Reservation,
    pub gate: OwnedRwLockWriteGuard<()>,
    pub turn: OwnedMutexGuard<()>,
}

/// A transaction of the embedded store. Everything it has read was true at `snapshot`.
pub(crate) struct LocalTransaction {
    shared: Arc<Shared>,
    exclusive: Option<Exclusive>,
    snapshot: Lsn,
    reads: Vec<Slot>,
    writes: BTreeMap<Bytes, Option<Bytes>>,
    touches: Vec<Slot>,
    attachments: Vec<Attachment>,
    attached_bytes: u64,
    afterwards: Vec<Box<dyn FnOnce() + Send>>,
}

impl LocalTransaction {
    pub(crate) fn new(shared: Arc<Shared>, exclusive: Option<Exclusive>) -> LocalTransaction {
        let snapshot = shared.overlay.read().published;
        LocalTransaction {
            shared,
            exclusive,
            snapshot,
            reads: Vec::new(),
            writes: BTreeMap::new(),
            touches: Vec::new(),
            attachments: Vec::new(),
            attached_bytes: 0,
            afterwards: Vec::new(),
        }
    }

    /// Whether everything that was read is as it was. The caller holds the commit lock or an overlay lock.
    fn holds(&self) -> bool {
        self.reads.iter().all(|&slot| self.shared.versions.get(slot) <= self.snapshot)
    }

    /// Moves the snapshot to now, unless that breaks what was read.
    fn extend(&mut self, layers: &Layers) -> Result<(), MetaError> {
        if layers.published > self.snapshot {
            if !self.holds() {
                return Err(MetaError::Conflict);
            }
            self.snapshot = layers.published;
        }
        Ok(())
    }

    fn add_read(&mut self, slot: Slot) -> Result<(), MetaError> {
        if self.reads.last() == Some(&slot) {
            return Ok(());
        }
        let limit = self.shared.config.max_reads;
        if self.reads.len() >= limit {
            // The same keys may have been read many times.
            self.reads.sort_unstable();
            self.reads.dedup();
            if self.reads.len() >= limit {
                let found = limit as u64 + 1;
                return Err(MetaError::TooLarge { what: "keys read", found, limit: limit as u64 });
            }
        }
        self.reads.push(slot);
        Ok(())
    }

    fn read(&mut self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        if let Some(own) = self.writes.get(key) {
            return Ok(own.clone());
        }
        let shared = self.shared.clone();
        let slot = shared.versions.slot(key);
        let view = {
            let layers = shared.overlay.read();
            if shared.versions.get(slot) > self.snapshot {
                self.extend(&layers)?;
            }
            match layers.get(key) {
                Some(value) => Err(value),
                None => Ok(layers.view.clone()),
            }
        };
        self.add_read(slot)?;
        match view {
            Ok(view) => view.get(key),
            Err(value) => Ok(value),
        }
    }

    fn read_range(&mut self, scan: Scan<'_>) -> Result<Vec<(Bytes, Bytes)>, MetaError> {
        if scan.start >= scan.end || scan.limit == 0 {
            return Ok(Vec::new());
        }
        let shared = self.shared.clone();
        let (above, view) = {
            let layers = shared.overlay.read();
            // Rows are not known before they are read, so the snapshot moves first.
            self.extend(&layers)?;
            (self.rows_above(&layers, scan), layers.view.clone())
        };
        if let Some(guard) = scan.guard {
            self.add_read(shared.versions.slot(guard))?;
        }
        let rows = merge(above, &*view, scan)?;
        for (key, _) in &rows {
            self.add_read(shared.versions.slot(key))?;
        }
        Ok(rows)
    }

    /// Own writes and the overlay's entries of a range, ascending; ends early when there are enough rows.
    fn rows_above(&self, layers: &Layers, scan: Scan<'_>) -> Vec<Write> {
        let own = self.writes.range::<[u8], _>((Bound::Included(scan.start), Bound::Excluded(scan.end)));
        let mut own = own.peekable();
        let mut below = layers.range(scan.start, scan.end).peekable();
        let mut rows = Vec::new();
        let mut live = 0;
        while live < scan.limit {
            let order = match (own.peek(), below.peek()) {
                (Some(own), Some(below)) => own.0.cmp(below.0),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => break,
            };
            if order.is_eq() {
                below.next();
            }
            let Some((key, value)) = (if order.is_gt() { below.next() } else { own.next() }) else { break };
            live += usize::from(value.is_some());
            rows.push((key.clone(), value.clone()));
        }
        rows
    }

    fn check_size(&self) -> Result<(), MetaError> {
        let config = &self.shared.config;
        let too_large = |what, found: usize, limit: usize| {
            if found <= limit {
                return Ok(());
            }
            Err(MetaError::TooLarge { what, found: found as u64, limit: limit as u64 })
        };
        too_large("writes", self.writes.len(), config.max_writes)?;
        too_large("bytes in a key", self.writes.keys().map(Bytes::len).max().unwrap_or(0), MAX_KEY)
    }

    /// The commit of a transaction that changes nothing.
    fn commit_reads(self) -> Result<Committed, MetaError> {
        let _steady = self.shared.overlay.read();
        if !self.holds() {
            return Err(MetaError::Conflict);
        }
        let newest = self.reads.iter().map(|&slot| self.shared.versions.get(slot)).max().unwrap_or(Lsn::ZERO);
        let pending = newest > self.shared.journal.durable_lsn();
        Ok(Committed {
            lsn: None,
            pending: pending.then(|| Pending { journal: self.shared.journal.clone(), lsn: newest }),
        })
    }

    /// Validates and publishes. Never waits for anything but other short commits.
    fn publish(self, record: Record, reservation: Reservation) -> Result<Committed, MetaError> {
        let shared = &*self.shared;
        let written: Vec<Slot> = self.writes.keys().map(|key| shared.versions.slot(key)).collect();
        let writes: Vec<Write> =
            self.writes.iter().map(|(key, value)| (key.clone(), value.clone())).collect();

        let mut queue = shared.queue.lock();
        if !self.holds() && !is_broken(Mutant::LockDropped) {
            drop(queue);
            shared.conflicts.fetch_add(1, Ordering::Relaxed);
            return Err(MetaError::Conflict);
        }
        let bytes = record.body.len() as u64 + 128 * writes.len() as u64;
        let appended = shared.journal.append(record, reservation)?;
        let lsn = appended.lsn;
        let attachments = published(self.attachments, appended.refs);
        {
            let mut layers = shared.overlay.write();
            for &slot in written.iter().chain(&self.touches) {
                shared.versions.set(slot, lsn);
            }
            for write in &writes {
                layers.insert(lsn, write);
            }
            layers.published = lsn;
            if !attachments.is_empty() {
                shared.observer.published(lsn, attachments);
            }
        }
        queue.push(lsn, writes, bytes);
        let wake = queue.wants_applier(&shared.config);
        drop(queue);
        if wake {
            shared.work.notify_one();
        }
        self.afterwards.into_iter().for_each(|then| then());
        Ok(Committed { lsn: Some(lsn), pending: Some(Pending { journal: shared.journal.clone(), lsn }) })
    }
}

/// What the observer is told of attachments and their places.
pub(crate) fn published(attachments: Vec<Attachment>, places: Vec<PayloadRef>) -> Vec<PublishedAttachment> {
    let told =
        |(Attachment { descriptor, payload }, place)| PublishedAttachment { descriptor, payload, place };
    attachments.into_iter().zip(places).map(told).collect()
}

/// The rows of `view` with `above` on top.
fn merge(above: Vec<Write>, view: &dyn View, scan: Scan<'_>) -> Result<Vec<(Bytes, Bytes)>, MetaError> {
    let mut rows = Vec::new();
    let mut above = above.into_iter().peekable();
    view.scan(scan.start, scan.end, &mut |key, value| {
        while rows.len() < scan.limit
            && let Some((upper, value)) = above.next_if(|(upper, _)| &upper[..] < key)
        {
            rows.extend(value.map(|value| (upper, value)));
        }
        if rows.len() < scan.limit {
            match above.next_if(|(upper, _)| &upper[..] == key) {
                Some((upper, value)) => rows.extend(value.map(|value| (upper, value))),
                None => rows.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value))),
            }
        }
        rows.len() < scan.limit
    })?;
    for (upper, value) in above {
        if rows.len() == scan.limit {
            break;
        }
        rows.extend(value.map(|value| (upper, value)));
    }
    Ok(rows)
}

#[async_trait]
impl Transaction for LocalTransaction {
    async fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        self.read(key)
    }

    async fn scan(&mut self, scan: Scan<'_>) -> Result<Vec<(Bytes, Bytes)>, MetaError> {
        self.read_range(scan)
    }

    fn guard(&mut self, key: &[u8]) {
        self.reads.push(self.shared.versions.slot(key));
    }

    fn put(&mut self, key: Bytes, value: Bytes) {
        self.writes.insert(key, Some(value));
    }

    fn delete(&mut self, key: Bytes) {
        self.writes.insert(key, None);
    }

    fn touch(&mut self, key: &[u8]) {
        self.touches.push(self.shared.versions.slot(key));
    }

    fn attach(&mut self, attachment: Attachment) {
        self.attached_bytes += attachment.payload.len() as u64;
        self.attachments.push(attachment);
    }

    fn attached_bytes(&self) -> u64 {
        self.attached_bytes
    }

    fn afterwards(&mut self, then: Box<dyn FnOnce() + Send>) {
        self.afterwards.push(then);
    }

    async fn commit(self: Box<Self>, priority: Priority) -> Result<Committed, MetaError> {
        if self.writes.is_empty() && self.attachments.is_empty() && self.touches.is_empty() {
            return self.commit_reads();
        }
        self.commit_writes(priority).await
    }
}

impl LocalTransaction {
    async fn commit_writes(mut self, priority: Priority) -> Result<Committed, MetaError> {
        self.check_size()?;
        let record =
            Record { body: batch::encode(self.writes.iter()), attachments: self.attachments.clone() };
        let space = Journal::space_of(&record);
        let shared = self.shared.clone();
        let limit = shared.journal.max_record();
        if space > limit {
            return Err(MetaError::TooLarge { what: "bytes", found: space, limit });
        }
        if let Some(Exclusive { reservation, gate, turn }) = self.exclusive.take() {
            shared.wait_for_applier().await?;
            let committed = self.publish(record, reservation);
            drop((gate, turn));
            return committed;
        }
        let reserved = shared.journal.reserve(space, priority).await;
        shared.wait_for_applier().await?;
        let reservation = reserved?;
        let _gate = shared.gate.read().await;
        self.publish(record, reservation)
    }
}
