use crate::step::{Data, Read, Step, TO_END, Write};
use crate::{AttributeSet, Client, Copy, Done, Error, Failure, VectorResult};

/// Bytes held in memory at once.
const HELD: u64 = 8 << 20;

/// A piece of a copy: which, from where in it, how many bytes, and whether it is the last.
struct Piece {
    copy: usize,
    start: u64,
    length: u64,
    last: bool,
}

/// What is left of copy number `copy`, of `all` bytes in all: one piece after the other, as there may be very many.
fn pieces(copy: usize, all: u64) -> impl Iterator<Item = Piece> {
    let count = all.div_ceil(HELD).max(1);
    (0..count).map(move |n| {
        let start = n * HELD;
        Piece { copy, start, length: HELD.min(all - start), last: n + 1 == count }
    })
}

impl Client {
    /// Copies from here to another client, or the same one, through memory; how many bytes each (V13). Three compounds for
    /// as many small files as fit into messages.
    pub async fn vcopy(&self, copies: Vec<Copy>, to: &Client) -> VectorResult<u64> {
        let sources = copies.iter().map(|copy| copy.source.clone()).collect();
        let mut copied: Vec<u64> = Vec::new();
        // Those before one that cannot be asked about are copied.
        let (sizes, failed) = match self.vgetattrs(sources, AttributeSet::SIZE).await {
            Ok(sizes) => (sizes, None),
            Err(failure) => (failure.done, Some(failure.error)),
        };
        let mut lengths = Vec::with_capacity(sizes.len());
        for (wanted, size) in copies.iter().zip(&sizes) {
            let there = size.size.unwrap_or(0).saturating_sub(wanted.source_offset);
            lengths.push(if wanted.length == TO_END { there } else { wanted.length.min(there) });
        }
        let mut rest = lengths.into_iter().enumerate().flat_map(|(copy, all)| pieces(copy, all)).peekable();
        while rest.peek().is_some() {
            let (mut bytes, mut group) = (0, Vec::new());
            while let Some(piece) = rest.next_if(|piece| group.is_empty() || bytes + piece.length <= HELD) {
                bytes += piece.length;
                group.push(piece);
            }
            let (written, failure) = self.copy_pieces(&copies, &group, to, &mut copied).await;
            if let Some((error, unknown)) = failure {
                // The last one counts only if all of its pieces are there.
                let is_part = group[..written].last().map_or(group[0].start > 0, |piece| !piece.last);
                if is_part {
                    copied.pop();
                }
                return Err(Failure { done: copied, error, unknown });
            }
        }
        match failed {
            None => Ok(copied),
            Some(error) => Err(Failure { done: copied, error, unknown: 0 }),
        }
    }

    /// How many of the pieces were written, and why not all.
    async fn copy_pieces(
        &self,
        copies: &[Copy],
        pieces: &[Piece],
        to: &Client,
        copied: &mut Vec<u64>,
    ) -> (usize, Option<(Error, usize)>) {
        let read = |piece: &Piece| {
            let copy = &copies[piece.copy];
            Read::new(&copy.source, copy.source_offset + piece.start, piece.length)
        };
        let asked: Vec<_> = pieces.iter().filter(|piece| piece.length > 0).map(read).collect();
        let (data, failed) = match self.vread(asked).await {
            Ok(data) => (data, None),
            Err(failure) => (failure.done, Some(failure.error)),
        };
        let mut data = data.into_iter();
        let mut writes = Vec::new();
        for piece in pieces {
            let data = match piece.length {
                0 => Data::default(),
                _ => match data.next() {
                    Some(data) => data,
                    None => break,
                },
            };
            let copy = &copies[piece.copy];
            let first = piece.start == 0;
            let offset = copy.destination_offset + piece.start;
            writes.push(Write {
                create: copy.create.filter(|_| first),
                truncate: copy.truncate && first,
                ..Write::new(&copy.destination, offset, data.into_bytes())
            });
        }
        let (written, failure) = match to.execute(writes.into_iter().map(Step::Write).collect()).await {
            Ok(done) => (done, failed.map(|error| (error, 0))),
            Err(failure) => (failure.done, Some((failure.error, failure.unknown))),
        };
        let count = written.len();
        for (piece, done) in pieces.iter().zip(written) {
            let Done::Written(bytes) = done else { continue };
            if copied.len() <= piece.copy {
                copied.push(0);
            }
            copied[piece.copy] += bytes;
        }
        (count, failure)
    }
}
