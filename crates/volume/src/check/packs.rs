//! What is packed, and how much of each pack is in use.

use super::Check;
use crate::VolumeError;
use crate::keys::Keys;
use crate::row::{Origin, PACK_VERSION, PackNote, PackUse, PackedRow};

impl Check<'_> {
    /// Before the shares: whatever lies in a pack holds it, and so does its note.
    pub(super) async fn packed(&mut self) -> Result<(), VolumeError> {
        let mut range = Some(self.inner.keys.all_packed());
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (key, row) in rows {
                let (Some((object, block, version)), Ok(row)) =
                    (Keys::repair_of(&key), PackedRow::decode(&row))
                else {
                    self.find(None, "the place of a block in a pack is damaged");
                    continue;
                };
                *self.clones.entry(row.pack()).or_default() += 1;
                *self.in_use.entry(row.pack()).or_default() += u64::from(row.place.len);
                self.packed.push((Origin { object, block, version }, row.sealing));
            }
            range = more;
        }
        let mut range = Some(self.inner.keys.pack_notes());
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (key, row) in rows {
                match (Keys::pack_note_at(&key), PackNote::decode(&row)) {
                    (Some((object, block)), Ok(note)) => {
                        let pack = Origin { object, block, version: PACK_VERSION };
                        *self.clones.entry(pack).or_default() += u64::from(note.in_use);
                    }
                    _ => self.find(None, "a note of a pack is damaged"),
                }
            }
            range = more;
        }
        self.clones.retain(|_, count| *count > 0);
        self.pack_uses().await
    }

    /// What is said to be in use of packs. Of those that were made before schema 6 nothing is said.
    pub(super) async fn pack_uses(&mut self) -> Result<(), VolumeError> {
        let mut range = Some(self.inner.keys.pack_uses());
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (key, row) in rows {
                let (Some((object, block)), Ok(said)) = (Keys::pack_note_at(&key), PackUse::decode(&row))
                else {
                    self.find(None, "how much is in use of a pack is damaged");
                    continue;
                };
                let pack = Origin { object, block, version: PACK_VERSION };
                let found = self.in_use.get(&pack).copied().unwrap_or(0);
                if u64::from(said.live) != found || !self.clones.contains_key(&pack) {
                    let said = said.live;
                    self.find(
                        object,
                        format!("{found} bytes are in use of pack {block}, the books say {said}"),
                    );
                }
            }
            range = more;
        }
        Ok(())
    }

    /// After the garbage: what lies in a pack is held, or waits to let it go.
    pub(super) async fn packed_versions(&mut self) -> Result<(), VolumeError> {
        for (origin, sealing) in std::mem::take(&mut self.packed) {
            let mut transaction = self.inner.node.store.begin(meta::Mode::Optimistic).await?;
            let held = self.inner.held_sealing(&mut *transaction, origin).await?;
            let Origin { object, block, version } = origin;
            if held.is_none() && !self.leaving.contains(&origin) {
                self.find(object, format!("version {version} of block {block} is gone, and holds a pack"));
            }
            if held.zip(sealing).is_some_and(|(held, packed)| held != packed) {
                self.find(object, format!("another sealing of version {version} of block {block} is packed"));
            }
        }
        Ok(())
    }
}
