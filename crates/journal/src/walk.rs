use std::io;
use std::sync::Arc;

use bytes::Bytes;
use seal::{NodeKey, SegmentKey};

use crate::batch::decode_body;
use crate::layout::{
    BATCH_HEAD, BLOCK, BatchHead, CHUNK, CHUNK_AAD, RECORD_LENGTHS, RUN_HEADER, RunHeader, record_aad,
    sealed_payload,
};
use crate::sealing::{TAG, open_in_place};
use crate::segment::{Segment, SegmentFile};
use crate::{JournalError, Lsn, PayloadRef, RecoveredAttachment, RecoveredRecord};

/// What stands at the walk's place.
pub(crate) enum Step {
    /// A batch. The walk has passed it.
    Batch { start: u64, records: Vec<RecoveredRecord> },
    /// Another run begins. The walk has passed its header.
    Run,
    /// The known end of the segment.
    End,
    /// The header of a run in the next segment, which says that that was begun.
    Continues,
    /// Nothing that continues the segment.
    Invalid,
}

/// A walk through one segment, batch by batch.
pub(crate) struct Walk {
    pub segment: Arc<Segment>,
    pub file: SegmentFile,
    node_key: NodeKey,
    window: Window,
    pub at: u64,
    /// Where the records end; unknown in the newest segment.
    pub end: Option<u64>,
    pub run: u64,
    pub key: Arc<SegmentKey>,
    batch_number: u64,
    pub next_lsn: Lsn,
    pub oldest_segment: u64,
}

impl Walk {
    /// Begins behind the header at the start of the segment.
    pub(crate) fn new(
        segment: Arc<Segment>,
        file: SegmentFile,
        node_key: NodeKey,
        header: &RunHeader,
        key: Arc<SegmentKey>,
    ) -> Walk {
        segment.add_run(0, key.clone());
        Walk {
            segment,
            file,
            node_key,
            window: Window::default(),
            at: RUN_HEADER,
            end: None,
            run: header.run,
            key,
            batch_number: 0,
            next_lsn: header.first_lsn,
            oldest_segment: header.oldest_segment,
        }
    }

    pub(crate) fn damaged(&self, what: &'static str) -> JournalError {
        JournalError::Damaged { path: self.file.path.clone(), offset: self.at, what }
    }

    fn read_error(&self, cause: io::Error) -> JournalError {
        JournalError::Open { what: "reading", path: self.file.path.clone(), cause: Arc::new(cause) }
    }

    /// Takes the last batch back.
    pub(crate) fn step_back(&mut self, start: u64, first_lsn: Lsn, oldest_segment: u64) {
        self.at = start;
        self.batch_number -= 1;
        self.next_lsn = first_lsn;
        self.oldest_segment = oldest_segment;
    }

    pub(crate) fn step(&mut self) -> Result<Step, JournalError> {
        if self.end.is_some_and(|end| self.at >= end) {
            return Ok(if self.end == Some(self.at) { Step::End } else { Step::Invalid });
        }
        let start = self.at;
        if let Some((head, records)) = self.batch().map_err(|cause| self.read_error(cause))? {
            self.at = (start + head.length).next_multiple_of(BLOCK);
            self.batch_number += 1;
            self.next_lsn = Lsn(head.first_lsn.0 + u64::from(head.records));
            self.oldest_segment = self.oldest_segment.max(head.oldest_segment);
            return Ok(Step::Batch { start, records });
        }
        if let Some((header, key)) = self.header_at(start)?
            && header.run == self.run + 1
            && header.previous_end == start
            && header.first_lsn == self.next_lsn
        {
            match header.segment.checked_sub(self.segment.sequence) {
                Some(0) => {}
                Some(1) => return Ok(Step::Continues),
                _ => return Ok(Step::Invalid),
            }
            self.run = header.run;
            self.key = Arc::new(key);
            self.segment.add_run(start, self.key.clone());
            self.batch_number = 0;
            self.oldest_segment = self.oldest_segment.max(header.oldest_segment);
            self.at += RUN_HEADER;
            return Ok(Step::Run);
        }
        Ok(Step::Invalid)
    }

