//! Policies of directories: what is made in one of them, and below it, is stored otherwise than the rest of the volume (`K33`).

use std::collections::BTreeMap;
use std::sync::Arc;

use file_system::FileKind;
use ids::ObjectId;
use meta::Scan;

use crate::VolumeError;
use crate::keys::Keys;
use crate::row::{BadRow, Inode, Policy, RowReader, RowWriter, Special};
use crate::volume::{Inner, Volume};

const FORMAT: u8 = 1;
/// Directories with a policy of their own, in one volume; all of them are in memory.
pub(crate) const MAX_DIRECTORIES: usize = 1024;
/// Directories that are looked at on the way up. Deeper ones follow the volume.
const LEVELS: usize = 4096;

impl Volume {
    /// The directories with a policy of their own. Those that were removed meanwhile may be among them.
    pub fn directory_policies(&self) -> Vec<(ObjectId, Arc<Policy>)> {
        let policies = self.inner.policies.read();
        let directories = self.inner.directories.read();
        let known = directories.iter().filter_map(|(object, id)| Some((*object, policies.get(id)?.clone())));
        known.collect()
    }
}

/// Of a directory's row.
pub(crate) fn encode_directory_policy(policy: u32) -> bytes::Bytes {
    let mut row = RowWriter::new(FORMAT);
    row.number(u64::from(policy));
    row.finish()
}

pub(crate) fn decode_directory_policy(row: &[u8]) -> Result<u32, BadRow> {
    let mut reader = RowReader::new(row, FORMAT)?;
    let policy = reader.number32()?;
    reader.end()?;
    Ok(policy)
}

pub(crate) async fn read_directories(
    keys: Keys,
    transaction: &mut dyn meta::Transaction,
) -> Result<BTreeMap<ObjectId, u32>, VolumeError> {
    let (start, end) = keys.directory_policies();
    let scan = Scan { start: &start, end: &end, guard: None, limit: usize::MAX };
    let damaged = |cause| VolumeError::Damaged { what: "the policy of a directory".into(), cause };
    let mut directories = BTreeMap::new();
    for (key, row) in transaction.scan(scan).await? {
        let object = Keys::orphan_of(&key).ok_or_else(|| damaged(BadRow("a key of the wrong length")))?;
        directories.insert(object, decode_directory_policy(&row).map_err(damaged)?);
    }
    Ok(directories)
}

impl Inner {
    /// The policy of a file that is made in `directory`: that of the nearest directory above it which has one, or the volume's.
    /// `known` are inodes that the caller's transaction has read or made; others are read beside it, so that
    /// whoever makes files does not meet those who change directories further up.
    pub async fn policy_of_files_in(
        &self,
        directory: ObjectId,
        known: impl Fn(ObjectId) -> Option<Special>,
    ) -> Result<u32, VolumeError> {
        let volume = self.record.read().policy;
        let directories = self.directories.read().clone();
        if directories.is_empty() {
            return Ok(volume);
        }
        let mut beside = self.node.store.begin(meta::Mode::Optimistic).await?;
        let mut at = directory;
        for _ in 0..LEVELS {
            if let Some(policy) = directories.get(&at) {
                return Ok(*policy);
            }
            let special = match known(at) {
                Some(special) => special,
                None => match beside.get(&self.keys.inode(at)).await? {
                    Some(row) => self.inode(at, &row)?.special,
                    None => break,
                },
            };
            match special {
                Special::Directory { parent, .. } if parent != at => at = parent,
                _ => break,
            }
        }
        Ok(volume)
    }

    /// The directory at a path.
    pub async fn directory_at(
        &self,
        transaction: &mut dyn meta::Transaction,
        path: &str,
    ) -> Result<ObjectId, VolumeError> {
        let found: Option<(ObjectId, Inode)> = self.resolve(transaction, path).await?;
        match found {
            Some((object, inode)) if inode.attributes.kind == FileKind::Directory => Ok(object),
            _ => Err(VolumeError::NoDirectory(path.to_owned())),
        }
    }
}
