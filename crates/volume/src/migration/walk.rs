use std::collections::HashMap;

use blocks::Placement;
use bytes::Bytes;
use ids::{BlockShift, ObjectId};
use meta::Scan;

use crate::VolumeError;
use crate::keys::Keys;
use crate::node::upkeep_transaction;
use crate::row::{Policy, Special};
use crate::transaction::Entry;
use crate::volume::{Inner, Volume};

/// Names looked at in one transaction.
const NAMES: usize = 256;
/// Files sent to another policy in one transaction.
const FILES: usize = 64;
/// What the row of a directory says whose files are to be moved: a format.
const ROW: &[u8] = &[1];

impl Volume {
    /// Has all files in the directory at `path` (from the root, parts separated by `/`), and below it, moved to the policy that a file would get that is
    /// made there now. Returns when that is durable; the rest is done in the background, and goes on after a restart.
    pub async fn migrate(&self, path: &str) -> Result<(), VolumeError> {
        let inner = &self.inner;
        let noted: Result<(), VolumeError> = upkeep_transaction!(inner.node, |transaction| {
            let directory = inner.directory_at(transaction, path).await?;
            transaction.put(inner.keys.migration(directory), Bytes::from_static(ROW));
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
            let Some((key, _)) = rows.first() else { return Ok(()) };
            if let Some(directory) = Keys::orphan_of(key) {
                inner.send_all_in(directory).await?;
            }
            environment::failpoint!("migration.found");
            let found: Result<(), VolumeError> = upkeep_transaction!(inner.node, |transaction| {
                transaction.delete(key.clone());
                Ok(())
            });
            found?;
        }
    }
}

/// Files with the number of the policy that they are sent to.
type Sent = Vec<(ObjectId, u32)>;

/// The numbers of policies that differ from others by the block size alone.
type OfBlockSize = HashMap<(u32, BlockShift), u32>;

impl Inner {
    /// Sends all files below a directory to the policies that they would get now. What is renamed meanwhile may be missed; what is made has its
    /// policy already.
    async fn send_all_in(&self, directory: ObjectId) -> Result<(), VolumeError> {
        let policies = self.directories.read().clone();
        let mut left = vec![(directory, self.policy_of_files_in(directory, |_| None).await?)];
        let mut of_size = OfBlockSize::new();
        let mut files = Sent::new();
        if directory == self.root {
            self.send_unnamed(left[0].1, &mut of_size).await?;
        }
        while let Some((directory, policy)) = left.pop() {
            let (mut start, end) = self.keys.names(directory);
            loop {
                let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
                let scan = Scan { start: &start, end: &end, guard: None, limit: NAMES };
                let rows = transaction.scan(scan).await?;
                for (_, row) in &rows {
                    let entry =
                        Entry::decode(row).map_err(self.damaged("an entry of directory", directory))?;
                    let Some(row) = transaction.get(&self.keys.inode(entry.object)).await? else { continue };
                    match self.inode(entry.object, &row)?.special {
                        Special::Directory { .. } => {
                            let own = policies.get(&entry.object).copied();
                            left.push((entry.object, own.unwrap_or(policy)));
                        }
                        Special::File { policy: old, shift, .. } => {
                            let new = self.with_block_size(policy, shift, &mut of_size).await?;
                            files.extend((new != old).then_some((entry.object, new)));
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
    async fn send_unnamed(&self, policy: u32, of_size: &mut OfBlockSize) -> Result<(), VolumeError> {
        let (mut start, end) = self.keys.orphans();
        loop {
            let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
            let scan = Scan { start: &start, end: &end, guard: None, limit: NAMES };
            let (rows, mut files) = (transaction.scan(scan).await?, Sent::new());
            for object in rows.iter().filter_map(|(key, _)| Keys::orphan_of(key)) {
                let Some(row) = transaction.get(&self.keys.inode(object)).await? else { continue };
                if let Special::File { policy: old, shift, .. } = self.inode(object, &row)?.special {
                    let new = self.with_block_size(policy, shift, of_size).await?;
                    files.extend((new != old).then_some((object, new)));
                }
            }
            self.send_all(&mut files).await?;
            match rows.last() {
                Some((last, _)) if rows.len() == NAMES => start = [&last[..], &[0]].concat().into(),
                _ => return Ok(()),
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
            self.send(part).await?;
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
