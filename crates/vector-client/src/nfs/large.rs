//! Writing more than one operation can carry.

use futures::StreamExt;
use futures::stream;

use super::Nfs;
use crate::step::{APPEND, Done, Open, Step, Write, further};
use crate::{Descriptor, Error, NewAttributes};

/// WRITEs of one file under way at once.
const PARALLEL: usize = 16;

/// How often data is written again that a restarted server has lost.
const TRIES: u32 = 3;

impl Nfs {
    /// All of it; bytes written. Safe at the end if the file was named by a path.
    pub(super) async fn write_large(&self, write: &Write) -> Result<u64, Error> {
        if write.offset == APPEND {
            return Err(Error::Invalid {
                target: write.target.clone(),
                what: "more to append than one operation can carry; append less at a time",
            });
        }
        if let Some(descriptor) = write.target.descriptor() {
            if write.truncate {
                let (target, attributes) = (write.target.clone(), NewAttributes::size(0));
                let cut = Step::SetAttributes { target, attributes, follow: false };
                Box::pin(self.do_all(vec![cut])).await.map_err(|failure| failure.error)?;
            }
            return self.side_by_side(descriptor, write).await;
        }
        let mut open = Open {
            create: write.create,
            truncate: write.truncate,
            read: false,
            follow: write.follow,
            ..Open::write(write.target.clone())
        };
        let mut tries = TRIES;
        loop {
            let descriptor = self.open(open.clone()).await?;
            (open.create, open.truncate) = (None, false);
            let written = self.side_by_side(descriptor, write).await;
            let closed = Box::pin(self.do_all(vec![Step::Close(descriptor)])).await;
            let written = written?;
            match closed {
                Ok(_) => return Ok(written),
                Err(failure) if matches!(failure.error, Error::DataLost(_)) && tries > 1 => tries -= 1,
                Err(failure) => return Err(failure.error),
            }
        }
    }

    async fn side_by_side(&self, descriptor: Descriptor, write: &Write) -> Result<u64, Error> {
        let transfer = self.transfer();
        let starts = (0..write.data.len()).step_by(transfer);
        let pieces = starts.map(|start| {
            let end = write.data.len().min(start + transfer);
            let offset = further(write.offset, start);
            let stable = write.stable;
            Write { stable, ..Write::new(descriptor, offset, write.data.slice(start..end)) }
        });
        let writes = pieces.map(|piece| Box::pin(self.do_all(vec![Step::Write(piece)])));
        let mut written = 0;
        let mut results = stream::iter(writes).buffered(PARALLEL);
        while let Some(result) = results.next().await {
            for done in result.map_err(|failure| failure.error)? {
                if let Done::Written(bytes) = done {
                    written += bytes;
                }
            }
        }
        Ok(written)
    }
}
