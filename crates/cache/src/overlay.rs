use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use journal::Lsn;
use smallvec::SmallVec;

use crate::payload::{Payload, PayloadStore, ReadFailure, Reading};
use crate::zeros::zeros;

/// A dirty range of a file and where its bytes are. Holding it keeps them readable.
pub(crate) struct Piece {
    pub range: Range<u64>,
    pub payload: Arc<Payload>,
    /// Position in the payload of the range's first byte.
    pub from: u64,
}

/// The dirty parts of one range of a file at one instant, ascending and disjoint.
#[derive(Default)]
pub(crate) struct Overlay {
    pieces: SmallVec<[Piece; 2]>,
}

impl Overlay {
    pub fn push(&mut self, piece: Piece) {
        self.pieces.push(piece);
    }

    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.pieces.iter().map(|piece| piece.range.clone())
    }

    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Whether every byte of `range` is dirty.
    pub fn covers(&self, range: Range<u64>) -> bool {
        let mut at = range.start;
        let first = self.pieces.partition_point(|piece| piece.range.end <= range.start);
        for piece in &self.pieces[first..] {
            if at >= range.end || piece.range.start > at {
                break;
            }
            at = piece.range.end;
        }
        at >= range.end
    }

    /// The newest record that the pieces come from.
    pub fn newest(&self) -> Option<Lsn> {
        self.pieces.iter().map(|piece| piece.payload.lsn()).max()
    }

    /// The content of `range`: the pieces, and `base` (as long as the range) where there are none.
    pub async fn over(
        &self,
        range: Range<u64>,
        base: Vec<Bytes>,
        store: Option<&Arc<dyn PayloadStore>>,
        reading: Reading,
    ) -> Result<Vec<Bytes>, ReadFailure> {
        if self.pieces.is_empty() {
            return Ok(base);
        }
        let mut base = Rope { parts: base.into_iter(), first: Bytes::new() };
        let mut out = Vec::with_capacity(2 * self.pieces.len() + 1);
        let mut at = range.start;
        for piece in &self.pieces {
            let (start, end) = (piece.range.start.max(range.start), piece.range.end.min(range.end));
            if start >= end {
                continue;
            }
            base.take(start - at, Some(&mut out));
            base.take(end - start, None);
            if piece.payload.is_zeros() {
                zeros(end - start, &mut out);
            } else {
                let from = piece.from + (start - piece.range.start);
                out.push(piece.payload.read(store, from, end - start, reading).await?);
            }
            at = end;
        }
        base.take(range.end - at, Some(&mut out));
        Ok(out)
    }
}

/// Parts that are consumed from the front.
struct Rope {
    parts: std::vec::IntoIter<Bytes>,
    first: Bytes,
}

impl Rope {
    /// Moves the next `length` bytes to `out`, or drops them.
    fn take(&mut self, mut length: u64, mut out: Option<&mut Vec<Bytes>>) {
        while length > 0 {
            if self.first.is_empty() {
                match self.parts.next() {
                    Some(part) => self.first = part,
                    None => {
                        debug_assert!(false, "the base is shorter than the range");
                        if let Some(out) = out {
                            zeros(length, out);
                        }
                        return;
                    }
                }
                continue;
            }
            let step = length.min(self.first.len() as u64);
            let part = self.first.split_to(step as usize);
            if let Some(out) = &mut out {
                out.push(part);
            }
            length -= step;
        }
    }
}
