use std::sync::Arc;

use bytes::Bytes;
use seal::SegmentKey;

use crate::layout::{
    BATCH_HEAD, BLOCK, BatchHead, CHUNK, CHUNK_AAD, RECORD_LENGTHS, RUN_HEADER, RunHeader, record_aad,
    sealed_payload,
};
use crate::sealing::TAG;
use crate::segment::{Mark, Segment};
use crate::{Attachment, Lsn, PayloadRef, Record};

/// Lengths in front of each attachment's descriptor.
const ATTACHMENT_LENGTHS: usize = 8;

/// Plaintext length of the sealed body: the table of attachments, then the record's body.
fn body_length(record: &Record) -> u64 {
    let table: usize = record.attachments.iter().map(|a| ATTACHMENT_LENGTHS + a.descriptor.len()).sum();
    (4 + table + record.body.len()) as u64
}

/// Bytes of a record in a batch.
pub(crate) fn record_length(record: &Record) -> u64 {
    let payloads: u64 = record.attachments.iter().map(|a| sealed_payload(a.payload.len() as u64)).sum();
    RECORD_LENGTHS + body_length(record) + TAG as u64 + payloads
}

/// Bytes of a record with a body and attachments of these lengths (descriptor, payload).
pub(crate) fn length_of(body: usize, attachments: impl Iterator<Item = (usize, usize)>) -> u64 {
    let attached: u64 =
        attachments.map(|(d, p)| (ATTACHMENT_LENGTHS + d) as u64 + sealed_payload(p as u64)).sum();
    RECORD_LENGTHS + 4 + body as u64 + TAG as u64 + attached
}

/// Records that become durable with one sync. Its place is fixed when it is opened; records are added until the
/// writer takes it.
pub(crate) struct Batch {
    pub segment: Arc<Segment>,
    /// Written in front of the batch when it is the first of its run.
    pub run: Option<RunHeader>,
    key: Arc<SegmentKey>,
    /// Offset of the batch head.
    start: u64,
    number: u64,
    first_lsn: Lsn,
    /// To be written when this batch is durable.
    pub mark: Option<Mark>,
    /// Oldest segment that was needed when the batch was closed. What is released later may have become unneeded by
    /// a record of a later batch, so only a later batch may forget it.
    pub oldest_segment: u64,
    /// Bytes, the head included.
    length: u64,
    records: Vec<Record>,
    /// Offset and bytes of every payload, ascending.
    payloads: Vec<(u32, Bytes)>,
}

impl Batch {
    pub(crate) fn new(
        segment: Arc<Segment>,
        run: Option<RunHeader>,
        key: Arc<SegmentKey>,
        start: u64,
        number: u64,
        first_lsn: Lsn,
        oldest_segment: u64,
    ) -> Batch {
        let length = BATCH_HEAD;
        Batch {
            segment,
            run,
            key,
            start,
            number,
            first_lsn,
            mark: None,
            oldest_segment,
            length,
            records: Vec::new(),
            payloads: Vec::new(),
        }
    }

    /// First offset behind the batch and its padding.
    pub(crate) fn end(&self) -> u64 {
        (self.start + self.length).next_multiple_of(BLOCK)
    }

    /// Bytes up to now, without padding.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Number of the record after the last one.
    pub(crate) fn next_lsn(&self) -> Lsn {
        Lsn(self.first_lsn.0 + self.records.len() as u64)
    }

    /// Adds a record and gives its payloads their places.
    pub(crate) fn push(&mut self, record: Record) -> Vec<PayloadRef> {
        let mut at = self.start + self.length + RECORD_LENGTHS + body_length(&record) + TAG as u64;
        let refs = record
            .attachments
            .iter()
            .map(|Attachment { payload, .. }| {
                // A segment is at most 1 GiB, so offsets and lengths fit 32 bits.
                let place = PayloadRef {
                    segment: self.segment.sequence,
                    offset: at as u32,
                    length: payload.len() as u32,
                };
                if !payload.is_empty() {
                    self.payloads.push((place.offset, payload.clone()));
                }
                at += sealed_payload(payload.len() as u64);
                place
            })
            .collect();
        self.length += record_length(&record);
        debug_assert_eq!(at, self.start + self.length);
        self.records.push(record);
        refs
    }

