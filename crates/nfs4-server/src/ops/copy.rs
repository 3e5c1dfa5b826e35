//! COPY within this server (RFC 7862 §15.2).

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use file_system::{Attributes, Authority, FileId, FsError, Mode, Position, Transaction};
use nfs4::{CopyArgs, CopyOk, CopyRequirements, NfsStatus, StableHow, Verifier, WriteResponse};

use super::sparse::{self, Target};
use crate::compound::Compound;
use crate::failure::Failure;

/// Most data that one COPY moves, apart from blocks that are shared: the client asks again for the rest, and neither memory nor a transaction grow with
/// the file.
const LIMIT: u64 = 4 << 20;

/// Most blocks that one COPY shares: the transaction has a few bytes for each.
const SHARED: u64 = 16 << 10;

/// Most extents that one COPY looks at.
const EXTENTS: usize = 256;

/// Data that lies in parts below this size is put together, so that the journal need not keep books of each.
const SMALL: usize = 64 << 10;

/// Copies from the saved filehandle to the current one, in ascending order, done and durable when answered. Holes stay
/// holes. Copies less than asked for if that is much, and says how much.
pub(super) async fn run(cx: &mut Compound<'_>, args: &CopyArgs) -> Result<CopyOk, Failure> {
    if !args.source_servers.is_empty() {
        // The client reads and writes instead (RFC 7862 §11.2.3).
        return Err(NfsStatus::OffloadDenied.into());
    }
    let from = sparse::file(cx.saved()?)?;
    let to = Target::to_write(cx, args.destination_state_id).await?;
    let authority = cx.authority(args.source_state_id, from, false)?;
    let mut source =
        Source { file: from, authority, offset: args.source_offset, count: args.count, limit: LIMIT };
    let verifier = Verifier(cx.file_system(to.file.volume)?.write_verifier());
    let transaction = cx.transaction(to.file.volume).await?;
    source.limit = LIMIT.min(transaction.room());
    if source.limit < LIMIT && cx.has_changed() {
        // What came before is committed first, as before an operation on another volume.
        return Err(Failure::OtherVolume);
    }
    cx.will_change(to.file.volume)?;
    cx.will_copy()?;
    let overlap = (from == to.file).then_some(args.destination_offset);
    let done = |count| CopyOk {
        response: WriteResponse { callback_id: None, count, committed: StableHow::FileSync, verifier },
        requirements: CopyRequirements { consecutive: true, synchronous: true },
    };
    let parts = if from.volume == to.file.volume {
        let transaction = cx.transaction(from.volume).await?;
        if let Some(count) = source.share(transaction, &to, args.destination_offset, overlap).await? {
            return Ok(done(count));
        }
        source.read(transaction, overlap).await?
    } else {
        let file_system = cx.file_system(from.volume)?;
        let caller = cx.caller(from.volume)?;
        // It only reads, and is dropped: whatever it saw becomes durable before the copy does, as both are in one journal.
        let mut transaction = file_system.begin(&caller, Mode::Optimistic).await?;
        source.read(&mut *transaction, None).await?
    };
    let transaction = cx.transaction(to.file.volume).await?;
    Ok(done(write(transaction, &to, args.destination_offset, parts).await?))
}

/// A part of what is copied.
enum Part {
    Data(Bytes),
    Hole(u64),
}

impl Part {
    fn length(&self) -> u64 {
        match self {
            Part::Data(data) => data.len() as u64,
            Part::Hole(length) => *length,
        }
    }
}

/// What is to be copied.
#[derive(Clone, Copy)]
struct Source {
    file: FileId,
    authority: Authority,
    offset: u64,
    /// Zero: up to the end.
    count: u64,
    /// Most data to read.
    limit: u64,
}

impl Source {
    /// How many bytes that is. If they go to `destination` in the same file, the ranges must not overlap.
    fn bytes(&self, attributes: &Attributes, destination: Option<u64>) -> Result<u64, Failure> {
        sparse::require_regular(attributes)?;
        let rest = attributes.size.checked_sub(self.offset).ok_or(NfsStatus::Inval)?;
        let count = if self.count == 0 { rest } else { self.count };
        if count > rest || destination.is_some_and(|to| to.abs_diff(self.offset) < count) {
            return Err(NfsStatus::Inval.into());
        }
        Ok(count)
    }

