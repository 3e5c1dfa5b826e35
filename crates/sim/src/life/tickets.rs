use std::collections::BTreeSet;

use file_system::{Authority, Caller, CommitMode, FileId, FileSystem, FsError, FsResult, Mode, Transaction};
use parking_lot::Mutex;

use super::scene::{Folder, a_name};
use crate::world::World;

/// Two files that always hold the same number, for whoever looks at both in one transaction.
pub const TICKET_FILES: [&str; 2] = ["next ticket", "next ticket again"];

/// Numbers that clients draw from files that they share: nobody gets one twice, and they only ascend.
#[derive(Default)]
pub struct Tickets(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    taken: BTreeSet<u64>,
    /// All below were taken for ever.
    durable: u64,
}

impl Tickets {
    /// Draws a number. An error means that nobody knows whether it was drawn, but for `Conflict`.
    pub async fn take(
        &self,
        fs: &dyn FileSystem,
        shared: Folder,
        mode: CommitMode,
        world: &World,
    ) -> FsResult<()> {
        let least = self.0.lock().taken.last().map_or(0, |last| last + 1);
        let mut tx = fs.begin(&Caller::root(), Mode::Optimistic).await?;
        let files = files(&mut *tx, shared).await?;
        let ticket = read(&mut *tx, files[0]).await?;
        tokio::task::yield_now().await;
        let again = read(&mut *tx, files[1]).await?;
        for file in files {
            tx.write(file, 0, (ticket + 1).to_be_bytes().to_vec().into(), Authority::Checked).await?;
        }
        tokio::task::yield_now().await;
        tx.commit(mode).await?;
        if world.is_dead() {
            return Ok(());
        }
        let mut inner = self.0.lock();
        if ticket < least || !inner.taken.insert(ticket) {
            world.violate(format!("ticket {ticket} was drawn twice, all below {least} had been taken"));
        }
        if again != ticket {
            world.violate(format!("half of a transaction was seen: tickets {ticket} and {again}"));
        }
        if mode == CommitMode::Durable {
            inner.durable = inner.durable.max(ticket + 1);
        }
        Ok(())
    }

    /// Looks at both files in one transaction.
    pub async fn look(&self, fs: &dyn FileSystem, shared: Folder, world: &World) -> FsResult<()> {
        let least = self.0.lock().taken.last().map_or(0, |last| last + 1);
        let mut tx = fs.begin(&Caller::root(), Mode::Optimistic).await?;
        let files = files(&mut *tx, shared).await?;
        let first = read(&mut *tx, files[0]).await?;
        tokio::task::yield_now().await;
        let second = read(&mut *tx, files[1]).await?;
        tx.commit(CommitMode::Visible).await?;
        if !world.is_dead() && (first != second || first < least) {
            world.violate(format!(
                "the next tickets are {first} and {second}, and all below {least} had been taken"
            ));
        }
        Ok(())
    }

    /// After an end of the machine.
    pub async fn resume(&self, fs: &dyn FileSystem, shared: Folder) -> FsResult<Result<(), String>> {
        let mut tx = fs.begin(&Caller::root(), Mode::Optimistic).await?;
        let files = files(&mut *tx, shared).await?;
        let next = read(&mut *tx, files[0]).await?;
        let again = read(&mut *tx, files[1]).await?;
        let mut inner = self.0.lock();
        if next < inner.durable || next != again {
            let durable = inner.durable;
            return Ok(Err(format!(
                "the next tickets are {next} and {again}, and all below {durable} were durable"
            )));
        }
        inner.taken.retain(|ticket| *ticket < next);
        Ok(Ok(()))
    }
}

async fn files(tx: &mut dyn Transaction, shared: Folder) -> FsResult<[FileId; 2]> {
    let [first, second] = TICKET_FILES.map(a_name);
    Ok([tx.lookup(shared.0, &first).await?.file, tx.lookup(shared.0, &second).await?.file])
}

async fn read(tx: &mut dyn Transaction, file: FileId) -> FsResult<u64> {
    let bytes = tx.read(file, 0, 8, Authority::Checked).await?.segments.concat();
    let bytes = bytes.try_into().map_err(|_| FsError::Io("a ticket of another length".to_owned()))?;
    Ok(u64::from_be_bytes(bytes))
}
