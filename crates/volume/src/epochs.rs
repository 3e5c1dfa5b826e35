//! Keys of epochs: which there are, which one new blocks are sealed in, and in which one others were (decision 27).
//!
//! A block belongs to the epoch in which it was sealed, and its [`SealId`] tells which that is: an epoch begins with a seal id of its own. The key of
//! its file may be wrapped under any later epoch key, which changes nothing of what is sealed.

use std::collections::HashMap;

use blocks::SealId;
use bytes::Bytes;
use ids::ObjectId;
use meta::Scan;
use parking_lot::RwLock;
use seal::{
    AccessorSetId, ContentKey, EpochIdentity, EpochKey, FileKey, KeyEpoch, WrappedFileKey, open_epoch_key,
    unwrap_content_key, unwrap_file_key, wrap_content_key, wrap_file_key,
};

use crate::VolumeError;
use crate::keys::Keys;
use crate::node::Node;
use crate::row::{BadRow, KeyRow, VolumeRecord};
use crate::volume::Inner;

/// What blocks are sealed with from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SealingEpoch {
    pub epoch: KeyEpoch,
    pub seal: SealId,
}

/// All keys of epochs of a volume that this gateway has.
pub(crate) struct Epochs {
    state: RwLock<State>,
}

struct State {
    accessors: AccessorSetId,
    sealing: SealingEpoch,
    /// File keys are wrapped under these.
    keys: HashMap<KeyEpoch, EpochKey>,
    /// Of every epoch in which something may have been sealed.
    contents: HashMap<KeyEpoch, ContentKey>,
    /// Those that are not of the first epoch.
    seals: HashMap<SealId, KeyEpoch>,
}

impl Epochs {
    /// Reads them.
    pub async fn load(
        node: &Node,
        keys: Keys,
        record: &VolumeRecord,
        transaction: &mut dyn meta::Transaction,
    ) -> Result<Epochs, VolumeError> {
        let VolumeRecord { id: volume, accessors, epoch, ref name, .. } = *record;
        let mut state = State {
            accessors,
            sealing: SealingEpoch { epoch, seal: node.seal },
            keys: HashMap::new(),
            contents: HashMap::new(),
            seals: HashMap::new(),
        };
        for (key, row) in all(transaction, keys.epochs()).await? {
            let Some((set, epoch, gateway)) = Keys::epoch_of(&key) else { continue };
            if (set, gateway) != (accessors, node.gateway) {
                continue;
            }
            let identity = EpochIdentity { volume, accessors, epoch };
            let opened = open_epoch_key(&node.keys.read(), identity, &row).map_err(|cause| {
                VolumeError::Key { what: format!("epoch key {epoch} of volume {name:?}"), cause }
            })?;
            state.contents.insert(epoch, opened.content_key());
            state.keys.insert(epoch, opened);
        }
        for (key, row) in all(transaction, keys.kept_contents()).await? {
            let damaged =
                |cause| VolumeError::Damaged { what: format!("a content key of volume {name:?}"), cause };
            let of =
                Keys::kept_content_of(&key).ok_or(BadRow("a key of the wrong length")).map_err(damaged)?;
            let (under, wrapped) =
                row.split_first_chunk().ok_or(BadRow("a row that is cut off")).map_err(damaged)?;
            let under = KeyEpoch(u32::from_be_bytes(*under));
            let epoch_key = state.keys.get(&under).ok_or_else(|| missing(volume, under))?;
            let content = unwrap_content_key(epoch_key, of, wrapped).map_err(|cause| VolumeError::Key {
                what: format!("content key {of} of volume {name:?}"),
                cause,
            })?;
            state.contents.insert(of, content);
        }
        for (key, row) in all(transaction, keys.sealings()).await? {
            let damaged =
                |cause| VolumeError::Damaged { what: format!("a sealing of volume {name:?}"), cause };
            let seal = Keys::sealing_of(&key).ok_or(BadRow("a key of the wrong length")).map_err(damaged)?;
            let epoch = row[..].try_into().map_err(|_| damaged(BadRow("an epoch of the wrong length")))?;
            state.seals.insert(seal, KeyEpoch(u32::from_be_bytes(epoch)));
        }
        if epoch.0 > 1 {
            state.seals.insert(node.seal, epoch);
        }
        Ok(Epochs { state: RwLock::new(state) })
    }

    /// What blocks are sealed with now.
    pub fn sealing(&self) -> SealingEpoch {
        self.state.read().sealing
    }

    /// In which epoch something was sealed.
    pub fn of(&self, seal: SealId) -> KeyEpoch {
        self.state.read().seals.get(&seal).copied().unwrap_or(KeyEpoch(1))
    }

    /// Epochs whose keys are still there although the present one is another.
    pub fn old(&self) -> Vec<KeyEpoch> {
        let state = self.state.read();
        let mut old: Vec<_> =
            state.keys.keys().copied().filter(|epoch| *epoch != state.sealing.epoch).collect();
        old.sort_unstable();
        old
    }