    /// Shares the whole blocks of the range and moves the bytes before and behind them; how many bytes that is in all. `None`:
    /// nothing was done, because no block can be shared, or not now.
    async fn share(
        &self,
        transaction: &mut dyn Transaction,
        to: &Target,
        offset: u64,
        overlap: Option<u64>,
    ) -> Result<Option<u64>, Failure> {
        let attributes = transaction.attributes(self.file).await?;
        let count = self.bytes(&attributes, overlap)?;
        let unit = transaction.clone_unit(self.file).await?;
        let same = transaction.clone_unit(to.file).await? == unit;
        let end = offset.checked_add(count).ok_or(NfsStatus::Fbig)?;
        let is_end = self.offset + count == attributes.size && end >= to.attributes.size;
        let stop = self.offset + count;
        let (first, last) =
            (self.offset.next_multiple_of(unit), if is_end { stop } else { stop - stop % unit });
        let head = first - self.offset;
        if !same || self.offset % unit != offset % unit || first >= last || head > self.limit {
            return Ok(None);
        }
        let last = self.reach(transaction, first..last, unit).await?;
        if first >= last {
            return Ok(None);
        }
        let (done, tail) = (last - self.offset, stop - last);
        let tail = Some(tail).filter(|tail| head + tail <= self.limit).unwrap_or(0);
        // Both before anything is changed: what fails then has to change nothing.
        let Some(before) = self.edge(transaction, self.offset, head).await? else { return Ok(None) };
        let Some(behind) = self.edge(transaction, last, tail).await? else { return Ok(None) };
        write(transaction, to, offset, before).await?;
        let from = Position { file: self.file, offset: first, authority: self.authority };
        let place = Position { file: to.file, offset: offset + head, authority: to.authority };
        match transaction.clone_range(from, place, last - first, false).await {
            Ok(()) if tail > transaction.room() => Ok(Some(done)),
            Ok(()) => match write(transaction, to, offset + done, behind).await {
                Ok(_) => Ok(Some(done + tail)),
                Err(Failure::Conflict) => Err(Failure::Conflict),
                // Left to the client's next request, as what follows.
                Err(_) => Ok(Some(done)),
            },
            Err(FsError::Conflict) => Err(Failure::Conflict),
            Err(_) if head > 0 => Ok(Some(head)),
            Err(FsError::InvalidArgument | FsError::NoSpace | FsError::Unavailable(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The end of what one request shares of `range`: holes do not count.
    async fn reach(
        &self,
        transaction: &mut dyn Transaction,
        range: Range<u64>,
        unit: u64,
    ) -> Result<u64, Failure> {
        let (mut at, mut left) = (range.start, SHARED * unit);
        for extent in transaction.extents(self.file, range.clone(), EXTENTS, self.authority).await? {
            let length = extent.range.end - extent.range.start;
            let shared = if extent.is_hole { length } else { length.min(left) };
            at += shared;
            if !extent.is_hole {
                left -= shared;
            }
            if shared < length {
                break;
            }
        }
        Ok(if at >= range.end { range.end } else { at - at % unit })
    }

    /// `length` bytes from `offset` on; `None` if they are in too many parts.
    async fn edge(
        &self,
        transaction: &mut dyn Transaction,
        offset: u64,
        length: u64,
    ) -> Result<Option<Vec<Part>>, Failure> {
        if length == 0 {
            return Ok(Some(Vec::new()));
        }
        let parts = Source { offset, count: length, ..*self }.read(transaction, None).await?;
        Ok((parts.iter().map(Part::length).sum::<u64>() == length).then_some(parts))
    }

    /// Reads it, from the first byte on. If it goes to `destination` in the same file, the ranges must not overlap.
    async fn read(
        &self,
        transaction: &mut dyn Transaction,
        destination: Option<u64>,
    ) -> Result<Vec<Part>, Failure> {
        let attributes = transaction.attributes(self.file).await?;
        let count = self.bytes(&attributes, destination)?;
        let range = self.offset..self.offset + count;
        let extents = transaction.extents(self.file, range, EXTENTS, self.authority).await?;
        let (mut parts, mut left) = (Vec::new(), self.limit);
        for extent in extents {
            let length = extent.range.end - extent.range.start;
            if extent.is_hole {
                parts.push(Part::Hole(length));
                continue;
            }
            let wanted = length.min(left) as u32;
            let data = transaction.read(self.file, extent.range.start, wanted, self.authority).await?;
            left -= u64::from(wanted);
            parts.extend(joined(data.segments).into_iter().map(Part::Data));
            if u64::from(wanted) < length {
                break;
            }
        }
        Ok(parts)
    }
}

/// The same bytes; small neighbours in one buffer.
fn joined(segments: Vec<Bytes>) -> Vec<Bytes> {
    let mut out: Vec<Bytes> = Vec::new();
    let mut small = BytesMut::new();
    for segment in segments {
        if segment.len() < SMALL {
            small.extend_from_slice(&segment);
            continue;
        }
        if !small.is_empty() {
            out.push(small.split().freeze());
        }
        out.push(segment);
    }
    if !small.is_empty() {
        out.push(small.freeze());
    }
    out
}

/// Puts the parts one behind the other from `offset` on; returns how many bytes they are.
async fn write(
    transaction: &mut dyn Transaction,
    to: &Target,
    offset: u64,
    parts: Vec<Part>,
) -> Result<u64, Failure> {
    let mut at = offset;
    for part in parts {
        let end = at.checked_add(part.length()).ok_or(NfsStatus::Fbig)?;
        match part {
            Part::Data(data) => transaction.write(to.file, at, data, to.authority).await?,
            Part::Hole(length) => {
                transaction.deallocate(to.file, at, length, to.authority).await?;
                if end > to.attributes.size {
                    transaction.allocate(to.file, at, length, to.authority).await?;
                }
            }
        }
        at = end;
    }
    Ok(at - offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_segments_are_joined_and_large_ones_left_alone() {
        let segment = |byte, length| Bytes::from(vec![byte; length]);
        let large = segment(3, SMALL);
        let found = joined(vec![segment(1, 10), segment(2, 20), large.clone(), segment(4, SMALL - 1)]);
        assert_eq!(found.iter().map(Bytes::len).collect::<Vec<_>>(), [30, SMALL, SMALL - 1]);
        assert_eq!(found[0], [vec![1; 10], vec![2; 20]].concat());
        assert_eq!(found[1].as_ptr(), large.as_ptr());
    }
}