    /// A payload that is still in memory.
    pub(crate) fn payload(&self, place: PayloadRef) -> Option<Bytes> {
        if place.segment != self.segment.sequence {
            return None;
        }
        let at = self.payloads.binary_search_by_key(&place.offset, |payload| payload.0).ok()?;
        let bytes = &self.payloads[at].1;
        (bytes.len() == place.length as usize).then(|| bytes.clone())
    }

    /// The sealed bytes, padded to whole blocks, and their offset in the segment.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> u64 {
        let oldest_segment = self.oldest_segment;
        out.clear();
        let mut at = self.start;
        if let Some(header) = &self.run {
            at -= RUN_HEADER;
            let header = RunHeader { oldest_segment, ..header.clone() };
            out.extend_from_slice(&header.encode(&self.key, at));
        }
        let head = BatchHead {
            number: self.number,
            first_lsn: self.first_lsn,
            length: self.length,
            records: self.records.len() as u32,
            oldest_segment,
        };
        out.reserve((self.length + BLOCK) as usize);
        out.extend_from_slice(&head.encode(&self.key, self.start));
        for (index, record) in self.records.iter().enumerate() {
            self.encode_record(record, Lsn(self.first_lsn.0 + index as u64), at, out);
        }
        debug_assert_eq!(at + out.len() as u64, self.start + self.length);
        out.resize((self.end() - at) as usize, 0);
        at
    }

    /// Appends a record to `out`, whose first byte lies at `base` in the segment.
    fn encode_record(&self, record: &Record, lsn: Lsn, base: u64, out: &mut Vec<u8>) {
        let position = base + out.len() as u64;
        let body = body_length(record) as u32;
        let payloads =
            record.attachments.iter().map(|a| sealed_payload(a.payload.len() as u64)).sum::<u64>() as u32;
        let aad = record_aad(body, payloads, lsn);
        out.extend_from_slice(&aad[..RECORD_LENGTHS as usize]);
        let start = out.len();
        out.extend_from_slice(&(record.attachments.len() as u32).to_be_bytes());
        for attachment in &record.attachments {
            out.extend_from_slice(&(attachment.descriptor.len() as u32).to_be_bytes());
            out.extend_from_slice(&(attachment.payload.len() as u32).to_be_bytes());
            out.extend_from_slice(&attachment.descriptor);
        }
        out.extend_from_slice(&record.body);
        let tag = self.key.seal_at(position, &aad, &mut out[start..]);
        out.extend_from_slice(&tag);
        for attachment in &record.attachments {
            for chunk in attachment.payload.chunks(CHUNK as usize) {
                let start = out.len();
                out.extend_from_slice(chunk);
                let tag = self.key.seal_at(base + start as u64, CHUNK_AAD, &mut out[start..]);
                out.extend_from_slice(&tag);
            }
        }
    }
}

/// Takes the plaintext of a sealed body apart: descriptors with payload lengths, and the record's body.
pub(crate) fn decode_body(body: Bytes) -> Option<(Vec<(Bytes, u32)>, Bytes)> {
    let number = |at: usize| Some(u32::from_be_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let count = number(0)? as usize;
    if count > body.len() / ATTACHMENT_LENGTHS {
        return None;
    }
    let mut attachments = Vec::with_capacity(count);
    let mut at = 4;
    for _ in 0..count {
        let (descriptor, payload) = (number(at)? as usize, number(at + 4)?);
        at += ATTACHMENT_LENGTHS;
        body.get(at..at + descriptor)?;
        attachments.push((body.slice(at..at + descriptor), payload));
        at += descriptor;
    }
    Some((attachments, body.slice(at..)))
}
