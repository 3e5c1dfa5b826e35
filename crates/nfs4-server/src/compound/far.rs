//! Reads that have to wait for the clouds: those of one compound wait at the same time (V43, T13).
//!
//! Operations run one after the other, and most are done at once. Reading what is not near is not: a compound
//! that reads a hundred files would wait a hundred times. So the first read that takes long has the compound taken back,
//! what it reads further on looked for, all of that fetched side by side, and the compound run again. Its results
//! are those of the serial order, because it is run in that order; fetching fills the cache, no more.

use std::sync::Arc;
use std::time::Duration;

use file_system::{Authority, Caller, FileId, FileSystem, FsResult, Mode, ReadData};
use tokio::task::JoinSet;

use super::Compound;
use crate::failure::Failure;

/// A read that takes longer is not of memory or of the local disk.
const NEAR: Duration = Duration::from_millis(1);

/// Files of one compound that are fetched at the same time.
const SIDE_BY_SIDE: usize = 256;

/// What a READ wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub file: FileId,
    pub offset: u64,
    pub count: u32,
    pub authority: Authority,
}

/// How reads that take long are dealt with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Patience {
    /// The first has all others looked for.
    #[default]
    Little,
    /// They are being looked for: none is waited for, and none that is near is read.
    None,
    /// All were fetched; what takes long nevertheless is waited for.
    Much,
}

impl Compound<'_> {
    /// Reads. [`Failure::Far`] if it is not near, and other operations follow that may read, too.
    pub async fn read(&mut self, wanted: Wanted) -> Result<ReadData, Failure> {
        let Wanted { file, offset, count, authority } = wanted;
        let waits = self.is_last || self.mode == Mode::Exclusive;
        match self.patience {
            Patience::None => Err(self.far(wanted).await?),
            Patience::Little if !waits => {
                let clock = self.server.environment.clock.clone();
                let transaction = self.transaction(file.volume).await?;
                tokio::select! {
                    biased;
                    data = transaction.read(file, offset, count, authority) => Ok(data?),
                    () = clock.sleep(NEAR) => Err(self.far(wanted).await?),
                }
            }
            _ => {
                let transaction = self.transaction(file.volume).await?;
                Ok(transaction.read(file, offset, count, authority).await?)
            }
        }
    }

    /// Without what is beyond the end of the file.
    async fn far(&mut self, wanted: Wanted) -> Result<Failure, Failure> {
        let size = self.transaction(wanted.file.volume).await?.attributes(wanted.file).await?.size;
        let there = u32::try_from(size.saturating_sub(wanted.offset)).unwrap_or(u32::MAX);
        Ok(Failure::Far(Wanted { count: wanted.count.min(there), ..wanted }))
    }

    /// Has all this read side by side. How that ends does not matter: the compound reads again.
    pub(super) async fn fetch(&self, reads: Vec<Wanted>) {
        let mut fetches = JoinSet::new();
        for wanted in reads.into_iter().filter(|wanted| wanted.count > 0) {
            let volume = wanted.file.volume;
            let (Ok(file_system), Ok(caller)) = (self.file_system(volume), self.caller(volume)) else {
                continue;
            };
            if fetches.len() >= SIDE_BY_SIDE {
                fetches.join_next().await;
            }
            fetches.spawn(read(file_system, caller, wanted));
        }
        while fetches.join_next().await.is_some() {}
    }
}

async fn read(file_system: Arc<dyn FileSystem>, caller: Caller, wanted: Wanted) -> FsResult<()> {
    let mut transaction = file_system.begin(&caller, Mode::Optimistic).await?;
    transaction.read(wanted.file, wanted.offset, wanted.count, wanted.authority).await.map(drop)
}
