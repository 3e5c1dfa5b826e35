use std::sync::Arc;

use bytes::Bytes;
use file_system::{Authority, FsError, FsResult, Name, OpenCreate, Position, SetAttributes, Transaction};

use super::account::{SLOTS, Slot, Tree};
use super::scene::{Folder, a_name};
use crate::world::inspector::CANARY;

/// Arbitrary numbers, which mean something whatever came before.
pub type Step = [u16; 6];

const BLOCK: u64 = 64 << 10;
/// The longest file.
const LONGEST: u64 = 3 * BLOCK;

/// What one transaction does to the files of a client.
#[derive(Debug)]
pub enum Change {
    Write { slot: Slot, offset: u64, data: Bytes },
    Resize { slot: Slot, size: u64 },
    Remove { slot: Slot },
    Clone { from: Slot, to: Slot },
    Rename { from: Slot, to: Slot },
}

/// Something to be done.
#[derive(Debug)]
pub enum Operation {
    Change(Change),
    Read { slot: Slot, offset: u64, length: u32 },
    List,
    Sync { slot: Slot },
    TakeTicket,
    LookAtTickets,
    WriteNotice,
    ReadNotice,
}

/// What a client writes can be told from everything else, and where it was written.
pub fn content(client: usize, number: u64, length: u64) -> Vec<u8> {
    let mut unit = CANARY.to_vec();
    unit.extend_from_slice(&number.to_be_bytes());
    (0..length.div_ceil(32)).fold(Vec::with_capacity(length as usize + 32), |mut out, at| {
        out.extend_from_slice(&unit);
        out.extend_from_slice(&(((client as u64) << 56) | at).to_be_bytes());
        out
    })[..length as usize]
        .to_vec()
}

impl Operation {
    /// What a step means to a client with these files.
    pub fn of(step: &Step, client: usize, number: u64, tree: &Tree) -> Operation {
        let slot = (step[1] % SLOTS) as Slot;
        let other = (step[2] % SLOTS) as Slot;
        let size = tree.get(&slot).map_or(0, |content| content.len()) as u64;
        let within = |end: u64, part: u16| u64::from(part) * end / 65_536;
        let length = match step[3] % 12 {
            0 => BLOCK,
            1 => 1 + within(LONGEST, step[4]),
            2 | 3 => 1 + within(100, step[4]),
            _ => 1 + within(4000, step[4]),
        };
        if size == 0 && !matches!(step[0] % 32, 24..32) {
            return Operation::Change(Change::Write {
                slot,
                offset: 0,
                data: content(client, number, length).into(),
            });
        }
        match step[0] % 32 {
            0..7 => {
                let offset = within(size + 1, step[5]).min(LONGEST - length.min(LONGEST));
                Operation::Change(Change::Write {
                    slot,
                    offset,
                    data: content(client, number, length).into(),
                })
            }
            7 | 8 => Operation::Change(Change::Write {
                slot,
                offset: 0,
                data: content(client, number, length).into(),
            }),
            9 => Operation::Change(Change::Resize { slot, size: within(size * 5 / 4 + 2, step[5]) }),
            10 => Operation::Change(Change::Remove { slot }),
            11 if slot != other => Operation::Change(Change::Rename { from: slot, to: other }),
            12 if slot != other && !tree.contains_key(&other) => {
                Operation::Change(Change::Clone { from: slot, to: other })
            }
            24 => Operation::List,
            25 => Operation::Sync { slot },
            26..29 => Operation::TakeTicket,
            29 => Operation::LookAtTickets,
            30 => Operation::WriteNotice,
            31 => Operation::ReadNotice,
            13 | 14 => Operation::Read { slot, offset: 0, length: LONGEST as u32 + 1 },
            _ => {
                let length = (1 + within(20_000, step[4])) as u32;
                Operation::Read { slot, offset: within(size + 10, step[5]), length }
            }
        }
    }
}

impl Change {
    /// The files afterwards.
    pub fn applied(&self, tree: &Tree) -> Tree {
        let mut after = tree.clone();
        let of = |slot: &Slot| tree.get(slot).map(|content| content.to_vec()).unwrap_or_default();
        match self {
            Change::Write { slot, offset, data } => {
                let (mut content, start) = (of(slot), *offset as usize);
                content.resize(content.len().max(start + data.len()), 0);
                content[start..start + data.len()].copy_from_slice(data);
                after.insert(*slot, Arc::new(content));
            }
            Change::Resize { slot, size } => {
                let mut content = of(slot);
                content.resize(*size as usize, 0);
                after.insert(*slot, Arc::new(content));
            }
            Change::Remove { slot } => drop(after.remove(slot)),
            Change::Clone { from, to } => drop(after.insert(*to, Arc::new(of(from)))),
            Change::Rename { from, to } => {
                if let Some(content) = after.remove(from) {
                    after.insert(*to, content);
                }
            }
        }
        after
    }

    /// Does it, but for the commit.
    pub async fn run(&self, tx: &mut dyn Transaction, folder: Folder) -> FsResult<()> {
        let folder = folder.0;
        let set = SetAttributes::with_mode(0o644);
        match self {
            Change::Write { slot, offset, data } => {
                let opened = tx.open_create(folder, &name_of(*slot), OpenCreate::Unchecked, &set).await?;
                tx.write(opened.attributes.file, *offset, data.clone(), Authority::Opened).await
            }
            Change::Resize { slot, size } => {
                let file = tx.lookup(folder, &name_of(*slot)).await?.file;
                tx.set_attributes(file, &SetAttributes::with_size(*size), Authority::Checked).await.map(drop)
            }
            Change::Remove { slot } => tx.remove(folder, &name_of(*slot)).await.map(drop),
            Change::Clone { from, to } => {
                let file = tx.lookup(folder, &name_of(*from)).await?.file;
                let copy = tx.open_create(folder, &name_of(*to), OpenCreate::Guarded, &set).await?;
                let at = |file| Position { file, offset: 0, authority: Authority::Checked };
                let cloned = tx.clone_range(at(file), at(copy.attributes.file), 0, true).await;
                cloned.map_err(|error| match error {
                    // Nothing of it is stored, and the clouds do not take it; or the books are full.
                    FsError::InvalidArgument | FsError::NoSpace => FsError::Unavailable(error.to_string()),
                    error => error,
                })
            }
            Change::Rename { from, to } => {
                tx.rename(folder, &name_of(*from), folder, &name_of(*to)).await.map(drop)
            }
        }
    }
}

pub fn name_of(slot: Slot) -> Name {
    a_name(&slot.to_string())
}
