//! A file that is more than a message carries.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::stream;
use futures::{StreamExt, join};

use super::batch::{Copied, Ends, is_content};
use super::options::{CopyAct, CopyItem};
use crate::step::{Open, Read, Step, TO_END, Write};
use crate::tree::is_of_the_server;
use crate::{Client, Copy, Descriptor, Error};

/// Bytes that are read and written as one, and how many of them at once.
const PART: u64 = 1 << 20;
const PARALLEL: usize = 8;

/// Bytes that a server copies in one go: so that no request takes too long.
const BY_SERVER: u64 = 64 << 20;

/// The part of [`Ends::moving`] that is of one file, until that is copied or given up.
struct Moving<'a> {
    all: &'a AtomicU64,
    own: u64,
}

impl Moving<'_> {
    fn add(&mut self, bytes: u64) {
        self.all.fetch_add(bytes, Ordering::Relaxed);
        self.own += bytes;
    }

    fn begin_anew(&mut self) {
        self.all.fetch_sub(self.own, Ordering::Relaxed);
        self.own = 0;
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.begin_anew();
    }
}

impl Ends<'_> {
    /// Copies a file piece by piece.
    pub async fn large(&self, item: &CopyItem) -> Result<Copied, Error> {
        if self.removes_first(item)
            && let Err(failure) = self.to.vremove(vec![item.destination.clone()]).await
        {
            return settled(CopyAct::Remove, failure.error);
        }
        let mut moving = Moving { all: &self.moving, own: 0 };
        let copied = match self.whole_by_server(item, &mut moving).await? {
            true => Ok(moving.own),
            false => self.stream(item, &mut moving).await,
        };
        let bytes = match copied {
            Ok(bytes) => bytes,
            Err((act, error)) => return settled(act, error),
        };
        Ok(self.set_attributes(item).await?.map(|()| bytes))
    }

    /// Whether the server can.
    async fn whole_by_server(&self, item: &CopyItem, moving: &mut Moving<'_>) -> Result<bool, Error> {
        if !self.by_server.load(Ordering::Relaxed) || !is_content(item, self.options) {
            return Ok(false);
        }
        let size = item.attributes.size.unwrap_or(0);
        let copy = |start: u64| {
            let whole = Copy::whole(&item.source, &item.destination, self.mode(item));
            let first = start == 0;
            Step::Copy(Copy {
                source_offset: start,
                destination_offset: start,
                length: if size - start > BY_SERVER { BY_SERVER } else { TO_END },
                create: whole.create.filter(|_| first),
                truncate: first,
                ..whole
            })
        };
        for start in (0..size.max(1)).step_by(BY_SERVER as usize) {
            match self.to.execute(vec![copy(start)]).await {
                Ok(done) => {
                    let bytes = done.iter().map(|done| match done {
                        crate::Done::Copied(bytes) => *bytes,
                        _ => 0,
                    });
                    moving.add(bytes.sum());
                }
                Err(failure) if matches!(failure.error, Error::Connection(_)) => return Err(failure.error),
                Err(failure) => {
                    self.refused_copy(&failure.error);
                    moving.begin_anew();
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    async fn stream(&self, item: &CopyItem, moving: &mut Moving<'_>) -> Copied {
        let source = self.from.open(Open::read(&item.source));
        let source = source.await.map_err(|error| (CopyAct::Read, error))?;
        let destination = match self.to.open(self.open_for(item)).await {
            Err(_) if self.options.force && item.existing.is_some() => {
                // If it cannot be removed, opening it says why.
                let _ = self.to.vremove(vec![item.destination.clone()]).await;
                self.to.open(self.open_for(item)).await
            }
            opened => opened,
        };
        match destination {
            Ok(destination) => {
                let size = item.attributes.size.unwrap_or(0);
                let copied = self.parts(source, destination, size, moving).await;
                let (from, to) = join!(self.from.close_file(source), self.to.close_file(destination));
                to.map_err(|error| (CopyAct::Write, error))?;
                from.map_err(|error| (CopyAct::Read, error))?;
                copied
            }
            Err(error) => {
                let _ = self.from.close_file(source).await;
                Err((CopyAct::Write, error))
            }
        }
    }

    async fn parts(
        &self,
        source: Descriptor,
        destination: Descriptor,
        size: u64,
        moving: &mut Moving<'_>,
    ) -> Copied {
        // Then what came to it meanwhile.
        let mut size = size.max(1);
        loop {
            let copied = moving.own;
            let starts = (copied..size.max(copied + 1)).step_by(PART as usize);
            let parts = starts.map(|start| part(self.from, self.to, source, destination, start));
            let mut parts = stream::iter(parts).buffered(PARALLEL);
            let mut at_end = false;
            while let Some(part) = parts.next().await {
                let (bytes, end_of_file) = part?;
                moving.add(bytes);
                at_end |= end_of_file;
            }
            if at_end {
                return Ok(moving.own);
            }
            size = moving.own + PART;
        }
    }
}

async fn part(
    from: &Client,
    to: &Client,
    source: Descriptor,
    destination: Descriptor,
    start: u64,
) -> Result<(u64, bool), (CopyAct, Error)> {
    let read = from.vread(vec![Read::new(source, start, PART)]).await;
    let data = read.map_err(|failure| (CopyAct::Read, failure.error))?.pop().unwrap_or_default();
    let (end_of_file, mut written) = (data.end_of_file || data.is_empty(), 0);
    let mut writes = Vec::new();
    for piece in data.pieces {
        let length = piece.len() as u64;
        writes.push(Write::new(destination, start + written, piece));
        written += length;
    }
    if !writes.is_empty() {
        to.vwrite(writes).await.map_err(|failure| (CopyAct::Write, failure.error))?;
    }
    Ok((written, end_of_file))
}

/// The loss of a server ends everything, all else only this file.
fn settled(act: CopyAct, error: Error) -> Result<Copied, Error> {
    match is_of_the_server(&error) {
        true => Err(error),
        false => Ok(Err((act, error))),
    }
}
