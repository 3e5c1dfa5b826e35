use crate::step::{Data, Read, Step, TO_END, Write};
use crate::{AttributeSet, Client, Copy, Done, Error, Failure, VectorResult};

/// Bytes held in memory at once.
const HELD: u64 = 8 << 20;

/// A piece of a copy: which, from where in it, how many bytes.
struct Piece {
    copy: usize,
    start: u64,
    length: u64,
}

impl Client {
    /// Copies from here to another client, or the same one, through memory; how many bytes each (V13). Three compounds for
    /// as many small files as fit into messages.
    pub async fn vcopy(&self, copies: Vec<Copy>, to: &Client) -> VectorResult<u64> {
        let sources = copies.iter().map(|copy| copy.source.clone()).collect();
        let mut copied: Vec<u64> = Vec::new();
        let sizes = self.vgetattrs(sources, AttributeSet::SIZE).await.map_err(|failure| Failure {
            done: Vec::new(),
            error: failure.error,
            unknown: 0,
        })?;
        let mut pieces = Vec::new();
        for (copy, (wanted, size)) in copies.iter().zip(&sizes).enumerate() {
            let there = size.size.unwrap_or(0).saturating_sub(wanted.source_offset);
            let all = if wanted.length == TO_END { there } else { wanted.length.min(there) };
            let starts = (0..all.div_ceil(HELD).max(1)).map(|n| n * HELD);
            pieces.extend(starts.map(|start| Piece { copy, start, length: HELD.min(all - start) }));
        }
        let mut rest = &pieces[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |piece: &&Piece| {
                bytes += piece.length;
                bytes <= HELD
            };
            let (group, after) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            rest = after;
            if let Err((error, unknown)) = self.copy_pieces(&copies, group, to, &mut copied).await {
                // The last one counts only if all of its pieces are there.
                let whole = pieces.iter().filter(|piece| piece.copy + 1 == copied.len());
                if whole.map(|piece| piece.length).sum::<u64>() > copied.last().copied().unwrap_or(0) {
                    copied.pop();
                }
                return Err(Failure { done: copied, error, unknown });
            }
        }
        Ok(copied)
    }

    async fn copy_pieces(
        &self,
        copies: &[Copy],
        pieces: &[Piece],
        to: &Client,
        copied: &mut Vec<u64>,
    ) -> Result<(), (Error, usize)> {
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
        for (piece, done) in pieces.iter().zip(written) {
            let Done::Written(bytes) = done else { continue };
            if copied.len() <= piece.copy {
                copied.push(0);
            }
            copied[piece.copy] += bytes;
        }
        failure.map_or(Ok(()), Err)
    }
}
