use std::collections::BTreeSet;

use file_system::{
    Authority, Caller, CommitMode, FileId, FileSystem, FsError, FsResult, Mode, Name, Transaction,
};
use parking_lot::Mutex;

use super::account::{Moment, Promise};
use super::remote::{Remote, Undone};
use super::scene::{Folder, a_name};
use crate::world::World;

/// Two files that always hold the same number, for whoever looks at both in one transaction.
pub const TICKET_FILES: [&str; 2] = ["next ticket", "next ticket again"];

/// Numbers that clients draw from files that they share: nobody gets one twice, and they only ascend. Inside they are in the content of two
/// files; over the network, where others cannot be kept out by a transaction between reading and writing, in the names of two others.
#[derive(Default)]
pub struct Tickets(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    taken: BTreeSet<u64>,
    /// All below were taken for ever.
    durable: u64,
    /// Draws over the network of which nobody knows whether they were done.
    doubtful: u64,
    /// When it was seen that a ticket was drawn.
    seen: Vec<(Moment, u64)>,
    /// When the files of which a restore had lost something were last made anew. A backup from before has them as that restore left them.
    made_anew: Option<Moment>,
}

/// The name that one of two files has when this is the next ticket.
pub fn ticket_name(file: usize, number: u64) -> Name {
    a_name(&format!("ticket {file} {number}"))
}

/// The next ticket, if this is the name of that file.
pub fn parse_ticket(file: usize, name: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(name).ok()?.strip_prefix(&format!("ticket {file} "))?;
    text.split(' ').next()?.parse().ok()
}

impl Tickets {
    /// All below are taken.
    fn least(&self) -> u64 {
        self.0.lock().taken.last().map_or(0, |last| last + 1)
    }

    /// Draws a number. An error means that nobody knows whether it was drawn, but for `Conflict`.
    pub async fn take(
        &self,
        fs: &dyn FileSystem,
        shared: Folder,
        mode: CommitMode,
        world: &World,
    ) -> FsResult<()> {
        let least = self.least();
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
        self.drawn([ticket, again], least, mode, world);
        Ok(())
    }

    /// The same over the network.
    pub async fn take_remotely(&self, remote: &Remote<'_>, world: &World) -> FsResult<()> {
        let least = self.least();
        let next = remote.next_ticket().await?;
        self.seen(next, least, world);
        // Until the answer is there. The machine may die before.
        self.0.lock().doubtful += 1;
        let drawn = remote.draw(next[0]).await;
        if world.is_dead() {
            return Ok(());
        }
        if let Err(Undone::Perhaps(error)) = drawn {
            remote.start_anew();
            return Err(error);
        }
        self.0.lock().doubtful -= 1;
        match drawn {
            Ok(()) => self.drawn(next, least, CommitMode::Durable, world),
            Err(Undone::Not(FsError::NotFound)) => return Err(FsError::Conflict),
            Err(Undone::Not(error) | Undone::Perhaps(error)) => return Err(error),
        }
        Ok(())
    }

    fn drawn(&self, [ticket, again]: [u64; 2], least: u64, mode: CommitMode, world: &World) {
        if world.is_dead() {
            return;
        }
        let mut inner = self.0.lock();
        if ticket < least || !inner.taken.insert(ticket) {
            world.violate(format!("ticket {ticket} was drawn twice, all below {least} had been taken"));
        }
        if again != ticket {
            world.violate(format!("half of a transaction was seen: tickets {ticket} and {again}"));
        }
        inner.seen.push((world.now(), ticket));
        if mode == CommitMode::Durable {
            inner.durable = inner.durable.max(ticket + 1);
        }
    }

    /// Looks at both files in one transaction.
    pub async fn look(&self, fs: &dyn FileSystem, shared: Folder, world: &World) -> FsResult<()> {
        let least = self.least();
        let mut tx = fs.begin(&Caller::root(), Mode::Optimistic).await?;
        let files = files(&mut *tx, shared).await?;
        let first = read(&mut *tx, files[0]).await?;
        tokio::task::yield_now().await;
        let second = read(&mut *tx, files[1]).await?;
        tx.commit(CommitMode::Visible).await?;
        self.seen([first, second], least, world);
        Ok(())
    }

