//! Files as a program has them over the network, by the vectorized client.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use bytes::Bytes;
use file_system::{FsError, FsResult, Name};
use nfs4::NfsStatus;
use nfs4_client::ClientError;
use vector_client::{
    Aborted, AttributeSet, Client, Copy, Creation, Descriptor, Entry, Error, NewAttributes, Open, Read,
    Target, Transaction, Write,
};

use super::account::{Slot, Tree};
use super::operation::{Change, name_of};
use super::scene::a_name;
use super::tickets::{parse_ticket, ticket_name};
use crate::site::front::{EXPORT, Front};
use crate::world::World;

/// What an error says when a client has lost patience: it got no answer, or only that it should come again later.
pub const NO_ANSWER: &str = "no answer";

/// One client of the gateway.
pub struct Remote<'a> {
    /// Of all clients.
    pub number: usize,
    world: &'a World,
    front: &'a Front,
    client: RefCell<Option<Client>>,
    starts: Cell<u64>,
}

/// Why it is not known that a change was made.
pub enum Undone {
    /// It was not.
    Not(FsError),
    /// Nobody knows.
    Perhaps(FsError),
}

impl<'a> Remote<'a> {
    pub fn new(number: usize, world: &'a World, front: &'a Front) -> Remote<'a> {
        Remote { number, world, front, client: RefCell::default(), starts: Cell::default() }
    }

    /// What this client has sent and was not answered can do nothing any more once it has connected anew.
    pub fn start_anew(&self) {
        self.client.take();
    }

    async fn client(&self) -> FsResult<Client> {
        let present = self.client.borrow().clone();
        if let Some(client) = present {
            return Ok(client);
        }
        self.starts.set(self.starts.get() + 1);
        let connected = self.front.connect(self.number, self.starts.get()).await;
        let client = connected.map_err(|error| self.failed(error))?;
        self.client.replace(Some(client.clone()));
        Ok(client)
    }

    async fn transact(&self, build: impl FnOnce(&mut Transaction)) -> Result<(), Undone> {
        let client = self.client().await.map_err(Undone::Not)?;
        match client.transaction(build).await {
            Ok(_) => Ok(()),
            Err(Aborted { error, unknown: false, .. }) => Err(Undone::Not(self.failed(error))),
            Err(Aborted { error, .. }) => Err(Undone::Perhaps(self.failed(error))),
        }
    }

    pub async fn change(&self, change: &Change) -> Result<(), Undone> {
        let create = Some(Creation { mode: 0o644, exclusive: false });
        self.transact(|t| match change {
            Change::Write { slot, offset, data } => {
                let write = Write::new(self.file(*slot), *offset, data.clone());
                t.write(Write { create, stable: true, ..write });
            }
            Change::Resize { slot, size } => {
                t.set_attributes(self.file(*slot), NewAttributes::size(*size));
            }
            Change::Remove { slot } => {
                t.remove(self.file(*slot));
            }
            Change::Clone { from, to } => {
                t.copy(Copy::whole(self.file(*from), self.file(*to), 0o644));
            }
            Change::Rename { from, to } => {
                t.rename(self.file(*from), self.file(*to));
            }
        })
        .await
    }

    /// `None`: there is no such file.
    pub async fn read(&self, slot: Slot, offset: u64, length: u32) -> FsResult<Option<Vec<u8>>> {
        let read = Read::new(self.file(slot), offset, u64::from(length));
        match self.client().await?.vread(vec![read]).await {
            Ok(mut read) => Ok(read.pop().map(|data| data.into_bytes().into())),
            Err(failure) if failure.error.is_not_found() => Ok(None),
            Err(failure) => Err(self.failed(failure.error)),
        }
    }

    pub async fn list(&self) -> FsResult<Vec<(Name, u64)>> {
        let mut found = Vec::new();
        for Entry { name, attributes } in self.entries(self.folder()).await? {
            found.push((Name::new(name)?, attributes.size.unwrap_or_default()));
        }
        found.sort();
        Ok(found)
    }

    async fn entries(&self, folder: String) -> FsResult<Vec<Entry>> {
        let (client, wanted) = (self.client().await?, AttributeSet::KIND | AttributeSet::SIZE);
        let mut entries = Vec::new();
        let each = |_: &Target, entry: &Entry| entries.push(entry.clone());
        match client.vlistdir(vec![folder.into()], wanted, false, each).await {
            Ok(_) => Ok(entries),
            Err(failure) => Err(self.failed(failure.error)),
        }
    }

    pub async fn read_tree(&self) -> FsResult<Tree> {
        let mut tree = Tree::new();
        for (name, _) in self.list().await? {
            let Some(slot) = (0..).take(256).find(|slot| name_of(*slot) == name) else { continue };
            if let Some(content) = self.read(slot, 0, u32::MAX).await? {
                tree.insert(slot, Arc::new(content));
            }
        }
        Ok(tree)
    }

    /// Whatever is written to it through an open file is to last.
    pub async fn sync(&self, slot: Slot) -> FsResult<()> {
        let client = self.client().await?;
        let synced = async {
            let descriptor = client.open(Open::write(self.file(slot))).await?;
            let synced = client.fsync(descriptor).await;
            client.close_file(descriptor).await.and(synced)
        };
        match synced.await {
            Ok(()) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Opens a file to write into it.
    pub async fn open(&self, slot: Slot) -> FsResult<Descriptor> {
        let opened = self.client().await?.open(Open::write(self.file(slot))).await;
        opened.map_err(|error| self.failed(error))
    }

    /// Writes what lasts when it is closed. After an error nobody knows whether it is there.
    pub async fn write(&self, file: Descriptor, offset: u64, data: Bytes) -> FsResult<()> {
        let written = self.client().await?.pwrite(file, offset, data).await;
        written.map(drop).map_err(|error| self.failed(error))
    }

    /// Closes it.
    pub async fn close(&self, file: Descriptor) -> FsResult<()> {
        let closed = self.client().await?.close_file(file).await;
        closed.map_err(|error| self.failed(error))
    }

    /// Opens a shared file, writes all of it and closes it.
    pub async fn write_whole(&self, file: &str, data: Vec<u8>) -> FsResult<()> {
        let client = self.client().await?;
        let written = async {
            let descriptor = client.open(Open::write(shared_file(file))).await?;
            let mut writer = client.writer(descriptor, 0);
            let written = writer.write(data).await;
            writer.close().await.and(written)
        };
        written.await.map_err(|error| self.failed(error))
    }

    /// Opens a shared file, reads all of it, of which this much is expected, and closes it.
    pub async fn read_whole(&self, file: &str, length: u64) -> FsResult<Vec<u8>> {
        let client = self.client().await?;
        let read = async {
            let descriptor = client.open(Open::read(shared_file(file))).await?;
            let read = client.pread(descriptor, 0, length + 1).await;
            client.close_file(descriptor).await.and(read)
        };
        read.await.map(|data| data.into_bytes().into()).map_err(|error| self.failed(error))
    }

    /// The next ticket as both files have it in their names.
    pub async fn next_ticket(&self) -> FsResult<[u64; 2]> {
        let entries = self.entries(shared()).await?;
        let number = |file| entries.iter().find_map(|entry| parse_ticket(file, &entry.name));
        match (number(0), number(1)) {
            (Some(next), Some(again)) => Ok([next, again]),
            _ => Err(self.makes_no_sense("a directory without the tickets")),
        }
    }

    /// Draws this ticket if it is the next one, which is `NotFound` if it is not.
    pub async fn draw(&self, ticket: u64) -> Result<(), Undone> {
        let path = |file, number| format!("{}/{}", shared(), text(&ticket_name(file, number)));
        self.transact(|t| {
            for file in [0, 1] {
                t.rename(path(file, ticket), path(file, ticket + 1));
            }
        })
        .await
    }

    fn folder(&self) -> String {
        format!("/{EXPORT}/{}", text(&a_name(&format!("client {}", self.number))))
    }

    fn file(&self, slot: Slot) -> String {
        format!("{}/{}", self.folder(), text(&name_of(slot)))
    }

    /// As the gateway would say it to a client inside. What makes no sense is a violation.
    fn failed(&self, error: Error) -> FsError {
        match &error {
            Error::Refused { status: NfsStatus::NoEnt, .. } => FsError::NotFound,
            Error::Refused { status: NfsStatus::Io, .. } => FsError::Io(error.to_string()),
            Error::Refused { status: NfsStatus::Delay | NfsStatus::Grace, .. } => {
                FsError::Unavailable(format!("{NO_ANSWER}: {error}"))
            }
            Error::Connection(refused) if refused.asks_to_retry() => {
                FsError::Unavailable(format!("{NO_ANSWER}: {error}"))
            }
            Error::Connection(
                ClientError::Unknown
                | ClientError::Unreachable { .. }
                | ClientError::Rpc(_)
                | ClientError::SessionLost
                | ClientError::OpenLost { .. },
            ) => FsError::Unavailable(format!("{NO_ANSWER}: {error}")),
            _ => self.makes_no_sense(&error.to_string()),
        }
    }

    fn makes_no_sense(&self, what: &str) -> FsError {
        if !self.world.is_dead() {
            self.world.violate(format!("client {} met: {what}", self.number));
        }
        FsError::Io(what.to_owned())
    }
}

fn text(name: &Name) -> String {
    String::from_utf8_lossy(name.as_bytes()).into_owned()
}

fn shared_file(name: &str) -> String {
    format!("{}/{}", shared(), text(&a_name(name)))
}

/// The directory of all clients.
fn shared() -> String {
    format!("/{EXPORT}/{}", text(&a_name("shared")))
}
