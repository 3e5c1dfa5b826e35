//! READ_PLUS (RFC 7862 §15.10).

use std::ops::Range;

use file_system::{Authority, Extent, FileId, Transaction};
use nfs4::{NfsStatus, Payload, ReadArgs, ReadPlusContent, ReadPlusOk};

use crate::compound::Compound;
use crate::failure::Failure;

/// Number, status, `eof` and how many pieces.
const HEAD: usize = 16;
/// What a piece of data takes beside the data, padding included.
const DATA: usize = 16 + 3;
/// What a hole takes.
const HOLE: usize = 20;

/// Holes below this size go out as zeros. As each saves more than two pieces take, a reply with holes is never larger than
/// one without, for which clients have room.
const SHORTEST_HOLE: u64 = 4096;

/// Most pieces of one reply; the client asks for the rest.
const PIECES: usize = 64;

/// Reads data without copying, and tells where there is none. What is told of a hole ends with the range asked for.
pub(super) async fn run(cx: &mut Compound<'_>, args: &ReadArgs) -> Result<ReadPlusOk, Failure> {
    let file = cx.current_file(NfsStatus::IsDir)?;
    let authority = cx.authority(args.state_id, file, false)?;
    let room = cx.room().saturating_sub(HEAD);
    let transaction = cx.transaction(file.volume).await?;
    let attributes = transaction.attributes(file).await?;
    let end = args.offset.saturating_add(args.count.into()).min(attributes.size);
    // Nobody needs to look for holes in a file that has none.
    let pieces = match attributes.space_used < attributes.size && args.offset < end {
        true => merged(transaction.extents(file, args.offset..end, PIECES, authority).await?),
        false => vec![Extent { range: args.offset..end.max(args.offset), is_hole: false }],
    };
    let mut reply = Builder { contents: Vec::new(), at: args.offset, room };
    for Extent { range, is_hole } in pieces {
        let whole = match is_hole {
            true => reply.hole(range),
            false => reply.data(transaction, file, range, authority).await?,
        };
        if !whole {
            break;
        }
    }
    let Builder { contents, at, .. } = reply;
    let bytes = contents.iter().map(|piece| match piece {
        ReadPlusContent::Data { data, .. } => data.len(),
        ReadPlusContent::Hole { .. } => 0,
    });
    cx.server.metrics.read(bytes.sum());
    Ok(ReadPlusOk { eof: at >= attributes.size, contents })
}

/// Short holes become part of the data around them.
fn merged(extents: Vec<Extent>) -> Vec<Extent> {
    let mut merged: Vec<Extent> = Vec::with_capacity(extents.len());
    for Extent { range, is_hole } in extents {
        let is_hole = is_hole && range.end - range.start >= SHORTEST_HOLE;
        match merged.last_mut() {
            Some(last) if last.is_hole == is_hole => last.range.end = range.end,
            _ => merged.push(Extent { range, is_hole }),
        }
    }
    merged
}

/// The result under construction.
struct Builder {
    contents: Vec<ReadPlusContent>,
    /// How far it got.
    at: u64,
    /// Bytes that it may still take.
    room: usize,
}

impl Builder {
    /// Whether it is in the result.
    fn hole(&mut self, range: Range<u64>) -> bool {
        let fits = self.room >= HOLE;
        if fits {
            self.room -= HOLE;
            self.at = range.end;
            let length = range.end - range.start;
            self.contents.push(ReadPlusContent::Hole { offset: range.start, length });
        }
        fits
    }

    /// Whether all of it is in the result.
    async fn data(
        &mut self,
        transaction: &mut dyn Transaction,
        file: FileId,
        range: Range<u64>,
        authority: Authority,
    ) -> Result<bool, Failure> {
        let wanted = range.end - range.start;
        let length = wanted.min(self.room.saturating_sub(DATA) as u64) as u32;
        if length == 0 && wanted > 0 {
            return Ok(false);
        }
        // Also where there is nothing to read: the kind of the object and the permission have to be looked at.
        let data = transaction.read(file, range.start, length, authority).await?;
        let read = data.len();
        if read > 0 {
            self.room -= DATA + read;
            self.at = range.start + read as u64;
            let data = Payload::new(data.segments);
            self.contents.push(ReadPlusContent::Data { offset: range.start, data });
        }
        Ok(read as u64 == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_holes_are_data() {
        let extent = |range, is_hole| Extent { range, is_hole };
        let found = vec![
            extent(0..10, true),
            extent(10..20, false),
            extent(20..20 + SHORTEST_HOLE - 1, true),
            extent(20 + SHORTEST_HOLE - 1..10_000, false),
            extent(10_000..10_000 + SHORTEST_HOLE, true),
        ];
        let expected = [extent(0..10_000, false), extent(10_000..10_000 + SHORTEST_HOLE, true)];
        assert_eq!(merged(found), expected);
    }
}
