use std::collections::HashMap;
use std::sync::Arc;

use blocks::Placement;
use bytes::Bytes;
use ids::{BlockIndex, BlockShift, ObjectId};
use meta::{MetaError, Scan};

use crate::VolumeError;
use crate::keys::Keys;
use crate::node::upkeep_transaction;
use crate::row::{Inode, Policy, Special};
use crate::spread::{Count, Shift, are_siblings};
use crate::transaction::Entry;
use crate::volume::{Inner, Volume};

/// Names looked at in one transaction.
const NAMES: usize = 256;
/// Files sent to another policy in one transaction.
const FILES: usize = 64;
/// Rows of a block map that are looked at in one transaction.
const CHUNKS: usize = 16;
/// The row of a directory begins with this, whose files are to be moved to whatever they would get now.
const ALL: u8 = 1;
/// The same, only for those that differ from that by their clouds alone.
const CLOUDS_ONLY: u8 = 2;

impl Volume {
    /// Has all files in the directory at `path` (from the root, parts separated by `/`), and below it, moved to the policy that a file would get that is
    /// made there now. Returns when that is durable; the rest is done in the background, and goes on after a restart.
    pub async fn migrate(&self, path: &str) -> Result<(), VolumeError> {
        let inner = &self.inner;
        let noted: Result<(), VolumeError> = upkeep_transaction!(inner.node, |transaction| {
            let directory = inner.directory_at(transaction, path).await?;
            let key = inner.keys.migration(directory);
            let known = transaction.get(&key).await?;
            transaction.put(key, asked(known.as_deref(), false));
            Ok(())
        });
        noted?;
        inner.migration.begun.notify_one();
        Ok(())
    }

    /// Finds the files that [`Volume::migrate`] was about.
    pub async fn find_migrating(&self) -> Result<(), VolumeError> {
        let inner = &self.inner;
        let (start, end) = inner.keys.migrations();
        loop {
            let mut transaction = inner.node.store.begin(meta::Mode::Optimistic).await?;
            let rows = transaction.scan(Scan { start: &start, end: &end, guard: None, limit: 1 }).await?;
            drop(transaction);
            let Some((key, row)) = rows.first() else { return Ok(()) };
            if let Some(directory) = Keys::orphan_of(key) {
                let mut errand = Errand::Send { clouds_only: row.first() == Some(&CLOUDS_ONLY) };
                inner.walk(directory, &mut errand).await?;
            }
            environment::failpoint!("migration.found");
            let found: Result<(), VolumeError> = upkeep_transaction!(inner.node, |transaction| {
                // It may have been asked for again meanwhile, with other variants of policies.
                if transaction.get(key).await?.is_some_and(|now| now == *row) {
                    transaction.delete(key.clone());
                }
                Ok(())
            });
            found?;
        }
    }
}

/// The row of a directory whose files are to be moved, given the one that is there: another each time that it is asked for.
pub(crate) fn asked(known: Option<&[u8]>, clouds_only: bool) -> Bytes {
    let (kind, number) = known.and_then(<[u8]>::split_first).unwrap_or((&CLOUDS_ONLY, &[]));
    let number = number.try_into().map_or(0, u64::from_be_bytes).wrapping_add(1);
    // Whatever is to be moved by the one is to be moved by the other.
    let kind = if clouds_only { *kind } else { ALL };
    [&[kind][..], &number.to_be_bytes()].concat().into()
}

/// Files with the number of the policy that they are sent to.
type Sent = Vec<(ObjectId, u32)>;

/// The numbers of policies that differ from others by the block size alone.
type OfBlockSize = HashMap<(u32, BlockShift), u32>;

/// What a walk through files is for.
enum Errand<'a, 'b> {
    /// To send them to the policies that they would get now.
    Send { clouds_only: bool },
    /// To count what would be sent.
    Count(&'a mut Count<'b>),
}

/// A file that a walk has come to.
struct Found {
    object: ObjectId,
    /// Its policy.
    policy: u32,
    shift: BlockShift,
    bytes: u64,
}

