//! COPY within this server (RFC 7862 §15.2).

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use file_system::{Attributes, Authority, FileId, FsError, Mode, Position, Transaction};
use nfs4::{CopyArgs, CopyOk, CopyRequirements, NfsStatus, StableHow, StateId, Verifier, WriteResponse};

use super::sparse::{self, Target};
use crate::compound::Compound;
use crate::failure::Failure;
use crate::offloads::{Job, Ticket};
use crate::state::{CopyRight, OffloadRequest};

/// Most data that one transaction moves, apart from blocks that are shared, so that neither memory nor a transaction grow with
/// the file. A COPY of more goes on in the background, if the client allows that; otherwise the client asks again for the rest.
/// What is done in one transaction is not worth a callback.
const LIMIT: u64 = 4 << 20;

/// Most blocks that one COPY shares: the transaction has a few bytes for each.
const SHARED: u64 = 16 << 10;

/// Most extents that one COPY looks at.
const EXTENTS: usize = 256;

/// Data that lies in parts below this size is put together, so that the journal need not keep books of each.
const SMALL: usize = 64 << 10;

/// Copies from the saved filehandle to the current one, in ascending order, done and durable when answered. Holes stay
/// holes. Copies less than asked for if that is much, and says how much; or goes on by itself if the client allows that.
pub(super) async fn run(cx: &mut Compound<'_>, args: &CopyArgs) -> Result<CopyOk, Failure> {
    if !args.source_servers.is_empty() {
        // The client reads and writes instead (RFC 7862 §11.2.3).
        return Err(NfsStatus::OffloadDenied.into());
    }
    let from = sparse::file(cx.saved()?)?;
    let to = Target::to_write(cx, args.destination_state_id).await?;
    let authority = cx.authority(args.source_state_id, from, false)?;
    let source =
        Source { file: from, authority, offset: args.source_offset, count: args.count, limit: LIMIT };
    let plan = Plan { source, to: to.file, authority: to.authority, offset: args.destination_offset };
    let verifier = Verifier(cx.file_system(to.file.volume)?.write_verifier());
    let has_changed = cx.has_changed();
    if has_changed && !cx.is_atomic() && cx.transaction(to.file.volume).await?.room() < LIMIT {
        // What came before is committed first, as before an operation on another volume.
        return Err(Failure::OtherVolume);
    }
    let least = plan.least(cx).await?;
    cx.will_change(to.file.volume)?;
    cx.will_copy()?;
    let done = |count| CopyOk {
        response: WriteResponse { callback_id: None, count, committed: StableHow::FileSync, verifier },
        requirements: CopyRequirements { consecutive: true, synchronous: true },
    };
    if let Some(count) = plan.share(cx, &to).await? {
        return enough(count, least).map(done);
    }
    if !args.synchronous
        && !cx.is_atomic()
        && let Some(count) = plan.length_if_long(cx).await?
    {
        if has_changed {
            // It copies what came before, too.
            return Err(Failure::OtherVolume);
        }
        let plan = Plan { source: Source { count, ..source }, ..plan };
        if let Some(id) = offload(cx, args, plan)? {
            let committed = StableHow::Unstable;
            return Ok(CopyOk {
                response: WriteResponse { callback_id: Some(id), count: 0, committed, verifier },
                requirements: CopyRequirements { consecutive: true, synchronous: false },
            });
        }
    }
    enough(plan.transfer(cx, &to).await?, least).map(done)
}

/// `NFS4ERR_REQ_TOO_BIG` if an atomic compound would do a part of it only.
fn enough(count: u64, least: u64) -> Result<u64, Failure> {
    if count < least { Err(NfsStatus::ReqTooBig.into()) } else { Ok(count) }
}

/// Leaves it to a task that begins when the compound is committed; `None` if there is no room for one, or no way to tell the
/// client how it ends.
fn offload(cx: &mut Compound<'_>, args: &CopyArgs, plan: Plan) -> Result<Option<StateId>, Failure> {
    let session = cx.session()?;
    let right = |cx: &Compound<'_>, id, file, write| -> Result<CopyRight, NfsStatus> {
        Ok(CopyRight { id: cx.resolve_state_id(id)?, file, write })
    };
    let (from, to) = (plan.source.file, plan.to);
    let rights =
        [right(cx, args.source_state_id, from, false)?, right(cx, args.destination_state_id, to, true)?];
    let references = [cx.file_system(from.volume)?.reference(from), cx.file_system(to.volume)?.reference(to)];
    let request = OffloadRequest { client: session.client, file: to, given_by: session.request };
    let Some(ticket) = Ticket::new(cx.server, request) else { return Ok(None) };
    let id = ticket.id;
    let (requester, connection, client) = (cx.requester.clone(), cx.connection, session.client);
    cx.will_offload(Job { ticket, client, requester, connection, plan, rights, _references: references });
    Ok(Some(id))
}

