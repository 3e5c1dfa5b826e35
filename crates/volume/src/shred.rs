//! Crypto-shredding: the keys of files are destroyed, so that what clouds have of them stays noise (decision 27).
//!
//! In the place of a file's key comes what tells the names of its fragments, and no more: they can be deleted, and nobody can open them.

mod policies;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cache::DataOp;
use environment::failpoint;
use file_system::{Caller, CommitMode, FileKind, FileSystem, FsError, Mode, Name};
use ids::ObjectId;
use meta::{Attachment, Scan};
use seal::KeyEpoch;

use crate::VolumeError;
use crate::keys::{KeyRange, Keys, ObjectRow};
use crate::node::upkeep_transaction;
use crate::row::{BadRow, Chunk, GarbageRow, KeyRow, Origin, PackNote, ShareRow, Special};
use crate::transaction::Entry;
use crate::volume::{Inner, Volume};

/// Files that can be shredded at once.
const MAX_FILES: usize = 1 << 20;
/// Rows looked at in one transaction.
const ROWS: usize = 512;
/// Tries of a change against others.
const TRIES: usize = 64;

/// What is to be shredded, as it was looked through.
#[derive(Clone, Debug, Default)]
pub struct Shredding {
    /// The files, in the order of their numbers.
    pub files: BTreeSet<ObjectId>,
    /// Files that are gone, of which some of these hold blocks.
    ghosts: BTreeSet<ObjectId>,
    /// What is to be removed, leaves first: the directory, and the name in it.
    names: Vec<(ObjectId, Name)>,
    /// Bytes of the files.
    pub bytes: u64,
    /// Files that share blocks or names with those that were asked for, and are to be shredded with them.
    pub sharing: BTreeSet<ObjectId>,
    /// Versions of their blocks that lie in packs, beside blocks of other files (decision 25): the clouds keep them until these go or are cleaned.
    pub packed: u64,
    /// Ids of the files' keys, sorted; [`seal::FileKey::id`].
    pub keys: Vec<[u8; 16]>,
    /// Whether it is the whole volume.
    pub is_volume: bool,
}

/// Which objects hold blocks that were stored for which others.
#[derive(Default)]
struct Links {
    of: BTreeMap<ObjectId, BTreeSet<ObjectId>>,
}

impl Links {
    fn add(&mut self, one: ObjectId, other: ObjectId) {
        self.of.entry(one).or_default().insert(other);
        self.of.entry(other).or_default().insert(one);
    }

    /// All that hang together with these.
    fn closure(&self, from: &BTreeSet<ObjectId>) -> BTreeSet<ObjectId> {
        let (mut all, mut next) = (from.clone(), from.iter().copied().collect::<Vec<_>>());
        while let Some(object) = next.pop() {
            let others = self.of.get(&object).into_iter().flatten();
            next.extend(others.copied().filter(|other| all.insert(*other)));
        }
        all
    }
}

impl Volume {
    /// Looks through what is at a path, from the root of the volume, or through all of the volume. With it goes whatever shares blocks or names with
    /// it: that is [`Shredding::sharing`].
    ///
    /// # Errors
    /// There is nothing, or it cannot be shredded alone.
    pub async fn survey_shredding(&self, path: Option<&str>) -> Result<Shredding, VolumeError> {
        let inner = &self.inner;
        let mut shredding = Shredding { is_volume: path.is_none(), ..Shredding::default() };
        match path {
            None => shredding.files = inner.all_files().await?,
            Some(path) => inner.survey_below(path, &mut shredding).await?,
        }
        let asked = shredding.files.clone();
        let links = inner.links().await?;
        for object in links.closure(&asked) {
            if inner.has_inode(object).await? {
                shredding.files.insert(object);
            } else {
                shredding.ghosts.insert(object);
            }
        }
        if !shredding.is_volume {
            inner.other_names(&mut shredding).await?;
        }
        shredding.sharing = shredding.files.difference(&asked).copied().chain(shredding.sharing).collect();
        inner.measure(&mut shredding).await?;
        Ok(shredding)
    }