impl Inner {
    /// What would move if policies had these variants.
    pub async fn shifts(&self, wanted: &[(Arc<Policy>, Vec<Policy>)]) -> Result<Vec<Shift>, VolumeError> {
        let mut count = Count::new(wanted);
        self.walk(self.root, &mut Errand::Count(&mut count)).await?;
        Ok(count.shifts)
    }

    /// Goes through all files below a directory. What is renamed meanwhile may be missed; what is made has its policy already.
    async fn walk(&self, directory: ObjectId, errand: &mut Errand<'_, '_>) -> Result<(), VolumeError> {
        let policies = self.directories.read().clone();
        let mut left = vec![(directory, self.policy_of_files_in(directory, |_| None).await?)];
        let mut of_size = OfBlockSize::new();
        let mut files = Sent::new();
        if directory == self.root {
            self.walk_unnamed(left[0].1, &mut of_size, errand).await?;
        }
        while let Some((directory, policy)) = left.pop() {
            let (mut start, end) = self.keys.names(directory);
            loop {
                let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
                let scan = Scan { start: &start, end: &end, guard: None, limit: NAMES };
                let rows = transaction.scan(scan).await?;
                drop(transaction);
                for (_, row) in &rows {
                    let entry =
                        Entry::decode(row).map_err(self.damaged("an entry of directory", directory))?;
                    let Some(inode) = self.inode_now(entry.object).await? else { continue };
                    match inode.special {
                        Special::Directory { .. } => {
                            let own = policies.get(&entry.object).copied();
                            left.push((entry.object, own.unwrap_or(policy)));
                        }
                        Special::File { policy: old, shift, .. } => {
                            let bytes = inode.attributes.space_used;
                            let found = Found { object: entry.object, policy: old, shift, bytes };
                            files.extend(self.destination(&found, policy, &mut of_size, errand).await?);
                        }
                        Special::Other => {}
                    }
                }
                self.send_all(&mut files).await?;
                match rows.last() {
                    Some((last, _)) if rows.len() == NAMES => start = [&last[..], &[0]].concat().into(),
                    _ => break,
                }
            }
        }
        Ok(())
    }

    /// Files that have no name any more, and that somebody may have open.
    async fn walk_unnamed(
        &self,
        policy: u32,
        of_size: &mut OfBlockSize,
        errand: &mut Errand<'_, '_>,
    ) -> Result<(), VolumeError> {
        let (mut start, end) = self.keys.orphans();
        loop {
            let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
            let scan = Scan { start: &start, end: &end, guard: None, limit: NAMES };
            let (rows, mut files) = (transaction.scan(scan).await?, Sent::new());
            drop(transaction);
            for object in rows.iter().filter_map(|(key, _)| Keys::orphan_of(key)) {
                let Some(inode) = self.inode_now(object).await? else { continue };
                if let Special::File { policy: old, shift, .. } = inode.special {
                    let found = Found { object, policy: old, shift, bytes: inode.attributes.space_used };
                    files.extend(self.destination(&found, policy, of_size, errand).await?);
                }
            }
            self.send_all(&mut files).await?;
            match rows.last() {
                Some((last, _)) if rows.len() == NAMES => start = [&last[..], &[0]].concat().into(),
                _ => return Ok(()),
            }
        }
    }

    /// As it is now, by itself: together with others of a directory that is worked in, it could hardly ever be read.
    async fn inode_now(&self, object: ObjectId) -> Result<Option<Inode>, VolumeError> {
        let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
        let row = transaction.get(&self.keys.inode(object)).await?;
        row.map(|row| self.inode(object, &row)).transpose()
    }

