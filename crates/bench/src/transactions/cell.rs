//! What is done with files of one size, plain and atomic.

use anyhow::{Result, ensure};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use vector_client::{AttributeSet, Attributes, Client, Step, Target, Transaction, Write};

/// Bytes of one WRITE: of larger files each piece is a compound.
const PIECE: usize = 1 << 20;

/// Steps that the plain client puts into one compound at most (kurma.md §3.6), and removals (V37).
const STEPS: usize = 256;
const REMOVALS: usize = 1024;

/// Compounds under way at once, where the plain client has several.
const PARALLEL: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Write,
    Stat,
    Remove,
}

pub const ACTS: [Act; 3] = [Act::Write, Act::Stat, Act::Remove];

/// One client's part of it.
#[derive(Clone, Copy)]
pub struct Cell {
    pub act: Act,
    pub size: usize,
    /// Files of one compound.
    pub together: usize,
}

impl Cell {
    /// The cell whose compounds have the size that the plain client makes them: the most files that cost it one round trip.
    pub async fn of(act: Act, size: usize, client: &Client, folder: &str) -> Result<Cell> {
        let cell = |together| Cell { act, size, together };
        if act == Act::Write && size > PIECE {
            return Ok(cell(1));
        }
        let most = if act == Act::Remove { REMOVALS } else { STEPS };
        let names: Vec<String> = (0..=most).map(|n| format!("{folder}/{n}")).collect();
        let data = Bytes::from(vec![b'p'; if act == Act::Write { size } else { 0 }]);
        let (mut fits, mut exceeds) = (0, most + 1);
        while fits + 1 < exceeds {
            let middle = fits.midpoint(exceeds);
            let names = &names[..middle];
            if act != Act::Write {
                let writes = names.iter().map(|name| Write::whole(name, 0o644, data.clone()));
                client.vwrite(writes.collect()).await?;
            }
            let before = client.statistics().round_trips;
            cell(most).plain(client, names, &data).await?;
            if client.statistics().round_trips - before == 1 { fits = middle } else { exceeds = middle }
        }
        ensure!(fits > 0, "no {act:?} of a file of {size} bytes takes one round trip");
        Ok(cell(fits))
    }

    /// How often it is done in one measurement: what changes nothing, and takes milliseconds, several times.
    pub fn times(self) -> u32 {
        if self.act == Act::Stat { 16 } else { 1 }
    }

    pub async fn plain(self, client: &Client, names: &[String], data: &Bytes) -> Result<()> {
        // Each call is a number of full compounds.
        for names in names.chunks(self.together * PARALLEL) {
            let targets = || names.iter().map(|name| Target::from(name.as_str())).collect();
            match self.act {
                Act::Write => {
                    let writes = names.iter().map(|name| Write::whole(name.as_str(), 0o644, data.clone()));
                    client.vwrite(writes.collect()).await.map(drop)?;
                }
                Act::Stat => client.vlgetattrs(targets(), AttributeSet::STAT).await.map(drop)?,
                Act::Remove => client.vremove(targets()).await.map(drop)?,
            }
        }
        Ok(())
    }

    /// The same in compounds of the same size, each of them atomic.
    pub async fn atomic(self, client: &Client, names: &[String], data: &Bytes) -> Result<()> {
        if self.act == Act::Write && self.size > PIECE {
            for name in names {
                write_large(client, name, data).await?;
            }
            return Ok(());
        }
        let compounds = names.chunks(self.together).map(async |names| {
            let build = |t: &mut Transaction| {
                for name in names {
                    match self.act {
                        Act::Write => _ = t.write(Write::whole(name.as_str(), 0o644, data.clone())),
                        Act::Stat => _ = t.step::<Attributes>(lstat(name)),
                        Act::Remove => _ = t.remove(name.as_str()),
                    }
                }
            };
            client.transaction(build).await.map(drop)
        });
        // The plain client sends side by side what only asks.
        let parallel = if self.act == Act::Stat { PARALLEL } else { 1 };
        stream::iter(compounds).buffered(parallel).try_for_each(async |()| Ok(())).await?;
        Ok(())
    }
}

/// Attributes without following symbolic links: asking whether there are any would be more operations in an atomic compound.
fn lstat(name: &str) -> Step {
    Step::GetAttributes { target: name.into(), wanted: AttributeSet::STAT, follow: false }
}

/// The file is made with its first piece, then all others are on their way at once. The plain client opens the file, and sends all of them.
async fn write_large(client: &Client, name: &str, data: &Bytes) -> Result<()> {
    let first = Write::whole(name, 0o644, data.slice(..PIECE));
    client.transaction(|t| _ = t.write(first)).await?;
    let pieces = (PIECE..data.len()).step_by(PIECE).map(async |offset| {
        let piece = Write::new(name, offset as u64, data.slice(offset..offset + PIECE));
        client.transaction(|t| _ = t.write(piece)).await.map(drop)
    });
    stream::iter(pieces).buffered(PARALLEL).try_for_each(async |()| Ok(())).await?;
    Ok(())
}