    /// The same over the network: one listing.
    pub async fn look_remotely(&self, remote: &Remote<'_>, world: &World) -> FsResult<()> {
        let least = self.least();
        self.seen(remote.next_ticket().await?, least, world);
        Ok(())
    }

    fn seen(&self, [first, second]: [u64; 2], least: u64, world: &World) {
        if !world.is_dead() && (first != second || first < least) {
            world.violate(format!(
                "the next tickets are {first} and {second}, and all below {least} had been taken"
            ));
        }
    }

    /// After an end of the machine.
    pub async fn resume(
        &self,
        fs: &dyn FileSystem,
        shared: Folder,
        is_remote: bool,
    ) -> FsResult<Result<(), String>> {
        let mut tx = fs.begin(&Caller::root(), Mode::Optimistic).await?;
        let [next, again] = if is_remote {
            let page = tx.read_directory(shared.0, 0, 16).await?;
            let names = page.entries.iter().map(|entry| entry.name.clone()).collect::<Vec<_>>();
            [0, 1].map(|file| {
                names.iter().find_map(|name| parse_ticket(file, name.as_bytes())).unwrap_or_default()
            })
        } else {
            let files = files(&mut *tx, shared).await?;
            [read(&mut *tx, files[0]).await?, read(&mut *tx, files[1]).await?]
        };
        let mut inner = self.0.lock();
        if next < inner.durable || next != again {
            let durable = inner.durable;
            return Ok(Err(format!(
                "the next tickets are {next} and {again}, and all below {durable} were durable"
            )));
        }
        inner.taken.retain(|ticket| *ticket < next);
        inner.seen.retain(|(_, ticket)| *ticket < next);
        let unknown = next - inner.taken.len() as u64;
        if is_remote && unknown > inner.doubtful {
            let doubtful = inner.doubtful;
            return Ok(Err(format!(
                "{unknown} of {next} tickets were drawn by nobody, and {doubtful} draws have an unknown end"
            )));
        }
        Ok(Ok(()))
    }

    /// What the gateway has said meanwhile.
    pub fn told(&self, promise: Promise) {
        let Some(backed_up) = promise.backed_up else { return };
        let seen = &mut self.0.lock().seen;
        let over = seen.iter().rposition(|(when, _)| *when <= backed_up).unwrap_or(0);
        seen.drain(..over);
    }

    /// After a restore of what there was at `instant`: those that were drawn later may come again. Files of which something `is_lost` are made anew.
    pub async fn resume_restored(
        &self,
        fs: &dyn FileSystem,
        shared: Folder,
        is_remote: bool,
        (instant, is_lost): (Moment, impl Fn(FileId) -> bool),
        world: &World,
    ) -> FsResult<Result<(), String>> {
        let was_lost = {
            let mut inner = self.0.lock();
            let before = inner.seen.iter().rev().find(|(when, _)| *when <= instant);
            inner.durable = before.map_or(0, |(_, ticket)| ticket + 1);
            inner.made_anew.is_some_and(|when| instant < when)
        };
        if !is_remote {
            let mut tx = fs.begin(&Caller::root(), Mode::Exclusive).await?;
            let files = files(&mut *tx, shared).await?;
            let is_lost = was_lost || files.into_iter().any(is_lost);
            if is_lost {
                let next = self.0.lock().durable;
                for file in files {
                    let bytes = next.to_be_bytes().to_vec();
                    tx.write(file, 0, bytes.into(), Authority::Checked).await?;
                }
            }
            tx.commit(CommitMode::Durable).await?;
            if is_lost {
                self.0.lock().made_anew = Some(world.now());
            }
        }
        let resumed = self.resume(fs, shared, is_remote).await?;
        if resumed.is_ok() {
            let mut inner = self.0.lock();
            let next = inner.taken.last().map_or(0, |last| last + 1).max(inner.durable);
            inner.durable = next;
            inner.seen.extend(next.checked_sub(1).map(|last| (instant, last)));
        }
        Ok(resumed)
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
