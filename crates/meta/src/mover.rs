use bytes::Bytes;
use journal::{Attachment, Journal, JournalError, Lsn, Priority, Record};

use crate::local::Shared;
use crate::transaction::published;
use crate::{MetaError, batch};

impl Shared {
    /// What is held before this record is to be moved: the journal runs short although a good part of what is in it is not
    /// needed, and nothing but the observer holds its oldest segment.
    pub(crate) fn movable(&self, checkpointed: Lsn) -> Option<Lsn> {
        if ["meta.before-move", "meta.after-move"].into_iter().any(environment::failpoint::is_armed) {
            // A crash test does not wait until the journal is full.
            return Some(Lsn(u64::MAX));
        }
        let end = self.journal.oldest_segment_end()?;
        let worth_it = self.journal.is_short() && self.journal.is_worth_moving(self.observer.kept());
        (worth_it && end <= checkpointed.next()).then_some(end)
    }

    /// Appends a record's worth of what the observer needs of the records before `end` again, and waits until that is
    /// durable; false when nothing could be moved.
    ///
    /// Between the look and the commit lock anything may have happened to the data. What is not as it was is left out: a
    /// record says what is needed at its own place in the order, so that a replay, which may lack older records, comes
    /// to the same result. The older record is released when this one is durable, never before, because
    /// the batch that forgets a segment is at least as young as this record.
    pub(crate) async fn move_held(&self, end: Lsn) -> Result<bool, MetaError> {
        let held = self.observer.held_below(end, self.journal.max_record() / 2);
        let mut found = Vec::with_capacity(held.len());
        for held in held {
            match self.read_held(held.place, held.from, held.length).await {
                Ok(payload) => found.push((held, payload)),
                // Released since: it was not needed any more.
                Err(JournalError::NoSuchPayload { .. }) => {}
                Err(error) => self.observer.unreadable(&held, &error),
            }
        }
        let attachment = |(held, payload): &(crate::HeldPayload, Bytes)| Attachment {
            descriptor: held.descriptor.clone(),
            payload: payload.clone(),
        };
        let body = batch::encode([].into_iter());
        let mut record = Record { body, attachments: found.iter().map(attachment).collect() };
        if record.attachments.is_empty() {
            return Ok(false);
        }
        let space = Journal::space_of(&record);
        let Some(reservation) = self.journal.try_reserve(space, Priority::Move)? else { return Ok(false) };
        environment::failpoint!("meta.before-move");
        let lsn = {
            let mut queue = self.queue.lock();
            found.retain(|(held, _)| self.observer.still_holds(held));
            if found.is_empty() {
                return Ok(true);
            }
            record.attachments = found.iter().map(attachment).collect();
            let (attachments, bytes) = (record.attachments.clone(), record.body.len() as u64);
            let appended = self.journal.append(record, reservation)?;
            let mut layers = self.overlay.write();
            layers.published = appended.lsn;
            self.observer.published(appended.lsn, published(attachments, appended.refs));
            drop(layers);
            queue.push(appended.lsn, Vec::new(), bytes);
            appended.lsn
        };
        self.journal.durable(lsn).await?;
        environment::failpoint!("meta.after-move");
        Ok(true)
    }

    async fn read_held(
        &self,
        place: journal::PayloadRef,
        from: u32,
        length: u32,
    ) -> Result<Bytes, JournalError> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        self.journal.read_range(place, from, length).await
    }
}