    /// The run header whose first copy stands at `at`, from either copy.
    fn header_at(&mut self, at: u64) -> Result<Option<(RunHeader, SegmentKey)>, JournalError> {
        for at in [at, at + BLOCK] {
            if let Some(found) = self.header_copy(at)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn header_copy(&mut self, at: u64) -> Result<Option<(RunHeader, SegmentKey)>, JournalError> {
        if at + BLOCK > self.file.bytes {
            return Ok(None);
        }
        let block = self.window.get(&self.file, at, BLOCK);
        match block {
            Ok(block) => RunHeader::decode(block, &self.node_key, at).header(&self.file.path),
            Err(cause) => Err(self.read_error(cause)),
        }
    }

    /// The batch at the walk's place, if an intact one stands there. Payloads are not looked at.
    fn batch(&mut self) -> io::Result<Option<(BatchHead, Vec<RecoveredRecord>)>> {
        let Some(head) = self.head_at(self.at)? else { return Ok(None) };
        let limit = self.end.unwrap_or(self.file.bytes).min(self.file.bytes);
        let expected = head.number == self.batch_number && head.first_lsn == self.next_lsn;
        if !expected || head.length > limit - self.at {
            return Ok(None);
        }
        let end = self.at + head.length;
        let mut at = self.at + BATCH_HEAD;
        let mut records = Vec::new();
        for index in 0..head.records {
            let lsn = Lsn(head.first_lsn.0 + u64::from(index));
            let Some((record, next)) = self.record(at, end, lsn)? else { return Ok(None) };
            records.push(record);
            at = next;
        }
        Ok((at == end).then_some((head, records)))
    }

    /// Whether the head of the next batch stands at the walk's place, be the rest of it whole or not.
    pub(crate) fn begins_batch(&mut self) -> Result<bool, JournalError> {
        let head = self.head_at(self.at).map_err(|cause| self.read_error(cause))?;
        Ok(head.is_some_and(|head| head.number == self.batch_number && head.first_lsn == self.next_lsn))
    }

    fn head_at(&mut self, at: u64) -> io::Result<Option<BatchHead>> {
        if at + BATCH_HEAD > self.file.bytes {
            return Ok(None);
        }
        let bytes = self.window.get(&self.file, at, BATCH_HEAD)?;
        Ok(BatchHead::decode(bytes, &self.key, at))
    }

    /// The record at `at` in a batch that ends at `end`, and where the next one stands.
    fn record(&mut self, at: u64, end: u64, lsn: Lsn) -> io::Result<Option<(RecoveredRecord, u64)>> {
        if at + RECORD_LENGTHS > end {
            return Ok(None);
        }
        let lengths = self.window.get(&self.file, at, RECORD_LENGTHS)?;
        let number =
            |at: usize| u32::from_be_bytes([lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]]);
        let (body, payloads) = (number(0), number(4));
        let sealed = u64::from(body) + TAG as u64;
        let payload_start = at + RECORD_LENGTHS + sealed;
        let next = payload_start + u64::from(payloads);
        if next > end {
            return Ok(None);
        }
        let mut sealed = self.window.get(&self.file, at + RECORD_LENGTHS, sealed)?.to_vec();
        if open_in_place(&self.key, at, &record_aad(body, payloads, lsn), &mut sealed).is_none() {
            return Ok(None);
        }
        sealed.truncate(body as usize);
        let Some((table, body)) = decode_body(Bytes::from(sealed)) else { return Ok(None) };
        let mut offset = payload_start;
        let mut attachments = Vec::with_capacity(table.len());
        for (descriptor, length) in table {
            let place = PayloadRef { segment: self.segment.sequence, offset: offset as u32, length };
            attachments.push(RecoveredAttachment { descriptor, place });
            offset += sealed_payload(length.into());
        }
        let record = RecoveredRecord { lsn, body, attachments };
        Ok((offset == next).then_some((record, next)))
    }

    /// Whether every payload of these records verifies.
    pub(crate) fn payloads_are_whole(&self, records: &[RecoveredRecord]) -> Result<bool, JournalError> {
        let mut buffer = Vec::new();
        for place in records.iter().flat_map(|record| &record.attachments).map(|attachment| attachment.place)
        {
            let (mut at, mut left) = (u64::from(place.offset), u64::from(place.length));
            while left > 0 {
                let chunk = left.min(CHUNK);
                buffer.resize(chunk as usize + TAG, 0);
                self.file.file.read_exact_at(&mut buffer, at).map_err(|cause| self.read_error(cause))?;
                if open_in_place(&self.key, at, CHUNK_AAD, &mut buffer).is_none() {
                    return Ok(false);
                }
                at += buffer.len() as u64;
                left -= chunk;
            }
        }
        Ok(true)
    }

    /// Fails when anything of this or a later run stands behind `from`: batches are written one after the other,
    /// each after the one before was durable, so the gap in front of it is damage and no torn write.
    pub(crate) fn nothing_follows(&mut self, from: u64) -> Result<(), JournalError> {
        let mut at = from + BLOCK;
        while at < self.file.bytes {
            let head = self.head_at(at).map_err(|cause| self.read_error(cause))?;
            let later_batch = head.is_some_and(|head| head.number >= self.batch_number);
            let later_run = match self.header_copy(at)? {
                // The second copy of a header of which the first one is torn belongs to the same write.
                Some((header, _)) => {
                    header.run > self.run && !(at == from + BLOCK && header.previous_end == from)
                }
                None => false,
            };
            if later_batch || later_run {
                return Err(self.damaged("a batch of records"));
            }
            at += BLOCK;
        }
        Ok(())
    }
}

/// A part of a file in memory, so that small reads in a row cost one call.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Bytes read at once.
    const SIZE: u64 = 256 << 10;

    /// `length` bytes at `at`, which lie within the file.
    fn get(&mut self, file: &SegmentFile, at: u64, length: u64) -> io::Result<&[u8]> {
        let end = self.start + self.bytes.len() as u64;
        if at < self.start || at + length > end {
            let wanted = length.max(Window::SIZE).min(file.bytes.saturating_sub(at)).max(length);
            self.bytes.resize(wanted as usize, 0);
            self.start = at;
            if let Err(cause) = file.file.read_exact_at(&mut self.bytes, at) {
                self.bytes.clear();
                return Err(cause);
            }
        }
        let start = (at - self.start) as usize;
        Ok(&self.bytes[start..start + length as usize])
    }
}
