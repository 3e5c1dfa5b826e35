//! Stored versions of blocks: who shares them, what waits for its deletion, what they hold, what is on its way.

use file_system::FileKind;
use ids::BlockIndex;

use super::Check;
use crate::VolumeError;
use crate::keys::Keys;
use crate::row::{AttemptRow, CHUNK_BLOCKS, Content, Origin, Share, ShareRow, decode_stored_as};

impl Check<'_> {
    /// After the objects: every count is that of the blocks that were found.
    pub(super) async fn shares(&mut self) -> Result<(), VolumeError> {
        let mut counted = std::mem::take(&mut self.clones);
        let mut range = Some(self.inner.keys.all_shares());
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (key, row) in rows {
                let (Some((object, number)), Ok(row)) = (Keys::shares_of(&key), ShareRow::decode(&row))
                else {
                    self.find(None, "a row of shared blocks is damaged");
                    continue;
                };
                if let Err(error) = self.inner.open_names(object, &row.key) {
                    self.find(object, format!("shared blocks: {error}"));
                }
                let is_known = |share: &Share| self.inner.policy(share.policy).is_ok();
                if row.shares.is_empty() || !row.shares.values().all(is_known) {
                    self.find(object, "a row of shared blocks with nothing in it or without a policy");
                }
                for (&(index, version), share) in &row.shares {
                    let block = BlockIndex(number * CHUNK_BLOCKS + index);
                    let origin = Origin { object, block, version };
                    self.share(origin, share, counted.remove(&origin).unwrap_or(0)).await?;
                }
            }
            range = more;
        }
        for (Origin { object, block, version }, count) in counted {
            self.find(
                object,
                format!(
                    "version {version} of block {block} is shared by {count} blocks, and not in the books"
                ),
            );
        }
        Ok(())
    }

    async fn share(&mut self, origin: Origin, share: &Share, found: u64) -> Result<(), VolumeError> {
        let Origin { object, block, version } = origin;
        let mut transaction = self.inner.node.store.begin(meta::Mode::Optimistic).await?;
        let entry = self.inner.block_entry(&mut *transaction, object, block).await?;
        let own = entry.filter(|entry| entry.is_own(version));
        if let Some(wanted) = self.wanted.get(&origin).copied().filter(|wanted| *wanted != share.policy) {
            let stored_by = share.policy;
            self.find(
                object,
                format!(
                    "version {version} of block {block} is stored by policy {stored_by}, files that share it have {wanted}"
                ),
            );
        }
        if share.clones != found {
            let said = share.clones;
            self.find(
                object,
                format!(
                    "version {version} of block {block} is shared by {found} blocks, the books say {said}"
                ),
            );
        }
        if share.own != own.is_some() {
            self.find(
                object,
                format!("the books are wrong about who holds version {version} of block {block}"),
            );
        }
        if own.is_some_and(|own| (own.creator, own.seal) != (share.creator, share.seal)) {
            self.find(object, format!("version {version} of block {block} is sealed twice"));
        }
        Ok(())
    }

    pub(super) async fn garbage(&mut self) -> Result<(), VolumeError> {
        let mut range = Some(self.inner.keys.garbage_until(None));
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (_, row) in rows {
                let Ok(garbage) = crate::row::GarbageRow::decode(&row) else {
                    self.find(None, "an entry of the garbage is damaged");
                    continue;
                };
                let object = garbage.object;
                let policy = self.inner.policy(garbage.policy);
                let is_shared = policy.is_ok_and(|policy| policy.placement.scheme().is_convergent());
                for version in garbage.versions {
                    let mut transaction = self.inner.node.store.begin(meta::Mode::Optimistic).await?;
                    let origin = Origin { object, block: version.block, version: version.version };
                    let packed = self.inner.packed_row(&mut *transaction, origin).await;
                    // A damaged one has been found.
                    let packed = packed.ok().flatten();
                    if is_shared || packed.is_some_and(|row| row.is_of(version.creator, version.seal)) {
                        self.leaving.insert(origin);
                    }
                    let held = self.inner.held_sealing(&mut *transaction, origin).await?;
                    // The same number may have been used again after a crash.
                    if held == Some((version.creator, version.seal)) {
                        self.find(
                            object,
                            format!(
                                "version {} of block {} is held and is garbage",
                                version.version, version.block
                            ),
                        );
                    }
                }
            }
            range = more;
        }
        Ok(())
    }

    /// After the garbage: what is said of a content is said of a version that is held, or waits for its deletion.
    pub(super) async fn contents(&mut self) -> Result<(), VolumeError> {
        let mut range = Some(self.inner.keys.contents_of_all());
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (key, row) in rows {
                let (Some((object, block, version)), Ok(_)) = (Keys::repair_of(&key), Content::decode(&row))
                else {
                    self.find(None, "what a version holds is damaged");
                    continue;
                };
                let origin = Origin { object, block, version };
                let mut transaction = self.inner.node.store.begin(meta::Mode::Optimistic).await?;
                let held = self.inner.held_sealing(&mut *transaction, origin).await?;
                if held.is_none() && !self.leaving.contains(&origin) {
                    self.find(
                        object,
                        format!("version {version} of block {block} is gone, its content is known"),
                    );
                }
            }
            range = more;
        }
        let mut range = Some(self.inner.keys.all_contents());
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (key, row) in rows {
                let (Some(content), Ok(sealed)) = (Keys::content_at(&key), decode_stored_as(&row)) else {
                    self.find(None, "where a content is stored is damaged");
                    continue;
                };
                let known = self.get(&self.inner.keys.content_of(sealed.origin)).await?;
                if known.is_none_or(|row| Content::decode(&row) != Ok(content)) {
                    let Origin { object, block, version } = sealed.origin;
                    self.find(object, format!("version {version} of block {block} holds another content"));
                }
            }
            range = more;
        }
        Ok(())
    }

    /// After the objects: what is on its way to the clouds belongs to a file, and is not current.
    pub(super) async fn attempts(&mut self) -> Result<(), VolumeError> {
        let mut range = Some(self.inner.keys.all_attempts());
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (key, row) in rows {
                let (Some((object, block)), Ok(row)) = (Keys::attempts_at(&key), AttemptRow::decode(&row))
                else {
                    self.find(None, "a note of what is on its way to the clouds is damaged");
                    continue;
                };
                let file = self.nodes.get(&object);
                if !file.is_some_and(|node| node.has_inode && node.kind == FileKind::Regular) {
                    self.find(
                        object,
                        format!("block {block} is on its way to the clouds, and there is no such file"),
                    );
                }
                for version in row.versions(block) {
                    let mut transaction = self.inner.node.store.begin(meta::Mode::Optimistic).await?;
                    let origin = Origin { object, block, version: version.version };
                    let held = self.inner.held_sealing(&mut *transaction, origin).await?;
                    if held == Some((version.creator, version.seal)) {
                        let version = version.version;
                        self.find(
                            object,
                            format!("version {version} of block {block} is held and not settled"),
                        );
                    }
                }
            }
            range = more;
        }
        Ok(())
    }
}