/// Copies as much of `plan` as one transaction takes, in that of `cx`; how many bytes that is. `None`: the source has no more.
pub(crate) async fn piece(cx: &mut Compound<'_>, plan: &Plan) -> Result<Option<u64>, Failure> {
    let volume = plan.to.volume;
    let attributes = cx.transaction(volume).await?.attributes(plan.to).await?;
    cx.will_write_unstable(volume)?;
    let to = Target { file: plan.to, authority: plan.authority, attributes };
    let count = plan.left(cx).await?;
    if count == 0 {
        return Ok(None);
    }
    let plan = Plan { source: Source { count, ..plan.source }, ..*plan };
    match plan.share(cx, &to).await? {
        Some(count) => Ok(Some(count)),
        None => Ok(Some(plan.transfer(cx, &to).await?)),
    }
}

/// What is to be copied where.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub source: Source,
    pub to: FileId,
    authority: Authority,
    offset: u64,
}

impl Plan {
    /// The first bytes are copied.
    pub fn advance(&mut self, count: u64) {
        self.source.offset += count;
        self.source.count -= count.min(self.source.count);
        self.offset += count;
    }

    fn is_within_volume(&self) -> bool {
        self.source.file.volume == self.to.volume
    }

    /// Where it goes if that is in the same file.
    fn overlap(&self) -> Option<u64> {
        (self.source.file == self.to).then_some(self.offset)
    }

    /// A transaction in the volume of the source, if that is another one. It only reads, and is dropped: whatever it saw becomes
    /// durable before the copy does, as both are in one journal.
    async fn reading(&self, cx: &Compound<'_>) -> Result<Box<dyn Transaction>, Failure> {
        let volume = self.source.file.volume;
        let caller = cx.caller(volume)?;
        Ok(cx.file_system(volume)?.begin(&caller, Mode::Optimistic).await?)
    }

    /// Shares what can be shared; how many bytes are done then. See [`Source::share`].
    async fn share(&self, cx: &mut Compound<'_>, to: &Target) -> Result<Option<u64>, Failure> {
        if !self.is_within_volume() {
            return Ok(None);
        }
        let transaction = cx.transaction(self.to.volume).await?;
        let source = Source { limit: LIMIT.min(transaction.room()), ..self.source };
        source.share(transaction, to, self.offset, self.overlap()).await
    }

    /// Moves bytes, up to the limit; how many.
    async fn transfer(&self, cx: &mut Compound<'_>, to: &Target) -> Result<u64, Failure> {
        let limit = LIMIT.min(cx.transaction(self.to.volume).await?.room());
        let source = Source { limit, ..self.source };
        let parts = if self.is_within_volume() {
            source.read(cx.transaction(self.to.volume).await?, self.overlap()).await?
        } else {
            source.read(&mut *self.reading(cx).await?, None).await?
        };
        write(cx.transaction(self.to.volume).await?, to, self.offset, parts).await
    }

    /// How many bytes it is, if that is more than what one transaction moves.
    async fn length_if_long(&self, cx: &mut Compound<'_>) -> Result<Option<u64>, Failure> {
        if self.is_within_volume() {
            self.source.length_if_long(cx.transaction(self.to.volume).await?, self.overlap()).await
        } else {
            self.source.length_if_long(&mut *self.reading(cx).await?, None).await
        }
    }

    /// How many bytes have to be copied at once: in an atomic compound, which is of one volume, all of them.
    async fn least(&self, cx: &mut Compound<'_>) -> Result<u64, Failure> {
        if !cx.is_atomic() {
            return Ok(0);
        }
        if !self.is_within_volume() {
            return Err(NfsStatus::Xdev.into());
        }
        let attributes = cx.transaction(self.to.volume).await?.attributes(self.source.file).await?;
        self.source.bytes(&attributes, self.overlap())
    }

    /// How many bytes of it the source still has.
    async fn left(&self, cx: &mut Compound<'_>) -> Result<u64, Failure> {
        let file = self.source.file;
        let attributes = if self.is_within_volume() {
            cx.transaction(self.to.volume).await?.attributes(file).await?
        } else {
            self.reading(cx).await?.attributes(file).await?
        };
        Ok(attributes.size.saturating_sub(self.source.offset).min(self.source.count))
    }
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
pub(crate) struct Source {
    file: FileId,
    authority: Authority,
    offset: u64,
    /// Zero: up to the end.
    pub count: u64,
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

    /// How many bytes it is, if their data is more than [`LIMIT`] or lies in too many parts.
    async fn length_if_long(
        &self,
        transaction: &mut dyn Transaction,
        destination: Option<u64>,
    ) -> Result<Option<u64>, Failure> {
        let count = self.bytes(&transaction.attributes(self.file).await?, destination)?;
        let range = self.offset..self.offset + count;
        let extents = transaction.extents(self.file, range.clone(), EXTENTS, self.authority).await?;
        let reach = extents.last().map_or(range.start, |extent| extent.range.end);
        let data = extents
            .iter()
            .filter(|extent| !extent.is_hole)
            .map(|extent| extent.range.end - extent.range.start);
        Ok((data.sum::<u64>() > LIMIT || reach < range.end).then_some(count))
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