    /// Destroys the keys of these files. Durable when it returns; may be called again. From then on nothing of them can be read here, whoever has
    /// them open. Copies of the keys are still in backups and dumps, under keys of epochs that have to be destroyed after this.
    ///
    /// # Errors
    /// The metadata store failed; what was done is done.
    pub async fn shred_keys(&self, shredding: &Shredding) -> Result<(), VolumeError> {
        let inner = &self.inner;
        let files: Vec<ObjectId> = shredding.files.iter().copied().collect();
        for part in files.chunks(ROWS / 8) {
            inner.shred_rows(part).await?;
        }
        if shredding.is_volume {
            // As keys are copied: from notes of packs to the books, and from these to the garbage.
            inner.shred_all(inner.keys.pack_notes(), shredding).await?;
            inner.shred_all(inner.keys.all_shares(), shredding).await?;
        } else {
            for object in shredding.files.iter().chain(&shredding.ghosts) {
                inner.shred_all(inner.keys.shares_of_object(*object), shredding).await?;
            }
        }
        inner.shred_all(inner.keys.garbage_until(None), shredding).await?;
        for object in &shredding.files {
            inner.node.cache.evict(inner.file_key(*object));
        }
        Ok(())
    }

    /// Removes the names of these files and directories; what is open then is taken apart when it is closed. May be called again.
    ///
    /// # Errors
    /// A directory has got new entries meanwhile, or the metadata store failed.
    pub async fn remove_shredded(&self, shredding: &Shredding) -> Result<(), VolumeError> {
        for (directory, name) in &shredding.names {
            let mut tries = 0;
            loop {
                let removed = async {
                    let mut transaction = self.begin(&Caller::root(), Mode::Optimistic).await?;
                    transaction.remove(self.inner.file(*directory), name).await?;
                    transaction.commit(CommitMode::Visible).await
                };
                match removed.await {
                    Ok(_) | Err(FsError::NotFound | FsError::Stale) => break,
                    Err(FsError::Conflict) if tries < TRIES => tries += 1,
                    Err(error) => {
                        return Err(VolumeError::NotRemoved {
                            name: String::from_utf8_lossy(name.as_bytes()).into_owned(),
                            cause: format!("{error:?}"),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// Begins a new epoch, puts every key under its key, and destroys the keys of all epochs before. Unless `keep` says otherwise nothing that was sealed
    /// before can be opened afterwards.
    ///
    /// # Errors
    /// The metadata store failed; may be called again.
    pub async fn renew_epoch(&self, keep: bool) -> Result<KeyEpoch, VolumeError> {
        let epoch = self.inner.begin_epoch().await?;
        self.inner.keeps_contents.store(keep, std::sync::atomic::Ordering::Relaxed);
        while self.key_progress().old_epochs > 0 {
            self.rekey().await?;
        }
        self.inner.prove_old_keys_gone(epoch).await?;
        let epochs = &self.inner.epochs;
        let old: Vec<KeyEpoch> = match keep {
            true => epochs.old(),
            false => epochs.sealed_in().into_iter().filter(|of| *of < epoch).collect(),
        };
        epochs.forget(&old, !keep);
        Ok(epoch)
    }
}

impl Inner {
    async fn page(
        &self,
        (start, end): &KeyRange,
    ) -> Result<(Vec<(Bytes, Bytes)>, Option<KeyRange>), VolumeError> {
        let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
        let rows = transaction.scan(Scan { start, end, guard: None, limit: ROWS }).await?;
        let next = match rows.last() {
            Some((last, _)) if rows.len() == ROWS => Some(([&last[..], &[0]].concat().into(), end.clone())),
            _ => None,
        };
        Ok((rows, next))
    }

    async fn has_inode(&self, object: ObjectId) -> Result<bool, VolumeError> {
        let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
        Ok(transaction.get(&self.keys.inode(object)).await?.is_some())
    }

    /// All regular files, also those without a name.
    async fn all_files(&self) -> Result<BTreeSet<ObjectId>, VolumeError> {
        let (mut files, mut range) = (BTreeSet::new(), Some(self.keys.objects()));
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (key, _) in &rows {
                if let Some((object, ObjectRow::Key)) = Keys::object_row(key) {
                    files.insert(object);
                }
            }
            range = more;
        }
        Ok(files)
    }

    /// What is at a path and below it.
    async fn survey_below(&self, path: &str, shredding: &mut Shredding) -> Result<(), VolumeError> {
        let nothing = || VolumeError::NoFile(path.to_owned());
        let trimmed = path.trim_matches('/');
        let (folder, name) = trimmed.rsplit_once('/').unwrap_or(("", trimmed));
        let name = Name::new(Bytes::copy_from_slice(name.as_bytes())).map_err(|_| nothing())?;
        let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
        let directory = self.directory_at(&mut *transaction, folder).await?;
        let (top, inode) = self.resolve(&mut *transaction, trimmed).await?.ok_or_else(nothing)?;
        drop(transaction);
        let mut names = vec![(directory, name)];
        let mut folders = Vec::new();
        match inode.attributes.kind {
            FileKind::Directory => folders.push(top),
            FileKind::Regular => drop(shredding.files.insert(top)),
            _ => {}
        }
        // Names are found from the top, and removed in the opposite order.
        while let Some(folder) = folders.pop() {
            let mut range = Some(self.keys.cookies_behind(folder, 0));
            while let Some(next) = range {
                let (rows, more) = self.page(&next).await?;
                for (_, row) in &rows {
                    let entry = Entry::decode_listed(row);
                    let (object, name) = entry.map_err(self.damaged("an entry of directory", folder))?;
                    names.push((folder, name));
                    let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
                    let Some(row) = transaction.get(&self.keys.inode(object)).await? else { continue };
                    match self.inode(object, &row)?.attributes.kind {
                        FileKind::Directory => folders.push(object),
                        FileKind::Regular => drop(shredding.files.insert(object)),
                        _ => {}
                    }
                    if shredding.files.len() > MAX_FILES {
                        return Err(VolumeError::TooMuchToShred { files: MAX_FILES });
                    }
                }
                range = more;
            }
        }
        names.reverse();
        shredding.names = names;
        Ok(())
    }

    /// Who shares blocks with whom, of all files; packs are no files.
    async fn links(&self) -> Result<Links, VolumeError> {
        let (mut links, mut range) = (Links::default(), Some(self.keys.objects()));
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (key, row) in &rows {
                let Some((object, ObjectRow::Chunk(_))) = Keys::object_row(key) else { continue };
                let chunk = Chunk::decode(row).map_err(self.damaged("the block map of object", object))?;
                let origins = chunk.iter().filter_map(|(_, entry)| entry.origin);
                origins.for_each(|Origin { object: origin, .. }| links.add(object, origin));
            }
            range = more;
        }
        Ok(links)
    }

    /// Names of files that are to be shredded, elsewhere in the volume: they go, too.
    async fn other_names(&self, shredding: &mut Shredding) -> Result<(), VolumeError> {
        let known: BTreeSet<(ObjectId, Name)> = shredding.names.iter().cloned().collect();
        let (mut found, mut range) = (Vec::new(), Some(self.keys.objects()));
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            for (key, row) in &rows {
                let Some((directory, ObjectRow::Name(name))) = Keys::object_row(key) else { continue };
                let entry = Entry::decode(row).map_err(self.damaged("an entry of directory", directory))?;
                let Ok(name) = Name::new(name) else { continue };
                if shredding.files.contains(&entry.object) && !known.contains(&(directory, name.clone())) {
                    shredding.sharing.insert(entry.object);
                    found.push((directory, name));
                }
            }
            range = more;
        }
        found.append(&mut shredding.names);
        shredding.names = found;
        Ok(())
    }

    /// What the files are and have, and whether shredding them makes sense.
    async fn measure(&self, shredding: &mut Shredding) -> Result<(), VolumeError> {
        for &object in &shredding.files {
            let mut transaction = self.node.store.begin(meta::Mode::Optimistic).await?;
            let Some(row) = transaction.get(&self.keys.inode(object)).await? else { continue };
            let inode = self.inode(object, &row)?;
            let Special::File { policy, base, .. } = inode.special else { continue };
            let others = self.policies_of_blocks(object).await?;
            for policy in [policy, base].into_iter().chain(others) {
                self.can_be_shredded(object, policy, shredding.is_volume)?;
            }
            shredding.bytes += inode.attributes.size;
            if let Some(row) = self.key_row(&mut *transaction, object).await? {
                shredding.keys.push(self.open_names(object, &row)?.id());
            }
        }
        shredding.keys.sort_unstable();
        self.garbage_can_be_shredded(shredding).await?;
        shredding.packed = self.packed_of(shredding).await?;
        Ok(())
    }

    /// Versions of these files that lie in packs, also those that are garbage.
    async fn packed_of(
        &self,
        Shredding { files, ghosts, is_volume, .. }: &Shredding,
    ) -> Result<u64, VolumeError> {
        let (mut packed, mut range) = (0, Some(self.keys.all_packed()));
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            let objects = rows.iter().filter_map(|(key, _)| Keys::repair_of(key)).map(|(object, ..)| object);
            let of_these =
                |object: &ObjectId| *is_volume || files.contains(object) || ghosts.contains(object);
            packed += objects.filter(of_these).count() as u64;
            range = more;
        }
        Ok(packed)
    }

    /// Destroys the keys of these files, and drops what of them is not in the clouds.
    async fn shred_rows(&self, files: &[ObjectId]) -> Result<(), VolumeError> {
        let epoch = self.epochs.sealing().epoch;
        upkeep_transaction!(self.node, |transaction| {
            for &object in files {
                let Some(row) = self.key_row(transaction, object).await? else { continue };
                let left = self.wrap(object, &self.open_names(object, &row)?, epoch)?;
                transaction.put(self.keys.key(object), left.encode());
                // Whoever commits a block of it that is on its way runs again.
                transaction.touch(&self.keys.cut(object));
                let forget = DataOp::Forget { file: self.file_key(object) };
                transaction.attach(Attachment { descriptor: forget.encode(), payload: Bytes::new() });
            }
            failpoint!("shred.before-keys");
            Ok(())
        })
    }

    /// The same for other rows of a range that belong to what is shredded.
    async fn shred_all(&self, range: KeyRange, shredding: &Shredding) -> Result<(), VolumeError> {
        let epoch = self.epochs.sealing().epoch;
        let mut range = Some(range);
        while let Some(next) = range {
            let (rows, more) = self.page(&next).await?;
            let mut found = Vec::new();
            for (key, row) in &rows {
                if self.shredded(key, row, epoch, shredding)?.is_some() {
                    found.push(key.clone());
                }
            }
            for part in found.chunks(ROWS / 8) {
                let done: Result<(), VolumeError> = upkeep_transaction!(self.node, |transaction| {
                    for key in part {
                        let Some(row) = transaction.get(key).await? else { continue };
                        if let Some(new) = self.shredded(key, &row, epoch, shredding)? {
                            transaction.put(key.clone(), new);
                        }
                    }
                    Ok(())
                });
                done?;
            }
            range = more;
        }
        Ok(())
    }

    /// A row of shares, garbage or a pack without the key of its file; `None` if it belongs to another one.
    fn shredded(
        &self,
        key: &[u8],
        row: &[u8],
        epoch: KeyEpoch,
        Shredding { files, ghosts, is_volume, .. }: &Shredding,
    ) -> Result<Option<Bytes>, VolumeError> {
        let is_of = |object: &ObjectId| *is_volume || files.contains(object) || ghosts.contains(object);
        let left = |object: ObjectId, key: &KeyRow| self.wrap(object, &self.open_names(object, key)?, epoch);
        if let Some(object) = Keys::shares_row(key) {
            let damaged =
                |cause: BadRow| VolumeError::Damaged { what: "a row of shared blocks".into(), cause };
            let shares = ShareRow::decode(row).map_err(damaged)?;
            if !is_of(&object) {
                return Ok(None);
            }
            return Ok(Some(ShareRow { key: left(object, &shares.key)?, ..shares }.encode()));
        }
        if let Some(object) = Keys::pack_note_row(key) {
            let damaged = |cause: BadRow| VolumeError::Damaged { what: "a note of a pack".into(), cause };
            let note = PackNote::decode(row).map_err(damaged)?;
            return Ok(is_of(&object).then_some(PackNote { key: left(object, &note.key)?, ..note }.encode()));
        }
        let damaged = |cause: BadRow| VolumeError::Damaged { what: "an entry of the garbage".into(), cause };
        let garbage = GarbageRow::decode(row).map_err(damaged)?;
        if !is_of(&garbage.object) {
            return Ok(None);
        }
        Ok(Some(GarbageRow { key: left(garbage.object, &garbage.key)?, ..garbage }.encode()))
    }
}