    /// The epochs with content keys, oldest first.
    pub fn sealed_in(&self) -> Vec<KeyEpoch> {
        let mut all: Vec<_> = self.state.read().contents.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// The key of an epoch.
    pub fn key(&self, epoch: KeyEpoch) -> Option<EpochKey> {
        self.state.read().keys.get(&epoch).cloned()
    }

    /// One more key; nothing is sealed in its epoch before [`Epochs::begin`].
    pub fn add(&self, key: EpochKey) {
        let mut state = self.state.write();
        let epoch = key.identity().epoch;
        state.contents.insert(epoch, key.content_key());
        state.keys.insert(epoch, key);
    }

    /// From now on blocks are sealed like that.
    pub fn begin(&self, sealing: SealingEpoch) {
        let mut state = self.state.write();
        state.seals.insert(sealing.seal, sealing.epoch);
        state.sealing = sealing;
    }

    /// Forgets keys of epochs, and with `contents` all that was sealed in them.
    pub fn forget(&self, epochs: &[KeyEpoch], contents: bool) {
        let mut state = self.state.write();
        state.keys.retain(|epoch, _| !epochs.contains(epoch));
        if contents {
            state.contents.retain(|epoch, _| !epochs.contains(epoch));
        }
    }
}

fn missing(volume: ids::VolumeId, epoch: KeyEpoch) -> VolumeError {
    VolumeError::Missing { what: format!("the key of epoch {epoch} of volume {volume}") }
}

async fn all(
    transaction: &mut dyn meta::Transaction,
    (start, end): crate::keys::KeyRange,
) -> Result<Vec<(Bytes, Bytes)>, VolumeError> {
    let scan = Scan { start: &start, end: &end, guard: None, limit: usize::MAX };
    Ok(transaction.scan(scan).await?)
}

/// The row of a seal id.
pub(crate) fn sealing_row(epoch: KeyEpoch) -> Bytes {
    Bytes::copy_from_slice(&epoch.0.to_be_bytes())
}

impl Inner {
    /// The key of a file, for what was sealed in `epoch`.
    pub fn open_key(&self, object: ObjectId, row: &KeyRow, epoch: KeyEpoch) -> Result<FileKey, VolumeError> {
        match self.key_or_names(object, row, epoch)? {
            key if key.is_shredded() => Err(VolumeError::Shredded { object }),
            key => Ok(key),
        }
    }

    /// The same, or of a shredded file what is left of it.
    pub fn key_or_names(
        &self,
        object: ObjectId,
        row: &KeyRow,
        epoch: KeyEpoch,
    ) -> Result<FileKey, VolumeError> {
        let state = self.epochs.state.read();
        let wrapping = state.keys.get(&row.epoch).filter(|_| row.accessors == state.accessors);
        let wrapping = wrapping.ok_or_else(|| missing(self.id, row.epoch))?;
        let key = unwrap_file_key(wrapping, object, &row.wrapped).map_err(|cause| VolumeError::Key {
            what: format!("key of object {object} of volume {}", self.id),
            cause,
        })?;
        if key.is_shredded() {
            return Ok(key);
        }
        let content = state.contents.get(&epoch).ok_or_else(|| missing(self.id, epoch))?;
        Ok(key.in_epoch(epoch, content))
    }

    /// What tells the names of a file's fragments, in whatever epoch they were sealed.
    pub fn open_names(&self, object: ObjectId, row: &KeyRow) -> Result<FileKey, VolumeError> {
        let wrapping = self.epochs.key(row.epoch).ok_or_else(|| missing(self.id, row.epoch))?;
        let key = unwrap_file_key(&wrapping, object, &row.wrapped).map_err(|cause| VolumeError::Key {
            what: format!("key of object {object} of volume {}", self.id),
            cause,
        })?;
        Ok(if key.is_shredded() { key } else { FileKey::of_shredded(key.name_key()) })
    }

    /// The same key, under the key of `epoch`.
    pub fn rewrap(&self, object: ObjectId, row: &KeyRow, epoch: KeyEpoch) -> Result<KeyRow, VolumeError> {
        let key = self.epochs.key(row.epoch).ok_or_else(|| missing(self.id, row.epoch))?;
        let key = unwrap_file_key(&key, object, &row.wrapped).map_err(|cause| VolumeError::Key {
            what: format!("key of object {object} of volume {}", self.id),
            cause,
        })?;
        self.wrap(object, &key, epoch)
    }

    /// A row with this key, under the key of `epoch`.
    pub fn wrap(&self, object: ObjectId, key: &FileKey, epoch: KeyEpoch) -> Result<KeyRow, VolumeError> {
        let epoch_key = self.epochs.key(epoch).ok_or_else(|| missing(self.id, epoch))?;
        let wrapped = wrap_file_key(&epoch_key, key, object, &*self.node.environment.entropy);
        let wrapped: [u8; WrappedFileKey::LEN] = *wrapped.as_bytes();
        Ok(KeyRow { accessors: epoch_key.identity().accessors, epoch, wrapped })
    }

    /// The epoch that new wraps belong to. Whoever reads it meets the beginning of another one as a conflict.
    pub async fn wrapping_epoch(
        &self,
        transaction: &mut dyn meta::Transaction,
    ) -> Result<KeyEpoch, VolumeError> {
        let row = transaction.get(&self.keys.volume()).await?;
        let missing = || VolumeError::Missing { what: format!("volume {}", self.id) };
        let damaged = |cause| VolumeError::Damaged { what: "a volume".into(), cause };
        Ok(VolumeRecord::decode(&row.ok_or_else(missing)?).map_err(damaged)?.epoch)
    }

    /// The row that keeps the content key of `of` under the key of `epoch`.
    pub fn keep_content(&self, of: KeyEpoch, epoch: KeyEpoch) -> Result<Bytes, VolumeError> {
        let epoch_key = self.epochs.key(epoch).ok_or_else(|| missing(self.id, epoch))?;
        let content = self.epochs.state.read().contents.get(&of).cloned();
        let content = content.ok_or_else(|| missing(self.id, of))?;
        let wrapped = wrap_content_key(&epoch_key, of, &content, &*self.node.environment.entropy);
        Ok([&epoch.0.to_be_bytes()[..], &wrapped[..]].concat().into())
    }
}