    /// Where a file is to be sent that would get `policy` if it were made now.
    async fn destination(
        &self,
        found: &Found,
        policy: u32,
        of_size: &mut OfBlockSize,
        errand: &mut Errand<'_, '_>,
    ) -> Result<Option<(ObjectId, u32)>, VolumeError> {
        let Found { object, policy: old, shift, bytes } = *found;
        let clouds_only = match errand {
            Errand::Send { clouds_only } => *clouds_only,
            Errand::Count(count) => {
                let is_counted = count.would_move(object, &*self.policy(old)?, &self.policy(policy)?);
                if is_counted && !self.shares_blocks(object).await? {
                    count.add(object, (&*self.policy(old)?, &self.policy(policy)?), (shift, bytes));
                }
                return Ok(None);
            }
        };
        let new = self.variant(policy, object);
        if clouds_only && !are_siblings(&*self.policy(old)?, &*self.policy(new)?) {
            return Ok(None);
        }
        let new = self.with_block_size(new, shift, of_size).await?;
        if new == old || (clouds_only && self.shares_blocks(object).await?) {
            return Ok(None);
        }
        Ok(Some((object, new)))
    }

    /// Whether a file has blocks in common with another one.
    async fn shares_blocks(&self, object: ObjectId) -> Result<bool, VolumeError> {
        let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
        let (start, end) = self.keys.shares_with(object);
        let scan = Scan { start: &start, end: &end, guard: None, limit: 1 };
        if !transaction.scan(scan).await?.is_empty() {
            return Ok(true);
        }
        let (mut start, end) = self.keys.chunks(object, BlockIndex(0)..BlockIndex(u64::MAX));
        loop {
            let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
            let scan = Scan { start: &start, end: &end, guard: None, limit: CHUNKS };
            let rows = transaction.scan(scan).await?;
            for (_, row) in &rows {
                if self.chunk(object, Some(row))?.iter().any(|(_, entry)| entry.origin.is_some()) {
                    return Ok(true);
                }
            }
            match rows.last() {
                Some((last, _)) if rows.len() == CHUNKS => start = [&last[..], &[0]].concat().into(),
                _ => return Ok(false),
            }
        }
    }

    /// The number of the same policy for files with another block size: that of a file never changes.
    async fn with_block_size(
        &self,
        policy: u32,
        shift: BlockShift,
        known: &mut OfBlockSize,
    ) -> Result<u32, VolumeError> {
        if let Some(number) = known.get(&(policy, shift)) {
            return Ok(*number);
        }
        let wanted = self.policy(policy)?;
        let number = match wanted.block_shift() == shift {
            true => policy,
            false => {
                let Policy { placement, protection } = &*wanted;
                let placement = Placement::new(placement.scheme(), placement.clouds().to_vec(), shift);
                let placement =
                    placement.map_err(|cause| VolumeError::Missing { what: cause.to_string() })?;
                self.policy_number(&Policy { placement, protection: *protection }).await?
            }
        };
        known.insert((policy, shift), number);
        Ok(number)
    }

    async fn send_all(&self, files: &mut Sent) -> Result<(), VolumeError> {
        for part in files.chunks(FILES) {
            match self.send(part).await {
                // Others are always at some of them: one at a time then.
                Err(VolumeError::Meta(MetaError::Conflict)) => {
                    for one in part.chunks(1) {
                        self.send(one).await?;
                    }
                }
                sent => sent?,
            }
        }
        files.clear();
        Ok(())
    }

    /// Gives files their new policy.
    async fn send(&self, files: &[(ObjectId, u32)]) -> Result<(), VolumeError> {
        let sent: Result<(), VolumeError> = upkeep_transaction!(self.node, |transaction| {
            for &(object, new) in files {
                let Some(row) = transaction.get(&self.keys.inode(object)).await? else { continue };
                let mut inode = self.inode(object, &row)?;
                let bytes = inode.attributes.space_used;
                let Special::File { policy, .. } = &mut inode.special else { continue };
                *policy = new;
                transaction.put(self.keys.inode(object), inode.encode());
                // What is just being stored by the old policy is not committed any more.
                transaction.touch(&self.keys.cut(object));
                self.note_migrating(transaction, object, bytes).await?;
            }
            environment::failpoint!("migration.before-send");
            Ok(())
        });
        environment::failpoint!("migration.sent");
        sent
    }
}
